/*
 * What a worker's loop looks after for filters: the watches of srt/filter.h, on libev.
 *
 * What a module answers from within a watch is taken up right after it, not in the loop's next
 * turn.
 *
 * Ownership: the module's that began it. Thread: the worker's, or any before it has begun and after
 * it has ended; watch_begin() is where the worker is found by its number.
 */
#ifndef SESSION_WATCHES_H
#define SESSION_WATCHES_H

#include "srt/filter.h"

struct worker;

struct srt_filter_watch *watch_begin(struct worker *worker, void (*on_event)(void *, unsigned),
                                     void *arg);
void watch_fd(struct srt_filter_watch *watch, int fd, unsigned events);
void watch_time(struct srt_filter_watch *watch, int64_t after_ms);
void watch_end(struct srt_filter_watch *watch);

#endif
