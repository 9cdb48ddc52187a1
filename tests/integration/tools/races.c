/*
 * Tries for some seconds to make protected names come to be, by changing everything that a path
 * consists of while a call is on its way: the string, links, directories above, descriptors, the
 * working directory.
 *
 *   races SECONDS      in a directory that has nothing but a file `f`
 *
 * Prints how many calls made something, as a race that nothing wins proves nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SWAPPED = 200 }; /* a descriptor that leads now here, now there */

static char name[32] = "harmless";
static char nested[32] = "a/harmless";
static char by_fd[48] = "/proc/self/fd/200/settings.json";
static atomic_int stop;
static atomic_long made;

#define TRY(call)        \
    do {                 \
        if ((call) >= 0) \
            made++;      \
    } while (0)

static void touch(int fd)
{
    if (fd < 0)
        return;
    made++;
    close(fd);
}

static void *swap_strings(void *unused)
{
    (void)unused;
    static const char *const names[] = {".bashrc",  "harmless", ".vscode",
                                        "harmless", ".zshrc",   "harmless"};
    for (unsigned i = 0; !stop; i++) {
        const char *next = names[i % 6];
        memcpy(name, next, strlen(next) + 1);
        memcpy(nested + 2, next, strlen(next) + 1);
    }
    return NULL;
}

static void *swap_links(void *unused)
{
    (void)unused;
    static const char *const targets[] = {"harmless", ".bashrc", "a", "q", "/proc/self/cwd/.zshrc"};
    for (unsigned i = 0; !stop; i++) {
        unlink("way.new");
        symlink(targets[i % 5], "way.new");
        rename("way.new", "way");
    }
    return NULL;
}

/* `q` is `.claude` now and then, and what is made in it must not be what may not be made there. */
static void *swap_parents(void *unused)
{
    (void)unused;
    while (!stop) {
        TRY(rename("q", ".claude"));
        TRY(rename(".claude", "q"));
        TRY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", 2));
        rename("a", "aside");
        mkdir("a", 0755);
        rmdir("a");
        rename("aside", "a");
    }
    return NULL;
}

static void *swap_descriptors(void *unused)
{
    (void)unused;
    while (!stop) {
        int one = open("q", O_RDONLY | O_DIRECTORY), other = open("a", O_RDONLY | O_DIRECTORY);
        if (one >= 0)
            dup2(one, SWAPPED);
        if (other >= 0)
            dup2(other, SWAPPED);
        close(one);
        close(other);
    }
    return NULL;
}

/* The working directory is the whole process's. */
static void *swap_directories(void *unused)
{
    int top = *(int *)unused;
    while (!stop) {
        chdir("a");
        fchdir(top);
        chdir("q");
        fchdir(top);
    }
    return NULL;
}

static void bind_to(const char *path)
{
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    TRY(sock < 0 ? -1 : bind(sock, (struct sockaddr *)&address, sizeof(address)));
    close(sock);
}

static void *make(void *unused)
{
    int top = *(int *)unused;
    while (!stop) {
        touch(open(name, O_CREAT | O_WRONLY, 0644));
        touch(open(nested, O_CREAT | O_EXCL | O_RDWR, 0644));
        touch(open("way", O_CREAT | O_WRONLY, 0644));
        touch(openat(top, "way/.bashrc", O_CREAT | O_WRONLY, 0644));
        touch(openat(top, "way/commands/x", O_CREAT | O_WRONLY, 0644));
        touch(open("q/settings.json", O_CREAT | O_WRONLY, 0644));
        touch(openat(SWAPPED, "settings.json", O_CREAT | O_WRONLY, 0644));
        touch(open(by_fd, O_CREAT | O_WRONLY, 0644));
        TRY(mkdir("q/commands", 0755));
        TRY(mkdirat(SWAPPED, "hooks", 0755));
        TRY(mkdir(name, 0755));
        TRY(mknod(nested, S_IFREG | 0644, 0));
        TRY(link("f", name));
        TRY(linkat(top, "f", SWAPPED, "settings.local.json", 0));
        TRY(symlink("f", nested));
        TRY(symlinkat("/", top, name));
        touch(open("tmp", O_CREAT | O_WRONLY, 0644));
        TRY(rename("tmp", name));
        TRY(renameat(top, "tmp", SWAPPED, "settings.json"));
        bind_to(name);
        unlink("harmless"), rmdir("harmless"), unlink("a/harmless"), unlink("b/harmless"),
            rmdir("a/harmless");
        unlink("a/settings.json"), unlink("b/settings.json"), rmdir("a/hooks"), rmdir("b/hooks");
        unlink("q/settings.json"), rmdir("q/commands"), rmdir("q/hooks"),
            unlink("a/settings.local.json");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int top = open(".", O_RDONLY | O_DIRECTORY);
    pthread_t threads[7];
    mkdir("a", 0755), mkdir("b", 0755), mkdir("q", 0755);
    dup2(top, SWAPPED);
    pthread_create(&threads[0], NULL, swap_strings, NULL);
    pthread_create(&threads[1], NULL, swap_links, NULL);
    pthread_create(&threads[2], NULL, swap_parents, NULL);
    pthread_create(&threads[3], NULL, swap_descriptors, NULL);
    pthread_create(&threads[4], NULL, swap_directories, &top);
    pthread_create(&threads[5], NULL, make, &top);
    pthread_create(&threads[6], NULL, make, &top);
    struct timespec rest = {.tv_sec = argc > 1 ? atoi(argv[1]) : 1};
    nanosleep(&rest, NULL);
    stop = 1;
    for (int i = 0; i < 7; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", made);
    return 0;
}
