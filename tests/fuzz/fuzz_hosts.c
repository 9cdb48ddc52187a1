/*
 * Any text is a hosts file. Each word of it that is a name is either in the table or not; what is
 * found has addresses.
 */
#include "dns/hosts.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct hosts_table *table, struct str word)
{
    static struct resolve_answer answer;
    struct name name;
    if (name_parse(&name, word) != NAME_OK)
        return;
    bool found = hosts_table_find(table, &name, &answer);
    assert(found == (answer.count > 0) && answer.count <= RESOLVER_MAX_ADDRS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct hosts_table *table = hosts_table_parse(text);
    if (table == NULL)
        return 0;
    size_t start = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && data[i] > ' ')
            continue;
        look_up(table, (struct str){text.p + start, i - start});
        start = i + 1;
    }
    hosts_table_free(table);
    return 0;
}
