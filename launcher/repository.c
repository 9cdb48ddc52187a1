#include "launcher/repository.h"

#include "launcher/gitconfig.h"
#include "launcher/paths.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
    INCLUDES_DEEP = 10, /* as git */
    INCLUDES_MAX = 100, /* files of one repository */
    CONFIG_MAX = 1024 * 1024,
};

/* A regular file's bytes, or NULL. */
static char *read_file(const char *path, size_t max, size_t *len)
{
    struct stat st;
    autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)max)
        return NULL;
    autofree char *bytes = must(malloc(max + 1));
    size_t have = 0;
    ssize_t n = 1;
    while (have < max && (n = read(fd, bytes + have, max - have)) > 0)
        have += (size_t)n;
    if (n < 0)
        return NULL;
    bytes[have] = '\0';
    *len = have;
    return steal_ptr(bytes);
}

/* The path that a file of one line holds, from `dir` on where it is relative. */
static char *read_link_file(const char *path, const char *prefix, const char *dir)
{
    size_t len;
    autofree char *text = read_file(path, PATH_MAX, &len);
    if (text == NULL || strncmp(text, prefix, strlen(prefix)) != 0)
        return NULL;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    const char *name = text + strlen(prefix);
    if (*name == '\0' || strlen(name) >= PATH_MAX / 2)
        return NULL;
    return name[0] == '/' ? must_copy(name) : path_join(dir, name);
}

bool repository_open(struct repository *repository, const char *dot_git)
{
    struct stat st;
    *repository = (struct repository){0};
    if (stat(dot_git, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode)) {
        repository->git_dir = must_copy(dot_git);
    } else {
        autofree char *top = path_parent(dot_git);
        repository->git_dir = read_link_file(dot_git, "gitdir: ", top);
        repository->linked = true;
    }
    if (repository->git_dir == NULL)
        return false;
    autofree char *common = path_join(repository->git_dir, "commondir");
    repository->common_dir = read_link_file(common, "", repository->git_dir);
    if (repository->common_dir == NULL)
        repository->common_dir = must_copy(repository->git_dir);
    return true;
}

void repository_free(struct repository *repository)
{
    free(repository->git_dir);
    free(repository->common_dir);
    *repository = (struct repository){0};
}

struct reading {
    const char *dir, *home; /* of the file that is read */
    unsigned depth, *files;
    repository_visitor *visit;
    void *context;
};

static void read_one(const struct reading *reading, const char *file);

static bool on_entry(void *context, const struct gitconfig_entry *entry)
{
    const struct reading *reading = context;
    if (entry->value == NULL || entry->value[0] == '\0')
        return true;
    bool includes = strcmp(entry->name, "path") == 0 && (strcmp(entry->section, "include") == 0 ||
                                                         strcmp(entry->section, "includeif") == 0);
    bool core = strcmp(entry->section, "core") == 0 && entry->subsection == NULL;
    bool hooks = core && strcmp(entry->name, "hookspath") == 0;
    bool monitor =
        core && strcmp(entry->name, "fsmonitor") == 0 && strchr(entry->value, '/') != NULL;
    if (!includes && !hooks && !monitor)
        return true;
    const char *value = entry->value;
    autofree char *path = NULL;
    if (value[0] == '/')
        path = must_copy(value);
    else if (value[0] == '~')
        path = value[1] == '/' && reading->home != NULL
                   ? path_absolute(value, "/", reading->home, NULL)
                   : NULL;
    else if (includes)
        path = path_join(reading->dir, value);
    else
        path = must_copy(value);
    if (path == NULL)
        return true; /* ~NAME: another user's */
    reading->visit(reading->context,
                   includes ? REPOSITORY_CONFIG
                   : hooks  ? REPOSITORY_HOOKS
                            : REPOSITORY_MONITOR,
                   path);
    if (includes)
        read_one(reading, path);
    return true;
}

static void read_one(const struct reading *reading, const char *file)
{
    if (reading->depth > INCLUDES_DEEP || ++*reading->files > INCLUDES_MAX)
        return;
    size_t len;
    autofree char *bytes = read_file(file, CONFIG_MAX, &len);
    if (bytes == NULL)
        return;
    autofree char *dir = path_parent(file);
    struct reading inner = *reading;
    inner.dir = dir;
    inner.depth++;
    gitconfig_read(bytes, len, on_entry, &inner);
}

void repository_read_config(const char *file, const char *home, repository_visitor *visit,
                            void *context)
{
    unsigned files = 0;
    struct reading reading = {.home = home, .files = &files, .visit = visit, .context = context};
    read_one(&reading, file);
}
