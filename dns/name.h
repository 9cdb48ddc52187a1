/*
 * A host name in its one canonical form, and the only way to get one.
 *
 * Canonical: lower case, no trailing dot, LDH labels and underscores, A-labels for IDNs, at most
 * 63 bytes a label and 253 in all (RFC 1035 2.3.4, RFC 5890 2.3.2.1). Text that has no canonical
 * form is a fault, never "some other name": whatever is judged is also what is resolved.
 *
 * Ownership: a plain value. Thread: any. Failure: an enum name_fault; the name is then unspecified.
 */
#ifndef DNS_NAME_H
#define DNS_NAME_H

#include "srt/str.h"

#include <stdint.h>

enum { NAME_MAX_LEN = 253, NAME_MAX_LABEL = 63 };

struct name {
    uint8_t len;
    char text[NAME_MAX_LEN + 1]; /* NUL-terminated for libraries that want it */
};

enum name_fault {
    NAME_OK = 0,
    NAME_EMPTY,
    NAME_TOO_LONG,
    NAME_LABEL_TOO_LONG,
    NAME_LABEL_EMPTY, /* leading dot, two dots, more than one trailing dot */
    NAME_BAD_BYTE,    /* anything but letters, digits, '-', '_', '.' */
    NAME_BAD_HYPHEN,  /* a label starts or ends with '-' */
    NAME_NUMERIC,     /* last label all digits or 0x...: the C library would read an address */
    NAME_NOT_IDNA,    /* IDNA2008 refuses it */
};

/* From a client: ASCII only. One trailing dot is accepted and removed. */
enum name_fault name_parse(struct name *out, struct str text);

/* From a configuration: UTF-8 is converted to A-labels (IDNA2008, RFC 5891, non-transitional). */
enum name_fault name_parse_idna(struct name *out, struct str text);

/* A phrase for messages, such as "a label is longer than 63 bytes". */
const char *name_fault_text(enum name_fault fault);

static inline struct str name_str(const struct name *name)
{
    return (struct str){name->text, name->len};
}

static inline bool name_eq(const struct name *a, const struct name *b)
{
    return str_eq(name_str(a), name_str(b));
}

/* For tsearch() and the like: both point to a struct name. A total order, not the alphabetical one.
 */
int name_compare(const void *a, const void *b);

/* At any depth below `apex`, on a label boundary; never equal to it. */
bool name_is_below(const struct name *name, const struct name *apex);

/* `localhost` and everything below it (RFC 6761 6.3). */
bool name_is_localhost(const struct name *name);

#endif
