/*
 * What a launcher sends, from bytes to a checked message (include/srt/attach.h). Pure.
 *
 * The bytes come from somebody who may be hostile: lengths are bounded before memory is taken,
 * storage grows only with what has arrived. Ownership: the reader's and the message's own;
 * frames_free(), attach_message_free(). Thread: any, one at a time. Failure: false or -1 with
 * `err`; the connection is then of no more use, unless `answerable` says otherwise.
 */
#ifndef CONTROL_FRAME_H
#define CONTROL_FRAME_H

#include "session/listener.h"
#include "srt/attach.h"
#include "srt/err.h"
#include "srt/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes as they come, until they are whole frames. Zeroed: empty. */
struct frames {
    char *data;
    size_t len, cap;
};

enum frame_result { FRAME_WHOLE, FRAME_MORE, FRAME_BAD };

void frames_add(struct frames *frames, struct str bytes);
/* The first frame's JSON, valid until the next call of anything here. */
enum frame_result frames_peek(const struct frames *frames, struct str *json);
void frames_drop(struct frames *frames); /* the frame that was peeked */
void frames_free(struct frames *frames);

/* A frame around `json`, appended to `out`. */
struct json;
void frame_write(struct json *out, struct str json);

enum attach_type { ATTACH_ATTACH, ATTACH_UPDATE, ATTACH_ANSWER };

enum { ATTACH_NAME_MAX = 128, ATTACH_COMMAND_MAX = 1024 };

struct attach_message {
    enum attach_type type;
    /* attach */
    char *name, *policy, *command; /* policy and command may be NULL */
    enum listener_kind listeners[ATTACH_MAX_LISTENERS];
    size_t listener_count;
    bool asks; /* it has somebody who answers */
    /* answer */
    char *id;
    bool approves, keeps; /* keeps: as long as the sandbox lives */
    /* update */
    int64_t serial;
    bool answerable; /* also when the rest of it is wrong: by "rejected", for `serial` is known */
    /* both */
    struct json_t *network; /* an object, no deeper looked at; NULL: null */
};

/* "dns-udp" and its like. */
const char *listener_word(enum listener_kind kind);
bool listener_kind_read(enum listener_kind *out, const char *word); /* `word` may be NULL */

/* Strict: known types and members only, each of its kind, none twice. A name is 1-128 printable
 * ASCII characters without spaces; a command that is too long is cut. */
int attach_message_read(struct attach_message *out, struct str json, struct srt_err *err);
void attach_message_free(struct attach_message *message);

#endif
