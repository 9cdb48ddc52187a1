#include "launcher/tree.h"

#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    LOOK_AT_CLOCK = 512, /* entries and directories between two looks */
    BUFFER_SIZE = 32768,
};

/* The directories still to be read. A list instead of recursion, so depth costs neither stack nor
 * descriptors. */
struct todo {
    char **dirs;
    size_t count;
};

static void todo_push(struct todo *todo, char *dir)
{
    todo->dirs = grow_one(todo->dirs, todo->count, sizeof(char *));
    todo->dirs[todo->count++] = dir;
}

static void todo_free(struct todo *todo)
{
    while (todo->count > 0)
        free(todo->dirs[--todo->count]);
    free(todo->dirs);
}

/* As the kernel fills it in; the C library's directory streams cost two more calls a directory. */
struct listed {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

static enum path_type entry_type(int dir_fd, const struct listed *entry)
{
    unsigned type = entry->type;
    if (type == DT_UNKNOWN) {
        struct stat st;
        if (fstatat(dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            return PATH_ABSENT;
        type = IFTODT(st.st_mode);
    }
    if (type == DT_DIR)
        return PATH_DIR;
    return type == DT_LNK ? PATH_SYMLINK : PATH_FILE;
}

struct walk {
    const char *root;
    int64_t deadline_ms;
    unsigned seen;
    tree_visitor *visit;
    void *context;
    struct todo todo;
};

static bool late(struct walk *walk)
{
    return ++walk->seen % LOOK_AT_CLOCK == 0 && clock_ms() > walk->deadline_ms;
}

bool tree_is_shut_off(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 && errno == EACCES;
}

static void report_unreadable(struct walk *walk, const char *unread)
{
    autofree char *dir = tree_is_shut_off(unread) ? path_parent(unread) : must_copy(unread);
    const char *slash = strrchr(dir, '/');
    struct tree_entry entry = {.path = dir,
                               .relative = path_below(dir, walk->root),
                               .name = slash + 1,
                               .type = PATH_UNREADABLE};
    walk->visit(walk->context, &entry);
}

/* False for what has a path that is too long for the kernel: it can be neither looked at nor
 * mounted over. */
static bool visit_entry(struct walk *walk, const char *dir, int fd, const struct listed *listed)
{
    char *path = path_join(dir, listed->name);
    if (strlen(path) >= PATH_MAX) {
        free(path);
        return false;
    }
    struct tree_entry entry = {.path = path,
                               .relative = path_below(path, walk->root),
                               .name = listed->name,
                               .type = entry_type(fd, listed)};
    bool enter = entry.type != PATH_ABSENT && walk->visit(walk->context, &entry);
    if (enter && entry.type == PATH_DIR)
        todo_push(&walk->todo, path);
    else
        free(path);
    return true;
}

static int read_dir(struct walk *walk, const char *dir)
{
    autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            report_unreadable(walk, dir);
        return 0; /* otherwise it went away meanwhile */
    }
    union {
        struct listed align;
        char bytes[BUFFER_SIZE];
    } buffer;
    long len;
    bool whole = true;
    while ((len = syscall(SYS_getdents64, fd, &buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < len;) {
            const void *entry = buffer.bytes + at;
            const struct listed *listed = entry;
            at += listed->size;
            if (strcmp(listed->name, ".") == 0 || strcmp(listed->name, "..") == 0)
                continue;
            if (late(walk))
                return -1;
            whole = visit_entry(walk, dir, fd, listed) && whole;
        }
    }
    if (len < 0 || !whole)
        report_unreadable(walk, dir);
    return late(walk) ? -1 : 0;
}

int tree_walk(const char *root, int64_t deadline_ms, tree_visitor *visit, void *context,
              struct srt_err *err)
{
    struct walk walk = {
        .root = root, .deadline_ms = deadline_ms, .visit = visit, .context = context};
    char *first = must_copy(root);
    todo_push(&walk.todo, first);
    int result = 0;
    while (result == 0 && walk.todo.count > 0) {
        autofree char *dir = walk.todo.dirs[--walk.todo.count];
        result = read_dir(&walk, dir);
    }
    todo_free(&walk.todo);
    if (result != 0)
        srt_err_set(err, "%s is too large to be searched in time", root);
    return result;
}
