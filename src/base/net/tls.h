/* SPDX-License-Identifier: MIT
 *
 * TLS 1.2 and 1.3, the server's side, by OpenSSL; its library is loaded with the first context.
 *
 * A *context* is what a server is to its clients: certificates with their keys, and whose
 * certificates it asks for. It is immutable and counted: connections keep the one they began with,
 * so that another may take its place at any time.
 *
 * A *session* is one connection. What comes from the socket goes in through tls_recv, what is to be
 * sent through tls_seal; records that have to go out, also those of the handshake, are handed to
 * the session's outlet, never written. So nothing here waits for the socket to become writable, and
 * records go the way of all other bytes (base/net/sendq.h), many sockets in one system call.
 *
 * tls_recv takes everything out of what it read from the socket: no byte stays in a session that
 * another call would bring. Waiting for the socket to become readable is therefore right, as for a
 * plain one.
 *
 * No compression, no renegotiation, no early data. Session tickets are encrypted with keys that are
 * made anew every hour and forgotten after two; they mean nothing to another context.
 *
 * A context may be used by all threads; a session by one at a time. OpenSSL allocates by itself,
 * not through base/mem.h.
 */
#ifndef BASE_NET_TLS_H
#define BASE_NET_TLS_H

#include <sys/types.h>

#include <tidings/types.h>

/* Plaintext of one record, at most. */
#define TLS_RECORD 16384u
/* Taken from a socket at a time, and the room that needs: a record that was begun before comes on
 * top. */
#define TLS_WIRE 32768u
#define TLS_ROOM 65536u

/* ---- contexts ------------------------------------------------------------------------------- */

enum tls_client_auth {
    TLS_CLIENT_OFF,     /* not asked for a certificate */
    TLS_CLIENT_REQUEST, /* may show one, which must then be good */
    TLS_CLIENT_REQUIRE,
};

enum tls_version { TLS_1_2, TLS_1_3 };

/* PEM files: the certificate with its chain, and the key, not encrypted. */
struct tls_pair {
    const char *certificate, *key;
};

struct tls_options {
    const struct tls_pair *pairs; /* the first is for those who ask for no name, or for no known */
    size_t count;
    const char *client_ca; /* PEM file with the CAs of clients; NULL: none */
    enum tls_client_auth client_auth;
    enum tls_version least;
    /* What is suspicious but no reason not to start: `file` and a sentence. NULL: not told. */
    void (*warn)(void *user, const char *file, const char *what);
    void *user;
};

struct tls_context;

/* Reads and checks all files. Errors name the file and what is wrong with it. TIDINGS_E_NOTFOUND,
 * TIDINGS_E_DENIED, TIDINGS_E_INVALID; TIDINGS_E_UNSUPPORTED when OpenSSL is missing. */
int tls_context_open(struct tls_context **ret, const struct tls_options *options,
                     struct tidings_error *err);
void tls_context_unref(struct tls_context *c); /* NULL is fine */

/* ---- sessions ------------------------------------------------------------------------------- */

struct tls_session;

/* Records to be sent, in order. Negative: out of memory; the session fails. */
typedef int (*tls_outlet_fn)(void *user, const char *bytes, size_t len);

/* `protocol` is what is spoken inside ("http/1.1"), for clients that ask (ALPN): one that offers
 * only others is refused. NULL: whatever it offers. Must be a literal. NULL: out of memory. */
struct tls_session *tls_session_create(struct tls_context *c, const char *protocol);
void tls_session_destroy(struct tls_session *s); /* NULL is fine */
/* Must be set before anything is received, again when a connection has moved. */
void tls_session_set_outlet(struct tls_session *s, tls_outlet_fn outlet, void *user);

/* recv(2) on a non-blocking socket, and through the session unless it is NULL. Returns the bytes
 * put into `out`; 0: none at the moment, or none ever. `ended`: nothing more will come, whether the
 * client said so or just closed; may be set together with the last bytes, else is left alone.
 * A negative errno is a failure, after which the session is of no use:
 *   -EPROTOTYPE  the client does not speak TLS; its bytes are gone. What is answered is plain.
 *   -EPROTO      refused or malformed; an alert that says so may be in the outlet
 * `size` is at least TLS_ROOM with a session. */
ssize_t tls_recv(struct tls_session *s, int fd, void *out, size_t size, bool *ended);
/* Its second half, for `wire` as it came: at most TLS_WIRE bytes; `out` has TLS_ROOM. */
ssize_t tls_open(struct tls_session *s, struct tidings_str wire, char *out, bool *ended);

/* Has the handshake been done? Nothing can be sealed before. */
bool tls_session_is_ready(const struct tls_session *s);
/* Why it failed, in OpenSSL's words; "" while it has not. */
const char *tls_session_reason(const struct tls_session *s);
/* The subject of the client's certificate, which was checked ("CN=alice,O=example", RFC 2253); a
 * long one is told by its hash. NULL: it showed none. */
const char *tls_session_peer(const struct tls_session *s);

/* Unix time in ms from which that certificate is not good any more; 0: it showed none. A session
 * is not resumed after it, but nobody ends one that is open. */
int64_t tls_session_expiry(const struct tls_session *s);
/* Is `name` ("example.org", "192.0.2.1", "[2001:db8::1]") among those that a certificate of its
 * context is for? */
bool tls_session_is_for(const struct tls_session *s, struct tidings_str name);

/* Encrypts into as few records as possible. Fails before the handshake is done and when the outlet
 * does. */
int tls_seal(struct tls_session *s, const char *bytes, size_t len);
/* Say that nothing more will be sent; once. Does nothing before the handshake is done. */
void tls_seal_end(struct tls_session *s);

/* "OpenSSL 3.0.19 27 Jan 2026", loading it. NULL: cannot be had. */
const char *tls_library(void);

#endif
