/*
 * The rights with which the tree is looked at: those that the command will have. Nobody inside has
 * capabilities, so what root sees by one alone (another user's directory, closed to all others) is
 * not there for the command, nor for the mounts, which are made inside.
 *
 * Ownership: a scope gives back what it has put off. Thread: the calling one, and only its rights.
 * Failure: none; where the kernel refuses, the rights stay as they are.
 */
#ifndef LAUNCHER_RIGHTS_H
#define LAUNCHER_RIGHTS_H

#include <linux/capability.h>
#include <stdbool.h>

struct rights {
    struct __user_cap_data_struct all[_LINUX_CAPABILITY_U32S_3];
    bool put_off; /* there is something to take back */
};

struct rights rights_as_inside(void);
void rights_take_back(const struct rights *rights);
/* Like access(), which looks at what a process could take back as well. */
bool rights_may(const char *path, int mode);

/* autorights struct rights outside = rights_as_inside(); */
#define autorights __attribute__((cleanup(rights_take_back), unused))

#endif
