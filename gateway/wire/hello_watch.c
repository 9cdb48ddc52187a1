#include "wire/hello_watch.h"

#include "wire/tls_record.h"

enum {
    HELLO_LENGTH_MAX = 0x2ffff, /* what its vectors can hold, rounded up */
    /* Servers that pass over rejected early data take a few records' worth of it. */
    PASSED_MAX = 1 << 20,
};

void hello_watch_init(struct hello_watch *watch, const struct hello *first)
{
    *watch = (struct hello_watch){.has_early_data = first->has_early_data};
}

/* What is called a broken hello may be an encrypted record of TLS 1.2 that looks like the start of
 * one. The record behind it tells: within a hello nothing but handshake records can come, unless
 * the server passes over early data there too. */
static enum hello_watch_result check_next_record(const struct hello_watch *watch, struct str bytes,
                                                 size_t size)
{
    if (size > RECORD_MAX)
        return HELLO_WATCH_BAD;
    if (bytes.len <= RECORD_HEADER + size)
        return HELLO_WATCH_MORE;
    bool is_over =
        bytes.p[RECORD_HEADER + size] == RECORD_APPLICATION_DATA && !watch->has_early_data;
    return is_over ? HELLO_WATCH_OVER : HELLO_WATCH_BAD;
}

/* TLS 1.2 sends encrypted handshake records behind change_cipher_spec, of any bytes at all. Few
 * look like the start of a hello, and none is shorter than the bytes that this is told by. */
static enum hello_watch_result check_handshake(struct hello_watch *watch, struct str bytes,
                                               size_t *pass, struct hello *second)
{
    enum { TYPE_AT = RECORD_HEADER, LENGTH_AT, TOLD_BY = 2 };
    size_t size = record_len(bytes, 0);
    if (bytes.len > TYPE_AT && bytes.p[TYPE_AT] != MESSAGE_CLIENT_HELLO)
        return HELLO_WATCH_OVER;
    if (size >= TOLD_BY && bytes.len <= LENGTH_AT)
        return HELLO_WATCH_MORE;
    if (size >= TOLD_BY && (uint8_t)bytes.p[LENGTH_AT] > HELLO_LENGTH_MAX >> 16)
        return HELLO_WATCH_OVER;
    if (watch->is_broken)
        return check_next_record(watch, bytes, size);
    switch (hello_parse(bytes, &watch->scan, second)) {
    case HELLO_MORE:
        return HELLO_WATCH_MORE;
    case HELLO_PARSED:
        *pass = watch->scan.at;
        return HELLO_WATCH_HELLO;
    case HELLO_NOT_TLS:
    case HELLO_BAD:
        break;
    }
    watch->is_broken = true;
    return check_next_record(watch, bytes, size);
}

static bool is_passed_over(const struct hello_watch *watch, uint8_t type)
{
    return type == RECORD_CHANGE_CIPHER_SPEC || type == RECORD_ALERT ||
           (type == RECORD_APPLICATION_DATA && watch->has_early_data);
}

static void pass_record_bytes(struct hello_watch *watch, size_t available, size_t *pass)
{
    size_t len = watch->left < available ? watch->left : available;
    watch->left -= len;
    watch->passed += len;
    *pass += len;
}

enum hello_watch_result hello_watch_feed(struct hello_watch *watch, struct str bytes, size_t *pass,
                                         struct hello *second)
{
    *pass = 0;
    for (;;) {
        pass_record_bytes(watch, bytes.len - *pass, pass);
        struct str record = str_from(bytes, *pass);
        if (record.len == 0)
            return HELLO_WATCH_MORE;
        uint8_t type = (uint8_t)record.p[0];
        if (type == RECORD_HANDSHAKE) {
            if (*pass > 0 || record.len < RECORD_HEADER)
                return HELLO_WATCH_MORE; /* what comes before it goes first */
            return check_handshake(watch, record, pass, second);
        }
        if (!is_passed_over(watch, type))
            return HELLO_WATCH_OVER;
        if (watch->passed > PASSED_MAX)
            return type == RECORD_APPLICATION_DATA ? HELLO_WATCH_OVER : HELLO_WATCH_BAD;
        if (record.len < RECORD_HEADER)
            return HELLO_WATCH_MORE;
        watch->left = RECORD_HEADER + record_len(record, 0);
    }
}
