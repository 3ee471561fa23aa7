/* SPDX-License-Identifier: MIT
 *
 * WebSocket: the handshake (RFC 6455 §4.2) and outgoing frames (§5.2).
 */
#include "formats/websocket.h"

#include <assert.h>
#include <pthread.h>
#include <wslay/wslay.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/library.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/http_fields.h"

/* ---------------------------------------------------------------------------------------------- */

#define KEY_BYTES 16u
#define KEY_TEXT_BYTES 24u /* base64 of the key bytes */

/* ---- handshake ------------------------------------------------------------------------------- */

/* The field can be repeated: its lists then count as one. */
static bool any_has(const struct http_request *req, struct tidings_str name, const char *token)
{
    for (unsigned i = 0; i < req->header_count; i++) {
        if (str_eq_nocase(req->headers[i].name, name) &&
            http_list_has(req->headers[i].value, token)) {
            return true;
        }
    }
    return false;
}

bool ws_is_upgrade(const struct http_request *req)
{
    return any_has(req, STR("upgrade"), "websocket");
}

/* 16 bytes in base64, once. */
static bool is_key(struct tidings_str key, unsigned count)
{
    struct buf bytes;
    buf_init(&bytes, KEY_BYTES);
    bool ok = count == 1 && key.len == KEY_TEXT_BYTES && base64_decode(&bytes, key) == 0 &&
              bytes.len == KEY_BYTES;
    buf_deinit(&bytes);
    return ok;
}

int ws_write_accept(struct tidings_str key, char out[WS_ACCEPT_BYTES])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* §1.3 */
    char text[KEY_TEXT_BYTES + sizeof(guid) - 1];
    unsigned char digest[SHA1_BYTES];
    memcpy(text, key.ptr, KEY_TEXT_BYTES);
    memcpy(text + KEY_TEXT_BYTES, guid, sizeof(guid) - 1);
    sha1(tidings_strn(text, sizeof(text)), digest);
    struct buf accept;
    buf_init(&accept, WS_ACCEPT_BYTES);
    int rc = base64_put(&accept, tidings_strn((const char *)digest, sizeof(digest)));
    if (rc == 0) {
        memcpy(out, accept.ptr, accept.len + 1);
    }
    buf_deinit(&accept);
    return rc;
}

/* Names of subprotocols are case-sensitive. */
static bool offers_ours(const struct http_request *req, bool *offers_any)
{
    bool found = false;
    *offers_any = false;
    for (unsigned i = 0; i < req->header_count; i++) {
        struct tidings_str list = req->headers[i].value;
        if (!str_eq_nocase(req->headers[i].name, STR("sec-websocket-protocol"))) {
            continue;
        }
        *offers_any = true;
        while (list.len > 0) {
            struct tidings_str name = str_trim(str_cut(list, ',', &list, NULL), " \t");
            found = found || str_eq(name, STR(WS_PROTOCOL));
        }
    }
    return found;
}

int ws_check_handshake(const struct http_request *req, struct ws_handshake *ret, const char **why)
{
    unsigned count = 0;
    bool offers_any = false;
    *ret = (struct ws_handshake){0};
    if (req->method != HTTP_GET || req->minor == 0) {
        *why = "a WebSocket begins with GET in HTTP/1.1";
        return 400;
    }
    if (!any_has(req, STR("connection"), "upgrade")) {
        *why = "a WebSocket needs Connection: Upgrade beside Upgrade: websocket";
        return 400;
    }
    if (req->chunked || req->content_length > 0) {
        *why = "the request that begins a WebSocket has no body";
        return 400;
    }
    struct tidings_str version = http_header(req, "sec-websocket-version", &count);
    if (count != 1 || !str_eq(version, STR("13"))) {
        *why = "the version of WebSocket spoken here is 13; see Sec-WebSocket-Version";
        return 426;
    }
    struct tidings_str key = http_header(req, "sec-websocket-key", &count);
    if (!is_key(key, count)) {
        *why = "exactly one Sec-WebSocket-Key is required: 16 bytes in base64";
        return 400;
    }
    ret->names_protocol = offers_ours(req, &offers_any);
    if (offers_any && !ret->names_protocol) {
        *why = "of the protocols in Sec-WebSocket-Protocol none is spoken here; offer mcp, or none";
        return 400;
    }
    if (ws_write_accept(key, ret->accept) < 0) {
        *why = "out of memory";
        return 503;
    }
    return 0;
}

