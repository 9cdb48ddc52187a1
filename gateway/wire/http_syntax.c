#include "wire/http_syntax.h"

#define TOKEN (HTTP_BYTE_TOKEN | HTTP_BYTE_TARGET | HTTP_BYTE_VALUE | HTTP_BYTE_PRINT)
#define OTHER (HTTP_BYTE_TARGET | HTTP_BYTE_VALUE | HTTP_BYTE_PRINT)

/* A later range overrides an earlier one, which reads better than 256 numbers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
const uint8_t http_byte_classes[256] = {
    ['\t'] = HTTP_BYTE_VALUE,
    [' '] = HTTP_BYTE_VALUE,
    [0x21 ... 0x7e] = TOKEN,
    ['"'] = OTHER,
    ['('] = OTHER,
    [')'] = OTHER,
    [','] = OTHER,
    ['/'] = OTHER,
    [':' ... '@'] = OTHER, /* : ; < = > ? @ */
    ['['] = OTHER,
    [']'] = OTHER,
    ['{'] = OTHER,
    ['}'] = OTHER,
    ['#'] = TOKEN & ~HTTP_BYTE_TARGET,
    ['\\'] = OTHER & ~HTTP_BYTE_TARGET,
    [0x80 ... 0xff] = HTTP_BYTE_VALUE,
};
#pragma GCC diagnostic pop
