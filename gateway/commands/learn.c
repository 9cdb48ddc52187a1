/*
 * `srt-gateway learn`: the fewest rule lines that would allow what was denied.
 *
 * Names that were denied on the same ports below one registrable domain become one wildcard over
 * their deepest common parent; everything else is written as it was asked for. A wildcard is
 * proposed only where `check` would take it without a word, which keeps public and private suffixes
 * out, and never over a single label. What no allow line can lift is said in comments.
 */
#include "commands/command.h"
#include "commands/proposal.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "srt/str.h"

#include <jansson.h>
#include <stdlib.h>

/* A target that was denied for want of a rule: one line of the result, unless a wildcard covers it.
 */
struct wish {
    const char *host;               /* a name, or a literal as rules spell it */
    const char *apex;               /* the widest parent that may stand behind `*.`; NULL: none */
    char ports[PROPOSAL_PORTS_MAX]; /* as a rule carries them */
    json_int_t count;
};

struct learned {
    json_t *wanted;  /* host -> port -> requests */
    json_t *methods; /* a rule for one method, where others are allowed -> requests */
    json_t *unheard; /* a comment -> requests that no allow line would lift */
};

static void tally(json_t *table, const char *key)
{
    json_int_t count = json_integer_value(json_object_get(table, key));
    json_object_set_new(table, key, json_integer(count + 1));
}

static void want(struct learned *learned, const struct target *target)
{
    char spelled[PROPOSAL_HOST_MAX], port[8];
    proposal_host(spelled, target);
    snprintf(port, sizeof(port), "%u", target->port);
    json_t *ports = json_object_get(learned->wanted, spelled);
    if (ports == NULL) {
        ports = json_object();
        json_object_set_new(learned->wanted, spelled, ports);
    }
    tally(ports, port);
}

static bool is_rule(const char *text, struct faults *faults)
{
    static char nothing[] = "";
    static const struct rule_origin nowhere = {.prefix = nothing, .suffix = "", .file = nothing};
    struct rule rule;
    bool read =
        rule_parse(&rule, RULE_ALLOW, RULE_INI, text, &nowhere, 1, (struct place){0}, faults);
    if (read)
        rule_free(&rule);
    return read;
}

/* Whether a rule can say it: clients make methods up, and rules know those in upper case. */
static bool want_method(struct learned *learned, const struct history_record *record,
                        const struct target *target)
{
    enum { METHOD_MAX = 64 };
    char host[PROPOSAL_HOST_MAX], ports[PROPOSAL_PORTS_MAX];
    char rule[PROPOSAL_HOST_MAX + PROPOSAL_PORTS_MAX + METHOD_MAX + 16];
    uint16_t port = target->port;
    if (record->outcome != OUTCOME_METHOD_NOT_ALLOWED || record->method == NULL ||
        strlen(record->method) > METHOD_MAX)
        return false;
    snprintf(rule, sizeof(rule), "%s%s method=%s", proposal_host(host, target),
             proposal_ports(ports, &port, 1), record->method);
    struct faults faults = {0};
    bool said = strchr(record->method, ',') == NULL && is_rule(rule, &faults);
    faults_free(&faults);
    if (said)
        tally(learned->methods, rule);
    return said;
}

static void unheard(struct learned *learned, const struct history_record *record,
                    const struct target *target)
{
    char host[TARGET_TEXT_MAX], note[PROPOSAL_NOTE_MAX], comment[PROPOSAL_NOTE_MAX + 512];
    const bool leads = record->outcome == OUTCOME_ADDRESS_DENIED && record->addr != NULL;
    snprintf(comment, sizeof(comment), "%s%s %s", target_format(host, target), leads ? "" : ":",
             proposal_note(note, record));
    tally(learned->unheard, comment);
}

static void learn_from(void *arg, const struct history_record *record)
{
    struct learned *learned = arg;
    struct target target;
    if (record->kind != HISTORY_DECISION || !history_target(record, &target))
        return;
    if (proposal_helps(record))
        want(learned, &target);
    else if (!want_method(learned, record, &target) && proposal_concerns(record))
        unheard(learned, record, &target);
}

/* Whether `check` would take `allow = *.APEX` without a fault or a warning. */
static bool wildcard_is_clean(const char *apex)
{
    struct faults faults = {0};
    char text[NAME_MAX_LEN + 3];
    snprintf(text, sizeof(text), "*.%s", apex);
    bool clean = strchr(apex, '.') != NULL && is_rule(text, &faults) && faults.count == 0;
    faults_free(&faults);
    return clean;
}

static const char *parent_of(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL ? dot + 1 : NULL;
}

