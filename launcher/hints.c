#include "launcher/hints.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <string.h>

/* Where tools keep what they have fetched, below the home directory. A directory of many tools is
 * not allowed whole. */
static const struct {
    const char *path;
    bool shared;
} caches[] = {
    {".cache", true},       {".local/share", true}, {".npm", false},    {".cargo", true},
    {".rustup", true},      {"go", true},           {".gradle", false}, {".m2", false},
    {".ivy2", false},       {".sbt", false},        {".yarn", false},   {".pnpm-store", false},
    {".bun", false},        {".deno", false},       {".nuget", false},  {".dotnet", false},
    {".gem", false},        {".bundle", false},     {".ccache", false}, {".conan2", false},
    {".composer", false},   {".pub-cache", false},  {".hex", false},    {".mix", false},
    {".terraform.d", false}};

static char *cache_hint(const struct hints_place *place, const char *path)
{
    const char *home = place->home, *below = path_below(path, home);
    for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
        size_t len = strlen(caches[i].path);
        if (!path_within(below, caches[i].path))
            continue;
        if (caches[i].shared && below[len] == '/')
            len += 1 + strcspn(below + len + 1, "/");
        autofree char *cache = must(strndup(path, (size_t)(below - path) + len));
        return must_format("a cache outside the sandbox; {\"filesystem\": {\"allowWrite\": "
                           "[\"~/%.*s\"]}} in the settings allows it%s",
                           (int)len, below,
                           access(cache, F_OK) != 0 ? ", once that directory is there" : "");
    }
    return NULL;
}

/* ~/bin, ~/.local/bin, ~/.cargo/bin, ~/go/bin: in the user's PATH, so no cache to be opened. */
static char *programs_hint(const struct hints_place *place, const char *path)
{
    const char *below = path_below(path, place->home), *second = strchr(below, '/');
    if (!path_within(below, "bin") && (second == NULL || !path_within(second + 1, "bin")))
        return NULL;
    return must_copy("programs in there are run outside the sandbox; install below the working "
                     "directory or $TMPDIR, or ask the user to install it");
}

/* The user's own configuration of git, and what git writes the next one into. */
static char *gitconfig_hint(const struct hints_place *place, const char *path)
{
    static const char *const names[] = {".gitconfig", ".gitconfig.lock", ".config/git/config",
                                        ".config/git/config.lock"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(path_below(path, place->home), names[i]) == 0)
            return must_copy("git -c KEY=VALUE sets it for one command, and with "
                             "GIT_CONFIG_GLOBAL=$TMPDIR/gitconfig in the environment git config "
                             "--global writes there; ask the user to make the change that stays");
    return NULL;
}

/* What the sandbox may write to whatever else it may. */
static const char *writable_places(const struct hints_place *place)
{
    return fence_view(place->fence, place->cwd).writable ? "inside the working directory or $TMPDIR"
                                                         : "below $TMPDIR";
}

/* Nobody is to be talked into opening the home directory for the sake of one file in it. */
static char *home_hint(const struct hints_place *place, const char *path)
{
    if (strchr(path_below(path, place->home), '/') != NULL)
        return NULL;
    return must_format("write %s, or ask the user to make the change; the home directory should "
                       "not be allowed whole",
                       writable_places(place));
}

/* A working directory that no setting names; the whole home directory, or more, is none to name. */
static char *cwd_hint(const struct hints_place *place, const char *path)
{
    if (!path_within(path, place->cwd) || fence_view(place->fence, place->cwd).writable ||
        (place->home != NULL && path_within(place->home, place->cwd)))
        return NULL;
    return must_copy("write below $TMPDIR, or ask the user for {\"filesystem\": {\"allowWrite\": "
                     "[\".\"]}} in the settings, which makes the working directory writable");
}

static char *gitdir_hint(const struct hints_place *place, const char *path)
{
    const struct fence_gitdir *gitdir = fence_gitdir_of(place->fence, path);
    if (gitdir == NULL)
        return NULL;
    return must_format("the repository of the work tree %s; {\"filesystem\": {\"allowWrite\": "
                       "[\"%s\"]}} in the settings allows it, and keeps its hooks and "
                       "configuration as they are",
                       gitdir->top, gitdir->dir);
}

/* Only what was there at the start can be written to. */
static char *missing_hint(const struct hints_place *place, const char *path)
{
    const struct fence *fence = place->fence;
    for (size_t i = 0; i < fence->missing_count; i++) {
        const struct fence_missing *missing = &fence->missing[i];
        if (!path_within(path, missing->path) && !path_within(missing->path, path))
            continue;
        return must_format("%s names %s, which was not there when the sandbox was started; it has "
                           "to be made outside, before",
                           missing->setting, missing->path);
    }
    return NULL;
}

typedef char *hint_of(const struct hints_place *place, const char *path);

static char *first_hint(hint_of *const *rows, const struct hints_place *place, const char *path)
{
    char *hint = NULL;
    for (; *rows != NULL && hint == NULL; rows++)
        hint = (*rows)(place, path);
    return hint;
}

static char *below_home_hint(const struct hints_place *place, const char *path)
{
    if (place->home == NULL || place->home[0] != '/' || !path_within(path, place->home))
        return NULL;
    static hint_of *const rows[] = {gitconfig_hint, programs_hint, cache_hint, home_hint, NULL};
    return first_hint(rows, place, path);
}

char *hints_for_write(const struct hints_place *place, const char *path)
{
    static hint_of *const rows[] = {gitdir_hint, missing_hint, cwd_hint, below_home_hint, NULL};
    char *hint = first_hint(rows, place, path);
    return hint != NULL ? hint
                        : must_format("write %s, or ask for its directory in filesystem.allowWrite",
                                      writable_places(place));
}
