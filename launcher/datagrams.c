#include "launcher/datagrams.h"

#include "srt/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ENTRIES_MAX = 4096 };

/* The kernel tells, and the service hears nothing of it: a datagram socket can be connected to
 * another one, and to nothing else. A long path is shortened by way of our own descriptors. */
static bool takes_datagrams(int dir, const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct stat st;
    autoclose int place = openat(dir, name, O_PATH | O_CLOEXEC);
    autoclose int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (place < 0 || sock < 0 || fstat(place, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d", place);
    return connect(sock, (struct sockaddr *)&to, sizeof(to)) == 0;
}

bool datagrams_at(const char *path)
{
    if (takes_datagrams(AT_FDCWD, path))
        return true;
    DIR *entries = opendir(path);
    bool found = false;
    struct dirent *entry;
    for (unsigned i = 0; entries != NULL && !found && i < ENTRIES_MAX; i++) {
        if ((entry = readdir(entries)) == NULL)
            break;
        found =
            (entry->d_type == DT_SOCK || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) &&
            takes_datagrams(dirfd(entries), entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    return found;
}
