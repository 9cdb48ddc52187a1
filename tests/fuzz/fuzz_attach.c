/* A hostile launcher: bytes to frames to messages, in pieces whose size the first byte chooses. */
#include "control/frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frames frames = {0};
    struct str json, rest;
    if (size == 0)
        return 0;
    size_t step = (size_t)data[0] + 1;
    rest = (struct str){(const char *)data + 1, size - 1};
    while (rest.len > 0) {
        size_t n = rest.len < step ? rest.len : step;
        frames_add(&frames, (struct str){rest.p, n});
        rest = str_from(rest, n);
        enum frame_result result;
        while ((result = frames_peek(&frames, &json)) == FRAME_WHOLE) {
            struct attach_message message;
            struct srt_err err;
            if (attach_message_read(&message, json, &err) == 0) {
                if (message.type == ATTACH_ATTACH &&
                    (message.name == NULL || message.listener_count == 0))
                    abort();
                attach_message_free(&message);
            }
            frames_drop(&frames);
        }
        if (result == FRAME_BAD)
            break;
    }
    frames_free(&frames);
    return 0;
}
