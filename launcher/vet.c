#include "launcher/vet.h"

#include "launcher/gitconfig.h"
#include "launcher/gitconfig_harmless.h"
#include "launcher/gitplace.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_MAX_SIZE = 256 * 1024 };

struct content {
    char *bytes;
    size_t len;
    mode_t mode;
};

static void content_free(struct content *content)
{
    free(content->bytes);
}

#define autocontent __attribute__((cleanup(content_free)))

/* The bytes as they are now, in memory of ours. */
static int take(int fd, struct content *content)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX_SIZE)
        return -EFBIG;
    content->bytes = malloc(FILE_MAX_SIZE + 1);
    if (content->bytes == NULL)
        return -ENOMEM;
    content->mode = st.st_mode & 0777;
    for (content->len = 0; content->len <= FILE_MAX_SIZE;) {
        ssize_t n = pread(fd, content->bytes + content->len, FILE_MAX_SIZE + 1 - content->len,
                          (off_t)content->len);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        content->len += (size_t)n;
    }
    return -EFBIG;
}

static int take_named(int dir, const char *name, struct content *content)
{
    autoclose int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return take(fd, content);
}

enum vet_kind vet_kind(const struct fence *fence, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    bool link = strcmp(name, ".git") == 0, modules = strcmp(name, ".gitmodules") == 0;
    bool config = strcmp(name, "config") == 0, common = strcmp(name, "commondir") == 0;
    if (!link && !modules && !config && !common)
        return VET_NOTHING;
    enum gitplace place = gitplace_of(path, (size_t)(name - path) - 1);
    if ((config && place == GITPLACE_NONE) || (common && place != GITPLACE_WORKTREE))
        return VET_NOTHING;
    enum protect_part fresh = fence_view(fence, path).fresh;
    if (fresh == PROTECT_CONFIG)
        return place == GITPLACE_MODULE ? VET_MODULE_CONFIG : VET_CONFIG;
    if (fresh == PROTECT_COMMON)
        return VET_COMMON;
    if (common || place == GITPLACE_WORKTREE || !fence_may_vet(fence, path))
        return VET_NOTHING;
    return link                       ? VET_LINK
           : modules                  ? VET_MODULES
           : place == GITPLACE_MODULE ? VET_MODULE_CHANGES
                                      : VET_CHANGES;
}

bool vet_is_written_in_place(enum vet_kind kind)
{
    return kind == VET_LINK || kind == VET_COMMON || kind == VET_MODULES;
}

/* Of the place that it names: whether all that git would obey there is protected. */
static bool is_guarded(const struct fence *fence, const char *dir)
{
    if (!fence_view(fence, dir).writable)
        return false;
    for (size_t i = 0; i < PROTECT_PARTS; i++) {
        autofree char *part = path_join(dir, protect_parts[i]);
        if (protect_part_of_any(&fence->protect, i) != NULL && fence_view(fence, part).writable)
            return false;
    }
    return true;
}

/* Names decide, so that it stays true when directories are moved; and where the path leads now, as
 * there may be links that were there before. */
static bool is_good_link(const struct fence *fence, const char *link, const struct content *content,
                         char why[VET_WHY_SIZE])
{
    const char *path;
    size_t len;
    if (!gitplace_read_link(content->bytes, content->len, &path, &len) || len >= PATH_MAX / 2) {
        snprintf(why, VET_WHY_SIZE, "not the one line that git writes");
        return false;
    }
    autofree char *text = must(strndup(path, len)), *top = path_parent(link);
    autofree char *absolute = text[0] == '/' ? must_copy(text) : path_join(top, text);
    struct path_place place = {0};
    enum gitplace named = gitplace_of(path, len);
    bool good = (named == GITPLACE_MODULE || named == GITPLACE_WORKTREE) &&
                path_resolve(absolute, &place, NULL) == 0 && place.type != PATH_UNREADABLE &&
                gitplace_of(place.path, strlen(place.path)) == named &&
                is_guarded(fence, place.path);
    path_place_free(&place);
    if (!good)
        snprintf(why, VET_WHY_SIZE,
                 "gitdir has to be .git/worktrees/NAME or .git/modules/NAME of a repository here");
    return good;
}

/* What stands there now, nothing where there is nothing. */
static int take_old(const struct vet_place *place, struct content *old)
{
    int result = take_named(place->dir, place->name, old);
    return result == -ENOENT ? 0 : result;
}

