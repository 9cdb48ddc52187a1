#include "filters/field.h"

bool field_name_is_valid(struct str name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.len; i++) {
        const unsigned char c = str_lower_byte((unsigned char)name.p[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
            (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return name.len > 0;
}

bool field_is_editable(struct str name)
{
    static const struct str ours[] = {
        {"Connection", 10}, {"Content-Length", 14}, {"Expect", 6},  {"Host", 4},
        {"Keep-Alive", 10}, {"HTTP2-Settings", 14}, {"Trailer", 7}, {"TE", 2},
        {"Upgrade", 7},     {"Max-Forwards", 12},   {"Via", 3},     {"Transfer-Encoding", 17},
    };
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (str_ieq(ours[i], name))
            return false;
    return !str_istarts(name, STR("Proxy-")) && field_name_is_valid(name);
}

bool field_value_is_valid(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        const unsigned char c = (unsigned char)value.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return str_trim(value).len == value.len;
}

bool field_split(struct str text, struct str *name, struct str *value)
{
    struct str rest = text;
    *name = str_take_until(&rest, ':');
    *value = str_has(text, ':') ? str_trim(rest) : STR_NULL;
    return field_name_is_valid(*name);
}
