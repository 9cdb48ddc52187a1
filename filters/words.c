#include "filters/words.h"

#include "srt/text.h"

/* Whether its port goes without saying. In settings a host alone is all of its ports, which is more
 * than was asked for where the user has chosen ports, and much more on this machine. */
static bool needs_no_port(const struct ruling *ruling, const struct target *target)
{
    if (!policy_is_settings(ruling->policy))
        return target->port == 80 || target->port == 443;
    return !target->is_addr && !name_is_localhost(&target->name) &&
           (ruling->near == NULL || rule_has_port(ruling->near, target->port));
}

/* How the target is written as a rule. */
static void as_rule(const struct ruling *ruling, const struct target *target, char *out,
                    size_t size)
{
    char host[NAME_MAX_LEN + 1], port[TEXT_NUMBER_MAX];
    const bool v6 = target->is_addr && target->addr.family == 6;
    const bool bare = needs_no_port(ruling, target);
    text_number(port, target->port);
    TEXT_JOIN(out, size, v6 ? "[" : NULL, target_host(host, target), v6 ? "]" : NULL,
              bare ? NULL : ":", bare ? NULL : port);
}

static void join_methods(const struct rule *rule, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < rule_extra(rule)->method_count && len < size; i++)
        len += TEXT_JOIN(out + len, size - len, i > 0 ? ", " : NULL, rule_extra(rule)->methods[i]);
}

/* "rule build:12 of policy build" */
static void name_rule(const struct ruling *ruling, char *out, size_t size)
{
    char id[RULE_ID_MAX];
    TEXT_JOIN(out, size, "rule ", rule_id(ruling->rule, id), " of policy ",
              policy_name(ruling->policy));
}

/* Why the nearest rule does not help: agents try less if they know what is missing. */
static const char *near_miss(const struct ruling *ruling, const struct target *target)
{
    const struct rule *rule = ruling->near;
    if (rule->effect == RULE_DENY)
        return "may deny this path, which can be read in two ways";
    if (rule_expired(rule, ruling->now))
        return "allowed this host until its time was over";
    if (!rule_has_port(rule, target->port))
        return "allows this host on other ports only";
    if (!rule_has_front(rule, ruling->front))
        return "allows this host by another way of asking only (see its front=)";
    if (ruling->front != FRONT_HTTP)
        return "allows this host for requests in clear only, and a tunnel hides method and path";
    return "allows this host on other paths only";
}

static void say_not_allowed(const struct ruling *ruling, const struct target *target,
                            const char *asked, char *out, size_t size)
{
    char id[RULE_ID_MAX];
    const size_t len = TEXT_JOIN(out, size, asked, " is not on the allow list of policy ",
                                 policy_name(ruling->policy));
    if (ruling->near != NULL && target != NULL)
        TEXT_JOIN(out + len, size - len, ": rule ", rule_id(ruling->near, id), " ",
                  near_miss(ruling, target));
}

static void say_address(const struct decision *decision, const struct target *target,
                        const char *asked, char *out, size_t size)
{
    char addr[ADDR_TEXT_MAX], rule[RULE_ID_MAX + 300], what[RULE_ID_MAX + 700];
    const struct ruling *ruling = &decision->ruling;
    if (decision->denied_addr.family == 0) {
        snprintf(out, size, "%s has no address that may be dialled", asked);
        return;
    }
    if (ruling->rule != NULL) {
        const char *reason = rule_reason(ruling->rule);
        name_rule(ruling, rule, sizeof(rule));
        snprintf(what, sizeof(what), "denied by %s%s%.300s", rule, reason != NULL ? ": " : "",
                 reason != NULL ? reason : "");
    } else {
        snprintf(what, sizeof(what), "%s", addr_class_text(decision->addr_class));
    }
    if (target != NULL && target->is_addr)
        TEXT_JOIN(out, size, asked, " is ", what);
    else
        TEXT_JOIN(out, size, asked, " resolves to ", addr_format(addr, &decision->denied_addr),
                  ", which is ", what);
}

