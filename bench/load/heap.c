/*
 * Counts what a program asks of the heap: a library for LD_PRELOAD. BENCH_HEAP names a file of
 * two 64-bit numbers, allocations and frees of all threads, that whoever measures reads when it
 * likes. A realloc() counts as an allocation, one of nothing to free not as a free. Not for
 * builds with a sanitizer, which bring a heap of their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, under the names by which it can be reached from a replacement. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

struct counts {
    _Atomic uint64_t allocations, frees;
};

static struct counts early; /* until the file is there */
static struct counts *counts = &early;

__attribute__((constructor)) static void counts_share(void)
{
    const char *path = getenv("BENCH_HEAP");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED)
        counts = shared;
}

static void *counted(void *p)
{
    atomic_fetch_add_explicit(&counts->allocations, 1, memory_order_relaxed);
    return p;
}

void *malloc(size_t size)
{
    return counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return counted(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
    return counted(__libc_realloc(old, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = aligned_alloc(alignment, size);
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

void free(void *p)
{
    if (p != NULL)
        atomic_fetch_add_explicit(&counts->frees, 1, memory_order_relaxed);
    __libc_free(p);
}
