#include "dns/name.h"

#include <idn2.h>
#include <string.h>

/* No name that fits into 253 bytes of A-labels is longer than this in UTF-8. */
enum { NAME_MAX_UTF8 = 4 * NAME_MAX_LEN };

static bool is_ascii(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.p[i] >= 0x80)
            return false;
    return true;
}

/* RFC 5891 5.4 leaves this to the caller, and behind "xn--" the hyphen would no longer show. */
static bool has_hyphen_at_label_edge(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool at_start = i == 0 || text.p[i - 1] == '.';
        bool at_end = i + 1 == text.len || text.p[i + 1] == '.';
        if (text.p[i] == '-' && (at_start || at_end))
            return true;
    }
    return false;
}

static enum name_fault fault_of_idn2(int rc)
{
    switch (rc) {
    case IDN2_TOO_BIG_DOMAIN:
        return NAME_TOO_LONG;
    case IDN2_TOO_BIG_LABEL:
    case IDN2_PUNYCODE_BIG_OUTPUT:
        return NAME_LABEL_TOO_LONG;
    default:
        return NAME_NOT_IDNA;
    }
}

enum name_fault name_parse_idna(struct name *out, struct str text)
{
    if (is_ascii(text))
        return name_parse(out, text);
    if (text.len > NAME_MAX_UTF8)
        return NAME_TOO_LONG;
    if (has_hyphen_at_label_edge(text))
        return NAME_BAD_HYPHEN;

    /* Letter case of ASCII is the only mapping made here. Those of UTS 46 would turn other
     * characters (KELVIN SIGN, full-width letters and dots) into ASCII, so that a rule could mean
     * another name than the one it shows; strict IDNA2008 refuses them. */
    uint8_t lower[NAME_MAX_UTF8 + 1];
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\0')
            return NAME_BAD_BYTE;
        lower[i] = str_lower_byte((unsigned char)text.p[i]);
    }
    lower[text.len] = '\0';

    uint8_t *ascii = NULL;
    int rc = idn2_lookup_u8(lower, &ascii, IDN2_NFC_INPUT | IDN2_NO_TR46);
    if (rc != IDN2_OK)
        return fault_of_idn2(rc);
    enum name_fault fault = name_parse(out, str_of((const char *)ascii));
    idn2_free(ascii);
    return fault;
}
