#include "launcher/afterwards.h"

#include "launcher/clock.h"
#include "launcher/tree.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

enum { SEARCH_MS = 5000, CLOCK_GRAIN_NS = 20000000 }; /* file times come from a coarser clock */

struct look {
    const struct fence *fence;
    struct timespec started;
    struct violations *violations;
};

/* By the time of the last change of the inode, which no unprivileged program can set. */
static bool is_new(const struct look *look, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return false;
    int64_t changed = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    int64_t started = (int64_t)look->started.tv_sec * 1000000000 + look->started.tv_nsec;
    return changed >= started - CLOCK_GRAIN_NS;
}

static bool known(const struct fence *fence, const char *path)
{
    for (size_t low = 0, high = fence->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = path_compare(fence->rules[middle].path, path);
        if (order == 0)
            return fence->rules[middle].type != PATH_ABSENT;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void report_link(const struct look *look, const char *path)
{
    struct path_place place;
    if (path_resolve(path, &place, NULL) != 0)
        return;
    if (!fence_view(look->fence, place.path).writable)
        violations_add(
            look->violations,
            &(struct violation){.kind = "file",
                                .operation = "symlink",
                                .path = path,
                                .setting = "protected: links that lead out",
                                .message = "a new symbolic link leads out of the writable "
                                           "directories",
                                .hint = "look where it leads before anything outside the "
                                        "sandbox writes through it"});
    path_place_free(&place);
}

static bool on_entry(void *context, const struct tree_entry *entry)
{
    const struct look *look = context;
    if (entry->type == PATH_UNREADABLE)
        return false;
    struct fence_view view = fence_view(look->fence, entry->path);
    if (!view.writable && !known(look->fence, entry->path) && is_new(look, entry->path)) {
        violations_add(look->violations,
                       &(struct violation){.kind = "file",
                                           .operation = "create",
                                           .path = entry->path,
                                           .setting = view.write_setting,
                                           .message = "a protected name was created in the sandbox",
                                           .hint = "look at it before anything outside the sandbox "
                                                   "runs or obeys it"});
        return false;
    }
    if (entry->type == PATH_SYMLINK && is_new(look, entry->path))
        report_link(look, entry->path);
    return view.writable;
}

bool afterwards_report(const struct fence *fence, struct timespec started,
                       struct violations *violations)
{
    struct look look = {fence, started, violations};
    int64_t deadline_ms = clock_ms() + SEARCH_MS;
    const char *last = NULL;
    for (size_t i = 0; i < fence->count; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        if (rule->verb != FENCE_ALLOW_WRITE || rule->type != PATH_DIR ||
            (last != NULL && path_within(rule->path, last)))
            continue; /* sorted, so a root follows the one that holds it */
        last = rule->path;
        if (tree_walk(rule->path, deadline_ms, on_entry, &look, NULL) != 0)
            return false;
    }
    return true;
}
