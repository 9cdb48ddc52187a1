#include "record/log.h"

#include "srt/cleanup.h"

#include <stdarg.h>
#include <string.h>

void log_line(const char *format, ...)
{
    autofree char *body = NULL;
    autofree char *line = NULL;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&body, format, args);
    va_end(args);
    if (len < 0 || (len = asprintf(&line, "srt-gateway: %s", body)) < 0)
        return;
    for (int i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[len] = '\n'; /* in place of the NUL: the whole line is one write */
    ssize_t written = write(STDERR_FILENO, line, (size_t)len + 1);
    (void)written;
}
