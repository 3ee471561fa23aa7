/* SPDX-License-Identifier: MIT
 *
 * TLS 1.2 and 1.3, server side only, with OpenSSL, whose library is loaded with the first context.
 *
 * A *context* is the TLS configuration of a listener: certificates with their keys, and the CA
 * certificates of clients. It is immutable and reference counted: connections keep the one they
 * began with, so it can be replaced at any time.
 *
 * A *session* is one connection. Input from the socket enters through tls_recv, output through
 * tls_seal; outgoing records, including those of the handshake, are passed to the session's outlet
 * and never written directly. So nothing here waits for a writable socket, and records are sent
 * like all other bytes (base/net/sendq.h), many sockets in one system call.
 *
 * tls_recv processes everything it read from the socket: no byte stays in a session until another
 * call. So callers can poll the socket for input, as for a plain connection.
 *
 * No compression, no renegotiation, no early data. Session tickets are encrypted with keys that are
 * replaced every hour and deleted after two; they are invalid in another context.
 *
 * All threads may use a context; one thread at a time may use a session. OpenSSL allocates by
 * itself, not through base/mem.h.
 */
#ifndef BASE_NET_TLS_H
#define BASE_NET_TLS_H

#include <sys/types.h>

#include <tidings/types.h>

/* Maximum plaintext of one record. */
#define TLS_RECORD 16384u
/* Maximum bytes read from a socket at a time, and the room that they need: an incomplete earlier
 * record adds to them. */
#define TLS_WIRE 32768u
#define TLS_ROOM 65536u

/* ---- contexts ------------------------------------------------------------------------------- */

enum tls_client_auth {
    TLS_CLIENT_OFF,     /* requests no certificate */
    TLS_CLIENT_REQUEST, /* accepts no certificate or a valid one */
    TLS_CLIENT_REQUIRE,
};

enum tls_version { TLS_1_2, TLS_1_3 };

/* PEM files: the certificate with its chain, and the key, not encrypted. */
struct tls_pair {
    const char *certificate, *key;
};

struct tls_options {
    const struct tls_pair *pairs; /* the first is used for clients that send no known name */
    size_t count;
    const char *client_ca; /* PEM file with the CAs of clients; NULL: none */
    enum tls_client_auth client_auth;
    enum tls_version least;
    /* Called for suspicious settings that do not prevent a start, with `file` and a message. NULL:
     * ignored. */
    void (*warn)(void *user, const char *file, const char *what);
    void *user;
};

struct tls_context;

/* Reads and checks all files. Error messages name the file and the reason. TIDINGS_E_NOTFOUND,
 * TIDINGS_E_DENIED, TIDINGS_E_INVALID; TIDINGS_E_UNSUPPORTED if OpenSSL is missing. */
int tls_context_open(struct tls_context **ret, const struct tls_options *options,
                     struct tidings_error *err);
void tls_context_unref(struct tls_context *c); /* NULL is fine */

/* ---- sessions ------------------------------------------------------------------------------- */

struct tls_session;

/* Receives records to send, in order. Negative: out of memory; the session fails. */
typedef int (*tls_outlet_fn)(void *user, const char *bytes, size_t len);

/* `protocol` is the application protocol ("http/1.1"), for clients that use ALPN: a client that
 * offers only others is rejected. NULL: any. Must be a literal. Returns NULL if out of memory. */
struct tls_session *tls_session_create(struct tls_context *c, const char *protocol);
void tls_session_destroy(struct tls_session *s); /* NULL is fine */
/* Set it before anything is received, and again after a connection has moved. */
void tls_session_set_outlet(struct tls_session *s, tls_outlet_fn outlet, void *user);

/* recv(2) on a non-blocking socket, through the session unless it is NULL. Returns the number of
 * bytes in `out`; 0: nothing available now, or the end. `ended` is set at the end of input, whether
 * the client sent a close alert or just closed; it can be set together with the last bytes, and is
 * otherwise unchanged. A negative errno is a failure, after which the session is unusable:
 *   -EPROTOTYPE  the client does not speak TLS; its bytes are lost. Respond in plaintext.
 *   -EPROTO      rejected or malformed; the outlet may contain an alert
 * With a session, `size` is at least TLS_ROOM. */
ssize_t tls_recv(struct tls_session *s, int fd, void *out, size_t size, bool *ended);
/* The second half of tls_recv, for received bytes `wire`: at most TLS_WIRE bytes; `out` has
 * TLS_ROOM. */
ssize_t tls_open(struct tls_session *s, struct tidings_str wire, char *out, bool *ended);

/* Returns true if the handshake is done. Nothing can be sealed before. */
bool tls_session_is_ready(const struct tls_session *s);
/* OpenSSL's message for the failure; "" if it has not failed. */
const char *tls_session_reason(const struct tls_session *s);
/* The subject of the client's verified certificate ("CN=alice,O=example", RFC 2253); a hash
 * replaces a long one. NULL: no certificate. */
const char *tls_session_peer(const struct tls_session *s);

/* Unix time in ms at which that certificate expires; 0: no certificate. A session is not resumed
 * afterwards, but an open one is not closed. */
int64_t tls_session_expiry(const struct tls_session *s);
/* Returns true if `name` ("example.org", "192.0.2.1", "[2001:db8::1]") matches a certificate of its
 * context. */
bool tls_session_is_for(const struct tls_session *s, struct tidings_str name);

/* Encrypts into as few records as possible. Fails before the handshake is done, and if the outlet
 * fails. */
int tls_seal(struct tls_session *s, const char *bytes, size_t len);
/* Sends a close alert; call it once. Does nothing before the handshake is done. */
void tls_seal_end(struct tls_session *s);

/* "OpenSSL 3.0.19 27 Jan 2026"; loads the library. NULL: not available. */
const char *tls_library(void);

#endif
