/*
 * A target that parses has one text, and that text means the same target. What the strict parser
 * takes, the lenient one takes alike.
 */
#include "dns/target.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct target *target)
{
    struct target again;
    char text[TARGET_TEXT_MAX], host[NAME_MAX_LEN + 1];
    target_format(text, target);
    assert(target->port != 0);
    assert(target_parse(&again, str_of(text), NULL) && target_eq(target, &again));
    target_host(host, target);
    assert(target_parse_host(&again, str_of(host), target->port, NULL));
    assert(target_eq(target, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct target target, lenient;
    struct cidr cidr;
    const char *why = NULL;
    bool strict = target_parse(&target, text, &why);
    assert(strict || why != NULL);
    if (strict)
        check_round_trip(&target);
    if (target_parse_default(&lenient, text, 80, NULL)) {
        check_round_trip(&lenient);
        assert(!strict || target_eq(&target, &lenient));
    } else {
        assert(!strict);
    }
    if (target_parse_host(&target, text, 443, NULL))
        check_round_trip(&target);
    if (cidr_parse(&cidr, text))
        assert(cidr_contains(&cidr, &cidr.base));
    return 0;
}
