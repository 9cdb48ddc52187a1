#include "transport/tls.h"

#include "transport/stream.h"

#include <ev.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

/*
 * Our client on one end of a socket pair, a server of OpenSSL's behind two memory BIOs on the
 * other: what goes between socket and BIOs, and how much at a time, is the test's to say.
 */
struct pair {
    struct tls_client *client;
    X509_STORE *trust;
    struct target peer;
    struct stream near;
    int far;
    SSL_CTX *context;
    SSL *server;
    BIO *in, *out; /* the server's */
};

/* ---- certificates ---- */

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* One that vouches for itself, valid from `from` to `to` seconds from now. */
static X509 *make_certificate(EVP_PKEY *key, const char *names, long from, long to)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), from);
    X509_gmtime_adj(X509_getm_notAfter(cert), to);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"lab", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    add_extension(cert, NID_subject_alt_name, names);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

struct server_options {
    const char *names; /* of the certificate */
    long from, to;
    bool is_trusted;
    int newest; /* protocol; 0: any */
};

static const struct server_options good = {
    .names = "DNS:proxy.test,IP:192.0.2.1", .from = -60, .to = 3600, .is_trusted = true};

static void start_server(struct pair *pair, const struct server_options *options)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    X509 *cert = make_certificate(key, options->names, options->from, options->to);
    pair->context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(pair->context, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(pair->context, key), 1);
    if (options->newest != 0) {
        SSL_CTX_set_security_level(pair->context, 0);
        assert_int_equal(SSL_CTX_set_min_proto_version(pair->context, 0), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(pair->context, options->newest), 1);
    }
    if (options->is_trusted)
        assert_int_equal(X509_STORE_add_cert(pair->trust, cert), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    pair->server = SSL_new(pair->context);
    pair->in = BIO_new(BIO_s_mem());
    pair->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(pair->in, -1);
    SSL_set_bio(pair->server, pair->in, pair->out);
    SSL_set_accept_state(pair->server);
}

static void name_peer(struct target *peer, const char *name)
{
    *peer = (struct target){.port = 443};
    peer->is_addr = addr_parse(&peer->addr, str_of(name));
    if (!peer->is_addr)
        assert_int_equal(name_parse(&peer->name, str_of(name)), NAME_OK);
}

static void begin(struct pair *pair, const char *name, const struct server_options *options)
{
    int fds[2];
    *pair = (struct pair){.client = tls_client_create(), .trust = X509_STORE_new()};
    start_server(pair, options);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
    name_peer(&pair->peer, name);
    pair->far = fds[1];
    stream_init(&pair->near, fds[0]);
    pair->near.tls = tls_create(pair->client, fds[0], &pair->peer, pair->trust);
}

static void end(struct pair *pair)
{
    stream_close(&pair->near);
    if (pair->far >= 0)
        close(pair->far);
    SSL_free(pair->server);
    SSL_CTX_free(pair->context);
    X509_STORE_free(pair->trust);
    tls_client_free(pair->client);
}

/* ---- the wire ---- */

/* What came goes to the server, at most `most` bytes. Returns how many. */
static size_t carry_up(struct pair *pair, size_t most)
{
    char bytes[16384];
    ssize_t n = recv(pair->far, bytes, most < sizeof(bytes) ? most : sizeof(bytes), 0);
    if (n <= 0)
        return 0;
    assert_int_equal(BIO_write(pair->in, bytes, (int)n), n);
    return (size_t)n;
}

/* The same for what the server says. */
static size_t carry_down(struct pair *pair, size_t most)
{
    char bytes[16384];
    int n = BIO_read(pair->out, bytes, (int)(most < sizeof(bytes) ? most : sizeof(bytes)));
    if (n <= 0)
        return 0;
    assert_int_equal(send(pair->far, bytes, (size_t)n, MSG_NOSIGNAL), n);
    return (size_t)n;
}

/* `step` bytes at a time until our side has an answer or nothing moves any more. Counts the turns
 * in which it had to wait. */
static enum tls_result shake_hands(struct pair *pair, size_t step, const char **why, int *waits)
{
    for (*waits = 0;; ++*waits) {
        ERR_clear_error();
        enum tls_result result = stream_secure(&pair->near, why);
        if (result != TLS_WANTS_READ)
            return result;
        size_t moved = carry_up(pair, step);
        ERR_clear_error();
        (void)SSL_do_handshake(pair->server);
        moved += carry_down(pair, step);
        if (moved == 0)
            return result;
    }
}

static void settle(struct pair *pair, size_t step)
{
    const char *why = NULL;
    int waits;
    assert_int_equal(shake_hands(pair, step, &why, &waits), TLS_DONE);
    while (carry_up(pair, 16384) > 0) /* the client's Finished */
        ;
    ERR_clear_error();
    assert_int_equal(SSL_do_handshake(pair->server), 1);
    while (carry_down(pair, 16384) > 0) /* tickets */
        ;
    pair->near.readable = true;
}

static void server_says(struct pair *pair, const char *text)
{
    ERR_clear_error();
    assert_int_equal(SSL_write(pair->server, text, (int)strlen(text)), strlen(text));
    while (carry_down(pair, 16384) > 0)
        ;
    pair->near.readable = true;
}

