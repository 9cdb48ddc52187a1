/*
 * The door for what git writes by itself: files by which git is led (launcher/vet.h). Those that it
 * writes in place are written into memory instead; the descriptor has a number at which close()
 * waits for the warden, and then, when the content is judged to do no harm, a copy of it comes to
 * stand in the tree. Before that the name is not there, and nobody ever holds the file itself.
 *
 * For git alone, as shells and copying programs duplicate descriptors and would not hear of a
 * refusal: to others it is refused at once. It guards nothing that a process can call itself git.
 *
 * Process: the warden; any of its threads (what is open is behind a lock). Failure: a negative
 * errno, and the refusal has been reported.
 */
#ifndef LAUNCHER_WARDEN_DOOR_H
#define LAUNCHER_WARDEN_DOOR_H

#include "launcher/vet.h"
#include "launcher/warden/judge.h"

/* Descriptors of the sandbox whose close() waits: DOOR_FIRST and those after it, as the filter can
 * tell by a mask. Below the usual limit, and above what most programs reach. */
enum { DOOR_FIRST = 1016, DOOR_MASK = ~7, DOOR_COUNT = 8 };

/* Whether the file that the caller wants to write may come to be by the door. */
bool door_leads_to(struct call *call, const struct spot *spot, int flags);
/* Gives the caller the descriptor to write to. */
int64_t door_open(struct call *call, const struct spot *spot, int flags, mode_t mode);

/* cargo's way of making a repository (libgit2's): an empty configuration, which is replaced by
 * renaming afterwards, as git does. Empty it does no harm, and it is opened for reading only. */
bool door_makes_empty(struct call *call, const struct spot *spot);

/* Whether this rename is one by which git replaces such a file. */
bool door_takes(struct call *call, const struct spot *from, const struct spot *to);
int64_t door_rename(struct call *call, const struct spot *from, const struct spot *to);

/* git removes `.gitmodules` before it writes another one. */
bool door_lets_out(struct call *call, const struct spot *spot);
int64_t door_remove(struct call *call, const struct spot *spot);

#endif
