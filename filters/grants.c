#include "filters/grants.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *grant_scope_word(enum grant_scope scope)
{
    static const char *const words[GRANT_SCOPE_COUNT] = {
        [GRANT_SANDBOX] = "sandbox",
        [GRANT_CLIENT] = "client",
        [GRANT_LISTENER] = "listener",
        [GRANT_POLICY] = "policy",
    };
    assert((unsigned)scope < GRANT_SCOPE_COUNT);
    return words[scope];
}

struct grant *grant_copy(const struct grant *grant)
{
    struct grant *copy = must(malloc(sizeof(*copy)));
    *copy = *grant;
    copy->name = must_copy(grant->name);
    copy->policy = must_copy(grant->policy);
    copy->target = must_copy(grant->target);
    copy->who = must_copy(grant->who);
    return copy;
}

void grant_free(struct grant *grant)
{
    if (grant == NULL)
        return;
    free_const(grant->name);
    free_const(grant->policy);
    free_const(grant->target);
    free_const(grant->who);
    free(grant);
}

bool grant_is_over(const struct grant *grant, int64_t now)
{
    return grant->until != 0 && grant->until <= now;
}

static int compare(const void *left, const void *right)
{
    const struct grant *a = left, *b = right;
    int order = strcmp(a->target, b->target);
    if (order == 0)
        order = strcmp(a->name, b->name);
    if (order == 0)
        order = strcmp(a->policy, b->policy);
    if (order == 0)
        order = (int)a->scope - (int)b->scope;
    return order != 0 ? order : (int)a->by - (int)b->by;
}

void grants_put(struct grants *grants, const struct grant *grant)
{
    struct grant *copy = grant_copy(grant);
    struct grant **place = must(tsearch(copy, &grants->tree, compare));
    if (*place == copy) {
        grants->count++;
        return;
    }
    grant_free(*place);
    *place = copy;
}

const struct grant *grants_find(const struct grants *grants, const struct grant *about, int64_t now)
{
    struct grant *const *place = tfind(about, &grants->tree, compare);
    return place != NULL && !grant_is_over(*place, now) ? *place : NULL;
}

/* What a walk hands to `visit`. */
struct walk {
    void (*visit)(const struct grant *, void *);
    void *arg;
};

static void on_node(const void *node, VISIT which, void *closure)
{
    const struct walk *walk = closure;
    if (which == postorder || which == leaf)
        walk->visit(*(const struct grant *const *)node, walk->arg);
}

void grants_each(const struct grants *grants, void (*visit)(const struct grant *, void *),
                 void *arg)
{
    struct walk walk = {visit, arg};
    twalk_r(grants->tree, on_node, &walk);
}

/* The tree must not change under a walk. */
struct pick {
    bool (*chosen)(const struct grant *, const void *);
    const void *arg;
    const struct grant **picked;
    size_t count;
};

static void pick(const struct grant *grant, void *arg)
{
    struct pick *pick = arg;
    if (pick->chosen(grant, pick->arg))
        pick->picked[pick->count++] = grant;
}

void grants_remove_if(struct grants *grants, bool (*chosen)(const struct grant *, const void *),
                      const void *arg)
{
    autofree const struct grant **picked = must(calloc(grants->count + 1, sizeof(struct grant *)));
    struct pick state = {chosen, arg, picked, 0};
    grants_each(grants, pick, &state);
    for (size_t i = 0; i < state.count; i++) {
        struct grant *grant = *(struct grant **)tfind(picked[i], &grants->tree, compare);
        tdelete(grant, &grants->tree, compare);
        grant_free(grant);
        grants->count--;
    }
}

static bool has_id(const struct grant *grant, const void *id)
{
    return strcmp(grant->id, id) == 0;
}

bool grants_remove(struct grants *grants, const char *id)
{
    const size_t before = grants->count;
    grants_remove_if(grants, has_id, id);
    return grants->count < before;
}

static void free_node(void *grant)
{
    grant_free(grant);
}

void grants_free(struct grants *grants)
{
    tdestroy(grants->tree, free_node);
    *grants = (struct grants){0};
}
