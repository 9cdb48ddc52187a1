#include "control/diff.h"

#include "srt/must.h"

#include <stdlib.h>

/* Enough to sort by and to print from, without a copy of a million rules. */
struct line {
    const char *policy;
    const struct rule *rule;
};

struct lines {
    struct line *items;
    size_t count;
};

static int compare(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = strcmp(x->policy, y->policy);
    if (order == 0)
        order = strcmp(rule_key(x->rule), rule_key(y->rule));
    return order != 0 ? order : strcmp(x->rule->text, y->rule->text);
}

static struct lines sorted_lines(const struct snapshot *snapshot)
{
    struct lines lines = {0};
    size_t total = 0;
    for (size_t i = 0; i < snapshot->config->policy_count; i++)
        total += policy_rule_count(snapshot->policies[i]);
    lines.items = must(calloc(total + 1, sizeof(*lines.items)));
    for (size_t i = 0; i < snapshot->config->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        size_t count = policy_rule_count(policy);
        for (size_t j = 0; j < count; j++)
            lines.items[lines.count++] =
                (struct line){policy_name(policy), policy_rule_at(policy, j)};
    }
    qsort(lines.items, lines.count, sizeof(*lines.items), compare);
    return lines;
}

static void add(struct diff_list *list, const struct line *line)
{
    list->total++;
    if (list->count == DIFF_LINES_MAX)
        return;
    if (list->lines == NULL)
        list->lines = must(calloc(DIFF_LINES_MAX, sizeof(char *)));
    list->lines[list->count++] =
        must_format("%s: %s = %s", line->policy, rule_key(line->rule), line->rule->text);
}

void diff_make(struct diff *diff, const struct snapshot *from, const struct snapshot *to)
{
    struct lines old = sorted_lines(from), new = sorted_lines(to);
    size_t i = 0, j = 0;
    *diff = (struct diff){0};
    while (i < old.count || j < new.count) {
        int order = i == old.count   ? 1
                    : j == new.count ? -1
                                     : compare(&old.items[i], &new.items[j]);
        if (order < 0) {
            add(&diff->removed, &old.items[i++]);
        } else if (order > 0) {
            add(&diff->added, &new.items[j++]);
        } else {
            i++;
            j++;
        }
    }
    free(old.items);
    free(new.items);
}

static void free_list(struct diff_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->lines[i]);
    free(list->lines);
}

void diff_free(struct diff *diff)
{
    free_list(&diff->added);
    free_list(&diff->removed);
    *diff = (struct diff){0};
}

static void write_list(const struct diff_list *list, const char *key, struct json *json)
{
    json_array_open(json, key);
    for (size_t i = 0; i < list->count; i++)
        json_text(json, NULL, str_of(list->lines[i]));
    if (list->total > list->count) {
        char more[64];
        snprintf(more, sizeof(more), "and %zu more", list->total - list->count);
        json_text(json, NULL, str_of(more));
    }
    json_array_close(json);
}

void diff_write(const struct diff *diff, struct json *json)
{
    write_list(&diff->added, "added", json);
    write_list(&diff->removed, "removed", json);
}
