#include "launcher/control.h"

#include "config/settings.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { READ_SIZE = 65536 };

static void end(struct control *control)
{
    close(control->fd);
    control->fd = -1;
    if (control->len > 0 && control->in[control->len - 1] != '\n')
        control->in[control->len++] = '\n'; /* of a line that whoever wrote it left open */
}

static bool readable(int fd)
{
    struct pollfd wake = {.fd = fd, .events = POLLIN};
    return poll(&wake, 1, 0) > 0;
}

/* The descriptor is shared with whoever writes, so its flags stay as they are: poll() tells that
 * one read() will not wait. */
void control_fill(struct control *control)
{
    while (control->fd >= 0 && control->len <= ATTACH_MAX_FRAME && readable(control->fd)) {
        if (control->capacity - control->len < READ_SIZE) {
            control->capacity = control->capacity == 0 ? 2 * READ_SIZE : 2 * control->capacity;
            control->in = must(realloc(control->in, control->capacity));
        }
        ssize_t n = read(control->fd, control->in + control->len, READ_SIZE);
        if (n > 0) {
            control->len += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            end(control);
        }
    }
}

static char *judge_line(struct control *control, const char *line, size_t len, struct srt_err *err)
{
    struct faults faults = {0};
    struct str text = {line, len};
    struct settings *settings = settings_read_text("--control-fd", text, &faults);
    char *network = NULL;
    if (settings == NULL || faults.errors > 0) {
        char first[512] = "not a settings object";
        if (faults.count > 0)
            fault_format(&faults.items[0], first, sizeof(first));
        srt_err_set(err, "line %lu is ignored and the policy stays as it was: %s", control->line,
                    first);
    } else if (settings->network_json == NULL) {
        srt_err_set(err, "line %lu is ignored: it has no \"network\" object", control->line);
    } else {
        network = must_copy(settings->network_json);
    }
    settings_free(settings);
    faults_free(&faults);
    return network;
}

char *control_next(struct control *control, struct srt_err *err)
{
    err->text[0] = '\0';
    while (control->len > 0) {
        char *end = memchr(control->in, '\n', control->len);
        if (end == NULL) {
            if (control->len > ATTACH_MAX_FRAME) {
                srt_err_set(err, "a line is longer than %d bytes; nothing more is read",
                            ATTACH_MAX_FRAME);
                control_close(control);
            }
            return NULL;
        }
        size_t len = (size_t)(end - control->in);
        control->line++;
        bool blank = strspn(control->in, " \t\r") >= len;
        char *network = blank ? NULL : judge_line(control, control->in, len, err);
        control->len -= len + 1;
        memmove(control->in, end + 1, control->len);
        if (!blank)
            return network;
    }
    return NULL;
}

void control_close(struct control *control)
{
    if (control->fd >= 0)
        close(control->fd);
    free(control->in);
    *control = (struct control){.fd = -1};
}
