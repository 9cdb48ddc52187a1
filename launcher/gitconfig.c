#include "launcher/gitconfig.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <string.h>

/* git's own character classes: no locale, and neither \v nor \f is a space. */
static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alpha(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key(int c)
{
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '-';
}

static char lower(int c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Follows git_parse_source() of git's config.c step by step, so that both see the same entries. */
struct reader {
    const char *begin, *at, *end;
    bool ended, odd;
    char section[GITCONFIG_KEY_SIZE], subsection[GITCONFIG_KEY_SIZE], name[GITCONFIG_KEY_SIZE],
        value[GITCONFIG_VALUE_SIZE];
    bool has_subsection;
};

/* The end of the file counts as the end of a line. */
static int next_char(struct reader *reader)
{
    if (reader->at == reader->end) {
        reader->ended = true;
        return '\n';
    }
    int c = (unsigned char)*reader->at++;
    if (c == '\r') {
        reader->odd = true;
        if (reader->at < reader->end && *reader->at == '\n') {
            reader->at++;
            c = '\n';
        }
    }
    if (c == '\0')
        reader->odd = true;
    return c;
}

static bool add_char(char *text, size_t size, size_t *len, int c)
{
    if (*len + 1 >= size)
        return false;
    text[(*len)++] = (char)c;
    text[*len] = '\0';
    return true;
}

static bool read_subsection(struct reader *reader)
{
    size_t len = 0;
    int c;
    do {
        c = next_char(reader);
        if (c == '\n')
            return false;
    } while (is_space(c));
    if (c != '"')
        return false;
    reader->has_subsection = true;
    reader->subsection[0] = '\0';
    for (;;) {
        c = next_char(reader);
        if (c == '"')
            break;
        if (c == '\\')
            c = next_char(reader);
        if (c == '\n' || !add_char(reader->subsection, sizeof(reader->subsection), &len, c))
            return false;
    }
    return next_char(reader) == ']';
}

/* After `[`. */
static bool read_section(struct reader *reader)
{
    size_t len = 0;
    reader->section[0] = '\0';
    reader->has_subsection = false;
    for (;;) {
        int c = next_char(reader);
        if (reader->ended)
            return false;
        if (c == ']')
            return len > 0;
        if (is_space(c))
            return read_subsection(reader);
        if (!is_key(c) && c != '.')
            return false;
        reader->odd = reader->odd || c == '.'; /* an older spelling of subsections */
        if (!add_char(reader->section, sizeof(reader->section), &len, lower(c)))
            return false;
    }
}

static bool read_escape(struct reader *reader, int *c)
{
    switch (*c) {
    case '\\':
    case '"':
        return true;
    case 't':
        *c = '\t';
        return true;
    case 'n':
        *c = '\n';
        return true;
    case 'b':
        *c = '\b';
        reader->odd = true;
        return true;
    default:
        return false;
    }
}

/* After `=`. */
static bool read_value(struct reader *reader)
{
    size_t len = 0, spaces = 0;
    bool quoted = false, comment = false;
    reader->value[0] = '\0';
    for (;;) {
        int c = next_char(reader);
        if (c == '\n')
            return !quoted;
        if (comment)
            continue;
        if (is_space(c) && !quoted) {
            spaces += len > 0;
            continue;
        }
        if (!quoted && (c == ';' || c == '#')) {
            comment = true;
            continue;
        }
        for (; spaces > 0; spaces--)
            if (!add_char(reader->value, sizeof(reader->value), &len, ' '))
                return false;
        if (c == '\\') {
            c = next_char(reader);
            if (c == '\n') {
                reader->odd = true; /* the next line goes on */
                continue;
            }
            if (!read_escape(reader, &c))
                return false;
        } else if (c == '"') {
            quoted = !quoted;
            continue;
        }
        if (!add_char(reader->value, sizeof(reader->value), &len, c))
            return false;
    }
}

static bool read_entry(struct reader *reader, int first, struct gitconfig_entry *entry)
{
    size_t len = 0, start = (size_t)(reader->at - reader->begin) - 1;
    int c = first;
    while (start > 0 && (reader->begin[start - 1] == ' ' || reader->begin[start - 1] == '\t'))
        start--;
    do {
        if (!add_char(reader->name, sizeof(reader->name), &len, lower(c)))
            return false;
        c = next_char(reader);
    } while (is_key(c));
    while (c == ' ' || c == '\t')
        c = next_char(reader);
    *entry = (struct gitconfig_entry){
        .section = reader->section,
        .subsection = reader->has_subsection ? reader->subsection : NULL,
        .name = reader->name,
        .start = start,
    };
    if (c != '\n') {
        if (c != '=' || !read_value(reader))
            return false;
        entry->value = reader->value;
    }
    entry->end = (size_t)(reader->at - reader->begin);
    return true;
}

enum gitconfig_end gitconfig_read(const char *bytes, size_t len, gitconfig_visitor *visit,
                                  void *context)
{
    struct reader reader = {.begin = bytes, .at = bytes, .end = bytes + len};
    bool comment = false;
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        reader.at += 3;
        reader.odd = true;
    }
    while (!reader.ended) {
        int c = next_char(&reader);
        if (c == '\n') {
            comment = false;
        } else if (comment || is_space(c)) {
            continue;
        } else if (c == '#' || c == ';') {
            comment = true;
        } else if (c == '[') {
            if (!read_section(&reader))
                return GITCONFIG_MALFORMED;
        } else {
            struct gitconfig_entry entry;
            if (!is_alpha(c) || !read_entry(&reader, c, &entry))
                return GITCONFIG_MALFORMED;
            if (!visit(context, &entry))
                return GITCONFIG_STOPPED;
        }
    }
    return reader.odd ? GITCONFIG_ODD : GITCONFIG_PLAIN;
}

struct cutting {
    char *bytes;
    size_t kept, from; /* what comes from `from` on has not been looked at */
};

static bool cut_worktree(void *context, const struct gitconfig_entry *entry)
{
    struct cutting *cutting = context;
    if (entry->subsection != NULL || strcmp(entry->section, "core") != 0 ||
        strcmp(entry->name, "worktree") != 0)
        return true;
    memmove(cutting->bytes + cutting->kept, cutting->bytes + cutting->from,
            entry->start - cutting->from);
    cutting->kept += entry->start - cutting->from;
    cutting->from = entry->end;
    return true;
}

size_t gitconfig_without_worktree(char *bytes, size_t len)
{
    autofree char *read = must(malloc(len + 1));
    memcpy(read, bytes, len);
    struct cutting cutting = {.bytes = bytes};
    gitconfig_read(read, len, cut_worktree, &cutting);
    memmove(bytes + cutting.kept, bytes + cutting.from, len - cutting.from);
    return cutting.kept + len - cutting.from;
}
