#include "launcher/warden/sockets.h"

#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
#include "launcher/warden/judge.h"
#include "launcher/warden/waits.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char private_memory[] = "/dev/shm";

/* Whether something inside may have made, or can make, a link by which a name leads here. */
static bool is_led_by_caller(const struct ward *ward, const struct path_place *place)
{
    for (size_t i = 0; i < place->link_count; i++)
        if (fence_view(ward->law->fence, place->links[i]).writable ||
            path_within(place->links[i], private_memory))
            return true;
    return false;
}

/* Where the i-th name leads; false for one that the caller leads, and where there is none. */
static bool find_named(const struct ward *ward, size_t i, struct path_place *place)
{
    if (path_resolve(ward->law->sockets[i], place, NULL) != 0)
        return false;
    if (is_led_by_caller(ward, place))
        path_place_free(place);
    return place->path != NULL;
}

bool socket_is_named(const struct ward *ward, const char *path)
{
    bool named = path_within(path, private_memory);
    for (size_t i = 0; ward->law->sockets[i] != NULL && !named; i++) {
        struct path_place place;
        named = find_named(ward, i, &place) && path_within(path, place.path);
        path_place_free(&place);
    }
    return named;
}

bool socket_names_below(const struct ward *ward, const char *dir)
{
    bool below = socket_is_named(ward, dir);
    for (size_t i = 0; ward->law->sockets[i] != NULL && !below; i++) {
        struct path_place place;
        below = find_named(ward, i, &place) && path_within(place.path, dir);
        path_place_free(&place);
    }
    return below;
}

static void report_socket(struct call *call, const char *operation, const char *path)
{
    struct warden_report message = {.kind = WARDEN_SOCKET, .error = EPERM};
    snprintf(message.operation, sizeof(message.operation), "%s", operation);
    snprintf(message.setting, sizeof(message.setting), "network.allowUnixSockets");
    snprintf(message.path, sizeof(message.path), "%s", path);
    judge_report_as(call, &message);
}

/* Names of sockets that are held open are relative to the host's /proc. */
static int connect_now(const struct call *call, int sock, const struct sockaddr *to, socklen_t len)
{
    if (!held_go(call->ward, call->ward->host_proc))
        return -EACCES;
    return connect(sock, to, len) == 0 ? 0 : -errno;
}

int socket_read_address(struct call *call, uint64_t address, uint64_t len,
                        union socket_address *out)
{
    *out = (union socket_address){.storage = {0}};
    return len > sizeof(*out) ? -EINVAL : call_read_memory(call, address, out, len);
}

/* The path of a Unix address, "" when it is none. An empty path or a leading zero is a name that
 * only this network namespace knows. */
static void path_of_address(const union socket_address *address, socklen_t len,
                            char path[sizeof(address->un.sun_path) + 1])
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    size_t room = len > start ? len - start : 0;
    if (room > sizeof(address->un.sun_path))
        room = sizeof(address->un.sun_path);
    if (address->any.sa_family != AF_UNIX)
        room = 0;
    memcpy(path, address->un.sun_path, room);
    path[room] = '\0';
}

static int aim_at_path(struct call *call, const char *operation, const char *path, int *held)
{
    int base;
    if (!spot_base(call, AT_FDCWD, path, &base))
        return -errno;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    *held = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
    int error = errno;
    call_close_base(call, base);
    if (*held < 0)
        return -error;
    char real[PATH_MAX];
    if (ward_path_of(call->ward, *held, real, sizeof(real)) == 0)
        return -EACCES;
    if (!socket_is_named(call->ward, real)) {
        report_socket(call, operation, real);
        return -EPERM;
    }
    return 0;
}

int socket_aim(struct call *call, const char *operation, union socket_address *address,
               socklen_t *len, int *held)
{
    char path[sizeof(address->un.sun_path) + 1];
    path_of_address(address, *len, path);
    int result = path[0] != '\0' ? aim_at_path(call, operation, path, held) : 0;
    if (result != 0 || path[0] == '\0')
        return result;
    address->un = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->un.sun_path, sizeof(address->un.sun_path), "%s", ward_link_to(*held).text);
    *len = sizeof(address->un);
    return 0;
}

