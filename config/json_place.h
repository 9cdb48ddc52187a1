/*
 * Where each value and key of a JSON text stands; jansson keeps no positions.
 *
 * One spot a value, in the order of the text (a container before its members), so that whoever
 * walks a parsed document in order walks the spots beside it. Ownership: free() `items`. Thread:
 * any.
 */
#ifndef CONFIG_JSON_PLACE_H
#define CONFIG_JSON_PLACE_H

#include "srt/str.h"

enum { JSON_PLACE_DEPTH_MAX = 64 };

struct json_spot {
    unsigned line, column;         /* of the value's first byte; columns count characters from 1 */
    unsigned key_line, key_column; /* of its key's opening quote, 0 outside objects */
    size_t end;                    /* the index behind its last member */
    struct str text;               /* the value as it is written */
};

struct json_spots {
    struct json_spot *items;
    size_t count;
};

/* `text` must be JSON that a parser has accepted. False when it is nested deeper than
 * JSON_PLACE_DEPTH_MAX: then the last spot is the container that is too deep. */
bool json_place_scan(struct str text, struct json_spots *out);

#endif
