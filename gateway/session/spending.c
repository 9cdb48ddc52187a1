#include "session/spending.h"

#include "session/steps.h"

static struct budget *budget_of(const struct session *s)
{
    const struct config_client *client = s->identity.client;
    return client != NULL ? s->tenure->budgets[client - s->tenure->snapshot->config->clients]
                          : NULL;
}

void spending_end(struct session *s)
{
    if (s->budget != NULL)
        budget_end(s->budget);
    s->budget = NULL;
    s->charged_bytes = 0;
}

bool spending_begin(struct session *s)
{
    struct budget *budget = budget_of(s);
    if (budget == NULL || budget == s->budget)
        return true;
    spending_end(s);
    s->request.why =
        budget_begin(budget, s->identity.client, session_clock_ns(), &s->request.retry_after_s);
    if (s->request.why != NULL)
        return false;
    s->budget = budget;
    return true;
}

bool spending_charge(struct session *s)
{
    const struct config_client *client = s->identity.client;
    const uint64_t sent = s->request.bytes_up + s->relay.up.bytes;
    if (s->budget == NULL || client == NULL || client->bytes_up.count == 0)
        return true;
    const int64_t now = session_clock_ns();
    bucket_charge(&s->budget->bytes_up, &client->bytes_up, sent - s->charged_bytes, now);
    s->charged_bytes = sent;
    return !bucket_is_empty(&s->budget->bytes_up, &client->bytes_up, now,
                            &s->request.retry_after_s);
}
