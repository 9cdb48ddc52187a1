#include "launcher/gitplace.h"

#include <string.h>

/* The next component of a path, without slashes. */
static size_t component(const char *path, size_t len)
{
    const char *slash = memchr(path, '/', len);
    return slash != NULL ? (size_t)(slash - path) : len;
}

static bool is_word(const char *path, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(path, word, len) == 0;
}

static bool is_name(const char *path, size_t len)
{
    return len > 0 && !is_word(path, len, ".") && !is_word(path, len, "..");
}

/* Where the last component `.git` ends, or NULL. */
static const char *after_dot_git(const char *path, size_t len)
{
    const char *found = NULL, *end = path + len;
    for (const char *p = path; p < end;) {
        size_t n = component(p, (size_t)(end - p));
        if (is_word(p, n, ".git"))
            found = p + n;
        p += n + 1;
    }
    return found;
}

/* Takes "/WORD" or, where `word` is NULL, "/NAME" off the front. */
static bool take(const char **path, const char *end, const char *word)
{
    if (*path == end || **path != '/')
        return false;
    const char *p = *path + 1;
    size_t n = component(p, (size_t)(end - p));
    if (word != NULL ? !is_word(p, n, word) : !is_name(p, n))
        return false;
    *path = p + n;
    return true;
}

enum gitplace gitplace_of(const char *path, size_t len)
{
    const char *end = path + len, *p = after_dot_git(path, len);
    if (p == NULL)
        return GITPLACE_NONE;
    if (p == end)
        return GITPLACE_MAIN;
    if (take(&p, end, "worktrees")) {
        if (!take(&p, end, NULL))
            return GITPLACE_NONE;
        if (p == end)
            return GITPLACE_WORKTREE;
    }
    if (!take(&p, end, "modules") || p == end)
        return GITPLACE_NONE;
    unsigned names = 0, worktrees = 0; /* which of them the last `worktrees` is */
    while (p < end) {
        const char *name = p + 1;
        if (!take(&p, end, NULL))
            return GITPLACE_NONE;
        names++;
        if (is_word(name, (size_t)(p - name), "worktrees"))
            worktrees = names;
    }
    return worktrees > 1 && worktrees + 1 == names ? GITPLACE_WORKTREE : GITPLACE_MODULE;
}

/* git takes more: several ends of lines, a carriage return, and whatever comes before a NUL. */
bool gitplace_read_link(const char *bytes, size_t len, const char **path, size_t *path_len)
{
    static const char prefix[] = "gitdir: ";
    const size_t begin = sizeof(prefix) - 1;
    if (len < begin + 2 || memcmp(bytes, prefix, begin) != 0 || bytes[len - 1] != '\n')
        return false;
    *path = bytes + begin;
    *path_len = len - begin - 1;
    for (size_t i = 0; i < *path_len; i++)
        if ((unsigned char)(*path)[i] < 0x20 || (*path)[i] == 0x7f)
            return false;
    return true;
}

bool gitplace_is_common(const char *bytes, size_t len)
{
    return is_word(bytes, len, "../..\n");
}
