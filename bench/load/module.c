/*
 * The smallest rule module in a process of its own: it says pass to every question. One thread, so
 * that what a module costs is the gateway's part and two wake-ups.
 *
 * usage: bench-module SOCKET          be it
 *        bench-module SOCKET COUNT    ask it so many questions, one after the other
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 1024, LINE_MAX_BYTES = 64 * 1024 };

static struct {
    char bytes[LINE_MAX_BYTES];
    size_t len;
} inputs[CONNECTIONS];

static void must(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    unlink(path);
    umask(077);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
             listen(fd, CONNECTIONS) == 0,
         path);
    return fd;
}

static void answer(int fd, const char *line)
{
    static const char hello[] = "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[\"request\"],"
                                "\"fields\":[\"host\",\"port\"]}}\n";
    char text[64];
    unsigned long long id = 0;
    if (sscanf(line, "{\"id\":%llu,\"request\"", &id) != 1 || id == 0) {
        must(write(fd, hello, sizeof(hello) - 1) > 0, "write");
        return;
    }
    const int len = snprintf(text, sizeof(text), "{\"id\":%llu,\"verdict\":\"pass\"}\n", id);
    must(write(fd, text, (size_t)len) > 0, "write");
}

static void serve(int fd)
{
    char *bytes = inputs[fd].bytes, *end;
    const ssize_t got =
        read(fd, bytes + inputs[fd].len, sizeof(inputs[fd].bytes) - inputs[fd].len - 1);
    if (got <= 0) {
        close(fd);
        inputs[fd].len = 0;
        return;
    }
    inputs[fd].len += (size_t)got;
    bytes[inputs[fd].len] = '\0';
    while ((end = strchr(bytes, '\n')) != NULL) {
        const size_t used = (size_t)(end + 1 - bytes);
        *end = '\0';
        answer(fd, bytes);
        inputs[fd].len -= used;
        memmove(bytes, end + 1, inputs[fd].len + 1);
    }
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    must(fd >= 0 && fd < CONNECTIONS && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int ask(const char *path, size_t count)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    double *took = calloc(count + 1, sizeof(*took));
    char text[256];
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    must(took != NULL && fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0,
         path);
    for (size_t i = 0; i < count; i++) {
        const int len =
            snprintf(text, sizeof(text),
                     "{\"id\":%zu,\"request\":{\"record\":\"01M8MPZ9CW4BZZYGAEXYW7KQ5K\","
                     "\"timeout_ms\":2000,\"host\":\"origin.test\",\"port\":9311}}\n",
                     i + 1);
        const double began = now_us();
        must(write(fd, text, (size_t)len) == len && read(fd, text, sizeof(text)) > 0, "ask");
        took[i] = now_us() - began;
    }
    qsort(took, count, sizeof(*took), compare);
    printf("{\"mode\":\"ask\",\"units\":%zu,\"p50_us\":%.1f}\n", count, took[count / 2]);
    free(took);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench-module SOCKET [COUNT]\n");
        return 64;
    }
    if (argc == 3)
        return ask(argv[1], strtoul(argv[2], NULL, 10));
    const int listener = listen_at(argv[1]), epoll = epoll_create1(0);
    watch(epoll, listener);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        if (event.data.fd == listener)
            watch(epoll, accept(listener, NULL, NULL));
        else
            serve(event.data.fd);
    }
}
