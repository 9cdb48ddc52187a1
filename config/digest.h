/*
 * SHA-256, of files and of secrets.
 *
 * By OpenSSL's old functions: the new ones set up the whole library first, which is resident from
 * then on (2 MiB, and 0.3 of heap), also where nothing else of it is used. Thread: any; pure.
 * Failure: none.
 */
#ifndef CONFIG_DIGEST_H
#define CONFIG_DIGEST_H

#include "srt/str.h"

#include <stdint.h>

enum { DIGEST_LEN = 32 };

void digest_make(uint8_t out[DIGEST_LEN], struct str bytes);

#endif
