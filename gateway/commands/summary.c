/*
 * `srt-gateway summary`: what an audit log comes to. Which hosts were denied most, with the rule
 * line that would allow each; who asked, under which policy; where the bytes went; when.
 *
 * One pass, and memory that does not grow with the log (control/tally.h).
 */
#include "commands/command.h"
#include "commands/proposal.h"
#include "commands/tally.h"
#include "record/json.h"
#include "srt/must.h"
#include "srt/str.h"

#include <ctype.h>
#include <inttypes.h>

_Static_assert((int)TALLY_PORTS == (int)PROPOSAL_PORTS, "a row's ports make its rule line");

enum { TOP_DEFAULT = 10, HOUR_LEN = sizeof("2026-01-02T03") - 1, DENIED_KEY_MAX = 2048 };

struct summary {
    struct tally *denied, *reasons, *sandboxes, *policies, *hosts, *hours;
    uint64_t requests, refused, reported, closes, lost;
    uint64_t bytes_up, bytes_down;
    char first[32], last[32];
};

/* ---- counting ---- */

static struct str name_of(const char *name)
{
    return name != NULL ? str_of(name) : STR("-");
}

static struct str hour_of(const struct history_record *record)
{
    const struct str ts = name_of(record->ts);
    return (struct str){ts.p, ts.len < HOUR_LEN ? ts.len : HOUR_LEN};
}

/* A sandbox by its name; without one the client, that is the [client] section. */
static struct str who_of(const struct history_record *record)
{
    return name_of(record->sandbox != NULL ? record->sandbox : record->client);
}

/* One row for each host that a line would allow; for what no line allows, one for each note too. */
static void count_missed(struct summary *summary, const struct history_record *record)
{
    struct target target;
    char host[PROPOSAL_HOST_MAX], note[PROPOSAL_NOTE_MAX] = "", key[DENIED_KEY_MAX];
    if (!history_target(record, &target))
        return;
    proposal_host(host, &target);
    const bool helps = proposal_helps(record);
    if (!helps)
        proposal_note(note, record);
    snprintf(key, sizeof(key), helps ? "%s" : "%s\t%s", host, note);
    struct tally_row *row = tally_row(summary->denied, str_of(key));
    row->denied++;
    tally_add_port(row, target.port);
    if (!helps && row->key != NULL && row->note == NULL)
        row->note = must_copy(note);
}

static void count_decision(struct summary *summary, const struct history_record *record)
{
    const bool refused = record->outcome != OUTCOME_ALLOWED;
    const struct str keys[] = {who_of(record), name_of(record->policy), hour_of(record)};
    struct tally *const tables[] = {summary->sandboxes, summary->policies, summary->hours};
    const bool request = !record->in_tunnel;
    summary->requests += request;
    summary->refused += refused;
    summary->reported += record->would_deny;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct tally_row *row = tally_row(tables[i], keys[i]);
        row->requests += request;
        row->denied += refused;
    }
    if (refused)
        tally_row(summary->reasons, str_of(outcome_row(record->outcome)->word))->denied++;
    if (proposal_concerns(record))
        count_missed(summary, record);
}

static void count_close(struct summary *summary, const struct history_record *record)
{
    const uint64_t up = (uint64_t)record->bytes_up, down = (uint64_t)record->bytes_down;
    struct tally_row *const rows[] = {
        tally_row(summary->sandboxes, who_of(record)),
        tally_row(summary->policies, name_of(record->policy)),
        tally_row(summary->hours, hour_of(record)),
        tally_row(summary->hosts, name_of(record->host)),
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rows[i]->bytes_up += up;
        rows[i]->bytes_down += down;
    }
    rows[3]->requests++;
    summary->bytes_up += up;
    summary->bytes_down += down;
    summary->closes++;
}

static void note_time(struct summary *summary, const char *ts)
{
    const size_t size = ts != NULL ? strlen(ts) + 1 : 0;
    if (size == 0 || size > sizeof(summary->last))
        return;
    if (summary->first[0] == '\0' || strcmp(ts, summary->first) < 0)
        memcpy(summary->first, ts, size);
    if (strcmp(ts, summary->last) > 0)
        memcpy(summary->last, ts, size);
}

static void count_record(void *arg, const struct history_record *record)
{
    struct summary *summary = arg;
    note_time(summary, record->ts);
    switch (record->kind) {
    case HISTORY_DECISION:
        count_decision(summary, record);
        break;
    case HISTORY_CLOSE:
        count_close(summary, record);
        break;
    case HISTORY_LOST:
        summary->lost += (uint64_t)record->count;
        break;
    }
}

/* ---- what both ways of telling share ---- */

static uint64_t by_denied(const struct tally_row *row)
{
    return row->denied;
}

