/*
 * Carries the fence's plan out, in a child that has joined the sandbox's mount namespace
 * (inside.h).
 *
 * Everything is visible and read-only before (cell.h), so whatever is left out by mistake stays
 * closed. Nothing is ever created on the host: every mount goes onto something that exists.
 * What has gone since the plan was made needs no mount, where what comes in its place is judged all
 * the same.
 * Failure: -1 with `err`, which names the setting that asked for the mount; the command then never
 * runs. MOUNTS_CHANGED: the tree is another one by now, and a new plan for it may do.
 */
#ifndef LAUNCHER_MOUNTS_H
#define LAUNCHER_MOUNTS_H

#include "launcher/fence.h"
#include "launcher/inside.h"

struct mounts_job {
    const struct fence_plan *plan;
    const char *tmpdir; /* to be made below /dev/shm, mode 0700; NULL = none */
    int socket_dir;     /* from mounts_make_socket(), to be put at ATTACH_SOCKET_DIR; -1 = none */
    bool names_judged;  /* a warden is to judge whatever is made and changed */
    bool reads_judged;  /* and whatever is read */
    bool own_names;     /* a resolver of the sandbox's own answers every name */
};

enum { MOUNTS_CHANGED = 1 };

/* An inside_work without context: the gift is a listener bound at egress.sock, and the directory
 * that holds it, a tmpfs nobody sees yet. Made before the plan is carried out, as the gateway gets
 * the one and adds to the other. */
int mounts_make_socket(void *nothing, const struct inside *inside, struct inside_gift *gift,
                       struct srt_err *err);

/* An inside_work; the context is a struct mounts_job. */
int mounts_carry_out(void *job, const struct inside *inside, struct inside_gift *gift,
                     struct srt_err *err);

#endif
