/*
 * How a session hears that its record is in the audit log.
 *
 * The audit writer answers each ticket from its own thread. Ownership: the worker's; before
 * tickets_destroy() the writer has to be kept from answering (audit_mute()). Thread: the worker's,
 * except tickets_written().
 */
#ifndef SESSION_TICKETS_H
#define SESSION_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct tickets;

/* Called on the loop's thread for each answered ticket, in the order of the answers. */
typedef void ticket_answered_fn(void *arg, uint64_t ticket, bool go);

struct tickets *tickets_create(struct ev_loop *loop, ticket_answered_fn *answered, void *arg);
void tickets_destroy(struct tickets *tickets);

/* A new ticket, for audit_submit(..., tickets_written, tickets, ticket). */
uint64_t tickets_take(struct tickets *tickets);
/* An audit_written_fn; any thread. */
void tickets_written(void *tickets, uint64_t ticket, bool go);

#endif
