/* SPDX-License-Identifier: MIT
 *
 * WebSocket (RFC 6455) without I/O: the handshake, frames out, messages in.
 *
 * What comes in is read with wslay, a frame at a time; where it is not installed the rest can be
 * done, and a reader that is asked for says so. What goes out is a header of 2, 4 or 10 bytes,
 * written by whoever has room for the message. No extension is ever agreed to, so reserved bits are
 * an error.
 */
#ifndef FORMATS_WEBSOCKET_H
#define FORMATS_WEBSOCKET_H

#include "base/str.h"
#include "formats/http.h"

/* ---- handshake ------------------------------------------------------------------------------- */

#define WS_PROTOCOL "mcp"   /* the subprotocol */
#define WS_ACCEPT_BYTES 29u /* of the proof that the key was read, with its NUL */

struct ws_handshake {
    char accept[WS_ACCEPT_BYTES];
    bool names_protocol; /* the client offered it, so the answer has to say it */
};

/* Does it ask to become a WebSocket? Whether rightly so, ws_check_handshake says. */
bool ws_is_upgrade(const struct http_request *req);
/* The proof that `key` was read. TIDINGS_E_NOMEM. */
int ws_write_accept(struct tidings_str key, char out[WS_ACCEPT_BYTES]);
/* 0, or the status to refuse with and *why, a sentence. 426 has to name the version (13). A client
 * that offers subprotocols must offer ours; one that offers none is taken at its word. */
int ws_check_handshake(const struct http_request *req, struct ws_handshake *ret, const char **why);

/* ---- frames out ------------------------------------------------------------------------------ */

enum ws_opcode {
    WS_OP_TEXT = 1,
    WS_OP_CLOSE = 8,
    WS_OP_PING = 9,
    WS_OP_PONG = 10,
};

#define WS_MAX_HEADER 10u
#define WS_MAX_CONTROL 125u /* bytes in a control frame */

/* Of a whole message in one frame, unmasked as a server's are. */
size_t ws_header_len(uint64_t payload_len);
/* Returns what is behind it. */
char *ws_write_header(char *at, enum ws_opcode opcode, uint64_t payload_len);
/* A whole close frame, the reason cut to what fits; code WS_NO_CODE: without either. Returns its
 * length. */
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

/* ---- messages in ----------------------------------------------------------------------------- */

struct ws_reader;

enum ws_event {
    WS_MORE,   /* everything given was read */
    WS_TEXT,   /* a whole message, its fragments put together */
    WS_PING,   /* to be answered with the same payload */
    WS_PONG,   /* whatever for */
    WS_CLOSE,  /* the client is done: `code`, the reason is the payload; nothing follows */
    WS_FAILED, /* the client broke the rules: close with `code` and the payload as reason */
};

struct ws_message {
    struct tidings_str payload; /* until the next call */
    unsigned code;
};

/* "wslay", loading it. NULL: it cannot be loaded. */
const char *ws_library(void);

/* The library is loaded with the first one. NULL with err. */
struct ws_reader *ws_reader_create(size_t max_message, struct tidings_error *err);
/* For what a server sends. */
struct ws_reader *ws_reader_create_client(size_t max_message, struct tidings_error *err);
void ws_reader_destroy(struct ws_reader *r); /* NULL is fine */
/* Bytes to read, when those before were: they must stay until ws_reader_next gives WS_MORE, or
 * until ws_reader_keep. */
void ws_reader_feed(struct ws_reader *r, const char *bytes, size_t len);
/* After WS_CLOSE and WS_FAILED the same again. */
enum ws_event ws_reader_next(struct ws_reader *r, struct ws_message *ret);
/* The rest later: copies what was not read yet, so that the bytes may go. TIDINGS_E_NOMEM. */
int ws_reader_keep(struct ws_reader *r);
/* Has the message that is being read grown by `step` bytes since this last said so, or since it
 * began? */
bool ws_reader_has_grown(struct ws_reader *r, size_t step);
/* Bytes that it holds. */
size_t ws_reader_size(const struct ws_reader *r);
/* Between two messages with nothing kept: any other reader could go on from here. One takes 4.5 KiB
 * and the message, so who waits for a message need not have one. */
bool ws_reader_is_idle(const struct ws_reader *r);

/* -------------------------------------------------------------------------------------------------
 * The client's side of WebSocket (RFC 6455 §4.1, §5.3), without I/O: the request that asks for it,
 * the answer that grants it, masked frames.
 */

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
