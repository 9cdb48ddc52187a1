#include "launcher/gitconfig.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { KEY_SIZE = 1024, VALUE_SIZE = 8192 };

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
    const char *at, *end;
    bool ended, odd;
    char section[KEY_SIZE], subsection[KEY_SIZE], name[KEY_SIZE], value[VALUE_SIZE];
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
    size_t len = 0;
    int c = first;
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
    };
    if (c == '\n')
        return true;
    if (c != '=' || !read_value(reader))
        return false;
    entry->value = reader->value;
    return true;
}

enum gitconfig_end gitconfig_read(const char *bytes, size_t len, gitconfig_visitor *visit,
                                  void *context)
{
    struct reader reader = {.at = bytes, .end = bytes + len};
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

/* ---- what is harmless ---- */

static bool is_bool(const char *value)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
    if (value == NULL)
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

static bool is_false(const char *value)
{
    return value != NULL && is_bool(value) &&
           (value[0] == '0' || strcasecmp(value, "off") == 0 || lower(value[0]) == 'f' ||
            lower(value[0]) == 'n');
}

static bool is_number(const char *value)
{
    return value != NULL && value[0] != '\0' && strlen(value) < 10 &&
           strspn(value, "0123456789") == strlen(value);
}

/* A name of a person, branch, path or the like: shown and compared, never run or opened. */
static bool is_text(const char *value)
{
    for (const char *p = value; p != NULL && *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return value != NULL && value[0] != '-';
}

/* Letters, digits and what names of remotes and branches have besides. Nothing that would make it
 * a URL or an option. */
static bool is_word(const char *value)
{
    if (value == NULL || value[0] == '\0' || value[0] == '-')
        return false;
    for (const char *p = value; *p != '\0'; p++)
        if (!is_key(*p) && strchr("._/+@", *p) == NULL)
            return false;
    return true;
}

static bool is_pull_mode(const char *value)
{
    return is_bool(value) || strcmp(value, "merges") == 0 || strcmp(value, "interactive") == 0;
}

static bool is_pull_ff(const char *value)
{
    return is_bool(value) || strcmp(value, "only") == 0;
}

static bool is_tag_option(const char *value)
{
    return value != NULL && (strcmp(value, "--tags") == 0 || strcmp(value, "--no-tags") == 0);
}

/* `!COMMAND` is the other thing that it can say. */
static bool is_update_mode(const char *value)
{
    return value != NULL && (strcmp(value, "checkout") == 0 || strcmp(value, "rebase") == 0 ||
                             strcmp(value, "merge") == 0 || strcmp(value, "none") == 0);
}

static bool is_line_ending(const char *value)
{
    return is_bool(value) || strcmp(value, "input") == 0 || strcmp(value, "lf") == 0 ||
           strcmp(value, "crlf") == 0 || strcmp(value, "native") == 0 || strcmp(value, "warn") == 0;
}

static bool is_hash(const char *value)
{
    return value != NULL && (strcmp(value, "sha1") == 0 || strcmp(value, "sha256") == 0);
}

/* Any other scheme, and every `HELPER::ADDRESS`, runs a program git-remote-HELPER, among them ext,
 * which runs anything. What is neither is a path or HOST:PATH. */
static bool is_url(const char *value)
{
    static const char *const schemes[] = {"https", "http", "ssh", "git+ssh", "ssh+git",
                                          "git",   "file", "ftp", "ftps"};
    if (!is_text(value) || value[0] == '\0')
        return false;
    size_t len = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    if (strncmp(value + len, "::", 2) == 0)
        return false;
    if (strncmp(value + len, "://", 3) != 0)
        return strstr(value, "://") == NULL && strstr(value, "@-") == NULL;
    /* A host that begins with a dash would be an option of ssh. */
    if (value[len + 3] == '-' || strstr(value, "@-") != NULL)
        return false;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strlen(schemes[i]) == len && strncmp(schemes[i], value, len) == 0)
            return true;
    return false;
}

enum subsection { NO_SUBSECTION, ANY_SUBSECTION };

/* What may be in the configuration of a repository that the sandbox has made. Everything that is
 * not named is refused: among the rest are names of programs (hooksPath, fsmonitor, sshCommand,
 * pager, editor, alias.*, filter.*, diff.*, merge.*.driver, credential.*, gpg.*, uploadpack, vcs),
 * of files (include*, attributesFile, excludesFile, worktree), what changes the meaning of an
 * address (url.*.insteadOf, proxies, protocol.*), and what makes git fetch without being asked
 * (promisor remotes): an address can carry what was found in the sandbox. */
static const struct {
    const char *section;
    enum subsection subsection;
    const char *name;
    bool (*good)(const char *value);
} harmless[] = {
    {"core", NO_SUBSECTION, "repositoryformatversion",
     is_number},                                           /* how the repository is laid out */
    {"core", NO_SUBSECTION, "filemode", is_bool},          /* what the file system can do */
    {"core", NO_SUBSECTION, "symlinks", is_bool},          /* what the file system can do */
    {"core", NO_SUBSECTION, "ignorecase", is_bool},        /* what the file system can do */
    {"core", NO_SUBSECTION, "precomposeunicode", is_bool}, /* what the file system can do */
    {"core", NO_SUBSECTION, "bare", is_bool}, /* without a work tree less is done, not more */
    {"core", NO_SUBSECTION, "logallrefupdates", is_bool},   /* writes below .git/logs */
    {"core", NO_SUBSECTION, "autocrlf", is_line_ending},    /* bytes of text files, no program */
    {"core", NO_SUBSECTION, "eol", is_line_ending},         /* bytes of text files, no program */
    {"core", NO_SUBSECTION, "safecrlf", is_line_ending},    /* bytes of text files, no program */
    {"core", NO_SUBSECTION, "longpaths", is_bool},          /* has a meaning on Windows only */
    {"core", NO_SUBSECTION, "quotepath", is_bool},          /* how names are printed */
    {"extensions", NO_SUBSECTION, "objectformat", is_hash}, /* how objects are named */
    {"remote", ANY_SUBSECTION, "url", is_url}, /* an address, or a path, of a scheme git knows */
    {"remote", ANY_SUBSECTION, "pushurl", is_url},       /* as url */
    {"remote", ANY_SUBSECTION, "fetch", is_text},        /* names of references */
    {"remote", ANY_SUBSECTION, "push", is_text},         /* names of references */
    {"remote", ANY_SUBSECTION, "tagopt", is_tag_option}, /* which tags come */
    {"remote", ANY_SUBSECTION, "prune", is_bool},        /* references of a remote */
    {"remote", ANY_SUBSECTION, "mirror", is_bool},       /* references of a remote */
    {"remote", ANY_SUBSECTION, "gh-resolved", is_word},  /* the GitHub client's own */
    {"branch", ANY_SUBSECTION, "remote", is_word}, /* a name; an address could not be spelled so */
    {"branch", ANY_SUBSECTION, "pushremote", is_word},       /* as remote */
    {"branch", ANY_SUBSECTION, "merge", is_text},            /* a reference */
    {"branch", ANY_SUBSECTION, "rebase", is_pull_mode},      /* how histories are joined */
    {"branch", ANY_SUBSECTION, "description", is_text},      /* text for people */
    {"submodule", NO_SUBSECTION, "active", is_text},         /* patterns of paths inside the tree */
    {"submodule", ANY_SUBSECTION, "active", is_bool},        /* whether it is looked at */
    {"submodule", ANY_SUBSECTION, "url", is_url},            /* as of a remote */
    {"submodule", ANY_SUBSECTION, "update", is_update_mode}, /* no command */
    {"user", NO_SUBSECTION, "name", is_text},                /* goes into commits */
    {"user", NO_SUBSECTION, "email", is_text},               /* goes into commits */
    {"author", NO_SUBSECTION, "name", is_text},              /* goes into commits */
    {"author", NO_SUBSECTION, "email", is_text},             /* goes into commits */
    {"committer", NO_SUBSECTION, "name", is_text},           /* goes into commits */
    {"committer", NO_SUBSECTION, "email", is_text},          /* goes into commits */
    {"init", NO_SUBSECTION, "defaultbranch", is_word},       /* a name */
    {"pull", NO_SUBSECTION, "rebase", is_pull_mode},         /* how histories are joined */
    {"pull", NO_SUBSECTION, "ff", is_pull_ff},               /* how histories are joined */
    {"merge", NO_SUBSECTION, "ff", is_pull_ff},              /* how histories are joined */
    {"fetch", NO_SUBSECTION, "prune", is_bool},              /* references of a remote */
    {"push", NO_SUBSECTION, "default", is_word},             /* which references are sent */
    {"push", NO_SUBSECTION, "autosetupremote", is_bool},     /* names a remote for a branch */
    {"rebase", NO_SUBSECTION, "autostash", is_bool},         /* inside the work tree */
    {"commit", NO_SUBSECTION, "gpgsign", is_false},          /* without it no program is run */
    {"tag", NO_SUBSECTION, "gpgsign", is_false},             /* without it no program is run */
    {"http", NO_SUBSECTION, "postbuffer", is_number},        /* a size */
    {"color", NO_SUBSECTION, "ui", is_word},                 /* how text is printed */
    {"advice", NO_SUBSECTION, "detachedhead", is_bool},      /* what is printed */
    {"gc", NO_SUBSECTION, "auto", is_number},                /* when git cleans up after itself */
    {"gc", NO_SUBSECTION, "autodetach", is_bool},            /* when git cleans up after itself */
    {"maintenance", NO_SUBSECTION, "auto", is_bool},         /* when git cleans up after itself */
};

struct vetting {
    char *why;
    size_t why_size;
};

static bool is_harmless(const struct gitconfig_entry *entry)
{
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (strcmp(harmless[i].section, entry->section) == 0 &&
            strcmp(harmless[i].name, entry->name) == 0 &&
            (harmless[i].subsection == ANY_SUBSECTION) == (entry->subsection != NULL) &&
            (entry->subsection == NULL || is_text(entry->subsection)))
            return harmless[i].good(entry->value);
    return false;
}

static bool vet_entry(void *context, const struct gitconfig_entry *entry)
{
    const struct vetting *vetting = context;
    if (is_harmless(entry))
        return true;
    const char *subsection = entry->subsection;
    snprintf(vetting->why, vetting->why_size, "%.32s%s%.32s.%.32s", entry->section,
             subsection != NULL ? "." : "", subsection != NULL ? subsection : "", entry->name);
    return false;
}

bool gitconfig_harmless(const char *bytes, size_t len, char *why, size_t why_size)
{
    struct vetting vetting = {.why = why, .why_size = why_size};
    switch (gitconfig_read(bytes, len, vet_entry, &vetting)) {
    case GITCONFIG_PLAIN:
        return true;
    case GITCONFIG_STOPPED:
        return false;
    case GITCONFIG_ODD:
        snprintf(why, why_size, "an unusual spelling");
        return false;
    case GITCONFIG_MALFORMED:
        snprintf(why, why_size, "not a configuration");
        return false;
    }
    return false;
}
