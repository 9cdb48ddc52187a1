#include "control/activation.h"

#include "srt/cleanup.h"
#include "srt/must.h"
#include "srt/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FIRST_FD = 3, FDS_MAX = 1024 };

struct offered {
    int fd;     /* -1: taken */
    char *name; /* NULL: none */
    enum offered_kind kind;
    bool own;
};

struct activation {
    struct offered *items;
    size_t count;
};

/* The names are between colons, in the descriptors' order. */
static void read_names(struct activation *activation, const char *names)
{
    for (size_t i = 0; names != NULL && i < activation->count; i++) {
        const size_t len = strcspn(names, ":");
        activation->items[i].name = must(strndup(names, len));
        names = names[len] == ':' ? names + len + 1 : NULL;
    }
}

/* Whether the environment speaks to this process and not to one it was started by. */
static bool is_for_us(void)
{
    uint64_t pid;
    const char *text = getenv("LISTEN_PID");
    return text != NULL && str_uint(str_of(text), INT32_MAX, &pid) && pid == (uint64_t)getpid();
}

struct activation *activation_read(struct srt_err *err)
{
    uint64_t count = 0;
    const char *fds = getenv("LISTEN_FDS");
    struct activation *activation = must(calloc(1, sizeof(*activation)));
    if (!is_for_us() || fds == NULL)
        return activation;
    if (!str_uint(str_of(fds), FDS_MAX, &count)) {
        free(activation);
        srt_err_set(err, "LISTEN_FDS=%s is no number of descriptors", fds);
        return NULL;
    }
    activation->count = count;
    activation->items = must(calloc(count + 1, sizeof(*activation->items)));
    for (size_t i = 0; i < count; i++)
        activation->items[i].fd = FIRST_FD + (int)i;
    read_names(activation, getenv("LISTEN_FDNAMES"));
    return activation;
}

void activation_offer(struct activation *activation, enum offered_kind kind, const char *name,
                      int fd, bool own)
{
    activation->items =
        must(reallocarray(activation->items, activation->count + 1, sizeof(*activation->items)));
    struct offered *item = &activation->items[activation->count++];
    *item = (struct offered){.fd = fd, .kind = kind, .own = own, .name = must_copy(name)};
}

static void remove_path(int fd)
{
    struct sockaddr_un bound = {0};
    socklen_t len = sizeof(bound) - 1;
    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0 && bound.sun_family == AF_UNIX &&
        bound.sun_path[0] != '\0')
        unlink(bound.sun_path);
}

void activation_clean_up(const struct activation *activation)
{
    for (size_t i = 0; i < activation->count; i++)
        if (activation->items[i].fd >= 0 && activation->items[i].own)
            remove_path(activation->items[i].fd);
}

void activation_free(struct activation *activation)
{
    if (activation == NULL)
        return;
    for (size_t i = 0; i < activation->count; i++) {
        if (activation->items[i].fd >= 0)
            close(activation->items[i].fd);
        free(activation->items[i].name);
    }
    free(activation->items);
    free(activation);
}

/* Where the descriptor listens is where the section says. */
static bool has_address(int fd, const struct config_address *address)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    struct addr addr;
    uint16_t port;
    if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0)
        return false;
    if (bound.ss_family == AF_UNIX) {
        const struct sockaddr_un *path = (const struct sockaddr_un *)&bound;
        return address->path != NULL && len > offsetof(struct sockaddr_un, sun_path) &&
               strncmp(path->sun_path, address->path, sizeof(path->sun_path)) == 0;
    }
    return address->path == NULL && addr_from_sockaddr((struct sockaddr *)&bound, &addr, &port) &&
           addr_eq(&addr, &address->addr) && (address->port == 0 || port == address->port);
}

/* One that has both the name and the address is the best; an address alone will do, a name alone
 * will be found to be wrong. Port 0 is any port, and so says nothing about which. */
static struct offered *find(struct activation *activation, enum offered_kind kind,
                            const struct config_listen *config)
{
    struct offered *by_address = NULL, *by_name = NULL;
    for (size_t i = 0; i < activation->count; i++) {
        struct offered *item = &activation->items[i];
        if (item->fd < 0 || (item->kind != OFFERED_ANY && item->kind != kind))
            continue;
        const bool named = item->name != NULL && strcmp(item->name, config->name) == 0;
        const bool there = has_address(item->fd, &config->address);
        if (named && there)
            return item;
        if (by_name == NULL && named)
            by_name = item;
        if (by_address == NULL && there &&
            (config->address.path != NULL || config->address.port != 0))
            by_address = item;
    }
    return by_address != NULL ? by_address : by_name;
}

/* NULL with `err` empty: none was meant for it. */
static struct listener *take(struct activation *activation, enum offered_kind kind,
                             const struct config_listen *config, struct srt_err *err)
{
    struct offered *item = find(activation, kind, config);
    *err = (struct srt_err){0};
    if (item == NULL)
        return NULL;
    if (!has_address(item->fd, &config->address)) {
        srt_err_set(err, "the socket that was handed over as %s has another address", config->name);
        return NULL;
    }
    const int fd = item->fd;
    item->fd = -1;
    return listener_adopt_for(fd, config, item->own, err);
}

struct listener *activation_open(struct activation *activation, enum offered_kind kind,
                                 const struct config_listen *config, struct srt_err *err)
{
    struct listener *listener = take(activation, kind, config, err);
    if (listener == NULL && err->text[0] == '\0')
        listener = listener_open(config, err);
    return listener;
}

int activation_check(const struct activation *activation, struct srt_err *err)
{
    for (size_t i = 0; i < activation->count; i++)
        if (activation->items[i].fd >= 0)
            return srt_err_set(err,
                               "descriptor %d (%s) was handed over, but no [listen], control or "
                               "admin has its name or address",
                               activation->items[i].fd,
                               activation->items[i].name != NULL ? activation->items[i].name
                                                                 : "without a name");
    return 0;
}
