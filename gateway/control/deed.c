#include "control/deed.h"

void deed_record(struct gateway *gateway, const struct deed *deed)
{
    struct json fields = {0};
    json_text(&fields, "kind", STR("admin"));
    json_text(&fields, "action", str_of(deed->action));
    json_text(&fields, "target", str_of(deed->target));
    json_text(&fields, "peer", str_of(deed->peer));
    json_text(&fields, "result", str_of(deed->result));
    json_text(&fields, "message", str_of(deed->message));
    json_text(&fields, "by", str_of(deed->by));
    json_text(&fields, "for", str_of(deed->scope));
    json_text(&fields, "name", str_of(deed->name));
    json_text(&fields, "policy", str_of(deed->policy));
    json_text(&fields, "request", str_of(deed->request));
    json_text(&fields, "grant", str_of(deed->grant));
    if (deed->limited)
        json_time(&fields, "until", deed->until_ms);
    else
        json_none(&fields, "until");
    if (deed->waiting != DEED_WAITS_NOBODY)
        json_number(&fields, "waiting", deed->waiting);
    else
        json_none(&fields, "waiting");
    gateway_record(gateway, &fields);
}
