/*
 * A name that parses is canonical: parsing its text again gives the same, by both parsers.
 */
#include "dns/name.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_canonical(const struct name *name)
{
    struct name again;
    assert(name->len > 0 && name->len <= NAME_MAX_LEN && strlen(name->text) == name->len);
    assert(name_parse(&again, name_str(name)) == NAME_OK && name_eq(name, &again));
    assert(name_parse_idna(&again, name_str(name)) == NAME_OK && name_eq(name, &again));
    assert(!name_is_below(name, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct name name, idna;
    enum name_fault fault = name_parse(&name, text);
    enum name_fault idna_fault = name_parse_idna(&idna, text);
    if (fault == NAME_OK) {
        check_canonical(&name);
        assert(idna_fault == NAME_OK && name_eq(&name, &idna));
    }
    if (idna_fault == NAME_OK)
        check_canonical(&idna);
    assert(name_fault_text(fault) != NULL && name_fault_text(idna_fault) != NULL);
    return 0;
}
