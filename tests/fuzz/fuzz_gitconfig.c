/* A git configuration says the same when it is written again as git would write it; and what is
 * called harmless names nothing that git runs. */
#include "launcher/gitconfig.h"
#include "launcher/gitconfig_harmless.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 18 };

struct text {
    char bytes[ROOM];
    size_t len;
};

static void add(struct text *text, const char *bytes)
{
    size_t len = strlen(bytes);
    if (text->len + len < ROOM) {
        memcpy(text->bytes + text->len, bytes, len);
        text->len += len;
    }
}

/* In the name of a subsection an escape stands for the character after it. */
static void add_quoted(struct text *text, const char *bytes, bool value)
{
    add(text, "\"");
    for (const char *p = bytes; *p != '\0'; p++) {
        char one[3] = {*p, '\0', '\0'};
        if (*p == '"' || *p == '\\' || (value && (*p == '\n' || *p == '\b'))) {
            one[0] = '\\';
            one[1] = *p;
            if (*p == '\n')
                one[1] = 'n';
            if (*p == '\b')
                one[1] = 'b';
        }
        add(text, one);
    }
    add(text, "\"");
}

static bool write_entry(void *context, const struct gitconfig_entry *entry)
{
    struct text *text = context;
    /* A newline in a subsection, and a name without a section, cannot be written. */
    add(text, "[");
    add(text, entry->section[0] != '\0' ? entry->section : "x");
    if (entry->subsection != NULL) {
        add(text, " ");
        add_quoted(text, entry->subsection, false);
    }
    add(text, "]\n\t");
    add(text, entry->name);
    if (entry->value != NULL) {
        add(text, " = ");
        add_quoted(text, entry->value, true);
    }
    add(text, "\n");
    return true;
}

static bool nothing_to_run(void *context, const struct gitconfig_entry *entry)
{
    (void)context;
    static const char *const names[] = {"hookspath", "fsmonitor", "path",   "helper", "editor",
                                        "pager",     "program",   "driver", "clean",  "smudge"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(entry->name, names[i]) == 0)
            abort();
    if (entry->value != NULL && strncmp(entry->value, "ext::", 5) == 0 &&
        strcmp(entry->name, "url") == 0)
        abort();
    return true;
}

static bool only_submodules(void *context, const struct gitconfig_entry *entry)
{
    (void)context;
    if (strcmp(entry->section, "submodule") != 0 ||
        (strcmp(entry->name, "update") == 0 && strchr(entry->value, '!') != NULL))
        abort();
    return true;
}

static bool is_worktree(const struct gitconfig_entry *entry)
{
    return entry->subsection == NULL && strcmp(entry->section, "core") == 0 &&
           strcmp(entry->name, "worktree") == 0;
}

static bool write_other(void *context, const struct gitconfig_entry *entry)
{
    return is_worktree(entry) || write_entry(context, entry);
}

static bool write_dangerous(void *context, const struct gitconfig_entry *entry)
{
    bool varies = strcmp(entry->section, "branch") == 0 || strcmp(entry->section, "submodule") == 0;
    return varies || write_entry(context, entry);
}

static bool same(const struct text *a, const struct text *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Without its work tree it says everything else that it said. */
static void cut(const char *bytes, size_t size)
{
    static struct text before, after, rest;
    before.len = after.len = 0;
    enum gitconfig_end end = gitconfig_read(bytes, size, write_other, &before);
    memcpy(rest.bytes, bytes, size);
    rest.len = gitconfig_without_worktree(rest.bytes, size);
    if (end == GITCONFIG_MALFORMED || before.len >= ROOM / 2)
        return;
    if (gitconfig_read(rest.bytes, rest.len, write_entry, &after) == GITCONFIG_MALFORMED ||
        !same(&before, &after))
        abort();
}

/* One half as the old, the other as the new configuration: only branches and submodules differ. */
static void change(const char *bytes, size_t size, enum gitconfig_end end)
{
    static struct text first, second;
    char why[128];
    if (gitconfig_changes_harmless(bytes, size, bytes, size, why, sizeof(why)) !=
        (end == GITCONFIG_PLAIN))
        abort();
    const size_t half = size / 2;
    first.len = second.len = 0;
    if (!gitconfig_changes_harmless(bytes, half, bytes + half, size - half, why, sizeof(why)))
        return;
    gitconfig_read(bytes, half, write_dangerous, &first);
    gitconfig_read(bytes + half, size - half, write_dangerous, &second);
    if (!same(&first, &second) ||
        gitconfig_read(bytes + half, size - half, write_dangerous, &second) != GITCONFIG_PLAIN)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct text first, second;
    const char *bytes = (const char *)data;
    char why[128];
    if (size > ROOM / 8)
        return 0;
    first.len = second.len = 0;
    enum gitconfig_end end = gitconfig_read(bytes, size, write_entry, &first);
    if (first.len < ROOM / 2) {
        enum gitconfig_end again = gitconfig_read(first.bytes, first.len, write_entry, &second);
        if (again == GITCONFIG_MALFORMED || first.len != second.len ||
            memcmp(first.bytes, second.bytes, first.len) != 0)
            abort();
    }
    if (gitconfig_harmless(bytes, size, why, sizeof(why)) &&
        (end != GITCONFIG_PLAIN ||
         gitconfig_read(bytes, size, nothing_to_run, NULL) != GITCONFIG_PLAIN))
        abort();
    if (gitconfig_modules_harmless(bytes, size, why, sizeof(why)) &&
        gitconfig_read(bytes, size, only_submodules, NULL) != GITCONFIG_PLAIN)
        abort();
    cut(bytes, size);
    change(bytes, size, end);
    return 0;
}
