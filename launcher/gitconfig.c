#include "launcher/gitconfig.h"

#include "srt/cleanup.h"
#include "srt/must.h"

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
    const char *begin, *at, *end;
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

/* Below the top of a work tree, and no option. */
static bool is_inner_path(const char *value)
{
    if (!is_text(value) || value[0] == '\0' || value[0] == '/')
        return false;
    for (const char *p = value; *p != '\0';) {
        size_t len = strcspn(p, "/");
        if (len == 2 && memcmp(p, "..", 2) == 0)
            return false;
        p += len + (p[len] == '/');
    }
    return true;
}

static bool is_reference(const char *value)
{
    return is_text(value) && strncmp(value, "refs/", 5) == 0;
}

enum subsection { NO_SUBSECTION, ANY_SUBSECTION };

struct harmless {
    const char *section;
    enum subsection subsection;
    const char *name; /* NULL = any that no row above names */
    bool (*good)(const char *value);
};

/* What may be in the configuration of a repository that the sandbox has made. Everything that is
 * not named is refused: among the rest are names of programs (hooksPath, fsmonitor, sshCommand,
 * pager, editor, alias.*, filter.*, diff.*, merge.*.driver, credential.*, gpg.*, uploadpack, vcs),
 * of files (include*, attributesFile, excludesFile, worktree), what changes the meaning of an
 * address (url.*.insteadOf, proxies, protocol.*), and what makes git fetch without being asked
 * (promisor remotes): an address can carry what was found in the sandbox. */
static const struct harmless of_repository[] = {
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

/* git reads nothing but submodules from `.gitmodules`, and takes only some of it; the rest is for
 * other tools. */
static const struct harmless of_modules[] = {
    {"submodule", ANY_SUBSECTION, "path", is_inner_path},    /* in the work tree */
    {"submodule", ANY_SUBSECTION, "url", is_url},            /* as of a remote */
    {"submodule", ANY_SUBSECTION, "update", is_update_mode}, /* no command */
    {"submodule", ANY_SUBSECTION, NULL, is_text},            /* a branch, switches */
    {"submodule", NO_SUBSECTION, "recurse", is_bool},        /* whether submodules are looked at */
    {"submodule", NO_SUBSECTION, "fetchjobs", is_number},    /* a number of processes */
};

/* What may change in a repository that was there before. What it pulls from and pushes to is no
 * part of it; which of its remotes a branch follows is judged by is_followed(). */
static const struct harmless of_changes[] = {
    {"branch", ANY_SUBSECTION, "merge", is_reference},       /* a reference */
    {"branch", ANY_SUBSECTION, "rebase", is_pull_mode},      /* how histories are joined */
    {"branch", ANY_SUBSECTION, "description", is_text},      /* text for people */
    {"submodule", NO_SUBSECTION, "active", is_text},         /* patterns of paths inside the tree */
    {"submodule", ANY_SUBSECTION, "active", is_bool},        /* whether it is looked at */
    {"submodule", ANY_SUBSECTION, "url", is_url},            /* as of a remote */
    {"submodule", ANY_SUBSECTION, "update", is_update_mode}, /* no command */
};

#define ROWS(table) (table), sizeof(table) / sizeof((table)[0])

static bool is_harmless(const struct harmless *rows, size_t count,
                        const struct gitconfig_entry *entry)
{
    if (entry->subsection != NULL && !is_text(entry->subsection))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].section, entry->section) == 0 &&
            (rows[i].name == NULL || strcmp(rows[i].name, entry->name) == 0) &&
            (rows[i].subsection == ANY_SUBSECTION) == (entry->subsection != NULL))
            return rows[i].good(entry->value);
    return false;
}

struct vetting {
    const struct harmless *rows;
    size_t count;
    char *why;
    size_t why_size;
};

static bool blame(const struct gitconfig_entry *entry, char *why, size_t why_size)
{
    const char *subsection = entry->subsection;
    snprintf(why, why_size, "%.32s%s%.32s.%.32s", entry->section, subsection != NULL ? "." : "",
             subsection != NULL ? subsection : "", entry->name);
    return false;
}

static bool vet_entry(void *context, const struct gitconfig_entry *entry)
{
    const struct vetting *vetting = context;
    return is_harmless(vetting->rows, vetting->count, entry) ||
           blame(entry, vetting->why, vetting->why_size);
}

