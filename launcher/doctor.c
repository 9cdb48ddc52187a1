#include "launcher/doctor.h"

#include "launcher/landlock.h"
#include "launcher/paths.h"
#include "launcher/say.h"
#include "srt/cleanup.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LEFT_OPEN = 77 };

static const char *const namespaces[] = {"user", "pid", "ipc", "uts", "cgroup", "mnt", "net"};
enum { NAMESPACES = sizeof(namespaces) / sizeof(namespaces[0]) };

static bool put(const char *dir, const char *name, const char *text)
{
    autofree char *path = path_join(dir, name);
    autoclose int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    size_t len = strlen(text);
    return fd >= 0 && write(fd, text, len) == (ssize_t)len;
}

/* ---- inside: each of these returns true when the promise holds ---- */

static const char *host_namespaces;
static long host_landlock; /* its version, 0 = none */

static bool opens(const char *path, int flags)
{
    autoclose int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd >= 0;
}

static bool can_work(void)
{
    const char *tmp = getenv("TMPDIR");
    return opens("work/new", O_CREAT | O_WRONLY) && tmp != NULL && access(tmp, W_OK) == 0;
}

static bool outside_is_read_only(void)
{
    return !opens("outside", O_WRONLY) && !opens("new", O_CREAT | O_WRONLY) &&
           unlink("outside") != 0;
}

static bool denied_directory_is_empty(void)
{
    return !opens("hidden/secret", O_RDONLY) && !opens("hidden/new", O_CREAT | O_WRONLY);
}

static bool denied_file_is_closed(void)
{
    return !opens("secret", O_RDONLY) && errno == EACCES && chmod("secret", 0600) != 0;
}

static bool protected_files_stay(void)
{
    return !opens("work/.bashrc", O_WRONLY) && rename("work/.bashrc", "work/x") != 0 &&
           !opens("work/.git/hooks/new", O_CREAT | O_WRONLY) && rename("work/.git", "work/g") != 0;
}

static bool protected_names_do_not_appear(void)
{
    return !opens("work/.zshrc", O_CREAT | O_WRONLY) && mkdir("work/.vscode", 0700) != 0 &&
           symlink("new", "work/.profile") != 0 && rename("work/new", "work/.envrc") != 0;
}

static bool new_repositories_are_harmless(void)
{
    static const char evil[] = "[core]\n\tfsmonitor = x\n", good[] = "[core]\n\tbare = false\n";
    bool made = mkdir("work/n", 0700) == 0 && mkdir("work/n/.git", 0700) == 0 &&
                mkdir("work/n/.git/hooks", 0700) == 0 && put(".", "work/n/evil", evil) &&
                put(".", "work/n/good", good) && rename("work/n/good", "work/n/.git/config") == 0;
    return made && rename("work/n/evil", "work/n/.git/config") != 0 &&
           !opens("work/n/.git/config", O_WRONLY) &&
           !opens("work/n/.git/hooks/pre-commit", O_CREAT | O_WRONLY) &&
           !opens("work/.git/commondir", O_CREAT | O_WRONLY);
}

static bool no_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    return syscall(SYS_capget, &header, caps) == 0 &&
           (caps[0].permitted | caps[1].permitted | caps[0].effective | caps[1].effective) == 0 &&
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static bool namespaces_are_new(void)
{
    for (size_t i = 0; i < NAMESPACES; i++) {
        char path[32], id[64];
        snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
        ssize_t len = readlink(path, id, sizeof(id) - 1);
        if (len <= 0)
            return false;
        id[len] = '\0';
        if (strstr(host_namespaces, id) != NULL)
            return false;
    }
    return true;
}

static bool process_1_is_out_of_reach(void)
{
    return !opens("/proc/1/mem", O_RDWR) && !opens("/proc/1/environ", O_RDONLY) &&
           ptrace(PTRACE_ATTACH, 1, NULL, NULL) != 0;
}

/* Where the kernel's Landlock cannot hold signals, process 1 is safe from them by being process 1.
 */
static bool signals_stay_inside(void)
{
    enum { HOLDS_SIGNALS = 6 };
    return host_landlock < HOLDS_SIGNALS || (kill(1, 0) != 0 && errno == EPERM);
}

