#include "launcher/rules.h"

#include "config/fault.h"
#include "launcher/cell.h"
#include "launcher/rights.h"
#include "launcher/rules_build.h"
#include "launcher/tree.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static void note(char ***lines, size_t *count,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    autofree char *text = must_vformat(format, args);
    *lines = must(reallocarray(*lines, *count + 1, sizeof(char *)));
    (*lines)[(*count)++] = fault_escape(text); /* one line, whatever names are in it */
    va_end(args);
}

#define DETAIL(build, ...) \
    note(&(build)->notes->details, &(build)->notes->detail_count, __VA_ARGS__)
#define WARNING(build, ...) \
    note(&(build)->notes->warnings, &(build)->notes->warning_count, __VA_ARGS__)

void rules_notes_free(struct rules_notes *notes)
{
    for (size_t i = 0; i < notes->detail_count; i++)
        free(notes->details[i]);
    for (size_t i = 0; i < notes->warning_count; i++)
        free(notes->warnings[i]);
    free(notes->details);
    free(notes->warnings);
    *notes = (struct rules_notes){0};
}

static bool verb_denies(enum fence_verb verb)
{
    return verb == FENCE_DENY_READ || verb == FENCE_HIDE_SECRET || verb == FENCE_DENY_WRITE;
}

/* The rest are counted: stores of packages link every file of theirs. */
enum { LINKED_SHOWN = 8 };

/* A program of the system's. Only root can have given it other names, and stores of packages and
 * caches of profilers do: nothing that anybody could mend before a run. */
static bool is_system_program(const struct stat *st)
{
    return st->st_uid == 0 && (st->st_mode & S_IXOTH) != 0 && (st->st_mode & S_IWOTH) == 0;
}

void rules_warn_about_links(struct build *build, const char *path, const char *setting)
{
    static const char text[] = "%s (%s) has %lu hard links: its other names are not guarded";
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink < 2 || is_system_program(&st))
        return;
    if (++build->notes->linked <= LINKED_SHOWN)
        WARNING(build, text, path, setting, (unsigned long)st.st_nlink);
    else
        DETAIL(build, text, path, setting, (unsigned long)st.st_nlink);
}

bool rules_add_shut(struct build *build, enum fence_verb verb, const char *path,
                    const char *setting)
{
    if (!tree_is_shut_off(path))
        return false;
    autofree char *dir = path_parent(path);
    if (verb_denies(verb))
        fence_add(build->fence, verb, dir, PATH_DIR, setting);
    return true;
}

/* The absent name gets a rule for whoever asks or creates later; the last directory above it that
 * exists is kept in place, so that the rule goes on meaning the same tree. */
static void add_absent(struct build *build, enum fence_verb verb, const char *path,
                       const char *setting)
{
    fence_add(build->fence, verb, path, PATH_ABSENT, setting);
    autofree char *above = path_parent(path);
    struct stat st;
    while (lstat(above, &st) != 0) {
        char *parent = path_parent(above);
        free(above);
        above = parent;
    }
    fence_add(build->fence, FENCE_KEEP, above, PATH_DIR, setting);
}

/* `/` stands for the directories in it: the root itself stays listable, and /dev, /proc and /sys
 * are the sandbox's own business. */
static int add_top_level(struct build *build, enum fence_verb verb, const char *setting)
{
    DIR *root = opendir("/");
    if (root == NULL)
        return srt_err_set(build->err, "%s: the root directory cannot be listed", setting);
    const struct dirent *entry;
    while ((entry = readdir(root)) != NULL) {
        autofree char *path = path_join("/", entry->d_name);
        struct stat st;
        if (entry->d_name[0] == '.' && (entry->d_name[1] == '\0' || entry->d_name[1] == '.'))
            continue;
        if (strcmp(path, "/dev") == 0 || strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0)
            continue;
        if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
            fence_add(build->fence, verb, path, S_ISDIR(st.st_mode) ? PATH_DIR : PATH_FILE,
                      setting);
    }
    closedir(root);
    return 0;
}

/* Kept for add_led(), which knows all writable roots. */
static void defer_led(struct build *build, enum fence_verb verb, struct path_place place,
                      const char *setting)
{
    size_t count = build->led_count + 1;
    build->led = must(reallocarray(build->led, count, sizeof(*build->led)));
    build->led[count - 1] =
        (struct led){.place = place, .setting = must_copy(setting), .verb = verb};
    build->led_count = count;
}

