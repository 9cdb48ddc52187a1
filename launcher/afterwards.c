#include "launcher/afterwards.h"

#include "launcher/gitconfig.h"
#include "launcher/gitindex.h"
#include "launcher/rebase.h"
#include "launcher/rights.h"
#include "launcher/tree.h"
#include "launcher/vet.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SEARCH_MS = 5000,
    REBASE_MAX = 1024 * 1024,
    CONFIG_MAX = 1024 * 1024,
    INDEXES_MAX = 256 * 1024 * 1024, /* bytes of all of them together */
};

struct look {
    const struct fence *fence;
    struct timespec started;
    struct violations *violations;
    size_t index_budget; /* bytes that may still be read */
};

/* By the time of the last change of the inode, which no unprivileged program can set. */
static bool is_new(const struct look *look, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return false;
    return st.st_ctim.tv_sec > look->started.tv_sec ||
           (st.st_ctim.tv_sec == look->started.tv_sec &&
            st.st_ctim.tv_nsec >= look->started.tv_nsec);
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

/* What may come to be though its name is protected. */
static bool is_vetted(const struct look *look, const struct tree_entry *entry,
                      enum protect_part fresh)
{
    char why[VET_WHY_SIZE];
    enum vet_kind kind = vet_kind(look->fence, entry->path);
    return (fresh == PROTECT_HOOKS && entry->type == PATH_DIR) ||
           (kind != VET_NOTHING && vet_found(look->fence, kind, entry->path, why));
}

/* A file `.git` leads git elsewhere; its name is that of a directory, which may be made. */
static bool is_stray_link(const struct look *look, const struct tree_entry *entry)
{
    return entry->type == PATH_FILE && strcmp(entry->name, ".git") == 0 &&
           vet_kind(look->fence, entry->path) == VET_LINK;
}

/* Whether the directory holds a name other than git's own examples. */
static bool has_hooks(const char *dir)
{
    DIR *stream = opendir(dir);
    if (stream == NULL)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(stream)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                (end == NULL || strcmp(end, ".sample") != 0);
    }
    closedir(stream);
    return found;
}

/* git takes a directory with these names for a repository whatever its own name is, so nothing
 * could be judged when they came to be. */
static void look_at_repository(const struct look *look, const struct tree_entry *head)
{
    autofree char *dir = path_parent(head->path);
    autofree char *objects = path_join(dir, "objects"), *refs = path_join(dir, "refs");
    autofree char *config = path_join(dir, "config"), *hooks = path_join(dir, "hooks");
    struct stat st;
    if (stat(objects, &st) != 0 || stat(refs, &st) != 0 ||
        !fence_view(look->fence, config).writable)
        return;
    char why[VET_WHY_SIZE] = "";
    bool obeyed = lstat(config, &st) == 0 && !vet_found(look->fence, VET_CONFIG, config, why);
    if (!obeyed && !has_hooks(hooks))
        return;
    autofree char *message =
        must_format("git would take this directory for a repository and obey its %s%s",
                    obeyed ? "configuration: " : "hooks", why);
    violations_add(look->violations,
                   &(struct violation){.kind = "file",
                                       .operation = "create",
                                       .path = dir,
                                       .setting = "protected: git configuration",
                                       .message = message,
                                       .hint =
                                           "remove its hooks and config, or look at them, before "
                                           "git outside the sandbox is run in it, clones it or "
                                           "pushes to it"});
}

/* Files by which git is told what to go on with, and what finds a command in one. */
static const struct unfinished {
    const char *dir, *name;
    const char *what, *hint;
    bool (*finds)(const char *bytes, size_t len, char *command, size_t size);
} unfinished[] = {
    {"rebase-merge", "git-rebase-todo", "a rebase",
     "outside the sandbox end it with git rebase --abort, or look at git rebase --edit-todo before "
     "git rebase --continue",
     rebase_finds_command},
    {"rebase-merge", "strategy", "a rebase",
     "outside the sandbox end it with git rebase --abort, and not with git rebase --continue",
     rebase_names_program},
    {"sequencer", "opts", "a cherry-pick or revert",
     "outside the sandbox end it with --abort, and not with --continue",
     rebase_sequence_names_program},
    {"rebase-apply", "apply-opt", "a git am or rebase",
     "outside the sandbox end it with --abort, and with neither --continue nor --skip",
     rebase_has_odd_option},
};

/* The bytes of a file, `max` of them at most; NULL where there is none. A FIFO or a terminal by
 * this name, or behind a link of it, would be waited for. */
static char *read_start(const char *path, size_t max, size_t *len)
{
    struct stat st;
    autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    size_t size = (size_t)st.st_size < max ? (size_t)st.st_size : max;
    char *bytes = must(malloc(size + 1));
    ssize_t n = 1;
    for (*len = 0; *len < size && n > 0; *len += n > 0 ? (size_t)n : 0)
        n = read(fd, bytes + *len, size - *len);
    return bytes;
}

