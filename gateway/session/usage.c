#include "session/usage.h"

#include "srt/must.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct usage *)a)->policy, ((const struct usage *)b)->policy);
}

struct usage *usages_find(struct usages *usages, const char *policy)
{
    struct usage *usage = must(calloc(1, sizeof(*usage)));
    usage->policy = must_copy(policy);
    struct usage **found = must(tsearch(usage, &usages->root, compare));
    if (*found != usage) {
        free(usage->policy);
        free(usage);
    }
    return *found;
}

static void free_usage(void *item)
{
    struct usage *usage = item;
    free(usage->policy);
    free(usage);
}

void usages_free(struct usages *usages)
{
    tdestroy(usages->root, free_usage);
    usages->root = NULL;
}

struct walk {
    void (*each)(void *arg, const struct usage *usage);
    void *arg;
};

static void visit(const void *node, VISIT which, void *closure)
{
    const struct walk *walk = closure;
    if (which == postorder || which == leaf)
        walk->each(walk->arg, *(const struct usage *const *)node);
}

void usages_each(const struct usages *usages, void (*each)(void *arg, const struct usage *usage),
                 void *arg)
{
    twalk_r(usages->root, visit, &(struct walk){each, arg});
}
