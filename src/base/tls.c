/* SPDX-License-Identifier: MIT
 *
 * TLS sessions. OpenSSL reads from `wire`, which is what came from the socket, and writes to the
 * outlet; neither ever makes it wait in the middle of something, so of its many ways to say "try
 * again" only one is left: it needs more from the client.
 *
 * Invariant: when tls_open returns, `wire` is empty.
 */
#include "base/tls.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/tls_private.h"

/* All that a client may send before the handshake is done; its certificates are the largest part.
 */
#define HANDSHAKE_MAX 65536u
#define RECORD_HANDSHAKE 0x16
#define PEER_MAX 63u /* bytes of a subject that is told as it is */

struct tls_session {
    struct tls_context *context;
    SSL *ssl;
    struct tidings_str wire; /* not yet taken by OpenSSL */
    tls_outlet_fn outlet;
    void *user;
    const char *protocol;
    const char *reason; /* static */
    char *peer;
    int64_t expires_ms;       /* the peer's certificate */
    uint32_t handshake_bytes; /* bytes of the handshake so far */
    bool is_ready, has_failed, has_ended, has_said_end;
};

/* ---- the way of bytes ------------------------------------------------------------------------ */

static int wire_read(BIO *bio, char *out, int size)
{
    struct tls_session *s = tls_api.BIO_get_data(bio);
    tls_api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    size_t n = s->wire.len < (size_t)size ? s->wire.len : (size_t)size;
    if (n == 0) {
        tls_api.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    memcpy(out, s->wire.ptr, n);
    s->wire = str_skip(s->wire, n);
    return (int)n;
}

static int wire_write(BIO *bio, const char *bytes, int len)
{
    struct tls_session *s = tls_api.BIO_get_data(bio);
    tls_api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    return s->outlet(s->user, bytes, (size_t)len) < 0 ? -1 : len;
}

static long wire_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* there is nothing to do for it */
}

