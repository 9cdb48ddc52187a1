/* A directory that a file `.git` names is below the `.git` that was seen, however the path is read.
 */
#include "launcher/gitplace.h"
#include "launcher/paths.h"
#include "launcher/rebase.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data, *path;
    size_t len;
    char command[64] = "";
    if (rebase_finds_command(bytes, size, command, sizeof(command)) &&
        strnlen(command, sizeof(command)) == sizeof(command))
        abort();
    if (!gitplace_read_link(bytes, size, &path, &len) || len > 4000)
        return 0;
    enum gitplace place = gitplace_of(path, len);
    if (place == GITPLACE_NONE)
        return 0;
    char *text = strndup(path, len);
    if (text == NULL || strlen(text) != len)
        abort();
    char *whole = text[0] == '/' ? strdup(text) : path_join("/top", text);
    char *clean = whole != NULL ? path_clean(whole) : NULL;
    const char *tail = text, *next;
    while ((next = strstr(tail + 1, ".git")) != NULL)
        tail = next;
    if (clean == NULL || gitplace_of(clean, strlen(clean)) != place ||
        strlen(clean) < strlen(tail) || strcmp(clean + strlen(clean) - strlen(tail), tail) != 0)
        abort();
    free(clean);
    free(whole);
    free(text);
    return 0;
}
