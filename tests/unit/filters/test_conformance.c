/*
 * conformance.tsv, row by row: what a policy says to a request. The same table drives `explain` and
 * the live proxy, so a row is what an operator would write and what a client would ask.
 *
 *   rules     the lines of one [policy p], separated by \n (spelled so); keys of a settings file's
 *             network object (allowedDomains, deniedDomains, deniedResolvedAddresses) make it a
 *             policy from settings instead
 *   request   FRONT TARGET [METHOD PATH] [addr=A,A...] [sni=NAME|none] [now=SECONDS]
 *   verdict   allow, a reason, "fault" (the policy does not load), "malformed" (no such target), or
 *             "report:REASON" (allowed, and what report mode did not apply)
 *   rule      its id, or - for none
 */
#include "filters/chain.h"
#include "lines.h"

enum { ROWS_WANTED = 300 };

struct row {
    unsigned line;
    char *rules, *request, *verdict, *rule;
};

struct asked {
    struct question question;
    struct target target;
    struct name sni;
    bool has_sni, no_sni;
    struct addr addrs[8];
    size_t addr_count;
};

static void take_addrs(struct asked *asked, char *list)
{
    for (char *save, *word = strtok_r(list, ",", &save); word != NULL;
         word = strtok_r(NULL, ",", &save))
        assert_true(addr_parse(&asked->addrs[asked->addr_count++], str_of(word)));
}

/* False when the target is malformed. */
static bool read_request(struct asked *asked, char *request)
{
    *asked = (struct asked){.question = {.now = 1000}};
    char *save, *front = strtok_r(request, " ", &save), *target = strtok_r(NULL, " ", &save);
    while (strcmp(front_word(asked->question.front), front) != 0)
        asked->question.front++;
    asked->question.target = &asked->target;
    for (char *word; (word = strtok_r(NULL, " ", &save)) != NULL;) {
        if (strncmp(word, "addr=", 5) == 0)
            take_addrs(asked, word + 5);
        else if (strcmp(word, "sni=none") == 0)
            asked->no_sni = true;
        else if (strncmp(word, "sni=", 4) == 0)
            asked->has_sni = name_parse(&asked->sni, str_of(word + 4)) == NAME_OK;
        else if (strncmp(word, "now=", 4) == 0)
            asked->question.now = strtol(word + 4, NULL, 10);
        else if (asked->question.method.p == NULL)
            asked->question.method = str_of(word);
        else
            asked->question.path = str_of(word);
    }
    bool good = target_parse(&asked->target, str_of(target), NULL);
    if (good && asked->target.is_addr && asked->addr_count == 0)
        asked->addrs[asked->addr_count++] = asked->target.addr;
    return good;
}

static const char *judge(const struct policy *policy, const struct asked *asked,
                         struct decision *decision)
{
    static char text[64];
    struct chain chain = {.policy = policy};
    struct guard_host host = {0};
    struct approved approved;
    enum outcome outcome = chain_judge(&chain, &asked->question, decision);
    if (outcome == OUTCOME_ALLOWED && asked->addr_count > 0)
        outcome = chain_approve(&chain, &host, &asked->target, asked->addrs, asked->addr_count,
                                decision, &approved);
    if (outcome == OUTCOME_ALLOWED && (asked->has_sni || asked->no_sni))
        outcome = chain_judge_sni(&chain, &asked->question, decision,
                                  asked->has_sni ? &asked->sni : NULL);
    if (outcome != OUTCOME_ALLOWED)
        return outcome_row(outcome)->word;
    if (!decision->report)
        return "allow";
    snprintf(text, sizeof(text), "report:%s", outcome_row(decision->would)->word);
    return text;
}

/* "\\n" as the table spells it to line ends. */
static char *real_lines(char *text)
{
    for (char *at; (at = strstr(text, "\\n")) != NULL;) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
    return text;
}

static bool check_row(const struct row *row)
{
    struct faults faults = {0};
    struct asked asked;
    struct decision decision = {0};
    char id[RULE_ID_MAX] = "-";
    const char *verdict;
    struct policy *policy = policy_from(real_lines(row->rules), &faults);
    if (policy == NULL)
        verdict = "fault";
    else if (!read_request(&asked, row->request))
        verdict = "malformed";
    else
        verdict = judge(policy, &asked, &decision);
    if (decision.ruling.rule != NULL)
        rule_id(decision.ruling.rule, id);
    bool good = strcmp(verdict, row->verdict) == 0 && strcmp(id, row->rule) == 0;
    if (!good) {
        print_error("conformance.tsv:%u: %s by %s, wanted %s by %s\n", row->line, verdict, id,
                    row->verdict, row->rule);
        faults_print(&faults, stderr);
    }
    policy_free(policy);
    faults_free(&faults);
    return good;
}

static bool split_row(struct row *row, char *text)
{
    char **fields[] = {&row->rules, &row->request, &row->verdict, &row->rule};
    for (size_t i = 0; i < 4; i++) {
        *fields[i] = strsep(&text, i < 3 ? "\t" : "\t\n");
        if (*fields[i] == NULL)
            return false;
    }
    return true;
}

static void test_conformance(void **state)
{
    (void)state;
    autofclose FILE *file = fopen("unit/filters/conformance.tsv", "r");
    assert_non_null(file);
    autofree char *text = NULL;
    size_t size = 0, rows = 0, wrong = 0;
    for (struct row row = {.line = 1}; getline(&text, &size, file) > 0; row.line++) {
        if (text[0] == '#' || text[0] == '\n')
            continue;
        if (!split_row(&row, text))
            fail_msg("conformance.tsv:%u: not four fields", row.line);
        rows++;
        wrong += !check_row(&row);
    }
    assert_int_equal(wrong, 0);
    assert_true(rows >= ROWS_WANTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
