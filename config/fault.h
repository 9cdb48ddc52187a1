/*
 * A list of faults and warnings, each with its place, so that a reader can report every one at
 * once.
 *
 * Ownership: the list owns its texts; free with faults_free(). A zeroed struct is an empty list.
 * Thread: one at a time. Failure: running out of memory ends the process.
 */
#ifndef CONFIG_FAULT_H
#define CONFIG_FAULT_H

#include "srt/str.h"

#include <stdio.h>

enum fault_level { FAULT_ERROR, FAULT_WARNING };

/* A place in a file; `line` 0 means the file as a whole, `column` 0 means the line as a whole. */
struct place {
    const char *file; /* borrowed: lives as long as the configuration that was read */
    unsigned line;
    unsigned column;
};

struct fault {
    enum fault_level level;
    char *file;
    unsigned line, column;
    char *text; /* one line, no newline */
};

struct faults {
    struct fault *items;
    size_t count;
    size_t errors; /* how many of them are FAULT_ERROR */
};

__attribute__((format(printf, 4, 5))) void faults_add(struct faults *faults, enum fault_level level,
                                                      struct place place, const char *format, ...);

/* The length of a character at the start that could move a terminal's cursor, end the line or turn
 * its writing around; 0 where there is none. */
size_t fault_unshown_len(struct str text);

/* What a file or a caller wrote, as it may be shown on one line: such characters, and what is not
 * UTF-8, are \xNN. The caller frees it. */
char *fault_escape(const char *text);

/* Into the order of file and line, each fault once: a policy's rules are read again for each that
 * inherits it. */
void faults_settle(struct faults *faults);

/* `FILE:LINE: message`, `FILE:LINE:COLUMN: message` or `FILE: message`, one a line, in order of
 * file and line and each once; a warning's message starts with "warning: ". */
void faults_print(const struct faults *faults, FILE *out);

/* One fault as that text, without a newline; returns `out`. */
const char *fault_format(const struct fault *fault, char *out, size_t size);
void faults_free(struct faults *faults);

/* The candidate nearest to `word` (edit distance at most 2, or a third of its length), or NULL;
 * `candidates` ends with NULL. For "did you mean". */
const char *nearest_word(const char *word, const char *const *candidates);

/* The same as the end of a message, with the candidate between two of `mark`: "; did you mean
 * `X`?", or "" where none is near. Returns `out`. */
enum { NEAREST_HINT_MAX = 96 };
const char *nearest_hint(char out[NEAREST_HINT_MAX], const char *mark, const char *word,
                         const char *const *candidates);

#endif
