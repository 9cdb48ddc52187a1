#include "launcher/warden/held.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { HELD_WAYS = 4 };

static struct held_place place_of(const struct statx *st)
{
    return (struct held_place){.inode = st->stx_ino,
                               .mount = st->stx_mnt_id,
                               .major = st->stx_dev_major,
                               .minor = st->stx_dev_minor};
}

int held_below(void)
{
    struct rlimit files;
    bool few = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 2 * (rlim_t)HELD_FDS;
    return few ? (int)files.rlim_cur / 2 : HELD_FDS;
}

static bool is_same_place(const struct held_place *a, const struct held_place *b)
{
    return a->inode == b->inode && a->mount == b->mount && a->major == b->major &&
           a->minor == b->minor;
}

/* Where the place is held, or what is to go for it: of the few that it may take the one that was
 * used least lately, so that two directories that are used in turn do not drive each other out. */
static struct held *slot_of(struct ward *ward, const struct held_place *place)
{
    size_t first = (place->inode ^ place->mount << 3) % (HELD_DIRS / HELD_WAYS) * HELD_WAYS;
    struct held *oldest = &ward->held[first];
    for (struct held *held = oldest; held < &ward->held[first + HELD_WAYS]; held++) {
        if (held->fd != 0 && is_same_place(&held->place, place))
            return held;
        if (held->serial < oldest->serial)
            oldest = held;
    }
    return oldest;
}

static uint64_t bit_of(int fd)
{
    return UINT64_C(1) << (unsigned)fd % 64;
}

bool held_has(const struct ward *ward, int fd)
{
    return fd >= 0 && fd < HELD_FDS && (ward->held_fds[fd / 64] & bit_of(fd)) != 0;
}

int held_find(struct call *call, int dir_fd, const char *path)
{
    struct statx st;
    if (!call_look(call, dir_fd, path, 0, &st))
        return -1;
    struct held_place place = place_of(&st);
    struct held *held = slot_of(call->ward, &place);
    if (held->fd == 0 || !is_same_place(&held->place, &place))
        return -1;
    held->serial = call->serial;
    return held->fd;
}

static void let_go(struct ward *ward, struct held *held)
{
    if (held->fd == 0)
        return;
    if (ward->here == held->fd)
        ward->here = -1;
    ward->held_fds[held->fd / 64] &= ~bit_of(held->fd);
    close(held->fd);
    *held = (struct held){.fd = 0};
}

void held_keep(struct call *call, int dir)
{
    struct statx st;
    if (dir >= call->ward->kept_below || held_has(call->ward, dir) ||
        statx(dir, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &st) != 0 ||
        !S_ISDIR(st.stx_mode))
        return;
    struct held_place place = place_of(&st);
    struct held *held = slot_of(call->ward, &place);
    /* One that this call uses stays. */
    if (held->fd != 0 && held->serial == call->serial)
        return;
    let_go(call->ward, held);
    *held = (struct held){.fd = dir, .place = place, .serial = call->serial};
    call->ward->held_fds[dir / 64] |= bit_of(dir);
}

void held_drop(struct ward *ward, const struct stat *st)
{
    for (size_t i = 0; i < HELD_DIRS; i++) {
        const struct held_place *place = &ward->held[i].place;
        if (ward->held[i].fd != 0 && place->inode == st->st_ino &&
            makedev(place->major, place->minor) == st->st_dev)
            let_go(ward, &ward->held[i]);
    }
}

bool held_go(struct ward *ward, int dir)
{
    if (ward->here == dir && dir >= 0)
        return true;
    bool gone = fchdir(dir) == 0;
    ward->here = gone && held_has(ward, dir) ? dir : -1;
    return gone;
}
