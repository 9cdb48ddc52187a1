#include "filters/path.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>

enum { BYTE_NONE = -1, BYTE_BROKEN = -2 };

/* Takes the next byte off `rest`, decoded; `encoded` says whether it was spelled %XX. */
static int take_byte(struct str *rest, bool *encoded)
{
    *encoded = false;
    if (rest->len == 0)
        return BYTE_NONE;
    unsigned char first = (unsigned char)rest->p[0];
    if (first != '%') {
        *rest = str_from(*rest, 1);
        return first;
    }
    int high = rest->len >= 3 ? str_hex_digit(rest->p[1]) : -1;
    int low = rest->len >= 3 ? str_hex_digit(rest->p[2]) : -1;
    if (high < 0 || low < 0)
        return BYTE_BROKEN;
    *encoded = true;
    *rest = str_from(*rest, 3);
    return high * 16 + low;
}

/*
 * Counts the dots that a segment consists of so far; anything else makes it an ordinary segment.
 * Parameters do not: "/a/..;x/b" climbs on servers that cut them first.
 */
struct segment {
    unsigned dots;
    bool ordinary, in_parameters;
};

static bool segment_is_dots(const struct segment *segment)
{
    return !segment->ordinary && (segment->dots == 1 || segment->dots == 2);
}

static void segment_add(struct segment *segment, int byte)
{
    if (segment->in_parameters)
        return;
    if (byte == ';')
        segment->in_parameters = true;
    else if (byte == '.')
        segment->dots++;
    else
        segment->ordinary = true;
}

bool path_is_ambiguous(struct str path)
{
    struct segment segment = {0};
    for (;;) {
        bool encoded;
        int byte = take_byte(&path, &encoded);
        if (byte == BYTE_BROKEN || byte == 0 || byte == '\\' || (byte == '/' && encoded))
            return true;
        if (byte != BYTE_NONE && byte != '/') {
            segment_add(&segment, byte);
            continue;
        }
        if (segment_is_dots(&segment))
            return true;
        if (byte == BYTE_NONE)
            return false;
        segment = (struct segment){0};
    }
}

/* The usual two-pointer glob: on a mismatch only the latest `*` gives way, by one byte. */
static bool glob_matches(struct str glob, struct str path)
{
    struct str retry_glob = STR_NULL, retry_path = STR_NULL;
    bool encoded;
    while (path.len > 0) {
        if (glob.len > 0 && glob.p[0] == '*') {
            glob = str_from(glob, 1);
            retry_glob = glob;
            retry_path = path;
            continue;
        }
        struct str glob_rest = glob, path_rest = path;
        int wanted = take_byte(&glob_rest, &encoded);
        bool any = wanted == '?' && !encoded;
        int byte = take_byte(&path_rest, &encoded);
        if (wanted >= 0 && (any || wanted == byte)) {
            glob = glob_rest;
            path = path_rest;
            continue;
        }
        if (retry_glob.p == NULL)
            return false;
        take_byte(&retry_path, &encoded);
        glob = retry_glob;
        path = retry_path;
    }
    while (glob.len > 0 && glob.p[0] == '*')
        glob = str_from(glob, 1);
    return glob.len == 0;
}

static bool has_parameters(struct str path)
{
    return str_has(path, ';');
}

static bool has_empty_segment(struct str path)
{
    return path.len > 0 && memmem(path.p, path.len, "//", 2) != NULL;
}

/* `out` has room for all of `path`. */
static struct str shorten(struct str path, bool cuts, bool merges, char *out)
{
    bool in_parameters = false;
    size_t len = 0;
    for (size_t i = 0; i < path.len; i++) {
        const char c = path.p[i];
        in_parameters = cuts && (c == ';' || (in_parameters && c != '/'));
        if (in_parameters || (merges && c == '/' && len > 0 && out[len - 1] == '/'))
            continue;
        out[len++] = c;
    }
    return (struct str){out, len};
}

/* As servers read it that cut parameters and merge slashes, where the glob does not mean them. */
static bool shortened_matches(struct str glob, struct str path)
{
    const bool cuts = has_parameters(path) && !has_parameters(glob);
    const bool merges = (cuts || has_empty_segment(path)) && !has_empty_segment(glob);
    if (!cuts && !merges)
        return glob_matches(glob, path);
    autofree char *room = must(malloc(path.len));
    return glob_matches(glob, shorten(path, cuts, merges, room));
}

bool path_matches(struct str glob, struct str path)
{
    return !path_is_ambiguous(path) && glob_matches(glob, path) && shortened_matches(glob, path);
}

bool path_may_match(struct str glob, struct str path)
{
    return glob_matches(glob, path) || shortened_matches(glob, path);
}