static void client_reads(struct pair *pair, const char *text)
{
    char bytes[64];
    size_t done = stream_read(&pair->near, bytes, sizeof(bytes));
    assert_int_equal(done, strlen(text));
    assert_memory_equal(bytes, text, done);
}

static void server_reads(struct pair *pair, const char *text)
{
    char bytes[64];
    while (carry_up(pair, 16384) > 0)
        ;
    ERR_clear_error();
    assert_int_equal(SSL_read(pair->server, bytes, sizeof(bytes)), strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
}

/* ---- conversations ---- */

static void a_handshake_in_one_piece_or_byte_by_byte(void **state)
{
    (void)state;
    static const struct {
        const char *peer;
        size_t step;
        int newest, least_waits;
    } cases[] = {
        {"proxy.test", 16384, 0, 1},
        {"proxy.test", 1, 0, 500},
        {"proxy.test", 1, TLS1_2_VERSION, 500},
        {"192.0.2.1", 7, 0, 50},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair pair;
        struct server_options options = good;
        const char *why = NULL;
        int waits;
        options.newest = cases[i].newest;
        begin(&pair, cases[i].peer, &options);
        assert_int_equal(shake_hands(&pair, cases[i].step, &why, &waits), TLS_DONE);
        assert_true(waits >= cases[i].least_waits);
        settle(&pair, 16384);
        assert_string_equal(SSL_get_version(pair.server),
                            cases[i].newest != 0 ? "TLSv1.2" : "TLSv1.3");
        const char *sni = SSL_get_servername(pair.server, TLSEXT_NAMETYPE_host_name);
        if (pair.peer.is_addr)
            assert_null(sni);
        else
            assert_string_equal(sni, "proxy.test");
        stream_send(&pair.near, STR("ping"));
        server_reads(&pair, "ping");
        server_says(&pair, "pong");
        client_reads(&pair, "pong");
        end(&pair);
    }
}

static void nobody_is_believed_who_cannot_prove_his_name(void **state)
{
    (void)state;
    static const struct {
        const char *peer;
        struct server_options options;
        const char *why;
    } cases[] = {
        {"other.test", {"DNS:proxy.test", -60, 3600, true, 0}, "hostname mismatch"},
        {"a.proxy.test", {"DNS:*.proxy.test", -60, 3600, true, 0}, NULL},
        {"a.b.proxy.test", {"DNS:*.proxy.test", -60, 3600, true, 0}, "hostname mismatch"},
        {"test", {"DNS:*.test", -60, 3600, true, 0}, "hostname mismatch"},
        {"a.proxy.test", {"DNS:a*.proxy.test", -60, 3600, true, 0}, "hostname mismatch"},
        {"192.0.2.2", {"IP:192.0.2.1", -60, 3600, true, 0}, "IP address mismatch"},
        {"192.0.2.1", {"DNS:192.0.2.1", -60, 3600, true, 0}, "IP address mismatch"},
        {"proxy.test", {"DNS:proxy.test", -60, 3600, false, 0}, "self-signed certificate"},
        {"proxy.test", {"DNS:proxy.test", -7200, -3600, true, 0}, "certificate has expired"},
        {"proxy.test", {"DNS:proxy.test", 3600, 7200, true, 0}, "certificate is not yet valid"},
        {"proxy.test", {"DNS:proxy.test", -60, 3600, true, TLS1_1_VERSION}, "protocol version"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair pair;
        const char *why = NULL;
        int waits;
        begin(&pair, cases[i].peer, &cases[i].options);
        enum tls_result result = shake_hands(&pair, 16384, &why, &waits);
        assert_int_equal(result, cases[i].why == NULL ? TLS_DONE : TLS_BROKEN);
        if (cases[i].why != NULL && strstr(why, cases[i].why) == NULL)
            fail_msg("case %zu: %s", i, why);
        end(&pair);
    }
}

static void a_handshake_with_what_speaks_no_tls_or_goes_is_broken(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct pair pair;
        const char *why = NULL;
        begin(&pair, "proxy.test", &good);
        assert_int_equal(stream_secure(&pair.near, &why), TLS_WANTS_READ);
        if (round == 0)
            assert_int_equal(send(pair.far, "HTTP/1.1 400 Bad\r\n\r\n", 20, 0), 20);
        close(pair.far);
        pair.far = -1;
        assert_int_equal(stream_secure(&pair.near, &why), TLS_BROKEN);
        assert_non_null(why);
        end(&pair);
    }
}

/* What the kernel does not take waits, and comes again from another place in memory. */
static void sending_waits_for_room_and_loses_nothing(void **state)
{
    (void)state;
    enum { TOTAL = 1 << 20, PIECE = 50000 };
    struct pair pair;
    char *sent = malloc(TOTAL), *heard = malloc(TOTAL);
    assert_true(sent != NULL && heard != NULL);
    for (size_t i = 0; i < TOTAL; i++)
        sent[i] = (char)(i * 7 + i / 251);
    begin(&pair, "proxy.test", &good);
    settle(&pair, 16384);
    const int tight = 4096;
    assert_int_equal(setsockopt(pair.near.fd, SOL_SOCKET, SO_SNDBUF, &tight, sizeof(tight)), 0);
    size_t given = 0, came = 0;
    int waits = 0;
    while (came < TOTAL) {
        if (given < TOTAL && pair.near.out.len == 0) {
            const size_t len = TOTAL - given < PIECE ? TOTAL - given : PIECE;
            stream_send(&pair.near, (struct str){sent + given, len});
            given += len;
        }
        stream_flush(&pair.near);
        if (pair.near.out.len > 0) {
            assert_false(pair.near.writable);
            assert_int_equal(stream_interest(&pair.near, false), EV_WRITE);
            waits++;
        }
        while (carry_up(&pair, 16384) > 0)
            ;
        stream_ready(&pair.near, EV_WRITE);
        ERR_clear_error();
        for (int n;
             came < TOTAL && (n = SSL_read(pair.server, heard + came, (int)(TOTAL - came))) > 0;)
            came += (size_t)n;
    }
    assert_true(waits > 0);
    assert_memory_equal(sent, heard, TOTAL);
    end(&pair);
    free(sent);
    free(heard);
}

static void a_record_that_is_read_in_parts_is_pending(void **state)
{
    (void)state;
    struct pair pair;
    char bytes[4];
    begin(&pair, "proxy.test", &good);
    settle(&pair, 16384);
    assert_false(stream_has_pending(&pair.near));
    server_says(&pair, "hello there");
    assert_int_equal(stream_read(&pair.near, bytes, 4), 4);
    assert_true(stream_has_pending(&pair.near)); /* no watcher of the socket would say so */
    client_reads(&pair, "o there");
    assert_false(stream_has_pending(&pair.near));
    assert_int_equal(stream_read(&pair.near, bytes, 4), 0);
    assert_false(pair.near.readable || pair.near.eof || pair.near.broken);
    end(&pair);
}

static void a_close_notify_is_an_end_and_the_other_way_goes_on(void **state)
{
    (void)state;
    struct pair pair;
    char byte;
    begin(&pair, "proxy.test", &good);
    settle(&pair, 16384);
    server_says(&pair, "last");
    assert_int_equal(SSL_shutdown(pair.server), 0);
    while (carry_down(&pair, 16384) > 0)
        ;
    client_reads(&pair, "last");
    assert_int_equal(stream_read(&pair.near, &byte, 1), 0);
    assert_true(pair.near.eof && !pair.near.broken && !pair.near.deaf);
    stream_send(&pair.near, STR("still here"));
    server_reads(&pair, "still here");
    stream_finish(&pair.near);
    assert_true(pair.near.fin_sent);
    while (carry_up(&pair, 16384) > 0)
        ;
    assert_int_equal(SSL_read(pair.server, &byte, 1), 0);
    assert_int_equal(SSL_get_error(pair.server, 0), SSL_ERROR_ZERO_RETURN);
    end(&pair);
}

/* Anybody on the way can end a connection; only the peer can say that it was all. */
static void an_end_without_close_notify_is_no_end(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct pair pair;
        char byte;
        begin(&pair, "proxy.test", &good);
        settle(&pair, 16384);
        server_says(&pair, "first");
        client_reads(&pair, "first");
        if (round == 1) { /* within a record */
            ERR_clear_error();
            assert_int_equal(SSL_write(pair.server, "cut short", 9), 9);
            assert_true(carry_down(&pair, 12) > 0);
        }
        close(pair.far);
        pair.far = -1;
        stream_ready(&pair.near, EV_READ);
        assert_int_equal(stream_read(&pair.near, &byte, 1), 0);
        assert_true(pair.near.broken && !pair.near.eof);
        end(&pair);
    }
}

