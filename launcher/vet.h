/*
 * Files by which git is led: the configuration of a repository that the sandbox makes, the files of
 * one line by which linked worktrees and submodules find theirs, `.gitmodules`. What comes to stand
 * there is a copy of bytes that have been judged, in a file that no process of the sandbox has ever
 * held. Whatever happens to the file that was written, by a second thread, a link or a descriptor
 * kept open, changes nothing after the judgement.
 *
 * Process: the warden, which alone makes names; any of its threads. Failure: an error number.
 */
#ifndef LAUNCHER_VET_H
#define LAUNCHER_VET_H

#include "launcher/fence.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum vet_kind {
    VET_NOTHING,       /* not such a file, or one that nobody in the sandbox may write in any way */
    VET_CONFIG,        /* of a new repository */
    VET_MODULE_CONFIG, /* of a new submodule */
    VET_CHANGES,       /* to the configuration of a repository that was there at the start */
    VET_MODULE_CHANGES,
    VET_COMMON,  /* `commondir` of a new linked worktree */
    VET_LINK,    /* a file `.git` */
    VET_MODULES, /* `.gitmodules` */
};

/* Where a file is to stand. */
struct vet_place {
    const struct fence *fence;
    enum vet_kind kind;
    int dir;
    const char *name;
    const char *path; /* of both */
    /* Renames in `dir` where the name is a mount point, which only somebody outside can do. */
    int (*replace)(void *context, int dir, const char *from, const char *to);
    void *context;
};

enum { VET_WHY_SIZE = 128 };

/* What a file at this path, which is resolved, would be. */
enum vet_kind vet_kind(const struct fence *fence, const char *path);

/* git writes these where they stand; the others under another name, and renames. */
bool vet_is_written_in_place(enum vet_kind kind);

/* Puts what the open file holds there. -EROFS with `why`: what in it is refused. */
int vet_put(const struct vet_place *place, int file, mode_t mode, char why[VET_WHY_SIZE]);

/* As renameat() of a file to that place. */
int vet_rename(const struct vet_place *place, int from_dir, const char *from,
               char why[VET_WHY_SIZE]);

/* Whether what stands at this path, where nothing was before, could have come to be that way. */
bool vet_found(const struct fence *fence, enum vet_kind kind, const char *path,
               char why[VET_WHY_SIZE]);

#endif
