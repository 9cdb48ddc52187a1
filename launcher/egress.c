#include "launcher/egress.h"

#include "launcher/remedy.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    ANSWER_MS = 10000, /* for a gateway to say "attached" */
    WRITE_MS = 5000,   /* for a gateway to take a frame */
    LAST_MS = 1000,    /* for what a gateway still has to say when a sandbox has ended */
    END_MS = 2000,     /* for a private gateway to end by itself */
    PRIVATE_STARTS = 5,
};

static bool wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd wake = {.fd = fd, .events = events};
    int ready;
    do
        ready = poll(&wake, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* `network` is the settings' own JSON text (config/settings.h) and goes in as it is; NULL: the
 * frame has none. */
static char *frame_text(const json_t *members, const char *network)
{
    autofree char *text = must(json_dumps(members, JSON_COMPACT));
    if (network == NULL)
        return steal_ptr(text);
    return must_format("%.*s,\"network\":%s}", (int)strlen(text) - 1, text, network);
}

/* The descriptors go with the first byte; the socket does not block, so a gateway that has stopped
 * reading costs WRITE_MS and not the run. */
static int send_frame(int sock, const json_t *members, const char *network, const int *fds,
                      size_t count, struct srt_err *err)
{
    autofree char *text = frame_text(members, network);
    size_t len = strlen(text);
    if (len > ATTACH_MAX_FRAME)
        return srt_err_set(err, "the network settings are larger than %d bytes", ATTACH_MAX_FRAME);
    uint32_t head = htonl((uint32_t)len);
    if (!wait_for(sock, POLLOUT, WRITE_MS) || !fds_send(sock, &head, sizeof(head), fds, count))
        return srt_err_set(err, "the gateway takes no message");
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(sock, text + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += (size_t)n;
        else if ((errno != EAGAIN && errno != EINTR) || !wait_for(sock, POLLOUT, WRITE_MS))
            return srt_err_set(err, "the gateway takes no message");
    }
    return 0;
}

static int connect_shared(const char *path, struct srt_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return srt_err_set(err, "the gateway's socket path is longer than %zu bytes: %s",
                           sizeof(address.sun_path) - 1, path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return srt_err_set(err, "no gateway answers at unix:%s: %s; %s, or use --gateway private",
                           path, strerror(errno),
                           errno == EACCES ? "have this user put into the socket's group"
                                           : "start srt-gateway");
    return steal_fd(&fd);
}

/* The gateway's end of the pair survives execve; everything else of ours is close-on-exec. It gets
 * a process group of its own, so that a Ctrl-C for the command does not end the way out first. */
static _Noreturn void become_gateway(const char *path, int sock)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    char fd_text[16];
    snprintf(fd_text, sizeof(fd_text), "%d", sock);
    fcntl(sock, F_SETFD, 0);
    execl(path, "srt-gateway", "run", "--private", fd_text, (char *)NULL);
    _exit(127);
}

static int start_private(struct egress *egress, struct srt_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return srt_err_set(err, "socketpair: %s", remedy_error(errno));
    pid_t pid = fork();
    if (pid < 0) {
        close(pair[0]);
        close(pair[1]);
        return srt_err_set(err, "fork: %s", remedy_error(errno));
    }
    if (pid == 0)
        become_gateway(egress->options.gateway_path, pair[1]);
    close(pair[1]);
    egress->gateway = pid;
    egress->private_starts++;
    return pair[0];
}

static json_t *list_kinds(const struct egress *egress)
{
    json_t *kinds = must(json_array());
    for (size_t i = 0; i < egress->listener_count; i++)
        json_array_append_new(kinds, json_string(egress->listeners[i].kind));
    return kinds;
}

static json_t *attach_members(const struct egress *egress, const char *command)
{
    const struct egress_options *options = &egress->options;
    return json_pack("{s:s, s:i, s:s, s:s?, s:s, s:o, s:b}", "type", "attach", "version",
                     ATTACH_VERSION, "name", options->name, "policy", options->policy, "command",
                     command, "listeners", list_kinds(egress), "ask", options->asks);
}

static json_t *attach_frame(const struct egress *egress)
{
    json_t *frame = attach_members(egress, egress->options.command);
    if (frame != NULL)
        return frame;
    /* Names of files may be any bytes, JSON may not: the log then shows them replaced. */
    autofree char *command = must_copy(egress->options.command);
    for (char *p = command; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = '?';
    return attach_members(egress, command);
}

/* A frame that is complete in the buffer, taken out of it. `*bad` when it can never become one. */
static json_t *take_frame(struct egress *egress, bool *bad)
{
    *bad = false;
    if (egress->in_len < sizeof(uint32_t))
        return NULL;
    uint32_t head;
    memcpy(&head, egress->in, sizeof(head));
    size_t len = ntohl(head);
    *bad = len > ATTACH_MAX_FRAME;
    if (*bad || egress->in_len < sizeof(head) + len)
        return NULL;
    json_t *frame = json_loadb(egress->in + sizeof(head), len, JSON_ALLOW_NUL, NULL);
    size_t used = sizeof(head) + len;
    memmove(egress->in, egress->in + used, egress->in_len - used);
    egress->in_len -= used;
    *bad = frame == NULL || !json_is_object(frame);
    if (*bad) {
        json_decref(frame);
        return NULL;
    }
    return frame;
}

static bool receive_more(struct egress *egress)
{
    if (egress->in_capacity - egress->in_len < 4096) {
        egress->in_capacity = egress->in_capacity == 0 ? 16384 : 2 * egress->in_capacity;
        egress->in = must(realloc(egress->in, egress->in_capacity));
    }
    ssize_t n;
    do
        n = recv(egress->connection, egress->in + egress->in_len,
                 egress->in_capacity - egress->in_len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        egress->in_len += (size_t)n;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

json_t *egress_pending(struct egress *egress)
{
    bool bad;
    return take_frame(egress, &bad);
}

json_t *egress_next(struct egress *egress, bool *lost)
{
    bool alive = receive_more(egress);
    bool bad;
    json_t *frame = take_frame(egress, &bad);
    *lost = frame == NULL && (bad || !alive);
    return frame;
}

static void drop_connection(struct egress *egress)
{
    if (egress->connection >= 0)
        close(egress->connection);
    egress->connection = -1;
    egress->in_len = 0;
}

static bool reap_within(pid_t pid, int timeout_ms)
{
    autoclose int end = (int)syscall(SYS_pidfd_open, pid, 0);
    if (end >= 0 && !wait_for(end, POLLIN, timeout_ms))
        return false;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return true;
}

static void end_private(struct egress *egress)
{
    if (egress->gateway == 0)
        return;
    if (!reap_within(egress->gateway, END_MS)) {
        kill(egress->gateway, SIGKILL);
        reap_within(egress->gateway, END_MS);
    }
    egress->gateway = 0;
}

/* The frame is the egress's from here on. */
static int take_answer(struct egress *egress, json_t *frame, struct srt_err *err)
{
    const char *type = json_string_value(json_object_get(frame, "type"));
    const char *message = json_string_value(json_object_get(frame, "message"));
    json_decref(egress->attached_frame);
    egress->attached_frame = frame;
    if (type != NULL && strcmp(type, "attached") == 0)
        return 0;
    return srt_err_set(err, "the gateway refuses this sandbox: %.900s",
                       message != NULL ? message : "it gave no reason");
}

static int say_lost(const struct egress *egress, struct srt_err *err)
{
    if (egress->options.socket_path == NULL)
        return srt_err_set(err, "the private gateway (%s) ended before it took the sandbox",
                           egress->options.gateway_path);
    return srt_err_set(err,
                       "what is at unix:%s closed the connection or is no gateway; is it the "
                       "`control` socket of one?",
                       egress->options.socket_path);
}

static int wait_attached(struct egress *egress, struct srt_err *err)
{
    for (int64_t end = clock_ms() + ANSWER_MS;;) {
        int64_t left = end - clock_ms();
        if (left <= 0 || !wait_for(egress->connection, POLLIN, (int)left))
            return srt_err_set(err, "the gateway has not answered within %d s", ANSWER_MS / 1000);
        bool lost;
        json_t *frame = egress_next(egress, &lost);
        if (frame != NULL)
            return take_answer(egress, frame, err);
        if (lost)
            return say_lost(egress, err);
    }
}

/* A gateway that refuses says so and hangs up, maybe before it has read everything: what it said
 * matters more than the write that failed. */
static void hear_refusal(struct egress *egress, struct srt_err *err)
{
    bool lost;
    json_t *frame = egress_next(egress, &lost);
    if (frame != NULL)
        (void)take_answer(egress, frame, err);
    else if (lost)
        (void)say_lost(egress, err);
}

/* Over a connection that is there. */
static int attach(struct egress *egress, struct srt_err *err)
{
    const char *network = egress->network_json != NULL ? egress->network_json : "null";
    json_t *frame = attach_frame(egress);
    int fds[ATTACH_MAX_LISTENERS];
    for (size_t i = 0; i < egress->listener_count; i++)
        fds[i] = egress->listeners[i].fd;
    int result = frame == NULL ? srt_err_set(err, "the sandbox's name cannot be sent as JSON")
                               : send_frame(egress->connection, frame, network, fds,
                                            egress->listener_count, err);
    json_decref(frame);
    if (result == 0)
        result = wait_attached(egress, err);
    else
        hear_refusal(egress, err);
    if (result != 0)
        drop_connection(egress);
    egress->attached = result == 0;
    return result;
}

static int send_change(struct egress *egress, const struct egress_change *change,
                       struct srt_err *err)
{
    json_t *frame = json_pack("{s:s, s:I}", "type", "update", "serial", (json_int_t)change->serial);
    int result = send_frame(egress->connection, frame, change->network_json, NULL, 0, err);
    json_decref(frame);
    return result;
}

static void close_listeners(struct egress *egress)
{
    for (size_t i = 0; i < egress->listener_count; i++)
        close(egress->listeners[i].fd);
    egress->listener_count = 0;
}

int egress_attach_again(struct egress *egress, struct srt_err *err)
{
    bool private = egress->options.socket_path == NULL;
    drop_connection(egress);
    if (private) {
        end_private(egress);
        if (egress->private_starts >= PRIVATE_STARTS) {
            /* Who asks is told at once, instead of waiting for somebody who does not come. */
            close_listeners(egress);
            return srt_err_set(err,
                               "the private gateway has ended %d times; the sandbox has no "
                               "way out any more",
                               PRIVATE_STARTS);
        }
    }
    egress->connection =
        private ? start_private(egress, err) : connect_shared(egress->options.socket_path, err);
    if (egress->connection < 0 || attach(egress, err) != 0)
        return -1;
    struct egress_change *change;
    STAILQ_FOREACH(change, &egress->changes, link)
        if (send_change(egress, change, err) != 0)
            return -1;
    return 0;
}

int egress_begin(struct egress *egress, const struct egress_options *options, struct srt_err *err)
{
    *egress = (struct egress){.options = *options, .connection = -1};
    STAILQ_INIT(&egress->changes);
    if (options->socket_path != NULL)
        return 0;
    egress->connection = start_private(egress, err);
    return egress->connection < 0 ? -1 : 0;
}

int egress_attach(struct egress *egress, const char *network_json,
                  const struct egress_listener *listeners, size_t count, struct srt_err *err)
{
    memcpy(egress->listeners, listeners, count * sizeof(*listeners));
    egress->listener_count = count;
    egress->network_json = must_copy(network_json);
    if (egress->connection < 0) {
        egress->connection = connect_shared(egress->options.socket_path, err);
        if (egress->connection < 0)
            return -1;
    }
    return attach(egress, err);
}

const json_t *egress_list(const struct egress *egress, const char *list)
{
    return json_object_get(egress->attached_frame, list);
}

const char *egress_policy(const struct egress *egress)
{
    const char *policy = json_string_value(json_object_get(egress->attached_frame, "policy"));
    return policy != NULL ? policy : "";
}

int egress_update(struct egress *egress, uint64_t serial, const char *network_json,
                  struct srt_err *err)
{
    struct egress_change *change = must(malloc(sizeof(*change)));
    *change = (struct egress_change){.serial = serial, .network_json = must_copy(network_json)};
    STAILQ_INSERT_TAIL(&egress->changes, change, link);
    return egress->connection < 0
               ? srt_err_set(err, "there is no gateway at the moment; it is told when it is back")
               : send_change(egress, change, err);
}

void egress_answered(struct egress *egress, uint64_t serial, bool in_force)
{
    struct egress_change *change;
    while ((change = STAILQ_FIRST(&egress->changes)) != NULL && change->serial <= serial) {
        STAILQ_REMOVE_HEAD(&egress->changes, link);
        if (in_force && change->serial == serial) {
            char *before = egress->network_json;
            egress->network_json = change->network_json;
            change->network_json = before;
        }
        free(change->network_json);
        free(change);
    }
}

int egress_answer(struct egress *egress, const char *id, bool approves, bool keeps,
                  struct srt_err *err)
{
    json_t *frame = json_pack("{s:s, s:s, s:s, s:s}", "type", "answer", "id", id, "verdict",
                              approves ? "approve" : "refuse", "for", keeps ? "sandbox" : "once");
    int result = egress->connection < 0 || frame == NULL
                     ? srt_err_set(err, "there is no gateway at the moment")
                     : send_frame(egress->connection, frame, NULL, NULL, 0, err);
    json_decref(frame);
    return result;
}

void egress_hang_up(struct egress *egress)
{
    if (egress->connection >= 0)
        shutdown(egress->connection, SHUT_WR);
    egress->last_by_ms = clock_ms() + LAST_MS;
}

json_t *egress_last(struct egress *egress)
{
    if (egress->connection < 0)
        return NULL;
    json_t *frame = egress_pending(egress);
    bool lost = false;
    while (frame == NULL && !lost) {
        int64_t left = egress->last_by_ms - clock_ms();
        if (left <= 0 || !wait_for(egress->connection, POLLIN, (int)left))
            break;
        frame = egress_next(egress, &lost);
    }
    if (frame == NULL)
        drop_connection(egress);
    return frame;
}

void egress_close(struct egress *egress)
{
    egress_answered(egress, UINT64_MAX, false);
    drop_connection(egress);
    close_listeners(egress);
    end_private(egress);
    json_decref(egress->attached_frame);
    free(egress->network_json);
    free(egress->in);
    egress->attached_frame = NULL;
    egress->network_json = NULL;
    egress->in = NULL;
    egress->in_capacity = 0;
}
