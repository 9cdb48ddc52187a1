#include "launcher/fence.h"

#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdlib.h>
#include <string.h>

void fence_add(struct fence *fence, enum fence_verb verb, const char *path, enum path_type type,
               const char *setting)
{
    fence->rules = grow_one(fence->rules, fence->count, sizeof(*fence->rules));
    struct fence_rule *rule = &fence->rules[fence->count++];
    *rule = (struct fence_rule){
        .path = must_copy(path), .type = type, .verb = verb, .setting = must_copy(setting)};
}

void fence_add_glob(struct fence *fence, const char *base, const char *pattern, const char *setting)
{
    fence->globs = grow_one(fence->globs, fence->glob_count, sizeof(*fence->globs));
    struct fence_glob *glob = &fence->globs[fence->glob_count++];
    *glob = (struct fence_glob){must_copy(base), must_copy(pattern), must_copy(setting)};
}

void fence_add_gitdir(struct fence *fence, const char *top, const char *dir)
{
    fence->gitdirs = grow_one(fence->gitdirs, fence->gitdir_count, sizeof(*fence->gitdirs));
    struct fence_gitdir *gitdir = &fence->gitdirs[fence->gitdir_count++];
    *gitdir = (struct fence_gitdir){must_copy(top), must_copy(dir)};
}

void fence_add_missing(struct fence *fence, const char *path, const char *setting)
{
    fence->missing = grow_one(fence->missing, fence->missing_count, sizeof(*fence->missing));
    struct fence_missing *missing = &fence->missing[fence->missing_count++];
    *missing = (struct fence_missing){must_copy(path), must_copy(setting)};
}

const struct fence_gitdir *fence_gitdir_of(const struct fence *fence, const char *path)
{
    for (size_t i = 0; i < fence->gitdir_count; i++)
        if (path_within(path, fence->gitdirs[i].dir))
            return &fence->gitdirs[i];
    return NULL;
}

/* At one path the order of verbs does not decide anything; it only makes the order total. */
static int rule_compare(const void *a, const void *b)
{
    const struct fence_rule *x = a, *y = b;
    int order = path_compare(x->path, y->path);
    return order != 0 ? order : (int)x->verb - (int)y->verb;
}

void fence_seal(struct fence *fence)
{
    if (fence->count > 0)
        qsort(fence->rules, fence->count, sizeof(*fence->rules), rule_compare);
}

void fence_free(struct fence *fence)
{
    for (size_t i = 0; i < fence->count; i++) {
        free(fence->rules[i].path);
        free(fence->rules[i].setting);
    }
    for (size_t i = 0; i < fence->glob_count; i++) {
        free(fence->globs[i].base);
        free(fence->globs[i].pattern);
        free(fence->globs[i].setting);
    }
    for (size_t i = 0; i < fence->gitdir_count; i++) {
        free(fence->gitdirs[i].top);
        free(fence->gitdirs[i].dir);
    }
    for (size_t i = 0; i < fence->missing_count; i++) {
        free(fence->missing[i].path);
        free(fence->missing[i].setting);
    }
    free(fence->missing);
    free(fence->gitdirs);
    free(fence->globs);
    free(fence->rules);
    *fence = (struct fence){0};
}

