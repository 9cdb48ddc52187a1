#include "filters/guard.h"
#include "lines.h"

enum { ADDRESSES_WANTED = 2000 };

struct range {
    const char *text;
    enum addr_class class;
};

/* IANA's special-purpose registries as published, with what we make of each row. */
static const struct range v4_ranges[] = {
    {"0.0.0.0/8", ADDR_UNSPECIFIED},
    {"10.0.0.0/8", ADDR_PRIVATE},
    {"100.64.0.0/10", ADDR_PRIVATE},
    {"127.0.0.0/8", ADDR_LOOPBACK},
    {"169.254.0.0/16", ADDR_LINK_LOCAL},
    {"172.16.0.0/12", ADDR_PRIVATE},
    {"192.0.0.0/24", ADDR_RESERVED},
    {"192.0.0.9/32", ADDR_PUBLIC},
    {"192.0.0.10/32", ADDR_PUBLIC},
    {"192.0.2.0/24", ADDR_RESERVED},
    {"192.31.196.0/24", ADDR_PUBLIC},
    {"192.52.193.0/24", ADDR_PUBLIC},
    {"192.88.99.0/24", ADDR_RESERVED},
    {"192.168.0.0/16", ADDR_PRIVATE},
    {"192.175.48.0/24", ADDR_PUBLIC},
    {"198.18.0.0/15", ADDR_RESERVED},
    {"198.51.100.0/24", ADDR_RESERVED},
    {"203.0.113.0/24", ADDR_RESERVED},
    {"224.0.0.0/4", ADDR_MULTICAST},
    {"240.0.0.0/4", ADDR_RESERVED},
    {"255.255.255.255/32", ADDR_BROADCAST},
    {"100.100.100.200/32", ADDR_METADATA},
    {"168.63.129.16/32", ADDR_METADATA},
    {"192.0.0.192/32", ADDR_METADATA},
    {"169.254.0.23/32", ADDR_METADATA},
    {"169.254.42.42/32", ADDR_METADATA},
    {"169.254.169.253/32", ADDR_METADATA},
    {"169.254.169.254/32", ADDR_METADATA},
    {"169.254.170.2/32", ADDR_METADATA},
    {"169.254.170.23/32", ADDR_METADATA},
    {"8.8.8.0/24", ADDR_PUBLIC},
    {NULL, ADDR_PUBLIC},
};

static const struct range v6_ranges[] = {
    {"::/0", ADDR_RESERVED},
    {"2000::/3", ADDR_PUBLIC},
    {"::/128", ADDR_UNSPECIFIED},
    {"::1/128", ADDR_LOOPBACK},
    {"64:ff9b:1::/48", ADDR_RESERVED},
    {"100::/64", ADDR_RESERVED},
    {"100:0:0:1::/64", ADDR_RESERVED},
    {"2001::/23", ADDR_RESERVED},
    {"2001:1::1/128", ADDR_PUBLIC},
    {"2001:1::2/128", ADDR_PUBLIC},
    {"2001:1::3/128", ADDR_PUBLIC},
    {"2001:2::/48", ADDR_RESERVED},
    {"2001:3::/32", ADDR_PUBLIC},
    {"2001:4:112::/48", ADDR_PUBLIC},
    {"2001:10::/28", ADDR_RESERVED},
    {"2001:20::/28", ADDR_PUBLIC},
    {"2001:30::/28", ADDR_PUBLIC},
    {"2001:db8::/32", ADDR_RESERVED},
    {"2620:4f:8000::/48", ADDR_PUBLIC},
    {"3fff::/20", ADDR_RESERVED},
    {"5f00::/16", ADDR_RESERVED},
    {"fc00::/7", ADDR_PRIVATE},
    {"fe80::/10", ADDR_LINK_LOCAL},
    {"fec0::/10", ADDR_PRIVATE},
    {"ff00::/8", ADDR_MULTICAST},
    {"fd00:ec2::/32", ADDR_METADATA},
    {"fd20:ce::254/128", ADDR_METADATA},
    {"fd00:c1::a9fe:a9fe/128", ADDR_METADATA},
    {"fd00:42::42/128", ADDR_METADATA},
    {"fd00:a9fe:a9fe::1/128", ADDR_METADATA},
    {"fd00:100::100:200/128", ADDR_METADATA},
    {"fe80::a9fe:a9fe/128", ADDR_METADATA},
    {NULL, ADDR_PUBLIC},
};

/* Where an IPv4 address stands in IPv6. */
struct form {
    const char *text; /* with 0.0.0.0 inside */
    unsigned offset;
    bool inverted, refused;
};

