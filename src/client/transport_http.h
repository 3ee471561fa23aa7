/* SPDX-License-Identifier: MIT
 *
 * The header fields of an MCP message over HTTP, by its era (except the token); and the address for
 * messages to a server of 2024-11-05.
 */
#ifndef CLIENT_TRANSPORT_HTTP_H
#define CLIENT_TRANSPORT_HTTP_H

#include "base/str.h"
#include "client/transport.h"

#define HEADER_LINES 40u /* 32 of them for arguments of a tool */

struct header_lines {
    struct buf lines[HEADER_LINES]; /* "Name: value" */
    size_t count;
};

struct header_state {
    const char *session;       /* "": none */
    const char *last_event_id; /* NULL: none */
};

/* `m` NULL: a GET or DELETE, which has no message. TIDINGS_E_LIMIT, TIDINGS_E_NOMEM; there is
 * something to deinit then, too. */
int header_lines_init(struct header_lines *h, const struct tidings_client *c,
                      const struct transport_message *m, const struct header_state *state);
void header_lines_deinit(struct header_lines *h);

/* The address for POSTs, from the URL of the stream and the server's `endpoint` event: an address
 * on the same server, absolute, from its root or relative to the stream's. NULL: another server's,
 * or no usable address. */
char *endpoint_resolve(const char *url, struct tidings_str where);

#endif
