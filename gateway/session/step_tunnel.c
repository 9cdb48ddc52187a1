#include "session/steps.h"

#include "session/ending.h"
#include "session/report.h"
#include "session/spending.h"
#include "session/standing.h"
#include "srt/must.h"

#include <stdlib.h>

double relay_deadline(const struct session *s)
{
    const struct gateway_config *config = session_config(s);
    double idle = s->active + (double)config->idle_timeout_ms / 1000.;
    double end = s->request.since + (double)config->tunnel_lifetime_ms / 1000.;
    return config->tunnel_lifetime_ms != 0 && end < idle ? end : idle;
}

enum step relay_late(struct session *s)
{
    const struct gateway_config *config = session_config(s);
    double age = session_now(s) - s->request.since;
    s->cause =
        config->tunnel_lifetime_ms != 0 && age >= (double)config->tunnel_lifetime_ms / 1000. - .001
            ? CLOSE_LIFETIME
            : CLOSE_IDLE;
    return STEP_CLOSE;
}

static void turn_relay(struct session *s)
{
    if (relay_turn(&s->relay, &s->worker->room) > 0)
        s->active = session_now(s);
}

enum step wake_relay(struct session *s)
{
    turn_relay(s);
    if (!spending_charge(s))
        return step_over_limit(s);
    if (!relay_is_over(&s->relay))
        return STEP_WAIT;
    s->cause = s->relay.down.ended_first ? CLOSE_UPSTREAM : CLOSE_CLIENT;
    return STEP_CLOSE;
}

enum step enter_relay(struct session *s)
{
    relay_release(&s->relay.up);
    free(s->look);
    s->look = NULL;
    return wake_relay(s);
}

static const char hello_ended[] = "the TLS hello ends in the middle";
static const char hello_malformed[] = "what begins like TLS is no TLS hello";

/* The tunnel is open, so the client is told in the language that it has begun to speak. */
static enum step end_tunnel(struct session *s, enum outcome outcome, const char *why, bool tls)
{
    uint8_t alert[HELLO_ALERT_LEN];
    s->request.outcome = outcome;
    s->request.why = why;
    (void)report_refusal(s, 0);
    relay_end(&s->relay, &s->worker->room); /* what the server has said stands before the alert */
    if (tls) {
        hello_alert(alert, HELLO_UNRECOGNIZED_NAME);
        stream_send(&s->client, (struct str){(const char *)alert, sizeof(alert)});
    }
    end_upstream(s);
    s->cause = CLOSE_POLICY;
    end_admission(s, s->cause);
    return STEP_LEAVE;
}

/* By the verdict about the first bytes: what is only reported, in a record of its own if nothing of
 * the request was before, goes on. */
static enum step settle_bytes(struct session *s, enum outcome verdict, enum outcome would,
                              const char *why, bool tls)
{
    if (verdict != OUTCOME_ALLOWED)
        return end_tunnel(s, verdict, why, tls);
    if (s->request.decision.would != would)
        report_in_tunnel(s, why);
    return STEP_RELAY;
}

static enum step judge_no_sni(struct session *s, const char *why, bool tls)
{
    const enum outcome would = s->request.decision.would;
    return settle_bytes(s, chain_judge_no_sni(&s->request.decision, !tls), would, why, tls);
}

static enum step judge_hello(struct session *s, const struct hello *hello)
{
    const struct chain chain = session_chain(s);
    const struct question question = standing_question(s);
    const enum outcome would = s->request.decision.would;
    const struct name *name = hello->has_name ? &hello->name : NULL;
    if (hello->has_name && !hello->name_is_valid)
        return judge_no_sni(s, "the server name in the TLS hello is no host name", true);
    s->request.first_bytes = FIRST_HELLO;
    if (hello->has_name) {
        free(s->request.sni);
        s->request.sni = request_copy_text(name_str(&hello->name));
    }
    return settle_bytes(s, chain_judge_sni(&chain, &question, &s->request.decision, name), would,
                        hello->has_name ? "the TLS hello names a server that is not allowed there"
                                        : "the TLS hello names no server",
                        true);
}

/* RELAY: it is allowed and has gone on. */
static enum step pass_hello(struct session *s, const struct hello *hello, size_t len)
{
    enum step step = judge_hello(s, hello);
    if (step == STEP_RELAY)
        relay_pass(&s->relay.up, len);
    return step;
}

static enum step judge_plain(struct session *s)
{
    s->request.first_bytes = FIRST_PLAIN;
    return judge_no_sni(s, "the rule wants TLS, and this is none", false);
}

/* A server may ask for a second hello and then take its name: nothing is relayed unseen before it
 * is known that there is none. The client's next records tell. */
static enum step watch_hello(struct session *s)
{
    const struct stream *client = &s->client;
    while (client->in.len > 0 && s->upstream.out.len == 0) {
        struct hello second;
        size_t pass;
        switch (hello_watch_feed(&s->look->watch, buf_view(&client->in), &pass, &second)) {
        case HELLO_WATCH_MORE:
            if (pass == 0 && (client->eof || client->broken))
                return judge_no_sni(s, hello_ended, true);
            if (pass == 0) {
                s->began = s->began > 0 ? s->began : session_now(s);
                return STEP_WAIT;
            }
            s->began = 0;
            relay_pass(&s->relay.up, pass);
            break;
        case HELLO_WATCH_HELLO:
            return pass_hello(s, &second, pass);
        case HELLO_WATCH_OVER:
            return STEP_RELAY;
        case HELLO_WATCH_BAD:
            return judge_no_sni(s, hello_malformed, true);
        }
    }
    return client->in.len == 0 && (client->eof || client->broken) ? STEP_RELAY : STEP_WAIT;
}

static enum step on_first_hello(struct session *s, const struct hello *hello)
{
    enum step step = pass_hello(s, hello, s->look->hello.at);
    if (step != STEP_RELAY)
        return step;
    s->began = 0;
    s->look->watched = true;
    hello_watch_init(&s->look->watch, hello);
    return watch_hello(s);
}

enum step wake_hello(struct session *s)
{
    struct hello hello;
    turn_relay(s);
    const struct stream *client = &s->client;
    const bool ended = client->eof || client->broken;
    if (relay_is_over(&s->relay))
        return wake_relay(s);
    if (s->look != NULL && s->look->watched)
        return watch_hello(s);
    if (client->in.len == 0)
        return ended ? STEP_RELAY : STEP_WAIT;
    if (s->look == NULL)
        s->look = must(calloc(1, sizeof(*s->look)));
    if (s->began <= 0)
        s->began = session_now(s);
    switch (hello_parse(buf_view(&client->in), &s->look->hello, &hello)) {
    case HELLO_MORE:
        return ended ? judge_no_sni(s, hello_ended, true) : STEP_WAIT;
    case HELLO_BAD:
        return judge_no_sni(s, hello_malformed, true);
    case HELLO_NOT_TLS:
        return judge_plain(s);
    case HELLO_PARSED:
        return on_first_hello(s, &hello);
    }
    return judge_no_sni(s, hello_malformed, true);
}

double hello_deadline(const struct session *s)
{
    double end = relay_deadline(s);
    double hello = s->began + (double)session_config(s)->header_timeout_ms / 1000.;
    return s->began > 0 && hello < end ? hello : end;
}

enum step hello_late(struct session *s)
{
    if (s->began > 0)
        return end_tunnel(s, OUTCOME_TIMEOUT,
                          "the TLS hello was not complete within header-timeout", true);
    return relay_late(s);
}
