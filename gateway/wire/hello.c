#include "wire/hello.h"

#include "wire/tls_record.h"

enum {
    VERSION_MAJOR = 3, /* of SSL 3.0 up to TLS 1.3 */
    MESSAGE_HEADER = 4,
    SSL2_CLIENT_HELLO = 1,
    EXTENSION_SERVER_NAME = 0,
    EXTENSION_EARLY_DATA = 42,
    NAME_TYPE_HOST = 0,
};

static uint8_t byte_at(struct str bytes, size_t at)
{
    return (uint8_t)bytes.p[at];
}

/* Big-endian. False when the bytes do not hold it. */
static bool take_number(struct str *bytes, size_t size, size_t *out)
{
    if (bytes->len < size)
        return false;
    *out = 0;
    for (size_t i = 0; i < size; i++)
        *out = *out << 8 | byte_at(*bytes, i);
    *bytes = str_from(*bytes, size);
    return true;
}

static bool take_bytes(struct str *bytes, size_t size, struct str *out)
{
    if (bytes->len < size)
        return false;
    *out = (struct str){bytes->p, size};
    *bytes = str_from(*bytes, size);
    return true;
}

/* A vector<...> of RFC 8446 3.4: a length of `size` bytes and what it counts. */
static bool take_vector(struct str *bytes, size_t size, struct str *out)
{
    size_t len;
    return take_number(bytes, size, &len) && take_bytes(bytes, len, out);
}

/* RFC 6066 3: one name of a type at most, no trailing dot, no literal address. What breaks these
 * rules but not the encoding is a name that is not valid; what breaks the encoding is no hello. */
static bool read_server_name(struct str extension, struct hello *out)
{
    struct str list, text;
    size_t type;
    if (out->has_name || !take_vector(&extension, 2, &list) || extension.len != 0 || list.len == 0)
        return false;
    out->has_name = true;
    if (!take_number(&list, 1, &type) || !take_vector(&list, 2, &text))
        return false;
    bool is_alone = list.len == 0;
    bool ends_in_dot = text.len > 0 && text.p[text.len - 1] == '.';
    out->name_is_valid = is_alone && type == NAME_TYPE_HOST && !ends_in_dot &&
                         name_parse(&out->name, text) == NAME_OK;
    return true;
}

/* RFC 9849, the drafts that were deployed before it, and the ESNI that they replaced. */
static bool is_encrypted_hello(size_t type)
{
    return type == 0xfe0d || (type >= 0xfe08 && type <= 0xfe0c) || type == 0xffce;
}

static bool read_extensions(struct str extensions, struct hello *out)
{
    while (extensions.len > 0) {
        size_t type;
        struct str extension;
        if (!take_number(&extensions, 2, &type) || !take_vector(&extensions, 2, &extension))
            return false;
        if (type == EXTENSION_SERVER_NAME && !read_server_name(extension, out))
            return false;
        out->has_ech |= is_encrypted_hello(type);
        out->has_early_data |= type == EXTENSION_EARLY_DATA;
    }
    return true;
}

/* RFC 8446 4.1.2, and RFC 5246 7.4.1.2 for hellos without extensions. */
static bool read_client_hello(struct str body, struct hello *out)
{
    enum { RANDOM_LEN = 32, SESSION_ID_MAX = 32 };
    size_t version;
    struct str random, session_id, cipher_suites, compressions, extensions;
    *out = (struct hello){.has_name = false};
    if (!take_number(&body, 2, &version) || version >> 8 != VERSION_MAJOR ||
        !take_bytes(&body, RANDOM_LEN, &random))
        return false;
    if (!take_vector(&body, 1, &session_id) || session_id.len > SESSION_ID_MAX)
        return false;
    if (!take_vector(&body, 2, &cipher_suites) || cipher_suites.len == 0 ||
        cipher_suites.len % 2 != 0)
        return false;
    if (!take_vector(&body, 1, &compressions) || compressions.len == 0)
        return false;
    if (body.len == 0)
        return true;
    return take_vector(&body, 2, &extensions) && body.len == 0 && read_extensions(extensions, out);
}

/* Joins what the records carry. `message` is at most HELLO_MAX and all of it has been walked. */
static __attribute__((noinline)) bool read_split_hello(struct str bytes, size_t message,
                                                       struct hello *out)
{
    char joined[HELLO_MAX];
    size_t at = 0, len = 0;
    while (len < message) {
        size_t size = record_len(bytes, at);
        memcpy(joined + len, bytes.p + at + RECORD_HEADER, size);
        at += RECORD_HEADER + size;
        len += size;
    }
    return read_client_hello((struct str){joined + MESSAGE_HEADER, message - MESSAGE_HEADER}, out);
}

static bool read_whole_hello(struct str bytes, size_t message, struct hello *out)
{
    if (record_len(bytes, 0) < message)
        return read_split_hello(bytes, message, out);
    struct str body = {bytes.p + RECORD_HEADER + MESSAGE_HEADER, message - MESSAGE_HEADER};
    return read_client_hello(body, out);
}

