/*
 * The fence's judgement of one call, and the report of a refusal.
 *
 * Process: the warden. Failure: none; a report that finds no room is counted.
 */
#ifndef LAUNCHER_WARDEN_JUDGE_H
#define LAUNCHER_WARDEN_JUDGE_H

#include "launcher/warden/spot.h"

/* The first report of a call counts. */
void judge_report(struct call *call, const char *operation, const char *path, int error,
                  const char *setting);

/* The same for other kinds. Fills in who it was. */
void judge_report_as(struct call *call, struct warden_report *message);

/* The sandbox's own /dev and /proc are not the fence's business. */
bool judge_is_private(const char *path);

/* Whether a new name may come to be at this path; otherwise the refusal has been reported. */
bool judge_creation(struct call *call, const char *operation, const char *path, mode_t type);

/* The same for a file that need not be there, without a report. False says nothing. */
bool judge_may_create(const struct call *call, const char *path);

/* Whether what stands at this path may be changed or removed. Without a report. */
bool judge_may_change(const struct call *call, const char *path);

/* Whether what is at `from`, of this type, may get the name `to`. A directory takes everything in
 * it along: nothing below may become a name that could not have been created there, and nothing
 * that is guarded one that is not. */
bool judge_move(struct call *call, const struct spot *from, mode_t type, const char *to);

/* The same for a socket. Otherwise the refusal has been reported. */
bool judge_socket(struct call *call, const char *operation, mode_t type, const char *from,
                  const char *to);

/* Where an open file or FIFO is, and whether it may be changed there. A file that has no name left,
 * or is one of the streams that the caller of srt-launch gave, is not guarded. A FIFO is, whether
 * it still has its name or not: what is written into it is read by whoever had it before.
 *
 * A mount goes with the file that it lies on: when somebody outside replaces a guarded file, as git
 * and editors do by renaming, the new one lies bare. So what exists is judged here, too, and not
 * only by the mounts. */
bool judge_change(const struct ward *ward, int fd, char path[PATH_MAX], struct fence_view *view);

/* One of the streams that the caller of srt-launch gave. */
bool judge_is_stream(const struct stat *st);

/* Failures of a call that was let through tell of the walls, too. Returns `result`. */
int64_t judge_result(struct call *call, const char *operation, const struct spot *spot,
                     int64_t result);

#endif
