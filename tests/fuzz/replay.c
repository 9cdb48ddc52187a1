/*
 * Replays a corpus without libFuzzer: every file below the folders and files named is one input.
 * A missing or empty corpus is a failure, so that a renamed target cannot pass by testing nothing.
 */
#include "srt/cleanup.h"

#include <dirent.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    autofclose FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    static uint8_t data[1 << 20];
    size_t size = fread(data, 1, sizeof(data), file);
    /* An exact copy on the heap, so that the sanitizer sees the first byte past the end. */
    autofree uint8_t *exact = malloc(size != 0 ? size : 1);
    if (exact == NULL)
        return 0;
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    return 1;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return replay_file(path);
    int count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char inner[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        count += replay(inner);
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += replay(argv[i]);
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
