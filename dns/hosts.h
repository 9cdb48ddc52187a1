/*
 * A hosts file (hosts(5)) as a table from names to addresses, re-read when it changes.
 *
 * Lines and words that are not an address or a host name are passed over, as the C library does:
 * the file belongs to the system. If the file becomes unreadable or too large while running, the
 * last good table stays in force.
 *
 * Ownership: the creator's. Thread: one. Failure: NULL with `err` where there is one.
 */
#ifndef DNS_HOSTS_H
#define DNS_HOSTS_H

#include "dns/resolver.h"

enum { HOSTS_MAX_SIZE = 1 << 20 };

struct hosts;

/* `path` is copied. */
struct hosts *hosts_open(const char *path, struct srt_err *err);
void hosts_close(struct hosts *hosts);

/* At most a few times a second this asks whether the file has changed. */
bool hosts_find(struct hosts *hosts, const struct name *name, double now_s,
                struct resolve_answer *out);

struct hosts_table;

/* NULL if there is no memory. */
struct hosts_table *hosts_table_parse(struct str text);
void hosts_table_free(struct hosts_table *table);

/* The addresses of all lines that name it, in the order of the file, cut at RESOLVER_MAX_ADDRS. */
bool hosts_table_find(const struct hosts_table *table, const struct name *name,
                      struct resolve_answer *out);

#endif
