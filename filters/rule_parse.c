#include "config/value.h"
#include "filters/path.h"
#include "filters/rule.h"
#include "srt/must.h"

#include <assert.h>
#include <libpsl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

enum { MAX_LIST = 256, ID_WORD_MAX = 64, METHOD_MAX = 32 };

static char *keep(struct str text)
{
    return must(strndup(text.p, text.len));
}

struct parser {
    struct rule *rule;
    enum rule_dialect dialect;
    struct place place;
    struct faults *faults;
    unsigned seen;  /* bit set over attributes[] */
    bool has_ports; /* behind the host */
    bool failed;
};

__attribute__((format(printf, 2, 3))) static bool fault(struct parser *parser, const char *format,
                                                        ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    faults_add(parser->faults, FAULT_ERROR, parser->place, "rule `%.200s`: %s", parser->rule->text,
               message);
    parser->failed = true;
    return false;
}

static struct rule_extra *make_extra(struct rule *rule)
{
    if (rule->has_extra)
        return rule->rest.extra;
    struct rule_extra *made = must(calloc(1, sizeof(*made)));
    made->origin = rule->rest.origin;
    rule->rest.extra = made;
    rule->has_extra = true;
    return made;
}

static struct rule_extra *extra(struct parser *parser)
{
    return make_extra(parser->rule);
}

static bool next_word(struct str *rest, struct str *word)
{
    return str_next_word(rest, STR(" \t"), word);
}

/* -- ports -- */

static bool parse_port(struct str text, uint16_t *out)
{
    uint64_t value;
    if (!str_uint(text, UINT16_MAX, &value) || value == 0)
        return false;
    *out = (uint16_t)value;
    return true;
}

static bool parse_port_range(struct parser *parser, struct str text, struct port_range *out)
{
    struct str rest = text;
    const struct str first = str_take_until(&rest, '-');
    const struct str last = first.len < text.len ? rest : first;
    if (!parse_port(first, &out->first) || !parse_port(last, &out->last))
        return fault(parser, "`%.*s` is not a port from 1 to 65535 nor a range of them",
                     STR_ARG(text));
    if (out->first > out->last)
        return fault(parser, "the range %u-%u is empty; did you mean %u-%u?", out->first, out->last,
                     out->last, out->first);
    return true;
}

/* What follows the colon of a pattern. */
static bool parse_pattern_ports(struct parser *parser, struct str text)
{
    struct rule *rule = parser->rule;
    if (parser->dialect == RULE_INI && str_eq(text, STR("*"))) {
        rule->ports = RULE_PORTS_ALL;
        return true;
    }
    if (parser->dialect == RULE_SETTINGS && !parse_port(text, &rule->range.first))
        return fault(parser, "`%.*s` is not a port from 1 to 65535", STR_ARG(text));
    if (!parse_port_range(parser, text, &rule->range))
        return false;
    rule->ports = RULE_PORTS_RANGE;
    return true;
}

static bool attribute_ports(struct parser *parser, struct str value)
{
    struct rule *rule = parser->rule;
    struct str part;
    if (str_eq(value, STR("*"))) {
        rule->ports = RULE_PORTS_ALL;
        return true;
    }
    extra(parser)->ports = must(calloc(MAX_LIST, sizeof(struct port_range)));
    while (str_next_part(&value, ',', &part)) {
        if (rule_extra(rule)->port_count == MAX_LIST)
            return fault(parser, "more than %d ports in one list", MAX_LIST);
        if (!parse_port_range(parser, part, &rule_extra(rule)->ports[rule_extra(rule)->port_count]))
            return false;
        rule_extra(rule)->port_count++;
    }
    rule->ports = RULE_PORTS_LIST;
    return true;
}

/* -- hosts -- */

static bool parse_cidr(struct parser *parser, struct str text, struct cidr *out)
{
    if (value_range(text, out))
        return true;
    struct str rest = text;
    struct addr base;
    uint64_t len;
    if (addr_parse(&base, str_take_until(&rest, '/')) && str_uint(rest, 128, &len))
        return fault(parser,
                     "`%.*s` has address bits behind its prefix length, or a length that is "
                     "too long",
                     STR_ARG(text));
    return fault(parser, "`%.*s` is not an address or a range (four decimal numbers, or IPv6)",
                 STR_ARG(text));
}

