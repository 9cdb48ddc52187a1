/* The INI reader and the gateway's configuration behind it; what is accepted can be printed and
 * read again with the same result. Files named by the text are looked for below a directory that
 * does not exist, so nothing of the machine is read except by absolute path. */
#include "config/gateway_config.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *printed(const struct gateway_config *config, size_t *size)
{
    char *text;
    FILE *out = open_memstream(&text, size);
    gateway_config_print(config, out);
    fclose(out);
    return text;
}

/* Secrets are printed as (hidden), which does not read as a secret. */
static bool has_secret(const struct gateway_config *config)
{
    for (size_t i = 0; i < config->client_count; i++)
        if (config->clients[i].has_token)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct faults faults = {0};
    struct str text = {(const char *)data, size};
    struct gateway_config *config =
        gateway_config_read_text("/nonexistent/fuzz.ini", text, &faults);
    if ((config == NULL) != (faults.errors > 0))
        abort();
    for (size_t i = 0; i < faults.count; i++)
        if (faults.items[i].text[0] == '\0' || strchr(faults.items[i].text, '\n') != NULL)
            abort();
    faults_free(&faults);
    if (config == NULL)
        return 0;

    size_t first_size, second_size;
    char *first = printed(config, &first_size);
    if (!has_secret(config)) {
        struct gateway_config *again = gateway_config_read_text(
            "/nonexistent/fuzz.ini", (struct str){first, first_size}, &faults);
        if (again == NULL)
            abort();
        char *second = printed(again, &second_size);
        if (!str_eq((struct str){first, first_size}, (struct str){second, second_size}))
            abort();
        free(second);
        gateway_config_free(again);
        faults_free(&faults);
    }
    free(first);
    gateway_config_free(config);
    return 0;
}