static bool proc_sys_is_read_only(void)
{
    return !opens("/proc/sys/kernel/hostname", O_WRONLY) &&
           !opens("/proc/sys/vm/swappiness", O_WRONLY);
}

static bool no_new_walls(void)
{
    return unshare(CLONE_NEWUSER) != 0 && mount("x", "/mnt", "tmpfs", 0, NULL) != 0 &&
           umount2("/proc", MNT_DETACH) != 0 && syscall(SYS_clone3, NULL, 0) != 0 &&
           errno == ENOSYS;
}

static bool no_strange_sockets(void)
{
    static const struct {
        int family, type;
    } rows[] = {{AF_UNIX, SOCK_STREAM},
                {AF_PACKET, SOCK_RAW},
                {AF_INET, SOCK_RAW},
                {AF_VSOCK, SOCK_STREAM},
                {AF_ALG, SOCK_SEQPACKET}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        autoclose int fd = socket(rows[i].family, rows[i].type, 0);
        if (fd >= 0)
            return false;
    }
    return syscall(SYS_io_uring_setup, 8, NULL) != 0 && errno == ENOSYS;
}

static bool terminal_is_safe(void)
{
    return ioctl(STDIN_FILENO, TIOCSTI, "x") != 0 && errno == EPERM;
}

static bool network_is_empty(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
           errno == ENETUNREACH;
}

static bool descriptors_are_closed(void)
{
    return fcntl(LEFT_OPEN, F_GETFD) < 0;
}

static const struct {
    const char *promise;
    bool (*holds)(void);
} probes[] = {
    {"the writable directory and TMPDIR can be written to", can_work},
    {"nothing else can be written to", outside_is_read_only},
    {"a denied directory is empty and read-only", denied_directory_is_empty},
    {"a denied file cannot be opened", denied_file_is_closed},
    {"protected files cannot be changed or moved away", protected_files_stay},
    {"protected names cannot come to be", protected_names_do_not_appear},
    {"no capabilities and no way to new ones", no_capabilities},
    {"user, pid, ipc, uts, cgroup, mount and network namespaces of its own", namespaces_are_new},
    {"process 1 cannot be read, written or traced", process_1_is_out_of_reach},
    {"process 1 cannot be signalled where Landlock knows signals", signals_stay_inside},
    {"a new repository gets neither hooks nor a configuration that runs something",
     new_repositories_are_harmless},
    {"/proc/sys is read-only", proc_sys_is_read_only},
    {"no new namespaces, no mounts", no_new_walls},
    {"no Unix, raw, packet, vsock or alg sockets, no io_uring", no_strange_sockets},
    {"nothing can be typed into the terminal", terminal_is_safe},
    {"no network", network_is_empty},
    {"no inherited descriptors", descriptors_are_closed},
};

int doctor_inside(const char *dir, const char *outside, const char *landlock)
{
    host_namespaces = outside;
    host_landlock = strtol(landlock, NULL, 10);
    int status = 0;
    if (chdir(dir) != 0)
        return EXIT_FAILED;
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        bool holds = probes[i].holds();
        printf("%s: %s\n", holds ? "ok" : "BROKEN", probes[i].promise);
        if (!holds)
            status = 1;
    }
    return status;
}

/* Nobody is at that address, and nobody has told this program of a proxy: the gateway answers. */
int doctor_transparent(void)
{
    static const char ask[] = "GET / HTTP/1.0\r\n\r\n", expected[] = "HTTP/1.1 403 ";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};
    char answer[sizeof(expected)] = "";
    inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answered = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                    send(fd, ask, strlen(ask), MSG_NOSIGNAL) == (ssize_t)strlen(ask) &&
                    recv(fd, answer, strlen(expected), MSG_WAITALL) == (ssize_t)strlen(expected) &&
                    strcmp(answer, expected) == 0;
    printf("%s: with --egress transparent the gateway answers at every address\n",
           answered ? "ok" : "BROKEN");
    return answered ? 0 : 1;
}

/* ---- outside ---- */

static bool put_dir(const char *dir, const char *name)
{
    autofree char *path = path_join(dir, name);
    return mkdir(path, 0700) == 0;
}

/* Every probe is a violation; none of them is news. */
static const char settings_text[] =
    "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []},\n"
    " \"filesystem\": {\"allowWrite\": [\"work\"], \"denyRead\": [\"hidden\", \"secret\"], "
    "\"denyWrite\": []},\n"
    " \"ignoreViolations\": {\"*\": [\"deny \"]}}\n";

