#include "record/ulid.h"

#include <string.h>

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's base 32 */

void ulid_make(char out[ULID_LEN + 1], int64_t ms, const uint8_t chance[ULID_CHANCE])
{
    uint64_t left = (uint64_t)ms;
    for (int i = ULID_TIME_LEN - 1; i >= 0; i--, left >>= 5)
        out[i] = digits[left & 31];
    for (int i = 0; i < ULID_CHANCE; i++)
        out[ULID_TIME_LEN + i] = digits[chance[i] & 31];
    out[ULID_LEN] = '\0';
}

void ulid_next(char id[ULID_LEN + 1])
{
    for (int i = ULID_LEN - 1; i >= 0; i--) {
        const char *digit = strchr(digits, id[i]);
        id[i] = digit != NULL && digit[1] != '\0' ? digit[1] : digits[0];
        if (id[i] != digits[0])
            return;
    }
}
