/* SPDX-License-Identifier: MIT
 *
 * Payloads: measure, encode and free them.
 *
 * Invariant: `done` raw bytes were encoded, for base64 a multiple of three until the end. The piece
 * in memory begins at a multiple of PAYLOAD_PIECE and has the hash of the first reading, unless it
 * is being fetched or has not been checked since (`is_fetching`, `has_fetched`).
 */
#include "engine/catalog/payload.h"

#include <errno.h>
#include <string.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/json_write.h"

/* ---------------------------------------------------------------------------------------------- */

#define MEASURED_MAX 4 /* readings of content that changes */

struct payload *payload_of_memory(char *memory, struct tidings_str bytes, bool is_text)
{
    struct payload *c = mem_zalloc(sizeof(*c));
    if (!c) {
        mem_free(memory);
        return NULL;
    }
    c->memory = memory;
    c->bytes = bytes.ptr;
    c->size = bytes.len;
    c->is_text = is_text;
    c->escaped = is_text ? jw_escaped_len(bytes) : 0;
    c->held = bytes.len;
    return c;
}

void payload_destroy(struct payload *c)
{
    if (!c) {
        return;
    }
    if (!c->memory) {
        c->pieces.close(c->pieces.user);
    }
    mem_free(c->memory);
    mem_free(c->hashes);
    mem_free(c->piece);
    mem_free(c);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static size_t payload_piece_len(const struct payload *c, size_t from)
{
    return c->size - from < PAYLOAD_PIECE ? c->size - from : PAYLOAD_PIECE;
}

/* Loads the piece at `from`. */
static int payload_load(struct payload *c, size_t from, struct tidings_str *ret,
                        struct tidings_error *err)
{
    size_t len = payload_piece_len(c, from);
    int rc = c->pieces.read(c->pieces.user, (int64_t)from, c->piece, len, err);
    *ret = tidings_strn(c->piece, len);
    return rc;
}

/* Reads everything. Sets *is_same if the previous reading gave the same bytes. */
static int payload_measure(struct payload *c, const struct payload_waiter *waiter, bool *is_same,
                           struct tidings_error *err)
{
    struct utf8_pieces utf8 = {0};
    struct tidings_str piece;
    c->is_text = *is_same = true;
    c->escaped = 0;
    for (size_t from = 0; from < c->size; from += PAYLOAD_PIECE) {
        if (waiter->is_gone(waiter->user)) {
            return tidings_fail(err, TIDINGS_E_CANCELLED, "cancelled");
        }
        int rc = payload_load(c, from, &piece, err);
        if (rc < 0) {
            return rc;
        }
        uint64_t hash = str_hash(piece, from), *known = &c->hashes[from / PAYLOAD_PIECE];
        *is_same = *is_same && *known == hash;
        *known = hash;
        c->is_text = c->is_text && utf8_pieces_add(&utf8, piece);
        c->escaped += c->is_text ? jw_escaped_len(piece) : 0;
    }
    c->is_text = c->is_text && utf8_pieces_end(&utf8);
    return 0;
}

/* Reads again if the content may have changed. Two equal readings suffice: the beginning of a log
 * that grows stays the same. */
static int payload_measure_whole(struct payload *c, const struct payload_waiter *waiter,
                                 struct tidings_error *err)
{
    const struct tidings_pieces *p = &c->pieces;
    for (int i = 0; i < MEASURED_MAX; i++) {
        bool is_same;
        int rc = payload_measure(c, waiter, &is_same, err);
        bool has_changed = rc == 0 && p->changed && p->changed(p->user);
        if (rc < 0 || !has_changed || (i > 0 && is_same)) {
            return rc;
        }
    }
    return tidings_fail(err, TIDINGS_E_CONFLICT, "it is being changed");
}

struct payload *payload_of_pieces(const struct tidings_pieces *pieces,
                                  const struct payload_waiter *waiter, struct tidings_error *err)
{
    size_t size = (size_t)pieces->size, count = (size + PAYLOAD_PIECE - 1) / PAYLOAD_PIECE;
    struct payload *c = mem_zalloc(sizeof(*c));
    if (!c) {
        pieces->close(pieces->user);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    c->pieces = *pieces;
    c->size = size;
    c->held = PAYLOAD_HELD + count * sizeof(*c->hashes);
    c->hashes = mem_zalloc(count * sizeof(*c->hashes) + 1);
    c->piece = mem_alloc(PAYLOAD_PIECE);
    int rc = c->hashes && c->piece ? payload_measure_whole(c, waiter, err)
                                   : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == TIDINGS_E_CONFLICT) {
        rc = tidings_fail(err, TIDINGS_E_BUSY, "it is being changed; try again later");
    }
    mem_free(c->piece); /* until it is being sent */
    c->piece = NULL;
    if (rc < 0) {
        payload_destroy(c);
        return NULL;
    }
    return c;
}

/* ---- the second reading ---------------------------------------------------------------------- */

void payload_send_by(struct payload *c, struct worker *worker, void (*ready)(void *user),
                     void *user)
{
    c->worker = worker;
    c->ready = ready;
    c->user = user;
}

void tidings_piece_done(struct tidings_piece *piece, int code, const struct tidings_error *err)
{
    job_finish(&piece->base, code, err);
}

static void payload_fetched(struct job *job)
{
    struct payload *c = job->user;
    bool was_later = c->is_fetching;
    c->is_fetching = false;
    c->has_fetched = true;
    if (was_later) {
        c->ready(c->user);
    }
}

/* Reads the piece at `begin`, or starts to. */
static void payload_fetch(struct payload *c, size_t begin)
{
    struct job *job = &c->fetched.base;
    size_t len = payload_piece_len(c, begin);
    job_init(job, c->worker, payload_fetched, c, STR_EMPTY);
    job->provider = c->provider;
    job_begin(job);
    if (c->pieces.fetch) {
        c->pieces.fetch(c->pieces.user, (int64_t)begin, c->piece, len, &c->fetched);
    } else {
        struct tidings_error err;
        int rc = c->pieces.read(c->pieces.user, (int64_t)begin, c->piece, len, &err);
        tidings_piece_done(&c->fetched, rc, &err);
    }
    c->is_fetching = !c->has_fetched;
}

/* Makes the piece at `begin` the current one. Returns 0 or a negative errno. */
static int payload_turn_to(struct payload *c, size_t begin)
{
    if (c->is_fetching) {
        return -EAGAIN;
    }
    c->piece = c->piece ? c->piece : mem_alloc(PAYLOAD_PIECE);
    if (!c->piece) {
        return -ENOMEM;
    }
    if (!c->has_fetched) {
        payload_fetch(c, begin);
    }
    if (!c->has_fetched) {
        return -EAGAIN;
    }
    int rc = c->fetched.base.code;
    c->has_fetched = false;
    if (rc < 0) {
        return rc == TIDINGS_E_CONFLICT ? -ESTALE : rc == TIDINGS_E_NOMEM ? -ENOMEM : -EIO;
    }
    struct tidings_str piece = tidings_strn(c->piece, payload_piece_len(c, begin));
    if (str_hash(piece, begin) != c->hashes[begin / PAYLOAD_PIECE]) {
        return -ESTALE;
    }
    c->begin = begin;
    return 0;
}

/* Returns the next raw bytes, up to the end of a piece, or a negative errno. */
static int payload_next(struct payload *c, struct tidings_str *ret)
{
    if (c->memory) {
        *ret = tidings_strn(c->bytes + c->done, c->size - c->done);
        return 0;
    }
    size_t begin = c->done / PAYLOAD_PIECE * PAYLOAD_PIECE, at = c->done - begin;
    if (!c->piece || c->begin != begin || c->is_fetching || c->has_fetched) {
        int rc = payload_turn_to(c, begin);
        if (rc < 0) {
            return rc;
        }
    }
    *ret = tidings_strn(c->piece + at, payload_piece_len(c, begin) - at);
    return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

void payload_set_form(struct payload *c, enum payload_form form)
{
    c->form = form;
    c->encoded = form == PAYLOAD_RAW    ? c->size
                 : form == PAYLOAD_TEXT ? c->escaped
                                        : base64_len(c->size);
}

static size_t payload_write_base64(struct tidings_str bytes, size_t *used, char *room, size_t len)
{
    size_t fits = len / 4 * 3;
    *used = bytes.len <= fits ? bytes.len : fits;
    return (size_t)(base64_write(room, tidings_strn(bytes.ptr, *used)) - room);
}

ssize_t payload_write(struct payload *c, char *room, size_t len)
{
    struct tidings_str bytes;
    size_t used = 0, encoded = 0;
    if (c->done == c->size) {
        return 0;
    }
    int rc = payload_next(c, &bytes);
    if (rc < 0) {
        return rc;
    }
    if (c->form == PAYLOAD_RAW) {
        encoded = used = bytes.len < len ? bytes.len : len;
        memcpy(room, bytes.ptr, used);
    } else if (c->form == PAYLOAD_TEXT) {
        encoded = jw_escape_piece(bytes, &used, room, len);
    } else {
        encoded = payload_write_base64(bytes, &used, room, len);
    }
    c->done += used;
    return (ssize_t)encoded;
}

/* -------------------------------------------------------------------------------------------------
 * An answer as a source of a send queue: text up to the place of a payload, the payload, and so on.
 * The total length is known in advance, so that a transport can send it first.
 */

struct payload_stream {
    struct sendq_source source;
    struct buf text;
    size_t done; /* of it */
    struct payload *payloads;
    struct output output;
    bool is_gone; /* destroyed when the current fetch ends */
};

static void payload_stream_destroy(struct sendq_source *source)
{
    struct payload_stream *s = list_entry(source, struct payload_stream, source);
    if (s->payloads && payload_is_fetching(s->payloads)) {
        s->is_gone = true;
        return;
    }
    payloads_destroy(&s->payloads);
    buf_deinit(&s->text);
    output_end(&s->output);
    mem_free(s);
}

static void payload_stream_ready(void *stream)
{
    struct payload_stream *s = stream;
    if (s->is_gone) {
        payload_stream_destroy(&s->source);
    } else {
        sendq_source_ready(&s->source);
    }
}

static ssize_t payload_stream_make(struct sendq_source *source, char *room, size_t len)
{
    struct payload_stream *s = list_entry(source, struct payload_stream, source);
    size_t made = 0;
    while (made < len) {
        struct payload *c = s->payloads;
        size_t until = c ? c->at : s->text.len;
        size_t text = until - s->done < len - made ? until - s->done : len - made;
        if (text > 0) {
            memcpy(room + made, s->text.ptr + s->done, text);
            s->done += text;
            made += text;
            continue;
        }
        ssize_t n = c ? payload_write(c, room + made, len - made) : 0;
        if (n == -EAGAIN && made > 0) {
            break; /* send the available bytes first */
        }
        if (n < 0) {
            return n;
        }
        made += (size_t)n;
        if (c && c->done == c->size) {
            s->payloads = c->next;
            payload_destroy(c);
        } else if (n == 0) {
            break; /* the rest does not fit, or is empty */
        }
    }
    return (ssize_t)made;
}

struct sendq_source *payload_source(struct buf *text, struct payload **payloads,
                                    struct output *output, struct worker *worker)
{
    struct payload_stream *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->source.make = payload_stream_make;
    s->source.destroy = payload_stream_destroy;
    s->source.left = text->len;
    s->source.held = output_booked(output);
    s->source.left += payloads_encoded_size(*payloads);
    for (struct payload *c = *payloads; c; c = c->next) {
        payload_send_by(c, worker, payload_stream_ready, s);
    }
    s->text = *text;
    buf_init(text, 0);
    s->payloads = *payloads;
    *payloads = NULL;
    output_move(&s->output, output);
    return &s->source;
}

/* ---- lists ----------------------------------------------------------------------------------- */

size_t payloads_encoded_size(const struct payload *first)
{
    size_t encoded = 0;
    for (const struct payload *c = first; c; c = c->next) {
        encoded += c->encoded;
    }
    return encoded;
}

void payloads_destroy(struct payload **first)
{
    while (*first) {
        struct payload *next = (*first)->next;
        payload_destroy(*first);
        *first = next;
    }
}

void payloads_append(struct payload **to, struct payload **from, size_t base)
{
    while (*to) {
        to = &(*to)->next;
    }
    *to = *from;
    *from = NULL;
    for (struct payload *c = *to; c; c = c->next) {
        c->at += base;
    }
}
