/*
 * The bytes of a file that somebody configured, and whether they are text.
 *
 * Ownership: the caller frees `*bytes`. Thread: any, but it blocks: control thread and start-up
 * only. Failure: -1 and a phrase such as "No such file or directory" or "is not a regular file".
 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "srt/err.h"
#include "srt/str.h"

#include <sys/stat.h>

/* Regular files only, so that a FIFO cannot hold up a reload and a directory is named as one; at
 * most `max_bytes`. The bytes are followed by a NUL that `*len` does not count. `st` may be NULL.
 */
int file_read(const char *path, size_t max_bytes, char **bytes, size_t *len, struct stat *st,
              struct srt_err *err);

/* What comes through a pipe, to its end, however long its writer takes. For what is read once. */
int file_read_pipe(const char *path, size_t max_bytes, char **bytes, size_t *len,
                   struct srt_err *err);

/* What a file of one secret holds: all but one newline (LF or CRLF) at its end. */
struct str file_secret(struct str bytes);

/* The length of the UTF-8 sequence (RFC 3629: no overlong forms, no surrogates) at the start; 0
 * when there is none. */
size_t file_utf8_len(struct str bytes);

/* The first byte that is not part of text: a control byte other than tab, line feed and carriage
 * return before a line feed, or invalid UTF-8 (RFC 3629). The length when there is none. */
size_t file_text_end(struct str bytes);

/* The byte order mark that some editors put first. */
bool file_has_bom(struct str bytes);

#endif
