#include "launcher/paths.h"

#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"
#include "srt/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* as the kernel: more is a loop */

char *path_join(const char *dir, const char *name)
{
    const char *before = strcmp(dir, "/") == 0 ? "" : dir;
    char *joined = must(malloc(strlen(before) + 1 + strlen(name) + 1));
    char *end = stpcpy(joined, before);
    *end = '/';
    stpcpy(end + 1, name);
    return joined;
}

char *path_search(const char *program)
{
    const char *path = getenv("PATH");
    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path;;) {
        size_t len = strcspn(p, ":");
        if (len > 0 && p[0] == '/') {
            autofree char *dir = must(strndup(p, len));
            autofree char *candidate = path_join(dir, program);
            if (access(candidate, X_OK) == 0)
                return steal_ptr(candidate);
        }
        if (p[len] == '\0')
            return NULL;
        p += len + 1;
    }
}

static char *copy(const char *text, size_t len)
{
    return must(strndup(text, len));
}

char *path_absolute(const char *name, const char *cwd, const char *home, struct srt_err *err)
{
    if (name[0] == '\0') {
        srt_err_set(err, "the path is empty");
        return NULL;
    }
    if (name[0] == '/')
        return must_copy(name);
    if (name[0] == '~' && (name[1] == '\0' || name[1] == '/')) {
        if (home == NULL || home[0] != '/') {
            srt_err_set(err, "%s: the home directory is unknown (HOME is not an absolute path)",
                        name);
            return NULL;
        }
        return path_join(home, name[1] == '\0' ? "." : name + 2);
    }
    return path_join(cwd, name);
}

/* Drops the last component of a clean path held in `path`. */
static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
}

static void append(char **path, const char *name, size_t len)
{
    autofree char *component = copy(name, len);
    char *joined = path_join(*path, component);
    free(*path);
    *path = joined;
}

/* Cuts the next name off `*rest`; an empty one when there is none. */
static struct str next_name(const char **rest)
{
    *rest += strspn(*rest, "/");
    const struct str name = {*rest, strcspn(*rest, "/")};
    *rest += name.len;
    return name;
}

char *path_clean(const char *absolute)
{
    assert(absolute[0] == '/');
    char *out = copy("/", 1);
    const char *rest = absolute;
    for (struct str name; (name = next_name(&rest)).len > 0;) {
        if (str_eq(name, STR("..")))
            cut_last(out);
        else if (!str_eq(name, STR(".")))
            append(&out, name.p, name.len);
    }
    return out;
}

static void add_link(struct path_place *place, const char *link)
{
    place->links = grow_one(place->links, place->link_count, sizeof(char *));
    place->links[place->link_count++] = must_copy(link);
}

static enum path_type type_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return PATH_DIR;
    return S_ISLNK(mode) ? PATH_SYMLINK : PATH_FILE;
}

/* After `..`: a name below an absent one may exist again ("/absent/../etc"). */
static enum path_type type_at(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? type_of(st.st_mode) : PATH_ABSENT;
}

/* A path on its way to its place: place->path is canonical, `rest` is what is still to come. */
struct walk {
    struct path_place *place;
    const char *asked;
    char *todo; /* that `rest` is in */
    const char *rest;
    unsigned links;
};

/* The place is a symbolic link in `dir`: goes on where that leads. */
static int follow(struct walk *walk, const char *dir, struct srt_err *err)
{
    struct path_place *place = walk->place;
    char target[PATH_MAX];
    if (++walk->links > LINKS_MAX)
        return srt_err_set(err, "%s: too many symbolic links", walk->asked);
    const ssize_t len = readlink(place->path, target, sizeof(target) - 1);
    if (len < 0)
        return srt_err_set(err, "%s: %s", place->path, strerror(errno));
    target[len] = '\0';
    add_link(place, place->path);
    char *todo = path_join(target, walk->rest);
    free(walk->todo);
    walk->rest = walk->todo = todo;
    free(place->path);
    place->path = target[0] == '/' ? copy("/", 1) : must_copy(dir);
    place->type = PATH_DIR;
    return 0;
}

static int enter(struct walk *walk, struct str name, struct srt_err *err)
{
    struct path_place *place = walk->place;
    struct stat st;
    autofree char *dir = must_copy(place->path);
    append(&place->path, name.p, name.len);
    if (place->type == PATH_ABSENT)
        return 0;
    if (lstat(place->path, &st) == 0) {
        place->type = type_of(st.st_mode);
        return place->type == PATH_SYMLINK ? follow(walk, dir, err) : 0;
    }
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        place->type = PATH_ABSENT;
        return 0;
    case EACCES: /* what lies beyond cannot be judged; the caller decides about all of it */
        cut_last(place->path);
        place->type = PATH_UNREADABLE;
        return 0;
    default:
        return srt_err_set(err, "%s: %s", place->path, strerror(errno));
    }
}

