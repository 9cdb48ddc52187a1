#include "launcher/transparent.h"

#include "launcher/netlink.h"
#include "launcher/remedy.h"
#include "srt/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

const char *const transparent_kinds[TRANSPARENT_LISTENERS] = {"transparent", "dns-udp", "dns-tcp"};

enum {
    DNS_PORT = 53,
    REDIRECT_PORT = 54, /* privileged, so that no server inside ever wants it */
    CREATE = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
};

/* What differs between IPv4 and IPv6: where a packet has its destination, which of those are
 * loopback (all that begin so), and an address of the sandbox that is not: without any, programs
 * that ask for AI_ADDRCONFIG take a family for absent. It is in the range of what stands for names
 * (dns/stand_in.h) and below all that are given out. */
struct family {
    uint8_t number, nf, bits;
    uint32_t destination;
    uint8_t loopback[16];
    size_t loopback_len;
    uint8_t address[16];
};

enum { V4, V6, FAMILIES };

static const struct family families[FAMILIES] = {
    [V4] = {AF_INET, NFPROTO_IPV4, 32, 16, {127}, 1, {198, 18, 0, 1}},
    [V6] = {AF_INET6,
            NFPROTO_IPV6,
            128,
            24,
            {[15] = 1},
            16,
            {0xfd, 0x3c, 0x5e, 0x1a, 0x77, 0xd2, [12] = 198, 18, 0, 1}},
};

/* ---- routes: every address is here ---- */

static void put_route(struct netlink *netlink, const struct family *family)
{
    const struct rtmsg route = {.rtm_family = family->number,
                                .rtm_table = RT_TABLE_LOCAL,
                                .rtm_protocol = RTPROT_BOOT,
                                .rtm_scope = RT_SCOPE_HOST,
                                .rtm_type = RTN_LOCAL};
    netlink_begin(netlink, RTM_NEWROUTE, CREATE, &route, sizeof(route));
    netlink_put_u32(netlink, RTA_OIF, NETLINK_LOOPBACK);
}

static void put_address(struct netlink *netlink, const struct family *family)
{
    const struct ifaddrmsg address = {.ifa_family = family->number,
                                      .ifa_prefixlen = family->bits,
                                      .ifa_scope = RT_SCOPE_UNIVERSE,
                                      .ifa_index = NETLINK_LOOPBACK};
    netlink_begin(netlink, RTM_NEWADDR, CREATE, &address, sizeof(address));
    netlink_put(netlink, IFA_LOCAL, family->address, family->bits / CHAR_BIT);
    netlink_put(netlink, IFA_ADDRESS, family->address, family->bits / CHAR_BIT);
}

/* ---- nftables: what is connected to comes to one port ---- */

static void begin_nft(struct netlink *netlink, uint16_t type, uint16_t flags,
                      const struct family *family)
{
    const struct nfgenmsg head = {.nfgen_family = family->nf, .version = NFNETLINK_V0};
    netlink_begin(netlink, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head,
                  sizeof(head));
}

/* All that is between the two is done wholly or not at all. */
static void put_batch(struct netlink *netlink, uint16_t type)
{
    const struct nfgenmsg head = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    netlink_begin(netlink, type, 0, &head, sizeof(head));
}

static const char table[] = "srt";

static void put_table(struct netlink *netlink, const struct family *family)
{
    begin_nft(netlink, NFT_MSG_NEWTABLE, CREATE, family);
    netlink_put_text(netlink, NFTA_TABLE_NAME, table);
}

