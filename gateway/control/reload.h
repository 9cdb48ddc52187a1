/*
 * Reload as a transaction (INTERFACE 1.8): the new configuration is built beside the running one,
 * made ready in every worker, and put in force in all of them or in none.
 *
 * One at a time; requests that come meanwhile are answered together by one more. Ownership: the
 * gateway's. Thread: control loop. Failure: the old configuration stays in force, the audit log and
 * stderr say so with every fault.
 */
#ifndef CONTROL_RELOAD_H
#define CONTROL_RELOAD_H

#include "control/diff.h"
#include "control/gateway.h"

enum reload_status { RELOAD_APPLIED, RELOAD_UNCHANGED, RELOAD_FAILED };

struct reload_result {
    enum reload_status status;
    uint64_t generation;     /* in force now */
    const uint8_t *sha256;   /* of the configuration that was tried; NULL when it was not read */
    const struct diff *diff; /* empty unless applied */
    const struct faults *faults; /* with warnings */
};

typedef void reload_done_fn(void *arg, const struct reload_result *result);

struct reloader *reloader_create(struct gateway *gateway);
void reloader_free(struct reloader *reloader); /* NULL is allowed */

/* `done` (may be NULL) runs once, perhaps within the call. `asked`: somebody wants an answer, so an
 * unchanged configuration is recorded too. */
void reload_request(struct reloader *reloader, bool asked, reload_done_fn *done, void *arg);

/* Between the two no reload begins; those that are requested wait. `paused` runs, perhaps within
 * the call, when none is under way any more. */
void reload_pause(struct reloader *reloader, void (*paused)(void *arg), void *arg);
void reload_resume(struct reloader *reloader);

/* A retired gateway takes up what its successor has put in force as `generation`: only what is
 * open is judged by it. What it cannot take up makes it drain. */
void reload_follow(struct reloader *reloader, uint64_t generation);

/* This machine's addresses have changed: the same configuration with another view of them. */
void reload_host(struct reloader *reloader);

/* Every file that `config` came from, and the directories of its include patterns, to the watch. */
void reload_watch_files(struct gateway *gateway, const struct faults *faults);

/* The last reload's first fault, or "" when it did not fail. */
const char *reload_last_error(const struct reloader *reloader);

/* 64 hexadecimal digits; returns `out`. */
const char *reload_hex(char out[65], const uint8_t sha256[32]);

/* `{"result":...,"generation":...,"sha256":...,"added":[],"removed":[],"faults":[]}` without
 * braces. */
void reload_write_result(const struct reload_result *result, struct json *json);

#endif
