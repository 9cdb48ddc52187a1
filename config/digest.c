#include "config/digest.h"

#include <assert.h>
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

void digest_make(uint8_t out[DIGEST_LEN], struct str bytes)
{
    SHA256_CTX context;
    int done = SHA256_Init(&context) & SHA256_Update(&context, bytes.p, bytes.len) &
               SHA256_Final(out, &context);
    assert(done == 1);
}
