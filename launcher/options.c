#include "launcher/options.h"

#include "config/fault.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

enum kind { TEXT, NUMBER_FD, PORT, SWITCH, ACTION };

static const struct row {
    const char *long_name;
    char letter; /* 0 = none */
    enum kind kind;
    size_t offset; /* into struct options; of an ACTION its value */
    const char *argument, *help;
} rows[] = {
    {"settings", 's', TEXT, offsetof(struct options, settings), "FILE",
     "settings; default ~/.srt-settings.json"},
    {"gateway", 0, TEXT, offsetof(struct options, gateway), "private|unix:PATH",
     "the gateway to use; default private, or SRT_GATEWAY"},
    {"policy", 0, TEXT, offsetof(struct options, policy), "NAME",
     "the gateway's policy; settings can only narrow it"},
    {"egress", 0, TEXT, offsetof(struct options, egress), "MODE",
     "port (default), transparent, socket or none"},
    {"publish", 0, PORT, offsetof(struct options, publish), "[[ADDR:]HOSTPORT:]PORT",
     "a port inside that the host's loopback leads to; repeatable"},
    {"ask", 0, TEXT, offsetof(struct options, ask), "tty",
     "what nobody has decided is asked on this terminal"},
    {"control-fd", 0, NUMBER_FD, offsetof(struct options, control_fd), "N",
     "live network policy, one settings object a line"},
    {"violations-fd", 0, NUMBER_FD, offsetof(struct options, violations_fd), "N",
     "violations as JSON lines"},
    {"violations", 0, TEXT, offsetof(struct options, violations), "FILE",
     "violations as JSON lines"},
    {"name", 0, TEXT, offsetof(struct options, name), "ID",
     "the sandbox's name in the gateway's log"},
    {"wait", 0, SWITCH, offsetof(struct options, wait), NULL,
     "wait for everything that the command leaves running"},
    {"dry-run", 0, SWITCH, offsetof(struct options, dry_run), NULL,
     "print mounts, environment and filter, run nothing"},
    {"verbose", 'v', SWITCH, offsetof(struct options, verbose), NULL, "say what is done and why"},
    {"debug", 'd', SWITCH, offsetof(struct options, verbose), NULL, "the same, as srt calls it"},
    {"help", 'h', ACTION, OPTIONS_HELP, NULL, "this text"},
    {"version", 'V', ACTION, OPTIONS_VERSION, NULL, "the version"},
    {"", 'c', TEXT, offsetof(struct options, shell_string), "STRING", "run STRING by the shell"},
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

void options_usage(FILE *out)
{
    fputs("usage: srt-launch [options] [--] COMMAND [ARG...]\n"
          "       srt-launch [options] -c STRING [NAME [ARG...]]\n"
          "       srt-launch doctor\n"
          "       srt-launch explain-path [--settings FILE] PATH...\n"
          "       srt-launch connect HOST PORT          (inside a sandbox)\n\n",
          out);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char left[64], name[32] = "", letter[8] = "    ";
        bool both = rows[i].letter != 0 && rows[i].long_name[0] != '\0';
        if (rows[i].long_name[0] != '\0')
            snprintf(name, sizeof(name), "--%s", rows[i].long_name);
        if (rows[i].letter != 0)
            snprintf(letter, sizeof(letter), "-%c%s", rows[i].letter, both ? ", " : "");
        snprintf(left, sizeof(left), "%s%s %s", letter, name,
                 rows[i].argument != NULL ? rows[i].argument : "");
        fprintf(out, "  %-37s %s\n", left, rows[i].help);
    }
}

static int set_fd(const struct row *row, const char *text, int *out, struct srt_err *err)
{
    uint64_t number;
    if (!str_uint(str_of(text), 1 << 20, &number) || number < 3)
        return srt_err_set(err, "--%s needs the number of a descriptor from 3 up, not \"%s\"",
                           row->long_name, text);
    if (fcntl((int)number, F_GETFD) < 0)
        return srt_err_set(err, "--%s %s: there is no such open descriptor", row->long_name, text);
    bool reads = row->offset == offsetof(struct options, control_fd);
    int way = fcntl((int)number, F_GETFL) & (O_ACCMODE | O_PATH);
    struct stat st;
    if ((way != O_RDWR && way != (reads ? O_RDONLY : O_WRONLY)) ||
        (fstat((int)number, &st) == 0 && S_ISDIR(st.st_mode)))
        return srt_err_set(err, "--%s %s: this descriptor cannot be %s", row->long_name, text,
                           reads ? "read" : "written to");
    *out = (int)number;
    return 0;
}

