/* SPDX-License-Identifier: MIT
 *
 * Keys of session tickets. A ticket is the session's secret, kept by the client: who learns the key
 * of a ticket can read what was said with it in TLS 1.2. So a key serves for an hour, opens for
 * another, and is gone. OpenSSL's own keys would stay as long as the process.
 *
 * The words are a seqlock of atomics: handshakes on all workers read, one of them writes once an
 * hour. The thread that makes `sequence` odd is the only writer until it is even again.
 */
#include "base/tls_private.h"

#include "base/clock.h"

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
    if (random_bytes(keys, sizeof keys) < 0) { /* nobody knows the name of the second */
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
        return; /* another thread is at it; or we go on with what we have */
    }
    load_keys(t, keys);
    if (atomic_compare_exchange_strong(&t->sequence, &sequence, sequence + 1)) {
        /* After two hours without a ticket the one in use is as old as the one before may be. */
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

/* Before any use: a server that was asked for no ticket for long must not open old ones. */
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

/* ---- OpenSSL asks ---------------------------------------------------------------------------- */

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

/* 1: use it, 2: use it and give the client a new one, 0: go on without, -1: failure. */
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

/* A session that is resumed is not asked for its certificate again: past the end of that one there
 * is a whole handshake, which refuses it. */
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

void tls_tickets_attach(SSL_CTX *ssl)
{
    tls_api.SSL_CTX_set_session_ticket_cb(ssl, NULL, on_opened, NULL);
    tls_api.SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, on_ticket);
    tls_api.SSL_CTX_set_timeout(ssl, ROTATE_MS / 1000u);
}
