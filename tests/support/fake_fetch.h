/* SPDX-License-Identifier: MIT
 *
 * base/net/fetch.h without a network, for programs that link it in place of the real one
 * (tests/CMakeLists.txt). Requests go to a function that acts as the server; its response arrives
 * in steps. The next step is drawn at random among all transfers, like on independent connections;
 * each transfer keeps its order.
 */
#ifndef SUPPORT_FAKE_FETCH_H
#define SUPPORT_FAKE_FETCH_H

#include "base/net/fetch.h"

struct fake_net {
    /* The server has the request. */
    void (*on_transfer)(void *user, struct fetch_transfer *t);
    /* The client wants nothing more of it; the transfer is gone afterwards. */
    void (*on_close)(void *user, struct fetch_transfer *t);
    unsigned (*draw)(void *user, unsigned sides);
    void *user;
    unsigned budget;     /* how many things may happen */
    struct fetch *fetch; /* the one that uses it */
};

/* For the fetches that are created from now on. */
void fake_net_use(struct fake_net *net);
/* So many things may happen from now on. */
void fake_net_allow(struct fake_net *net, unsigned budget);
bool fake_net_is_quiet(const struct fake_net *net); /* nothing is on its way */
size_t fake_net_transfers(const struct fake_net *net);

/* ---- the server's side of a transfer --------------------------------------------------------- */

const char *fake_transfer_method(const struct fetch_transfer *t);
struct tidings_str fake_transfer_body(const struct fetch_transfer *t);
const char *fake_transfer_header(const struct fetch_transfer *t, const char *name); /* NULL: none */

void fake_transfer_head(struct fetch_transfer *t, long status, const char *type,
                        const char *session);
void fake_transfer_bytes(struct fetch_transfer *t, const char *text);
void fake_transfer_end(struct fetch_transfer *t);
/* It breaks: only this much of the data in transit arrives. */
void fake_transfer_cut(struct fetch_transfer *t, size_t parts);
size_t fake_transfer_pending(const struct fetch_transfer *t); /* parts on their way */

#endif
