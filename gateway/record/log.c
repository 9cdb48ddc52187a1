#include "record/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
    static const char prefix[] = "srt-gateway: ";
    char line[2048];
    va_list args;

    size_t len = (size_t)snprintf(line, sizeof(line), "%s", prefix);
    va_start(args, format);
    int body = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
    va_end(args);
    if (body > 0)
        len += (size_t)body < sizeof(line) - len - 1 ? (size_t)body : sizeof(line) - len - 2;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}
