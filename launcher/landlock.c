#include "launcher/landlock.h"

#include "launcher/remedy.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Newer than the headers that this is built with. */
enum { ACCESS_FS_TRUNCATE = 1 << 14, SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0, SCOPE_SIGNAL = 1 << 1 };

struct ruleset {
    uint64_t files, net, scoped;
};

enum {
    VERSION_REFER = 2, /* before it nothing could be moved from one directory to another */
    VERSION_TRUNCATE = 3,
    VERSION_SCOPES = 6,
};

enum {
    TO_FILES = LANDLOCK_ACCESS_FS_WRITE_FILE,
    TO_DIRS = LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
              LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
              LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
              LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
              LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER,
};

static long version_here(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

int landlock_version(void)
{
    long version = version_here();
    return version >= VERSION_REFER ? (int)version : 0;
}

#define MISSING(why)                                                                               \
    "there is no Landlock behind the mounts: " why "; mounts and warden alone hold writes inside " \
    "the writable directories"

const char *landlock_missing(void)
{
    long version = version_here();
    if (version > 0)
        return version >= VERSION_REFER ? NULL : MISSING("this kernel's is older than Linux 5.19");
    switch (errno) {
    case ENOSYS:
        return MISSING("this kernel has none");
    case EOPNOTSUPP:
        return MISSING("it was not switched on when this machine started (lsm=)");
    default:
        return MISSING("a system call filter refuses it, as in a container");
    }
}

static int allow(int ruleset, int place, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = place};
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int allow_path(int ruleset, const char *path, uint64_t to_files)
{
    struct stat st;
    autoclose int place = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0 || fstat(place, &st) != 0)
        return -1;
    return allow(ruleset, place, S_ISDIR(st.st_mode) ? to_files | TO_DIRS : to_files);
}

/* The command's own devices, memory directory and processes are no business of the fence; the
 * streams that the caller gave may be opened again by their names in /proc. */
static int allow_all(int ruleset, char *const *roots, uint64_t to_files, struct srt_err *err)
{
    static const char *const own[] = {"/dev", "/proc"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (allow_path(ruleset, own[i], to_files) != 0)
            return srt_err_set(err, "Landlock: %s: %s", own[i], remedy_error(errno));
    /* What this user cannot get at, or what has gone meanwhile, needs no right. */
    for (size_t i = 0; roots[i] != NULL; i++)
        if (allow_path(ruleset, roots[i], to_files) != 0 && errno != EACCES && errno != ENOENT)
            return srt_err_set(err, "Landlock: %s: %s", roots[i], remedy_error(errno));
    for (int fd = 0; fd < 3; fd++)
        allow(ruleset, fd, to_files); /* pipes and sockets have no place, and need no right */
    return 0;
}

int landlock_install(char *const *roots, bool files, struct srt_err *err)
{
    int version = landlock_version();
    uint64_t to_files = TO_FILES | (version >= VERSION_TRUNCATE ? ACCESS_FS_TRUNCATE : 0u);
    struct ruleset attr = {
        .files = files ? to_files | TO_DIRS : 0u,
        .scoped = version >= VERSION_SCOPES ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0u,
    };
    /* Older kernels take a shorter attribute, or one whose rest is zero. */
    if (version == 0 || (attr.files | attr.scoped) == 0)
        return 0;
    autoclose int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return srt_err_set(err, "Landlock: %s", remedy_error(errno));
    if (files && allow_all(ruleset, roots, to_files, err) != 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return srt_err_set(err, "Landlock: %s", remedy_error(errno));
    return 0;
}
