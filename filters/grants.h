/*
 * What operators and launchers have answered for a time: yes or no to exactly one host and port,
 * for one sandbox, client or listener, or for a whole policy.
 *
 * A grant speaks only where the rules ask: it is looked at after every denial, and the addresses
 * are vetted after it. A table is a balanced tree, so that a look-up costs little whoever chose the
 * names in it.
 *
 * Ownership: a table owns copies of its grants; zeroed is empty. Thread: one at a time; each worker
 * has its own. Failure: none; running out of memory ends the process.
 */
#ifndef FILTERS_GRANTS_H
#define FILTERS_GRANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For whom. */
enum grant_scope { GRANT_SANDBOX, GRANT_CLIENT, GRANT_LISTENER, GRANT_POLICY, GRANT_SCOPE_COUNT };
/* Who has answered. */
enum grant_by { GRANT_BY_OPERATOR, GRANT_BY_LAUNCHER, GRANT_BY_COUNT };

const char *grant_scope_word(enum grant_scope scope);

enum { GRANT_ID_LEN = 26 };

struct grant {
    /* What it is about; one answer each. */
    enum grant_scope scope;
    enum grant_by by;
    const char *name;   /* of the sandbox, client or listener; "" with GRANT_POLICY */
    const char *policy; /* under which it counts; "" for settings alone */
    const char *target; /* as target_format() writes it */
    /* The answer. */
    bool refuses;
    int64_t until; /* seconds since the epoch; 0: as long as its table lives */
    char id[GRANT_ID_LEN + 1];
    const char *who; /* for lists; "" */
    int64_t since_ms;
};

struct grants {
    void *tree;
    size_t count;
};

/* Takes the place of an older answer about the same. */
void grants_put(struct grants *grants, const struct grant *grant);
/* The answer about what `about` describes, or NULL; one whose time is over is none. It lives until
 * the table is changed. */
const struct grant *grants_find(const struct grants *grants, const struct grant *about,
                                int64_t now);
/* False: there is none of that id. */
bool grants_remove(struct grants *grants, const char *id);
/* Removes every grant that `chosen` picks. */
void grants_remove_if(struct grants *grants, bool (*chosen)(const struct grant *, const void *),
                      const void *arg);
/* In an order that stays the same. */
void grants_each(const struct grants *grants, void (*visit)(const struct grant *, void *),
                 void *arg);
void grants_free(struct grants *grants);

/* Copies texts and all. */
struct grant *grant_copy(const struct grant *grant);
void grant_free(struct grant *grant);
bool grant_is_over(const struct grant *grant, int64_t now);

#endif
