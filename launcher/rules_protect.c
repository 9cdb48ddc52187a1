#include "launcher/rules_build.h"

#include "launcher/repository.h"
#include "launcher/tree.h"
#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct names {
    char **items;
    size_t count;
};

/* Of all writable roots, one after the other. */
struct search {
    struct build *build;
    size_t root_len;           /* of the one that is searched */
    struct names repositories; /* names `.git`, and bare repositories */
};

static void names_add(struct names *names, const char *name)
{
    names->items = grow_one(names->items, names->count, sizeof(char *));
    names->items[names->count] = must_copy(name);
    names->count++;
}

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct names){0};
}

/* Of a repository whose directory has any name. */
static void guard_parts(struct build *build, const char *dir)
{
    for (size_t i = 0; i < PROTECT_PARTS; i++) {
        const char *what = protect_part_of_any(&build->fence->protect, i);
        autofree char *path = path_join(dir, protect_parts[i]);
        if (what != NULL)
            rules_add_place(build, FENCE_DENY_WRITE, path, what);
    }
}

/* A directory that is a bare repository holds its hooks and its configuration directly. */
static void guard_bare_repository(struct search *search, const struct tree_entry *head)
{
    autofree char *dir = path_parent(head->path);
    autofree char *objects = path_join(dir, "objects");
    autofree char *refs = path_join(dir, "refs");
    struct stat st;
    if (stat(objects, &st) != 0 || !S_ISDIR(st.st_mode) || stat(refs, &st) != 0)
        return;
    guard_parts(search->build, dir);
    names_add(&search->repositories, dir);
}

/* A link on the way to protected names: where it leads they are called otherwise. */
static void guard_behind_link(struct build *build, const struct tree_entry *link)
{
    const char *rest, *what;
    for (size_t row = 0;
         protect_next_below(&build->fence->protect, link->name, &row, &rest, &what);) {
        autofree char *path = path_join(link->path, rest);
        if (path_is_glob(rest))
            rules_add_glob(build, FENCE_DENY_WRITE, link->path, rest, what);
        else
            rules_add_place(build, FENCE_DENY_WRITE, path, what);
    }
    fence_add(build->fence, FENCE_KEEP, link->path, PATH_SYMLINK, "protected: its name");
}

static const char unsearched_setting[] = "protected: cannot be searched";

static bool on_protected_candidate(void *context, const struct tree_entry *entry)
{
    struct search *search = context;
    struct build *build = search->build;
    if (entry->type == PATH_UNREADABLE) {
        fence_add(build->fence, FENCE_DENY_WRITE, entry->path, PATH_DIR, unsearched_setting);
        return false;
    }
    if (entry->type == PATH_DIR && protect_barren(entry->path))
        return false;
    const char *what = protect_match(&build->fence->protect, entry->path, search->root_len);
    const bool begins =
        entry->type != PATH_FILE && protect_begins(&build->fence->protect, entry->name);
    if ((what != NULL || begins || strcmp(entry->name, ".git") == 0) &&
        rules_add_shut(build, FENCE_DENY_WRITE, entry->path, unsearched_setting))
        return false;
    if (what != NULL) {
        fence_add(build->fence, FENCE_DENY_WRITE, entry->path, entry->type, what);
        if (entry->type == PATH_SYMLINK) {
            fence_add(build->fence, FENCE_KEEP, entry->path, PATH_SYMLINK, what);
            rules_add_place(build, FENCE_DENY_WRITE, entry->path, what);
        }
        rules_warn_about_links(build, entry->path, what);
        return false;
    }
    if (strcmp(entry->name, ".git") == 0)
        names_add(&search->repositories, entry->path);
    if (strcmp(entry->name, ".git") == 0 && entry->type == PATH_FILE)
        fence_add(build->fence, FENCE_DENY_WRITE, entry->path, PATH_FILE, fence_link_setting);
    else if (entry->type == PATH_DIR && begins)
        fence_add(build->fence, FENCE_KEEP, entry->path, PATH_DIR, "protected: its name");
    else if (entry->type == PATH_SYMLINK && begins)
        guard_behind_link(build, entry);
    else if (entry->type == PATH_FILE && strcmp(entry->name, "HEAD") == 0)
        guard_bare_repository(search, entry);
    return true;
}

/* ---- what git's configuration names ---- */

struct named {
    struct build *build;
    const char *top;       /* of the work tree; NULL while what holds for all users is read */
    struct names *of_user; /* hooks and programs that begin at the top of each work tree */
};

static const char hooks_setting[] = "protected: git hooks";
static const char config_setting[] = "protected: git configuration";

static void on_named(void *context, enum repository_place place, const char *path)
{
    struct named *named = context;
    autofree char *absolute = path[0] == '/'       ? must_copy(path)
                              : named->top != NULL ? path_join(named->top, path)
                                                   : NULL;
    if (absolute != NULL)
        rules_add_place(named->build, FENCE_DENY_WRITE, absolute,
                        place == REPOSITORY_CONFIG ? config_setting : hooks_setting);
    else
        names_add(named->of_user, path);
}

