#include "launcher/freeze.h"

#include "srt/grow.h"
#include "srt/must.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS_MAX = 200, STAT_MAX = 1024 };

/* A line of /proc/PID/stat (proc(5)). */
struct process {
    pid_t pid, parent;
    char state;
    unsigned long long started;
    bool below; /* the root of the tree */
};

struct processes {
    struct process *items;
    size_t count;
};

static bool read_process(pid_t pid, struct process *out)
{
    char path[64], text[STAT_MAX];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    /* The name may hold anything, parentheses too: the last one ends it. */
    const char *rest = strrchr(text, ')');
    *out = (struct process){.pid = pid};
    return rest != NULL && sscanf(rest + 1,
                                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                                  "%*d %*d %*d %llu",
                                  &out->state, &out->parent, &out->started) == 3;
}

static void add(struct processes *all, const struct process *process)
{
    all->items = grow_one(all->items, all->count, sizeof(*all->items));
    all->items[all->count++] = *process;
}

static int by_pid(const void *a, const void *b)
{
    const pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;
    return (left > right) - (left < right);
}

static struct process *find(const struct processes *all, pid_t pid)
{
    const struct process like = {.pid = pid};
    return all->count > 0 ? bsearch(&like, all->items, all->count, sizeof(like), by_pid) : NULL;
}

/* Up its parents until the root, or one that is known to be below it. */
static bool is_below(const struct processes *all, const struct process *process, pid_t root)
{
    for (size_t steps = 0; process != NULL && steps < all->count; steps++) {
        if (process->below || process->parent == root)
            return true;
        process = find(all, process->parent);
    }
    return false;
}

static bool look(struct processes *all, pid_t root, bool with_root)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    if (proc == NULL)
        return false;
    all->count = 0;
    while ((entry = readdir(proc)) != NULL) {
        struct process process;
        if (isdigit((unsigned char)entry->d_name[0]) && read_process(atoi(entry->d_name), &process))
            add(all, &process);
    }
    closedir(proc);
    if (all->count > 0)
        qsort(all->items, all->count, sizeof(*all->items), by_pid);
    for (size_t i = 0; i < all->count; i++)
        all->items[i].below =
            is_below(all, &all->items[i], root) || (with_root && all->items[i].pid == root);
    return true;
}

static bool is_held(const struct freeze *freeze, pid_t pid)
{
    for (size_t i = 0; i < freeze->count; i++)
        if (freeze->items[i].pid == pid)
            return true;
    return false;
}

/* A process that was found may have ended meanwhile, and its number be somebody else's. */
static void hold(struct freeze *freeze, const struct process *process)
{
    struct process now;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0)
        return;
    if (!read_process(process->pid, &now) || now.started != process->started ||
        syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0) != 0) {
        close(fd);
        return;
    }
    freeze->items = grow_one(freeze->items, freeze->count, sizeof(*freeze->items));
    freeze->items[freeze->count++] = (struct frozen){.pid = process->pid, .pidfd = fd};
}

/* Stopped or ended; or inside a system call that nothing interrupts, and stopped when it is over.
 */
static bool is_still(char state)
{
    return strchr("TtZXxD", state) != NULL;
}

/* Nobody is held before its parent stands still: a shell that waits would see its job stopped, and
 * who is at work can start others. */
static bool may_hold(const struct processes *all, const struct process *process)
{
    const struct process *parent = find(all, process->parent);
    return parent == NULL || !parent->below || is_still(parent->state);
}

/* Returns whether anybody was still at work. */
static bool hold_all(struct freeze *freeze, const struct processes *all)
{
    bool at_work = false;
    for (size_t i = 0; i < all->count; i++) {
        const struct process *process = &all->items[i];
        if (!process->below || (is_still(process->state) && process->state != 'D'))
            continue;
        const bool held = is_held(freeze, process->pid);
        at_work |= !held || !is_still(process->state);
        if (!held && may_hold(all, process))
            hold(freeze, process);
    }
    return at_work;
}

bool freeze_begin(struct freeze *freeze, pid_t root, bool with_root)
{
    struct processes all = {.count = 0};
    bool still = false;
    *freeze = (struct freeze){.count = 0};
    for (int round = 0; round < ROUNDS_MAX && !still && look(&all, root, with_root); round++) {
        still = !hold_all(freeze, &all);
        if (!still)
            poll(NULL, 0, 1);
    }
    free(all.items);
    if (!still)
        freeze_end(freeze);
    return still;
}

void freeze_end(struct freeze *freeze)
{
    for (size_t i = freeze->count; i > 0; i--) {
        syscall(SYS_pidfd_send_signal, freeze->items[i - 1].pidfd, SIGCONT, NULL, 0);
        close(freeze->items[i - 1].pidfd);
    }
    free(freeze->items);
    *freeze = (struct freeze){.count = 0};
}

bool freeze_has_group(const struct freeze *freeze, pid_t group)
{
    for (size_t i = 0; i < freeze->count; i++)
        if (getpgid(freeze->items[i].pid) == group)
            return true;
    return false;
}
