/* SPDX-License-Identifier: MIT
 *
 * What the parts of TLS share: tls.c (files), tls.c (keys of tickets) and tls.c
 * (sessions).
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

#define TLS_TICKET_KEYS 2u /* the one in use, and the one before */
#define TLS_TICKET_WORDS (TLS_TICKET_KEYS * sizeof(struct tls_ticket_key) / sizeof(uint64_t))

/* Used by all threads at once and replaced by any of them, without a lock: whoever reads while
 * `sequence` is odd, or has changed, reads again. */
struct tls_tickets {
    atomic_uint sequence;
    _Atomic uint64_t born_ms;
    _Atomic uint64_t words[TLS_TICKET_WORDS];
};
int tls_tickets_init(struct tls_tickets *t, struct tidings_error *err);
void tls_tickets_deinit(struct tls_tickets *t);
/* The key that new tickets are encrypted with; made anew when its time has come. */
void tls_tickets_current(struct tls_tickets *t, struct tls_ticket_key *ret);
/* The key of that name. Returns 1, 2: it is the one before, 0: not there any more. */
int tls_tickets_find(struct tls_tickets *t, const unsigned char name[16],
                     struct tls_ticket_key *ret);

/* ---- contexts -------------------------------------------------------------------------------- */

/* One certificate and those it is for. */
struct tls_host {
    SSL_CTX *ssl;
    char **names; /* "example.org", "*.example.org"; addresses: "192.0.2.1", "[2001:db8::1]" */
    size_t name_count;
};

struct tls_context {
    atomic_uint refs;
    BIO_METHOD *wire; /* by which sessions reach their bytes */
    struct tls_tickets tickets;
    size_t host_count;
    struct tls_host hosts[];
};

#endif