/* What is under way runs its commands when somebody goes on with it. */
static void look_at_unfinished(const struct look *look, const struct unfinished *row,
                               const char *path, const char *setting)
{
    char command[128] = "too much to be looked at";
    size_t len = 0;
    autofree char *bytes = read_start(path, REBASE_MAX, &len);
    if (bytes == NULL || len == 0 || !is_new(look, path) ||
        (len < REBASE_MAX && !row->finds(bytes, len, command, sizeof(command))))
        return;
    autofree char *message =
        must_format("%s that was begun in the sandbox is to run: %s", row->what, command);
    violations_add(look->violations, &(struct violation){.kind = "file",
                                                         .operation = "create",
                                                         .path = path,
                                                         .setting = setting,
                                                         .message = message,
                                                         .hint = row->hint});
}

/* The files, or a link in the place of their directory, behind which names may be others. */
static void look_for_unfinished(const struct look *look, const struct tree_entry *entry,
                                const char *setting)
{
    for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) {
        const struct unfinished *row = &unfinished[i];
        bool linked = entry->type == PATH_SYMLINK && strcmp(entry->name, row->dir) == 0;
        if (!linked && strcmp(entry->name, row->name) != 0)
            continue;
        autofree char *dir = linked ? must_copy(entry->path) : path_parent(entry->path);
        const char *dir_name = strrchr(dir, '/') + 1;
        autofree char *path = path_join(dir, row->name);
        if (strcmp(dir_name, row->dir) == 0)
            look_at_unfinished(look, row, path, setting);
    }
}

static bool on_format(void *context, const struct gitconfig_entry *entry)
{
    size_t *hash = context;
    if (strcmp(entry->section, "extensions") == 0 && entry->subsection == NULL &&
        strcmp(entry->name, "objectformat") == 0 && entry->value != NULL)
        *hash = strcmp(entry->value, "sha256") == 0 ? GITINDEX_SHA256 : GITINDEX_SHA1;
    return true;
}

/* The length of a hash in the repository that has this git directory: its configuration says so, or
 * for a linked worktree the one two levels above. */
static size_t hash_of(const char *git_dir)
{
    static const char *const names[] = {"config", "../../config"};
    size_t hash = GITINDEX_SHA1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = 0;
        autofree char *path = path_join(git_dir, names[i]);
        autofree char *bytes = read_start(path, CONFIG_MAX, &len);
        if (bytes == NULL)
            continue;
        gitconfig_read(bytes, len, on_format, &hash);
        break;
    }
    return hash;
}

/* What git is to write is said by the index, which has to be writable for any commit. */
static void look_at_index(struct look *look, const struct tree_entry *entry, const char *setting)
{
    static const char shared[] = "sharedindex.";
    if ((strcmp(entry->name, "index") != 0 && strncmp(entry->name, shared, strlen(shared)) != 0) ||
        !is_new(look, entry->path))
        return;
    char name[256] = "";
    size_t len = 0;
    autofree char *dir = path_parent(entry->path);
    autofree char *bytes = read_start(entry->path, look->index_budget, &len);
    bool whole = len < look->index_budget;
    if (bytes == NULL)
        return;
    enum gitindex_end end =
        whole ? gitindex_look(bytes, len, hash_of(dir), name, sizeof(name)) : GITINDEX_ODD;
    look->index_budget -= len;
    if (end == GITINDEX_PLAIN)
        return;
    autofree char *message = end == GITINDEX_STRAY
                                 ? must_format("by this index git outside would write to %s", name)
                                 : must_copy(whole ? "this index is not as git writes it"
                                                   : "this index is too large to be looked at");
    violations_add(look->violations,
                   &(struct violation){.kind = "file",
                                       .operation = "create",
                                       .path = entry->path,
                                       .setting = setting,
                                       .message = message,
                                       .hint = "remove it, and have git make another one: git "
                                               "reset"});
}

static bool on_entry(void *context, const struct tree_entry *entry)
{
    struct look *look = context;
    if (entry->type == PATH_UNREADABLE || (entry->type == PATH_DIR && protect_barren(entry->path)))
        return false;
    struct fence_view view = fence_view(look->fence, entry->path);
    bool guarded = !view.writable || is_stray_link(look, entry);
    if (guarded && is_vetted(look, entry, view.fresh))
        return true;
    if (guarded && !known(look->fence, entry->path) && is_new(look, entry->path)) {
        violations_add(
            look->violations,
            &(struct violation){.kind = "file",
                                .operation = "create",
                                .path = entry->path,
                                .setting = view.writable ? fence_link_setting : view.write_setting,
                                .message = "a protected name was created in the sandbox",
                                .hint = "look at it before anything outside the sandbox "
                                        "runs or obeys it"});
        return false;
    }
    if (entry->type != PATH_DIR && look->fence->protect.groups != 0 &&
        strcmp(entry->name, "HEAD") == 0)
        look_at_repository(look, entry);
    const char *hooks_setting = protect_part_of_any(&look->fence->protect, 0);
    if (entry->type != PATH_DIR && hooks_setting != NULL) {
        look_for_unfinished(look, entry, hooks_setting);
        look_at_index(look, entry, hooks_setting);
    }
    if (entry->type == PATH_SYMLINK && is_new(look, entry->path))
        report_link(look, entry->path);
    return view.writable;
}

bool afterwards_report(const struct fence *fence, struct timespec started,
                       struct violations *violations)
{
    autorights struct rights outside = rights_as_inside();
    struct look look = {fence, started, violations, INDEXES_MAX};
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
