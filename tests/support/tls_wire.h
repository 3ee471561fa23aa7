/* SPDX-License-Identifier: MIT
 *
 * A socket with our TLS session and send queue at one end and bare OpenSSL, as a client, at the
 * other. Both ends are non-blocking and turned by the test.
 */
#ifndef SUPPORT_TLS_WIRE_H
#define SUPPORT_TLS_WIRE_H

#include <openssl/ssl.h>

#include "base/net/sendq.h"

#define TLS_WIRE_GOT (2u << 20)

struct tls_wire {
    struct sendq_batch batch;
    struct sendq q;
    int fds[2]; /* ours, the client's */
    SSL_CTX *client_context;
    SSL *client;
    /* Ours. */
    char *got; /* the received data, TLS_WIRE_GOT bytes */
    size_t got_len;
    bool has_ended;
    ssize_t failure; /* negative once receiving failed */
    enum sendq_state last;
};

/* The client trusts the CA in that PEM file (NULL: any server). Nothing has been sent yet. */
void tls_wire_open(struct tls_wire *w, struct tls_context *c, const char *protocol, const char *ca);
void tls_wire_close(struct tls_wire *w);
/* A new client with the same settings, on a new socket. */
void tls_wire_again(struct tls_wire *w, struct tls_context *c);

/* Our side: receive all there is, send all that waits. */
void tls_wire_turn(struct tls_wire *w);
/* Both, until the client's handshake is done and we have seen it; false: it failed. */
bool tls_wire_shake(struct tls_wire *w);
/* The client sends; our side turns until it has `len` bytes more. */
void tls_wire_say(struct tls_wire *w, const char *text, size_t len);
/* The client reads `len` bytes, our side turns. Returns those it got before the end or a failure.
 */
size_t tls_wire_hear(struct tls_wire *w, char *out, size_t len);

#endif