/* `written` is a part of the rule's text; `name` what it means. */
static void set_name(struct parser *parser, struct str written, struct str name)
{
    struct rule *rule = parser->rule;
    const size_t at = (size_t)(written.p - rule->text);
    const bool canonical = written.len >= name.len && memcmp(written.p, name.p, name.len) == 0;
    assert(name.len <= UINT8_MAX);
    rule->name_len = name.len & UINT8_MAX;
    if (canonical && at < 1u << RULE_NAME_AT_BITS) /* a trailing dot makes no difference */
        rule->name_at = at & ((1u << RULE_NAME_AT_BITS) - 1);
    else
        extra(parser)->name = keep(name);
}

static bool parse_addresses(struct parser *parser, struct str text)
{
    struct cidr range;
    parser->rule->host = RULE_CIDR;
    if (!parse_cidr(parser, text, &range))
        return false;
    set_name(parser, text, text);
    return true;
}

static bool parse_bracketed(struct parser *parser, struct str text)
{
    if (!str_has(text, ':'))
        return fault(parser, "brackets are for IPv6 addresses only");
    if (str_has(text, '%'))
        return fault(parser, "an IPv6 address in a rule has no zone");
    return parse_addresses(parser, text);
}

static bool parse_name(struct parser *parser, struct str text)
{
    struct name name;
    enum name_fault why = name_parse_idna(&name, text);
    if (why != NAME_OK)
        return fault(parser, "`%.*s` is not a host name: %s", STR_ARG(text), name_fault_text(why));
    set_name(parser, text, name_str(&name));
    return true;
}

static const psl_ctx_t *suffix_list;

/* The distribution's list may be newer than the one that is built into the library. */
static void load_suffix_list(void)
{
    suffix_list = psl_latest("/usr/share/publicsuffix/public_suffix_list.dafsa");
    if (suffix_list == NULL)
        suffix_list = psl_builtin();
}

/* Only what the list really contains: its default rule would make every single label a suffix. */
static bool is_public_suffix(const struct rule *rule, int type)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_suffix_list);
    if (suffix_list == NULL)
        return false;
    char name[NAME_MAX_LEN + 1];
    snprintf(name, sizeof(name), "%.*s", STR_ARG(rule_name(rule)));
    return psl_is_public_suffix2(suffix_list, name, type | PSL_TYPE_NO_STAR_RULE) != 0;
}

static bool parse_wildcard(struct parser *parser, struct str below)
{
    struct rule *rule = parser->rule;
    rule->host = RULE_BELOW;
    if (str_has(below, '*'))
        return fault(parser, "`*` stands alone or as the first label (`*.example.com`)");
    if (!parse_name(parser, below))
        return false;
    if (is_public_suffix(rule, PSL_TYPE_ICANN))
        return fault(
            parser,
            "`*.%.*s` covers a whole public suffix, under which anybody can register; name "
            "the domains that are meant",
            STR_ARG(rule_name(rule)));
    if (is_public_suffix(rule, PSL_TYPE_PRIVATE))
        faults_add(parser->faults, FAULT_WARNING, parser->place,
                   "rule `%.200s`: `*.%.*s` is a public suffix of one provider: anybody can have a "
                   "name below it",
                   rule->text, STR_ARG(rule_name(rule)));
    return true;
}

static const char not_a_url[] = "a rule names a host, not a URL: leave out the scheme and the path";

/* `github.com/org` is no range, however wrong. */
static bool has_path(struct str host)
{
    const struct str before = str_until(host, '/');
    return before.len < host.len && before.len > 0 &&
           (before.p[before.len - 1] < '0' || before.p[before.len - 1] > '9');
}

