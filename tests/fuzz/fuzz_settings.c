/* Settings and the network object a launcher sends; every fault has a place inside the text. */
#include "config/settings.h"

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
        if (!settings_network_read(&network, "sent", str_of(settings->network_json), &faults) ||
            network.allowed_domains.count != settings->network.allowed_domains.count ||
            network.denied_domains.count != settings->network.denied_domains.count)
            abort();
        settings_network_free(&network);
        faults_free(&faults);
    }
    settings_free(settings);

    struct settings_network network;
    if (settings_network_read(&network, "fuzz", text, &faults))
        settings_network_free(&network);
    check_faults(&faults, text);
    faults_free(&faults);
    return 0;
}