void decision_dropped(const struct decision *decision, char *out, size_t size)
{
    char addr[ADDR_TEXT_MAX];
    int len = 0;
    out[0] = '\0';
    if (decision->dropped == 0 || decision->would == OUTCOME_ADDRESS_DENIED)
        return;
    len = snprintf(out, size, "not dialled: %s, %s", addr_format(addr, &decision->denied_addr),
                   addr_class_text(decision->addr_class));
    if (decision->dropped > 1 && len > 0 && (size_t)len < size)
        snprintf(out + len, size - (size_t)len, ", and %u more", decision->dropped - 1);
}

void decision_note(const struct decision *decision, const struct target *target, char *out,
                   size_t size)
{
    if (decision->would != OUTCOME_ALLOWED)
        decision_message(decision, target, decision->would, out, size);
    else if (decision->filter != NULL)
        snprintf(out, size, "filter %s of policy %s gave no verdict and has fail = open: %s",
                 decision->filter, policy_name(decision->ruling.policy), decision->filter_reason);
    else
        decision_dropped(decision, out, size);
}

/* Endings that no policy decided; %s is the target. */
static const char *plain_message(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_ALLOWED:
        return "%s is allowed";
    case OUTCOME_FILTER:
        return "%s was denied by a filter";
    case OUTCOME_MODULE_ERROR:
        return "%s was denied since a filter gave no verdict";
    case OUTCOME_ASK_TIMEOUT:
        return "nobody approved %s in time";
    case OUTCOME_SNI_MISMATCH:
        return "the server name in the TLS handshake is missing or not the name asked for, %s";
    case OUTCOME_LOOP:
        return "%s leads to this gateway itself";
    case OUTCOME_AUTH_REQUIRED:
        return "credentials are needed to reach %s";
    case OUTCOME_AUTH_FAILED:
        return "the credentials given to reach %s are not known";
    case OUTCOME_BAD_REQUEST:
        return "the request for %s is malformed";
    case OUTCOME_UNSUPPORTED:
        return "the request for %s asks for what this gateway does not support";
    case OUTCOME_TIMEOUT:
        return "the request for %s was not complete in time";
    case OUTCOME_LIMIT:
        return "a limit of this client was reached at the request for %s";
    case OUTCOME_DNS_NXDOMAIN:
        return "the name of %s does not exist";
    case OUTCOME_DNS_FAILURE:
        return "the name of %s could not be resolved: the name servers failed";
    case OUTCOME_DNS_TIMEOUT:
        return "the name of %s could not be resolved in time";
    case OUTCOME_CONNECT_REFUSED:
        return "%s refused the connection";
    case OUTCOME_CONNECT_UNREACHABLE:
        return "%s is unreachable";
    case OUTCOME_CONNECT_TIMEOUT:
        return "%s did not answer in time";
    case OUTCOME_BAD_RESPONSE:
        return "%s gave an answer that is not proper HTTP";
    case OUTCOME_DRAINING:
        return "the gateway is shutting down and takes no request for %s";
    case OUTCOME_OVERLOAD:
        return "the gateway is overloaded and takes no request for %s";
    case OUTCOME_AUDIT_FAILURE:
        return "the audit log cannot be written, so %s is refused";
    case OUTCOME_NOT_ALLOWED:
    case OUTCOME_DENIED_BY_RULE:
    case OUTCOME_METHOD_NOT_ALLOWED:
    case OUTCOME_ASK_REFUSED:
    case OUTCOME_ADDRESS_DENIED:
    case OUTCOME_COUNT:
        break;
    }
    return "%s is refused";
}

static void say_plainly(enum outcome outcome, const char *asked, char *out, size_t size)
{
    const char *format = plain_message(outcome), *hole = strstr(format, "%s");
    snprintf(out, size, "%.*s%s%s", (int)(hole - format), format, asked, hole + 2);
}

