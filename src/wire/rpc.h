/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC 2.0 envelopes: is a message a request, a notification or a response, and is it well
 * formed? What answers look like is in dialect/dialect.h.
 */
#ifndef WIRE_RPC_H
#define WIRE_RPC_H

#include "json/json.h"

#define RPC_MAX_ID 1024u /* bytes of a string id */
#define RPC_MAX_METHOD 256u

enum rpc_kind {
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESPONSE, /* result or error from the client */
};

struct rpc_message {
    enum rpc_kind kind;
    struct tidings_str method; /* request, notification */
    struct json *id; /* request, response: a string or an integer; else NULL. Also NULL in an error
                      * response to a request that could not be read (JSON-RPC 2.0 §5) */
    struct json *params; /* object or NULL */
};

/* Judge one object. On failure (TIDINGS_E_PARSE: not JSON-RPC, -32600) `out->id` still holds the id
 * when one could be read, so that the error can be answered. `params` arrays are refused: MCP has
 * named parameters only. Unknown members are ignored. */
int rpc_read(struct json *value, struct rpc_message *out, struct tidings_error *err);

#endif
