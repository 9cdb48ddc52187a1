#include "config/json_place.h"

#include "srt/grow.h"

struct scan {
    struct str rest;
    unsigned line, column;
    struct json_spots *spots;
};

/* The text is valid, but a mistake here must not become a read past its end: 0 then. */
static char peek(const struct scan *scan)
{
    return scan->rest.len > 0 ? scan->rest.p[0] : '\0';
}

static void step(struct scan *scan)
{
    if (scan->rest.len == 0)
        return;
    unsigned char c = (unsigned char)scan->rest.p[0];
    scan->rest = str_from(scan->rest, 1);
    if (c == '\n') {
        scan->line++;
        scan->column = 1;
    } else if ((c & 0xc0) != 0x80) { /* not the continuation of a character */
        scan->column++;
    }
}

static void skip_space(struct scan *scan)
{
    while (peek(scan) != '\0' && strchr(" \t\r\n", peek(scan)) != NULL)
        step(scan);
}

/* Most of a text is strings, and they hold no newlines. */
static void skip_string(struct scan *scan)
{
    const struct str text = scan->rest;
    size_t at = 1, continued = 0;
    for (; at < text.len && text.p[at] != '"'; at++) {
        continued += ((unsigned char)text.p[at] & 0xc0) == 0x80;
        at += text.p[at] == '\\';
    }
    at = at < text.len ? at + 1 : text.len;
    scan->column += (unsigned)(at - continued);
    scan->rest = str_from(text, at);
}

static void skip_word(struct scan *scan)
{
    while (scan->rest.len > 0 && strchr(" \t\r\n,]}", peek(scan)) == NULL)
        step(scan);
}

static bool scan_value(struct scan *scan, unsigned key_line, unsigned key_column, unsigned depth);

/* One member: in an object its key first. */
static bool scan_member(struct scan *scan, bool keyed, unsigned depth)
{
    if (!keyed)
        return scan_value(scan, 0, 0, depth);
    unsigned line = scan->line, column = scan->column;
    skip_string(scan);
    skip_space(scan);
    step(scan); /* the colon */
    return scan_value(scan, line, column, depth);
}

static bool scan_container(struct scan *scan, unsigned depth)
{
    bool keyed = peek(scan) == '{';
    char close = keyed ? '}' : ']';
    step(scan);
    for (;;) {
        skip_space(scan);
        if (peek(scan) == close || scan->rest.len == 0)
            break;
        if (peek(scan) == ',')
            step(scan);
        else if (!scan_member(scan, keyed, depth + 1))
            return false;
    }
    step(scan);
    return true;
}

static bool scan_value(struct scan *scan, unsigned key_line, unsigned key_column, unsigned depth)
{
    skip_space(scan);
    struct json_spots *spots = scan->spots;
    const struct str from = scan->rest;
    size_t index = spots->count;
    spots->items = grow_one(spots->items, spots->count, sizeof(*spots->items));
    spots->items[spots->count++] = (struct json_spot){
        .line = scan->line, .column = scan->column, .key_line = key_line, .key_column = key_column};
    if (peek(scan) == '{' || peek(scan) == '[') {
        if (depth > JSON_PLACE_DEPTH_MAX || !scan_container(scan, depth))
            return false;
    } else if (peek(scan) == '"') {
        skip_string(scan);
    } else {
        skip_word(scan);
    }
    spots->items[index].end = spots->count;
    spots->items[index].text = (struct str){from.p, from.len - scan->rest.len};
    return true;
}

bool json_place_scan(struct str text, struct json_spots *out)
{
    *out = (struct json_spots){0};
    struct scan scan = {.rest = text, .line = 1, .column = 1, .spots = out};
    return scan_value(&scan, 0, 0, 1);
}
