/*
 * Two lines: a rule and a request (TARGET METHOD PATH). The rule must parse or be a fault; what it
 * allows, the same text as a deny rule must deny.
 */
#include "filters/policy.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
    struct target target;
    struct question question;
};

static bool read_request(struct request *request, struct str line)
{
    const char *space = memchr(line.p, ' ', line.len);
    struct str target = {line.p, space != NULL ? (size_t)(space - line.p) : line.len};
    if (!target_parse(&request->target, target, NULL))
        return false;
    request->question = (struct question){.target = &request->target, .front = FRONT_HTTP};
    if (space == NULL)
        return true;
    line = str_from(line, target.len + 1);
    space = memchr(line.p, ' ', line.len);
    request->question.method =
        (struct str){line.p, space != NULL ? (size_t)(space - line.p) : line.len};
    if (space != NULL)
        request->question.path = str_from(line, request->question.method.len + 1);
    return true;
}

static struct policy *compile(struct str rule, bool denied)
{
    struct config_text text = {rule, {"fuzz", 1, 0}};
    struct config_policy config = {.name = "p", .place = {"fuzz", 1, 0}, .allow = {&text, 1}};
    struct gateway_config all = {.policies = &config, .policy_count = 1};
    struct faults faults = {0};
    if (denied)
        config.deny = (struct config_list){&text, 1};
    struct policy *policy = policy_compile(&config, &all, &faults);
    assert((policy == NULL) == (faults.errors > 0));
    faults_free(&faults);
    return policy;
}

static void parse_as_settings(const char *text)
{
    struct rule_origin origin = {.suffix = ""};
    struct faults faults = {0};
    struct rule rule;
    if (rule_parse(&rule, RULE_DENY, RULE_SETTINGS, text, &origin, 1, (struct place){"fuzz", 1, 0},
                   &faults)) {
        struct name again;
        if (rule.host == RULE_NAME || rule.host == RULE_BELOW)
            assert(name_parse(&again, rule_name(&rule)) == NAME_OK &&
                   str_eq(name_str(&again), rule_name(&rule)));
        rule_free(&rule);
    }
    faults_free(&faults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    if (size > 8192 || memchr(data, 0, size) != NULL)
        return 0;
    const char *newline = size > 0 ? memchr(input.p, '\n', size) : NULL;
    size_t len = newline != NULL ? (size_t)(newline - input.p) : size;
    autofree char *rule = strndup(input.p, len);
    if (rule == NULL)
        return 0;
    parse_as_settings(rule);
    struct policy *allow = compile(str_of(rule), false), *deny = compile(str_of(rule), true);
    struct request request;
    if (allow != NULL && newline != NULL && read_request(&request, str_from(input, len + 1))) {
        struct ruling ruling = policy_judge(allow, &request.question);
        bool allowed = ruling.outcome == OUTCOME_ALLOWED;
        assert(allowed == (ruling.rule != NULL && ruling.rule->mode == RULE_ENFORCE &&
                           ruling.outcome != OUTCOME_METHOD_NOT_ALLOWED));
        if (allowed && deny != NULL)
            assert(policy_judge(deny, &request.question).outcome == OUTCOME_DENIED_BY_RULE);
    }
    policy_free(allow);
    policy_free(deny);
    return 0;
}
