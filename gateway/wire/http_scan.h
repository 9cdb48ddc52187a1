/*
 * Finds the end of a head and refuses whatever is no head, byte by byte and resumable: the lexical
 * half of http_head. After HTTP_PARSED every line end is CRLF, every field line is a token, a colon
 * and a value without controls, and the start line has its parts and a version that is spoken here.
 *
 * Ownership: the caller's scan. Thread: any.
 */
#ifndef WIRE_HTTP_SCAN_H
#define WIRE_HTTP_SCAN_H

#include "wire/http_head.h"

enum http_scan_kind { HTTP_SCAN_REQUEST, HTTP_SCAN_RESPONSE };

/* PARSED: the head ends at scan->at. The fault's status is that of a request. */
enum http_result http_scan_head(struct http_scan *scan, struct str bytes, size_t max,
                                enum http_scan_kind kind, struct http_fault *fault);

#endif
