/* SPDX-License-Identifier: MIT
 *
 * Internal interface of TLS: contexts, ticket keys and sessions (all in tls.c).
 */
#ifndef BASE_NET_TLS_INTERNAL_H
#define BASE_NET_TLS_INTERNAL_H

#include <stdatomic.h>

#include "base/net/openssl.h"
#include "base/net/tls.h"

/* ---- keys of session tickets ----------------------------------------------------------------- */

struct tls_ticket_key {
    unsigned char name[16], encrypt[32], authenticate[32];
};

#define TLS_TICKET_KEYS 2u /* the current and the previous one */
#define TLS_TICKET_WORDS (TLS_TICKET_KEYS * sizeof(struct tls_ticket_key) / sizeof(uint64_t))

/* Shared by all threads, any of which can replace them, without a lock: a reader that finds
 * `sequence` odd or changed reads again. */
struct tls_tickets {
    atomic_uint sequence;
    _Atomic uint64_t born_ms;
    _Atomic uint64_t words[TLS_TICKET_WORDS];
};
int tls_tickets_init(struct tls_tickets *t, struct tidings_error *err);
void tls_tickets_deinit(struct tls_tickets *t);
/* The key that encrypts new tickets; replaced when it is too old. */
void tls_tickets_current(struct tls_tickets *t, struct tls_ticket_key *ret);
/* Finds the key with that name. Returns 1: current, 2: previous, 0: unknown or deleted. */
int tls_tickets_find(struct tls_tickets *t, const unsigned char name[16],
                     struct tls_ticket_key *ret);

/* ---- contexts -------------------------------------------------------------------------------- */

/* One certificate and the names it is valid for. */
struct tls_host {
    SSL_CTX *ssl;
    char **names; /* "example.org", "*.example.org"; addresses: "192.0.2.1", "[2001:db8::1]" */
    size_t name_count;
};

struct tls_context {
    atomic_uint refs;
    BIO_METHOD *wire; /* the BIO between sessions and OpenSSL */
    struct tls_tickets tickets;
    size_t host_count;
    struct tls_host hosts[];
};

#endif
