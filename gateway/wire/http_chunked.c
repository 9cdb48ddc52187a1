#include "wire/http_chunked.h"

#include "wire/http_syntax.h"

enum chunked_state {
    CHUNKED_SIZE, /* the zero of a new body */
    CHUNKED_EXTENSION,
    CHUNKED_SIZE_END,
    CHUNKED_BYTES,
    CHUNKED_BYTES_CR,
    CHUNKED_BYTES_LF,
    CHUNKED_TRAILER,
    CHUNKED_TRAILER_NAME,
    CHUNKED_TRAILER_VALUE,
    CHUNKED_TRAILER_END,
    CHUNKED_END_LF,
    CHUNKED_ENDED,
    CHUNKED_BROKEN,
};

enum {
    MAX_DIGITS = 16,
    MAX_SIZE_LINE = 256,
    MAX_TRAILERS = 8 << 10,
};

void chunked_init(struct chunked *chunked)
{
    *chunked = (struct chunked){.state = CHUNKED_SIZE};
}

static enum chunked_state on_size_line_end(struct chunked *chunked)
{
    chunked->line = 0;
    chunked->digits = 0;
    return chunked->left == 0 ? CHUNKED_TRAILER : CHUNKED_BYTES;
}

static enum chunked_state on_size(struct chunked *chunked, char c)
{
    int value = str_hex_digit(c);
    if (value < 0) {
        if (chunked->digits == 0)
            return CHUNKED_BROKEN;
        /* No white space before the semicolon: the only use of that "bad" white space
         * (RFC 9110 5.6.3) here is to be read differently by somebody else. */
        return c == ';' ? CHUNKED_EXTENSION : c == '\r' ? CHUNKED_SIZE_END : CHUNKED_BROKEN;
    }
    /* Who keeps sizes in a signed number would take a larger one for a negative. */
    if (chunked->digits == MAX_DIGITS || chunked->left > INT64_MAX >> 4)
        return CHUNKED_BROKEN;
    chunked->digits++;
    chunked->left = chunked->left << 4 | (unsigned)value;
    return CHUNKED_SIZE;
}

static enum chunked_state on_extension(struct chunked *chunked, char c)
{
    if (c == '\r')
        return CHUNKED_SIZE_END;
    if (!http_byte_is(c, HTTP_BYTE_VALUE) || ++chunked->line > MAX_SIZE_LINE)
        return CHUNKED_BROKEN;
    return CHUNKED_EXTENSION;
}

/* Field lines as strict as those of a head, though they are only dropped. */
static enum chunked_state on_trailer_start(char c)
{
    if (c == '\r')
        return CHUNKED_END_LF;
    return http_byte_is(c, HTTP_BYTE_TOKEN) ? CHUNKED_TRAILER_NAME : CHUNKED_BROKEN;
}

static enum chunked_state on_trailer_name(char c)
{
    if (c == ':')
        return CHUNKED_TRAILER_VALUE;
    return http_byte_is(c, HTTP_BYTE_TOKEN) ? CHUNKED_TRAILER_NAME : CHUNKED_BROKEN;
}

static enum chunked_state on_trailer_value(char c)
{
    if (c == '\r')
        return CHUNKED_TRAILER_END;
    return http_byte_is(c, HTTP_BYTE_VALUE) ? CHUNKED_TRAILER_VALUE : CHUNKED_BROKEN;
}

static enum chunked_state on_byte(struct chunked *chunked, char c)
{
    switch ((enum chunked_state)chunked->state) {
    case CHUNKED_SIZE:
        return on_size(chunked, c);
    case CHUNKED_EXTENSION:
        return on_extension(chunked, c);
    case CHUNKED_SIZE_END:
        return c == '\n' ? on_size_line_end(chunked) : CHUNKED_BROKEN;
    case CHUNKED_BYTES_CR:
        return c == '\r' ? CHUNKED_BYTES_LF : CHUNKED_BROKEN;
    case CHUNKED_BYTES_LF:
        return c == '\n' ? CHUNKED_SIZE : CHUNKED_BROKEN;
    case CHUNKED_TRAILER:
        return on_trailer_start(c);
    case CHUNKED_TRAILER_NAME:
        return on_trailer_name(c);
    case CHUNKED_TRAILER_VALUE:
        return on_trailer_value(c);
    case CHUNKED_TRAILER_END:
        return c == '\n' ? CHUNKED_TRAILER : CHUNKED_BROKEN;
    case CHUNKED_END_LF:
        return c == '\n' ? CHUNKED_ENDED : CHUNKED_BROKEN;
    case CHUNKED_BYTES:
    case CHUNKED_ENDED:
    case CHUNKED_BROKEN:
        break;
    }
    return CHUNKED_BROKEN;
}

static struct str take_data(struct chunked *chunked, struct str bytes)
{
    struct str data = {bytes.p, bytes.len < chunked->left ? bytes.len : (size_t)chunked->left};
    chunked->left -= data.len;
    if (chunked->left == 0)
        chunked->state = CHUNKED_BYTES_CR;
    return data;
}

enum chunked_result chunked_feed(struct chunked *chunked, struct str bytes, size_t *used,
                                 struct str *data)
{
    *data = STR_NULL;
    for (*used = 0;; ++*used) {
        if (chunked->state == CHUNKED_BROKEN)
            return CHUNKED_BAD;
        if (chunked->state == CHUNKED_ENDED)
            return CHUNKED_DONE;
        if (*used == bytes.len)
            return CHUNKED_MORE;
        if (chunked->state == CHUNKED_BYTES) {
            *data = take_data(chunked, str_from(bytes, *used));
            *used += data->len;
            return CHUNKED_DATA;
        }
        chunked->state = (uint8_t)on_byte(chunked, bytes.p[*used]);
        bool in_trailers =
            chunked->state >= CHUNKED_TRAILER && chunked->state <= CHUNKED_TRAILER_END;
        if (in_trailers && ++chunked->line > MAX_TRAILERS)
            chunked->state = CHUNKED_BROKEN;
    }
}
