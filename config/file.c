#include "config/file.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>

static int read_all(int fd, char *to, size_t size, size_t *len)
{
    *len = 0;
    while (*len < size) {
        ssize_t got = read(fd, to + *len, size - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        *len += (size_t)got;
    }
    return 0;
}

int file_read(const char *path, size_t max_bytes, char **bytes, size_t *len, struct stat *st,
              struct srt_err *err)
{
    struct stat own;
    if (st == NULL)
        st = &own;
    /* O_NONBLOCK: a FIFO without a writer would otherwise block the open itself. */
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, st) != 0)
        return srt_err_set(err, "%s", strerror(errno));
    if (S_ISDIR(st->st_mode))
        return srt_err_set(err, "is a directory");
    if (!S_ISREG(st->st_mode))
        return srt_err_set(err, "is not a regular file");
    if ((st->st_mode & (S_IRUSR | S_IRGRP | S_IROTH)) == 0) /* root could read it all the same */
        return srt_err_set(err, "nobody has permission to read it");
    if ((uintmax_t)st->st_size > max_bytes)
        return srt_err_set(err, "is larger than %zu bytes", max_bytes);

    /* One byte more than it had when it was opened shows a file that is being written. */
    size_t size = (size_t)st->st_size + 1;
    char *buffer = must(malloc(size + 1));
    const char *why = read_all(fd, buffer, size, len) != 0 ? strerror(errno)
                      : *len == size                       ? "grew while it was read"
                                                           : NULL;
    if (why != NULL) {
        free(buffer);
        return srt_err_set(err, "%s", why);
    }
    buffer[*len] = '\0';
    *bytes = buffer;
    return 0;
}

int file_read_pipe(const char *path, size_t max_bytes, char **bytes, size_t *len,
                   struct srt_err *err)
{
    /* O_NONBLOCK: a FIFO that nobody has opened to write to is empty, not waited for. */
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return srt_err_set(err, "%s", strerror(errno));
    autofree char *buffer = must(malloc(max_bytes + 2));
    size_t have = 0;
    for (;;) {
        struct pollfd wake = {.fd = fd, .events = POLLIN};
        ssize_t got = read(fd, buffer + have, max_bytes + 1 - have);
        if (got < 0 && errno == EAGAIN)
            (void)poll(&wake, 1, -1);
        else if (got < 0 && errno != EINTR)
            return srt_err_set(err, "%s", strerror(errno));
        if (got > 0)
            have += (size_t)got;
        if (have > max_bytes)
            return srt_err_set(err, "is larger than %zu bytes", max_bytes);
        if (got == 0)
            break;
    }
    buffer[have] = '\0';
    *len = have;
    *bytes = steal_ptr(buffer);
    return 0;
}

struct str file_secret(struct str bytes)
{
    if (bytes.len > 0 && bytes.p[bytes.len - 1] == '\n')
        bytes.len -= bytes.len > 1 && bytes.p[bytes.len - 2] == '\r' ? 2 : 1;
    return bytes;
}

size_t file_utf8_len(struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    if (bytes.len == 0 || p[0] < 0x80)
        return bytes.len == 0 ? 0 : 1;
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t len;
    } rows[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        if (p[0] < rows[row].first_low || p[0] > rows[row].first_high)
            continue;
        if (rows[row].len > bytes.len || p[1] < rows[row].second_low ||
            p[1] > rows[row].second_high)
            return 0;
        for (size_t i = 2; i < rows[row].len; i++)
            if (p[i] < 0x80 || p[i] > 0xbf)
                return 0;
        return rows[row].len;
    }
    return 0;
}

size_t file_text_end(struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t i = 0;
    while (i < bytes.len) {
        if (p[i] >= 0x20 && p[i] < 0x7f) {
            i++;
        } else if (p[i] >= 0x80) {
            size_t len = file_utf8_len(str_from(bytes, i));
            if (len == 0)
                break;
            i += len;
        } else if (p[i] == '\t' || p[i] == '\n' ||
                   (p[i] == '\r' && i + 1 < bytes.len && p[i + 1] == '\n')) {
            i++;
        } else {
            break;
        }
    }
    return i;
}

bool file_has_bom(struct str bytes)
{
    return str_starts(bytes, STR("\xef\xbb\xbf"));
}
