#include "launcher/rebase.h"

#include "launcher/gitconfig.h"

#include <string.h>

static size_t skip_spaces(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && (p[n] == ' ' || p[n] == '\t' || p[n] == '\r'))
        n++;
    return n;
}

/* `exec COMMAND` or `x COMMAND`, as parse_insn_line() of git's sequencer.c reads it. Returns where
 * the command begins, 0 where the line is another. */
static size_t command_at(const char *line, size_t len)
{
    static const char *const words[] = {"exec", "x"};
    size_t start = skip_spaces(line, len);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t end = start + strlen(words[i]);
        if (end < len && memcmp(line + start, words[i], strlen(words[i])) == 0 &&
            (line[end] == ' ' || line[end] == '\t'))
            return end + skip_spaces(line + end, len - end);
    }
    return 0;
}

static void copy_printable(char *out, size_t size, const char *bytes, size_t len)
{
    size_t n = 0;
    for (; n < len && n + 1 < size; n++)
        out[n] = bytes[n] >= ' ' && bytes[n] <= '~' ? bytes[n] : '?';
    out[n] = '\0';
}

bool rebase_finds_command(const char *bytes, size_t len, char *command, size_t size)
{
    for (size_t at = 0; at < len;) {
        const char *line = bytes + at;
        const char *newline = memchr(line, '\n', len - at);
        size_t line_len = newline != NULL ? (size_t)(newline - line) : len - at;
        size_t begin = command_at(line, line_len);
        if (begin > 0) {
            copy_printable(command, size, line + begin, line_len - begin);
            return true;
        }
        at += line_len + 1;
    }
    return false;
}

bool rebase_names_program(const char *bytes, size_t len, char *command, size_t size)
{
    static const char *const built_in[] = {"ort",     "recursive", "resolve",
                                           "octopus", "ours",      "subtree"};
    static const char prefix[] = "git-merge-";
    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < sizeof(built_in) / sizeof(built_in[0]); i++)
        if (len == strlen(built_in[i]) && memcmp(bytes, built_in[i], len) == 0)
            return false;
    if (len == 0)
        return false;
    copy_printable(command, size, prefix, strlen(prefix));
    size_t start = strlen(command);
    copy_printable(command + start, size - start, bytes, len);
    return true;
}

struct sequence {
    char *command;
    size_t size;
    bool found;
};

static bool on_option(void *context, const struct gitconfig_entry *entry)
{
    struct sequence *sequence = context;
    sequence->found =
        strcmp(entry->section, "options") == 0 && entry->subsection == NULL &&
        strcmp(entry->name, "strategy") == 0 && entry->value != NULL &&
        rebase_names_program(entry->value, strlen(entry->value), sequence->command, sequence->size);
    return !sequence->found;
}

bool rebase_sequence_names_program(const char *bytes, size_t len, char *command, size_t size)
{
    struct sequence sequence = {.command = command, .size = size};
    gitconfig_read(bytes, len, on_option, &sequence);
    return sequence.found;
}

/* The options of git am that are for git apply (OPT_PASSTHRU_ARGV in git's am.c). */
static bool is_of_am(const char *option, size_t len)
{
    static const char *const words[] = {"--whitespace=",
                                        "--ignore-space-change",
                                        "--ignore-whitespace",
                                        "--directory=",
                                        "--exclude=",
                                        "--include=",
                                        "--reject",
                                        "-C",
                                        "-p"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (len >= strlen(words[i]) && memcmp(option, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* Each is a space and a word in single quotes, as sq_quote_argv() of git's quote.c writes them. The
 * length of the first, 0 where it is spelled or means something else. */
static size_t option_of_am(const char *bytes, size_t len)
{
    static const char open[] = " '";
    const size_t begin = strlen(open);
    if (len < begin || memcmp(bytes, open, begin) != 0)
        return 0;
    const char *end = memchr(bytes + begin, '\'', len - begin);
    bool good = end != NULL && is_of_am(bytes + begin, (size_t)(end - bytes) - begin);
    return good ? (size_t)(end - bytes) + 1 : 0;
}

bool rebase_has_odd_option(const char *bytes, size_t len, char *command, size_t size)
{
    static const char program[] = "git apply";
    while (len > 0 && bytes[len - 1] == '\n')
        len--;
    size_t at = 0, next = 1;
    for (; at < len && next > 0; at += next)
        next = option_of_am(bytes + at, len - at);
    if (next > 0)
        return false;
    copy_printable(command, size, program, strlen(program));
    size_t start = strlen(command);
    copy_printable(command + start, size - start, bytes + at, len - at);
    return true;
}
