#include "transport/tls.h"

#include "srt/must.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* Both are OpenSSL's own objects; the types keep the rest of the gateway from using them so. */
static SSL_CTX *context_of(const struct tls_client *client)
{
    return (SSL_CTX *)(uintptr_t)client;
}

static SSL *ssl_of(const struct tls *tls)
{
    return (SSL *)(uintptr_t)tls;
}

static void require(bool good)
{
    if (!good)
        must_end(); /* or OpenSSL is not what we were built with */
}

struct tls_client *tls_client_create(void)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    require(context != NULL);
    require(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* What a stream could not send is moved to its queue and sent from there. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    require(SSL_CTX_set_alpn_protos(context, alpn, sizeof(alpn) - 1) == 0);
    return (struct tls_client *)context;
}

void tls_client_free(struct tls_client *client)
{
    SSL_CTX_free(context_of(client));
}

/* RFC 6125 and RFC 9110 4.3.4: the name or address that was configured, not what DNS made of it. */
static void expect_peer(SSL *ssl, const struct target *peer)
{
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (peer->is_addr) {
        require(X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), peer->addr.bytes,
                                          peer->addr.family == 4 ? 4 : 16) == 1);
        return;
    }
    require(SSL_set1_host(ssl, peer->name.text) == 1);
    /* SSL_set_tlsext_host_name(), whose cast loses the const */
    require(SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                     (void *)(uintptr_t)peer->name.text) == 1);
}

struct tls *tls_create(const struct tls_client *client, int fd, const struct target *peer,
                       struct x509_store_st *trust)
{
    SSL *ssl = SSL_new(context_of(client));
    require(ssl != NULL && SSL_set_fd(ssl, fd) == 1);
    require(SSL_set1_verify_cert_store(ssl, trust) == 1);
    expect_peer(ssl, peer);
    SSL_set_connect_state(ssl);
    return (struct tls *)ssl;
}

void tls_free(struct tls *tls)
{
    SSL_free(ssl_of(tls));
}

static enum tls_result result_of(const SSL *ssl, int code)
{
    switch (SSL_get_error(ssl, code)) {
    case SSL_ERROR_NONE:
        return TLS_DONE;
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        return TLS_BROKEN;
    }
}

static const char *what_failed(const SSL *ssl)
{
    const unsigned long error = ERR_peek_last_error();
    const long verdict = SSL_get_verify_result(ssl);
    if (verdict != X509_V_OK)
        return X509_verify_cert_error_string(verdict);
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    return reason != NULL ? reason : "the connection was closed";
}

/* The queue of errors is the thread's, so that of another connection is cleared before each call:
 * SSL_get_error() would take it for ours. */

enum tls_result tls_handshake(struct tls *tls, const char **why)
{
    SSL *ssl = ssl_of(tls);
    ERR_clear_error();
    enum tls_result result = result_of(ssl, SSL_do_handshake(ssl));
    if (result == TLS_BROKEN || result == TLS_END) {
        *why = what_failed(ssl);
        return TLS_BROKEN;
    }
    return result;
}

enum tls_result tls_read(struct tls *tls, void *p, size_t size, size_t *done)
{
    ERR_clear_error();
    return result_of(ssl_of(tls), SSL_read_ex(ssl_of(tls), p, size, done));
}

enum tls_result tls_write(struct tls *tls, const void *p, size_t size, size_t *done)
{
    ERR_clear_error();
    return result_of(ssl_of(tls), SSL_write_ex(ssl_of(tls), p, size, done));
}

enum tls_result tls_finish(struct tls *tls)
{
    ERR_clear_error();
    /* 0: sent, and the peer's is still to come */
    int code = SSL_shutdown(ssl_of(tls));
    return code >= 0 ? TLS_DONE : result_of(ssl_of(tls), code);
}

bool tls_has_pending(const struct tls *tls)
{
    return SSL_pending(ssl_of(tls)) > 0;
}
