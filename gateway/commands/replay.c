/*
 * `srt-gateway replay`: what another configuration would have said to recorded requests.
 *
 * Each decision is judged again by the policy of the same name (or the one that --policy names)
 * through the code that judges live traffic: rules first, then the recorded address. Filters are
 * not asked. Requests that ended before any policy was asked, or by a filter, are passed over; a
 * name that could not be resolved or dialled counts as allowed, for that is what the policy had
 * said. One line for each verdict that changed.
 */
#include "commands/command.h"
#include "commands/history.h"
#include "control/gateway.h"
#include "filters/words.h"
#include "record/event.h"

#include <time.h>
#include <unistd.h>

struct replay {
    const struct snapshot *snapshot;
    const char *policy; /* instead of the recorded one, or NULL */
    bool json;
    size_t judged, changed, passed_over;
};

/* What the policy had to say about a request that ended so. */
enum policy_view { POLICY_ALLOWED, POLICY_DENIED, POLICY_NOT_ASKED };

static enum policy_view view_of(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_NOT_ALLOWED:
    case OUTCOME_DENIED_BY_RULE:
    case OUTCOME_METHOD_NOT_ALLOWED:
    case OUTCOME_ASK_REFUSED:
    case OUTCOME_ASK_TIMEOUT:
    case OUTCOME_ADDRESS_DENIED:
        return POLICY_DENIED;
    case OUTCOME_ALLOWED:
    case OUTCOME_DNS_NXDOMAIN:
    case OUTCOME_DNS_FAILURE:
    case OUTCOME_DNS_TIMEOUT:
    case OUTCOME_CONNECT_REFUSED:
    case OUTCOME_CONNECT_UNREACHABLE:
    case OUTCOME_CONNECT_TIMEOUT:
    case OUTCOME_BAD_RESPONSE:
        return POLICY_ALLOWED;
    case OUTCOME_FILTER: /* filters answer live requests only; the rules had said yes */
    case OUTCOME_MODULE_ERROR:
    case OUTCOME_LOOP:
    case OUTCOME_SNI_MISMATCH: /* the second decision of a request that was allowed */
    case OUTCOME_AUTH_REQUIRED:
    case OUTCOME_AUTH_FAILED:
    case OUTCOME_BAD_REQUEST:
    case OUTCOME_UNSUPPORTED:
    case OUTCOME_TIMEOUT:
    case OUTCOME_LIMIT:
    case OUTCOME_DRAINING:
    case OUTCOME_OVERLOAD:
    case OUTCOME_AUDIT_FAILURE:
    case OUTCOME_COUNT:
        break;
    }
    return POLICY_NOT_ASKED;
}

static enum outcome judge_again(const struct history_record *record, const struct target *target,
                                enum front front, const struct policy *policy,
                                struct decision *decision)
{
    static const struct guard_host nowhere; /* the recorded machine's own addresses are not known */
    struct chain chain = {.policy = policy};
    struct question question = {.target = target,
                                .front = front,
                                .method = str_of(record->method),
                                .path = str_of(record->path),
                                .now = (int64_t)time(NULL)};
    enum outcome outcome = chain_judge(&chain, &question, decision);
    if (decision->asks != 0)
        decision->ask_why = "a request waits for it";
    struct approved approved;
    struct addr addr;
    if (outcome == OUTCOME_ALLOWED && record->addr != NULL &&
        addr_parse(&addr, str_of(record->addr)))
        outcome = chain_approve(&chain, &nowhere, target, &addr, 1, decision, &approved);
    return outcome;
}

static void print_change(const struct replay *replay, const struct history_record *record,
                         const struct target *asked, const struct policy *policy, enum outcome now,
                         const struct decision *decision)
{
    char target[TARGET_TEXT_MAX], message[512] = "";
    const char *is = now == OUTCOME_ALLOWED ? "allow" : "deny";
    const char *was = now == OUTCOME_ALLOWED ? "deny" : "allow"; /* only changes are printed */
    target_format(target, asked);
    if (now != OUTCOME_ALLOWED)
        decision_message(decision, asked, now, message, sizeof(message));
    if (!replay->json) {
        printf("%s -> %s  %s  %s  policy %s%s%s\n", was, is, record->id != NULL ? record->id : "-",
               target, policy_name(policy), message[0] != '\0' ? ": " : "", message);
        return;
    }
    struct json json = {0};
    json_object_open(&json, NULL);
    json_text(&json, "id", str_of(record->id));
    json_text(&json, "ts", str_of(record->ts));
    json_text(&json, "target", str_of(target));
    json_text(&json, "policy", str_of(policy_name(policy)));
    json_text(&json, "was", str_of(was));
    json_text(&json, "verdict", str_of(is));
    json_text(&json, "reason", str_of(outcome_row(now)->word));
    json_text(&json, "message", message[0] != '\0' ? str_of(message) : STR_NULL);
    json_object_close(&json);
    json_newline(&json);
    fwrite(json.data, 1, json.len, stdout);
    json_free(&json);
}

static void replay_one(void *arg, const struct history_record *record)
{
    struct replay *replay = arg;
    if (record->kind != HISTORY_DECISION)
        return;
    const char *name = replay->policy != NULL ? replay->policy : record->policy;
    const struct policy *policy = name != NULL ? snapshot_policy(replay->snapshot, name) : NULL;
    enum policy_view was = record->in_tunnel    ? POLICY_NOT_ASKED
                           : record->would_deny ? POLICY_DENIED
                                                : view_of(record->outcome);
    struct target target;
    enum front front;
    if (!history_target(record, &target) || !history_front(record, &front) ||
        was == POLICY_NOT_ASKED || policy == NULL) {
        replay->passed_over++;
        return;
    }
    struct decision decision = {0};
    enum outcome now = judge_again(record, &target, front, policy, &decision);
    enum outcome shown = now == OUTCOME_ALLOWED ? decision.would : now;
    replay->judged++;
    if ((shown == OUTCOME_ALLOWED) == (was == POLICY_ALLOWED))
        return;
    replay->changed++;
    print_change(replay, record, &target, policy, shown, &decision);
}

int command_replay(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'},
        {"policy", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},
        COMMAND_COMMON_OPTIONS,
    };
    struct replay replay = {0};
    const char *config = NULL;
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;) {
        if (option == 'c')
            config = optarg;
        else if (option == 'p')
            replay.policy = optarg;
        else
            replay.json = true;
    }
    if (optind + 1 != argc)
        return command_misused(self, "name one audit log");

    struct snapshot *snapshot =
        gateway_load(config != NULL ? config : command_default_config(), NULL);
    if (snapshot == NULL)
        return EXIT_CONFIG;
    replay.snapshot = snapshot;
    int status = EXIT_DONE;
    struct srt_err err;
    if (replay.policy != NULL && snapshot_policy(snapshot, replay.policy) == NULL)
        status = command_misused(self, "there is no policy '%s'", replay.policy);
    else if (history_read(argv[optind], replay_one, &replay, NULL, &err) != 0) {
        fprintf(stderr, "srt-gateway: %s\n", err.text);
        status = EXIT_SYSTEM;
    } else {
        fprintf(stderr, "%zu judged, %zu changed, %zu passed over\n", replay.judged, replay.changed,
                replay.passed_over);
        status = replay.changed > 0 ? EXIT_NO : EXIT_DONE;
    }
    snapshot_release(snapshot);
    return status;
}