static bool prepare(const char *dir)
{
    return put_dir(dir, "work") && put_dir(dir, "work/.git") && put_dir(dir, "work/.git/hooks") &&
           put_dir(dir, "hidden") && put(dir, "hidden/secret", "x") && put(dir, "secret", "x") &&
           put(dir, "outside", "x") && put(dir, "work/.bashrc", "x") &&
           put(dir, "settings.json", settings_text);
}

static void clear(const char *dir)
{
    static const char *const files[] = {
        "work/n/.git/config", "work/n/evil", "work/n/good", "work/new", "work/.bashrc", "work/x",
        "hidden/secret",      "secret",      "outside",     "new",      "settings.json"};
    static const char *const dirs[] = {
        "work/n/.git/hooks", "work/n/.git", "work/n", "work/.git/hooks",
        "work/.git",         "work",        "hidden"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        autofree char *path = path_join(dir, files[i]);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        autofree char *path = path_join(dir, dirs[i]);
        rmdir(path);
    }
    rmdir(dir);
}

/* Runs this program with these words in `dir`; its exit status, 128+N for a signal. */
static int run_self(const char *dir, const char *const *words)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(dir) != 0 || dup2(STDIN_FILENO, LEFT_OPEN) < 0)
            _exit(EXIT_FAILED);
        execv("/proc/self/exe", (char *const *)(uintptr_t)words);
        _exit(EXIT_FAILED);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return EXIT_FAILED;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int examine(const char *dir, const char *self, const char *ids)
{
    char landlock[16];
    snprintf(landlock, sizeof(landlock), "%d", landlock_version());
    const char *const inside[] = {"srt-launch", "-s", "settings.json",   "--egress", "none",
                                  "--",         self, "--doctor-inside", dir,        ids,
                                  landlock,     NULL};
    const char *const way_out[] = {"srt-launch", "-s", "settings.json", "--gateway",
                                   "private",    "--", "/bin/true",     NULL};
    int fence = run_self(dir, inside);
    if (fence > 1)
        puts("BROKEN: a sandbox cannot be started (the reason is on standard error)");
    int gateway = run_self(dir, way_out);
    printf("%s: a private gateway takes the sandbox's way out\n", gateway == 0 ? "ok" : "BROKEN");
    const char *const redirected[] = {"srt-launch",
                                      "-s",
                                      "settings.json",
                                      "--gateway",
                                      "private",
                                      "--egress",
                                      "transparent",
                                      "--",
                                      self,
                                      "--doctor-transparent",
                                      NULL};
    int transparent = gateway == 0 ? run_self(dir, redirected) : EXIT_FAILED;
    if (transparent == EXIT_FAILED)
        puts("note: --egress transparent is not to be had here (the reason is on standard error)");
    bool good = fence == 0 && gateway == 0 && (transparent == 0 || transparent == EXIT_FAILED);
    puts(good ? "the fence holds here" : "the fence does NOT hold here");
    return good ? 0 : EXIT_FAILED;
}

int doctor_run(char *const *words)
{
    char dir[] = "/tmp/srt-doctor-XXXXXX", self[4096], ids[NAMESPACES * 64] = "";
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (words[0] != NULL || len <= 0) {
        fputs("usage: srt-launch doctor\n", stderr);
        return EXIT_FAILED;
    }
    self[len] = '\0';
    for (size_t i = 0; i < NAMESPACES; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
        size_t used = strlen(ids);
        ssize_t got = readlink(path, ids + used, sizeof(ids) - used - 1);
        ids[used + (got > 0 ? (size_t)got : 0)] = '\0';
    }
    /* SRT_GATEWAY is about another gateway than the one examined here. */
    unsetenv("SRT_GATEWAY");
    if (mkdtemp(dir) == NULL || !prepare(dir))
        return fail("doctor needs a directory in /tmp: %s", strerror(errno));
    if (landlock_version() > 0)
        printf("note: Landlock (version %d) stands behind the mounts\n", landlock_version());
    else
        printf("note: %s\n", landlock_missing());
    int status = examine(dir, self, ids);
    clear(dir);
    return status;
}