/* A name in /proc that is one process's, and another's, or nobody's, inside. */
static bool is_of_process(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9';
}

/* The sandbox has a /proc and a small /dev of its own, whose parts are the kernel's and the host's
 * nodes: nobody's to give. */
static bool is_taken(enum fence_verb verb, const char *path)
{
    bool lacks = path_within(path, "/dev") && cell_dev(path) == CELL_DEV_ABSENT;
    return (verb == FENCE_ALLOW_WRITE &&
            (path_within(path, "/proc") || path_within(path, "/dev"))) ||
           (verb == FENCE_ALLOW_READ && lacks);
}

/* What can be written to anyhow needs no word. */
static void warn_about_taken(struct build *build, const struct path_place *place,
                             const char *absolute, const char *setting)
{
    const char *own = path_within(place->path, "/proc") ? "/proc" : "/dev";
    bool there = strcmp(own, "/dev") == 0 && cell_dev(place->path) != CELL_DEV_ABSENT;
    if (!there && place->type != PATH_ABSENT && path_within(absolute, own))
        WARNING(build, "%s: the sandbox has a %s of its own, so the entry gives nothing", setting,
                own);
}

static int refuse_process(struct build *build, const char *path, const char *setting)
{
    return srt_err_set(build->err,
                       "%s: %s is of a process outside, and the sandbox has a /proc of its own, "
                       "without such processes; leave the entry out",
                       setting, path);
}

static int resolve(struct build *build, const char *absolute, const char *setting,
                   struct path_place *place)
{
    if (path_resolve(absolute, place, build->err) == 0)
        return 0;
    struct srt_err cause = *build->err;
    return srt_err_set(build->err, "%s: %.900s", setting, cause.text);
}

/* To whom it is a surprise. */
static const char *for_root(void)
{
    return geteuid() == 0 ? "; in the sandbox root has none of its capabilities" : "";
}

static void warn_about_mode(struct build *build, const char *path, const char *setting)
{
    if (geteuid() == 0 && !rights_may(path, W_OK) && errno == EACCES)
        WARNING(build, "%s: the owner and mode of %s let root write to it by a capability alone%s",
                setting, path, for_root());
}

int rules_add_place(struct build *build, enum fence_verb verb, const char *absolute,
                    const char *setting)
{
    struct path_place place;
    if (resolve(build, absolute, setting, &place) != 0)
        return -1;
    int result = 0;
    bool denies = verb_denies(verb);
    if (is_taken(verb, place.path) || is_of_process(place.path)) {
        if (is_taken(verb, place.path))
            warn_about_taken(build, &place, absolute, setting);
        else if (denies && path_within(absolute, "/proc"))
            result = refuse_process(build, place.path, setting);
        path_place_free(&place);
        return result;
    }
    if (denies)
        for (size_t i = 0; i < place.link_count; i++)
            fence_add(build->fence, FENCE_KEEP, place.links[i], PATH_SYMLINK, setting);

    if (place.type == PATH_ABSENT && denies) {
        add_absent(build, verb, place.path, setting);
    } else if (place.type == PATH_UNREADABLE && !denies) {
        WARNING(build, "%s: %s cannot be looked into, so the entry gives nothing%s", setting,
                place.path, for_root());
    } else if (place.type == PATH_ABSENT) {
        DETAIL(build, "%s: %s does not exist, so there is nothing to allow", setting, absolute);
        if (verb == FENCE_ALLOW_WRITE)
            fence_add_missing(build->fence, place.path, setting);
    } else if (!denies && place.link_count > 0 && !build->judging_led) {
        defer_led(build, verb, place, setting);
        return 0;
    } else if (strcmp(place.path, "/") == 0 && verb != FENCE_DENY_WRITE) {
        result = add_top_level(build, verb, setting);
    } else {
        enum path_type type = place.type == PATH_UNREADABLE ? PATH_DIR : place.type;
        fence_add(build->fence, verb, place.path, type, setting);
        if (denies)
            rules_warn_about_links(build, place.path, setting);
        else if (verb == FENCE_ALLOW_WRITE)
            warn_about_mode(build, place.path, setting);
    }
    path_place_free(&place);
    return result;
}

struct glob {
    struct build *build;
    enum fence_verb verb;
    const char *pattern, *setting;
    size_t matches;
    char *of_process; /* the first match of that kind */
};

