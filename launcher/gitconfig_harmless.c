#include "launcher/gitconfig_harmless.h"

#include "launcher/gitconfig.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* ---- values ---- */

#define AMONG(value, ...) is_among(value, strcmp, (const char *const[]){__VA_ARGS__, NULL})

static bool is_among(const char *value, int compare(const char *, const char *),
                     const char *const words[])
{
    for (; value != NULL && *words != NULL; words++)
        if (compare(value, *words) == 0)
            return true;
    return false;
}

static bool is_false(const char *value)
{
    static const char *const words[] = {"false", "no", "off", "0", NULL};
    return is_among(value, strcasecmp, words);
}

/* A name that stands alone means true. */
static bool is_bool(const char *value)
{
    static const char *const words[] = {"true", "yes", "on", "1", NULL};
    return value == NULL || is_false(value) || is_among(value, strcasecmp, words);
}

static bool is_number(const char *value)
{
    return value != NULL && value[0] != '\0' && strlen(value) < 10 &&
           strspn(value, DIGITS) == strlen(value);
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
    return value != NULL && value[0] != '\0' && value[0] != '-' &&
           strspn(value, LETTERS DIGITS "-._/+@") == strlen(value);
}

static bool is_pull_mode(const char *value)
{
    return is_bool(value) || AMONG(value, "merges", "interactive");
}

static bool is_pull_ff(const char *value)
{
    return is_bool(value) || AMONG(value, "only");
}

static bool is_tag_option(const char *value)
{
    return AMONG(value, "--tags", "--no-tags");
}

/* `!COMMAND` is the other thing that it can say. */
static bool is_update_mode(const char *value)
{
    return AMONG(value, "checkout", "rebase", "merge", "none");
}

static bool is_line_ending(const char *value)
{
    return is_bool(value) || AMONG(value, "input", "lf", "crlf", "native", "warn");
}

static bool is_hash(const char *value)
{
    return AMONG(value, "sha1", "sha256");
}

/* Any other scheme, and every `HELPER::ADDRESS`, runs a program git-remote-HELPER, among them ext,
 * which runs anything. What is neither is a path or HOST:PATH. */
static bool is_url(const char *value)
{
    static const char *const schemes[] = {"https", "http", "ssh", "git+ssh", "ssh+git",
                                          "git",   "file", "ftp", "ftps"};
    if (!is_text(value) || value[0] == '\0')
        return false;
    size_t len = strspn(value, LETTERS DIGITS "+.-");
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

/* ---- names ---- */

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
    old->remotes = grow_one(old->remotes, old->remote_count, sizeof(char *));
    old->remotes[old->remote_count] = must_copy(entry->subsection);
    old->remote_count++;
    return true;
}

enum { SPELLED_SIZE = 3 * GITCONFIG_KEY_SIZE + GITCONFIG_VALUE_SIZE + 16 };

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
