/*
 * The filesystem fence as data: rules (who may read and write what, and which setting says so), the
 * judgement of any path by them, and the plan, an ordered list of mounts that makes the kernel
 * judge alike. Pure: nothing here touches the file system; launcher/rules.c makes the rules from
 * settings and the tree, launcher/mounts.c carries the plan out, explain-path and violations ask
 * fence_view().
 *
 * Reads: the nearest rule above a path decides; at one place an allow lifts a deny, unless it is
 * final. Writes: inside an allowWrite, not at or below any denyWrite, not a protected name, and
 * readable.
 *
 * Ownership: the fence owns its rules and their texts. Thread: one at a time, then read-only.
 * Failure: none; running out of memory ends the process.
 */
#ifndef LAUNCHER_FENCE_H
#define LAUNCHER_FENCE_H

#include "launcher/paths.h"
#include "launcher/protect.h"

enum fence_verb {
    FENCE_DENY_READ,
    FENCE_HIDE_SECRET, /* like FENCE_DENY_READ, but no allow lifts it */
    FENCE_ALLOW_READ,
    FENCE_ALLOW_WRITE,
    FENCE_DENY_WRITE,
    /* What says nothing about reads and writes: */
    FENCE_KEEP, /* the name stays what it is */
    FENCE_SHOW, /* a link by which something is allowed: it is there also where all else is hidden
                 */
};

struct fence_rule {
    char *path; /* clean, symbolic links resolved */
    enum path_type type;
    enum fence_verb verb;
    char *setting; /* "filesystem.denyRead[2]", "protected: git hooks", "default" */
};

/* A denyWrite pattern, for names that may come to be later. */
struct fence_glob {
    char *base, *pattern, *setting;
};

/* The git directory of a work tree that lies elsewhere and may not be written to. */
struct fence_gitdir {
    char *top, *dir;
};

/* An entry of allowWrite for which there was nothing at the start. */
struct fence_missing {
    char *path, *setting;
};

struct fence {
    struct fence_rule *rules; /* sorted by path after fence_seal() */
    size_t count;
    struct fence_glob *globs;
    size_t glob_count;
    struct fence_gitdir *gitdirs;
    size_t gitdir_count;
    struct fence_missing *missing;
    size_t missing_count;
    struct protect protect;
};

void fence_add(struct fence *fence, enum fence_verb verb, const char *path, enum path_type type,
               const char *setting);
void fence_add_glob(struct fence *fence, const char *base, const char *pattern,
                    const char *setting);
void fence_add_gitdir(struct fence *fence, const char *top, const char *dir);
void fence_add_missing(struct fence *fence, const char *path, const char *setting);
void fence_seal(struct fence *fence);
void fence_free(struct fence *fence);

/* May the sandbox read and write this clean, resolved path, and which setting decided. `fresh` is
 * for what it may not write: a protected part of a repository that was not there at the start,
 * which may come to be in the one way that git uses, and go again. */
struct fence_view {
    bool readable, writable;
    enum protect_part fresh;
    const char *read_setting, *write_setting;
};

struct fence_view fence_view(const struct fence *fence, const char *path);

/* Whether a file at this path is kept from being written to by nothing but the protection of git's
 * configuration, so that contents that do no harm may come to stand there. */
bool fence_may_vet(const struct fence *fence, const char *path);
/* What protects a file `.git` that was there at the start. */
extern const char fence_link_setting[];

/* The one that holds this path, or NULL. */
const struct fence_gitdir *fence_gitdir_of(const struct fence *fence, const char *path);

/* Whether anything strictly below `path` may be judged in another way than `path` itself. */
bool fence_differs_below(const struct fence *fence, const char *path);

/* One mount. Everything starts visible and read-only. */
enum fence_act {
    FENCE_WRITABLE, /* the place as the host has it, writable */
    FENCE_VISIBLE,  /* the place as the host has it, read-only again inside something hidden */
    FENCE_READONLY,
    FENCE_HIDDEN, /* a directory: empty and read-only; anything else: cannot be opened */
    FENCE_PIN, /* unchanged, but a mount point, so that it cannot be renamed, replaced or removed */
    FENCE_LINK, /* a symbolic link, shown in the hidden directory that it is in; no mount */
};

struct fence_step {
    enum fence_act act;
    enum path_type type;
    char *path;
    const char *setting; /* borrowed from the fence */
};

/* Parents come before children, so each step sees what the ones above it made. */
struct fence_plan {
    struct fence_step *steps;
    size_t count;
};

void fence_plan_make(struct fence_plan *plan, const struct fence *fence);
void fence_plan_free(struct fence_plan *plan);
const char *fence_act_word(enum fence_act act);

#endif
