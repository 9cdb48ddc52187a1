/* Settings, where every fault has a place inside the text, and the network object that a launcher
 * sends. */
#include "config/settings.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_faults(const struct faults *faults, struct str text)
{
    unsigned lines = 1;
    for (size_t i = 0; i < text.len; i++)
        lines += text.p[i] == '\n';
    for (size_t i = 0; i < faults->count; i++) {
        const struct fault *fault = &faults->items[i];
        if (fault->line < 1 || fault->line > lines || fault->column < 1 ||
            strchr(fault->text, '\n') != NULL)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct faults faults = {0};
    struct settings *settings = settings_read_text("fuzz.json", text, &faults);
    if ((settings == NULL) != (faults.errors > 0))
        abort();
    check_faults(&faults, text);
    faults_free(&faults);

    /* What is sent on is what was read. */
    if (settings != NULL && settings->network_json != NULL) {
        struct settings_network network;
        json_t *sent = json_loads(settings->network_json, JSON_REJECT_DUPLICATES, NULL);
        if (sent == NULL || !settings_network_read(&network, "sent", sent, &faults) ||
            network.allowed_domains.count != settings->network.allowed_domains.count ||
            network.denied_domains.count != settings->network.denied_domains.count)
            abort();
        json_decref(sent);
        settings_network_free(&network);
        faults_free(&faults);
    }
    settings_free(settings);

    struct settings_network network;
    json_t *json = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (json != NULL && settings_network_read(&network, "fuzz", json, &faults))
        settings_network_free(&network);
    json_decref(json);
    faults_free(&faults);
    return 0;
}
