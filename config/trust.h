/*
 * Which certificates are believed: those of the system, and one's own authority.
 *
 * Read as a whole at once, so that no file is read when a certificate is checked. Ownership:
 * counted; trust_load() and trust_take() give one count. Thread: loading blocks on files, so
 * control thread and start-up only; taking, leaving and checking by it are for any thread. Failure:
 * NULL and `err`.
 */
#ifndef CONFIG_TRUST_H
#define CONFIG_TRUST_H

#include "srt/err.h"
#include "srt/str.h"

/* OpenSSL's X509_STORE */
struct x509_store_st;

enum { TRUST_FILE_MAX = 1 << 20 };

/* The system's certificates (SSL_CERT_FILE, or where OpenSSL looks for them) and those in `extra`
 * (PEM), which has to have one if it is not empty. */
struct x509_store_st *trust_load(struct str extra, struct srt_err *err);

struct x509_store_st *trust_take(struct x509_store_st *trust); /* NULL gives NULL */
void trust_leave(struct x509_store_st *trust);

#endif