static const char *apex_of(const char *name)
{
    const char *apex = NULL;
    struct name parsed;
    if (name_parse(&parsed, str_of(name)) != NAME_OK)
        return NULL;
    for (const char *up = parent_of(name); up != NULL && wildcard_is_clean(up); up = parent_of(up))
        apex = up;
    return apex;
}

static void spell_ports(struct wish *wish, json_t *ports)
{
    uint16_t list[PROPOSAL_PORTS];
    size_t count = 0;
    const char *key;
    json_t *requests;
    json_object_foreach(ports, key, requests) {
        wish->count += json_integer_value(requests);
        uint64_t port = 0;
        if (count < PROPOSAL_PORTS && str_uint(str_of(key), UINT16_MAX, &port))
            list[count] = (uint16_t)port; /* the keys are want()'s */
        count++;
    }
    proposal_ports(wish->ports, list, count);
}

static int compare_wishes(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    int order = strcmp(x->apex != NULL ? x->apex : "", y->apex != NULL ? y->apex : "");
    if (order == 0)
        order = strcmp(x->ports, y->ports);
    return order != 0 ? order : strcmp(x->host, y->host);
}

/* The deepest parent that all of them have in common. */
static const char *common_parent(const struct wish *wishes, size_t count)
{
    const char *parent = parent_of(wishes[0].host);
    for (size_t i = 1; i < count;) {
        size_t len = strlen(parent), other = strlen(wishes[i].host);
        bool below = other > len && wishes[i].host[other - len - 1] == '.' &&
                     strcmp(wishes[i].host + other - len, parent) == 0;
        if (below)
            i++;
        else
            parent = parent_of(parent);
    }
    return parent;
}

static void print_line(const struct wish *wishes, size_t count)
{
    json_int_t requests = 0;
    for (size_t i = 0; i < count; i++)
        requests += wishes[i].count;
    printf("# %lld %s:", (long long)requests, requests == 1 ? "request" : "requests");
    for (size_t i = 0; i < count && i < 8; i++)
        printf(" %s%s", wishes[i].host, wishes[i].ports);
    if (count > 8)
        printf(" and %zu more", count - 8);
    if (count == 1)
        printf("\nallow = %s%s\n", wishes[0].host, wishes[0].ports);
    else
        printf("\nallow = *.%s%s\n", common_parent(wishes, count), wishes[0].ports);
}

static void print_lines(json_t *wanted, bool exact)
{
    size_t count = 0, total = json_object_size(wanted);
    autofree struct wish *wishes = must(calloc(total + 1, sizeof(*wishes)));
    const char *host;
    json_t *ports;
    json_object_foreach(wanted, host, ports) {
        struct wish *wish = &wishes[count++];
        wish->host = host;
        wish->apex = exact ? NULL : apex_of(host);
        spell_ports(wish, ports);
    }
    qsort(wishes, count, sizeof(*wishes), compare_wishes);
    for (size_t from = 0, to; from < count; from = to) {
        to = from + 1;
        while (to < count && wishes[from].apex != NULL && wishes[to].apex != NULL &&
               strcmp(wishes[from].apex, wishes[to].apex) == 0 &&
               strcmp(wishes[from].ports, wishes[to].ports) == 0)
            to++;
        print_line(&wishes[from], to - from);
    }
}

static void print_methods(json_t *rules)
{
    const char *rule;
    json_t *requests;
    json_object_foreach(rules, rule, requests) {
        const long long count = json_integer_value(requests);
        printf("# %lld %s: %s\nallow = %s\n", count, count == 1 ? "request" : "requests", rule,
               rule);
    }
}

static void print_unheard(json_t *table)
{
    const char *comment;
    json_t *requests;
    json_object_foreach(table, comment, requests)
        printf("# %lld not covered: %s\n", (long long)json_integer_value(requests), comment);
}

int command_learn(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"exact", no_argument, NULL, 'e'},
        COMMAND_COMMON_OPTIONS,
    };
    bool exact = false;
    while (command_option(self, argc, argv, "hV", longs) != -1)
        exact = true;
    if (optind + 1 != argc)
        return command_misused(self, "name one audit log");

    struct learned learned = {
        .wanted = json_object(), .methods = json_object(), .unheard = json_object()};
    struct srt_err err;
    int status = EXIT_DONE;
    if (history_read(argv[optind], learn_from, &learned, NULL, &err) != 0) {
        fprintf(stderr, "srt-gateway: %s\n", err.text);
        status = EXIT_SYSTEM;
    } else {
        print_lines(learned.wanted, exact);
        print_methods(learned.methods);
        print_unheard(learned.unheard);
    }
    json_decref(learned.wanted);
    json_decref(learned.methods);
    json_decref(learned.unheard);
    return status;
}
