/* Whatever the bytes are, they are read within their bounds, and a name that is called stray ends.
 */
#include "launcher/gitindex.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t hashes[] = {GITINDEX_SHA1, GITINDEX_SHA256};
    for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++) {
        char name[16];
        memset(name, 'x', sizeof(name));
        if (gitindex_look((const char *)data, size, hashes[i], name, sizeof(name)) ==
                GITINDEX_STRAY &&
            strnlen(name, sizeof(name)) == sizeof(name))
            abort();
    }
    return 0;
}
