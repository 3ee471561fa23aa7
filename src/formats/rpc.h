/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC 2.0 envelopes: finds whether a message is a request, a notification or a response, and
 * validates it. engine/protocol/dialect.h writes responses.
 */
#ifndef FORMATS_RPC_H
#define FORMATS_RPC_H

#include "base/str.h"
#include "formats/json.h"

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
    /* request, response: a string or an integer; else NULL. Also NULL in an error response to an
     * unreadable request (JSON-RPC 2.0 §5) */
    struct json *id;
    struct json *params; /* object or NULL */
};

/* Validates one object. On failure (TIDINGS_E_PARSE: not JSON-RPC, -32600), `out->id` is still set
 * if it could be read, for the error response. `params` arrays are rejected: MCP has only named
 * parameters. Unknown members are ignored. */
int rpc_read(struct json *value, struct rpc_message *out, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Newline framing (stdio, TCP): one message per line, LF; a CR before it is dropped; blank lines
 * (nothing but blanks) are skipped. A line longer than the maximum (without its line end) is
 * skipped to its end and reported once. The result does not depend on how the bytes are split.
 *
 * If the caller reads lines until LINE_MORE after each feed, the reader never holds more than the
 * maximum and one feed.
 */

struct line_reader {
    struct buf in;
    size_t start;   /* start of the first line not yet returned */
    size_t scanned; /* no LF before this */
    size_t max;
    bool skipping;
};

enum line_result {
    LINE_MORE = 0,
    LINE_READY = 1,
    LINE_TOO_LONG = 2, /* one over-long line was (or is being) skipped */
};

void line_reader_init(struct line_reader *r, size_t max_line);
void line_reader_deinit(struct line_reader *r);
int line_reader_feed(struct line_reader *r, const char *bytes, size_t len); /* TIDINGS_E_NOMEM */
/* The next line; the slice is valid until the next feed or next. At LINE_MORE the memory of an
 * emptied reader is released. */
enum line_result line_reader_next(struct line_reader *r, struct tidings_str *line);
/* At end of input: an unfinished last line counts as a line. */
enum line_result line_reader_finish(struct line_reader *r, struct tidings_str *line);
/* Returns true between lines, when a new reader would be in the same state. */
bool line_reader_is_idle(const struct line_reader *r);

#endif