BIO_METHOD *tls_wire_create(void)
{
    BIO_METHOD *method = tls_api.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tidings");
    if (method) {
        tls_api.BIO_meth_set_read(method, wire_read);
        tls_api.BIO_meth_set_write(method, wire_write);
        tls_api.BIO_meth_set_ctrl(method, wire_ctrl);
    }
    return method;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct tls_context *tls_context_of(SSL *ssl)
{
    struct tls_session *s = tls_api.SSL_get_ex_data(ssl, 0);
    return s->context;
}

const char *tls_protocol_of(SSL *ssl)
{
    struct tls_session *s = tls_api.SSL_get_ex_data(ssl, 0);
    return s->protocol;
}

struct tls_session *tls_session_create(struct tls_context *c, const char *protocol)
{
    struct tls_session *s = mem_zalloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    s->context = tls_context_ref(c);
    s->protocol = protocol;
    s->reason = "";
    s->ssl = tls_api.SSL_new(c->hosts[0].ssl);
    BIO *bio = s->ssl ? tls_api.BIO_new(c->wire) : NULL;
    if (!bio || tls_api.SSL_set_ex_data(s->ssl, 0, s) != 1) {
        tls_api.BIO_free(bio);
        tls_session_destroy(s);
        return NULL;
    }
    tls_api.BIO_set_data(bio, s);
    tls_api.BIO_set_init(bio, 1);
    tls_api.SSL_set_bio(s->ssl, bio, bio);
    tls_api.SSL_set_accept_state(s->ssl);
    return s;
}

void tls_session_destroy(struct tls_session *s)
{
    if (s) {
        tls_api.SSL_free(s->ssl);
        tls_context_unref(s->context);
        mem_free(s->peer);
        mem_free(s);
    }
}

void tls_session_set_outlet(struct tls_session *s, tls_outlet_fn outlet, void *user)
{
    s->outlet = outlet;
    s->user = user;
}

bool tls_session_is_ready(const struct tls_session *s)
{
    return s->is_ready;
}

const char *tls_session_reason(const struct tls_session *s)
{
    return s->reason;
}

const char *tls_session_peer(const struct tls_session *s)
{
    return s->peer;
}

int64_t tls_session_expiry(const struct tls_session *s)
{
    return s->expires_ms;
}

bool tls_session_is_for(const struct tls_session *s, struct tidings_str name)
{
    return tls_context_find(s->context, name) != NULL;
}

static ssize_t tls_failed(struct tls_session *s, const char *reason, int errnum)
{
    s->reason = reason;
    s->has_failed = true;
    s->wire = STR_EMPTY;
    return -errnum;
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* Who has no subject, or one that is too long to be told, is told by a hash. */
static char *hashed_name(const unsigned char hash[SHA256_BYTES])
{
    struct buf name;
    size_t len;
    buf_init(&name, PEER_MAX + 1);
    buf_puts(&name, STR("sha256="));
    for (size_t i = 0; i < 24; i++) {
        buf_putf(&name, "%02x", hash[i]);
    }
    return buf_detach(&name, &len);
}

static char *name_of_peer(X509 *certificate, struct tidings_str subject)
{
    unsigned char hash[SHA256_BYTES];
    if (subject.len == 0) { /* its names are elsewhere: the whole certificate is */
        return tls_api.X509_digest(certificate, tls_api.EVP_sha256(), hash, NULL) == 1
                   ? hashed_name(hash)
                   : NULL;
    }
    if (subject.len <= PEER_MAX) {
        return str_dup(subject);
    }
    struct sha256 h;
    sha256_init(&h);
    sha256_put(&h, subject.ptr, subject.len);
    sha256_end(&h, hash);
    return hashed_name(hash);
}

int64_t tls_expiry_of(const X509 *certificate)
{
    struct tm tm = {0};
    if (tls_api.ASN1_TIME_to_tm(tls_api.X509_get0_notAfter(certificate), &tm) != 1) {
        return 1;
    }
    int64_t seconds = timegm(&tm);
    return seconds > 0 ? seconds * 1000 : 1;
}

/* Once the handshake is done. False: out of memory. */
static bool learn_peer(struct tls_session *s)
{
    X509 *certificate = tls_api.SSL_get1_peer_certificate(s->ssl);
    if (!certificate) {
        return true;
    }
    s->expires_ms = tls_expiry_of(certificate);
    char *text = NULL;
    BIO *out = tls_api.BIO_new(tls_api.BIO_s_mem());
    if (out && tls_api.X509_NAME_print_ex(out, tls_api.X509_get_subject_name(certificate), 0,
                                          XN_FLAG_RFC2253) >= 0) {
        long len = tls_api.BIO_ctrl(out, BIO_CTRL_INFO, 0, &text);
        s->peer = name_of_peer(certificate, tidings_strn(text, len > 0 ? (size_t)len : 0));
    }
    tls_api.BIO_free(out);
    tls_api.X509_free(certificate);
    return s->peer != NULL;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* A client that speaks something else, or far too much. 0: go on. */
static ssize_t check_handshake(struct tls_session *s)
{
    if (s->handshake_bytes == 0 && s->wire.ptr[0] != RECORD_HANDSHAKE) {
        return tls_failed(s, "the client does not speak TLS", EPROTOTYPE);
    }
    s->handshake_bytes += (uint32_t)s->wire.len;
    return s->handshake_bytes > HANDSHAKE_MAX ? tls_failed(s, "the handshake is too long", EPROTO)
                                              : 0;
}

/* Everything that `wire` brings. */
static ssize_t open_records(struct tls_session *s, char *out, size_t size, bool *ended)
{
    size_t got = 0;
    for (;;) {
        assert(got < size);
        tls_api.ERR_clear_error();
        int n = tls_api.SSL_read(s->ssl, out + got, (int)(size - got));
        if (!s->is_ready && tls_api.SSL_is_init_finished(s->ssl)) {
            s->is_ready = true;
            if (!learn_peer(s)) {
                return tls_failed(s, "out of memory", ENOMEM);
            }
        }
        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        switch (tls_api.SSL_get_error(s->ssl, n)) {
        case SSL_ERROR_WANT_READ:
            return (ssize_t)got;
        case SSL_ERROR_ZERO_RETURN:
            s->has_ended = *ended = true;
            s->wire = STR_EMPTY;
            return (ssize_t)got;
        default:
            return tls_failed(s, tls_api_reason(), EPROTO);
        }
    }
}

ssize_t tls_open(struct tls_session *s, struct tidings_str wire, char *out, bool *ended)
{
    assert(wire.len <= TLS_WIRE);
    if (s->has_failed) {
        return -EPROTO;
    }
    if (s->has_ended) {
        *ended = true;
        return 0;
    }
    s->wire = wire;
    ssize_t rc = s->is_ready || wire.len == 0 ? 0 : check_handshake(s);
    return rc < 0 ? rc : open_records(s, out, TLS_ROOM, ended);
}

/* ---- sending --------------------------------------------------------------------------------- */

int tls_seal(struct tls_session *s, const char *bytes, size_t len)
{
    if (!s->is_ready || s->has_failed || s->has_said_end) {
        return TIDINGS_E_CLOSED;
    }
    for (size_t at = 0; at < len;) {
        size_t part = len - at < TLS_RECORD ? len - at : TLS_RECORD;
        tls_api.ERR_clear_error();
        int n = tls_api.SSL_write(s->ssl, bytes + at, (int)part);
        if (n <= 0) {
            (void)tls_failed(s, tls_api_reason(), EPROTO);
            return TIDINGS_E_IO;
        }
        at += (size_t)n;
    }
    return 0;
}

void tls_seal_end(struct tls_session *s)
{
    if (s->is_ready && !s->has_failed && !s->has_said_end) {
        s->has_said_end = true;
        tls_api.ERR_clear_error();
        (void)tls_api.SSL_shutdown(s->ssl);
    }
}

const char *tls_library(void)
{
    return tls_api_load(NULL) < 0 ? NULL : tls_api.OpenSSL_version(OPENSSL_VERSION);
}
