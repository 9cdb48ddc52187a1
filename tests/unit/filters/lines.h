/*
 * Policies from the lines of their section, for tests. Keys of a settings file's network object
 * make it a policy from settings. A header of static functions: each test is a program of its own.
 */
#ifndef UNIT_FILTERS_LINES_H
#define UNIT_FILTERS_LINES_H

#include "filters/policy.h"
#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_LINES = 32 };

/* A policy's lines as the configuration would hand them over. */
struct lines {
    struct config_text texts[4][MAX_LINES];
    struct settings_text settings[3][MAX_LINES];
    struct config_policy policy;
    struct settings_network network;
    bool from_settings;
};

static inline void add(struct config_list *list, char *value, unsigned line)
{
    assert_true(list->count < MAX_LINES);
    list->items[list->count++] = (struct config_text){str_of(value), {"test.ini", line, 0}};
}

/* Addresses, each an item of its own as in a configuration. */
static inline void add_words(struct config_list *list, char *value, unsigned line)
{
    struct str rest = str_of(value), word;
    while (str_next_word(&rest, STR(", "), &word)) {
        assert_true(list->count < MAX_LINES);
        list->items[list->count++] = (struct config_text){word, {"test.ini", line, 0}};
    }
}

static inline void add_setting(struct settings_list *list, char *value)
{
    assert_true(list->count < MAX_LINES);
    list->items[list->count++] = (struct settings_text){.text = value, .line = 1};
}

static inline void take_line(struct lines *lines, char *line, unsigned number)
{
    struct config_policy *policy = &lines->policy;
    char *value = strstr(line, " = ");
    assert_non_null(value);
    *value = '\0';
    value += 3;
    lines->from_settings |= strstr(line, "Domains") != NULL || strstr(line, "Resolved") != NULL ||
                            strcmp(line, "asks") == 0 || strcmp(line, "strictAllowlist") == 0;
    if (strcmp(line, "allow") == 0)
        add(&policy->allow, value, number);
    else if (strcmp(line, "deny") == 0)
        add(&policy->deny, value, number);
    else if (strcmp(line, "allow-addresses") == 0)
        add_words(&policy->allow_addresses, value, number);
    else if (strcmp(line, "deny-addresses") == 0)
        add_words(&policy->deny_addresses, value, number);
    else if (strcmp(line, "default") == 0)
        policy->fallback = *value == 'd'     ? DEFAULT_DENY
                           : value[1] == 's' ? DEFAULT_ASK
                                             : DEFAULT_ALLOW;
    else if (strcmp(line, "mode") == 0)
        policy->report = strcmp(value, "report") == 0;
    else if (strcmp(line, "sni") == 0)
        policy->sni_off = strcmp(value, "off") == 0;
    else if (strcmp(line, "private-addresses") == 0)
        policy->private_addresses = strcmp(value, "allow") == 0;
    else if (strcmp(line, "allowedDomains") == 0)
        add_setting(&lines->network.allowed_domains, value);
    else if (strcmp(line, "asks") == 0)
        lines->network.asks = true;
    else if (strcmp(line, "strictAllowlist") == 0)
        lines->network.strict_allowlist = true;
    else if (strcmp(line, "deniedDomains") == 0)
        add_setting(&lines->network.denied_domains, value);
    else if (strcmp(line, "deniedResolvedAddresses") == 0)
        add_setting(&lines->network.denied_resolved_addresses, value);
    else
        fail_msg("unknown key %s", line);
}

/* A policy `p` of these lines, or NULL and faults. Rules copy their text, so nothing is kept. */
static inline struct policy *policy_from(const char *text, struct faults *faults)
{
    struct lines lines = {.policy = {.name = "p", .place = {"test.ini", 1, 0}}};
    struct config_list *lists[] = {&lines.policy.allow, &lines.policy.deny,
                                   &lines.policy.allow_addresses, &lines.policy.deny_addresses};
    struct settings_list *settings[] = {&lines.network.allowed_domains,
                                        &lines.network.denied_domains,
                                        &lines.network.denied_resolved_addresses};
    for (size_t i = 0; i < 4; i++)
        lists[i]->items = lines.texts[i];
    for (size_t i = 0; i < 3; i++)
        settings[i]->items = lines.settings[i];
    autofree char *copy = strdup(text);
    unsigned number = 0;
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        if (*line != '\0')
            take_line(&lines, line, number);
    }
    struct gateway_config all = {.policies = &lines.policy, .policy_count = 1};
    return lines.from_settings ? policy_compile_settings(&lines.network, NULL, "settings", faults)
                               : policy_compile(&lines.policy, &all, faults);
}

/* The same where the lines are known to be good. */
static inline struct policy *good_policy(const char *text)
{
    struct faults faults = {0};
    struct policy *policy = policy_from(text, &faults);
    faults_print(&faults, stderr);
    faults_free(&faults);
    assert_non_null(policy);
    return policy;
}

#endif
