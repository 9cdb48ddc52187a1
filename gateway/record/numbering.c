#include "record/numbering.h"

#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* Two versions of this program may share it, so its layout has a mark. */
#define MARK UINT64_C(0x7372742d73657131) /* "srt-seq1" */

struct shared {
    uint64_t mark;
    uint64_t next;
    pthread_mutex_t lock;
};

struct numbering {
    int fd;
    struct shared *shared;
};

static struct numbering *map(int fd, struct srt_err *err)
{
    struct numbering *numbering = must(calloc(1, sizeof(*numbering)));
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        srt_err_set(err, "the counter of the audit log cannot be shared: %s", strerror(errno));
        free(numbering);
        return NULL;
    }
    numbering->fd = fd;
    numbering->shared = memory;
    return numbering;
}

struct numbering *numbering_create(struct srt_err *err)
{
    autoclose int fd = memfd_create("srt-audit-seq", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) {
        srt_err_set(err, "the counter of the audit log cannot be made: %s", strerror(errno));
        return NULL;
    }
    struct numbering *numbering = map(fd, err);
    if (numbering == NULL)
        return NULL;
    (void)steal_fd(&fd);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&numbering->shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    numbering->shared->mark = MARK;
    return numbering;
}

struct numbering *numbering_adopt(int fd, struct srt_err *err)
{
    autoclose int taken = fd;
    struct stat st;
    if (fstat(taken, &st) != 0 || st.st_size != (off_t)sizeof(struct shared)) {
        srt_err_set(err, "the counter of the audit log has another form");
        return NULL;
    }
    struct numbering *numbering = map(taken, err);
    if (numbering == NULL)
        return NULL;
    (void)steal_fd(&taken);
    if (numbering->shared->mark != MARK) {
        srt_err_set(err, "the counter of the audit log is none");
        numbering_free(numbering);
        return NULL;
    }
    return numbering;
}

/* The lock is not destroyed: another process may use it still. */
void numbering_free(struct numbering *numbering)
{
    if (numbering == NULL)
        return;
    munmap(numbering->shared, sizeof(struct shared));
    close(numbering->fd);
    free(numbering);
}

int numbering_fd(const struct numbering *numbering)
{
    return numbering->fd;
}

/* ThreadSanitizer does not know pthread_mutex_clocklock() (gcc 12, clang 14) and would call each
 * unlock one too many; it knows the lock by the clock that may jump, but not that EOWNERDEAD is a
 * lock that was taken. */
#if defined(__SANITIZE_THREAD__)
#define TURN_CLOCK CLOCK_REALTIME
#define lock_until(lock, until) pthread_mutex_timedlock((lock), (until))
#define lock_inherited(lock)                               \
    (__tsan_mutex_pre_lock((lock), __tsan_mutex_try_lock), \
     __tsan_mutex_post_lock((lock), __tsan_mutex_try_lock, 0))
#else
#define TURN_CLOCK CLOCK_MONOTONIC
#define lock_until(lock, until) pthread_mutex_clocklock((lock), TURN_CLOCK, (until))
#define lock_inherited(lock) ((void)(lock))
#endif

bool numbering_begin(struct numbering *numbering, int ms, uint64_t *next)
{
    const struct timespec until = clock_until(TURN_CLOCK, ms);
    int error = lock_until(&numbering->shared->lock, &until);
    if (error == ETIMEDOUT)
        return false;
    /* Its holder was killed in the middle of a turn: what it wrote in it was not counted. */
    if (error == EOWNERDEAD) {
        lock_inherited(&numbering->shared->lock);
        error = pthread_mutex_consistent(&numbering->shared->lock);
    }
    assert(error == 0);
    *next = numbering->shared->next;
    return true;
}

void numbering_end(struct numbering *numbering, uint64_t next)
{
    numbering->shared->next = next;
    int error = pthread_mutex_unlock(&numbering->shared->lock);
    assert(error == 0);
}
