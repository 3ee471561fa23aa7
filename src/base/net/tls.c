/* SPDX-License-Identifier: MIT
 *
 * TLS sessions. OpenSSL reads from `wire`, the bytes received from the socket, and writes to the
 * outlet. Neither ever blocks it in the middle of an operation, so of its many reasons to retry
 * only one remains: it needs more input from the client.
 *
 * Invariant: when tls_open returns, `wire` is empty.
 */
#include "base/net/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/net/tls_internal.h"
#include "base/str.h"
#include "base/time.h"

/* ---------------------------------------------------------------------------------------------- */

/* Maximum bytes that a client may send before the handshake is done; its certificates are the
 * largest part. */
#define HANDSHAKE_MAX 65536u
#define RECORD_HANDSHAKE 0x16
#define PEER_MAX 63u /* longer subjects are hashed */

struct tls_session {
    struct tls_context *context;
    SSL *ssl;
    struct tidings_str wire; /* not yet read by OpenSSL */
    tls_outlet_fn outlet;
    void *user;
    const char *protocol;
    const char *reason; /* static */
    char *peer;
    int64_t expires_ms;       /* the peer's certificate */
    uint32_t handshake_bytes; /* bytes of the handshake so far */
    bool is_ready, has_failed, has_ended, has_said_end;
};

/* ---- BIO ------------------------------------------------------------------------------------- */

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
    return command == BIO_CTRL_FLUSH; /* a flush needs no action */
}

/* The BIO between OpenSSL and a session. NULL: out of memory. */
static BIO_METHOD *tls_wire_create(void)
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

static struct tls_context *tls_context_of(SSL *ssl)
{
    struct tls_session *s = tls_api.SSL_get_ex_data(ssl, 0);
    return s->context;
}

/* For an SSL object in a callback: the context its session began with, and its application
 * protocol. */
static const char *tls_protocol_of(SSL *ssl)
{
    struct tls_session *s = tls_api.SSL_get_ex_data(ssl, 0);
    return s->protocol;
}

static struct tls_context *tls_context_ref(struct tls_context *c);

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

static const struct tls_host *tls_context_find(const struct tls_context *c,
                                               struct tidings_str name);

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

/* ---- peer identity --------------------------------------------------------------------------- */

