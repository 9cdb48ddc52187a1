#include "launcher/connect.h"

#include "launcher/say.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EXIT_REFUSED = 1, HEAD_MAX = 16384, CHUNK = 65536 };

static int open_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = ATTACH_SOCKET};
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    return steal_fd(&fd);
}

static int open_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(ATTACH_PORT),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    return steal_fd(&fd);
}

/* The port first: where it is the way out, the host may have something else at the socket's name.
 */
static int open_proxy(void)
{
    int fd = open_port();
    return fd < 0 && access(ATTACH_SOCKET, F_OK) == 0 ? open_socket() : fd;
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* A name with what HTTP gives a meaning to would be another request. */
static bool host_is_plain(const char *host)
{
    for (const char *p = host; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '/' || *p == '@' || *p == '?')
            return false;
    return host[0] != '\0' && strlen(host) <= 255;
}

/* The gateway explains itself in a JSON body. */
static void say_refusal(const char *host, const char *port, const char *status, const char *body)
{
    json_t *answer = json_loads(body, JSON_DISABLE_EOF_CHECK, NULL);
    const char *message = json_string_value(json_object_get(answer, "message"));
    const char *next = json_string_value(json_object_get(answer, "next_step"));
    fprintf(stderr, "srt-launch connect: %s:%s: %s%s%s\n", host, port,
            message != NULL ? message : status, next != NULL ? ". " : "", next != NULL ? next : "");
    json_decref(answer);
}

/* Reads up to the end of the answer's head; what follows a refusal is its body, and after an
 * acceptance the other side's first bytes. Returns the length of the head, 0 on failure. */
static size_t read_head(int fd, char *buffer, size_t *len)
{
    *len = 0;
    for (;;) {
        ssize_t n = read(fd, buffer + *len, HEAD_MAX - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        *len += (size_t)n;
        buffer[*len] = '\0';
        const char *end = strstr(buffer, "\r\n\r\n");
        if (end != NULL)
            return (size_t)(end - buffer) + 4;
        if (*len == HEAD_MAX)
            return 0;
    }
}

static void read_body(int fd, char *buffer, size_t *len, size_t head)
{
    const char *field = strcasestr(buffer, "\r\ncontent-length:");
    size_t want = HEAD_MAX - head;
    if (field != NULL && field < buffer + head)
        want = strtoul(field + strlen("\r\ncontent-length:"), NULL, 10);
    while (*len < HEAD_MAX && *len - head < want) {
        ssize_t n = read(fd, buffer + *len, HEAD_MAX - *len);
        if (n <= 0)
            break;
        *len += (size_t)n;
    }
    buffer[*len] = '\0';
}

/* Both directions at once; each end is handed on as the end of that direction alone. */
static int relay(int sock)
{
    struct pollfd ends[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
    static char chunk[CHUNK];
    while (ends[1].fd >= 0) {
        if (poll(ends, 2, -1) < 0 && errno != EINTR)
            return EXIT_REFUSED;
        for (int i = 0; i < 2; i++) {
            if (ends[i].fd < 0 || ends[i].revents == 0)
                continue;
            ssize_t n = read(ends[i].fd, chunk, sizeof(chunk));
            if (n > 0 && send_all(i == 0 ? sock : STDOUT_FILENO, chunk, (size_t)n))
                continue;
            if (i == 0)
                shutdown(sock, SHUT_WR);
            ends[i].fd = -1;
        }
    }
    return 0;
}

int connect_run(char *const *words)
{
    uint64_t port = 0;
    if (words[0] == NULL || words[1] == NULL || words[2] != NULL || !host_is_plain(words[0]) ||
        !str_uint(str_of(words[1]), 65535, &port) || port == 0) {
        fputs("usage: srt-launch connect HOST PORT\n", stderr);
        return EXIT_FAILED;
    }
    signal(SIGPIPE, SIG_IGN);
    autoclose int sock = open_proxy();
    if (sock < 0) {
        fprintf(
            stderr,
            "srt-launch connect: there is no way out, neither at 127.0.0.1:%d nor at " ATTACH_SOCKET
            "\n",
            ATTACH_PORT);
        return EXIT_FAILED;
    }
    const char *host = words[0];
    const bool brackets = strchr(host, ':') != NULL && host[0] != '[';
    char place[300], request[1024];
    snprintf(place, sizeof(place), "%s%s%s:%s", brackets ? "[" : "", host, brackets ? "]" : "",
             words[1]);
    int len =
        snprintf(request, sizeof(request), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", place, place);
    static char answer[HEAD_MAX + 1];
    size_t have, head;
    if (!send_all(sock, request, (size_t)len) || (head = read_head(sock, answer, &have)) == 0) {
        fprintf(stderr, "srt-launch connect: %s:%s: the gateway gave no answer\n", host, words[1]);
        return EXIT_REFUSED;
    }
    if (strncmp(answer, "HTTP/1.1 2", 10) != 0 && strncmp(answer, "HTTP/1.0 2", 10) != 0) {
        read_body(sock, answer, &have, head);
        char *end = strchr(answer, '\r');
        *end = '\0';
        say_refusal(host, words[1], answer + strcspn(answer, " "), answer + head);
        return EXIT_REFUSED;
    }
    if (!send_all(STDOUT_FILENO, answer + head, have - head))
        return 0;
    return relay(sock);
}