static bool parse_host(struct parser *parser, struct str host)
{
    struct rule *rule = parser->rule;
    struct addr addr;
    if (str_eq(host, STR("*"))) {
        rule->host = RULE_ANY;
        return true;
    }
    if (str_starts(host, STR("*.")))
        return parse_wildcard(parser, str_from(host, 2));
    if (str_has(host, '*'))
        return fault(parser, "`*` stands alone or as the first label (`*.example.com`)");
    if (has_path(host))
        return fault(parser, not_a_url);
    if (host.len > 1 && host.p[0] == '.' && host.p[1] != '.')
        return fault(parser,
                     "a name has no leading dot: `*%.*s` is every name below, `%.*s` itself",
                     STR_ARG(host), STR_ARG(str_from(host, 1)));
    if (addr_parse(&addr, host) || str_has(host, '/'))
        return parse_addresses(parser, host);
    rule->host = RULE_NAME;
    return parse_name(parser, host);
}

/* HOST [":" PORTS]. Only brackets may hold colons, and they hold the whole host. */
static bool split_pattern(struct parser *parser, struct str pattern, struct str *host,
                          struct str *ports)
{
    *ports = STR_NULL;
    if (memmem(pattern.p, pattern.len, "://", 3) != NULL)
        return fault(parser, not_a_url);
    if (pattern.p[0] == '[') {
        if (!str_has(pattern, ']'))
            return fault(parser, "`[` without `]`");
        const size_t len = str_until(pattern, ']').len + 1;
        *host = (struct str){pattern.p, len};
        if (len == pattern.len)
            return true;
        if (pattern.p[len] != ':')
            return fault(parser, "only a port may follow `]` (a prefix length stands inside)");
        *ports = str_from(pattern, len + 1);
        return true;
    }
    struct str rest = pattern;
    *host = str_take_until(&rest, ':');
    if (str_has(rest, ':'))
        return fault(parser, "an IPv6 address stands in brackets: `[%.*s]`", STR_ARG(pattern));
    if (host->len == 0)
        return fault(parser, "the host is missing");
    *ports = host->len < pattern.len ? rest : STR_NULL;
    return true;
}

static bool parse_pattern(struct parser *parser, struct str pattern)
{
    struct str host = STR_NULL, ports;
    if (!split_pattern(parser, pattern, &host, &ports))
        return false;
    assert(host.p != NULL && host.len > 0);
    if (host.p[0] == '[') {
        if (!parse_bracketed(parser, (struct str){host.p + 1, host.len - 2}))
            return false;
    } else if (!parse_host(parser, host)) {
        return false;
    }
    parser->has_ports = ports.p != NULL;
    return !parser->has_ports || parse_pattern_ports(parser, ports);
}

/* -- attributes -- */

static bool attribute_front(struct parser *parser, struct str value)
{
    struct str part;
    while (str_next_part(&value, ',', &part)) {
        unsigned front = 0;
        while (front < FRONT_COUNT && !str_eq(part, str_of(front_word(front))))
            front++;
        if (front == FRONT_COUNT)
            return fault(parser, "`%.*s` is not a front: connect, http, socks5 or transparent",
                         STR_ARG(part));
        extra(parser)->fronts |= 1u << front;
    }
    return true;
}

