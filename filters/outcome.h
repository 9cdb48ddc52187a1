/*
 * Every way a request can end, in one table: the word in the audit log and metrics, the HTTP
 * status, the SOCKS5 reply code, and whether it is the policy's "no" (docs/answers.md is made from
 * it).
 */
#ifndef FILTERS_OUTCOME_H
#define FILTERS_OUTCOME_H

#include <stdbool.h>

/* clang-format off */
/*  name               word                 HTTP SOCKS policy  RFC 9209 error type */
#define OUTCOMES(X)                                                                                \
    X(ALLOWED,             NULL,                  200, 0, false, NULL)                             \
    X(NOT_ALLOWED,         "not-allowed",         403, 2, true,  "http_request_denied")            \
    X(DENIED_BY_RULE,      "denied-by-rule",      403, 2, true,  "http_request_denied")            \
    X(METHOD_NOT_ALLOWED,  "method-not-allowed",  403, 2, true,  "http_request_denied")            \
    X(FILTER,              "filter",              403, 2, true,  "http_request_denied")            \
    X(MODULE_ERROR,        "module-error",        403, 2, false, "proxy_internal_error")           \
    X(ASK_REFUSED,         "ask-refused",         403, 2, true,  "http_request_denied")            \
    X(ASK_TIMEOUT,         "ask-timeout",         403, 2, true,  "http_request_denied")            \
    X(ADDRESS_DENIED,      "address-denied",      403, 2, true,  "destination_ip_prohibited")      \
    X(LOOP,                "loop",                403, 2, false, "proxy_loop_detected")            \
    X(SNI_MISMATCH,        "sni-mismatch",        403, 2, false, "http_request_denied")            \
    X(AUTH_REQUIRED,       "auth-required",       407, 1, false, "http_request_denied")            \
    X(AUTH_FAILED,         "auth-failed",         407, 1, false, "http_request_denied")            \
    X(BAD_REQUEST,         "bad-request",         400, 1, false, "http_request_error")             \
    X(UNSUPPORTED,         "unsupported",         501, 7, false, "http_request_error")             \
    X(TIMEOUT,             "timeout",             408, 1, false, "http_request_error")             \
    X(LIMIT,               "limit",               429, 1, false, "connection_limit_reached")       \
    X(DNS_NXDOMAIN,        "dns-nxdomain",        502, 4, false, "dns_error")                      \
    X(DNS_FAILURE,         "dns-failure",         502, 4, false, "dns_error")                      \
    X(DNS_TIMEOUT,         "dns-timeout",         504, 4, false, "dns_timeout")                    \
    X(CONNECT_REFUSED,     "connect-refused",     502, 5, false, "connection_refused")             \
    X(CONNECT_UNREACHABLE, "connect-unreachable", 502, 4, false, "destination_ip_unroutable")      \
    X(CONNECT_TIMEOUT,     "connect-timeout",     504, 6, false, "connection_timeout")             \
    X(BAD_RESPONSE,        "bad-response",        502, 1, false, "http_response_incomplete")       \
    X(DRAINING,            "draining",            503, 1, false, "proxy_internal_response")        \
    X(OVERLOAD,            "overload",            503, 1, false, "proxy_internal_response")        \
    X(AUDIT_FAILURE,       "audit-failure",       503, 1, false, "proxy_internal_error")
/* clang-format on */

enum outcome {
#define X(name, word, http, socks, policy, type) OUTCOME_##name,
    OUTCOMES(X)
#undef X
        OUTCOME_COUNT
};

struct outcome_row {
    const char *word; /* NULL for ALLOWED */
    int http_status;
    int socks_reply;
    bool policy;             /* "blocked" in the body, X-Proxy-Error on HTTP */
    const char *proxy_error; /* RFC 9209 2.3 */
};

const struct outcome_row *outcome_row(enum outcome outcome);

#endif
