#include "filters/builtin.h"

#include "config/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct srt_filter_module *const builtin_modules[] = {
    &module_http_guard,
    &module_header_edit,
    &module_schedule,
    &module_quota,
    &module_block_list,
    &module_remote,
    NULL,
};

bool builtin_refuse(struct srt_filter_fault *fault, const struct srt_filter_key *key,
                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    fault->key = key;
    return false;
}

bool builtin_refuse_unknown(struct srt_filter_fault *fault, const struct srt_filter_key *key,
                            const char *const *known)
{
    const char *near = nearest_word(key->key, known);
    return builtin_refuse(fault, key, "unknown key%s%s%s", near != NULL ? "; did you mean " : "",
                          near != NULL ? near : "", near != NULL ? "?" : "");
}

bool builtin_check_single(const struct srt_filter_key *keys, size_t key_count,
                          const char *const *single, struct srt_filter_fault *fault)
{
    for (; *single != NULL; single++) {
        const struct srt_filter_key *first = NULL;
        for (size_t i = 0; i < key_count; i++) {
            if (strcmp(keys[i].key, *single) != 0)
                continue;
            if (first != NULL)
                return builtin_refuse(fault, &keys[i], "it stands on line %u already", first->line);
            first = &keys[i];
        }
    }
    return true;
}

enum srt_filter_verdict builtin_deny(struct srt_filter_ruling *ruling, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ruling->reason, sizeof(ruling->reason), format, args);
    va_end(args);
    return SRT_FILTER_DENY;
}

enum srt_filter_verdict builtin_fail(struct srt_filter_ruling *ruling, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ruling->reason, sizeof(ruling->reason), format, args);
    va_end(args);
    return SRT_FILTER_ERROR;
}

bool builtin_next_word(struct str *list, struct str *word)
{
    if (list->p == NULL)
        return false;
    const char *comma = list->len > 0 ? memchr(list->p, ',', list->len) : NULL;
    size_t len = comma != NULL ? (size_t)(comma - list->p) : list->len;
    *word = str_trim((struct str){list->p, len});
    *list = comma != NULL ? str_from(*list, len + 1) : STR_NULL;
    return true;
}

void *builtin_allocate(size_t count, size_t size)
{
    void *memory = calloc(count != 0 ? count : 1, size);
    if (memory == NULL)
        abort();
    return memory;
}

void *builtin_grow(void *items, size_t count, size_t size)
{
    char *grown = reallocarray(items, count + 1, size);
    if (grown == NULL)
        abort();
    memset(grown + count * size, 0, size);
    return grown;
}