static void a_record_that_was_tampered_with_is_broken(void **state)
{
    (void)state;
    struct pair pair;
    char record[256], byte;
    begin(&pair, "proxy.test", &good);
    settle(&pair, 16384);
    ERR_clear_error();
    assert_int_equal(SSL_write(pair.server, "pay 1", 5), 5);
    int n = BIO_read(pair.out, record, sizeof(record));
    assert_true(n > 10);
    record[n - 1] ^= 1;
    assert_int_equal(send(pair.far, record, (size_t)n, 0), n);
    stream_ready(&pair.near, EV_READ);
    assert_int_equal(stream_read(&pair.near, &byte, 1), 0);
    assert_true(pair.near.broken);
    end(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handshake_in_one_piece_or_byte_by_byte),
        cmocka_unit_test(nobody_is_believed_who_cannot_prove_his_name),
        cmocka_unit_test(a_handshake_with_what_speaks_no_tls_or_goes_is_broken),
        cmocka_unit_test(sending_waits_for_room_and_loses_nothing),
        cmocka_unit_test(a_record_that_is_read_in_parts_is_pending),
        cmocka_unit_test(a_close_notify_is_an_end_and_the_other_way_goes_on),
        cmocka_unit_test(an_end_without_close_notify_is_no_end),
        cmocka_unit_test(a_record_that_was_tampered_with_is_broken),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
