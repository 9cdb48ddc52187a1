#include "dns/name.h"

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(unsigned char c)
{
    c = str_lower_byte(c);
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool is_name_byte(unsigned char c)
{
    c = str_lower_byte(c);
    return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

static bool all_bytes(struct str text, bool (*is_good)(unsigned char))
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_good((unsigned char)text.p[i]))
            return false;
    return true;
}

static enum name_fault check_label(struct str label)
{
    if (label.len == 0)
        return NAME_LABEL_EMPTY;
    if (!all_bytes(label, is_name_byte))
        return NAME_BAD_BYTE;
    if (label.len > NAME_MAX_LABEL)
        return NAME_LABEL_TOO_LONG;
    if (label.p[0] == '-' || label.p[label.len - 1] == '-')
        return NAME_BAD_HYPHEN;
    return NAME_OK;
}

/* The "ends in a number" test of the WHATWG URL standard: inet_aton() reads 127.1, 0x7f.1,
 * 0177.0.0.1 and 2130706433 as addresses, and no top-level domain looks like this. */
static bool is_number(struct str label)
{
    if (all_bytes(label, is_digit))
        return true;
    return label.len >= 2 && label.p[0] == '0' &&
           str_lower_byte((unsigned char)label.p[1]) == 'x' &&
           all_bytes(str_from(label, 2), is_hex_digit);
}

enum name_fault name_parse(struct name *out, struct str text)
{
    if (text.len == 0)
        return NAME_EMPTY;
    if (text.p[text.len - 1] == '.')
        text.len--;
    if (text.len > NAME_MAX_LEN)
        return NAME_TOO_LONG;

    struct str rest = text, label = STR_NULL;
    while (str_next_part(&rest, '.', &label)) {
        enum name_fault fault = check_label(label);
        if (fault != NAME_OK)
            return fault;
    }
    if (is_number(label))
        return NAME_NUMERIC;

    for (size_t i = 0; i < text.len; i++)
        out->text[i] = (char)str_lower_byte((unsigned char)text.p[i]);
    out->text[text.len] = '\0';
    out->len = (uint8_t)text.len;
    return NAME_OK;
}

const char *name_fault_text(enum name_fault fault)
{
    switch (fault) {
    case NAME_OK:
        return "the name is valid";
    case NAME_EMPTY:
        return "the name is empty";
    case NAME_TOO_LONG:
        return "the name is longer than 253 bytes";
    case NAME_LABEL_TOO_LONG:
        return "a label is longer than 63 bytes";
    case NAME_LABEL_EMPTY:
        return "a label is empty";
    case NAME_BAD_BYTE:
        return "only letters, digits, '-', '_' and '.' can be in a host name";
    case NAME_BAD_HYPHEN:
        return "a label starts or ends with '-'";
    case NAME_NUMERIC:
        return "a name that ends in a number is neither a host name nor an IPv4 address in its one "
               "form";
    case NAME_NOT_IDNA:
        return "the name is not a valid internationalized name (IDNA2008)";
    }
    return "the name is malformed";
}

int name_compare(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->text, y->text, x->len);
}

bool name_is_below(const struct name *name, const struct name *apex)
{
    if (name->len <= apex->len + 1)
        return false;
    size_t start = (size_t)name->len - apex->len;
    return name->text[start - 1] == '.' && memcmp(name->text + start, apex->text, apex->len) == 0;
}

bool name_is_localhost(const struct name *name)
{
    static const struct name localhost = {.len = 9, .text = "localhost"};
    return name_eq(name, &localhost) || name_is_below(name, &localhost);
}
