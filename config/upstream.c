#include "config/upstream.h"

#include <stdio.h>

static const struct scheme {
    const char *word; /* with what follows it */
    enum config_upstream_kind kind;
    uint16_t port;
    bool tls;
} schemes[] = {
    {"http://", UPSTREAM_HTTP, 80, false},
    {"https://", UPSTREAM_HTTP, 443, true},
    {"socks5://", UPSTREAM_SOCKS5, 1080, false},
    {"socks5h://", UPSTREAM_SOCKS5, 1080, false}, /* curl's word for: names are resolved there */
};

enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]) };

static bool no(const char **why, const char *phrase)
{
    *why = phrase;
    return false;
}

static const struct scheme *cut_scheme(struct str *text)
{
    for (size_t i = 0; i < SCHEMES; i++) {
        if (!str_istarts(*text, str_of(schemes[i].word)))
            continue;
        *text = str_from(*text, strlen(schemes[i].word));
        return &schemes[i];
    }
    return NULL;
}

static bool names_scheme(struct str text)
{
    return memmem(text.p, text.len, "://", 3) != NULL;
}

static bool unknown_scheme(const char **why)
{
    return no(why, "it has to be http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT");
}

bool upstream_parse(struct config_upstream *out, struct str text, const char **why)
{
    struct str rest = text;
    const struct scheme *scheme = cut_scheme(&rest);
    if (scheme == NULL)
        return unknown_scheme(why);
    if (str_has(rest, '@'))
        return no(why, "credentials stand in the credentials-file, not here");
    if (rest.len > 0 && rest.p[rest.len - 1] == '/')
        rest.len--;
    if (!target_parse(&out->proxy, rest, why))
        return false;
    out->kind = scheme->kind;
    out->tls = scheme->tls;
    return true;
}

/* RFC 3986 2.1; false for a broken escape. */
static bool unescape(struct str text, char *out, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] != '%') {
            out[(*len)++] = text.p[i];
            continue;
        }
        const int high = i + 2 < text.len ? str_hex_digit(text.p[i + 1]) : -1;
        const int low = i + 2 < text.len ? str_hex_digit(text.p[i + 2]) : -1;
        if (high < 0 || low < 0)
            return false;
        out[(*len)++] = (char)(high << 4 | low);
        i += 2;
    }
    return true;
}

static bool is_sound(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* RFC 4648 4. Not libcrypto's: it would be all that a launcher wants of it, and to load it takes a
 * fifth of the time that a sandbox needs to start. */
static void encode_base64(char *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        const size_t have = len - i < 3 ? len - i : 3;
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= have > 2 ? bytes[i + 2] : 0;
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = have > 1 ? digits[three >> 6 & 63] : '=';
        *out++ = have > 2 ? digits[three & 63] : '=';
    }
    *out = '\0';
}

static bool set_secrets(struct config_upstream *upstream, const char *user, size_t user_len,
                        const char *password, size_t password_len, const char **why)
{
    static const char basic[] = "Basic ";
    unsigned char both[2 * UPSTREAM_SECRET_MAX + 1];
    if (user_len == 0 || user_len > UPSTREAM_SECRET_MAX || password_len > UPSTREAM_SECRET_MAX)
        return no(why, "the user is empty, or user or password longer than 255 bytes");
    /* RFC 1929 2: the length is 1 to 255. */
    if (password_len == 0 && upstream->kind == UPSTREAM_SOCKS5)
        return no(why, "SOCKS5 knows no empty password");
    if (!is_sound(user, user_len) || !is_sound(password, password_len))
        return no(why, "the credentials have a control character");
    if (memchr(user, ':', user_len) != NULL)
        return no(why, "the user's name has a colon");
    memcpy(upstream->user, user, user_len);
    memcpy(upstream->password, password, password_len);
    upstream->user[user_len] = upstream->password[password_len] = '\0';
    memcpy(both, user, user_len);
    both[user_len] = ':';
    memcpy(both + user_len + 1, password, password_len);
    memcpy(upstream->authorization, basic, sizeof(basic));
    encode_base64(upstream->authorization + strlen(basic), both, user_len + 1 + password_len);
    explicit_bzero(both, sizeof(both));
    upstream->has_credentials = true;
    return true;
}

bool upstream_set_credentials(struct config_upstream *upstream, struct str text, const char **why)
{
    struct str password = text;
    const struct str user = str_take_until(&password, ':');
    if (!str_has(text, ':'))
        return no(why, "it has to be USER:PASSWORD");
    return set_secrets(upstream, user.p, user.len, password.p, password.len, why);
}

/* USER[:PASSWORD], each percent-encoded. */
static bool read_userinfo(struct config_upstream *out, struct str userinfo, const char **why)
{
    char user[3 * UPSTREAM_SECRET_MAX], password[3 * UPSTREAM_SECRET_MAX];
    size_t user_len, password_len = 0;
    struct str secret = userinfo;
    const struct str name = str_take_until(&secret, ':');
    if (name.len > sizeof(user) || secret.len > sizeof(password))
        return no(why, "the user is empty, or user or password longer than 255 bytes");
    if (!unescape(name, user, &user_len) || !unescape(secret, password, &password_len))
        return no(why, "a %XX in the credentials is broken");
    bool set = set_secrets(out, user, user_len, password, password_len, why);
    explicit_bzero(password, sizeof(password));
    return set;
}

static size_t authority_len(struct str text)
{
    size_t len = 0;
    while (len < text.len && text.p[len] != '/' && text.p[len] != '?' && text.p[len] != '#')
        len++;
    return len;
}

bool upstream_parse_url(struct config_upstream *out, struct str text, const char **why)
{
    struct str rest = text;
    const struct scheme *scheme = cut_scheme(&rest);
    if (scheme == NULL && names_scheme(text))
        return unknown_scheme(why);
    if (scheme == NULL)
        scheme = &schemes[0];
    out->kind = scheme->kind;
    out->tls = scheme->tls;
    rest.len = authority_len(rest);
    const char *at = memrchr(rest.p, '@', rest.len);
    if (at != NULL) {
        const struct str userinfo = {rest.p, (size_t)(at - rest.p)};
        rest = str_from(rest, userinfo.len + 1);
        if (userinfo.len > 0 && !read_userinfo(out, userinfo, why))
            return false;
    }
    return target_parse_default(&out->proxy, rest, scheme->port, why);
}

const char *upstream_format(char out[UPSTREAM_TEXT_MAX], const struct config_upstream *upstream)
{
    char proxy[TARGET_TEXT_MAX];
    snprintf(out, UPSTREAM_TEXT_MAX, "%s%s",
             upstream->tls                     ? "https://"
             : upstream->kind == UPSTREAM_HTTP ? "http://"
                                               : "socks5://",
             target_format(proxy, &upstream->proxy));
    return out;
}