/* ---- outgoing frames ------------------------------------------------------------------------- */

size_t ws_header_len(uint64_t payload_len)
{
    return payload_len <= WS_MAX_CONTROL ? 2 : payload_len <= UINT16_MAX ? 4 : WS_MAX_HEADER;
}

char *ws_write_header(char *at, enum ws_opcode opcode, uint64_t payload_len)
{
    size_t len = ws_header_len(payload_len);
    at[0] = (char)(0x80u | (unsigned)opcode); /* final, no reserved bits */
    at[1] = (char)(len == 2 ? payload_len : len == 4 ? 126 : 127);
    for (size_t i = 2; i < len; i++) {
        at[i] = (char)(payload_len >> 8 * (len - 1 - i) & 0xff);
    }
    return at + len;
}

size_t ws_write_close(char out[2 + WS_MAX_CONTROL], unsigned code, struct tidings_str reason)
{
    if (code == WS_NO_CODE) {
        return (size_t)(ws_write_header(out, WS_OP_CLOSE, 0) - out);
    }
    size_t room = WS_MAX_CONTROL - 2;
    size_t len = reason.len < room ? reason.len : room;
    while (len > 0 && !str_is_utf8(tidings_strn(reason.ptr, len))) {
        len--;
    }
    char *at = ws_write_header(out, WS_OP_CLOSE, 2 + len);
    *at++ = (char)(code >> 8 & 0xff);
    *at++ = (char)(code & 0xff);
    if (len > 0) {
        memcpy(at, reason.ptr, len);
    }
    return (size_t)(at + len - out);
}

/* -------------------------------------------------------------------------------------------------
 * The client's handshake, and masked frames. The response head is parsed strictly where it matters
 * (status, Upgrade, Connection, Sec-WebSocket-Accept); the rest is ignored.
 */

int ws_client_key(char out[WS_KEY_BYTES])
{
    unsigned char bytes[16];
    struct buf text;
    if (random_bytes(bytes, sizeof(bytes)) < 0) {
        return TIDINGS_E_IO;
    }
    buf_init(&text, WS_KEY_BYTES);
    int rc = base64_put(&text, tidings_strn((const char *)bytes, sizeof(bytes)));
    if (rc == 0) {
        memcpy(out, text.ptr, WS_KEY_BYTES);
    }
    buf_deinit(&text);
    return rc;
}

void ws_client_put_request(struct buf *out, const struct ws_client_request *r)
{
    buf_putf(out,
             "GET %.*s HTTP/1.1\r\nHost: %.*s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Protocol: " WS_PROTOCOL "\r\n",
             STR_ARG(r->path), STR_ARG(r->host), r->key);
    for (size_t i = 0; r->headers && r->headers[i]; i++) {
        buf_putf(out, "%s\r\n", r->headers[i]);
    }
    buf_puts(out, STR("\r\n"));
}

/* ---- the response ---------------------------------------------------------------------------- */

/* The length of the head, 0: incomplete. */
static size_t head_len(struct tidings_str bytes)
{
    for (size_t i = 3; i < bytes.len; i++) {
        if (bytes.ptr[i] == '\n' && memcmp(bytes.ptr + i - 3, "\r\n\r\n", 4) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* "HTTP/1.1 101 …": the status, 0: no such line. */
unsigned ws_client_status(struct tidings_str bytes)
{
    uint64_t status = 0;
    struct tidings_str line = str_trim(str_cut(bytes, '\n', &bytes, NULL), "\r");
    if (!str_starts(line, STR("HTTP/1.1 ")) || line.len < 12 ||
        !str_to_u64(tidings_strn(line.ptr + 9, 3), &status) ||
        (line.len > 12 && line.ptr[12] != ' ')) {
        return 0;
    }
    return (unsigned)status;
}

/* The value of the first field with that name. */
static struct tidings_str field_of(struct tidings_str head, struct tidings_str wanted)
{
    struct tidings_str value = STR_EMPTY;
    while (head.len > 0) {
        struct tidings_str line = str_trim(str_cut(head, '\n', &head, NULL), "\r");
        if (str_eq_nocase(str_cut(line, ':', &value, NULL), wanted)) {
            return str_trim(value, " \t");
        }
    }
    return STR_EMPTY;
}

struct tidings_str ws_client_field(struct tidings_str bytes, struct tidings_str name)
{
    struct tidings_str rest;
    str_cut(tidings_strn(bytes.ptr, head_len(bytes)), '\n', &rest, NULL);
    return field_of(rest, name);
}

struct tidings_str ws_client_body(struct tidings_str bytes)
{
    bool is_encoded = ws_client_field(bytes, STR("transfer-encoding")).len > 0 ||
                      ws_client_field(bytes, STR("content-encoding")).len > 0;
    return is_encoded ? STR_EMPTY : str_skip(bytes, head_len(bytes));
}

static int ws_client_refuse(unsigned status, struct tidings_str head, struct tidings_error *err)
{
    if (status == 401 || status == 403) {
        return bearer_refused(status, field_of(head, STR("www-authenticate")), err);
    }
    if (status == 404) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "no WebSocket at that address (HTTP 404)");
    }
    if (status == 408 || status == 429 || status >= 500) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server cannot answer now (HTTP %u)", status);
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "the server does not speak WebSocket there (HTTP %u)",
                        status);
}

