#include "launcher/job.h"

#include "launcher/remedy.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* How a packed job begins; cwd, the arguments and the environment follow as terminated strings. */
struct packed {
    uint32_t syscalls, umask, own_group, supervised, wait, nested, argc, envc, rootc;
    uint64_t ignored_signals;
};

static uint32_t count_strings(char *const *strings)
{
    uint32_t count = 0;
    while (strings[count] != NULL)
        count++;
    return count;
}

static void put_string(FILE *out, const char *string)
{
    fwrite(string, 1, strlen(string) + 1, out);
}

static void put_strings(FILE *out, char *const *strings)
{
    for (size_t i = 0; strings[i] != NULL; i++)
        put_string(out, strings[i]);
}

static char *pack(const struct job *job, size_t *len)
{
    const struct packed head = {.syscalls = job->syscalls,
                                .umask = job->umask,
                                .own_group = job->own_group,
                                .supervised = job->supervised,
                                .wait = job->wait,
                                .nested = job->nested,
                                .rootc = count_strings(job->roots),
                                .argc = count_strings(job->argv),
                                .envc = count_strings(job->env),
                                .ignored_signals = job->ignored_signals};
    char *bytes = NULL;
    FILE *out = must(open_memstream(&bytes, len));
    fwrite(&head, 1, sizeof(head), out);
    put_string(out, job->cwd);
    put_strings(out, job->argv);
    put_strings(out, job->env);
    put_strings(out, job->roots);
    if (fclose(out) != 0)
        must_end();
    return bytes;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t written = write(fd, bytes, len);
        if (written <= 0)
            return false;
        bytes += written;
        len -= (size_t)written;
    }
    return true;
}

int job_pack(const struct job *job, struct srt_err *err)
{
    size_t len;
    autofree char *bytes = pack(job, &len);
    autoclose int fd = memfd_create("srt-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || !write_all(fd, bytes, len) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        return srt_err_set(err, "the job cannot be handed over: %s", remedy_error(errno));
    return steal_fd(&fd);
}

/* They stay where they are. NULL: no memory. */
static char **take_strings(const char **p, const char *end, uint32_t count)
{
    char **strings = calloc((size_t)count + 1, sizeof(char *));
    for (uint32_t i = 0; strings != NULL && i < count; i++) {
        assert(*p < end);
        strings[i] = (char *)(uintptr_t)*p;
        *p += strlen(*p) + 1;
    }
    return strings;
}

bool job_unpack(struct job *job, int fd)
{
    struct stat st;
    int result = fstat(fd, &st);
    assert(result == 0 && (size_t)st.st_size > sizeof(struct packed));
    const char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    const char *end = bytes + st.st_size;
    struct packed head;
    memcpy(&head, bytes, sizeof(head));
    const char *p = bytes + sizeof(head);
    *job = (struct job){.syscalls = head.syscalls,
                        .umask = head.umask,
                        .own_group = head.own_group != 0,
                        .supervised = head.supervised != 0,
                        .wait = head.wait != 0,
                        .nested = head.nested != 0,
                        .ignored_signals = head.ignored_signals,
                        .cwd = p};
    p += strlen(p) + 1;
    return (job->argv = take_strings(&p, end, head.argc)) != NULL &&
           (job->env = take_strings(&p, end, head.envc)) != NULL &&
           (job->roots = take_strings(&p, end, head.rootc)) != NULL;
}
