#include "filters/rule.h"

#include "config/value.h"
#include "srt/text.h"

#include <assert.h>
#include <stdlib.h>

static const char *const front_words[FRONT_COUNT + 1] = {
    [FRONT_CONNECT] = "connect",
    [FRONT_HTTP] = "http",
    [FRONT_SOCKS5] = "socks5",
    [FRONT_TRANSPARENT] = "transparent",
};

const char *front_word(enum front front)
{
    assert((unsigned)front < FRONT_COUNT);
    return front_words[front];
}

struct cidr rule_cidr(const struct rule *rule)
{
    struct cidr range;
    const bool read = rule->host == RULE_CIDR && value_range(rule_name(rule), &range);
    assert(read); /* as it was when the rule was parsed */
    return range;
}

void rule_free(struct rule *rule)
{
    struct rule_extra *gone = rule_extra(rule);
    if (gone == NULL)
        return;
    rule->rest.origin = gone->origin;
    rule->has_extra = false;
    for (size_t i = 0; i < gone->method_count; i++)
        free(gone->methods[i]);
    free(gone->methods);
    free(gone->name);
    free(gone->ports);
    free(gone->path);
    free(gone->to);
    free(gone->via);
    free(gone->id);
    free(gone->reason);
    free(gone);
}

/* Each record and each refusal has one, so it is made without printf. */
static void append_id(char *out, size_t *len, size_t max, struct str text)
{
    size_t n = *len < max ? max - *len : 0;
    n = text.len < n ? text.len : n;
    memcpy(out + *len, text.p, n);
    *len += n;
    out[*len] = '\0';
}

const char *rule_id(const struct rule *rule, char out[RULE_ID_MAX])
{
    char number[TEXT_NUMBER_MAX];
    size_t len = 0;
    if (rule_extra(rule) != NULL && rule_extra(rule)->id != NULL) {
        append_id(out, &len, RULE_ID_MAX - 1, str_of(rule_extra(rule)->id));
        return out;
    }
    text_number(number, rule->number);
    append_id(out, &len, RULE_ID_MAX - 16, str_of(rule_origin(rule)->prefix));
    append_id(out, &len, RULE_ID_MAX - 1, str_of(number));
    append_id(out, &len, RULE_ID_MAX - 1, str_of(rule_origin(rule)->suffix));
    return out;
}

const char *rule_reason(const struct rule *rule)
{
    return rule_extra(rule) != NULL ? rule_extra(rule)->reason : NULL;
}

const char *rule_key(const struct rule *rule)
{
    bool allow = rule->effect == RULE_ALLOW;
    if (rule->scope == RULE_REQUESTS)
        return allow ? "allow" : "deny";
    return allow ? "allow-addresses" : "deny-addresses";
}

bool rule_is_literal(const struct rule *rule)
{
    if (rule->host != RULE_CIDR)
        return false;
    const struct cidr range = rule_cidr(rule);
    return range.len == (range.base.family == 4 ? 32 : 128);
}

/* The ports of a rule as ranges; returns how many. */
static size_t port_ranges(const struct rule *rule, const struct port_range **ranges)
{
    static const struct port_range all[] = {{1, UINT16_MAX}}, web[] = {{80, 80}, {443, 443}};
    switch (rule->ports) {
    case RULE_PORTS_ALL:
        *ranges = all;
        return 1;
    case RULE_PORTS_WEB:
        *ranges = web;
        return 2;
    case RULE_PORTS_RANGE:
        *ranges = &rule->range;
        return 1;
    case RULE_PORTS_LIST:
        *ranges = rule_extra(rule)->ports;
        return rule_extra(rule)->port_count;
    }
    return 0;
}

bool rule_has_port(const struct rule *rule, uint16_t port)
{
    const struct port_range *ranges;
    size_t count = port_ranges(rule, &ranges);
    for (size_t i = 0; i < count; i++)
        if (ranges[i].first <= port && port <= ranges[i].last)
            return true;
    return false;
}

/* Each range within one range is enough for a hint; ranges that only join up are not looked for. */
bool rule_ports_within(const struct rule *rule, const struct rule *of)
{
    const struct port_range *ranges;
    size_t count = port_ranges(rule, &ranges);
    const struct port_range *outer;
    size_t outer_count = port_ranges(of, &outer);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < outer_count &&
               (ranges[i].first < outer[k].first || ranges[i].last > outer[k].last))
            k++;
        if (k == outer_count)
            return false;
    }
    return true;
}

bool rule_has_front(const struct rule *rule, enum front front)
{
    return rule_extra(rule) == NULL || rule_extra(rule)->fronts == 0 ||
           (rule_extra(rule)->fronts & (1u << front)) != 0;
}

/* Methods are case-sensitive (RFC 9110 9.1), and some servers take `delete` for DELETE all the
 * same: an allow rule means what it says, a deny rule both. */
bool rule_has_method(const struct rule *rule, struct str method)
{
    if (rule_extra(rule) == NULL || rule_extra(rule)->methods == NULL)
        return true;
    for (size_t i = 0; i < rule_extra(rule)->method_count; i++) {
        const struct str listed = str_of(rule_extra(rule)->methods[i]);
        if (rule->effect == RULE_DENY ? str_ieq(method, listed) : str_eq(method, listed))
            return true;
    }
    return false;
}

bool rule_expired(const struct rule *rule, int64_t now)
{
    return rule_extra(rule) != NULL && rule_extra(rule)->until != 0 &&
           now >= rule_extra(rule)->until;
}

bool rule_needs_clear(const struct rule *rule)
{
    return rule_extra(rule) != NULL &&
           (rule_extra(rule)->methods != NULL || rule_extra(rule)->path != NULL);
}

bool rule_has_to(const struct rule *rule)
{
    return rule_extra(rule) != NULL && rule_extra(rule)->to != NULL;
}

bool rule_to_contains(const struct rule *rule, const struct addr *addr)
{
    if (!rule_has_to(rule))
        return true;
    for (size_t i = 0; i < rule_extra(rule)->to_count; i++)
        if (cidr_contains(&rule_extra(rule)->to[i], addr))
            return true;
    return false;
}
