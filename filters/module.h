/*
 * Finding the code of a [filter] section: a built-in by its word, or a shared object by its path.
 * Both are the same constant struct srt_filter_module (include/srt/filter.h). A module in another
 * process is the built-in `remote`.
 *
 * An object is loaded only from a trusted path (filters/trusted_path.h). It is never unloaded.
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

/* The path of `module = unix:/path`, or NULL: what the section says to `remote` as `socket`. */
const char *module_socket(const struct config_filter *filter);

/* abi, size and what a module must have; NULL when it fits, otherwise a phrase. */
const char *module_unfit(const struct srt_filter_module *module, char *out, size_t size);

#endif