static void guard_configuration_of_user(struct build *build, struct names *of_user)
{
    struct named named = {.build = build, .of_user = of_user};
    const char *home = build->world->home;
    repository_read_config("/etc/gitconfig", home, on_named, &named);
    static const char *const names[] = {".gitconfig", ".config/git/config"};
    for (size_t i = 0; home != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        autofree char *path = path_join(home, names[i]);
        repository_read_config(path, home, on_named, &named);
    }
}

static bool in_writable_root(const struct fence *fence, const char *path)
{
    for (size_t i = 0; i < fence->count; i++)
        if (fence->rules[i].verb == FENCE_ALLOW_WRITE && path_within(path, fence->rules[i].path))
            return true;
    return false;
}

/* A git directory that need not be in the work tree: guarded if `named` by a file, as it may have
 * any name, and known to who explains a refusal where it is outside. */
static void look_at_git_directory(struct build *build, const char *top, const char *dir, bool named)
{
    struct path_place place;
    if (path_resolve(dir, &place, NULL) != 0)
        return;
    if (in_writable_root(build->fence, place.path)) {
        if (named)
            guard_parts(build, place.path);
    } else if (place.type == PATH_DIR && fence_gitdir_of(build->fence, place.path) == NULL) {
        fence_add_gitdir(build->fence, top, place.path);
    }
    path_place_free(&place);
}

static void guard_repository(struct build *build, const char *dot_git, const struct names *of_user)
{
    struct repository repository;
    if (!repository_open(&repository, dot_git))
        return;
    const char *name = strrchr(dot_git, '/') + 1;
    autofree char *top = strcmp(name, ".git") == 0 ? path_parent(dot_git) : must_copy(dot_git);
    look_at_git_directory(build, top, repository.common_dir, repository.linked);
    if (repository.linked)
        look_at_git_directory(build, top, repository.git_dir, true);
    struct named named = {.build = build, .top = top};
    autofree char *config = path_join(repository.common_dir, "config");
    autofree char *own_config = path_join(repository.git_dir, "config.worktree");
    repository_read_config(config, build->world->home, on_named, &named);
    repository_read_config(own_config, build->world->home, on_named, &named);
    for (size_t i = 0; i < of_user->count; i++)
        on_named(&named, REPOSITORY_HOOKS, of_user->items[i]);
    repository_free(&repository);
}

/* The repository that a writable root lies in, whose hooks may be inside the root. */
static void add_repository_above(struct search *search, const char *root)
{
    autofree char *dir = must_copy(root);
    while (strcmp(dir, "/") != 0) {
        char *parent = path_parent(dir);
        free(dir);
        dir = parent;
        autofree char *dot_git = path_join(dir, ".git");
        if (access(dot_git, F_OK) == 0) {
            names_add(&search->repositories, dot_git);
            return;
        }
    }
}

static void guard_repositories(struct build *build, const struct names *repositories)
{
    struct names of_user = {0};
    guard_configuration_of_user(build, &of_user);
    for (size_t i = 0; i < repositories->count; i++)
        guard_repository(build, repositories->items[i], &of_user);
    names_free(&of_user);
}

/* Whether another of the first `known` rules has it searched: a root above it, or the same root
 * named earlier. */
static bool is_covered(const struct fence *fence, size_t known, size_t root)
{
    const struct fence_rule *rules = fence->rules;
    for (size_t i = 0; i < known; i++)
        if (i != root && rules[i].verb == FENCE_ALLOW_WRITE &&
            path_within(rules[root].path, rules[i].path) &&
            (i < root || strcmp(rules[root].path, rules[i].path) != 0))
            return true;
    return false;
}

/* Where nothing can be written nothing has to be protected. */
static bool is_denied(const struct fence *fence, size_t known, const char *root)
{
    for (size_t i = 0; i < known; i++)
        if (fence->rules[i].verb == FENCE_DENY_WRITE && path_within(root, fence->rules[i].path))
            return true;
    return false;
}

static int search_root(struct search *search, const char *root, const char *setting)
{
    struct build *build = search->build;
    add_repository_above(search, root);
    search->root_len = strlen(root);
    if (tree_walk(root, build->deadline_ms, on_protected_candidate, search, build->err) == 0)
        return 0;
    return srt_err_set(build->err,
                       "%s: %s is too large to be searched for protected names within %d s; "
                       "name narrower directories to write to",
                       setting, root, SEARCH_MS / 1000);
}

static int search_roots(struct search *search)
{
    const struct fence *fence = search->build->fence;
    const size_t known = fence->count;
    for (size_t i = 0; i < known; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        if (rule->verb != FENCE_ALLOW_WRITE || rule->type != PATH_DIR ||
            is_covered(fence, known, i) || is_denied(fence, known, rule->path))
            continue;
        /* The search adds rules, which moves them all. */
        autofree char *root = must_copy(rule->path);
        autofree char *setting = must_copy(rule->setting);
        if (search_root(search, root, setting) != 0)
            return -1;
    }
    return 0;
}

int rules_protect(struct build *build)
{
    struct search search = {.build = build};
    if (build->fence->protect.groups == 0)
        return 0;
    const int result = search_roots(&search);
    if (result == 0 && protect_part_of_any(&build->fence->protect, 0) != NULL)
        guard_repositories(build, &search.repositories);
    names_free(&search.repositories);
    return result;
}