static int judge_changes(const struct vet_place *place, struct content *content,
                         char why[VET_WHY_SIZE])
{
    autocontent struct content old = {.len = 0};
    int result = take_old(place, &old);
    if (result != 0)
        return result;
    const char *old_bytes = old.bytes != NULL ? old.bytes : "";
    if (gitconfig_changes_harmless(old_bytes, old.len, content->bytes, content->len, why,
                                   VET_WHY_SIZE))
        return 0;
    if (place->kind != VET_MODULE_CHANGES)
        return -EROFS;
    if (old.bytes != NULL)
        old.len = gitconfig_without_worktree(old.bytes, old.len);
    content->len = gitconfig_without_worktree(content->bytes, content->len);
    return gitconfig_changes_harmless(old_bytes, old.len, content->bytes, content->len, why,
                                      VET_WHY_SIZE)
               ? 0
               : -EROFS;
}

static int judge(const struct vet_place *place, struct content *content, char why[VET_WHY_SIZE])
{
    bool good = false;
    switch (place->kind) {
    case VET_NOTHING:
        return -EROFS;
    case VET_CHANGES:
    case VET_MODULE_CHANGES:
        return judge_changes(place, content, why);
    case VET_MODULE_CONFIG:
        content->len = gitconfig_without_worktree(content->bytes, content->len);
        good = gitconfig_harmless(content->bytes, content->len, why, VET_WHY_SIZE);
        break;
    case VET_CONFIG:
        good = gitconfig_harmless(content->bytes, content->len, why, VET_WHY_SIZE);
        break;
    case VET_MODULES:
        good = gitconfig_modules_harmless(content->bytes, content->len, why, VET_WHY_SIZE);
        break;
    case VET_LINK:
        good = is_good_link(place->fence, place->path, content, why);
        break;
    case VET_COMMON:
        good = gitplace_is_common(content->bytes, content->len);
        if (!good)
            snprintf(why, VET_WHY_SIZE, "commondir has to be ../..");
        break;
    }
    return good ? 0 : -EROFS;
}

static int write_new(int dir, const char *name, const struct content *content, mode_t mode)
{
    autoclose int fd =
        openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < content->len;) {
        ssize_t n = write(fd, content->bytes + done, content->len - done);
        if (n < 0)
            return -errno;
        done += (size_t)n;
    }
    return fchmod(fd, mode) == 0 ? 0 : -errno;
}

static int put(const struct vet_place *place, struct content *content, mode_t mode,
               char why[VET_WHY_SIZE])
{
    struct stat there;
    int result = judge(place, content, why);
    if (result != 0)
        return result;
    if (fstatat(place->dir, place->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(there.st_mode)) {
        snprintf(why, VET_WHY_SIZE, "what is there is no file");
        return -EROFS;
    }
    char name[64]; /* one for each thread that answers */
    snprintf(name, sizeof(name), "%s%ld", protect_new_name, (long)syscall(SYS_gettid));
    unlinkat(place->dir, name, 0); /* one that a killed run has left */
    result = write_new(place->dir, name, content, mode);
    if (result == 0 && renameat(place->dir, name, place->dir, place->name) != 0)
        result = errno == EBUSY && place->replace != NULL
                     ? place->replace(place->context, place->dir, name, place->name)
                     : -errno;
    if (result != 0)
        unlinkat(place->dir, name, 0);
    return result;
}

static int too_large(int result, char why[VET_WHY_SIZE])
{
    if (result != -EFBIG)
        return result;
    snprintf(why, VET_WHY_SIZE, "not a file of at most %d KiB", FILE_MAX_SIZE / 1024);
    return -EROFS;
}

int vet_put(const struct vet_place *place, int file, mode_t mode, char why[VET_WHY_SIZE])
{
    autocontent struct content content = {.len = 0};
    int result = take(file, &content);
    return result != 0 ? too_large(result, why) : put(place, &content, mode, why);
}

int vet_rename(const struct vet_place *place, int from_dir, const char *from,
               char why[VET_WHY_SIZE])
{
    autocontent struct content content = {.len = 0};
    int result = take_named(from_dir, from, &content);
    result = result != 0 ? too_large(result, why) : put(place, &content, content.mode, why);
    if (result == 0)
        unlinkat(from_dir, from, 0);
    return result;
}

bool vet_found(const struct fence *fence, enum vet_kind kind, const char *path,
               char why[VET_WHY_SIZE])
{
    autocontent struct content content = {.len = 0};
    /* Without a name: nothing was there before. */
    struct vet_place place = {
        .fence = fence, .kind = kind, .dir = AT_FDCWD, .name = "", .path = path};
    int result = take_named(AT_FDCWD, path, &content);
    return (result != 0 ? too_large(result, why) : judge(&place, &content, why)) == 0;
}