static uint64_t by_requests(const struct tally_row *row)
{
    return row->requests;
}

static uint64_t by_bytes(const struct tally_row *row)
{
    return row->bytes_up + row->bytes_down;
}

static const struct table {
    const char *key, *title;
    size_t tally;
    tally_weight *weight;
} tables[] = {
    {"denied_hosts", "DENIED", offsetof(struct summary, denied), by_denied},
    {"reasons", "REASON", offsetof(struct summary, reasons), by_denied},
    {"sandboxes", "SANDBOX OR CLIENT", offsetof(struct summary, sandboxes), by_requests},
    {"policies", "POLICY", offsetof(struct summary, policies), by_requests},
    {"hosts", "BYTES WITH", offsetof(struct summary, hosts), by_bytes},
    {"hours", "BUSIEST HOUR (UTC)", offsetof(struct summary, hours), by_requests},
};
enum { TABLE_DENIED = 0, TABLE_REASONS = 1, TABLE_COUNT = sizeof(tables) / sizeof(tables[0]) };

static struct tally **tally_of(struct summary *summary, size_t table)
{
    return (struct tally **)(void *)((char *)summary + tables[table].tally);
}

/* The first `top` rows; what is behind them is added to the others. */
static struct tally_row **top_rows(struct summary *summary, size_t table, size_t top, size_t *shown,
                                   struct tally_row *rest)
{
    size_t count;
    struct tally_row **rows = tally_sorted(*tally_of(summary, table), tables[table].weight, &count);
    *rest = (struct tally_row){0};
    for (*shown = 0; *shown < count && *shown < top && rows[*shown]->key != NULL;)
        ++*shown;
    for (size_t i = *shown; i < count; i++) {
        rest->requests += rows[i]->requests;
        rest->denied += rows[i]->denied;
        rest->bytes_up += rows[i]->bytes_up;
        rest->bytes_down += rows[i]->bytes_down;
    }
    return rows;
}

static bool is_empty(const struct tally_row *row)
{
    return row->requests + row->denied + row->bytes_up + row->bytes_down == 0;
}

/* Behind a tab there is the note, which makes the key its own. */
static struct str shown_key(const struct tally_row *row)
{
    return row->key != NULL ? (struct str){row->key, strcspn(row->key, "\t")} : STR("others");
}

/* The line that would allow a row of denials; false: there is none, and its note says why. */
static bool rule_line(const struct tally_row *row, char *out, size_t size)
{
    uint16_t ports[TALLY_PORTS];
    char text[PROPOSAL_PORTS_MAX];
    if (row->key == NULL || row->note != NULL)
        return false;
    memcpy(ports, row->ports, sizeof(ports));
    snprintf(out, size, "allow = %s%s", row->key, proposal_ports(text, ports, row->port_count));
    return true;
}

/* ---- JSON ---- */

static void write_row(struct json *json, size_t table, const struct tally_row *row)
{
    char line[512];
    json_object_open(json, NULL);
    json_text(json, "name", row->key != NULL ? shown_key(row) : STR_NULL);
    if (table != TABLE_DENIED && table != TABLE_REASONS)
        json_number(json, "requests", (int64_t)row->requests);
    json_number(json, "denied", (int64_t)row->denied);
    if (table == TABLE_DENIED) {
        json_text(json, "rule", rule_line(row, line, sizeof(line)) ? str_of(line) : STR_NULL);
        json_text(json, "note", str_of(row->note));
    } else if (table != TABLE_REASONS) {
        json_number(json, "bytes_up", (int64_t)row->bytes_up);
        json_number(json, "bytes_down", (int64_t)row->bytes_down);
    }
    json_object_close(json);
}

static void print_json(struct summary *summary, size_t top, size_t skipped)
{
    struct json json = {0};
    json_object_open(&json, NULL);
    json_text(&json, "from", summary->first[0] != '\0' ? str_of(summary->first) : STR_NULL);
    json_text(&json, "to", summary->last[0] != '\0' ? str_of(summary->last) : STR_NULL);
    json_number(&json, "requests", (int64_t)summary->requests);
    json_number(&json, "denied", (int64_t)summary->refused);
    json_number(&json, "would_deny", (int64_t)summary->reported);
    json_number(&json, "closes", (int64_t)summary->closes);
    json_number(&json, "bytes_up", (int64_t)summary->bytes_up);
    json_number(&json, "bytes_down", (int64_t)summary->bytes_down);
    json_number(&json, "lost", (int64_t)summary->lost);
    json_number(&json, "passed_over", (int64_t)skipped);
    for (size_t table = 0; table < TABLE_COUNT; table++) {
        size_t shown;
        struct tally_row rest;
        struct tally_row **rows = top_rows(summary, table, top, &shown, &rest);
        json_array_open(&json, tables[table].key);
        for (size_t i = 0; i < shown; i++)
            write_row(&json, table, rows[i]);
        if (!is_empty(&rest))
            write_row(&json, table, &rest);
        json_array_close(&json);
    }
    json_object_close(&json);
    json_newline(&json);
    fwrite(json.data, 1, json.len, stdout);
    json_free(&json);
}