/* A hash is the name if there is no subject, or if it is too long. */
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
    /* no subject: the names are in an extension, so hash the whole certificate */
    if (subject.len == 0) {
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

/* Unix time in ms at which a certificate expires; 1 if it has no valid date. */
static int64_t tls_expiry_of(const X509 *certificate)
{
    struct tm tm = {0};
    if (tls_api.ASN1_TIME_to_tm(tls_api.X509_get0_notAfter(certificate), &tm) != 1) {
        return 1;
    }
    int64_t seconds = timegm(&tm);
    return seconds > 0 ? seconds * 1000 : 1;
}

/* Call it once the handshake is done. False: out of memory. */
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

/* Detects a client that does not speak TLS or sends far too much. 0: continue. */
static ssize_t check_handshake(struct tls_session *s)
{
    if (s->handshake_bytes == 0 && s->wire.ptr[0] != RECORD_HANDSHAKE) {
        return tls_failed(s, "the client does not speak TLS", EPROTOTYPE);
    }
    s->handshake_bytes += (uint32_t)s->wire.len;
    return s->handshake_bytes > HANDSHAKE_MAX ? tls_failed(s, "the handshake is too long", EPROTO)
                                              : 0;
}

/* Decrypts everything in `wire`. */
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

/* -------------------------------------------------------------------------------------------------
 * Receives from a socket, with or without a TLS session.
 */

static ssize_t recv_plain(int fd, void *out, size_t size, bool *ended)
{
    ssize_t n;
    do {
        n = recv(fd, out, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        *ended = true;
    }
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

ssize_t tls_recv(struct tls_session *s, int fd, void *out, size_t size, bool *ended)
{
    if (!s) {
        return recv_plain(fd, out, size, ended);
    }
    assert(size >= TLS_ROOM);
    char wire[TLS_WIRE];
    ssize_t n = recv_plain(fd, wire, sizeof wire, ended);
    return n <= 0 ? n : tls_open(s, tidings_strn(wire, (size_t)n), out, ended);
}

/* -------------------------------------------------------------------------------------------------
 * Keys of session tickets. A ticket is the session's secret, stored by the client: anyone with the
 * ticket key can decrypt TLS 1.2 sessions. So a key encrypts tickets for an hour, decrypts for
 * another, and is then deleted. OpenSSL's own keys would live as long as the process.
 *
 * The words are a seqlock of atomics: handshakes on all workers read, one of them writes once an
 * hour. The thread that makes `sequence` odd is the only writer until it is even again.
 */

#define ROTATE_MS (3600u * 1000u)

static void load_keys(struct tls_tickets *t, struct tls_ticket_key keys[TLS_TICKET_KEYS])
{
    uint64_t words[TLS_TICKET_WORDS];
    unsigned before, after;
    do {
        before = atomic_load(&t->sequence);
        for (size_t i = 0; i < TLS_TICKET_WORDS; i++) {
            words[i] = atomic_load(&t->words[i]);
        }
        after = atomic_load(&t->sequence);
    } while (before != after || before % 2 == 1);
    memcpy(keys, words, sizeof words);
}

static void store_keys(struct tls_tickets *t, const struct tls_ticket_key keys[TLS_TICKET_KEYS])
{
    uint64_t words[TLS_TICKET_WORDS];
    memcpy(words, keys, sizeof words);
    for (size_t i = 0; i < TLS_TICKET_WORDS; i++) {
        atomic_store(&t->words[i], words[i]);
    }
}

int tls_tickets_init(struct tls_tickets *t, struct tidings_error *err)
{
    struct tls_ticket_key keys[TLS_TICKET_KEYS];
    /* no client has a ticket with the name of the second */
    if (random_bytes(keys, sizeof keys) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "there is no randomness for session tickets");
    }
    atomic_init(&t->sequence, 0);
    atomic_init(&t->born_ms, clock_monotonic_ms());
    store_keys(t, keys);
    explicit_bzero(keys, sizeof keys);
    return 0;
}

void tls_tickets_deinit(struct tls_tickets *t)
{
    static const struct tls_ticket_key none[TLS_TICKET_KEYS];
    store_keys(t, none);
}

static void tls_ticket_rotate(struct tls_tickets *t, uint64_t now)
{
    struct tls_ticket_key keys[TLS_TICKET_KEYS], fresh;
    unsigned sequence = atomic_load(&t->sequence);
    if (sequence % 2 == 1 || random_bytes(&fresh, sizeof fresh) < 0) {
        return; /* another thread rotates; or the current keys stay in use */
    }
    load_keys(t, keys);
    if (atomic_compare_exchange_strong(&t->sequence, &sequence, sequence + 1)) {
        /* After two hours without rotation, the current key is as old as a previous one may be. */
        bool is_stale = now - atomic_load(&t->born_ms) >= 2 * (uint64_t)ROTATE_MS;
        keys[1] = is_stale ? fresh : keys[0];
        keys[0] = fresh;
        atomic_store(&t->born_ms, now);
        store_keys(t, keys);
        atomic_store(&t->sequence, sequence + 2);
    }
    explicit_bzero(keys, sizeof keys);
    explicit_bzero(&fresh, sizeof fresh);
}

/* Call it before any use: after a long time without tickets, a server must not accept old ones. */
static void rotate_when_due(struct tls_tickets *t)
{
    uint64_t now = clock_monotonic_ms();
    if (now - atomic_load(&t->born_ms) >= ROTATE_MS) {
        tls_ticket_rotate(t, now);
    }
}

void tls_tickets_current(struct tls_tickets *t, struct tls_ticket_key *ret)
{
    struct tls_ticket_key keys[TLS_TICKET_KEYS];
    rotate_when_due(t);
    load_keys(t, keys);
    *ret = keys[0];
    explicit_bzero(keys, sizeof keys);
}

int tls_tickets_find(struct tls_tickets *t, const unsigned char name[16],
                     struct tls_ticket_key *ret)
{
    struct tls_ticket_key keys[TLS_TICKET_KEYS];
    int found = 0;
    rotate_when_due(t);
    load_keys(t, keys);
    for (unsigned i = 0; i < TLS_TICKET_KEYS && found == 0; i++) {
        if (memcmp(keys[i].name, name, sizeof keys[i].name) == 0) {
            *ret = keys[i];
            found = (int)i + 1;
        }
    }
    explicit_bzero(keys, sizeof keys);
    return found;
}

/* ---- callbacks of OpenSSL -------------------------------------------------------------------- */

static bool set_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *key)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        tls_api.OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->authenticate,
                                                  sizeof key->authenticate),
        tls_api.OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        tls_api.OSSL_PARAM_construct_end(),
    };
    return tls_api.EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* 1: use it, 2: use it and issue a new one, 0: continue without a ticket, -1: failure. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts)
{
    struct tls_tickets *t = &tls_context_of(ssl)->tickets;
    struct tls_ticket_key key;
    int found = 1, ok;
    if (encrypts) {
        tls_tickets_current(t, &key);
        memcpy(name, key.name, sizeof key.name);
        ok = random_bytes(iv, 16) == 0 &&
             tls_api.EVP_EncryptInit_ex(cipher, tls_api.EVP_aes_256_cbc(), NULL, key.encrypt, iv);
    } else {
        found = tls_tickets_find(t, name, &key);
        if (found == 0) {
            return 0;
        }
        ok = tls_api.EVP_DecryptInit_ex(cipher, tls_api.EVP_aes_256_cbc(), NULL, key.encrypt, iv);
    }
    ok = ok && set_mac(mac, &key);
    explicit_bzero(&key, sizeof key);
    return ok ? found : -1;
}

