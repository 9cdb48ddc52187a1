/*
 * What the built-in filters share: their list, and the small things that each of them says. They
 * have no other way to the gateway than include/srt/filter.h.
 *
 * Thread: any; pure.
 */
#ifndef FILTERS_BUILTIN_H
#define FILTERS_BUILTIN_H

#include "srt/filter.h"
#include "srt/str.h"

/* Ends with NULL. */
extern const struct srt_filter_module *const builtin_modules[];

extern const struct srt_filter_module module_http_guard, module_header_edit, module_schedule,
    module_quota, module_block_list, module_remote;

/* Why a section is refused; `key` NULL: as a whole. Returns false. */
__attribute__((format(printf, 3, 4))) bool builtin_refuse(struct srt_filter_fault *fault,
                                                          const struct srt_filter_key *key,
                                                          const char *format, ...);
/* For a key that the module does not know; `known` ends with NULL. Returns false. */
bool builtin_refuse_unknown(struct srt_filter_fault *fault, const struct srt_filter_key *key,
                            const char *const *known);

/* False, with a fault, when one of the `single` keys (NULL at the end) stands in the section twice.
 */
bool builtin_check_single(const struct srt_filter_key *keys, size_t key_count,
                          const char *const *single, struct srt_filter_fault *fault);

__attribute__((format(printf, 2, 3))) enum srt_filter_verdict
builtin_deny(struct srt_filter_ruling *ruling, const char *format, ...);
/* No verdict, and why. */
__attribute__((format(printf, 2, 3))) enum srt_filter_verdict
builtin_fail(struct srt_filter_ruling *ruling, const char *format, ...);

/* The next word of a list that commas separate; false at its end. Empty words are returned too. */
bool builtin_next_word(struct str *list, struct str *word);

static inline struct str builtin_str(struct srt_filter_text text)
{
    return (struct str){text.p, text.len};
}

static inline struct srt_filter_text builtin_text(struct str text)
{
    return (struct srt_filter_text){text.p, text.len};
}

/* Memory or the end: for start-up and reload. */
void *builtin_allocate(size_t count, size_t size);
void *builtin_grow(void *items, size_t count, size_t size); /* room for one more, zeroed */

#endif
