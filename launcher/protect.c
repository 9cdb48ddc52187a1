#include "launcher/protect.h"

#include "launcher/gitplace.h"
#include "launcher/paths.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>
#include <string.h>

enum group { SHELL, DIRENV, GIT, GIT_CONFIG, EDITOR, AGENT, TOOLS, WORKFLOWS, GROUP_COUNT };

static const struct {
    const char *name; /* in launch.protect */
    const char *what; /* the setting that messages name */
    bool on;
} groups[GROUP_COUNT] = {
    [SHELL] = {"shell", "protected: shell start-up file", true},
    [DIRENV] = {"direnv", "protected: directory environment file", true},
    [GIT] = {"git-hooks", "protected: git hooks", true},
    [GIT_CONFIG] = {"git-config", "protected: git configuration", true},
    [EDITOR] = {"editor", "protected: editor configuration", true},
    [AGENT] = {"agent", "protected: agent configuration", true},
    [TOOLS] = {"tools", "protected: tool configuration", true},
    [WORKFLOWS] = {"workflows", "protected: continuous integration workflow", false},
};

/* Each pattern is a run of path components; what lies below the last one is protected with it. `**`
 * stands for any number of components. In small letters, as case does not count: some trees do not
 * tell it apart. */
static const struct {
    const char *pattern;
    enum group group;
} rows[] = {
    {".bashrc", SHELL},
    {".bash_profile", SHELL},
    {".bash_login", SHELL},
    {".bash_logout", SHELL},
    {".bash_aliases", SHELL},
    {".profile", SHELL},
    {".zshrc", SHELL},
    {".zshenv", SHELL},
    {".zprofile", SHELL},
    {".zlogin", SHELL},
    {".zlogout", SHELL},
    {".kshrc", SHELL},
    {".cshrc", SHELL},
    {".tcshrc", SHELL},
    {".xprofile", SHELL},
    {".xsessionrc", SHELL},
    {".config/fish", SHELL},
    {".envrc", DIRENV},
    {".git/hooks", GIT},
    {".git/modules/**/hooks", GIT},
    {".git/worktrees/**/hooks", GIT},
    {".husky", GIT},
    {".git/config", GIT_CONFIG},
    {".git/config.worktree", GIT_CONFIG},
    {".git/modules/**/config", GIT_CONFIG},
    {".git/modules/**/config.worktree", GIT_CONFIG},
    {".git/worktrees/**/config", GIT_CONFIG},
    {".git/worktrees/**/config.worktree", GIT_CONFIG},
    /* Names the directory whose configuration and hooks are used instead. */
    {".git/commondir", GIT_CONFIG},
    {".git/modules/**/commondir", GIT_CONFIG},
    {".git/worktrees/**/commondir", GIT_CONFIG},
    {".git/info/attributes", GIT_CONFIG},
    {".git/modules/**/info/attributes", GIT_CONFIG},
    {".git/worktrees/**/info/attributes", GIT_CONFIG},
    /* An older way to say what `origin` means where the configuration does not. */
    {".git/remotes", GIT_CONFIG},
    {".git/branches/*", GIT_CONFIG},
    {".srt-new-*", GIT_CONFIG},
    {".gitconfig", GIT_CONFIG},
    {".config/git", GIT_CONFIG},
    {".gitmodules", GIT_CONFIG},
    {".vscode", EDITOR},
    {".idea", EDITOR},
    {".claude/commands", AGENT},
    {".claude/agents", AGENT},
    {".claude/hooks", AGENT},
    {".claude/skills", AGENT},
    {".claude/settings*.json", AGENT},
    {".cursor", AGENT},
    {".mcp.json", AGENT},
    {".srt-settings.json", AGENT},
    {".ripgreprc", TOOLS},
    {".npmrc", TOOLS},
    {".github/workflows", WORKFLOWS},
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

const char protect_new_name[] = ".srt-new-";

struct protect protect_default(bool allow_git_config)
{
    struct protect protect = {0};
    for (unsigned i = 0; i < GROUP_COUNT; i++)
        if (groups[i].on && !(i == GIT_CONFIG && allow_git_config))
            protect.groups |= 1u << i;
    return protect;
}

int protect_apply(struct protect *protect, const char *word, struct srt_err *err)
{
    bool off = word[0] == '-';
    const char *name = word + off;
    for (unsigned i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(groups[i].name, name) != 0)
            continue;
        if (off)
            protect->groups &= ~(1u << i);
        else
            protect->groups |= 1u << i;
        return 0;
    }
    return srt_err_set(
        err,
        "launch.protect knows no \"%s\"; the names are shell, direnv, git-hooks, git-config, "
        "editor, agent, tools, workflows, and each with - before it",
        name);
}