struct seen {
    bool upgrade, connection, accept, wrong;
};

static void take_field(struct seen *seen, struct tidings_str line, const char *accept)
{
    struct tidings_str value;
    bool has_value;
    struct tidings_str name = str_cut(line, ':', &value, &has_value);
    value = str_trim(value, " \t");
    if (!has_value || name.len == 0) {
        seen->wrong = true;
    } else if (str_eq_nocase(name, STR("upgrade"))) {
        seen->upgrade = str_eq_nocase(value, STR("websocket"));
    } else if (str_eq_nocase(name, STR("connection"))) {
        seen->connection = http_list_has(value, "upgrade");
    } else if (str_eq_nocase(name, STR("sec-websocket-accept"))) {
        seen->wrong = seen->wrong || seen->accept;
        seen->accept = str_eq(value, tidings_str(accept));
    } else if (str_eq_nocase(name, STR("sec-websocket-protocol"))) {
        seen->wrong = seen->wrong || !str_eq(value, STR(WS_PROTOCOL));
    } else if (str_eq_nocase(name, STR("sec-websocket-extensions"))) {
        seen->wrong = true; /* none was offered */
    }
}

ptrdiff_t ws_client_check(struct tidings_str bytes, const char *key, struct tidings_error *err)
{
    char accept[WS_ACCEPT_BYTES];
    size_t len = head_len(bytes);
    if (len > WS_MAX_HEAD || (len == 0 && bytes.len > WS_MAX_HEAD)) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the head of the answer is too long");
    }
    if (len == 0) {
        return 0;
    }
    struct tidings_str rest = tidings_strn(bytes.ptr, len - 2); /* without the empty line */
    unsigned status = ws_client_status(rest);
    str_cut(rest, '\n', &rest, NULL);
    if (status != 101) {
        return ws_client_refuse(status, rest, err);
    }
    if (ws_write_accept(tidings_str(key), accept) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct seen seen = {0};
    while (rest.len > 0) {
        take_field(&seen, str_trim(str_cut(rest, '\n', &rest, NULL), "\r"), accept);
    }
    if (!seen.upgrade || !seen.connection || !seen.accept || seen.wrong) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the server's WebSocket handshake is wrong");
    }
    return (ptrdiff_t)len;
}

/* ---- frames ---------------------------------------------------------------------------------- */

