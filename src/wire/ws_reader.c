/* SPDX-License-Identifier: MIT
 *
 * WebSocket messages in, over wslay's reader of frames: it knows headers, lengths and masks; what
 * may follow what, and which sizes, codes and texts are right, is decided here; texts as they come,
 * so that one that cannot be UTF-8 any more ends at that byte (RFC 6455 §8.1). Its shared library
 * is loaded with the first reader: a server that nobody speaks WebSocket to does without it.
 *
 * Invariant: `held` is how many of the bytes that wslay has taken belong to no frame that was seen
 * yet. Of its two ways in, the event interface keeps 8.8 KB for a connection and queues answers of
 * its own; this one keeps 4.3 KB, and nothing that could not be thrown away between two messages.
 */
#include <assert.h>
#include <pthread.h>

#include <wslay/wslay.h>

#include "base/error.h"
#include "base/library.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/ws.h"

#define WSLAY_BYTES 4096u                /* what wslay itself keeps, about */
#define HEADER_BYTES (WS_MAX_HEADER + 4) /* with a mask */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct library library = {.file = "libwslay.so.1", .package = "libwslay1"};
static struct {
    int (*context_init)(wslay_frame_context_ptr *ctx, const struct wslay_frame_callbacks *callbacks,
                        void *user_data);
    void (*context_free)(wslay_frame_context_ptr ctx);
    ssize_t (*recv)(wslay_frame_context_ptr ctx, struct wslay_frame_iocb *iocb);
} api;

struct ws_reader {
    wslay_frame_context_ptr frames;
    const char *bytes; /* given, and not taken by wslay yet */
    size_t len;
    struct buf rest; /* where they lie when they were kept */
    size_t held;
    unsigned char tail[HEADER_BYTES]; /* the last bytes that wslay has taken */
    size_t max_message;
    size_t mark;             /* bytes of the message that ws_reader_has_grown knows of */
    bool is_client;          /* what comes is a server's */
    struct buf message;      /* its fragments so far … */
    struct utf8_pieces utf8; /* … checked as they come */
    uint64_t left;           /* of the frame being read */
    bool in_frame;           /* its header was seen, its end was not */
    bool in_message;         /* a fragment came, the last one did not */
    bool was_given;          /* the message was handed out */
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
        return -1; /* come again */
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
    buf_init(&r->rest, SIZE_MAX); /* of one feed, at most */
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

/* Has a header come that announces more than is accepted? wslay tells of a frame when the first
 * byte of its payload is there; until then what it holds is this header. */
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

/* May this frame come here? WS_MORE: yes. */
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
    /* Lengths are minimal, wslay saw to it. */
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

/* RFC 6455 §7.4 and the registry it founded: those that may be sent. */
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
        return ws_reader_fail(r, WS_PROTOCOL_ERROR, "this is no code to close with");
    }
    struct tidings_str reason = tidings_strn(r->control + 2, r->control_len - 2);
    if (!str_is_utf8(reason)) {
        return ws_reader_fail(r, WS_NOT_UTF8, "the reason to close is not UTF-8");
    }
    return ws_reader_finish(r, WS_CLOSE, code, reason);
}

/* A frame is complete; WS_MORE: and its message is not. */
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
    if (f->opcode & 8u) { /* control: at most 125 bytes, wslay saw to it */
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