/* ---- names that a tree takes for one another ---- */

/* Where case does not count other characters do not either: what a case folding, as that of ext4,
 * of f2fs and of a tmpfs, makes ASCII letters of, and what it leaves out (Unicode's CaseFolding.txt
 * and Default_Ignorable_Code_Point). Sorted. */
static const struct {
    uint32_t first, last;
    const char *letters;
} foldings[] = {
    {0xad, 0xad, ""},        {0xdf, 0xdf, "ss"},     {0x17f, 0x17f, "s"},
    {0x34f, 0x34f, ""},      {0x61c, 0x61c, ""},     {0x115f, 0x1160, ""},
    {0x17b4, 0x17b5, ""},    {0x180b, 0x180f, ""},   {0x1e9e, 0x1e9e, "ss"},
    {0x200b, 0x200f, ""},    {0x202a, 0x202e, ""},   {0x2060, 0x206f, ""},
    {0x212a, 0x212a, "k"},   {0x3164, 0x3164, ""},   {0xfb00, 0xfb00, "ff"},
    {0xfb01, 0xfb01, "fi"},  {0xfb02, 0xfb02, "fl"}, {0xfb03, 0xfb03, "ffi"},
    {0xfb04, 0xfb04, "ffl"}, {0xfb05, 0xfb06, "st"}, {0xfe00, 0xfe0f, ""},
    {0xfeff, 0xfeff, ""},    {0xffa0, 0xffa0, ""},   {0xfff0, 0xfff8, ""},
    {0x1bca0, 0x1bca3, ""},  {0x1d173, 0x1d17a, ""}, {0xe0000, 0xe0fff, ""},
};

/* How many bytes the character at `p` has, one where it is no UTF-8. */
static size_t decode(const char *p, size_t len, uint32_t *code)
{
    unsigned char first = (unsigned char)p[0];
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    *code = size == 1 ? first : first & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if (i == len || ((unsigned char)p[i] & 0xc0) != 0x80)
            return *code = first, 1;
        *code = *code << 6 | ((unsigned char)p[i] & 0x3f);
    }
    return size;
}

static const char *letters_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof(foldings) / sizeof(foldings[0]); i++)
        if (code >= foldings[i].first && code <= foldings[i].last)
            return foldings[i].letters;
    return NULL;
}

/* Where a name ends that has dots and spaces behind it, which FAT and Windows leave out. */
static char *end_of_name(const char *name, char *end)
{
    char *cut = end;
    while (cut > name && (cut[-1] == '.' || cut[-1] == ' '))
        cut--;
    return cut > name ? cut : end;
}

/* `len` bytes, in small letters; no longer than they were. Returns the end. */
static char *fold(const char *text, size_t len, char *out)
{
    const char *name = out;
    for (size_t at = 0, size; at < len; at += size) {
        uint32_t code = (unsigned char)text[at];
        size = code < 0x80 ? 1 : decode(text + at, len - at, &code);
        const char *letters = size == 1 ? NULL : letters_of(code);
        if (code == '/') {
            out = end_of_name(name, out);
            *out++ = '/';
            name = out;
        } else if (letters != NULL) {
            out = stpcpy(out, letters);
        } else if (size == 1) {
            *out++ = (char)(code >= 'A' && code <= 'Z' ? code - 'A' + 'a' : code);
        } else {
            out = mempcpy(out, text + at, size);
        }
    }
    out = end_of_name(name, out);
    *out = '\0';
    return out;
}

