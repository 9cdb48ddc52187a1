#include "launcher/inside.h"

#include "launcher/remedy.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { FDS_MAX = 16 };

bool fds_send(int sock, const void *bytes, size_t len, const int *fds, size_t count)
{
    assert(count <= FDS_MAX);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = {.bytes = {0}};
    /* sendmsg() does not write through iov_base; its type is for both directions. */
    union {
        const void *in;
        void *out;
    } base = {.in = bytes};
    struct iovec iov = {.iov_base = base.out, .iov_len = len};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(sock, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)len;
}

ssize_t fds_receive(int sock, void *bytes, size_t size, int *fds, size_t *count)
{
    assert(*count <= FDS_MAX);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(*count * sizeof(int))};
    ssize_t received;
    do
        received = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    *count = 0;
    if (received < 0)
        return -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + *count, CMSG_DATA(header), here * sizeof(int));
        *count += here;
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0)
        while (*count > 0)
            close(fds[--*count]);
    return received;
}

int inside_join(const struct inside *inside, enum inside_where where, struct srt_err *err)
{
    int target = where == INSIDE_NET ? inside->net_ns : inside->mount_ns;
    autoclose int owner = ioctl(target, NS_GET_USERNS);
    if (owner < 0)
        return srt_err_set(err, "the sandbox's user namespace cannot be found: %s",
                           remedy_error(errno));
    if (setns(owner, CLONE_NEWUSER) != 0)
        return srt_err_set(err, "the sandbox's user namespace cannot be joined: %s",
                           remedy_error(errno));
    if (setns(target, where == INSIDE_NET ? CLONE_NEWNET : CLONE_NEWNS) != 0)
        return srt_err_set(err, "the sandbox's %s namespace cannot be joined: %s",
                           where == INSIDE_NET ? "network" : "mount", remedy_error(errno));
    return 0;
}

/* What the child says: its result, with descriptors or why it failed. */
struct answer {
    int32_t result;
    uint32_t given;
    struct srt_err err;
};

static _Noreturn void child(int sock, const struct inside *inside, enum inside_where where,
                            inside_work *work, inside_rest *rest, void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct answer answer = {.err = {.text = ""}};
    struct inside_gift gift = {.count = 0};
    answer.result = inside_join(inside, where, &answer.err);
    if (answer.result == 0)
        answer.result = work(context, inside, &gift, &answer.err);
    answer.given = answer.result == 0 ? (uint32_t)gift.count : 0;
    if (!fds_send(sock, &answer, sizeof(answer), gift.fds, answer.given)) {
        answer.result = srt_err_set(&answer.err, "what was opened inside cannot be handed out: %s",
                                    remedy_error(errno));
        fds_send(sock, &answer, sizeof(answer), NULL, 0);
    }
    for (size_t i = 0; i < gift.count; i++)
        close(gift.fds[i]);
    if (answer.result == 0 && rest != NULL)
        rest(context, sock);
    _exit(answer.result != 0);
}

static int start(struct inside_resident *started, const struct inside *inside,
                 enum inside_where where, inside_work *work, inside_rest *rest, void *context,
                 struct srt_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return srt_err_set(err, "socketpair: %s", remedy_error(errno));
    autoclose int ours = pair[0], theirs = pair[1];
    /* Without handlers that would start a thread (ThreadSanitizer's): a process with threads cannot
     * join a user namespace. This one has none, so no lock can be held by another. */
    pid_t pid = _Fork();
    if (pid < 0)
        return srt_err_set(err, "fork: %s", remedy_error(errno));
    if (pid == 0)
        child(theirs, inside, where, work, rest, context);
    *started = (struct inside_resident){.pid = pid, .sock = steal_fd(&ours)};
    return 0;
}

static int hear(int sock, struct inside_gift *gift, struct srt_err *err)
{
    struct answer answer;
    struct inside_gift got = {.count = INSIDE_MAX_FDS};
    ssize_t len = fds_receive(sock, &answer, sizeof(answer), got.fds, &got.count);
    if (len != sizeof(answer))
        return srt_err_set(err, "the process that prepares the sandbox from inside died");
    if (answer.result != 0)
        *err = answer.err;
    else if (got.count != answer.given)
        return srt_err_set(err, "what was opened inside cannot be taken: %s", remedy_error(EMFILE));
    else if (gift != NULL)
        *gift = got;
    return answer.result;
}

static void end(const struct inside_resident *started)
{
    close(started->sock);
    while (waitpid(started->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int inside_do(const struct inside *inside, enum inside_where where, inside_work *work,
              void *context, struct inside_gift *gift, struct srt_err *err)
{
    struct inside_resident started = {.sock = -1};
    if (start(&started, inside, where, work, NULL, context, err) != 0)
        return -1;
    int result = hear(started.sock, gift, err);
    end(&started);
    return result;
}

int inside_settle(struct inside_resident *resident, const struct inside *inside, inside_work *work,
                  inside_rest *rest, void *context, struct inside_gift *gift, struct srt_err *err)
{
    struct inside_resident started = {.sock = -1};
    if (start(&started, inside, INSIDE_MOUNTS, work, rest, context, err) != 0)
        return -1;
    int result = hear(started.sock, gift, err);
    if (result == 0)
        *resident = started;
    else
        end(&started);
    return result;
}
