#include "filters/builtin.h"

#include "config/fault.h"
#include "srt/must.h"

#include <assert.h>
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

/* What every [filter] section has, beside the module's own keys. */
static const char *const common_keys[] = {"module", "timeout", "fail"};

enum { COMMON_KEYS = sizeof(common_keys) / sizeof(common_keys[0]), KEYS_MAX = 15 };

static const struct builtin_key *find_key(const struct builtin_key *known, const char *name)
{
    for (; known->name != NULL; known++)
        if (strcmp(known->name, name) == 0)
            return known;
    return NULL;
}

static bool refuse_unknown(const struct builtin_key *known, const struct srt_filter_key *key,
                           struct srt_filter_fault *fault)
{
    const char *words[KEYS_MAX + COMMON_KEYS + 1] = {NULL};
    size_t count = 0;
    for (; known[count].name != NULL; count++) {
        assert(count < KEYS_MAX);
        words[count] = known[count].name;
    }
    memcpy(&words[count], common_keys, sizeof(common_keys));
    char hint[NEAREST_HINT_MAX];
    return builtin_refuse(fault, key, "unknown key%s", nearest_hint(hint, "", key->key, words));
}

bool builtin_take_keys(void *self, const struct builtin_key *known,
                       const struct srt_filter_key *keys, size_t key_count,
                       struct srt_filter_fault *fault)
{
    for (size_t i = 0; i < key_count; i++) {
        const struct builtin_key *found = find_key(known, keys[i].key);
        if (found == NULL)
            return refuse_unknown(known, &keys[i], fault);
        for (size_t before = 0; !found->repeats && before < i; before++)
            if (strcmp(keys[before].key, keys[i].key) == 0)
                return builtin_refuse(fault, &keys[i], "it stands on line %u already",
                                      keys[before].line);
        if (!found->take((char *)self + found->at, &keys[i], fault))
            return false;
    }
    return true;
}

bool builtin_take_either(bool *out, const char *no, const char *yes,
                         const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    *out = strcmp(key->value, yes) == 0;
    return *out || strcmp(key->value, no) == 0 ||
           builtin_refuse(fault, key, "'%s' is neither %s nor %s", key->value, no, yes);
}

enum srt_filter_verdict builtin_rule(struct srt_filter_ruling *ruling,
                                     enum srt_filter_verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ruling->reason, sizeof(ruling->reason), format, args);
    va_end(args);
    return verdict;
}

bool builtin_next_word(struct str *list, struct str *word)
{
    if (!str_next_part(list, ',', word))
        return false;
    *word = str_trim(*word);
    return true;
}