static const struct form forms[] = {
    {"::ffff:0:0:0", 12, false, false},                   /* translated */
    {"::", 12, false, false},                             /* compatible */
    {"64:ff9b::", 12, false, false},                      /* NAT64 */
    {"64:ff9b:1::", 12, false, true},                     /* NAT64 of a local network */
    {"64:ff9b:1:abcd::", 12, false, true},                /* the same, another prefix of it */
    {"2002::", 2, false, false},                          /* 6to4 */
    {"2002:0:0:1::5", 2, false, false},                   /* 6to4, a host of a subnet */
    {"2001:0:808:808:0:1234:ffff:ffff", 12, true, false}, /* Teredo */
    {"2002:0:0:ffff:ffff:ffff:ffff:ffff", 2, false, false},
    {"2001::ffff:ffff", 12, true, false},          /* Teredo without a server */
    {"2606:4700::5efe:0:0", 12, false, false},     /* ISATAP */
    {"2606:4700::200:5efe:0:0", 12, false, false}, /* ISATAP, globally unique */
};

static unsigned checked;

static enum addr_class expected(const struct range *ranges, const struct addr *addr)
{
    enum addr_class class = ADDR_PUBLIC;
    int longest = -1;
    for (const struct range *range = ranges; range->text != NULL; range++) {
        struct cidr cidr;
        assert_true(cidr_parse(&cidr, str_of(range->text)));
        if (cidr_contains(&cidr, addr) && cidr.len > longest) {
            longest = cidr.len;
            class = range->class;
        }
    }
    return class;
}

static void check(const struct addr *addr, enum addr_class want)
{
    char text[ADDR_TEXT_MAX];
    enum addr_class got = addr_classify(addr);
    if (got != want)
        fail_msg("%s is %s, wanted %s", addr_format(text, addr), addr_class_text(got),
                 addr_class_text(want));
    checked++;
}

static void check_embedded(const struct addr *v4, enum addr_class want)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct addr v6;
        assert_true(addr_parse(&v6, str_of(forms[i].text)));
        for (size_t b = 0; b < 4; b++)
            v6.bytes[forms[i].offset + b] =
                (uint8_t)(forms[i].inverted ? ~v4->bytes[b] : v4->bytes[b]);
        bool itself = expected(v6_ranges, &v6) == ADDR_LOOPBACK; /* ::0.0.0.1 */
        check(&v6, itself ? ADDR_LOOPBACK : forms[i].refused ? ADDR_RESERVED : want);
    }
}

/* addr + 1 or - 1, wrapping. */
static void step(struct addr *addr, int by)
{
    for (int i = addr->family == 4 ? 3 : 15; i >= 0; i--) {
        addr->bytes[i] = (uint8_t)(addr->bytes[i] + by);
        if (addr->bytes[i] != (by > 0 ? 0x00 : 0xff))
            return;
    }
}

static struct addr last_of(const struct cidr *range)
{
    struct addr last = range->base;
    for (unsigned bit = range->len; bit < (last.family == 4 ? 32u : 128u); bit++)
        last.bytes[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
    return last;
}

static void check_edges(const struct range *ranges, void (*each)(const struct addr *addr))
{
    for (const struct range *range = ranges; range->text != NULL; range++) {
        struct cidr cidr;
        assert_true(cidr_parse(&cidr, str_of(range->text)));
        struct addr edges[5] = {cidr.base, cidr.base, last_of(&cidr), last_of(&cidr), cidr.base};
        step(&edges[1], -1);
        step(&edges[3], +1);
        size_t last_byte = cidr.base.family == 4 ? 3 : 15;
        edges[4].bytes[last_byte] = (uint8_t)(edges[4].bytes[last_byte] | 0x55);
        for (size_t i = 0; i < 5; i++)
            each(&edges[i]);
    }
}

static void check_v4(const struct addr *addr)
{
    enum addr_class want = expected(v4_ranges, addr);
    check(addr, want);
    check_embedded(addr, want);
}

static void check_v6(const struct addr *addr)
{
    struct addr inner;
    enum addr_class want = expected(v6_ranges, addr);
    if (addr_embedded_v4(addr, &inner) && want != ADDR_LOOPBACK && want != ADDR_UNSPECIFIED) {
        enum addr_class of_inner = expected(v4_ranges, &inner);
        bool local = addr->bytes[0] == 0 && addr->bytes[1] == 0x64 && addr->bytes[5] == 1;
        check(addr, local ? ADDR_RESERVED : of_inner);
        return;
    }
    check(addr, want);
}

static void test_both_edges_of_every_range_in_every_form(void **state)
{
    (void)state;
    check_edges(v4_ranges, check_v4);
    check_edges(v6_ranges, check_v6);
    assert_true(checked >= ADDRESSES_WANTED);
}

static void test_every_class_has_words(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ADDR_CLASS_COUNT; i++)
        assert_non_null(addr_class_text((enum addr_class)i));
}

