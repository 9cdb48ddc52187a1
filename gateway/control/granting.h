/*
 * The grants in force, as the control thread keeps them: put in force in the workers, listed,
 * revoked, and gone with their sandbox, their policy or their time.
 *
 * Part of the desk (control/desk.h), whose results it gives. Ownership: the desk's. Thread: control
 * loop.
 */
#ifndef CONTROL_GRANTING_H
#define CONTROL_GRANTING_H

#include "control/desk.h"

#include <ev.h>

struct granting {
    struct gateway *gateway;
    struct grants table;
    ev_timer expiry;
};

void granting_init(struct granting *granting, struct gateway *gateway);
void granting_end(struct granting *granting);

/* When something ends that holds for so long: rounded up, so not before its time. 0: never. */
int64_t granting_until(const struct granting *granting, uint64_t for_ms);
/* Puts it in force and gives it its id. An older one about the same gives way, in the workers as
 * well. `owner` as with desk_grant(). */
enum desk_result granting_keep(struct granting *granting, struct grant *grant, void *owner);
enum desk_result granting_revoke(struct granting *granting, struct str id, const char *peer);
void granting_forget(struct granting *granting, const char *sandbox);
void granting_on_reload(struct granting *granting);

/* The members of its object; the elements of the array at hand. */
void granting_put(const struct grant *grant, struct json *json);
void granting_write(struct granting *granting, struct json *out);

#endif