/* Takes the row's value; `text` is its argument or NULL. */
static int apply(struct options *options, const struct row *row, const char *text,
                 struct srt_err *err)
{
    char *field = (char *)options + row->offset;
    switch (row->kind) {
    case TEXT:
        if (text[0] == '\0' && row->letter != 'c')
            return srt_err_set(err, "--%s needs a value that is not empty", row->long_name);
        memcpy(field, &text, sizeof(text));
        return 0;
    case NUMBER_FD: {
        int fd = -1;
        if (set_fd(row, text, &fd, err) != 0)
            return -1;
        memcpy(field, &fd, sizeof(fd));
        return 0;
    }
    case PORT:
        return publish_parse(&options->publish, text, err);
    case SWITCH: {
        const bool on = true;
        memcpy(field, &on, sizeof(on));
        return 0;
    }
    case ACTION:
        options->action = (enum options_action)row->offset;
        return 0;
    }
    return -1;
}

static const struct row *row_by_name(const char *name, size_t len)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].long_name) == len && len > 0 &&
            strncmp(rows[i].long_name, name, len) == 0)
            return &rows[i];
    return NULL;
}

static const struct row *row_by_letter(char letter)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

static int unknown(const char *word, struct srt_err *err)
{
    const char *names[ROW_COUNT + 1] = {NULL};
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i].long_name;
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *near = word[1] == '-' ? nearest_word(name, names) : NULL;
    if (near != NULL && near[0] != '\0')
        return srt_err_set(err, "unknown option %s; did you mean --%s?", word, near);
    return srt_err_set(err, "unknown option %s (put -- before a command that begins with a dash)",
                       word);
}

static bool takes_value(const struct row *row)
{
    return row->kind != SWITCH && row->kind != ACTION;
}

/* `text`: what follows in the same word, or NULL. */
static int take(struct options *options, const struct row *row, const char *word, const char *text,
                char ***argv, struct srt_err *err)
{
    if (takes_value(row) && text == NULL) {
        if (**argv == NULL)
            return srt_err_set(err, "%s needs a value", word);
        text = *(*argv)++;
    }
    return apply(options, row, text, err);
}

static int parse_long(struct options *options, const char *word, char ***argv, struct srt_err *err)
{
    size_t len = strcspn(word + 2, "=");
    const struct row *row = row_by_name(word + 2, len);
    const char *text = word[2 + len] == '=' ? word + 2 + len + 1 : NULL;
    if (row == NULL)
        return unknown(word, err);
    if (!takes_value(row) && text != NULL)
        return srt_err_set(err, "%s takes no value", word);
    return take(options, row, word, text, argv, err);
}

/* Several in one word: -vc STRING. */
static int parse_letters(struct options *options, const char *word, char ***argv,
                         struct srt_err *err)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        const struct row *row = row_by_letter(*letter);
        if (row == NULL)
            return unknown(word, err);
        const char *text = takes_value(row) && letter[1] != '\0' ? letter + 1 : NULL;
        if (take(options, row, word, text, argv, err) != 0)
            return -1;
        if (takes_value(row) || row->kind == ACTION)
            break;
    }
    return 0;
}

/* One word that begins with a dash, at *argv; moves on over it and its argument. */
static int parse_option(struct options *options, char ***argv, struct srt_err *err)
{
    const char *word = *(*argv)++;
    return word[1] == '-' ? parse_long(options, word, argv, err)
                          : parse_letters(options, word, argv, err);
}

static int parse_subcommand(struct options *options, struct srt_err *err)
{
    const char *word = options->rest[0], *first = options->rest[1];
    if (strcmp(word, "doctor") == 0)
        options->action = OPTIONS_DOCTOR;
    else if (strcmp(word, "explain-path") == 0)
        options->action = OPTIONS_EXPLAIN_PATH;
    else if (strcmp(word, "connect") == 0)
        options->action = OPTIONS_CONNECT;
    else
        return 0;
    options->rest++;
    if (first != NULL && (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0))
        options->action = OPTIONS_HELP;
    if (options->action != OPTIONS_EXPLAIN_PATH)
        return 0;
    while (options->rest[0] != NULL && options->rest[0][0] == '-' && options->rest[0][1] != '\0') {
        if (strcmp(options->rest[0], "--") == 0) {
            options->rest++;
            break;
        }
        if (parse_option(options, &options->rest, err) != 0)
            return -1;
    }
    return options->rest[0] != NULL ? 0 : srt_err_set(err, "explain-path needs a path");
}

int options_parse(struct options *options, char **argv, struct srt_err *err)
{
    *options = (struct options){.control_fd = -1, .violations_fd = -1};
    char **next = argv + 1;
    bool ended = false;
    while (*next != NULL && (*next)[0] == '-' && (*next)[1] != '\0') {
        if (strcmp(*next, "--") == 0) {
            next++;
            ended = true;
            break;
        }
        if (parse_option(options, &next, err) != 0)
            return -1;
        if (options->action != OPTIONS_RUN)
            return 0;
    }
    options->rest = next;
    if (options->violations != NULL && options->violations_fd >= 0)
        return srt_err_set(err, "--violations and --violations-fd exclude each other");
    if (options->shell_string != NULL)
        return 0;
    if (next[0] == NULL)
        return srt_err_set(err, "there is no command; srt-launch --help shows how it is used");
    /* After -- every word is the command, so a program called "doctor" can be run too. */
    return ended ? 0 : parse_subcommand(options, err);
}