static bool on_glob_entry(void *context, const struct tree_entry *entry)
{
    struct glob *glob = context;
    bool matches = path_glob_match(glob->pattern, entry->relative);
    if (is_taken(glob->verb, entry->path) ||
        (glob->verb == FENCE_ALLOW_WRITE && strcmp(entry->path, "/sys") == 0))
        return false; /* as with "/" */
    if (is_of_process(entry->path)) {
        if (matches && glob->of_process == NULL)
            glob->of_process = must_copy(entry->path);
        return !matches && glob->of_process == NULL;
    }
    bool reaches = path_glob_reaches(glob->pattern, entry->relative);
    if (entry->type == PATH_UNREADABLE) {
        /* Something below may match and cannot be seen: then all of it is taken as matching. */
        if (verb_denies(glob->verb) && (matches || reaches))
            fence_add(glob->build->fence, glob->verb, entry->path, PATH_DIR, glob->setting);
        return false;
    }
    if (!matches)
        return reaches;
    if (rules_add_shut(glob->build, glob->verb, entry->path, glob->setting))
        return false;
    glob->matches++;
    if (entry->type == PATH_SYMLINK)
        rules_add_place(glob->build, glob->verb, entry->path, glob->setting);
    else
        fence_add(glob->build->fence, glob->verb, entry->path, entry->type, glob->setting);
    if (entry->type == PATH_FILE && verb_denies(glob->verb))
        rules_warn_about_links(glob->build, entry->path, glob->setting);
    return false; /* a directory that matches is taken whole */
}

/* In a directory, links resolved. */
static int add_matches(struct glob *glob, const char *dir)
{
    struct build *build = glob->build;
    const char *pattern = glob->pattern, *setting = glob->setting;
    const bool whole = path_glob_match(pattern, ""); /* `**` and `dir/``**` */
    if (glob->verb == FENCE_DENY_WRITE)
        fence_add_glob(build->fence, dir, pattern, setting);
    if (whole && rules_add_place(build, glob->verb, dir, setting) != 0)
        return -1;
    /* An allow at the directory itself lifts that one, but not what is matched in it. */
    if (whole && (glob->verb != FENCE_DENY_READ || strcmp(dir, "/") == 0))
        glob->matches = 1;
    else if (tree_walk(dir, build->deadline_ms, on_glob_entry, glob, build->err) != 0)
        return srt_err_set(build->err,
                           "%s: %s is too large to be searched for \"%s\" within %d s; begin the "
                           "pattern with a narrower directory",
                           setting, dir, pattern, SEARCH_MS / 1000);
    if (glob->of_process != NULL && verb_denies(glob->verb))
        return refuse_process(build, glob->of_process, setting);
    if (glob->verb == FENCE_ALLOW_WRITE && glob->matches == 0 && !whole)
        WARNING(build,
                "%s: \"%s\" matches nothing that is there now, so the entry gives nothing; name "
                "the directory to write in",
                setting, pattern);
    DETAIL(build, "%s: \"%s\" below %s matches %zu names now", setting, pattern, dir,
           glob->matches);
    return 0;
}

int rules_add_glob(struct build *build, enum fence_verb verb, const char *base, const char *pattern,
                   const char *setting)
{
    struct path_place place;
    if (resolve(build, base, setting, &place) != 0)
        return -1;
    struct glob glob = {.build = build, .verb = verb, .pattern = pattern, .setting = setting};
    int result = 0;
    if (place.type == PATH_DIR)
        result = add_matches(&glob, place.path);
    else if (place.type == PATH_UNREADABLE && verb_denies(verb))
        fence_add(build->fence, verb, place.path, PATH_DIR, setting);
    free(glob.of_process);
    path_place_free(&place);
    return result;
}

/* Splits at the last slash before the first glob character. */
static int add_glob(struct build *build, enum fence_verb verb, const char *name,
                    const char *setting)
{
    size_t first = strcspn(name, "*?[");
    size_t split = first;
    while (split > 0 && name[split - 1] != '/')
        split--;
    const char *pattern = name + split;
    bool anywhere = split == 0 && name[0] != '~';

    autofree char *head = split == 0 ? must_copy(".") : must(strndup(name, split));
    autofree char *base = path_absolute(head, build->world->cwd, build->world->home, build->err);
    if (base == NULL)
        return -1;
    if (rules_add_glob(build, verb, base, pattern, setting) != 0)
        return -1;
    if (!anywhere && name[0] != '.')
        return 0;

    /* A relative glob also holds below every writable root (INTERFACE 2.3). */
    size_t known = build->fence->count;
    for (size_t i = 0; anywhere && i < known; i++) {
        const struct fence_rule *rule = &build->fence->rules[i];
        if (rule->verb != FENCE_ALLOW_WRITE || rule->type != PATH_DIR ||
            path_within(rule->path, build->world->cwd))
            continue;
        autofree char *root = must_copy(rule->path);
        if (rules_add_glob(build, verb, root, pattern, setting) != 0)
            return -1;
    }
    return 0;
}

