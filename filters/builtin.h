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
/* A key of a module's section: what it is called, whether it may stand there more than once, how it
 * is read and where to. Tables of them end with a NULL name. */
struct builtin_key {
    const char *name;
    bool repeats;
    bool (*take)(void *field, const struct srt_filter_key *key, struct srt_filter_fault *fault);
    size_t at; /* of the field in what `self` points to */
};

/* Reads a whole section into `self`. False, with a fault: an unknown key, one that stands there
 * twice, or what take() says. */
bool builtin_take_keys(void *self, const struct builtin_key *known,
                       const struct srt_filter_key *keys, size_t key_count,
                       struct srt_filter_fault *fault);

/* Which of two words it is; `*out`: the second. */
bool builtin_take_either(bool *out, const char *no, const char *yes,
                         const struct srt_filter_key *key, struct srt_filter_fault *fault);

/* Returns the verdict, with its reason. */
__attribute__((format(printf, 3, 4))) enum srt_filter_verdict
builtin_rule(struct srt_filter_ruling *ruling, enum srt_filter_verdict verdict, const char *format,
             ...);
#define builtin_deny(ruling, ...) builtin_rule((ruling), SRT_FILTER_DENY, __VA_ARGS__)
#define builtin_fail(ruling, ...) builtin_rule((ruling), SRT_FILTER_ERROR, __VA_ARGS__)

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

#endif
