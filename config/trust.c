#include "config/trust.h"

#include "config/file.h"
#include "srt/must.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>

enum { SYSTEM_FILE_MAX = 16 << 20 };

/* How many were added; a block that is no certificate ends it with -1. Whoever bundles certificates
 * puts comments between them, and those who keep one file for everything their keys. */
static int add_all(X509_STORE *store, struct str pem)
{
    int count = 0;
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.len);
    STACK_OF(X509_INFO) *infos = bio != NULL ? PEM_X509_INFO_read_bio(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    if (infos == NULL)
        return -1;
    for (int i = 0; i < sk_X509_INFO_num(infos) && count >= 0; i++) {
        X509 *certificate = sk_X509_INFO_value(infos, i)->x509;
        if (certificate != NULL)
            count = X509_STORE_add_cert(store, certificate) == 1 ? count + 1 : -1;
    }
    sk_X509_INFO_pop_free(infos, X509_INFO_free);
    return count;
}

static const char *system_file(void)
{
    const char *path = getenv(X509_get_default_cert_file_env());
    return path != NULL && path[0] != '\0' ? path : X509_get_default_cert_file();
}

static int add_system(X509_STORE *store, struct srt_err *err)
{
    char *bytes;
    size_t len;
    struct srt_err why;
    const char *path = system_file();
    if (file_read(path, SYSTEM_FILE_MAX, &bytes, &len, NULL, &why) != 0)
        return srt_err_set(err, "the system's certificates in %s: %s", path, why.text);
    int count = add_all(store, (struct str){bytes, len});
    free(bytes);
    return count > 0 ? 0 : srt_err_set(err, "%s has no certificates that can be read", path);
}

/* Who has an authority of their own may have no other. */
static int add_both(X509_STORE *store, struct str extra, struct srt_err *err)
{
    if (extra.len == 0)
        return add_system(store, err);
    if (add_all(store, extra) <= 0)
        return srt_err_set(err, "it has no certificate (PEM) that can be read");
    (void)add_system(store, err);
    return 0;
}

struct x509_store_st *trust_load(struct str extra, struct srt_err *err)
{
    X509_STORE *store = must(X509_STORE_new());
    if (add_both(store, extra, err) == 0)
        return store;
    X509_STORE_free(store);
    return NULL;
}

struct x509_store_st *trust_take(struct x509_store_st *trust)
{
    if (trust != NULL)
        X509_STORE_up_ref(trust);
    return trust;
}

void trust_leave(struct x509_store_st *trust)
{
    X509_STORE_free(trust);
}