/* RFC 9110 5.6.2, without lower case: methods are case-sensitive, and `post` would deny nothing. */
static bool is_method(struct str text)
{
    if (text.len == 0 || text.len > METHOD_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        bool alphanumeric = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alphanumeric && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return true;
}

static bool attribute_method(struct parser *parser, struct str value)
{
    struct rule_extra *to = extra(parser);
    struct str part;
    to->methods = must(calloc(MAX_LIST, sizeof(*to->methods)));
    while (str_next_part(&value, ',', &part)) {
        if (str_eq(part, STR("CONNECT")))
            return fault(parser, "the CONNECT method is a front: write front=connect");
        if (str_eq(part, STR("*")))
            return fault(parser, "every method is meant where there is no method=: leave it out");
        if (!is_method(part))
            return fault(parser, "`%.*s` is not a method (upper case, such as GET)", STR_ARG(part));
        if (to->method_count == MAX_LIST)
            return fault(parser, "more than %d methods in one list", MAX_LIST);
        to->methods[to->method_count++] = keep(part);
    }
    return true;
}

static bool attribute_path(struct parser *parser, struct str value)
{
    if (value.len == 0 || (value.p[0] != '/' && value.p[0] != '*'))
        return fault(parser, "path=%.*s begins with neither `/` nor `*`", STR_ARG(value));
    if (value.len > PATH_GLOB_MAX)
        return fault(parser, "path= is longer than %d bytes", PATH_GLOB_MAX);
    for (size_t i = 0; i < value.len; i++)
        if (value.p[i] <= ' ' || value.p[i] == 0x7f || value.p[i] == '"')
            return fault(parser, "path= holds a byte that no path has; write it as %%XX");
    if (path_is_ambiguous(value))
        return fault(parser,
                     "path=%.*s matches no request: dot segments, encoded slashes, "
                     "backslashes and broken %%XX never match",
                     STR_ARG(value));
    extra(parser)->path = keep(value);
    return true;
}

/* May be called again for the words of a list that is separated by spaces. */
static bool attribute_to(struct parser *parser, struct str value)
{
    struct rule_extra *to = extra(parser);
    struct str part;
    if (to->to == NULL)
        to->to = must(calloc(MAX_LIST, sizeof(*to->to)));
    while (str_next_part(&value, ',', &part)) {
        if (part.len == 0 && value.p == NULL)
            break; /* "10.0.0.0/8, 192.0.2.0/24": the space ends the word behind the comma */
        if (to->to_count == MAX_LIST)
            return fault(parser, "more than %d ranges in one list", MAX_LIST);
        if (!parse_cidr(parser, part, &to->to[to->to_count]))
            return false;
        to->to_count++;
    }
    return true;
}

static bool attribute_sni(struct parser *parser, struct str value)
{
    if (str_eq(value, STR("match")))
        parser->rule->sni = RULE_SNI_MATCH;
    else if (str_eq(value, STR("off")))
        parser->rule->sni = RULE_SNI_OFF;
    else
        return fault(parser, "sni=%.*s is neither match nor off", STR_ARG(value));
    return true;
}

/* Whether there is such an upstream, the policy knows. */
static bool attribute_via(struct parser *parser, struct str value)
{
    if (value.len == 0)
        return fault(parser, "via= names no upstream");
    extra(parser)->via = keep(value);
    return true;
}

static bool attribute_mode(struct parser *parser, struct str value)
{
    if (str_eq(value, STR("enforce")))
        parser->rule->mode = RULE_ENFORCE;
    else if (str_eq(value, STR("report")))
        parser->rule->mode = RULE_REPORT;
    else if (str_eq(value, STR("ask")))
        parser->rule->mode = RULE_ASK;
    else
        return fault(parser, "mode=%.*s is not enforce, report or ask", STR_ARG(value));
    return true;
}

static bool attribute_until(struct parser *parser, struct str value)
{
    int64_t until;
    if (!value_rfc3339(value, &until) || until <= 0)
        return fault(parser, "until=%.*s is not a time such as 2030-01-31T12:00:00Z",
                     STR_ARG(value));
    extra(parser)->until = until;
    return true;
}

static bool attribute_id(struct parser *parser, struct str value)
{
    bool good = value.len > 0 && value.len <= ID_WORD_MAX;
    for (size_t i = 0; good && i < value.len; i++) {
        unsigned char c = str_lower_byte((unsigned char)value.p[i]);
        good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("._-:/@+", c) != NULL);
    }
    if (!good)
        return fault(parser, "id= is one word of at most %d letters, digits and ._-:/@+",
                     ID_WORD_MAX);
    extra(parser)->id = keep(value);
    return true;
}

static bool attribute_reason(struct parser *parser, struct str value)
{
    if (value.len == 0)
        return fault(parser, "reason=\"\" says nothing");
    extra(parser)->reason = keep(value);
    return true;
}

