#include "session/request.h"

#include "srt/must.h"

#include <stdlib.h>

char *request_copy_text(struct str text)
{
    char *copy = must(malloc(text.len + 1));
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    return copy;
}

void request_set_texts(struct request *request, const char *message, const char *next_step)
{
    const size_t message_size = strlen(message) + 1, next_step_size = strlen(next_step) + 1;
    char *both = must(malloc(message_size + next_step_size));
    memcpy(both, message, message_size);
    memcpy(both + message_size, next_step, next_step_size);
    free(request->message);
    request->message = both;
}

const char *request_next_step(const struct request *request)
{
    return request->message + strlen(request->message) + 1;
}

void request_reset(struct request *request)
{
    free(request->message);
    free(request->host_text);
    free(request->method);
    free(request->path);
    free(request->sni);
    free(request->via);
    free(request->filter_reason);
    approval_free(request->approval);
    *request = (struct request){.front = FRONT_COUNT};
}

void request_set_host_text(struct request *request, struct str host, uint16_t port)
{
    free(request->host_text);
    request->host_text = request_copy_text(host);
    request->host_text_len = (uint32_t)host.len;
    request->port_text = port;
}