/* The index of the first rule that is not ordered before the path. */
static size_t lower_bound(const struct fence *fence, const char *path)
{
    size_t low = 0, high = fence->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (path_compare(fence->rules[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct fence_rule *first_at(const struct fence *fence, const char *path)
{
    size_t low = lower_bound(fence, path);
    if (low == fence->count || strcmp(fence->rules[low].path, path) != 0)
        return NULL;
    return &fence->rules[low];
}

/* What the rules at one place say; each is the first rule of its kind there, or NULL. */
struct place_rules {
    const struct fence_rule *by_verb[FENCE_SHOW + 1];
};

/* `first` is the lower bound of the path. */
static struct place_rules rules_at(const struct fence *fence, size_t first, const char *path)
{
    struct place_rules here = {0};
    for (size_t i = first; i < fence->count && strcmp(fence->rules[i].path, path) == 0; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        if (here.by_verb[rule->verb] == NULL)
            here.by_verb[rule->verb] = rule;
    }
    return here;
}

/* The length of the deepest place that holds both, or is one of them; 0 is the root. */
static size_t common_place(const char *a, const char *b)
{
    size_t len = 0;
    for (size_t i = 0;; i++) {
        if ((a[i] == '/' || a[i] == '\0') && (b[i] == '/' || b[i] == '\0'))
            len = i;
        if (a[i] == '\0' || a[i] != b[i])
            return len;
    }
}

/* Cuts `at` to the nearest place above it that may have rules. By their order every rule above
 * `at` is at or above the place of the last one before it, too. False where there is none. */
static bool go_up(const struct fence *fence, size_t first, char *at)
{
    if (first == 0)
        return false;
    size_t len = common_place(fence->rules[first - 1].path, at);
    at[len == 0 ? 1 : len] = '\0';
    return true;
}

/* A directory that matches is taken whole, so every part of the path that ends at a slash counts.
 */
static const char *glob_denies(const struct fence *fence, const char *path)
{
    for (size_t i = 0; i < fence->glob_count; i++) {
        const struct fence_glob *glob = &fence->globs[i];
        if (!path_within(path, glob->base))
            continue;
        autofree char *below = must_copy(path_below(path, glob->base));
        for (;;) {
            if (path_glob_match(glob->pattern, below))
                return glob->setting;
            char *slash = strrchr(below, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    return NULL;
}

bool fence_differs_below(const struct fence *fence, const char *path)
{
    if (fence->glob_count > 0)
        return true;
    for (size_t i = lower_bound(fence, path); i < fence->count; i++) {
        if (!path_within(fence->rules[i].path, path))
            return false;
        if (strcmp(fence->rules[i].path, path) != 0)
            return true;
    }
    return false;
}

/* Whether the directory that is named by the first bytes of the path was not there when the rules
 * were made. Every repository that was has a rule at its name or inside it. */
static bool is_fresh_repository(const struct fence *fence, const char *path, size_t len)
{
    autofree char *repository = must(strndup(path, len));
    size_t next = lower_bound(fence, repository);
    return (next == fence->count || !path_within(fence->rules[next].path, repository)) &&
           fence_view(fence, repository).writable;
}

/* The repository is the directory that holds the part, and the hooks of samples. */
static enum protect_part fresh_part(const struct fence *fence, const char *path, const char *what)
{
    enum protect_part part = protect_part(what, path);
    if (part == PROTECT_NO_PART)
        return part;
    size_t len = (size_t)(strrchr(path, '/') - path);
    if (part == PROTECT_SAMPLE)
        len -= strlen("/hooks");
    return len > 0 && is_fresh_repository(fence, path, len) ? part : PROTECT_NO_PART;
}

/* From the path up to the root: the nearest decides reads, every one has a say in writes. */
struct fence_view fence_view(const struct fence *fence, const char *path)
{
    const struct fence_rule *reads = NULL, *secret = NULL, *allow = NULL, *deny = NULL;
    const char *guarded = NULL;

    autofree char *at = must_copy(path);
    size_t first;
    do {
        first = lower_bound(fence, at);
        struct place_rules here = rules_at(fence, first, at);
        const struct fence_rule *allow_here = here.by_verb[FENCE_ALLOW_WRITE];
        if (secret == NULL)
            secret = here.by_verb[FENCE_HIDE_SECRET];
        if (reads == NULL)
            reads = here.by_verb[FENCE_ALLOW_READ];
        if (reads == NULL)
            reads = allow_here;
        if (reads == NULL)
            reads = here.by_verb[FENCE_DENY_READ];
        if (deny == NULL)
            deny = here.by_verb[FENCE_DENY_WRITE];
        if (allow == NULL)
            allow = allow_here;
        if (allow_here != NULL && guarded == NULL)
            guarded = protect_match(&fence->protect, path, strlen(at) == 1 ? 0 : strlen(at));
    } while (go_up(fence, first, at));

    struct fence_view view = {
        .readable = true, .read_setting = "default", .write_setting = "default"};
    if (secret != NULL || (reads != NULL && reads->verb == FENCE_DENY_READ)) {
        view.readable = false;
        view.read_setting = secret != NULL ? secret->setting : reads->setting;
    } else if (reads != NULL) {
        view.read_setting = reads->setting;
    }

    const char *pattern = allow != NULL && deny == NULL ? glob_denies(fence, path) : NULL;
    if (allow == NULL) {
        view.write_setting = deny != NULL ? deny->setting : "default";
    } else if (deny != NULL) {
        view.write_setting = deny->setting;
    } else if (pattern != NULL) {
        view.write_setting = pattern;
    } else if (!view.readable) {
        view.write_setting = view.read_setting;
    } else if (guarded != NULL &&
               (view.fresh = fresh_part(fence, path, guarded)) != PROTECT_SAMPLE) {
        view.write_setting = guarded;
    } else {
        view.writable = true;
        view.write_setting = allow->setting;
    }
    return view;
}

const char fence_link_setting[] = "protected: git link";

bool fence_may_vet(const struct fence *fence, const char *path)
{
    const char *what = protect_part_of_any(&fence->protect, PROTECT_PARTS - 1);
    if (what == NULL || glob_denies(fence, path) != NULL)
        return false;
    autofree char *dir = path_parent(path);
    if (!fence_view(fence, dir).writable)
        return false;
    const struct fence_rule *end = fence->rules + fence->count;
    for (const struct fence_rule *rule = first_at(fence, path);
         rule != NULL && rule < end && strcmp(rule->path, path) == 0; rule++)
        if (rule->verb != FENCE_KEEP && rule->verb != FENCE_SHOW &&
            rule->verb != FENCE_ALLOW_READ &&
            (rule->verb != FENCE_DENY_WRITE ||
             (strcmp(rule->setting, what) != 0 && strcmp(rule->setting, fence_link_setting) != 0)))
            return false;
    return true;
}

static void add_step(struct fence_plan *plan, enum fence_act act, const char *path, size_t len,
                     enum path_type type, const char *setting)
{
    plan->steps = grow_one(plan->steps, plan->count, sizeof(*plan->steps));
    struct fence_step *step = &plan->steps[plan->count++];
    *step = (struct fence_step){
        .act = act, .type = type, .path = must(strndup(path, len)), .setting = setting};
}

/* The mount points that lie above the place now looked at, innermost last, as indices of steps.
 * What a place inherits is what the innermost one shows. */
struct open_mounts {
    size_t *steps;
    size_t count;
};

static void push(struct open_mounts *open, size_t step)
{
    open->steps = grow_one(open->steps, open->count, sizeof(*open->steps));
    open->steps[open->count++] = step;
}

struct state {
    bool readable, writable;
};

static struct state state_inherited(const struct fence_plan *plan, const struct open_mounts *open)
{
    for (size_t i = open->count; i-- > 0;) {
        switch (plan->steps[open->steps[i]].act) {
        case FENCE_WRITABLE:
            return (struct state){true, true};
        case FENCE_VISIBLE:
        case FENCE_READONLY:
            return (struct state){true, false};
        case FENCE_HIDDEN:
            return (struct state){false, false};
        case FENCE_PIN:
        case FENCE_LINK:
            break;
        }
    }
    return (struct state){true, false};
}

/* A directory above a guarded place that could be renamed takes the guard away with it, so each one
 * from the innermost mount point down becomes a mount point itself. */
static void pin_above(struct fence_plan *plan, struct open_mounts *open, const char *path,
                      const char *setting)
{
    const char *above = open->count > 0 ? plan->steps[open->steps[open->count - 1]].path : "/";
    const char *p = path_below(path, above);
    for (size_t len = strcspn(p, "/"); p[len] != '\0'; len += 1 + strcspn(p + len + 1, "/")) {
        push(open, plan->count);
        add_step(plan, FENCE_PIN, path, (size_t)(p + len - path), PATH_DIR, setting);
    }
}

static enum fence_act act_for(struct state from, struct state to)
{
    if (!to.readable)
        return FENCE_HIDDEN;
    if (to.writable)
        return FENCE_WRITABLE;
    return from.readable ? FENCE_READONLY : FENCE_VISIBLE;
}

/* The mounts that one place needs, given what it would show without. */
static void plan_place(struct fence_plan *plan, struct open_mounts *open, const struct fence *fence,
                       const struct fence_rule *rule)
{
    struct state from = state_inherited(plan, open);
    struct fence_view view = fence_view(fence, rule->path);
    struct state to = {view.readable, view.writable};
    bool changes = from.readable != to.readable || from.writable != to.writable;
    const struct place_rules here = rules_at(fence, lower_bound(fence, rule->path), rule->path);
    const struct fence_rule *show = here.by_verb[FENCE_SHOW];
    bool keep = here.by_verb[FENCE_KEEP] != NULL;
    bool link = rule->type == PATH_SYMLINK;

    if (show != NULL && !from.readable) {
        add_step(plan, FENCE_LINK, rule->path, strlen(rule->path), rule->type, show->setting);
        return;
    }
    if (!changes && !(keep && from.writable))
        return;
    if (link && !from.writable)
        return; /* its directory cannot be changed, so neither can the link */
    const char *setting = rule->setting;
    if (changes)
        setting = from.readable == to.readable ? view.write_setting : view.read_setting;
    if (from.writable)
        pin_above(plan, open, rule->path, setting);
    push(open, plan->count);
    add_step(plan, link || !changes ? FENCE_PIN : act_for(from, to), rule->path, strlen(rule->path),
             rule->type, setting);
}

/* An absent place needs no mount and can have none: the rule at the last directory above it that
 * does exist (FENCE_KEEP, see rules.c) keeps that one in place. */
void fence_plan_make(struct fence_plan *plan, const struct fence *fence)
{
    struct open_mounts open = {0};
    for (size_t i = 0; i < fence->count; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        if (rule->type == PATH_ABSENT || strcmp(rule->path, "/") == 0 ||
            (i > 0 && strcmp(rule->path, fence->rules[i - 1].path) == 0))
            continue;
        while (open.count > 0 &&
               !path_within(rule->path, plan->steps[open.steps[open.count - 1]].path))
            open.count--;
        plan_place(plan, &open, fence, rule);
    }
    free(open.steps);
}

void fence_plan_free(struct fence_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->steps[i].path);
    free(plan->steps);
    *plan = (struct fence_plan){0};
}

const char *fence_act_word(enum fence_act act)
{
    switch (act) {
    case FENCE_WRITABLE:
        return "writable";
    case FENCE_VISIBLE:
        return "visible";
    case FENCE_READONLY:
        return "read-only";
    case FENCE_HIDDEN:
        return "hidden";
    case FENCE_PIN:
        return "pinned";
    case FENCE_LINK:
        return "link";
    }
    return "?";
}