/* A resumed session does not present its certificate again: after the certificate has expired, a
 * full handshake is required, which rejects it. */
static SSL_TICKET_RETURN on_opened(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                   size_t name_len, SSL_TICKET_STATUS status, void *user)
{
    (void)ssl;
    (void)name;
    (void)name_len;
    (void)user;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
        return status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT
                   ? SSL_TICKET_RETURN_IGNORE_RENEW
                   : SSL_TICKET_RETURN_ABORT;
    }
    const X509 *peer = tls_api.SSL_SESSION_get0_peer(session);
    if (peer && tls_expiry_of(peer) <= clock_wall_ms()) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* Makes `ssl` use the ticket keys of the context that each session began with. */
static void tls_tickets_attach(SSL_CTX *ssl)
{
    tls_api.SSL_CTX_set_session_ticket_cb(ssl, NULL, on_opened, NULL);
    tls_api.SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, on_ticket);
    tls_api.SSL_CTX_set_timeout(ssl, ROTATE_MS / 1000u);
}

/* -------------------------------------------------------------------------------------------------
 * TLS contexts: reads certificates and keys from files, and validates them. Every error in a
 * certificate or key is detected here, at start or reload, and reported with the name of its file.
 *
 * The server name that a client requests (SNI) selects a certificate: it is compared with the DNS
 * names in each, in the configured order.
 */

#define FILE_MAX (1024 * 1024) /* bytes of a PEM file */
#define NAMES_MAX 1000         /* maximum names used per certificate */

/* ---- files ----------------------------------------------------------------------------------- */

static void tls_context_warn(const struct tls_options *o, const char *file, const char *what)
{
    if (o->warn) {
        o->warn(o->user, file, what);
    }
}

/* Checks the file before OpenSSL opens it: OpenSSL would hang on a pipe, and reports few details of
 * other errors. */
