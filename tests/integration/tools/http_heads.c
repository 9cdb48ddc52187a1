/*
 * Reads request heads, each behind its length in four bytes (big-endian), and prints one JSON
 * object a line: what wire/http_head says of it and, for what would be forwarded, the head that
 * goes out. For test_http_differential.py.
 */
#include "record/json.h"
#include "tests/forwarded.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 64 << 10 };

static void add_hex(struct json *json, const char *key, struct str bytes)
{
    static char hex[2 * sizeof(struct forwarded) + 1];
    for (size_t i = 0; i < bytes.len; i++)
        snprintf(hex + 2 * i, 3, "%02x", (uint8_t)bytes.p[i]);
    json_text(json, key, (struct str){hex, 2 * bytes.len});
}

static void add_request(struct json *json, const struct http_request *request)
{
    static const char *const bodies[] = {"none", "length", "chunked", "until-close"};
    static const char *const forms[] = {"origin", "absolute", "authority", "asterisk"};
    static struct forwarded forwarded;
    char host[TARGET_TEXT_MAX];
    json_number(json, "size", (int64_t)request->size);
    json_text(json, "method", request->method);
    json_text(json, "target", request->target);
    json_text(json, "form", str_of(forms[request->form]));
    json_text(json, "body", str_of(bodies[request->body]));
    json_number(json, "length", (int64_t)request->length);
    json_bool(json, "keep_alive", request->keep_alive);
    json_number(json, "minor", request->minor);
    if (request->form != HTTP_ABSOLUTE_FORM)
        return;
    json_text(json, "host", str_of(target_format(host, &request->to)));
    json_text(json, "path", request->path);
    json_text(json, "query", request->query);
    add_hex(json, "forwarded", forwarded_head(&forwarded, request));
}

static void judge(struct json *json, struct str bytes)
{
    static struct http_request request;
    static const char *const results[] = {"parsed", "more", "refused"};
    struct http_fault fault;
    struct http_scan scan = {0};
    enum http_result result = http_parse_request(bytes, MAX, &scan, &request, &fault);
    json_reset(json);
    json_object_open(json, NULL);
    json_text(json, "result", str_of(results[result]));
    if (result == HTTP_REFUSED) {
        json_number(json, "status", fault.status);
        json_text(json, "why", str_of(fault.why));
    }
    if (result == HTTP_PARSED)
        add_request(json, &request);
    json_object_close(json);
    json_newline(json);
    fwrite(json->data, 1, json->len, stdout);
}

int main(void)
{
    static char bytes[4 * MAX];
    struct json json = {0};
    uint32_t size;
    while (fread(&size, sizeof(size), 1, stdin) == 1) {
        size_t len = ntohl(size);
        if (len > sizeof(bytes) || fread(bytes, 1, len, stdin) != len) {
            fputs("http_heads: the input ends within a head or a head is too long\n", stderr);
            return 1;
        }
        judge(&json, (struct str){bytes, len});
    }
    json_free(&json);
    return 0;
}