/* ---- text ---- */

static const char *bytes_text(char out[32], uint64_t bytes)
{
    static const char units[] = "BKMGTPE";
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 1024. && unit + 2 < sizeof(units); unit++)
        value /= 1024.;
    snprintf(out, 32, unit == 0 ? "%.0f%c" : "%.1f%c", value, units[unit]);
    return out;
}

/* A name from the log moves no cursor. */
static void print_name(struct str name)
{
    enum { WIDTH = 36 };
    for (size_t i = 0; i < name.len; i++)
        putchar(isprint((unsigned char)name.p[i]) ? name.p[i] : '?');
    for (size_t i = name.len; i < WIDTH; i++)
        putchar(' ');
}

static void print_row(size_t table, const struct tally_row *row)
{
    char line[512], up[32], down[32];
    printf("  ");
    print_name(shown_key(row));
    if (table == TABLE_REASONS) {
        printf(" %10" PRIu64 "\n", row->denied);
    } else if (table == TABLE_DENIED) {
        const bool lifts = rule_line(row, line, sizeof(line));
        const char *how = lifts ? line : row->note != NULL ? row->note : "";
        printf(" %10" PRIu64 "  ", row->denied);
        for (; *how != '\0'; how++)
            putchar(isprint((unsigned char)*how) ? *how : '?');
        putchar('\n');
    } else {
        printf(" %10" PRIu64 " %10" PRIu64 " %9s %9s\n", row->requests, row->denied,
               bytes_text(up, row->bytes_up), bytes_text(down, row->bytes_down));
    }
}

static void print_table(struct summary *summary, size_t table, size_t top)
{
    size_t shown;
    struct tally_row rest;
    struct tally_row **rows = top_rows(summary, table, top, &shown, &rest);
    if (shown == 0 && is_empty(&rest))
        return;
    printf("\n%-38s ", tables[table].title);
    if (table == TABLE_DENIED)
        printf("%10s  %s\n", "denied", "what would allow it");
    else if (table == TABLE_REASONS)
        printf("%10s\n", "denied");
    else
        printf("%10s %10s %9s %9s\n", "requests", "denied", "up", "down");
    for (size_t i = 0; i < shown; i++)
        print_row(table, rows[i]);
    if (!is_empty(&rest))
        print_row(table, &rest);
}

static void print_text(struct summary *summary, size_t top)
{
    char up[32], down[32];
    printf("%s to %s: %" PRIu64 " requests, %" PRIu64 " denied, %" PRIu64
           " would have been; %s up, %s down; %" PRIu64 " records lost\n",
           summary->first[0] != '\0' ? summary->first : "-",
           summary->last[0] != '\0' ? summary->last : "-", summary->requests, summary->refused,
           summary->reported, bytes_text(up, summary->bytes_up),
           bytes_text(down, summary->bytes_down), summary->lost);
    for (size_t table = 0; table < TABLE_COUNT; table++)
        print_table(summary, table, top);
}

int command_summary(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, 'j'},
        {"top", required_argument, NULL, 't'},
        COMMAND_COMMON_OPTIONS,
    };
    bool json = false;
    uint64_t top = TOP_DEFAULT;
    for (int option; (option = command_option(self, argc, argv, "hV", longs)) != -1;) {
        if (option == 'j')
            json = true;
        else if (!str_uint(str_of(optarg), TALLY_ROWS, &top) || top == 0)
            return command_misused(self, "--top %s: a number from 1 to %d", optarg, TALLY_ROWS);
    }
    if (optind + 1 != argc)
        return command_misused(self, "name one audit log");

    struct summary summary = {0};
    struct srt_err err;
    size_t skipped = 0;
    int status = EXIT_DONE;
    for (size_t table = 0; table < TABLE_COUNT; table++)
        *tally_of(&summary, table) = tally_create();
    if (history_read(argv[optind], count_record, &summary, &skipped, &err) != 0) {
        fprintf(stderr, "srt-gateway: %s\n", err.text);
        status = EXIT_SYSTEM;
    } else if (json) {
        print_json(&summary, top, skipped);
    } else {
        print_text(&summary, top);
    }
    for (size_t table = 0; table < TABLE_COUNT; table++)
        tally_free(*tally_of(&summary, table));
    return status;
}
