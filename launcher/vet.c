#include "launcher/vet.h"

#include "launcher/gitconfig.h"
#include "launcher/protect.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 256 * 1024 };

/* The bytes as they are now, in memory of ours. */
static int take(int dir, const char *name, char **bytes, size_t *len, mode_t *mode)
{
    struct stat st;
    autoclose int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > CONFIG_MAX)
        return -EFBIG;
    *bytes = malloc(CONFIG_MAX + 1);
    if (*bytes == NULL)
        return -ENOMEM;
    *mode = st.st_mode & 0777;
    for (*len = 0; *len <= CONFIG_MAX;) {
        ssize_t n = read(fd, *bytes + *len, CONFIG_MAX + 1 - *len);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        *len += (size_t)n;
    }
    return -EFBIG;
}

static int put(int dir, const char *name, const char *bytes, size_t len, mode_t mode)
{
    autoclose int fd =
        openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, bytes + done, len - done);
        if (n < 0)
            return -errno;
        done += (size_t)n;
    }
    return fchmod(fd, mode) == 0 ? 0 : -errno;
}

static int judge(int dir, const char *name, char **bytes, size_t *len, mode_t *mode, char *why,
                 size_t why_size)
{
    int result = take(dir, name, bytes, len, mode);
    if (result == -EFBIG)
        snprintf(why, why_size, "not a file of at most %d KiB", CONFIG_MAX / 1024);
    else if (result == 0 && !gitconfig_harmless(*bytes, *len, why, why_size))
        result = -EROFS;
    return result == -EFBIG ? -EROFS : result;
}

int vet_rename_config(int from_dir, const char *from, int to_dir, const char *to, char *why,
                      size_t why_size)
{
    autofree char *bytes = NULL;
    size_t len = 0;
    mode_t mode = 0;
    int result = judge(from_dir, from, &bytes, &len, &mode, why, why_size);
    if (result != 0)
        return result;
    unlinkat(to_dir, protect_new_config, 0); /* one that a killed run has left */
    result = put(to_dir, protect_new_config, bytes, len, mode);
    if (result == 0 && renameat(to_dir, protect_new_config, to_dir, to) != 0)
        result = -errno;
    if (result != 0)
        unlinkat(to_dir, protect_new_config, 0);
    else
        unlinkat(from_dir, from, 0);
    return result;
}

bool vet_config(int dir, const char *name, char *why, size_t why_size)
{
    autofree char *bytes = NULL;
    size_t len = 0;
    mode_t mode = 0;
    return judge(dir, name, &bytes, &len, &mode, why, why_size) == 0;
}
