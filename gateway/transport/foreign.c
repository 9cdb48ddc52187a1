#include "transport/foreign.h"

#include "srt/clock.h"
#include "srt/must.h"
#include "transport/stream.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    WAITING_MAX = 64,
    STANDING_BY_MAX = 2,
    LONG_MS = 5, /* for one task, while there are others */
};

/* ---- threads for what may wait ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    STAILQ_HEAD(, foreign_task) tasks;
    struct foreign_task *current; /* that the others wait for; none that has taken long */
    int64_t since_ms;             /* it is */
    unsigned standing_by;         /* threads without a task */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER,
          .tasks = STAILQ_HEAD_INITIALIZER(pool.tasks)};

/* Tasks that make us busy: closes, and what has taken long. */
static atomic_int waiting;

static void count(struct foreign_task *task)
{
    if (!task->counted)
        atomic_fetch_add(&waiting, 1);
    task->counted = true;
}

static void *do_tasks(void *unused);

/* Signals are the control thread's. */
static void start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, 256 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_create(&thread, &attributes, do_tasks, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
}

static bool current_takes_long(void)
{
    return clock_ms() - pool.since_ms >= LONG_MS;
}

static void stand_by(void)
{
    const int64_t until_ms = pool.since_ms + LONG_MS;
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    pool.standing_by++;
    if (STAILQ_EMPTY(&pool.tasks))
        pthread_cond_wait(&pool.changed, &pool.lock);
    else
        pthread_cond_clockwait(&pool.changed, &pool.lock, CLOCK_MONOTONIC, &until);
    pool.standing_by--;
}

static struct foreign_task *begin_next(void)
{
    while (STAILQ_EMPTY(&pool.tasks) || (pool.current != NULL && !current_takes_long()))
        stand_by();
    if (pool.current != NULL)
        count(pool.current);
    struct foreign_task *task = STAILQ_FIRST(&pool.tasks);
    STAILQ_REMOVE_HEAD(&pool.tasks, link);
    pool.current = task;
    pool.since_ms = clock_ms();
    if (!STAILQ_EMPTY(&pool.tasks) && pool.standing_by == 0)
        start_thread(); /* this one may never come back for the next task */
    return task;
}

/* Without the lock, which `drop` may need: it may close what is foreign, too. */
static void drop(struct foreign_task *task)
{
    pthread_mutex_unlock(&pool.lock);
    task->drop(task);
    pthread_mutex_lock(&pool.lock);
}

static void end(struct foreign_task *task)
{
    if (pool.current == task)
        pool.current = NULL;
    if (task->counted)
        atomic_fetch_sub(&waiting, 1);
    if (task->forgotten || task->done == NULL)
        drop(task);
    else
        task->done(task);
}

static void *do_tasks(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "foreign");
    pthread_mutex_lock(&pool.lock);
    while (!STAILQ_EMPTY(&pool.tasks) || pool.standing_by < STANDING_BY_MAX) {
        struct foreign_task *task = begin_next();
        const bool wanted = !task->forgotten;
        pthread_mutex_unlock(&pool.lock);
        if (wanted)
            task->run(task);
        pthread_mutex_lock(&pool.lock);
        end(task);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

void foreign_do(struct foreign_task *task)
{
    pthread_mutex_lock(&pool.lock);
    STAILQ_INSERT_TAIL(&pool.tasks, task, link);
    if (pool.standing_by == 0)
        start_thread();
    else
        pthread_cond_signal(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
}

void foreign_forget(struct foreign_task *task)
{
    pthread_mutex_lock(&pool.lock);
    task->forgotten = true;
    pthread_mutex_unlock(&pool.lock);
}

void foreign_settle(void)
{
    pthread_mutex_lock(&pool.lock); /* which `done` has */
    pthread_mutex_unlock(&pool.lock);
}

bool foreign_is_busy(void)
{
    return atomic_load(&waiting) >= WAITING_MAX;
}

/* ---- ends ---- */

struct closing {
    struct foreign_task task;
    int fd;
};

/* As long as the sender leaves it at that, close() does not wait then. A connection ends, and
 * forgets what is unsent. */
static void unburden(int fd)
{
    int domain, listening = 0;
    socklen_t len = sizeof(domain), listening_len = sizeof(listening);
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 ||
        (domain != AF_INET && domain != AF_INET6))
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_len) == 0 && !listening)
        (void)connect(fd, &nobody, sizeof(nobody));
    stream_unlinger(fd);
}

static void run_closing(struct foreign_task *task)
{
    const struct closing *closing = (struct closing *)task;
    unburden(closing->fd);
    close(closing->fd);
}

static void drop_closing(struct foreign_task *task)
{
    free(task);
}

void foreign_close(int fd)
{
    struct closing *closing = must(calloc(1, sizeof(*closing)));
    *closing = (struct closing){.task = {.run = run_closing, .drop = drop_closing}, .fd = fd};
    count(&closing->task);
    foreign_do(&closing->task);
}

void foreign_hang_up(int fd)
{
    int unread = 0;
    (void)shutdown(fd, SHUT_RDWR); /* nothing comes between the look and the end */
    if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0) {
        close(fd);
        return;
    }
    foreign_close(fd);
}

bool foreign_accepted(int fd, char *room, size_t size)
{
    enum { PARTS = 8 }; /* so much can be unread at most, or it is suspicious, too */
    const int on = 1;
    struct iovec parts[PARTS];
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = PARTS};
    int unread = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
    if (!stream_refuse_descriptors(fd) || (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0))
        return true;
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){room, size};
    const ssize_t seen = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
    if (seen >= unread && (header.msg_flags & MSG_CTRUNC) == 0)
        return true;
    foreign_hang_up(fd);
    return false;
}

ssize_t foreign_receive(int fd, struct msghdr *header)
{
    if (foreign_is_busy()) {
        header->msg_controllen = 0;
        const ssize_t n = recvmsg(fd, header, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0)
            return n;
        if ((header->msg_flags & MSG_CTRUNC) != 0) {
            errno = EBUSY;
            return -1;
        }
        header->msg_iov[0].iov_len = (size_t)n; /* what comes behind it may bring some by now */
    }
    return recvmsg(fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}
