/* A git configuration says the same when it is written again as git would write it; and what is
 * called harmless names nothing that git runs. */
#include "launcher/gitconfig.h"

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
    return 0;
}
