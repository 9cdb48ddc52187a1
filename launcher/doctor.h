/*
 * `srt-launch doctor`: whether the fence holds on this machine. It starts a real sandbox in a
 * directory of its own and lets this same program try to break every promise from inside. It
 * believes nothing that bubblewrap says about itself.
 *
 * Returns the exit status: 0 when everything holds, 125 with a line for each thing that does not.
 */
#ifndef LAUNCHER_DOCTOR_H
#define LAUNCHER_DOCTOR_H

int doctor_run(char *const *words);

/* The half that runs inside: `dir` is the prepared directory, `outside` names the namespaces of the
 * host, and `landlock` is the version of its Landlock. */
int doctor_inside(const char *dir, const char *outside, const char *landlock);
/* The same in a sandbox with --egress transparent. */
int doctor_transparent(void);

#endif
