#include "launcher/warden/warden.h"

#include "launcher/remedy.h"
#include "launcher/syscalls.h"
#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
#include "launcher/warden/secrets.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static _Noreturn void serve(struct ward *ward)
{
    for (uint64_t serial = 1;; serial++) {
        struct seccomp_notif request = {0};
        if (ioctl(ward->listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
            /* The caller was killed meanwhile, or nobody is left whom the filter binds; a kernel
             * before 6.11 does not tell the second, then srt-launch ends us. */
            struct pollfd wake = {.fd = ward->listener, .events = POLLIN};
            if (poll(&wake, 1, 0) < 0 && errno != EINTR)
                _exit(1);
            if ((wake.revents & (POLLIN | POLLHUP)) == POLLHUP)
                _exit(0);
            continue;
        }
        struct call call = {
            .ward = ward, .request = &request, .serial = serial, .reported = ward->law->silent};
        call_answer(&call, table_answer(&call));
        call_end(&call);
    }
}

/* A place that is hidden is known by the mount that hides it, if it is still there. */
static void find_masks(struct ward *ward)
{
    const struct fence_plan *plan = ward->law->plan;
    ward->masks = must(calloc(plan->count + 1, sizeof(*ward->masks)));
    for (size_t i = 0; i < plan->count; i++) {
        struct statx st;
        if (plan->steps[i].act == FENCE_HIDDEN &&
            statx(AT_FDCWD, plan->steps[i].path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) == 0 &&
            (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
            ward->masks[ward->mask_count++] = st.stx_mnt_id;
    }
}

/* To give a descriptor takes the caller's turn and then ours again, which would interrupt it on its
 * way back (the kernel wakes without the sync flag there). A batch process does not interrupt
 * others; what it gets of the processor stays the same. */
static void do_not_interrupt(void)
{
    const struct sched_param none = {0};
    if (sched_getscheduler(0) == SCHED_OTHER)
        sched_setscheduler(0, SCHED_BATCH, &none);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* And the standard streams. */
static void close_all_but(int *fds, size_t count)
{
    qsort(fds, count, sizeof(*fds), by_number);
    unsigned next = STDERR_FILENO + 1;
    for (size_t i = 0; i < count; next = (unsigned)fds[i++] + 1)
        if ((unsigned)fds[i] > next)
            syscall(SYS_close_range, next, (unsigned)fds[i] - 1, 0);
    syscall(SYS_close_range, next, ~0u, 0);
}

/* What a warden is made of. */
struct post {
    const struct warden_law *law;
    inside_work *furnish;
    void *furniture;
    pid_t parent;
    uid_t uid; /* as inside; no longer ours once we have joined */
    gid_t gid;
    uint64_t *missed;
    int own_fds, host_proc; /* known in the child alone */
};

/* Where it stands from here on; then the command may run. */
static int take_post(void *context, const struct inside *inside, struct inside_gift *gift,
                     struct srt_err *err)
{
    struct post *post = context;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_IGN); /* those who wait for a FIFO reap themselves */
    int result = post->furnish(post->furniture, inside, gift, err);
    if (result != 0)
        return result;
    if (setns(inside->net_ns, CLONE_NEWNET) != 0 || !call_set_rights(true))
        return srt_err_set(err, "who supervises the sandbox cannot join it: %s",
                           remedy_error(errno));
    prctl(PR_SET_NAME, "srt-warden");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of rights has cleared it */
    if (getppid() != post->parent)
        return srt_err_set(err, "srt-launch has died");
    umask(0);
    do_not_interrupt();
    post->host_proc = inside->host_proc;
    post->own_fds = openat(inside->host_proc, "self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return post->own_fds >= 0 ? 0
                              : srt_err_set(err, "who supervises the sandbox cannot see itself: %s",
                                            remedy_error(errno));
}

/* -1: none is to come. */
static int wait_for_listener(int sock)
{
    char byte;
    int listener = -1;
    size_t count = 1;
    if (fds_receive(sock, &byte, sizeof(byte), &listener, &count) > 0 && count == 0)
        _exit(1);
    return count == 1 ? listener : -1;
}

static void stand_guard(void *context, int sock)
{
    const struct post *post = context;
    /* Nothing else of the launcher's: neither the stage's socket nor the gateway's, whose ends must
     * mean what they say. */
    int keep[] = {sock, post->host_proc, post->own_fds};
    close_all_but(keep, sizeof(keep) / sizeof(keep[0]));
    static struct ward ward;
    ward = (struct ward){.reports = sock,
                         .host_proc = post->host_proc,
                         .own_fds = post->own_fds,
                         .missed = post->missed,
                         .slow_ms = INT64_MIN / 2,
                         .kept_below = held_below(),
                         .here = -1,
                         .law = post->law,
                         .uid = post->uid,
                         .gid = post->gid,
                         .secrets = (post->law->syscalls & SYSCALLS_WATCH_READS) != 0 &&
                                    secrets_watch(post->law->fence)};
    find_masks(&ward);
    ward.listener = wait_for_listener(sock);
    if (ward.listener < 0)
        _exit(1);
    uint64_t flags = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
    ioctl(ward.listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* faster where it is known */
    serve(&ward);
}

int warden_start(struct warden *warden, const struct inside *inside, const struct warden_law *law,
                 inside_work *furnish, void *furniture, struct inside_gift *gift,
                 struct srt_err *err)
{
    *warden = (struct warden){.reports = -1};
    warden->missed = mmap(NULL, sizeof(*warden->missed), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (warden->missed == MAP_FAILED) {
        warden->missed = NULL;
        return srt_err_set(err, "who supervises the sandbox has no memory to share: %s",
                           remedy_error(errno));
    }
    struct post post = {.law = law,
                        .furnish = furnish,
                        .furniture = furniture,
                        .parent = getpid(),
                        .uid = getuid(),
                        .gid = getgid(),
                        .missed = warden->missed};
    struct inside_resident resident;
    int result = inside_settle(&resident, inside, take_post, stand_guard, &post, gift, err);
    if (result != 0) {
        warden_end(warden);
        return result;
    }
    warden->pid = resident.pid;
    warden->reports = resident.sock;
    return 0;
}

bool warden_give(const struct warden *warden, int listener)
{
    autoclose int owned = listener;
    return fds_send(warden->reports, "", 1, &owned, 1);
}

void warden_replace(const struct warden_report *report, int dir, int reply)
{
    autoclose int where = dir, answer_to = reply;
    int32_t error = EINVAL;
    const char *from = report->setting, *to = report->path;
    bool ours = strncmp(from, protect_new_name, strlen(protect_new_name)) == 0;
    bool names = strchr(from, '/') == NULL && strchr(to, '/') == NULL;
    if (where >= 0 && names && ours)
        error = renameat(where, from, where, to) == 0 ? 0 : errno;
    else if (where >= 0 && names && from[0] == '\0')
        error = unlinkat(where, to, 0) == 0 ? 0 : errno;
    if (answer_to >= 0)
        send(answer_to, &error, sizeof(error), MSG_NOSIGNAL | MSG_DONTWAIT);
}

uint64_t warden_missed(const struct warden *warden)
{
    return warden->missed == NULL ? 0 : __atomic_load_n(warden->missed, __ATOMIC_RELAXED);
}

void warden_end(struct warden *warden)
{
    if (warden->missed != NULL)
        munmap(warden->missed, sizeof(*warden->missed));
    if (warden->reports >= 0)
        close(warden->reports);
    if (warden->pid > 0) {
        kill(warden->pid, SIGKILL);
        while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    *warden = (struct warden){.reports = -1};
}