int socket_option(int sock, int name)
{
    int value;
    socklen_t len = sizeof(value);
    return getsockopt(sock, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* The name of a socket of the sandbox's own network namespace, which nobody outside can have. */
void socket_report_abstract(struct call *call, const char *operation,
                            const union socket_address *to, socklen_t len)
{
    const size_t start = offsetof(struct sockaddr_un, sun_path) + 1;
    char name[sizeof(to->un.sun_path) + 1] = "@";
    if (to->any.sa_family != AF_UNIX || len <= start || to->un.sun_path[0] != '\0')
        return;
    for (size_t i = 0; i < len - start && i < sizeof(to->un.sun_path) - 1; i++) {
        char c = to->un.sun_path[1 + i];
        name[1 + i] = c;
        if (c < ' ' || c > '~')
            name[1 + i] = '?';
    }
    report_socket(call, operation, name);
}

/* Every connect() comes here, as neither the kind of socket nor the address is in a register: all
 * are done by us on the caller's own socket. One that may wait does so in a process of its own. */
int64_t answer_connect(struct call *call, const struct table_row *row, const uint64_t *args)
{
    union socket_address to;
    socklen_t len = (socklen_t)args[2];
    int result = socket_read_address(call, args[1], args[2], &to);
    if (result != 0)
        return result;
    autoclose int sock = call_take(call, (int)args[0]);
    autoclose int held = -1;
    if (sock < 0)
        return sock;
    result = socket_aim(call, row->operation, &to, &len, &held);
    if (result != 0)
        return result;
    if (!call_waits(call))
        return -EINTR;
    bool local = to.any.sa_family == AF_UNIX;
    if ((fcntl(sock, F_GETFL) & O_NONBLOCK) != 0 ||
        (local && socket_option(sock, SO_TYPE) == SOCK_DGRAM)) {
        result = connect_now(call, sock, &to.any, len);
        if (result == -ECONNREFUSED)
            socket_report_abstract(call, row->operation, &to, len);
        return result;
    }
    int64_t begun = wait_begin(call);
    if (begun != 0)
        return begun;
    while ((result = connect_now(call, sock, &to.any, len)) == -EINTR)
        wait_check(call);
    if (result == -ECONNREFUSED)
        socket_report_abstract(call, row->operation, &to, len);
    wait_end(call, result);
}

static bool leads_to_spot(int base, const char *path, const struct spot *spot)
{
    struct stat there, here;
    autofree char *parent = path_parent(path);
    return fstatat(base < 0 ? AT_FDCWD : base, parent, &there, 0) == 0 &&
           fstat(spot->dir, &here) == 0 && there.st_ino == here.st_ino &&
           there.st_dev == here.st_dev;
}

static int bind_here(struct call *call, int dir, int sock, const struct sockaddr *name,
                     socklen_t len)
{
    call_use_umask(call);
    return held_go(call->ward, dir) && bind(sock, name, len) == 0 ? 0 : -errno;
}

/* getsockname() tells everybody the very words of bind(), and programs hand them on to others. So
 * they are the caller's, where these lead to the spot. Nobody inside can exchange a directory
 * between that look and bind(), as renames wait for us. Who does so outside, or in another sandbox,
 * gets a socket elsewhere in what may be written, which nobody can read or run; the caller is
 * refused. */
static int bind_by_words(struct call *call, int sock, const char *path,
                         const union socket_address *words, socklen_t len, const struct spot *spot)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int base = -1;
    memcpy(name.sun_path, spot->name, strlen(spot->name) + 1);
    if (strchr(path, '/') == NULL || !spot_base(call, AT_FDCWD, path, &base))
        return bind_here(call, spot->dir, sock, (struct sockaddr *)&name, sizeof(name));
    bool same = leads_to_spot(base, path, spot);
    int result = same ? bind_here(call, base < 0 ? spot->dir : base, sock, &words->any, len)
                      : bind_here(call, spot->dir, sock, (struct sockaddr *)&name, sizeof(name));
    call_close_base(call, base);
    return result == 0 && !S_ISSOCK(spot_type(spot)) ? -EROFS : result;
}

/* A socket that gets a path is a new name in the tree. */
static int64_t bind_to_path(struct call *call, int sock, const char *path,
                            const union socket_address *words, socklen_t len)
{
    int base;
    if (!spot_base(call, AT_FDCWD, path, &base))
        return -errno;
    SPOT(spot);
    int result = spot_find(call, base, path, &spot);
    if (result != 0)
        return result;
    if (!call_waits(call))
        return -EINTR;
    if (spot_is_special(&spot) || spot_exists(&spot))
        return -EADDRINUSE;
    if (spot.slash || strlen(spot.name) >= sizeof(words->un.sun_path))
        return -ENOENT;
    if (!judge_creation(call, "bind", spot.path, S_IFSOCK))
        return -EROFS;
    result = bind_by_words(call, sock, path, words, len, &spot);
    return judge_result(call, "bind", &spot, result);
}

int64_t answer_bind(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    union socket_address to;
    char path[sizeof(to.un.sun_path) + 1];
    int result = socket_read_address(call, args[1], args[2], &to);
    if (result != 0)
        return result;
    autoclose int sock = call_take(call, (int)args[0]);
    if (sock < 0)
        return sock;
    path_of_address(&to, (socklen_t)args[2], path);
    if (path[0] != '\0')
        return bind_to_path(call, sock, path, &to, (socklen_t)args[2]);
    return bind(sock, &to.any, (socklen_t)args[2]) == 0 ? 0 : -errno;
}
