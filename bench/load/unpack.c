/*
 * What `npm install` of one package does to the tree for each of its files, and nothing else: it
 * unpacks three times, each time asks for the two directories above the file, which are there
 * already, and removes two of the three again. Eleven calls a file that change the tree.
 *
 *   bench-unpack FILES      in an empty directory
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREES = 3, REMOVED = 2, FILES_IN_DIR = 100, SIZE = 1000 };

static char top[2000]; /* npm names everything by absolute paths */

static void check(int result, const char *what)
{
    if (result >= 0)
        return;
    perror(what);
    exit(1);
}

static const char *dir_of(int tree, int file)
{
    static char path[sizeof(top) + 100];
    snprintf(path, sizeof(path), "%s/tree%d/lib/%d", top, tree, file / FILES_IN_DIR);
    return path;
}

static const char *name_of(int tree, int file)
{
    static char path[sizeof(top) + 200];
    snprintf(path, sizeof(path), "%s/m%d.js", dir_of(tree, file), file);
    return path;
}

static void make_dirs(int tree, int file)
{
    char lib[sizeof(top) + 100];
    snprintf(lib, sizeof(lib), "%s/tree%d/lib", top, tree);
    mkdir(lib, 0777);
    mkdir(dir_of(tree, file), 0777);
}

static void make_file(const char *path)
{
    static const char content[SIZE];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    check(fd, path);
    check((int)write(fd, content, sizeof(content)), path);
    close(fd);
}

int main(int argc, char **argv)
{
    int files = argc > 1 ? atoi(argv[1]) : 1000;
    if (getcwd(top, sizeof(top)) == NULL)
        return 1;
    for (int tree = 0; tree < TREES; tree++) {
        char name[32];
        snprintf(name, sizeof(name), "tree%d", tree);
        check(mkdir(name, 0777), name);
        for (int file = 0; file < files; file++) {
            make_dirs(tree, file);
            make_file(name_of(tree, file));
        }
    }
    for (int tree = 0; tree < REMOVED; tree++)
        for (int file = 0; file < files; file++)
            check(unlink(name_of(tree, file)), name_of(tree, file));
    return 0;
}
