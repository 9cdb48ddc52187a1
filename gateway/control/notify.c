#include "control/notify.h"

#include "srt/cleanup.h"
#include "srt/str.h"

#include <stdint.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#define STATUS_S 10. /* how old a status may be */

/* `flags` of send(2): what is said again and again need not wait for a manager who is busy. */
static void notify_with(const char *text, int flags)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof(address.sun_path))
        return;
    size_t len = strlen(path);
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */
    autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    const struct timeval patience = {.tv_sec = 1}; /* with a manager who does not listen */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    ssize_t sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL | flags, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)sent;
}

static void notify(const char *text)
{
    notify_with(text, 0);
}

void notify_ready(void)
{
    notify("READY=1\nSTATUS=serving");
}

/* Type=notify-reload wants to know when the reload began, to tell it from an earlier one. */
void notify_reloading(void)
{
    char text[96];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify(text);
}

void notify_stopping(void)
{
    notify("STOPPING=1\nSTATUS=draining");
}

void notify_main_pid(int pid)
{
    char text[32];
    snprintf(text, sizeof(text), "MAINPID=%d", pid);
    notify(text);
    unsetenv("NOTIFY_SOCKET");
}

/* Microseconds, 0 when the watchdog is off or for another process. */
static uint64_t watchdog_usec(void)
{
    uint64_t usec, pid;
    const char *text = getenv("WATCHDOG_USEC"), *whose = getenv("WATCHDOG_PID");
    if (text == NULL || !str_uint(str_of(text), INT64_MAX, &usec))
        return 0;
    if (whose != NULL && (!str_uint(str_of(whose), INT32_MAX, &pid) || pid != (uint64_t)getpid()))
        return 0;
    return usec;
}

double notify_interval_s(void)
{
    const double watchdog = (double)watchdog_usec() / 1e6 / 2.;
    if (getenv("NOTIFY_SOCKET") == NULL)
        return 0;
    return watchdog > 0 && watchdog < STATUS_S ? watchdog : STATUS_S;
}

void notify_alive(const char *status)
{
    char text[512];
    snprintf(text, sizeof(text), "%sSTATUS=%s", watchdog_usec() > 0 ? "WATCHDOG=1\n" : "", status);
    notify_with(text, MSG_DONTWAIT);
}