void decision_message(const struct decision *decision, const struct target *target,
                      enum outcome outcome, char *out, size_t size)
{
    char asked[TARGET_TEXT_MAX] = "this destination", rule[RULE_ID_MAX + 300], methods[256];
    const struct ruling *ruling = &decision->ruling;
    if (target != NULL)
        target_format(asked, target);
    if (ruling->policy == NULL) {
        say_plainly(outcome, asked, out, size);
        return;
    }
    const char *reason = ruling->rule != NULL ? rule_reason(ruling->rule) : NULL;
    if (ruling->rule != NULL)
        name_rule(ruling, rule, sizeof(rule));

    if (outcome == OUTCOME_FILTER && decision->filter != NULL)
        TEXT_JOIN(out, size, asked, " is denied by filter ", decision->filter, " of policy ",
                  policy_name(ruling->policy), ": ", decision->filter_reason);
    else if (outcome == OUTCOME_MODULE_ERROR && decision->filter != NULL)
        snprintf(out, size, "%s is denied: filter %s of policy %s gave no verdict: %s", asked,
                 decision->filter, policy_name(ruling->policy), decision->filter_reason);
    else if (outcome == OUTCOME_NOT_ALLOWED)
        say_not_allowed(ruling, target, asked, out, size);
    else if (outcome == OUTCOME_DENIED_BY_RULE && ruling->rule != NULL)
        TEXT_JOIN(out, size, asked, " is denied by ", rule, reason != NULL ? ": " : NULL, reason);
    else if (outcome == OUTCOME_METHOD_NOT_ALLOWED && ruling->rule != NULL) {
        join_methods(ruling->rule, methods, sizeof(methods));
        TEXT_JOIN(out, size, asked, " is allowed by ", rule, " for ", methods, " only");
    } else if (outcome == OUTCOME_ASK_REFUSED)
        snprintf(out, size, "%s needs an approval under policy %s, and %s", asked,
                 policy_name(ruling->policy),
                 decision->ask_why != NULL ? decision->ask_why : "nobody gave it");
    else if (outcome == OUTCOME_ASK_TIMEOUT && decision->ask_why != NULL)
        snprintf(out, size, "%s needs an approval under policy %s, and %s", asked,
                 policy_name(ruling->policy), decision->ask_why);
    else if (outcome == OUTCOME_ADDRESS_DENIED)
        say_address(decision, target, asked, out, size);
    else
        say_plainly(outcome, asked, out, size);
}

/* What to ask for when an address is in the way. */
static void address_step(const struct decision *decision, const struct target *target, char *out,
                         size_t size)
{
    char addr[ADDR_TEXT_MAX] = "ADDRESS";
    bool settings = policy_is_settings(decision->ruling.policy);
    if (decision->denied_addr.family != 0)
        addr_format(addr, &decision->denied_addr);
    bool v6 = decision->denied_addr.family == 6;
    char id[RULE_ID_MAX];
    if (decision->ruling.rule != NULL)
        snprintf(out, size, "Use another host; the address is denied by `%s` (%s)",
                 decision->ruling.rule->text, rule_id(decision->ruling.rule, id));
    else if (decision->addr_class == ADDR_OUTSIDE_TO)
        snprintf(out, size, "Ask for %s to be added to the to= of the rule `%s`", addr,
                 decision->ruling.allow->text);
    else if (decision->addr_class == ADDR_NOT_LOOPBACK)
        snprintf(out, size, "Use another name than localhost for a host elsewhere");
    else if (decision->addr_class == ADDR_STAND_IN)
        snprintf(out, size, "Look the name up again and connect to what it gives");
    else if (settings)
        snprintf(out, size, "If this address is meant, list `%s%s%s:%u` in network.allowedDomains",
                 v6 ? "[" : "", addr, v6 ? "]" : "", target->port);
    else
        snprintf(out, size, "If this address is meant, ask for `allow-addresses = %s` in policy %s",
                 addr, policy_name(decision->ruling.policy));
}