/* HELLO_PARSED: a handshake record, the only thing that a TLS server takes first.
 *
 * The classes are wide, because HELLO_NOT_TLS is what passes without a name. A server that follows
 * RFC 8446 5.1 ignores the record's version, so a handshake record of an odd one is not "something
 * else". Some servers (OpenSSL, Java) still take the SSLv2 framing of a hello for TLS up to 1.2; it
 * cannot name a server (RFC 5246 E.2). */
static enum hello_result check_first_bytes(struct str bytes)
{
    enum { VERSION_AT = 1, SSL2_TYPE_AT = 2 };
    if (bytes.len == 0)
        return HELLO_MORE;
    uint8_t type = byte_at(bytes, 0);
    if (type == RECORD_HANDSHAKE)
        return HELLO_PARSED;
    if (type & 0x80) {
        if (bytes.len <= SSL2_TYPE_AT)
            return HELLO_MORE;
        return byte_at(bytes, SSL2_TYPE_AT) == SSL2_CLIENT_HELLO ? HELLO_BAD : HELLO_NOT_TLS;
    }
    if (type < RECORD_CHANGE_CIPHER_SPEC || type > RECORD_HEARTBEAT)
        return HELLO_NOT_TLS;
    if (bytes.len <= VERSION_AT)
        return HELLO_MORE;
    return byte_at(bytes, VERSION_AT) == VERSION_MAJOR ? HELLO_BAD : HELLO_NOT_TLS;
}

/* The `index`th byte of the handshake message, in whichever record it is. The records up to it must
 * have come. Only used for the four bytes of the message's header. */
static uint8_t message_byte(struct str bytes, size_t index)
{
    size_t at = 0;
    for (;;) {
        size_t size = record_len(bytes, at);
        if (index < size)
            return byte_at(bytes, at + RECORD_HEADER + index);
        index -= size;
        at += RECORD_HEADER + size;
    }
}

/* The size of the message with its header; 0 while its header is not there. */
static size_t message_size(struct str bytes, size_t available)
{
    if (available < MESSAGE_HEADER)
        return 0;
    return MESSAGE_HEADER + ((size_t)message_byte(bytes, 1) << 16 |
                             (size_t)message_byte(bytes, 2) << 8 | message_byte(bytes, 3));
}

/* The record at scan->at as far as it has come. MORE: it is not whole. PARSED: it is. */
static enum hello_result check_record(struct str bytes, const struct hello_scan *scan, size_t *size)
{
    struct str record = str_from(bytes, scan->at);
    if ((record.len > 0 && byte_at(record, 0) != RECORD_HANDSHAKE) ||
        (record.len > 1 && byte_at(record, 1) != VERSION_MAJOR))
        return HELLO_BAD;
    if (record.len < RECORD_HEADER)
        return HELLO_MORE;
    *size = record_len(record, 0);
    if (*size == 0 || *size > RECORD_MAX)
        return HELLO_BAD;
    size_t carried = record.len - RECORD_HEADER < *size ? record.len - RECORD_HEADER : *size;
    size_t available = scan->message + carried;
    if (available > 0 && message_byte(bytes, 0) != MESSAGE_CLIENT_HELLO)
        return HELLO_BAD;
    size_t whole = message_size(bytes, available);
    /* Too long, or something else behind the hello in its last record. */
    if (whole > HELLO_MAX - RECORD_HEADER || (whole != 0 && scan->message + *size > whole))
        return HELLO_BAD;
    return carried == *size ? HELLO_PARSED : HELLO_MORE;
}

static enum hello_result walk_records(struct str bytes, struct hello_scan *scan, struct hello *out)
{
    for (;;) {
        size_t size;
        enum hello_result result = check_record(bytes, scan, &size);
        if (result != HELLO_PARSED)
            return result;
        scan->at += RECORD_HEADER + size;
        scan->message += size;
        if (scan->message == message_size(bytes, scan->message))
            return read_whole_hello(bytes, scan->message, out) ? HELLO_PARSED : HELLO_BAD;
    }
}

enum hello_result hello_parse(struct str bytes, struct hello_scan *scan, struct hello *out)
{
    if (bytes.len > HELLO_MAX)
        bytes.len = HELLO_MAX;
    enum hello_result result = check_first_bytes(bytes);
    if (result == HELLO_PARSED)
        result = walk_records(bytes, scan, out);
    return result == HELLO_MORE && bytes.len == HELLO_MAX ? HELLO_BAD : result;
}

void hello_alert(uint8_t out[HELLO_ALERT_LEN], enum hello_alert description)
{
    static const uint8_t fatal[] = {RECORD_ALERT, 3, 3, 0, 2, 2};
    memcpy(out, fatal, sizeof(fatal));
    out[sizeof(fatal)] = (uint8_t)description;
}
