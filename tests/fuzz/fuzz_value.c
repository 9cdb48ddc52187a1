/* Words to values: none reads past its end, and what is accepted stays within its bounds. */
#include "config/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    uint64_t number, per_ms;
    int64_t seconds;
    uint8_t bytes[32];
    bool flag;
    if (str_uint(text, 65535, &number) && number > 65535)
        abort();
    if (value_rate(text, true, &number, &per_ms) && per_ms < 1000)
        abort();
    /* The year has four digits. */
    if (value_rfc3339(text, &seconds) && (seconds < -62168000000 || seconds > 253403000000))
        abort();
    value_bool(text, &flag);
    value_duration_ms(text, &number);
    value_size(text, &number);
    value_rate(text, false, &number, &per_ms);
    value_hex(text, bytes, sizeof(bytes));
    return 0;
}
