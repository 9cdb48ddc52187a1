/*
 * One HTTP/1.x head, strictly: one meaning or a refusal (RFC 9110, RFC 9112). Pure: no I/O. The
 * caller keeps the bytes and calls again with more; a struct http_scan remembers between the calls
 * how far the head has been read, so that a client that sends one byte at a time costs one pass and
 * no more. A refusal comes with the first byte that cannot be part of a valid head, and never
 * depends on how the bytes were split.
 *
 * Refused although some servers take it: bare CR or LF in a line end, space before a colon,
 * obs-fold, empty or non-token field names, NUL and other controls in values, more than one Host, a
 * Host that is no authority, Content-Length that is not one number, Content-Length beside
 * Transfer-Encoding, any Transfer-Encoding but exactly `chunked`, userinfo, fragments and control
 * bytes in targets.
 *
 * Ownership: views point into the caller's bytes. Thread: any.
 */
#ifndef WIRE_HTTP_HEAD_H
#define WIRE_HTTP_HEAD_H

#include "dns/target.h"
#include "srt/str.h"

enum {
    HTTP_MAX_FIELDS = 256,
    HTTP_MAX_METHOD = 64,
    HTTP_MAX_TARGET = 16 << 10,
    HTTP_MAX_OPTIONS = 32, /* members of all Connection fields together */
};

struct http_field {
    struct str name, value; /* value trimmed of OWS */
    /* Not forwarded: hop-by-hop by RFC 9110 7.6.1 or named by a Connection field. Host and
     * Content-Length cannot be named away: they are the forwarder's own. */
    bool hop_by_hop;
};

/* Zeroed by the caller for each new head, then left alone. `bytes` must start at the same byte in
 * every call that goes with it (the memory may move). */
struct http_scan {
    size_t at;   /* bytes looked at */
    size_t mark; /* where the part at hand started */
    uint32_t field_count;
    uint8_t state;
};

enum http_form { HTTP_ORIGIN_FORM, HTTP_ABSOLUTE_FORM, HTTP_AUTHORITY_FORM, HTTP_ASTERISK_FORM };
enum http_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

/* PARSED with `size` bytes consumed, MORE, or a refusal with its status and a phrase. */
enum http_result { HTTP_PARSED, HTTP_MORE, HTTP_REFUSED };

struct http_fault {
    uint16_t status;  /* 400, 414, 431, 505; 502 for responses */
    const char *why;  /* a fixed phrase that never quotes the input */
    struct str asked; /* what is no target, as it came; p == NULL: another fault */
};

struct http_request {
    size_t size;       /* of the head, with its empty line */
    struct str method; /* any token */
    struct str target; /* as on the wire */
    enum http_form form;
    bool https; /* absolute form with the https scheme */
    bool target_is_set;
    struct target to; /* from an absolute or authority form; http default port 80 */
    /* Absolute and origin form: what is forwarded is `path` followed by `query`. An empty path is
     * "/", or "*" for OPTIONS without a query (RFC 9112 3.2.4). The query is empty or starts with
     * its '?'. */
    struct str path, query;
    int minor; /* HTTP/1.minor */
    enum http_body body;
    uint64_t length; /* HTTP_BODY_LENGTH */
    bool keep_alive; /* after Connection and the version */
    bool expect_continue;
    /* The one protocol of the one Upgrade field that goes with `Connection: upgrade`; p == NULL: no
     * upgrade is asked for, or it is one to ignore (RFC 9110 7.8): h2c, a list, in a request with a
     * body, whose rest and the first bytes of the new protocol could not be told apart. */
    struct str upgrade;
    struct str proxy_authorization; /* the field's value; p == NULL: absent */
    struct str accept;
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
};

struct http_response {
    size_t size;
    uint16_t status; /* 100-999 */
    int minor;
    struct str reason;
    enum http_body body; /* for the method and status given */
    bool has_length;     /* to be passed on; for HEAD and 304 it describes no body (RFC 9110 8.6) */
    uint64_t length;
    bool keep_alive;
    struct str upgrade; /* as in a request */
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t field_count;
};

/* `bytes` starts at the head; one empty line before the request line is skipped (RFC 9112 2.2) and
 * counted in `size`. `max` bounds the head and is the same in every call. */
enum http_result http_parse_request(struct str bytes, size_t max, struct http_scan *scan,
                                    struct http_request *out, struct http_fault *fault);

/* `head` says that the request was HEAD (no body). */
enum http_result http_parse_response(struct str bytes, size_t max, bool head,
                                     struct http_scan *scan, struct http_response *out,
                                     struct http_fault *fault);

/* Fields that the forwarder writes itself: Host, Content-Length, Transfer-Encoding, Connection,
 * Via. */
bool http_is_own(struct str name);

const char *http_status_phrase(int status);

#endif