/* What shells expand and settings do not. Such a name is possible, but hardly ever meant. */
static void warn_about_words(struct build *build, const struct settings_text *item)
{
    const char *text = item->text, *brace = strchr(text, '{');
    bool home_of_other = text[0] == '~' && text[1] != '\0' && text[1] != '/';
    bool list = brace != NULL && strchr(brace, ',') != NULL && strchr(brace, '}') != NULL;
    if (!item->literal && (home_of_other || list || text[0] == '!' || strchr(text, '$') != NULL))
        WARNING(build,
                "%s: no such name as \"%s\"; ~USER, $, {,} and ! have no meaning in settings, only "
                "~ and the globs * ? [ ] **",
                item->setting, text);
}

static int add_entry(struct build *build, enum fence_verb verb, const struct settings_text *item)
{
    autofree char *absolute =
        path_absolute(item->text, build->world->cwd, build->world->home, build->err);
    if (absolute == NULL) {
        struct srt_err cause = *build->err;
        return srt_err_set(build->err, "%s: %.900s", item->setting, cause.text);
    }
    struct stat st;
    bool exists = lstat(absolute, &st) == 0;
    if (!exists)
        warn_about_words(build, item);
    if (!item->literal && path_is_glob(item->text)) {
        if (exists && rules_add_place(build, verb, absolute, item->setting) != 0)
            return -1;
        return add_glob(build, verb, item->text, item->setting);
    }
    return rules_add_place(build, verb, absolute, item->setting);
}

/* A command that may write in a directory can leave a link there, for the next run to follow: a
 * link inside a writable root that leads out of it gives nothing. */
static bool leads_out(const struct fence *fence, const struct path_place *place)
{
    for (size_t i = 0; i < fence->count; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        if (rule->verb != FENCE_ALLOW_WRITE || path_within(place->path, rule->path))
            continue;
        for (size_t j = 0; j < place->link_count; j++)
            if (path_within(place->links[j], rule->path))
                return true;
    }
    return false;
}

static void remember_shown(struct build *build, char *link, const char *setting)
{
    build->shown = must(reallocarray(build->shown, build->shown_count + 1, sizeof(*build->shown)));
    build->shown[build->shown_count++] =
        (struct shown){.path = link, .setting = must_copy(setting)};
}

static bool holds_secret(const struct fence *fence, const char *path)
{
    for (size_t i = 0; i < fence->count; i++)
        if (fence->rules[i].verb == FENCE_HIDE_SECRET && path_within(path, fence->rules[i].path))
            return true;
    return false;
}

/* What is allowed by the name of a link is to be had by that name, too, where its directory is
 * hidden; not in what nothing lifts. The rules are sorted. */
static void show_links(struct build *build)
{
    for (size_t i = 0; i < build->shown_count; i++) {
        struct shown *shown = &build->shown[i];
        if (!fence_view(build->fence, shown->path).readable &&
            !holds_secret(build->fence, shown->path)) {
            fence_add(build->fence, FENCE_SHOW, shown->path, PATH_SYMLINK, shown->setting);
            fence_seal(build->fence);
        }
    }
}

static void free_shown(struct build *build)
{
    for (size_t i = 0; i < build->shown_count; i++) {
        free(build->shown[i].path);
        free(build->shown[i].setting);
    }
    free(build->shown);
}

static int add_led(struct build *build)
{
    int result = 0;
    build->judging_led = true;
    for (size_t i = 0; i < build->led_count; i++) {
        struct led *led = &build->led[i];
        if (leads_out(build->fence, &led->place))
            WARNING(build,
                    "%s: a symbolic link inside a writable directory leads out of it to %s; the "
                    "entry gives nothing",
                    led->setting, led->place.path);
        else if (result == 0) {
            result = rules_add_place(build, led->verb, led->place.path, led->setting);
            for (size_t j = 0; j < led->place.link_count; j++)
                remember_shown(build, steal_ptr(led->place.links[j]), led->setting);
        }
        path_place_free(&led->place);
        free(led->setting);
    }
    free(build->led);
    build->led = NULL;
    build->led_count = 0;
    build->judging_led = false;
    return result;
}

