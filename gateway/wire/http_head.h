/*
 * One HTTP/1.x head, strictly: one meaning or a refusal (RFC 9110, RFC 9112). Pure: no I/O, no state
 * beyond the call; the caller keeps the bytes and calls again with more.
 *
 * Refused although some servers take it: bare CR or LF in a line end, space before a colon, obs-fold,
 * empty or non-token field names, NUL and other controls in values, more than one Host, a Host that is
 * no authority, Content-Length that is not one number, Content-Length beside Transfer-Encoding,
 * any Transfer-Encoding but exactly `chunked`, userinfo, fragments and control bytes in targets.
 *
 * Ownership: views point into the caller's bytes. Thread: any.
 */
#ifndef WIRE_HTTP_HEAD_H
#define WIRE_HTTP_HEAD_H

#include "dns/target.h"
#include "srt/str.h"

enum { HTTP_MAX_FIELDS = 256 };

struct http_field {
    struct str name, value; /* value trimmed of OWS */
};

enum http_form { HTTP_ORIGIN_FORM, HTTP_ABSOLUTE_FORM, HTTP_AUTHORITY_FORM, HTTP_ASTERISK_FORM };
enum http_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

/* PARSED with `size` bytes consumed, MORE, or a refusal with its status and a phrase. */
enum http_result { HTTP_PARSED, HTTP_MORE, HTTP_REFUSED };

struct http_fault {
    int status;      /* 400, 414, 431, 501, 505; 502 for responses */
    const char *why; /* a fixed phrase that never quotes the input */
};

struct http_request {
    size_t size;       /* of the head, with its empty line */
    struct str method; /* any token */
    struct str target; /* as on the wire */
    enum http_form form;
    bool https;          /* absolute form with the https scheme */
    bool target_is_set;
    struct target to;    /* from an absolute or authority form; http default port 80 */
    struct str path;     /* absolute and origin form: path with query, "/" when empty */
    int minor;           /* HTTP/1.minor */
    enum http_body body;
    uint64_t length; /* HTTP_BODY_LENGTH */
    bool keep_alive; /* after Connection and the version */
    bool expect_continue;
    bool upgrade; /* `Connection: upgrade` together with an Upgrade field other than h2c */
    struct str proxy_authorization; /* the field's value; p == NULL: absent */
    struct str accept;
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
};

struct http_response {
    size_t size;
    int status; /* 100-599 */
    int minor;
    struct str reason;
    enum http_body body; /* for the method and status given */
    uint64_t length;
    bool keep_alive;
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
};

/* `bytes` starts at the head (empty lines before a request line are skipped and counted in `size`).
 * `max` bounds the head. */
enum http_result http_parse_request(struct str bytes, size_t max, struct http_request *out,
                                    struct http_fault *fault);

/* `head` says that the request was HEAD (no body). */
enum http_result http_parse_response(struct str bytes, size_t max, bool head,
                                     struct http_response *out, struct http_fault *fault);

/* Whether a field is not forwarded: hop-by-hop by RFC 9110 7.6.1, or named by a Connection field of
 * `fields`. Host, Content-Length and Transfer-Encoding cannot be named away (they are the caller's). */
bool http_is_hop_by_hop(const struct http_field *fields, size_t count, size_t index);

/* Fields that the forwarder writes itself: Host, Content-Length, Transfer-Encoding, Connection, Via. */
bool http_is_own(struct str name);

const char *http_status_phrase(int status);

#endif
