/* SPDX-License-Identifier: MIT
 *
 * client/fetch.h without a network, for programs that are linked with it in place of the real one
 * (tests/CMakeLists.txt). Requests go to a server that is a function; what it says comes back in
 * steps. What happens next is drawn by lot among all calls, as with connections that know nothing
 * of one another; on one call everything keeps its order.
 */
#ifndef SUPPORT_FAKE_FETCH_H
#define SUPPORT_FAKE_FETCH_H

#include "client/fetch.h"

struct fake_net {
    /* The server has the request. */
    void (*on_call)(void *user, struct fetch_call *call);
    /* The client wants nothing more of it; the call is gone afterwards. */
    void (*on_close)(void *user, struct fetch_call *call);
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
size_t fake_net_calls(const struct fake_net *net);

/* ---- the server's side of a call ------------------------------------------------------------- */

const char *fake_call_method(const struct fetch_call *call);
struct tidings_str fake_call_body(const struct fetch_call *call);
const char *fake_call_header(const struct fetch_call *call, const char *name); /* NULL: none */

void fake_call_head(struct fetch_call *call, long status, const char *type, const char *session);
void fake_call_bytes(struct fetch_call *call, const char *text);
void fake_call_end(struct fetch_call *call);
/* It breaks: only so much of what is on its way arrives. */
void fake_call_cut(struct fetch_call *call, size_t parts);
size_t fake_call_pending(const struct fetch_call *call); /* parts on their way */

#endif