static int add_list(struct build *build, enum fence_verb verb, const struct settings_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (add_entry(build, verb, &list->items[i]) != 0)
            return -1;
    return 0;
}

/* Written by tools that everybody runs; only where they exist already. */
static int add_default_writes(struct build *build)
{
    static const char *const names[] = {"~/.npm/_logs", "~/.claude/debug"};
    for (size_t i = 0; build->world->home != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        autofree char *absolute =
            path_absolute(names[i], build->world->cwd, build->world->home, build->err);
        if (absolute == NULL || !rights_may(absolute, W_OK))
            continue;
        if (!fence_view(build->fence, absolute).readable)
            continue;
        if (rules_add_place(build, FENCE_ALLOW_WRITE, absolute, "default") != 0)
            return -1;
        fence_seal(build->fence);
    }
    return 0;
}

static int add_fixed(struct build *build)
{
    const struct rules_world *world = build->world;
    for (size_t i = 0; world->never_write != NULL && world->never_write[i] != NULL; i++)
        if (rules_add_place(build, FENCE_DENY_WRITE, world->never_write[i],
                            "protected: srt-launch itself") != 0)
            return -1;
    for (size_t i = 0; world->never_read != NULL && world->never_read[i] != NULL; i++)
        if (rules_add_place(build, FENCE_HIDE_SECRET, world->never_read[i],
                            "protected: the gateway") != 0)
            return -1;
    return 0;
}

static int build_rules(struct build *build, const struct settings *settings)
{
    const struct settings_filesystem *fs = &settings->filesystem;
    if (fs->disabled) {
        /* The settings ask for no fence around files; what belongs to us stays out of reach. */
        build->fence->protect.groups = 0;
        WARNING(build, "filesystem.disabled: there is no fence around files; network, processes "
                       "and system calls are fenced");
        return add_top_level(build, FENCE_ALLOW_WRITE, "filesystem.disabled") != 0
                   ? -1
                   : add_fixed(build);
    }
    for (size_t i = 0; i < settings->launch.protect.count; i++) {
        const struct settings_text *item = &settings->launch.protect.items[i];
        struct srt_err why;
        if (protect_apply(&build->fence->protect, item->text, &why) != 0)
            return srt_err_set(build->err, "%s:%u:%u: %.900s", settings->file, item->line,
                               item->column, why.text);
    }
    /* Writable roots first: relative globs and the search need them. */
    if (add_list(build, FENCE_ALLOW_WRITE, &fs->allow_write) != 0 || add_led(build) != 0 ||
        add_list(build, FENCE_DENY_READ, &fs->deny_read) != 0 ||
        add_list(build, FENCE_ALLOW_READ, &fs->allow_read) != 0 || add_led(build) != 0 ||
        add_list(build, FENCE_HIDE_SECRET, &settings->credential_files_deny) != 0 ||
        add_list(build, FENCE_DENY_WRITE, &fs->deny_write) != 0)
        return -1;
    fence_seal(build->fence);
    if (add_default_writes(build) != 0 || rules_protect(build) != 0)
        return -1;
    return add_fixed(build);
}

int rules_build(struct fence *fence, const struct settings *settings,
                const struct rules_world *world, struct rules_notes *notes, struct srt_err *err)
{
    autorights struct rights outside = rights_as_inside();
    struct srt_err unwanted;
    struct build build = {.fence = fence,
                          .world = world,
                          .notes = notes,
                          .deadline_ms = clock_ms() + SEARCH_MS,
                          .err = err != NULL ? err : &unwanted};
    fence->protect = protect_default(settings->filesystem.allow_git_config);
    int result = build_rules(&build, settings);
    fence_seal(fence);
    show_links(&build);
    free_shown(&build);
    if (notes->linked > LINKED_SHOWN)
        WARNING(&build,
                "%zu more guarded files have hard links, whose other names are not guarded; "
                "--verbose lists them",
                notes->linked - LINKED_SHOWN);
    return result;
}

int rules_guard(struct fence *fence, enum fence_verb verb, const char *absolute,
                const char *setting, struct rules_notes *notes, struct srt_err *err)
{
    autorights struct rights outside = rights_as_inside();
    struct build build = {.fence = fence, .notes = notes, .err = err};
    int result = rules_add_place(&build, verb, absolute, setting);
    fence_seal(fence);
    return result;
}
