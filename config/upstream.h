/*
 * An upstream proxy: where it is, what it speaks, and what it is told about who we are.
 *
 * Written in the gateway's file as a section of its own, or as a URL in settings and in the
 * environment. Ownership: a plain value, but for `name`, which is borrowed, and the count of
 * `trust`: upstream_copy() and upstream_clear(). Thread: any. Failure:
 * false and a phrase that never repeats the text, since a password may stand in it.
 */
#ifndef CONFIG_UPSTREAM_H
#define CONFIG_UPSTREAM_H

#include "config/fault.h"
#include "dns/target.h"

enum config_upstream_kind { UPSTREAM_HTTP, UPSTREAM_SOCKS5 };

/* RFC 1929 2 has one byte for either length; Basic gets the same bounds. */
enum { UPSTREAM_SECRET_MAX = 255, UPSTREAM_AUTHORIZATION_MAX = 6 + (511 + 2) / 3 * 4 + 1 };

struct config_upstream {
    const char *name;
    struct place place;
    enum config_upstream_kind kind;
    struct target proxy;
    bool tls;                    /* https:// */
    const char *ca_file;         /* borrowed; or NULL */
    struct x509_store_st *trust; /* with `tls`: who may vouch for it (config/trust.h) */
    bool has_credentials;
    char user[UPSTREAM_SECRET_MAX + 1], password[UPSTREAM_SECRET_MAX + 1];
    char authorization[UPSTREAM_AUTHORIZATION_MAX]; /* `Basic ...`, RFC 7617 */
};

/* SCHEME://HOST:PORT, as in the gateway's file: everything has to be said, and no credentials. */
bool upstream_parse(struct config_upstream *out, struct str text, const char **why);

/* As in HTTP_PROXY: [SCHEME://][USER[:PASSWORD]@]HOST[:PORT][/...], where http and port 80 (1080
 * for SOCKS) go without saying, and credentials are percent-encoded. */
bool upstream_parse_url(struct config_upstream *out, struct str text, const char **why);

/* USER:PASSWORD. */
bool upstream_set_credentials(struct config_upstream *upstream, struct str text, const char **why);

void upstream_copy(struct config_upstream *out, const struct config_upstream *upstream);
/* Wipes the secrets, too. */
void upstream_clear(struct config_upstream *upstream);

enum { UPSTREAM_TEXT_MAX = TARGET_TEXT_MAX + 10 };
/* SCHEME://HOST:PORT */
const char *upstream_format(char out[UPSTREAM_TEXT_MAX], const struct config_upstream *upstream);

#endif
