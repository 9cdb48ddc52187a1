#include "launcher/remedy.h"

#include "srt/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

struct page {
    char *text;
    size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void add(struct page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(page->text + page->len, page->size - page->len, format, args);
    va_end(args);
    if (len > 0)
        page->len +=
            (size_t)len < page->size - page->len ? (size_t)len : page->size - page->len - 1;
}

static FILE *open_at(const char *root, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", root, path);
    return fopen(full, "re");
}

/* A switch of the kernel has this value; one that does not exist has none. */
static bool is_set_to(const char *root, const char *path, int value)
{
    autofclose FILE *file = open_at(root, path);
    int is;
    return file != NULL && fscanf(file, "%d", &is) == 1 && is == value;
}

static bool is_filtered(const char *root)
{
    autofclose FILE *file = open_at(root, "/proc/self/status");
    char line[256];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "Seccomp:", 8) == 0)
            return strchr(line, '2') != NULL;
    return false;
}

static void about_namespaces(struct page *page, const char *bwrap, const char *root)
{
    size_t before = page->len;
    if (is_set_to(root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1))
        add(page,
            "\n  AppArmor keeps programs without a profile from user namespaces "
            "(kernel.apparmor_restrict_unprivileged_userns = 1). Write this to "
            "/etc/apparmor.d/bwrap, then run: apparmor_parser -r /etc/apparmor.d/bwrap\n"
            "    abi <abi/4.0>,\n    include <tunables/global>\n"
            "    profile bwrap %s flags=(unconfined) {\n      userns,\n    }",
            bwrap);
    if (is_set_to(root, "/proc/sys/kernel/unprivileged_userns_clone", 0))
        add(page, "\n  this kernel keeps users from user namespaces; run: "
                  "sysctl -w kernel.unprivileged_userns_clone=1");
    if (is_set_to(root, "/proc/sys/user/max_user_namespaces", 0))
        add(page, "\n  no user namespace may be made here (user.max_user_namespaces = 0); run: "
                  "sysctl -w user.max_user_namespaces=15000");
    if (page->len > before)
        return;
    add(page,
        "\n  unprivileged user namespaces are needed: see that user.max_user_namespaces and, "
        "where they exist, kernel.unprivileged_userns_clone are not 0 and "
        "kernel.apparmor_restrict_unprivileged_userns is not 1 (sysctl); in a chroot nobody may "
        "make one");
    if (is_filtered(root))
        add(page, "\n  a system call filter is in force, as in a container: it has to allow "
                  "unshare, clone, mount and pivot_root (docker: --security-opt seccomp=FILE)");
}

static bool has_one_of(const char *text, const char *const *words)
{
    while (*words != NULL && strstr(text, *words) == NULL)
        words++;
    return *words != NULL;
}

const char *remedy_for(char *out, size_t size, const char *complaint, const char *bwrap,
                       const char *root, bool nested)
{
    static const char *const namespaces[] = {"uid map", "namespace", "loopback",
                                             "RTM_",    "unshare",   NULL};
    struct page page = {.text = out, .size = size};
    out[0] = '\0';
    bool proc = strstr(complaint, "mount proc") != NULL;
    if (nested && !proc)
        add(&page, "\n  this runs inside a sandbox of srt-launch; another one in it needs "
                   "\"allowNestedUserNamespaces\": true in the settings of the outer one, and a "
                   "user other than root");
    else if (has_one_of(complaint, namespaces))
        about_namespaces(&page, bwrap, root);
    else if (proc)
        add(&page, "\n  parts of /proc are covered, as in a container, so no new one may be "
                   "mounted; run it with --security-opt systempaths=unconfined, or set "
                   "\"enableWeakerNestedSandbox\": true to go on with the one that is here");
    return out;
}

static const char *limit_behind(int error)
{
    switch (error) {
    case EFBIG:
        return "; raise the limit on the size of files (ulimit -f)";
    case EAGAIN:
        return "; raise the limit on processes (ulimit -u)";
    case EMFILE:
        return "; raise the limit on open files (ulimit -n)";
    case ETOOMANYREFS: /* sendmsg() with descriptors, by whoever has no CAP_SYS_RESOURCE */
        return "; raise the limit on open files (ulimit -n), which holds for all that this user's "
               "processes are passing on, too";
    case ENOMEM:
        return "; raise the limits on memory (ulimit -d, ulimit -v)";
    default:
        return "";
    }
}

const char *remedy_error(int error)
{
    static char text[256];
    snprintf(text, sizeof(text), "%s%s", strerror(error), limit_behind(error));
    return text;
}
