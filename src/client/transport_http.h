/* SPDX-License-Identifier: MIT
 *
 * The header fields that a message of MCP wants over HTTP, by its era (but the token); and where a
 * server of 2024-11-05 wants its messages.
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

/* Where to POST, given where the stream is and what it says: an address of the same server, whole,
 * from its root or beside the stream's. NULL: another server's, or nothing to go by. */
char *endpoint_resolve(const char *url, struct tidings_str where);

#endif