static int check_file(const char *path, const char *what, struct stat *st,
                      struct tidings_error *err)
{
    int fd = confined_file_descriptor(path);
    if (fd < 0 || fstat(fd, st) < 0) {
        int rc = error_errno(err, fd < 0 ? -fd : errno, "%s '%s'", what, path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    close(fd);
    if (!S_ISREG(st->st_mode)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s '%s': not a file", what, path);
    }
    if (st->st_size > FILE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s '%s': larger than 1 MiB", what, path);
    }
    int rc = whole_file_check(st, TIDINGS_FILE_NAMED, err);
    return rc < 0 ? error_wrap(err, rc, "%s '%s'", what, path) : 0;
}

/* The same, and gets the path with which OpenSSL can open it. */
static int tls_open_file(const char *path, const char *what, struct confined_file *file,
                         struct stat *st, struct tidings_error *err)
{
    int rc = check_file(path, what, st, err);
    if (rc < 0) {
        return rc;
    }
    rc = confined_file_open(file, path);
    return rc < 0 ? error_errno(err, -rc, "%s '%s'", what, path) : 0;
}

static int load_certificate(SSL_CTX *ssl, const char *path, const struct tls_options *o,
                            struct tidings_error *err)
{
    struct stat st;
    struct confined_file file;
    int rc = tls_open_file(path, "certificate", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    tls_api.ERR_clear_error();
    bool is_loaded = tls_api.SSL_CTX_use_certificate_chain_file(ssl, file.path) == 1;
    confined_file_close(&file);
    if (!is_loaded) {
        return tidings_fail(err, TIDINGS_E_INVALID, "certificate '%s': %s (PEM is expected)", path,
                            tls_api_reason());
    }
    X509 *certificate = tls_api.SSL_CTX_get0_certificate(ssl);
    if (tls_api.X509_cmp_current_time(tls_api.X509_get0_notAfter(certificate)) < 0) {
        tls_context_warn(o, path, "the certificate has expired");
    } else if (tls_api.X509_cmp_current_time(tls_api.X509_get0_notBefore(certificate)) > 0) {
        tls_context_warn(o, path, "the certificate is not valid yet");
    }
    return 0;
}

/* There is no user to prompt: records that the key needs a passphrase. */
static int refuse_passphrase(char *out, int size, int writes, void *user)
{
    (void)out;
    (void)size;
    (void)writes;
    *(bool *)user = true;
    return -1;
}

static int load_key(SSL_CTX *ssl, const struct tls_pair *pair, const struct tls_options *o,
                    struct tidings_error *err)
{
    struct stat st = {0};
    const char *path = pair->key;
    bool is_encrypted = false;
    struct confined_file file;
    int rc = tls_open_file(path, "key", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    if (st.st_mode & S_IROTH) {
        tls_context_warn(o, path, "every user of this machine can read the key");
    }
    tls_api.SSL_CTX_set_default_passwd_cb(ssl, refuse_passphrase);
    tls_api.SSL_CTX_set_default_passwd_cb_userdata(ssl, &is_encrypted);
    tls_api.ERR_clear_error();
    bool is_loaded = tls_api.SSL_CTX_use_PrivateKey_file(ssl, file.path, SSL_FILETYPE_PEM) == 1;
    confined_file_close(&file);
    tls_api.SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    if (is_encrypted) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "key '%s': encrypted, but a server cannot ask for a passphrase; "
                            "decrypt it with 'openssl pkey'",
                            path);
    }
    /* The certificate is already loaded: a key that does not match is rejected immediately. */
    if (!is_loaded && ERR_GET_LIB(tls_api.ERR_peek_last_error()) != ERR_LIB_X509) {
        return tidings_fail(err, TIDINGS_E_INVALID, "key '%s': no private key in it (%s)", path,
                            tls_api_reason());
    }
    if (!is_loaded || tls_api.SSL_CTX_check_private_key(ssl) != 1) {
        return tidings_fail(err, TIDINGS_E_INVALID, "key '%s': not the key of certificate '%s'",
                            path, pair->certificate);
    }
    return 0;
}

static int load_clients(SSL_CTX *ssl, const struct tls_options *o, struct tidings_error *err)
{
    struct stat st;
    struct confined_file file;
    if (o->client_auth == TLS_CLIENT_OFF) {
        return 0;
    }
    if (!o->client_ca) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "client certificates are asked for, and no CA is named for them");
    }
    int rc = tls_open_file(o->client_ca, "client CA", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    tls_api.ERR_clear_error();
    STACK_OF(X509_NAME) *names = tls_api.SSL_load_client_CA_file(file.path);
    bool is_loaded = names && tls_api.SSL_CTX_load_verify_file(ssl, file.path) == 1;
    confined_file_close(&file);
    if (!is_loaded) {
        tls_api.SSL_CTX_set_client_CA_list(ssl, names);
        return tidings_fail(err, TIDINGS_E_INVALID, "client CA '%s': %s (PEM is expected)",
                            o->client_ca, tls_api_reason());
    }
    tls_api.SSL_CTX_set_client_CA_list(ssl, names); /* takes ownership */
    tls_api.SSL_CTX_set_verify(
        ssl,
        SSL_VERIFY_PEER |
            (o->client_auth == TLS_CLIENT_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        NULL);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name in the form of a Host header, on the heap; NULL: not relevant (`failed` is unchanged), or
 * out of memory. */
static char *spell_name(const GENERAL_NAME *name, bool *failed)
{
    char text[INET6_ADDRSTRLEN], host[INET6_ADDRSTRLEN + 3];
    struct tidings_str spelled = STR_EMPTY;
    if (name->type == GEN_DNS) {
        spelled = tidings_strn((const char *)tls_api.ASN1_STRING_get0_data(name->d.dNSName),
                               (size_t)tls_api.ASN1_STRING_length(name->d.dNSName));
    } else if (name->type == GEN_IPADD) {
        const unsigned char *bytes = tls_api.ASN1_STRING_get0_data(name->d.iPAddress);
        int len = tls_api.ASN1_STRING_length(name->d.iPAddress);
        bool is_v6 = len == 16;
        if ((len == 4 || is_v6) &&
            inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes, text, sizeof(text))) {
            snprintf(host, sizeof(host), is_v6 ? "[%s]" : "%s", text);
            spelled = tidings_str(host);
        }
    }
    if (spelled.len == 0) {
        return NULL;
    }
    char *copy = str_dup(spelled);
    *failed = !copy;
    return copy;
}

/* The DNS names and addresses of a certificate. */
static int take_names(struct tls_host *host, struct tidings_error *err)
{
    GENERAL_NAMES *all = tls_api.X509_get_ext_d2i(tls_api.SSL_CTX_get0_certificate(host->ssl),
                                                  NID_subject_alt_name, NULL, NULL);
    const OPENSSL_STACK *stack = (const OPENSSL_STACK *)all;
    int count = all ? tls_api.OPENSSL_sk_num(stack) : 0;
    count = count < 0 ? 0 : count > NAMES_MAX ? NAMES_MAX : count;
    host->names = mem_zalloc(((size_t)count + 1) * sizeof(char *));
    bool failed = !host->names;
    for (int i = 0; i < count && !failed; i++) {
        char *name = spell_name(tls_api.OPENSSL_sk_value(stack, i), &failed);
        host->names[host->name_count] = name;
        host->name_count += name != NULL;
    }
    tls_api.GENERAL_NAMES_free(all);
    return failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* "*.example.org" matches exactly one label before the domain. */
static bool is_name_for(struct tidings_str pattern, struct tidings_str name)
{
    if (!str_starts(pattern, STR("*."))) {
        return str_eq_nocase(pattern, name);
    }
    ptrdiff_t dot = str_find(name, '.');
    return dot > 0 && str_eq_nocase(str_skip(pattern, 1), str_skip(name, (size_t)dot));
}

/* Finds the certificate for this name; NULL: none. */
static const struct tls_host *tls_context_find(const struct tls_context *c, struct tidings_str name)
{
    for (size_t i = 0; i < c->host_count; i++) {
        for (size_t j = 0; j < c->hosts[i].name_count; j++) {
            if (is_name_for(tidings_str(c->hosts[i].names[j]), name)) {
                return &c->hosts[i];
            }
        }
    }
    return NULL;
}

static int on_name(SSL *ssl, int *alert, void *user)
{
    (void)alert;
    (void)user;
    const char *name = tls_api.SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct tls_host *host =
        name ? tls_context_find(tls_context_of(ssl), tidings_str(name)) : NULL;
    if (!host) {
        return SSL_TLSEXT_ERR_NOACK; /* keeps the first one, which is already set */
    }
    return tls_api.SSL_set_SSL_CTX(ssl, host->ssl) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* `offered` is a list of strings, each with a length byte before it; OpenSSL has checked it. */
static int on_protocols(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                        const unsigned char *offered, unsigned len, void *user)
{
    (void)user;
    const char *spoken = tls_protocol_of(ssl);
    for (unsigned at = 0; spoken && at < len; at += 1u + offered[at]) {
        if (offered[at] == strlen(spoken) && offered[at] < len - at &&
            memcmp(offered + at + 1, spoken, offered[at]) == 0) {
            *ret = offered + at + 1;
            *ret_len = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return spoken ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static int tls_context_set_up(SSL_CTX *ssl, const struct tls_options *o, struct tidings_error *err)
{
    unsigned char id[SSL_MAX_SID_CTX_LENGTH];
    const long least = o->least == TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    const uint64_t options = SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION;
    /* A resumed session does not present its certificate again, so no session is resumed in another
     * context, whose files could differ. */
    if (random_bytes(id, sizeof id) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "there is no randomness for sessions");
    }
    tls_api.SSL_CTX_set_session_id_context(ssl, id, sizeof id);
    (void)tls_api.SSL_CTX_set_options(ssl, options);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, least, NULL);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_MODE,
                         SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                             SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                         NULL);
    tls_api.SSL_CTX_callback_ctrl(ssl, SSL_CTRL_SET_TLSEXT_SERVERNAME_CB, (void (*)(void))on_name);
    tls_api.SSL_CTX_set_alpn_select_cb(ssl, on_protocols, NULL);
    tls_tickets_attach(ssl);
    return 0;
}

static int open_host(struct tls_host *host, const struct tls_pair *pair,
                     const struct tls_options *o, struct tidings_error *err)
{
    host->ssl = tls_api.SSL_CTX_new(tls_api.TLS_server_method());
    if (!host->ssl) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = tls_context_set_up(host->ssl, o, err);
    if (rc == 0) {
        rc = load_certificate(host->ssl, pair->certificate, o, err);
    }
    if (rc == 0) {
        rc = load_key(host->ssl, pair, o, err);
    }
    if (rc == 0) {
        rc = load_clients(host->ssl, o, err);
    }
    return rc < 0 ? rc : take_names(host, err);
}

int tls_context_open(struct tls_context **ret, const struct tls_options *o,
                     struct tidings_error *err)
{
    if (o->count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "TLS needs a certificate");
    }
    int rc = tls_api_load(err);
    if (rc < 0) {
        return rc;
    }
    struct tls_context *c = mem_zalloc(sizeof *c + o->count * sizeof c->hosts[0]);
    if (!c) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    atomic_init(&c->refs, 1);
    c->wire = tls_wire_create();
    rc = c->wire ? tls_tickets_init(&c->tickets, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    for (size_t i = 0; i < o->count && rc == 0; i++) {
        c->host_count++;
        rc = open_host(&c->hosts[i], &o->pairs[i], o, err);
    }
    if (rc < 0) {
        tls_context_unref(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static struct tls_context *tls_context_ref(struct tls_context *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void tls_context_unref(struct tls_context *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < c->host_count; i++) {
        struct tls_host *host = &c->hosts[i];
        for (size_t j = 0; j < host->name_count; j++) {
            mem_free(host->names[j]);
        }
        mem_free(host->names);
        tls_api.SSL_CTX_free(host->ssl);
    }
    tls_tickets_deinit(&c->tickets);
    tls_api.BIO_meth_free(c->wire);
    mem_free(c);
}