static bool is_plain(enum gitconfig_end end, char *why, size_t why_size)
{
    switch (end) {
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

bool gitconfig_harmless(const char *bytes, size_t len, char *why, size_t why_size)
{
    struct vetting vetting = {ROWS(of_repository), why, why_size};
    return is_plain(gitconfig_read(bytes, len, vet_entry, &vetting), why, why_size);
}

/* The name of a submodule is a path below `.git/modules`. */
static bool vet_module(void *context, const struct gitconfig_entry *entry)
{
    const struct vetting *vetting = context;
    if (entry->subsection != NULL && !is_inner_path(entry->subsection))
        return blame(entry, vetting->why, vetting->why_size);
    return vet_entry(context, entry);
}

bool gitconfig_modules_harmless(const char *bytes, size_t len, char *why, size_t why_size)
{
    struct vetting vetting = {ROWS(of_modules), why, why_size};
    return is_plain(gitconfig_read(bytes, len, vet_module, &vetting), why, why_size);
}

/* ---- what has changed ---- */

/* What must stay as it is, one entry after the other. */
struct lasting {
    char *text;
    size_t len, size;
    char **remotes; /* that the repository has; NULL while they are collected */
    size_t remote_count;
};

struct comparing {
    struct lasting *old;
    size_t at; /* how much of it has come again */
    char *why;
    size_t why_size;
};

static bool is_of(const struct gitconfig_entry *entry, const char *section, const char *name)
{
    return entry->subsection != NULL && strcmp(entry->section, section) == 0 &&
           strcmp(entry->name, name) == 0;
}

/* Only a name that the configuration gives a meaning to; for any other git looks elsewhere. */
static bool is_followed(const struct lasting *old, const struct gitconfig_entry *entry)
{
    if ((!is_of(entry, "branch", "remote") && !is_of(entry, "branch", "pushremote")) ||
        !is_text(entry->subsection) || entry->value == NULL)
        return false;
    if (strcmp(entry->value, ".") == 0)
        return true;
    for (size_t i = 0; i < old->remote_count; i++)
        if (strcmp(old->remotes[i], entry->value) == 0)
            return true;
    return false;
}

static bool may_vary(const struct lasting *old, const struct gitconfig_entry *entry)
{
    return is_followed(old, entry) || is_harmless(ROWS(of_changes), entry);
}

static bool collect_remote(void *context, const struct gitconfig_entry *entry)
{
    struct lasting *old = context;
    if (!is_of(entry, "remote", "url"))
        return true;
    old->remotes = must(reallocarray(old->remotes, old->remote_count + 1, sizeof(char *)));
    old->remotes[old->remote_count] = must_copy(entry->subsection);
    old->remote_count++;
    return true;
}

enum { SPELLED_SIZE = 3 * KEY_SIZE + VALUE_SIZE + 16 };

/* Its bytes with their lengths, so that no two entries are spelled alike. */
static size_t spell(const struct gitconfig_entry *entry, char out[SPELLED_SIZE])
{
    const char *parts[] = {entry->section, entry->subsection, entry->name, entry->value};
    size_t len = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        out[len++] = parts[i] != NULL ? '=' : '-';
        size_t part = parts[i] != NULL ? strlen(parts[i]) + 1 : 0;
        if (part > 0)
            memcpy(out + len, parts[i], part);
        len += part;
    }
    return len;
}

static bool collect_lasting(void *context, const struct gitconfig_entry *entry)
{
    struct lasting *old = context;
    char spelled[SPELLED_SIZE];
    if (may_vary(old, entry))
        return true;
    size_t len = spell(entry, spelled);
    if (old->len + len > old->size) {
        old->size = 2 * (old->len + len);
        old->text = must(realloc(old->text, old->size));
    }
    memcpy(old->text + old->len, spelled, len);
    old->len += len;
    return true;
}

static bool compare_lasting(void *context, const struct gitconfig_entry *entry)
{
    struct comparing *comparing = context;
    const struct lasting *old = comparing->old;
    char spelled[SPELLED_SIZE];
    if (may_vary(old, entry))
        return true;
    size_t len = spell(entry, spelled);
    if (old->len - comparing->at < len || memcmp(old->text + comparing->at, spelled, len) != 0)
        return blame(entry, comparing->why, comparing->why_size);
    comparing->at += len;
    return true;
}

bool gitconfig_changes_harmless(const char *old_bytes, size_t old_len, const char *bytes,
                                size_t len, char *why, size_t why_size)
{
    struct lasting old = {.text = must(malloc(SPELLED_SIZE)), .size = SPELLED_SIZE};
    struct comparing comparing = {.old = &old, .why = why, .why_size = why_size};
    gitconfig_read(old_bytes, old_len, collect_remote, &old);
    gitconfig_read(old_bytes, old_len, collect_lasting, &old);
    bool good = is_plain(gitconfig_read(bytes, len, compare_lasting, &comparing), why, why_size);
    if (good && comparing.at != old.len) {
        snprintf(why, why_size, "something is left out");
        good = false;
    }
    for (size_t i = 0; i < old.remote_count; i++)
        free(old.remotes[i]);
    free(old.remotes);
    free(old.text);
    return good;
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