static const struct attribute {
    const char *word;
    bool (*parse)(struct parser *parser, struct str value);
    bool narrows; /* makes `allow = *` a real rule */
    bool allow_only;
} attributes[] = {
    {"ports", attribute_ports, false /* see narrows() */, false},
    {"front", attribute_front, true, false},
    {"method", attribute_method, true, false},
    {"path", attribute_path, true, false},
    {"to", attribute_to, true, true},
    {"sni", attribute_sni, false, true},
    {"via", attribute_via, false, true},
    {"mode", attribute_mode, false, false},
    {"until", attribute_until, true, false},
    {"id", attribute_id, false, false},
    {"reason", attribute_reason, false, false},
};

enum { ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]) };

/* ATTRIBUTES: there is none of that name. */
static unsigned find_attribute(struct str name)
{
    unsigned which = 0;
    while (which < ATTRIBUTES && !str_eq(name, str_of(attributes[which].word)))
        which++;
    return which;
}

static bool has_seen(const struct parser *parser, const char *word)
{
    const unsigned which = find_attribute(str_of(word));
    assert(which < ATTRIBUTES);
    return (parser->seen & (1u << which)) != 0;
}

static bool unknown_attribute(struct parser *parser, struct str name)
{
    const char *words[ATTRIBUTES + 1] = {NULL};
    char text[32], hint[NEAREST_HINT_MAX];
    for (unsigned i = 0; i < ATTRIBUTES; i++)
        words[i] = attributes[i].word;
    snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
    return fault(parser, "unknown attribute `%.*s`%s", STR_ARG(name),
                 nearest_hint(hint, "`", text, words));
}

/* reason="TEXT" is the one value that may hold spaces, so it is cut before words are. */
static bool take_quoted(struct parser *parser, struct str *line, struct str *value)
{
    if (line->len == 0 || line->p[0] != '"')
        return fault(parser, "reason= needs quotes: reason=\"TEXT\"");
    *line = str_from(*line, 1);
    if (!str_has(*line, '"'))
        return fault(parser, "reason=\" is not closed");
    *value = str_take_until(line, '"');
    if (line->len > 0 && line->p[0] != ' ' && line->p[0] != '\t')
        return fault(parser, "something follows the closing quote of reason=");
    return true;
}

static bool parse_attribute(struct parser *parser, struct str name, struct str value)
{
    const unsigned which = find_attribute(name);
    if (which == ATTRIBUTES)
        return unknown_attribute(parser, name);
    const struct attribute *attribute = &attributes[which];
    if ((parser->seen & (1u << which)) != 0)
        return fault(parser, "%s= is given twice", attribute->word);
    parser->seen |= 1u << which;
    if (attribute->allow_only && parser->rule->effect == RULE_DENY)
        return fault(parser, "%s= has no meaning in a deny rule", attribute->word);
    return attribute->parse(parser, value);
}

/* NAME=VALUE; behind that of to= further words of its list. */
static bool take_attribute(struct parser *parser, struct str *line, struct str *name)
{
    struct str value = STR_NULL;
    if (str_starts(*line, STR("reason="))) {
        *name = str_take_until(line, '=');
        return take_quoted(parser, line, &value) && parse_attribute(parser, *name, value);
    }
    next_word(line, &value);
    if (!str_has(value, '='))
        return str_eq(*name, STR("to"))
                   ? attribute_to(parser, value)
                   : fault(parser, "`%.*s` is not an attribute (NAME=VALUE)", STR_ARG(value));
    *name = str_take_until(&value, '=');
    return parse_attribute(parser, *name, value);
}

static bool parse_attributes(struct parser *parser, struct str line)
{
    struct str name = STR_NULL;
    while (line = str_trim(line), line.len > 0)
        if (!take_attribute(parser, &line, &name))
            return false;
    return true;
}

/* A port or an attribute that leaves something out; `*:*` does not. */
static bool narrows(const struct parser *parser)
{
    if ((parser->has_ports || has_seen(parser, "ports")) && parser->rule->ports != RULE_PORTS_ALL)
        return true;
    for (unsigned i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].narrows && (parser->seen & (1u << i)) != 0)
            return true;
    return false;
}

