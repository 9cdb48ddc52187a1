/*
 * What the gateway lives on, for a launcher to keep out of its sandbox's reach: what holds secrets
 * (`hide`), and what may be read (`protect`). See include/srt/attach.h.
 *
 * Thread: control. Cannot fail.
 */
#ifndef CONTROL_PLACES_H
#define CONTROL_PLACES_H

#include "control/gateway.h"

/* Both lists, as members of the object that is open. */
void places_write(const struct gateway *gateway, struct json *json);

#endif