/* One name at a time, as the kernel would. */
static int walk_on(struct walk *walk, struct srt_err *err)
{
    struct path_place *place = walk->place;
    for (struct str name; (name = next_name(&walk->rest)).len > 0;) {
        if (str_eq(name, STR("."))) {
            continue;
        } else if (str_eq(name, STR(".."))) {
            cut_last(place->path);
            place->type = type_at(place->path);
        } else if (enter(walk, name, err) != 0) {
            return -1;
        } else if (place->type == PATH_UNREADABLE) {
            return 0;
        }
    }
    return 0;
}

int path_resolve(const char *absolute, struct path_place *place, struct srt_err *err)
{
    assert(absolute[0] == '/');
    *place = (struct path_place){.path = copy("/", 1), .type = PATH_DIR};
    char *todo = must_copy(absolute);
    struct walk walk = {.place = place, .asked = absolute, .todo = todo, .rest = todo};
    const int result = walk_on(&walk, err);
    free(walk.todo);
    if (result != 0)
        path_place_free(place);
    return result;
}

void path_place_free(struct path_place *place)
{
    free(place->path);
    for (size_t i = 0; i < place->link_count; i++)
        free(place->links[i]);
    free(place->links);
    *place = (struct path_place){0};
}

bool path_within(const char *inner, const char *outer)
{
    size_t len = strlen(outer);
    if (len == 1)
        return true;
    return strncmp(inner, outer, len) == 0 && (inner[len] == '\0' || inner[len] == '/');
}

const char *path_below(const char *inner, const char *outer)
{
    assert(path_within(inner, outer));
    const char *rest = inner + strlen(outer);
    return *rest == '/' ? rest + 1 : rest;
}

int path_compare(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    /* The end and the slash sort before every other byte: a parent directly before its children. */
    int x = *a == '\0' ? 0 : *a == '/' ? 1 : (unsigned char)*a + 1;
    int y = *b == '\0' ? 0 : *b == '/' ? 1 : (unsigned char)*b + 1;
    return x - y;
}

char *path_parent(const char *path)
{
    char *parent = must_copy(path);
    cut_last(parent);
    return parent;
}

bool path_is_glob(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

/* One `[...]` at `pattern`; returns its length, 0 when it is not closed (then `[` is itself). */
static size_t set_match(const char *pattern, size_t len, unsigned char c, bool *matches)
{
    size_t i = 1;
    bool negated = i < len && (pattern[i] == '!' || pattern[i] == '^');
    if (negated)
        i++;
    bool found = false;
    for (size_t first = i; i < len && (pattern[i] != ']' || i == first); i++) {
        unsigned char low = (unsigned char)pattern[i], high = low;
        if (i + 2 < len && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
            high = (unsigned char)pattern[i + 2];
            i += 2;
        }
        if (c >= low && c <= high)
            found = true;
    }
    if (i >= len)
        return 0;
    *matches = found != negated;
    return i + 1;
}

/* Linear in both, with one point of return per `*`: no exponential patterns. */
bool path_component_match(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
    size_t p = 0, n = 0, star = SIZE_MAX, retry = 0;
    while (n < len) {
        bool matches = false;
        size_t step = 0;
        if (p < pattern_len && pattern[p] == '*') {
            star = p++;
            retry = n;
            continue;
        }
        if (p < pattern_len && pattern[p] == '[')
            step = set_match(pattern + p, pattern_len - p, (unsigned char)name[n], &matches);
        if (step == 0 && p < pattern_len) {
            step = 1;
            matches = pattern[p] == '?' || pattern[p] == name[n];
        }
        if (matches) {
            p += step;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern_len && pattern[p] == '*')
        p++;
    return p == pattern_len;
}

/* The same shape one level up: `**` is the star of components. */
bool path_glob_match(const char *pattern, const char *relative)
{
    const char *p = pattern, *n = relative, *star = NULL, *retry = NULL;
    while (*n != '\0') {
        size_t name_len = strcspn(n, "/");
        size_t pattern_len = strcspn(p, "/");
        if (pattern_len == 2 && p[0] == '*' && p[1] == '*') {
            p += 2;
            p += *p == '/';
            star = p;
            retry = n;
            continue;
        }
        if (*p != '\0' && path_component_match(p, pattern_len, n, name_len)) {
            p += pattern_len;
            p += *p == '/';
            n += name_len;
            n += *n == '/';
        } else if (star != NULL) {
            retry += strcspn(retry, "/");
            retry += *retry == '/';
            n = retry;
            p = star;
        } else {
            return false;
        }
    }
    while (p[0] == '*' && p[1] == '*' && (p[2] == '/' || p[2] == '\0'))
        p += p[2] == '/' ? 3 : 2;
    return *p == '\0';
}

bool path_glob_reaches(const char *pattern, const char *dir)
{
    const char *p = pattern, *n = dir;
    while (*n != '\0') {
        size_t name_len = strcspn(n, "/");
        size_t pattern_len = strcspn(p, "/");
        if (pattern_len == 2 && p[0] == '*' && p[1] == '*')
            return true;
        if (*p == '\0' || !path_component_match(p, pattern_len, n, name_len))
            return false;
        p += pattern_len;
        p += *p == '/';
        n += name_len;
        n += *n == '/';
    }
    return *p != '\0';
}