static char *folded(const char *text)
{
    char *out = must(calloc(strlen(text) + 1, 1));
    fold(text, strlen(text), out);
    return out;
}

bool protect_is_git(const char *name, size_t len)
{
    if (len == 0 || (name[0] != '.' && ((unsigned char)name[0] & 0x80) == 0))
        return false;
    autofree char *out = must(calloc(len + 1, 1));
    fold(name, len, out);
    return strcmp(out, ".git") == 0;
}

/* `name` is folded, as the patterns are. */
static bool component_equal(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
    if (memchr(pattern, '*', pattern_len) != NULL)
        return path_component_match(pattern, pattern_len, name, len);
    return pattern_len == len && memcmp(pattern, name, len) == 0;
}

/* Whether the pattern matches from the component at `p` on; `*end` is where its last component
 * ends. */
static bool matches_from(const char *pattern, const char *p, const char **end)
{
    while (*p != '\0') {
        size_t pattern_len = strcspn(pattern, "/");
        size_t len = strcspn(p, "/");
        const char *rest = p + len + (p[len] == '/');
        if (pattern_len == 2 && memcmp(pattern, "**", 2) == 0)
            return matches_from(pattern + 3, p, end) || matches_from(pattern, rest, end);
        if (!component_equal(pattern, pattern_len, p, len))
            return false;
        if (pattern[pattern_len] == '\0') {
            *end = p + len;
            return true;
        }
        pattern += pattern_len + 1;
        p = rest;
    }
    return false;
}

/* All rows begin with a dot, before which there may be what a tree leaves out. */
static bool may_match(const char *path)
{
    for (const char *p = path; (p = strchr(p, '/')) != NULL;) {
        p++;
        if (*p == '.' || ((unsigned char)*p & 0x80) != 0)
            return true;
    }
    return false;
}

/* Only a name that begins like some row is compared in full. */
const char *protect_match(const struct protect *protect, const char *given, size_t root_len)
{
    if (!may_match(given))
        return NULL;
    autofree char *path = must(malloc(strlen(given) + 1));
    char *root_end = fold(given, root_len, path);
    fold(given + root_len, strlen(given) - root_len, root_end);
    root_len = (size_t)(root_end - path);
    for (const char *p = path; *p != '\0'; p += strcspn(p, "/")) {
        while (*p == '/')
            p++;
        if (*p != '.')
            continue;
        for (size_t i = 0; i < ROW_COUNT; i++) {
            const char *end;
            if ((protect->groups & 1u << rows[i].group) != 0 &&
                matches_from(rows[i].pattern, p, &end) && (size_t)(end - path) > root_len)
                return groups[rows[i].group].what;
        }
    }
    return NULL;
}

bool protect_begins(const struct protect *protect, const char *given)
{
    autofree char *name = folded(given);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t len = strcspn(rows[i].pattern, "/");
        if ((protect->groups & 1u << rows[i].group) != 0 && rows[i].pattern[len] == '/' &&
            component_equal(rows[i].pattern, len, name, strlen(name)))
            return true;
    }
    return false;
}

bool protect_next_below(const struct protect *protect, const char *given, size_t *row,
                        const char **rest, const char **what)
{
    autofree char *name = folded(given);
    for (; *row < ROW_COUNT; (*row)++) {
        size_t len = strcspn(rows[*row].pattern, "/");
        if ((protect->groups & 1u << rows[*row].group) == 0 || rows[*row].pattern[len] != '/' ||
            !component_equal(rows[*row].pattern, len, name, strlen(name)))
            continue;
        *rest = rows[*row].pattern + len + 1;
        *what = groups[rows[*row].group].what;
        (*row)++;
        return true;
    }
    return false;
}