/* -- guard_check -- */

static struct target target_of(const char *text)
{
    struct target target;
    assert_true(target_parse(&target, str_of(text), NULL));
    return target;
}

static struct addr addr_of(const char *text)
{
    struct addr addr;
    assert_true(addr_parse(&addr, str_of(text)));
    return addr;
}

static enum addr_class vet(const struct policy *policy, const struct guard_host *host,
                           const char *asked, const char *resolved)
{
    struct target target = target_of(asked);
    struct addr addr = addr_of(resolved);
    struct question question = {.target = &target};
    struct ruling ruling = policy_judge(policy, &question);
    assert_int_equal(ruling.outcome, OUTCOME_ALLOWED);
    return guard_check(host, &ruling, &target, &addr).class;
}

static void test_addresses_of_this_machine(void **state)
{
    (void)state;
    struct addr own[] = {addr_of("198.51.100.9"), addr_of("8.8.4.4"), addr_of("2600::9"),
                         addr_of("10.9.9.9"), addr_of("127.0.0.1")};
    struct guard_host host = {.own_addrs = own, .own_addr_count = 5};
    struct policy *policy = good_policy("default = allow\nprivate-addresses = allow\n"
                                        "allow-addresses = 2600::9\nallow = 8.8.4.4:81");
    assert_int_equal(vet(policy, &host, "a.test:443", "8.8.8.8"), ADDR_PUBLIC);
    assert_int_equal(vet(policy, &host, "a.test:443", "8.8.4.4"), ADDR_THIS_HOST);
    assert_int_equal(vet(policy, &host, "8.8.4.4:443", "8.8.4.4"), ADDR_THIS_HOST);
    assert_int_equal(vet(policy, &host, "a.test:443", "64:ff9b::8.8.4.4"), ADDR_THIS_HOST);
    assert_int_equal(vet(policy, &host, "a.test:443", "10.9.9.9"), ADDR_THIS_HOST);
    assert_int_equal(vet(policy, &host, "a.test:443", "10.9.9.8"), ADDR_PUBLIC);
    assert_int_equal(vet(policy, &host, "a.test:443", "127.0.0.1"), ADDR_LOOPBACK);
    assert_int_equal(vet(policy, &host, "a.test:443", "2600::9"), ADDR_PUBLIC);
    assert_int_equal(vet(policy, &host, "8.8.4.4:81", "8.8.4.4"), ADDR_PUBLIC);
    policy_free(policy);
}

static void test_own_listeners_are_never_reachable(void **state)
{
    (void)state;
    struct addr own[] = {addr_of("10.9.9.9")};
    struct config_address listeners[] = {
        {.addr = addr_of("127.0.0.1"), .port = 3128},
        {.addr = addr_of("::"), .port = 8080},
        {.path = "/run/x.sock", .port = 0},
    };
    struct guard_host host = {own, 1, listeners, 3};
    struct policy *policy = good_policy("default = allow\nallow-addresses = 0.0.0.0/0 ::/0\n"
                                        "allow = 127.0.0.1:*\nallow = localhost:*");
    const char *loops[][2] = {
        {"127.0.0.1:3128", "127.0.0.1"},
        {"localhost:3128", "127.0.0.1"},
        {"a.test:3128", "127.0.0.1"},
        {"a.test:3128", "64:ff9b::127.0.0.1"},
        {"a.test:3128", "::127.0.0.1"},
        {"a.test:3128", "2002:7f00:1::1"},
        {"a.test:3128", "0.0.0.0"},
        {"a.test:3128", "::"},
        {"a.test:8080", "127.0.0.1"},
        {"a.test:8080", "127.9.9.9"},
        {"a.test:8080", "::1"},
        {"a.test:8080", "10.9.9.9"},
        {"a.test:8080", "64:ff9b::10.9.9.9"},
    };
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
        assert_int_equal(vet(policy, &host, loops[i][0], loops[i][1]), ADDR_OWN_LISTENER);
    assert_int_equal(vet(policy, &host, "127.0.0.1:3129", "127.0.0.1"), ADDR_PUBLIC);
    assert_int_equal(vet(policy, &host, "a.test:3128", "127.0.0.2"), ADDR_PUBLIC);
    assert_int_equal(vet(policy, &host, "a.test:8080", "10.9.9.8"), ADDR_PUBLIC);
    policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_edges_of_every_range_in_every_form),
        cmocka_unit_test(test_every_class_has_words),
        cmocka_unit_test(test_addresses_of_this_machine),
        cmocka_unit_test(test_own_listeners_are_never_reachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
