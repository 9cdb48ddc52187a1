/*
 * What a worker's loop looks after for filters: the watches of srt/filter.h, on libev.
 *
 * Ownership: the module's that began it. Thread: the worker's, or any before it has begun and after
 * it has ended; watch_begin() is where the worker is found by its number.
 */
#ifndef SESSION_WATCHES_H
#define SESSION_WATCHES_H

#include "srt/filter.h"

struct ev_loop;

struct srt_filter_watch *watch_begin(struct ev_loop *loop, void (*on_event)(void *, unsigned),
                                     void *arg);
void watch_fd(struct srt_filter_watch *watch, int fd, unsigned events);
void watch_time(struct srt_filter_watch *watch, int64_t after_ms);
void watch_end(struct srt_filter_watch *watch);

#endif