/* Whether the path ends before the pattern does, so that protected names lie below it. */
static bool leads_from(const char *pattern, const char *p)
{
    while (*p != '\0') {
        size_t pattern_len = strcspn(pattern, "/");
        size_t len = strcspn(p, "/");
        if (pattern_len == 2 && memcmp(pattern, "**", 2) == 0)
            return true;
        if (!component_equal(pattern, pattern_len, p, len) || pattern[pattern_len] == '\0')
            return false;
        pattern += pattern_len + 1;
        p += len + (p[len] == '/');
    }
    return true;
}

const char *protect_lead(const struct protect *protect, const char *given, bool link)
{
    autofree char *path = folded(given);
    const char *name = strrchr(path, '/') + 1;
    if (!link)
        return (protect->groups & 1u << GIT_CONFIG) != 0 && strcmp(name, ".git") == 0
                   ? groups[GIT_CONFIG].what
                   : NULL;
    for (const char *p = path; *p != '\0'; p += strcspn(p, "/")) {
        while (*p == '/')
            p++;
        for (size_t i = 0; *p == '.' && i < ROW_COUNT; i++)
            if ((protect->groups & 1u << rows[i].group) != 0 && leads_from(rows[i].pattern, p))
                return groups[rows[i].group].what;
    }
    return NULL;
}

const char *const protect_parts[PROTECT_PARTS] = {"hooks", "config", "config.worktree", "commondir",
                                                  "info/attributes"};

const char *protect_part_of_any(const struct protect *protect, size_t part)
{
    enum group group = part == 0 ? GIT : GIT_CONFIG;
    return (protect->groups & 1u << group) != 0 ? groups[group].what : NULL;
}

/* Whether the component that ends at `end` is this name; `*start` is where it begins. */
static bool component_is(const char *path, const char *end, const char *name, const char **start)
{
    size_t len = strlen(name);
    *start = end - len;
    return (size_t)(end - path) > len && memcmp(*start, name, len) == 0 && (*start)[-1] == '/';
}

bool protect_barren(const char *path)
{
    static const char *const names[] = {"objects", "refs", "logs"};
    const char *start, *end = path + strlen(path);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (component_is(path, end, names[i], &start))
            return component_is(path, start - 1, ".git", &start);
    return false;
}

enum protect_part protect_part(const char *what, const char *path)
{
    static const char sample[] = ".sample", hooks[] = "/hooks";
    const char *name = strrchr(path, '/') + 1;
    size_t len = strlen(name), dir_len = (size_t)(name - path) - 1;
    enum gitplace place = gitplace_of(path, dir_len);
    bool whole = place == GITPLACE_MAIN || place == GITPLACE_MODULE;
    if (what == groups[GIT_CONFIG].what) {
        if (place == GITPLACE_WORKTREE && strcmp(name, "commondir") == 0)
            return PROTECT_COMMON;
        return whole && strcmp(name, "config") == 0 ? PROTECT_CONFIG : PROTECT_NO_PART;
    }
    if (what != groups[GIT].what)
        return PROTECT_NO_PART;
    if (whole && strcmp(name, "hooks") == 0)
        return PROTECT_HOOKS;
    if (len < sizeof(sample) || strcmp(name + len - strlen(sample), sample) != 0 ||
        dir_len <= strlen(hooks) || memcmp(name - 1 - strlen(hooks), hooks, strlen(hooks)) != 0)
        return PROTECT_NO_PART;
    place = gitplace_of(path, dir_len - strlen(hooks));
    return place == GITPLACE_MAIN || place == GITPLACE_MODULE ? PROTECT_SAMPLE : PROTECT_NO_PART;
}