/* Of the hook that packets pass which processes here send. */
static void put_chain(struct netlink *netlink, const struct family *family, const char *name,
                      const char *type, int priority)
{
    begin_nft(netlink, NFT_MSG_NEWCHAIN, CREATE, family);
    netlink_put_text(netlink, NFTA_CHAIN_TABLE, table);
    netlink_put_text(netlink, NFTA_CHAIN_NAME, name);
    netlink_put_text(netlink, NFTA_CHAIN_TYPE, type);
    const size_t hook = netlink_open(netlink, NFTA_CHAIN_HOOK);
    netlink_put_be32(netlink, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
    netlink_put_be32(netlink, NFTA_HOOK_PRIORITY, (uint32_t)priority);
    netlink_close(netlink, hook);
}

/* An expression of a rule, which goes on behind one that compares only if that holds. */
struct expression {
    size_t element, data;
};

static struct expression open_expression(struct netlink *netlink, const char *name)
{
    struct expression expression;
    expression.element = netlink_open(netlink, NFTA_LIST_ELEM);
    netlink_put_text(netlink, NFTA_EXPR_NAME, name);
    expression.data = netlink_open(netlink, NFTA_EXPR_DATA);
    return expression;
}

static void close_expression(struct netlink *netlink, struct expression expression)
{
    netlink_close(netlink, expression.data);
    netlink_close(netlink, expression.element);
}

static void put_value(struct netlink *netlink, uint16_t type, const void *value, size_t len)
{
    const size_t nest = netlink_open(netlink, type);
    netlink_put(netlink, NFTA_DATA_VALUE, value, len);
    netlink_close(netlink, nest);
}

static void put_load(struct netlink *netlink, enum nft_payload_bases base, uint32_t offset,
                     size_t len)
{
    struct expression load = open_expression(netlink, "payload");
    netlink_put_be32(netlink, NFTA_PAYLOAD_DREG, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_PAYLOAD_BASE, base);
    netlink_put_be32(netlink, NFTA_PAYLOAD_OFFSET, offset);
    netlink_put_be32(netlink, NFTA_PAYLOAD_LEN, (uint32_t)len);
    close_expression(netlink, load);
}

static void put_compare(struct netlink *netlink, enum nft_cmp_ops op, const void *value, size_t len)
{
    struct expression compare = open_expression(netlink, "cmp");
    netlink_put_be32(netlink, NFTA_CMP_SREG, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_CMP_OP, op);
    put_value(netlink, NFTA_CMP_DATA, value, len);
    close_expression(netlink, compare);
}

static void put_is_loopback(struct netlink *netlink, const struct family *family,
                            enum nft_cmp_ops op)
{
    put_load(netlink, NFT_PAYLOAD_NETWORK_HEADER, family->destination, family->loopback_len);
    put_compare(netlink, op, family->loopback, family->loopback_len);
}

static void put_is_tcp(struct netlink *netlink, enum nft_cmp_ops op)
{
    static const uint8_t tcp = IPPROTO_TCP;
    struct expression load = open_expression(netlink, "meta");
    netlink_put_be32(netlink, NFTA_META_DREG, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_META_KEY, NFT_META_L4PROTO);
    close_expression(netlink, load);
    put_compare(netlink, op, &tcp, sizeof(tcp));
}

/* An answer that the kernel sees without what it answers, as that was on loopback, is taken for a
 * connection, too; but it acknowledges. */
static void put_is_first(struct netlink *netlink)
{
    enum { FLAGS = 13 }; /* where a segment has them */
    static const uint8_t ack = 0x10, nothing = 0;
    put_load(netlink, NFT_PAYLOAD_TRANSPORT_HEADER, FLAGS, sizeof(ack));
    struct expression mask = open_expression(netlink, "bitwise");
    netlink_put_be32(netlink, NFTA_BITWISE_SREG, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_BITWISE_DREG, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_BITWISE_LEN, sizeof(ack));
    put_value(netlink, NFTA_BITWISE_MASK, &ack, sizeof(ack));
    put_value(netlink, NFTA_BITWISE_XOR, &nothing, sizeof(nothing));
    close_expression(netlink, mask);
    put_compare(netlink, NFT_CMP_EQ, &nothing, sizeof(nothing));
}

static void put_is_not_dns(struct netlink *netlink)
{
    enum { DESTINATION_PORT = 2 }; /* where a segment has it */
    const uint16_t port = htons(DNS_PORT);
    put_load(netlink, NFT_PAYLOAD_TRANSPORT_HEADER, DESTINATION_PORT, sizeof(port));
    put_compare(netlink, NFT_CMP_NEQ, &port, sizeof(port));
}

static void put_redirect(struct netlink *netlink)
{
    static const uint32_t port_is_given = 2; /* NF_NAT_RANGE_PROTO_SPECIFIED */
    const uint16_t port = htons(REDIRECT_PORT);
    struct expression number = open_expression(netlink, "immediate");
    netlink_put_be32(netlink, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(netlink, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
    close_expression(netlink, number);
    struct expression redirect = open_expression(netlink, "redir");
    netlink_put_be32(netlink, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
    netlink_put_be32(netlink, NFTA_REDIR_FLAGS, port_is_given);
    close_expression(netlink, redirect);
}

static size_t begin_rule(struct netlink *netlink, const struct family *family, const char *chain)
{
    begin_nft(netlink, NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND, family);
    netlink_put_text(netlink, NFTA_RULE_TABLE, table);
    netlink_put_text(netlink, NFTA_RULE_CHAIN, chain);
    return netlink_open(netlink, NFTA_RULE_EXPRESSIONS);
}

/* Everything but loopback, and the resolver's port. */
static void put_redirecting(struct netlink *netlink, const struct family *family)
{
    static const char chain[] = "redirect";
    enum { PRIORITY = -100 }; /* where destinations are changed (NF_IP_PRI_NAT_DST) */
    put_chain(netlink, family, chain, "nat", PRIORITY);
    const size_t rule = begin_rule(netlink, family, chain);
    put_is_loopback(netlink, family, NFT_CMP_NEQ);
    put_is_tcp(netlink, NFT_CMP_EQ);
    put_is_first(netlink);
    put_is_not_dns(netlink);
    put_redirect(netlink);
    netlink_close(netlink, rule);
}

static void end_leaving_alone(struct netlink *netlink, size_t rule)
{
    close_expression(netlink, open_expression(netlink, "notrack"));
    netlink_close(netlink, rule);
}

/* The kernel remembers each connection whose destination might be changed, and can only
 * remember so many. Those on loopback are none of them, nor are datagrams, each of which it would
 * take for one; and who connects to the listener itself has no other destination that could be
 * told. */
static void put_leaving_alone(struct netlink *netlink, const struct family *family)
{
    static const char chain[] = "unchanged";
    enum { PRIORITY = -300 }; /* before connections are looked at (NF_IP_PRI_RAW) */
    put_chain(netlink, family, chain, "filter", PRIORITY);
    size_t rule = begin_rule(netlink, family, chain);
    put_is_loopback(netlink, family, NFT_CMP_EQ);
    end_leaving_alone(netlink, rule);
    rule = begin_rule(netlink, family, chain);
    put_is_tcp(netlink, NFT_CMP_NEQ);
    end_leaving_alone(netlink, rule);
}

/* Nothing that was sent on a loopback is still on its way when a connection has ended, so the
 * kernel need not remember it for two minutes more, as it does where it cannot be told. */
static void forget_soon(const struct inside *inside)
{
    autoclose int timeout =
        openat(inside->host_proc, "sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait",
               O_WRONLY | O_CLOEXEC);
    if (timeout >= 0)
        (void)!write(timeout, "1", 1);
}

static int make_rules(bool has_v6, struct srt_err *err)
{
    const size_t family_count = has_v6 ? FAMILIES : 1;
    struct netlink rules = {.len = 0};
    struct srt_err why;
    put_batch(&rules, NFNL_MSG_BATCH_BEGIN);
    for (size_t i = 0; i < family_count; i++) {
        put_table(&rules, &families[i]);
        put_redirecting(&rules, &families[i]);
        put_leaving_alone(&rules, &families[i]);
    }
    put_batch(&rules, NFNL_MSG_BATCH_END);
    if (netlink_send(&rules, NETLINK_NETFILTER, "nftables", &why) != 0)
        return srt_err_set(err,
                           "--egress transparent needs a kernel that redirects connections (%s); "
                           "load nf_tables, nft_chain_nat, nft_redir and nft_ct, or use --egress "
                           "port",
                           why.text);
    return 0;
}

/* ---- the listeners ---- */

static int bind_v4(int type, uint16_t port)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    autoclose int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) != 0 ? -1 : steal_fd(&fd);
}

/* For both families. */
static int bind_v6(int type, uint16_t port)
{
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const int off = 0;
    autoclose int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0 ||
                   bind(fd, (const struct sockaddr *)&any, sizeof(any)) != 0
               ? -1
               : steal_fd(&fd);
}

static int open_socket(int type, uint16_t port, bool has_v6)
{
    autoclose int fd = has_v6 ? bind_v6(type, port) : bind_v4(type, port);
    return fd < 0 || (type == SOCK_STREAM && listen(fd, SOMAXCONN) != 0) ? -1 : steal_fd(&fd);
}

static int make_routes(const struct family *family, struct srt_err *err)
{
    struct netlink routes = {.len = 0};
    put_address(&routes, family);
    put_route(&routes, family);
    return netlink_send(&routes, NETLINK_ROUTE, "routes of --egress transparent", err);
}

/* Machines do without IPv6 in more than one way. */
static bool make_v6(void)
{
    struct srt_err ignored;
    autoclose int sock = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return sock >= 0 && make_routes(&families[V6], &ignored) == 0;
}

int transparent_open(void *nothing, const struct inside *inside, struct inside_gift *gift,
                     struct srt_err *err)
{
    (void)nothing;
    if (make_routes(&families[V4], err) != 0)
        return -1;
    const bool has_v6 = make_v6();
    autoclose int redirected = open_socket(SOCK_STREAM, REDIRECT_PORT, has_v6);
    autoclose int udp = open_socket(SOCK_DGRAM, DNS_PORT, has_v6);
    autoclose int tcp = open_socket(SOCK_STREAM, DNS_PORT, has_v6);
    if (redirected < 0 || udp < 0 || tcp < 0)
        return srt_err_set(err, "the listeners of --egress transparent cannot be opened: %s",
                           remedy_error(errno));
    if (make_rules(has_v6, err) != 0)
        return -1;
    forget_soon(inside);
    gift->fds[0] = steal_fd(&redirected);
    gift->fds[1] = steal_fd(&udp);
    gift->fds[2] = steal_fd(&tcp);
    gift->count = TRANSPARENT_LISTENERS;
    return 0;
}
