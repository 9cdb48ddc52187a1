/*
 * From settings and the tree as it is now to the rules of the fence: names made absolute, links
 * resolved, globs expanded, protected names found by one walk over the writable roots.
 *
 * Ownership: the caller's. Thread: one, before anything runs in the sandbox. Failure: -1 with
 * `err`, which names the setting; nothing that could not be judged is left open.
 */
#ifndef LAUNCHER_RULES_H
#define LAUNCHER_RULES_H

#include "config/settings.h"
#include "launcher/fence.h"

/* Lines for a user who asked for more (-v), and warnings that everybody sees. */
struct rules_notes {
    char **details, **warnings;
    size_t detail_count, warning_count;
    size_t linked; /* guarded files that have other names */
};

struct rules_world {
    const char *cwd, *home; /* absolute; home may be NULL */
    const char *const
        *never_write; /* the settings file in force, the violations file, ...; NULL ends */
    const char *const *never_read; /* what holds secrets of the gateway; NULL ends */
};

int rules_build(struct fence *fence, const struct settings *settings,
                const struct rules_world *world, struct rules_notes *notes, struct srt_err *err);
/* One more place that the sandbox must not reach (FENCE_HIDE_SECRET, FENCE_DENY_WRITE), for a fence
 * that has been built. */
int rules_guard(struct fence *fence, enum fence_verb verb, const char *absolute,
                const char *setting, struct rules_notes *notes, struct srt_err *err);
void rules_notes_free(struct rules_notes *notes);

#endif
