#include "session/request.h"

#include <stdlib.h>

void request_reset(struct request *request)
{
    free(request->host_text);
    free(request->method);
    free(request->path);
    free(request->sni);
    *request = (struct request){.front = FRONT_COUNT};
}

void request_set_host_text(struct request *request, struct str host, uint16_t port)
{
    free(request->host_text);
    request->host_text = malloc(host.len + 1);
    if (request->host_text == NULL)
        abort();
    memcpy(request->host_text, host.p, host.len);
    request->host_text_len = host.len;
    request->port_text = port;
}
