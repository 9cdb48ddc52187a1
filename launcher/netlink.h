/*
 * What the kernel is told about a network namespace: netlink messages made in one buffer and sent
 * at once (netlink(7)).
 *
 * Ownership: plain values. Thread: any. Failure: -1 with `err`; a buffer that is too small is a
 * bug.
 */
#ifndef LAUNCHER_NETLINK_H
#define LAUNCHER_NETLINK_H

#include "srt/err.h"

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

enum { NETLINK_LOOPBACK = 1 }; /* the first device of a namespace */

struct netlink {
    _Alignas(NLMSG_ALIGNTO) uint8_t bytes[4096];
    size_t len, message; /* used, and where the last message begins */
    size_t answers;      /* that are asked for */
};

/* Begins a message whose fixed part is `head`. With NLM_F_ACK in `flags` it has to succeed. */
void netlink_begin(struct netlink *netlink, uint16_t type, uint16_t flags, const void *head,
                   size_t head_len);
/* An attribute of it, or of the nest that is open. */
void netlink_put(struct netlink *netlink, uint16_t type, const void *data, size_t len);
void netlink_put_text(struct netlink *netlink, uint16_t type, const char *text);
void netlink_put_u32(struct netlink *netlink, uint16_t type, uint32_t value);  /* host order */
void netlink_put_be32(struct netlink *netlink, uint16_t type, uint32_t value); /* network order */
/* An attribute of attributes, from here to netlink_close(). */
size_t netlink_open(struct netlink *netlink, uint16_t type);
void netlink_close(struct netlink *netlink, size_t nest);

/* Sends all of them. The error is the first that the kernel says; `errno` is set to it. */
int netlink_send(const struct netlink *netlink, int protocol, const char *what,
                 struct srt_err *err);

#endif
