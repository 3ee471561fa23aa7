/* SPDX-License-Identifier: MIT
 *
 * WebSocket (RFC 6455) without I/O: handshake, outgoing frames, incoming messages.
 *
 * wslay reads input, one frame at a time; if it is not installed, everything else works, and
 * creating a reader fails with that reason. Output is a header of 2, 4 or 10 bytes, written by the
 * caller that has room for the message. No extension is ever accepted, so reserved bits are an
 * error.
 */
#ifndef FORMATS_WEBSOCKET_H
#define FORMATS_WEBSOCKET_H

#include "base/str.h"
#include "formats/http.h"

/* ---- handshake ------------------------------------------------------------------------------- */

#define WS_PROTOCOL "mcp"   /* the subprotocol */
#define WS_ACCEPT_BYTES 29u /* proof that the key was read, NUL-terminated */

struct ws_handshake {
    char accept[WS_ACCEPT_BYTES];
    bool names_protocol; /* the client offered it, so the response must name it */
};

/* Returns true if it requests a WebSocket. ws_check_handshake validates the request. */
bool ws_is_upgrade(const struct http_request *req);
/* The proof for `key` (Sec-WebSocket-Accept). TIDINGS_E_NOMEM. */
int ws_write_accept(struct tidings_str key, char out[WS_ACCEPT_BYTES]);
/* Returns 0, or the HTTP status of the rejection and an error message in *why. A 426 response must
 * name the version (13). A client that offers subprotocols must offer ours; a client that offers
 * none is accepted. */
int ws_check_handshake(const struct http_request *req, struct ws_handshake *ret, const char **why);

/* ---- outgoing frames ------------------------------------------------------------------------- */

enum ws_opcode {
    WS_OP_TEXT = 1,
    WS_OP_CLOSE = 8,
    WS_OP_PING = 9,
    WS_OP_PONG = 10,
};

#define WS_MAX_HEADER 10u
#define WS_MAX_CONTROL 125u /* bytes in a control frame */

/* For a whole message in one frame, unmasked like a server's. */
size_t ws_header_len(uint64_t payload_len);
/* Returns the position after it. */
char *ws_write_header(char *at, enum ws_opcode opcode, uint64_t payload_len);
/* Writes a complete close frame, with a reason truncated to fit; code WS_NO_CODE: without both.
 * Returns its length. */
size_t ws_write_close(char out[2 + WS_MAX_CONTROL], unsigned code, struct tidings_str reason);

enum ws_code {
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_PROTOCOL_ERROR = 1002,
    WS_UNSUPPORTED = 1003,
    WS_NO_CODE = 1005,
    WS_NOT_UTF8 = 1007,
    WS_POLICY = 1008,
    WS_TOO_BIG = 1009,
    WS_INTERNAL = 1011,
    WS_TRY_AGAIN = 1013,
};

/* ---- incoming messages ----------------------------------------------------------------------- */

struct ws_reader;

enum ws_event {
    WS_MORE,   /* all input was read */
    WS_TEXT,   /* a whole message, assembled from its fragments */
    WS_PING,   /* respond with the same payload */
    WS_PONG,   /* no response needed */
    WS_CLOSE,  /* the client closes: `code`, the reason is the payload; no more events */
    WS_FAILED, /* protocol violation: close with `code` and the payload as reason */
};

struct ws_message {
    struct tidings_str payload; /* valid until the next call */
    unsigned code;
};

/* "wslay"; loads it. NULL: not available. */
const char *ws_library(void);

/* The first call loads the library. NULL with err. */
struct ws_reader *ws_reader_create(size_t max_message, struct tidings_error *err);
/* For input from a server. */
struct ws_reader *ws_reader_create_client(size_t max_message, struct tidings_error *err);
void ws_reader_destroy(struct ws_reader *r); /* NULL is fine */
/* Sets the next input, after the previous one was read: the bytes must stay valid until
 * ws_reader_next returns WS_MORE, or until ws_reader_keep. */
void ws_reader_feed(struct ws_reader *r, const char *bytes, size_t len);
/* After WS_CLOSE and WS_FAILED, returns the same event again. */
enum ws_event ws_reader_next(struct ws_reader *r, struct ws_message *ret);
/* Copies the unread input, so that its memory can be released. TIDINGS_E_NOMEM. */
int ws_reader_keep(struct ws_reader *r);
/* Returns true if the current message has grown by `step` bytes since its start or since this last
 * returned true. */
bool ws_reader_has_grown(struct ws_reader *r, size_t step);
/* The memory it uses. */
size_t ws_reader_size(const struct ws_reader *r);
/* Returns true between two messages, if no input is kept: a new reader would be in the same state.
 * A reader takes 4.5 KiB and the message, so idle connections need none. */
bool ws_reader_is_idle(const struct ws_reader *r);

/* -------------------------------------------------------------------------------------------------
 * The client side of WebSocket (RFC 6455 §4.1, §5.3), without I/O: the handshake request, the
 * response, masked frames.
 */

#define WS_MAX_HEAD 16384u /* of the response */
#define WS_KEY_BYTES 25u   /* of a key, including the NUL */

/* A new key. TIDINGS_E_IO: no randomness. */
int ws_client_key(char out[WS_KEY_BYTES]);

struct ws_client_request {
    struct tidings_str host; /* with the port, if the address has one */
    struct tidings_str path; /* and query */
    const char *key;
    const char *const *headers; /* "Name: value", checked; NULL at the end; NULL: none */
};
void ws_client_put_request(struct buf *out, const struct ws_client_request *r);

/* Checks the response received so far: returns its length once it is complete and accepts the
 * request; 0: more is needed. Otherwise an error: TIDINGS_E_DENIED (401, 403), TIDINGS_E_NOTFOUND
 * (404), TIDINGS_E_BUSY (5xx, 408, 429), TIDINGS_E_PARSE, TIDINGS_E_LIMIT. */
ptrdiff_t ws_client_check(struct tidings_str bytes, const char *key, struct tidings_error *err);
/* Its status; 0: none, or not yet. */
unsigned ws_client_status(struct tidings_str bytes);
/* The value of its first field with that name; empty: none. */
struct tidings_str ws_client_field(struct tidings_str bytes, struct tidings_str name);
/* The body received so far; empty if it has an encoding. */
struct tidings_str ws_client_body(struct tidings_str bytes);

/* Appends one message in one frame, masked with random bytes. TIDINGS_E_IO: no randomness. */
int ws_client_put(struct buf *out, enum ws_opcode opcode, struct tidings_str payload);

#endif
