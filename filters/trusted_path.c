#include "filters/trusted_path.h"

#include "srt/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int check_part(const char *path, mode_t type, struct srt_err *err)
{
    struct stat st;
    const bool is_directory = type == S_IFDIR;
    if (lstat(path, &st) != 0)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (!is_directory && (st.st_mode & S_IFMT) != type)
        return srt_err_set(err, "%s is not a %s", path,
                           type == S_IFREG ? "regular file" : "socket");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return srt_err_set(err, "%s belongs to uid %u, not to root or the gateway's own user", path,
                           st.st_uid);
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !(is_directory && (st.st_mode & S_ISVTX) != 0))
        return srt_err_set(err, "%s is writable by others (mode %04o)", path, st.st_mode & 07777);
    return 0;
}

int trusted_path_check(const char *path, mode_t type, struct srt_err *err)
{
    assert(type == S_IFREG || type == S_IFSOCK);
    autofree char *real = realpath(path, NULL);
    if (real == NULL)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (strcmp(real, path) != 0)
        return srt_err_set(err, "%s leads to %s: write that path", path, real);
    if (check_part(real, type, err) != 0)
        return -1;
    for (char *slash; (slash = strrchr(real, '/')) != NULL;) {
        *slash = '\0';
        if (check_part(*real != '\0' ? real : "/", S_IFDIR, err) != 0)
            return -1;
    }
    return 0;
}