static const char *plain_next_step(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_ALLOWED:
        return "Go on";
    case OUTCOME_FILTER:
        return "Change the request as the message says, or use an allowed host";
    case OUTCOME_MODULE_ERROR:
        return "Try again later; the operator has to look at the filter's module";
    case OUTCOME_ASK_REFUSED:
    case OUTCOME_ASK_TIMEOUT:
        return "Ask the operator for a rule, or use an allowed host";
    case OUTCOME_SNI_MISMATCH:
        return "Use the same name in the URL and in the TLS handshake";
    case OUTCOME_LOOP:
        return "Address the server itself, not the proxy";
    case OUTCOME_AUTH_REQUIRED:
    case OUTCOME_AUTH_FAILED:
        return "Give the sandbox's token as proxy password or bearer token";
    case OUTCOME_BAD_REQUEST:
    case OUTCOME_UNSUPPORTED:
        return "Correct the request; repeating it will not help";
    case OUTCOME_TIMEOUT:
        return "Send the whole request at once";
    case OUTCOME_LIMIT:
        return "Wait as Retry-After says, then try again";
    case OUTCOME_DNS_NXDOMAIN:
        return "Check the spelling of the host name";
    case OUTCOME_DNS_FAILURE:
    case OUTCOME_DNS_TIMEOUT:
    case OUTCOME_CONNECT_TIMEOUT:
    case OUTCOME_DRAINING:
    case OUTCOME_OVERLOAD:
        return "Try again later";
    case OUTCOME_CONNECT_REFUSED:
        return "Check the port, and that the server is running";
    case OUTCOME_CONNECT_UNREACHABLE:
        return "Use another host, or try again later";
    case OUTCOME_BAD_RESPONSE:
        return "Check the server; the gateway cannot pass its answer on";
    case OUTCOME_AUDIT_FAILURE:
        return "Tell the operator that the gateway cannot write its audit log";
    case OUTCOME_NOT_ALLOWED:
    case OUTCOME_DENIED_BY_RULE:
    case OUTCOME_METHOD_NOT_ALLOWED:
    case OUTCOME_ADDRESS_DENIED:
    case OUTCOME_COUNT:
        break;
    }
    return "Use an allowed host";
}

void decision_next_step(const struct decision *decision, const struct target *target,
                        enum outcome outcome, char *out, size_t size)
{
    const struct ruling *ruling = &decision->ruling;
    char pattern[TARGET_TEXT_MAX], methods[256], id[RULE_ID_MAX];
    bool settings = ruling->policy != NULL && policy_is_settings(ruling->policy);
    if (ruling->policy == NULL || target == NULL) {
        TEXT_JOIN(out, size, plain_next_step(outcome));
        return;
    }
    as_rule(ruling, target, pattern, sizeof(pattern));
    const bool asked = outcome == OUTCOME_ASK_REFUSED || outcome == OUTCOME_ASK_TIMEOUT;
    if (settings && (outcome == OUTCOME_NOT_ALLOWED || asked))
        TEXT_JOIN(out, size, "Ask for `", pattern,
                  "` in network.allowedDomains or use an allowed host");
    else if (outcome == OUTCOME_NOT_ALLOWED)
        TEXT_JOIN(out, size, "Ask for a rule `allow = ", pattern, "` or use an allowed host");
    else if (outcome == OUTCOME_DENIED_BY_RULE && settings)
        TEXT_JOIN(out, size, "Use another host; `", ruling->rule->text,
                  "` stands in network.deniedDomains");
    else if (outcome == OUTCOME_DENIED_BY_RULE)
        TEXT_JOIN(out, size, "Use another host; `deny = ", ruling->rule->text, "` (",
                  rule_id(ruling->rule, id), ") beats every allow rule");
    else if (outcome == OUTCOME_METHOD_NOT_ALLOWED) {
        join_methods(ruling->rule, methods, sizeof(methods));
        TEXT_JOIN(out, size, "Use ", methods, ", or ask for the method to be added to rule ",
                  rule_id(ruling->rule, id));
    } else if (outcome == OUTCOME_ADDRESS_DENIED)
        address_step(decision, target, out, size);
    else
        TEXT_JOIN(out, size, plain_next_step(outcome));
}
