/*
 * Finding the code of a [filter] section: a built-in by its word, or a shared object by its path.
 * Both are the same constant struct srt_filter_module (include/srt/filter.h).
 *
 * An object is loaded only when nobody but root and we ourselves could have put or changed it
 * there: the path is absolute and without symlinks, the file and every directory above it belong to
 * root or us and are not writable by others (a directory with the sticky bit may be, for there
 * nobody can replace what is not his). It is never unloaded.
 *
 * Thread: control thread only, it reads files and runs the object's constructors. Failure: NULL and
 * one fault at the section's place.
 */
#ifndef FILTERS_MODULE_H
#define FILTERS_MODULE_H

#include "config/gateway_config.h"
#include "srt/filter.h"

const struct srt_filter_module *module_find(const struct config_filter *filter,
                                            struct faults *faults);

/* abi, size and what a module must have; NULL when it fits, otherwise a phrase. */
const char *module_unfit(const struct srt_filter_module *module, char *out, size_t size);

#endif
