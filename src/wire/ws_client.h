/* SPDX-License-Identifier: MIT
 *
 * The client's side of WebSocket (RFC 6455 §4.1, §5.3), without I/O: the request that asks for it,
 * the answer that grants it, masked frames.
 */
#ifndef WIRE_WS_CLIENT_H
#define WIRE_WS_CLIENT_H

#include "wire/ws.h"

#define WS_MAX_HEAD 16384u /* of the answer */
#define WS_KEY_BYTES 25u   /* of a key, with its NUL */

/* A fresh key. TIDINGS_E_IO: no randomness. */
int ws_client_key(char out[WS_KEY_BYTES]);

struct ws_client_request {
    struct tidings_str host; /* with the port, when the address has one */
    struct tidings_str path; /* and query */
    const char *key;
    const char *const *headers; /* "Name: value", checked; NULL at the end; NULL: none */
};
void ws_client_put_request(struct buf *out, const struct ws_client_request *r);

/* The answer as far as it came: its length once it is complete and grants the request; 0: more is
 * needed. Else an error: TIDINGS_E_DENIED (401, 403), TIDINGS_E_NOTFOUND (404), TIDINGS_E_BUSY
 * (5xx, 408, 429), TIDINGS_E_PARSE, TIDINGS_E_LIMIT. */
ptrdiff_t ws_client_check(struct tidings_str bytes, const char *key, struct tidings_error *err);
/* Its status; 0: none, or not yet. */
unsigned ws_client_status(struct tidings_str bytes);
/* What the first field of that name in it says; empty: there is none. */
struct tidings_str ws_client_field(struct tidings_str bytes, struct tidings_str name);
/* What follows the head, as far as it has come; empty when it is encoded in some way. */
struct tidings_str ws_client_body(struct tidings_str bytes);

/* One message in one frame, masked with fresh bytes. TIDINGS_E_IO: no randomness. */
int ws_client_put(struct buf *out, enum ws_opcode opcode, struct tidings_str payload);

#endif
