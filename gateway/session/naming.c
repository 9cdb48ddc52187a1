#include "session/naming.h"

#include "dns/stand_in.h"
#include "session/core.h"

enum { TTL_S = 5 };

_Static_assert((int)TTL_S < (int)STAND_IN_KEPT_S, "what a client may keep is known here");

static struct addr loopback(uint8_t family)
{
    static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
    return family == 4 ? addr_of_v4(v4) : addr_of_v6(v6);
}

/* `localhost` is the sandbox's own, as everywhere (RFC 6761 6.3). */
static size_t answer_host(const struct sandbox *sandbox, const struct query *query,
                          uint8_t out[QUERY_ANSWER_MAX])
{
    const uint8_t family = query->about == QUERY_A ? 4 : 6;
    uint32_t number;
    struct addr addr;
    if (!query->has_name)
        return query_refuse(out, query, QUERY_NO_NAME);
    if (family == 6 && !sandbox->names_have_v6)
        return query_refuse(out, query, QUERY_OK);
    if (name_is_localhost(&query->name))
        addr = loopback(family);
    else if (stand_ins_give(sandbox->names, &query->name, ev_now(sandbox->worker->loop), &number))
        addr = stand_in_addr(number, family);
    else
        return query_refuse(out, query, QUERY_FAILED);
    return query_give_addr(out, query, &addr, TTL_S);
}

static size_t answer_reverse(const struct sandbox *sandbox, const struct query *query,
                             uint8_t out[QUERY_ANSWER_MAX])
{
    const struct name *name = NULL;
    if (query->has_addr)
        name = stand_ins_find(sandbox->names, &query->addr, ev_now(sandbox->worker->loop));
    return name != NULL ? query_give_name(out, query, name, TTL_S)
                        : query_refuse(out, query, QUERY_NO_NAME);
}

size_t naming_answer(struct sandbox *sandbox, struct str message, uint8_t out[QUERY_ANSWER_MAX])
{
    struct query query;
    switch (query_read(&query, (const uint8_t *)message.p, message.len)) {
    case QUERY_IGNORED:
        return 0;
    case QUERY_WRONG:
        return query_refuse(out, &query, query.rcode);
    case QUERY_ASKS:
        break;
    }
    switch (query.about) {
    case QUERY_A:
    case QUERY_AAAA:
        return answer_host(sandbox, &query, out);
    case QUERY_PTR:
        return answer_reverse(sandbox, &query, out);
    case QUERY_OTHER:
        break;
    }
    return query_refuse(out, &query, QUERY_OK);
}

static void write_name(void *arg, const struct name *name, uint32_t number, double used_s)
{
    struct json *out = arg;
    json_object_open(out, NULL);
    json_text(out, "name", name_str(name));
    json_number(out, "number", number);
    json_number(out, "used", (int64_t)(used_s * 1000.));
    json_object_close(out);
}

/* Whoever asks meanwhile is answered by the other gateway, or here when that comes to nothing. */
void naming_freeze(struct sandbox *sandbox)
{
    struct json *out = &sandbox->names_written;
    json_free(out);
    sandbox->names_frozen = true;
    stand_ins_freeze(sandbox->names, true);
    json_object_open(out, NULL);
    json_number(out, "next", stand_ins_next(sandbox->names));
    json_array_open(out, "names");
    stand_ins_each(sandbox->names, write_name, out);
    json_array_close(out);
    json_object_close(out);
    for (size_t i = 0; i < sandbox->door_count; i++)
        door_watch(sandbox->doors[i]);
}

void naming_thaw(struct sandbox *sandbox)
{
    json_free(&sandbox->names_written);
    sandbox->names_frozen = false;
    stand_ins_freeze(sandbox->names, false);
    for (size_t i = 0; i < sandbox->door_count; i++)
        door_watch(sandbox->doors[i]);
}

bool naming_recall(const struct sandbox *sandbox, struct target *target)
{
    if (sandbox == NULL || sandbox->names == NULL || !target->is_addr ||
        !stand_in_is(&target->addr))
        return true;
    const struct name *name =
        stand_ins_find(sandbox->names, &target->addr, ev_now(sandbox->worker->loop));
    if (name == NULL)
        return false;
    target->is_addr = false;
    target->name = *name;
    return true;
}
