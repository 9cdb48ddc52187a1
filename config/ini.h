/*
 * INI text to a flat list of entries with their places. Sole user of inih.
 *
 * Knows syntax, `include` and nothing of meanings. Ownership: an ini_doc owns all its strings.
 * Thread: one at a time, control thread only (it reads files). Failure: faults, and every fault.
 */
#ifndef CONFIG_INI_H
#define CONFIG_INI_H

#include "config/fault.h"

#include <stdint.h>

enum {
    INI_LINE_MAX = 4096,
    INI_SECTION_MAX = 49, /* what inih keeps of the text between brackets */
    INI_KEY_MAX = 49,     /* what inih keeps of a key for the lines that continue it */
    INI_INCLUDE_DEPTH_MAX = 16,
    INI_FILES_MAX = 4096,
    INI_FILE_BYTES_MAX = 256 << 20,
};

struct ini_entry {
    const char *section; /* "policy" of [policy build] */
    const char *name;    /* "build", or "" */
    const char *key;     /* NULL for the section header itself */
    const char *value;   /* comments cut, trimmed, perhaps empty; never NULL when key is set */
    struct place place;
    bool continuation; /* an indented line that continues the list above; `key` repeats it */
};

/* A file that took part, for watching and for the configuration's hash. */
struct ini_file {
    const char *path;
    uint8_t sha256[32];
};

struct ini_doc {
    struct ini_entry *entries; /* an included file's entries stand where it was included */
    size_t count;
    struct ini_file *files; /* the main file first, then includes and lists in the order read */
    size_t file_count;
    const char **include_dirs; /* where patterns of `include` look; a new name there may match */
    size_t include_dir_count;
    struct ini_strings *strings; /* owner of every string above */
};

/* Reads `path` and what its [gateway] `include` lines name (lexical order, relative to the
 * including file; a pattern may match nothing, a literal must exist). Returns true when there was
 * no error. */
bool ini_read(struct ini_doc *doc, const char *path, struct faults *faults);

/* The same from memory, for tests and fuzzing; `include` is a fault there. */
bool ini_read_text(struct ini_doc *doc, const char *file_name, struct str text,
                   struct faults *faults);

/* Adds a file that the configuration names (a rule list, a token) to the files of the document and
 * returns its bytes (owned by the document), or a view with p == NULL and a fault at `place`.
 * `path` is taken relative to the file of `place`. Bounded by `max_bytes`. */
struct str ini_read_side_file(struct ini_doc *doc, struct place place, const char *path,
                              size_t max_bytes, const char **resolved_path, struct faults *faults);

/* A copy with a NUL behind it that lives as long as the document. */
const char *ini_keep(struct ini_doc *doc, struct str text);

/* `path` as it is when absolute, otherwise relative to the directory of `file`; kept likewise. */
const char *ini_resolve(struct ini_doc *doc, const char *file, const char *path);

/* The text before a comment: `mark` behind a space or tab, outside double quotes. */
struct str ini_cut_comment(struct str line, char mark);

void ini_free(struct ini_doc *doc);

#endif