int ws_client_put(struct buf *out, enum ws_opcode opcode, struct tidings_str payload)
{
    char header[WS_MAX_HEADER], mask[4];
    size_t len = (size_t)(ws_write_header(header, opcode, payload.len) - header);
    if (random_bytes(mask, sizeof(mask)) < 0) {
        return TIDINGS_E_IO;
    }
    header[1] = (char)((unsigned char)header[1] | 0x80u);
    int rc = buf_reserve(out, len + sizeof(mask) + payload.len);
    if (rc < 0) {
        return rc;
    }
    buf_put(out, header, len);
    buf_put(out, mask, sizeof(mask));
    char *at = out->ptr + out->len;
    buf_puts(out, payload);
    for (size_t i = 0; i < payload.len; i++) {
        at[i] = (char)(at[i] ^ mask[i & 3u]);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * Incoming WebSocket messages, on top of wslay's frame reader: wslay handles headers, lengths and
 * masks; the order of frames, sizes, codes and text are checked here. Text is checked as it
 * arrives, so that the first invalid UTF-8 byte ends the connection (RFC 6455 §8.1). The shared
 * library is loaded with the first reader: servers without WebSocket clients do not need it.
 *
 * Invariant: `held` is the number of bytes that wslay has read of a frame it has not reported yet.
 * wslay has two interfaces: the event interface needs 8.8 KB per connection and queues its own
 * responses; this one needs 4.3 KB, and no state that could not be discarded between two messages.
 */

#define WSLAY_BYTES 4096u                /* approximate memory of wslay */
#define HEADER_BYTES (WS_MAX_HEADER + 4) /* with a mask */

static pthread_once_t once = PTHREAD_ONCE_INIT;
LIBRARY(library, "websocket", "WebSocket connections", "recommended", "libwslay1", "libwslay.so.1");
static struct {
    int (*context_init)(wslay_frame_context_ptr *ctx, const struct wslay_frame_callbacks *callbacks,
                        void *user_data);
    void (*context_free)(wslay_frame_context_ptr ctx);
    ssize_t (*recv)(wslay_frame_context_ptr ctx, struct wslay_frame_iocb *iocb);
} api;

struct ws_reader {
    wslay_frame_context_ptr frames;
    const char *bytes; /* input that wslay has not read yet */
    size_t len;
    struct buf rest; /* its memory after ws_reader_keep */
    size_t held;
    unsigned char tail[HEADER_BYTES]; /* the last bytes that wslay has read */
    size_t max_message;
    size_t mark;             /* size of the message at the last ws_reader_has_grown */
    bool is_client;          /* reads frames from a server */
    struct buf message;      /* its fragments so far … */
    struct utf8_pieces utf8; /* … checked as they arrive */
    uint64_t left;           /* of the frame being read */
    bool in_frame;           /* its header was read, its end was not */
    bool in_message;         /* a fragment was read, the last one was not */
    bool was_given;          /* the message was returned */
    enum ws_event outcome;   /* WS_CLOSE or WS_FAILED once there is nothing more to read */
    struct ws_message last;
    unsigned control_len;
    char control[WS_MAX_CONTROL]; /* the payload of a ping, pong or close */
};

/* ---- life ------------------------------------------------------------------------------------ */

static void ws_reader_load(void)
{
    const struct library_function wanted[] = {
        {"wslay_frame_context_init", &api.context_init},
        {"wslay_frame_context_free", &api.context_free},
        {"wslay_frame_recv", &api.recv},
    };
    library_open(&library, wanted, sizeof wanted / sizeof wanted[0]);
}

const char *ws_library(void)
{
    pthread_once(&once, ws_reader_load);
    return library_check(&library, NULL) < 0 ? NULL : "wslay";
}

static void ws_reader_remember(struct ws_reader *r, const char *bytes, size_t len)
{
    size_t n = len < HEADER_BYTES ? len : HEADER_BYTES;
    memmove(r->tail, r->tail + n, HEADER_BYTES - n);
    memcpy(r->tail + HEADER_BYTES - n, bytes + len - n, n);
}

static ssize_t give_bytes(uint8_t *out, size_t len, int flags, void *user)
{
    (void)flags;
    struct ws_reader *r = user;
    size_t n = len < r->len ? len : r->len;
    if (n == 0) {
        return -1; /* no more input */
    }
    memcpy(out, r->bytes, n);
    ws_reader_remember(r, r->bytes, n);
    r->bytes += n;
    r->len -= n;
    r->held += n;
    return (ssize_t)n;
}

struct ws_reader *ws_reader_create(size_t max_message, struct tidings_error *err)
{
    pthread_once(&once, ws_reader_load);
    if (library_check(&library, err) < 0) {
        return NULL;
    }
    struct ws_reader *r = mem_zalloc(sizeof(*r));
    if (!r) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    const struct wslay_frame_callbacks callbacks = {.recv_callback = give_bytes};
    if (api.context_init(&r->frames, &callbacks, r) != 0) {
        r->frames = NULL;
        ws_reader_destroy(r);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    r->max_message = max_message;
    buf_init(&r->message, max_message);
    buf_init(&r->rest, SIZE_MAX); /* at most one feed */
    return r;
}

struct ws_reader *ws_reader_create_client(size_t max_message, struct tidings_error *err)
{
    struct ws_reader *r = ws_reader_create(max_message, err);
    if (r) {
        r->is_client = true;
    }
    return r;
}

void ws_reader_destroy(struct ws_reader *r)
{
    if (!r) {
        return;
    }
    if (r->frames) {
        api.context_free(r->frames);
    }
    buf_deinit(&r->message);
    buf_deinit(&r->rest);
    mem_free(r);
}

/* ---- reading --------------------------------------------------------------------------------- */

void ws_reader_feed(struct ws_reader *r, const char *bytes, size_t len)
{
    assert(r->len == 0);
    r->bytes = bytes;
    r->len = len;
}

int ws_reader_keep(struct ws_reader *r)
{
    if (r->len == 0 || r->rest.len > 0) {
        return 0;
    }
    if (buf_put(&r->rest, r->bytes, r->len) < 0) {
        return TIDINGS_E_NOMEM;
    }
    r->bytes = r->rest.ptr;
    return 0;
}

bool ws_reader_is_idle(const struct ws_reader *r)
{
    return r->outcome == WS_MORE && !r->in_frame && !r->in_message && !r->was_given &&
           r->len == 0 && r->held == 0;
}

bool ws_reader_has_grown(struct ws_reader *r, size_t step)
{
    bool has = r->message.len - r->mark >= step;
    r->mark = has ? r->message.len : r->mark;
    return has;
}

size_t ws_reader_size(const struct ws_reader *r)
{
    return sizeof(*r) + WSLAY_BYTES + r->message.cap + r->rest.cap;
}

static enum ws_event ws_reader_finish(struct ws_reader *r, enum ws_event outcome, unsigned code,
                                      struct tidings_str text)
{
    r->outcome = outcome;
    r->last = (struct ws_message){.payload = text, .code = code};
    return outcome;
}

static enum ws_event ws_reader_fail(struct ws_reader *r, unsigned code, const char *why)
{
    return ws_reader_finish(r, WS_FAILED, code, tidings_str(why));
}

static enum ws_event ws_reader_fail_size(struct ws_reader *r)
{
    return ws_reader_fail(r, WS_TOO_BIG, "the message is larger than is accepted here");
}

static enum ws_event ws_reader_fail_utf8(struct ws_reader *r)
{
    return ws_reader_fail(r, WS_NOT_UTF8, "the message is not UTF-8");
}

/* Returns true if a header announces more than the limit. wslay reports a frame at the first byte
 * of its payload; until then the bytes it holds are this header. */
static bool announces_too_much(const struct ws_reader *r)
{
    if (r->in_frame || r->held < 2 || r->held > HEADER_BYTES) {
        return false;
    }
    const unsigned char *p = r->tail + HEADER_BYTES - r->held;
    unsigned kind = p[0] & 0x7fu, small = p[1] & 0x7fu; /* reserved bits make it another kind */
    bool is_due = kind == (r->in_message ? WSLAY_CONTINUATION_FRAME : WSLAY_TEXT_FRAME) &&
                  ((p[1] & 0x80u) == 0) == r->is_client;
    size_t digits = small == 127 ? 8 : small == 126 ? 2 : 0;
    if (!is_due || r->held < 2 + digits) {
        return false;
    }
    uint64_t len = digits == 0 ? small : 0;
    for (size_t i = 0; i < digits; i++) {
        len = len << 8 | p[2 + i];
    }
    return len > r->max_message - r->message.len;
}

/* Checks whether this frame is valid here. WS_MORE: yes. */
static enum ws_event begin_frame(struct ws_reader *r, const struct wslay_frame_iocb *f)
{
    if ((f->mask != 0) == r->is_client) {
        return ws_reader_fail(r, WS_PROTOCOL_ERROR,
                              r->is_client ? "frames of a server are not masked"
                                           : "frames of a client are masked");
    }
    if (f->rsv != 0) {
        return ws_reader_fail(r, WS_PROTOCOL_ERROR,
                              "no extension was agreed on; reserved bits are 0");
    }
    /* wslay ensures minimal lengths. */
    r->held -= ws_header_len(f->payload_length) + (r->is_client ? 0 : 4);
    r->left = f->payload_length;
    r->in_frame = true;
    switch (f->opcode) {
    case WSLAY_CONNECTION_CLOSE:
    case WSLAY_PING:
    case WSLAY_PONG:
        r->control_len = 0;
        return WS_MORE;
    case WSLAY_BINARY_FRAME:
        return ws_reader_fail(r, WS_UNSUPPORTED, "messages are JSON in text frames");
    case WSLAY_TEXT_FRAME:
        if (r->in_message) {
            return ws_reader_fail(r, WS_PROTOCOL_ERROR,
                                  "the message before this one was not finished");
        }
        break;
    case WSLAY_CONTINUATION_FRAME:
        if (!r->in_message) {
            return ws_reader_fail(r, WS_PROTOCOL_ERROR, "nothing is there to be continued");
        }
        break;
    default:
        return ws_reader_fail(r, WS_PROTOCOL_ERROR, "this kind of frame does not exist");
    }
    r->in_message = true;
    return f->payload_length > r->max_message - r->message.len ? ws_reader_fail_size(r) : WS_MORE;
}

/* RFC 6455 §7.4 and its registry: codes that may be sent. */
static bool is_code(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static enum ws_event end_close(struct ws_reader *r)
{
    const unsigned char *p = (const unsigned char *)r->control;
    if (r->control_len == 0) {
        return ws_reader_finish(r, WS_CLOSE, WS_NO_CODE, STR_EMPTY);
    }
    unsigned code = r->control_len == 1 ? 0 : (unsigned)p[0] << 8 | p[1];
    if (!is_code(code)) {
        return ws_reader_fail(r, WS_PROTOCOL_ERROR, "invalid close code");
    }
    struct tidings_str reason = tidings_strn(r->control + 2, r->control_len - 2);
    if (!str_is_utf8(reason)) {
        return ws_reader_fail(r, WS_NOT_UTF8, "the reason to close is not UTF-8");
    }
    return ws_reader_finish(r, WS_CLOSE, code, reason);
}

/* Handles a complete frame; WS_MORE: its message is not complete. */
static enum ws_event end_frame(struct ws_reader *r, const struct wslay_frame_iocb *f,
                               struct ws_message *ret)
{
    r->in_frame = false;
    *ret = (struct ws_message){.payload = tidings_strn(r->control, r->control_len)};
    switch (f->opcode) {
    case WSLAY_CONNECTION_CLOSE:
        return end_close(r);
    case WSLAY_PING:
        return WS_PING;
    case WSLAY_PONG:
        return WS_PONG;
    default:
        break;
    }
    if (!f->fin) {
        return WS_MORE;
    }
    r->in_message = false;
    r->was_given = true;
    r->mark = 0;
    ret->payload = buf_str(&r->message);
    return utf8_pieces_end(&r->utf8) ? WS_TEXT : ws_reader_fail_utf8(r);
}

static enum ws_event take_data(struct ws_reader *r, const struct wslay_frame_iocb *f)
{
    r->held -= f->data_length;
    r->left -= f->data_length;
    if (f->opcode & 8u) { /* control: wslay ensures at most 125 bytes */
        memcpy(r->control + r->control_len, f->data, f->data_length);
        r->control_len += (unsigned)f->data_length;
    } else if (!utf8_pieces_add(&r->utf8, tidings_strn((const char *)f->data, f->data_length))) {
        return ws_reader_fail_utf8(r);
    } else if (buf_put(&r->message, f->data, f->data_length) < 0) {
        return ws_reader_fail(r, WS_INTERNAL, "out of memory");
    }
    return WS_MORE;
}

enum ws_event ws_reader_next(struct ws_reader *r, struct ws_message *ret)
{
    if (r->was_given) {
        buf_deinit(&r->message);
        r->was_given = false;
    }
    enum ws_event event = r->outcome;
    while (event == WS_MORE) {
        struct wslay_frame_iocb f = {0};
        ssize_t n = api.recv(r->frames, &f);
        if (n == WSLAY_ERR_WANT_READ && announces_too_much(r)) {
            event = ws_reader_fail_size(r);
            break;
        }
        if (n == WSLAY_ERR_WANT_READ) {
            buf_deinit(&r->rest);
            return WS_MORE;
        }
        if (n < 0) {
            event = ws_reader_fail(r, WS_PROTOCOL_ERROR, "the header of the frame is malformed");
            break;
        }
        event = r->in_frame ? WS_MORE : begin_frame(r, &f);
        event = event == WS_MORE ? take_data(r, &f) : event;
        if (event == WS_MORE && r->left == 0) {
            event = end_frame(r, &f, ret);
        }
    }
    if (r->outcome != WS_MORE) {
        *ret = r->last;
    }
    return event;
}
