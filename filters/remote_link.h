/*
 * The connection of one filter in one worker to its module: a Unix stream socket that is looked
 * after by the worker's loop through the watches of srt/filter.h, with lines both ways.
 *
 *     DOWN --remote_link_connect()--> GREETING --its hello--> UP
 *       ^--------- end, error, nonsense, silence -----'-------'
 *
 * Ownership: its user's; the calls of `user` come from within the functions here and from the loop.
 * Thread: the worker's. Failure: down() with a phrase, after which it is DOWN and holds nothing; it
 * connects again when it is told to.
 */
#ifndef FILTERS_REMOTE_LINK_H
#define FILTERS_REMOTE_LINK_H

#include "filters/remote_line.h"

enum remote_link_state { REMOTE_LINK_DOWN, REMOTE_LINK_GREETING, REMOTE_LINK_UP };

struct remote_link_user {
    void (*up)(void *arg, const struct remote_hello *hello);
    /* False, with `why`: nobody who sends this is to be listened to. */
    bool (*line)(void *arg, struct str line, struct srt_err *why);
    void (*down)(void *arg, const char *why);
    void *arg;
};

struct remote_link;

/* `path` and `filter` are borrowed. Not connected yet; NULL when no watch can be had. */
struct remote_link *remote_link_create(const struct srt_filter_host *host, unsigned worker,
                                       const char *filter, const char *path,
                                       const struct remote_link_user *user);
void remote_link_destroy(
    struct remote_link *link); /* without a word to its user; NULL is allowed */

enum remote_link_state remote_link_state(const struct remote_link *link);
void remote_link_connect(struct remote_link *link); /* when it is DOWN */
void remote_link_connect_after(struct remote_link *link, int64_t after_ms);

/* Sends a whole line when it is UP. False: too much is waiting to be read over there. */
bool remote_link_send(struct remote_link *link, const char *line);

#endif
