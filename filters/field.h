/*
 * Which fields of an HTTP head a filter may change, and what may stand in them.
 *
 * Not its own: what frames the message, says where it goes or belongs to one hop (RFC 9110 7.6.1,
 * 7.6.3, RFC 9112 6), for a head that two servers read in two ways is a way round every filter.
 * Thread: any; pure.
 */
#ifndef FILTERS_FIELD_H
#define FILTERS_FIELD_H

#include "srt/str.h"

bool field_name_is_valid(struct str name); /* a token (RFC 9110 5.6.2) */
bool field_is_editable(struct str name);   /* a valid name that is a filter's to set or remove */
/* Visible bytes, spaces and tabs, none of the latter two at its ends (RFC 9110 5.5). */
bool field_value_is_valid(struct str value);

/* `NAME: VALUE`; without a colon the value is absent. False when the name is not valid. */
bool field_split(struct str text, struct str *name, struct str *value);

#endif
