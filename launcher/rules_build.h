/*
 * A fence while it is being built: for launcher/rules.c, which goes through the settings, and
 * launcher/rules_protect.c, which finds what is protected in the tree.
 *
 * Ownership: what it points to is borrowed, but for `led`, which is empty when a list has been gone
 * through. Thread and failure: as launcher/rules.h.
 */
#ifndef LAUNCHER_RULES_BUILD_H
#define LAUNCHER_RULES_BUILD_H

#include "launcher/rules.h"

enum { SEARCH_MS = 10000 }; /* for all walks of one start together */

/* An allowed place that symbolic links led to, judged in the end. */
struct led {
    struct path_place place;
    char *setting;
    enum fence_verb verb;
};

/* A link that led to an allowed place. */
struct shown {
    char *path, *setting;
};

struct build {
    struct fence *fence;
    const struct rules_world *world;
    struct rules_notes *notes;
    int64_t deadline_ms; /* of the walks, on clock_ms() */
    struct srt_err *err;
    struct led *led;
    size_t led_count;
    bool judging_led;
    struct shown *shown;
    size_t shown_count;
};

/* The place that the absolute path means now, links followed; `setting` is named by what is said of
 * it. */
int rules_add_place(struct build *build, enum fence_verb verb, const char *absolute,
                    const char *setting);
/* What matches `pattern` below `base`, which is where the pattern begins, links and all. */
int rules_add_glob(struct build *build, enum fence_verb verb, const char *base, const char *pattern,
                   const char *setting);
/* Whether it is shut off in its directory, which then is what a denial takes. */
bool rules_add_shut(struct build *build, enum fence_verb verb, const char *path,
                    const char *setting);
/* A second name of a guarded file that was made before the run cannot be guarded by its path. */
void rules_warn_about_links(struct build *build, const char *path, const char *setting);

/* Names that are protected wherever they are in writable roots, and what git's files name. */
int rules_protect(struct build *build);

#endif