static bool check_any(struct parser *parser)
{
    if (parser->rule->host != RULE_ANY || parser->rule->effect == RULE_DENY)
        return true;
    if (parser->dialect == RULE_SETTINGS)
        return fault(parser, "`*` can only be denied; name the hosts that are allowed");
    if (!narrows(parser))
        return fault(parser,
                     "`*` alone allows every host; if that is meant, write `default = allow` "
                     "in the policy, otherwise narrow it (a port, method=, to=, ...)");
    return true;
}

static bool check_combination(struct parser *parser)
{
    const struct rule *rule = parser->rule;
    if (rule->mode == RULE_ASK && rule->effect == RULE_DENY)
        return fault(parser, "mode=ask has no meaning in a deny rule");
    if (has_seen(parser, "to") && rule_extra(rule)->to_count == 0)
        return fault(parser, "to= names no address");
    if (has_seen(parser, "to") && has_seen(parser, "via") &&
        strcmp(rule_extra(rule)->via, "direct") != 0)
        return fault(parser, "to= cannot be kept with via=%s, where the name is resolved upstream",
                     rule_extra(rule)->via);
    if (rule->host == RULE_CIDR && has_seen(parser, "to"))
        return fault(parser, "to= limits what a name may resolve to; this rule names addresses");
    if (rule_needs_clear(rule) && rule_extra(rule)->fronts != 0 &&
        (rule_extra(rule)->fronts & 1u << FRONT_HTTP) == 0)
        return fault(parser, "method= and path= are only visible with front=http");
    return true;
}

static bool parse_line(struct parser *parser, struct str line)
{
    struct rule *rule = parser->rule;
    struct str pattern;
    for (size_t i = 0; i < line.len; i++)
        if (((unsigned char)line.p[i] < ' ' && line.p[i] != '\t') || line.p[i] == 0x7f)
            return fault(parser, "control characters have no place in a rule");
    if (!next_word(&line, &pattern))
        return fault(parser, "a rule needs a host");
    line = str_trim(line);
    if (parser->dialect == RULE_SETTINGS && line.len > 0)
        return fault(parser, "an entry of settings is host or host:port, nothing else");
    if (parser->dialect == RULE_SETTINGS && str_has(pattern, '/'))
        return fault(parser, "an entry of settings names a host: no URL, no path, no range");

    bool web = parser->dialect == RULE_INI && rule->effect == RULE_ALLOW;
    rule->ports = web ? RULE_PORTS_WEB : RULE_PORTS_ALL;
    if (!parse_pattern(parser, pattern) || !parse_attributes(parser, line))
        return false;
    if (parser->has_ports && has_seen(parser, "ports"))
        return fault(parser, "the port is given twice, behind the host and in ports=");
    return check_any(parser) && check_combination(parser);
}

static bool finish(struct parser *parser, bool good)
{
    assert(good == !parser->failed);
    if (!good)
        rule_free(parser->rule);
    return good;
}

static struct parser begin(struct rule *out, enum rule_effect effect, const char *text,
                           const struct rule_origin *origin, uint32_t number, struct place place,
                           struct faults *faults)
{
    *out = (struct rule){.text = text, .rest.origin = origin, .number = number, .effect = effect};
    return (struct parser){.rule = out, .place = place, .faults = faults};
}

bool rule_parse(struct rule *out, enum rule_effect effect, enum rule_dialect dialect,
                const char *text, const struct rule_origin *origin, uint32_t number,
                struct place place, struct faults *faults)
{
    struct parser parser = begin(out, effect, text, origin, number, place, faults);
    parser.dialect = dialect;
    return finish(&parser, parse_line(&parser, str_of(text)));
}

bool rule_parse_address(struct rule *out, enum rule_effect effect, enum rule_scope scope,
                        const char *text, const struct rule_origin *origin, uint32_t number,
                        struct place place, struct faults *faults)
{
    struct parser parser = begin(out, effect, text, origin, number, place, faults);
    out->scope = scope;
    return finish(&parser, parse_addresses(&parser, str_of(text)));
}

void rule_set_reason(struct rule *rule, const char *reason)
{
    struct rule_extra *to = make_extra(rule);
    if (to->reason == NULL)
        to->reason = must_copy(reason);
}
