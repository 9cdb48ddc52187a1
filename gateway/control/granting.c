#include "control/granting.h"

#include "control/attach.h"
#include "control/deed.h"
#include "record/ulid.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>
#include <sys/random.h>

enum { GRANTS_MAX = 10000, GRANTS_EACH_MAX = 1000 };
static const double expiry_look_s = 10;

static int64_t now_ms(const struct granting *granting)
{
    return (int64_t)(ev_now(granting->gateway->loop) * 1000.);
}

int64_t granting_until(const struct granting *granting, uint64_t for_ms)
{
    return for_ms == 0 ? 0 : (now_ms(granting) + (int64_t)for_ms + 999) / 1000;
}

static void make_id(struct granting *granting, char out[GRANT_ID_LEN + 1])
{
    _Static_assert((int)GRANT_ID_LEN == (int)ULID_LEN, "a grant's id is a ULID");
    uint8_t chance[ULID_CHANCE];
    if (getrandom(chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        abort();
    ulid_make(out, now_ms(granting), chance);
}

struct counting {
    const struct grant *like;
    size_t count;
};

static void count_same(const struct grant *grant, void *arg)
{
    struct counting *counting = arg;
    counting->count +=
        grant->scope == counting->like->scope && strcmp(grant->name, counting->like->name) == 0;
}

static bool has_room(const struct granting *granting, const struct grant *grant)
{
    struct counting counting = {.like = grant};
    grants_each(&granting->table, count_same, &counting);
    return granting->table.count < GRANTS_MAX && counting.count < GRANTS_EACH_MAX;
}

static bool is_over(const struct grant *grant, const void *now)
{
    return grant_is_over(grant, *(const int64_t *)now);
}

/* The workers see by themselves that a time is over; they need not be told. */
static void drop_expired(struct granting *granting)
{
    const int64_t now = now_ms(granting) / 1000;
    grants_remove_if(&granting->table, is_over, &now);
    if (granting->table.count == 0)
        ev_timer_stop(granting->gateway->loop, &granting->expiry);
}

static struct sandbox *sandbox_of(const struct grant *grant, void *owner)
{
    return grant->scope == GRANT_SANDBOX && owner != NULL ? attach_sandbox(owner) : NULL;
}

enum desk_result granting_keep(struct granting *granting, struct grant *grant, void *owner)
{
    struct sandbox *sandbox = sandbox_of(grant, owner);
    if (grant->scope == GRANT_SANDBOX && sandbox == NULL)
        return DESK_UNKNOWN; /* it is ending */
    drop_expired(granting);
    if (!has_room(granting, grant))
        return DESK_FULL;
    make_id(granting, grant->id);
    grant->since_ms = now_ms(granting);
    grants_put(&granting->table, grant);
    workers_grant(granting->gateway->workers, sandbox, grant);
    if (!ev_is_active(&granting->expiry)) {
        ev_timer_set(&granting->expiry, expiry_look_s, expiry_look_s);
        ev_timer_start(granting->gateway->loop, &granting->expiry);
    }
    return DESK_DONE;
}

void granting_put(const struct grant *grant, struct json *json)
{
    json_text(json, "id", str_of(grant->id));
    json_text(json, "verdict", grant->refuses ? STR("refuse") : STR("approve"));
    json_text(json, "target", str_of(grant->target));
    json_text(json, "for", str_of(grant_scope_word(grant->scope)));
    json_text(json, "name", grant->scope == GRANT_POLICY ? STR_NULL : str_of(grant->name));
    json_text(json, "policy", grant->policy[0] != '\0' ? str_of(grant->policy) : STR_NULL);
    json_text(json, "by", grant->by == GRANT_BY_OPERATOR ? STR("operator") : STR("launcher"));
    json_text(json, "peer", str_of(grant->who));
    json_time(json, "since", grant->since_ms);
    if (grant->until != 0)
        json_time(json, "until", grant->until * 1000);
    else
        json_none(json, "until");
}

struct search {
    const char *id;
    const struct grant *found;
};

static void look_for(const struct grant *grant, void *arg)
{
    struct search *search = arg;
    if (strcmp(grant->id, search->id) == 0)
        search->found = grant;
}

static void end(struct granting *granting, const struct grant *grant, const char *peer)
{
    void *owner = grant->scope == GRANT_SANDBOX
                      ? attach_find(granting->gateway->attach, grant->name, NULL)
                      : NULL;
    struct sandbox *sandbox = sandbox_of(grant, owner);
    char id[GRANT_ID_LEN + 1];
    memcpy(id, grant->id, sizeof(id));
    deed_record(granting->gateway, &(struct deed){.action = "revoke",
                                                  .peer = peer,
                                                  .by = peer != NULL ? "operator" : NULL,
                                                  .target = grant->target,
                                                  .scope = grant_scope_word(grant->scope),
                                                  .name = grant->name,
                                                  .policy = grant->policy,
                                                  .grant = id,
                                                  .waiting = DEED_WAITS_NOBODY,
                                                  .result = "ok"});
    if (grant->scope != GRANT_SANDBOX || sandbox != NULL)
        workers_revoke(granting->gateway->workers, sandbox, id);
    grants_remove(&granting->table, id);
}

enum desk_result granting_revoke(struct granting *granting, struct str id, const char *peer)
{
    char text[GRANT_ID_LEN + 1] = "";
    struct search search = {.id = text};
    if (id.len == GRANT_ID_LEN)
        memcpy(text, id.p, GRANT_ID_LEN);
    drop_expired(granting);
    grants_each(&granting->table, look_for, &search);
    if (search.found == NULL) {
        deed_record(granting->gateway, &(struct deed){.action = "revoke",
                                                      .peer = peer,
                                                      .by = "operator",
                                                      .grant = text[0] != '\0' ? text : NULL,
                                                      .waiting = DEED_WAITS_NOBODY,
                                                      .result = "not-found"});
        return DESK_UNKNOWN;
    }
    end(granting, search.found, peer);
    return DESK_DONE;
}

static bool is_of_sandbox(const struct grant *grant, const void *name)
{
    return grant->scope == GRANT_SANDBOX && strcmp(grant->name, name) == 0;
}

void granting_forget(struct granting *granting, const char *sandbox)
{
    grants_remove_if(&granting->table, is_of_sandbox, sandbox);
}

struct orphans {
    struct granting *granting;
    const struct grant **list;
    size_t count;
};

static void pick_orphan(const struct grant *grant, void *arg)
{
    struct orphans *orphans = arg;
    if (grant->policy[0] != '\0' &&
        snapshot_policy(orphans->granting->gateway->snapshot, grant->policy) == NULL)
        orphans->list[orphans->count++] = grant;
}

void granting_on_reload(struct granting *granting)
{
    autofree const struct grant **list =
        must(calloc(granting->table.count + 1, sizeof(struct grant *)));
    struct orphans orphans = {granting, list, 0};
    grants_each(&granting->table, pick_orphan, &orphans);
    for (size_t i = 0; i < orphans.count; i++)
        end(granting, list[i], NULL);
}

static void write_grant(const struct grant *grant, void *arg)
{
    json_object_open(arg, NULL);
    granting_put(grant, arg);
    json_object_close(arg);
}

void granting_write(struct granting *granting, struct json *out)
{
    drop_expired(granting);
    grants_each(&granting->table, write_grant, out);
}

static void on_expiry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    drop_expired(timer->data);
}

void granting_init(struct granting *granting, struct gateway *gateway)
{
    *granting = (struct granting){.gateway = gateway};
    ev_init(&granting->expiry, on_expiry);
    granting->expiry.data = granting;
}

void granting_end(struct granting *granting)
{
    ev_timer_stop(granting->gateway->loop, &granting->expiry);
    grants_free(&granting->table);
}
