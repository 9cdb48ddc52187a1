/*
 * The configuration of a repository that the sandbox makes: git writes a file and renames it to
 * `config`. What comes to stand there is a copy of bytes that have been judged, in a file that no
 * process of the sandbox has ever held. Whatever happens to the file that was written, by a second
 * thread, a link or a descriptor kept open, changes nothing after the judgement.
 *
 * Process: the warden, which alone makes names. Failure: an error number.
 */
#ifndef LAUNCHER_VET_H
#define LAUNCHER_VET_H

#include <stdbool.h>
#include <stddef.h>

/* As renameat(). -EROFS with `why`: what in it is refused. */
int vet_rename_config(int from_dir, const char *from, int to_dir, const char *to, char *why,
                      size_t why_size);

/* Whether this configuration is one that could have come to be that way. */
bool vet_config(int dir, const char *name, char *why, size_t why_size);

#endif
