/* SPDX-License-Identifier: MIT
 * Sources of send queues. A source is a piece whose length is the number of bytes that it has yet
 * to produce. When it is first in its ring, it produces one copied piece, which is put in front of
 * it. So no more than that piece is in memory.
 */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sendq_private.h"

int sendq_put_source(struct sendq *q, struct sendq_source *source)
{
    if (q->error || source->left == 0) {
        source->destroy(source);
        return q->error ? error_code_from_errno(q->error) : 0;
    }
    struct sendq_piece *piece = sendq_piece_create(sendq_inlet(q), PIECE_SOURCE, NULL);
    if (!piece) {
        source->destroy(source);
        return sendq_out_of_memory(q);
    }
    piece->memory.source = source;
    source->queue = q;
    sendq_added(q, sendq_inlet(q), piece, source->left);
    return 0;
}

/* Puts the new chunk before the source, and removes the source if it is finished. */
static void sendq_source_made(struct sendq_piece **ring, struct sendq_piece *chunk, size_t len)
{
    struct sendq_piece *piece = *ring;
    struct sendq_source *source = piece->memory.source;
    chunk->start = chunk->bytes;
    chunk->len = len;
    chunk->memory.end = chunk->bytes + len;
    chunk->kind = PIECE_COPIED;
    list_append(&piece->link, &chunk->link);
    *ring = chunk;
    source->left -= len;
    piece->len -= len;
    if (piece->len == 0) {
        list_remove(&piece->link);
        source->destroy(source);
        mem_free(piece);
    }
}

bool sendq_make_piece(struct sendq *q, struct sendq_piece **ring)
{
    struct sendq_source *source = (*ring)->memory.source;
    size_t len = source->left < SENDQ_MADE ? source->left : SENDQ_MADE;
    struct sendq_piece *chunk = mem_alloc(sizeof *chunk + len);
    ssize_t made = chunk ? source->make(source, chunk->bytes, len) : -ENOMEM;
    if (made == -EAGAIN) {
        mem_free(chunk);
        return true;
    }
    if (made <= 0 || (size_t)made > len) {
        mem_free(chunk);
        (void)sendq_break(q, made < 0 ? (int)-made : EIO);
        return false;
    }
    sendq_source_made(ring, chunk, (size_t)made);
    return true;
}

void sendq_source_ready(struct sendq_source *source)
{
    struct sendq *q = source->queue;
    if (q->awaits_source) {
        q->awaits_source = q->is_waiting = false;
        sendq_mark_dirty(q);
    }
}

static void sendq_ring_follow(struct sendq *q, const struct sendq_piece *ring)
{
    const struct sendq_piece *piece = ring;
    while (piece) {
        if (piece->kind == PIECE_SOURCE) {
            piece->memory.source->queue = q;
        }
        piece = list_entry(piece->link.next, struct sendq_piece, link);
        piece = piece == ring ? NULL : piece;
    }
}

void sendq_follow_sources(struct sendq *q)
{
    sendq_ring_follow(q, q->pieces);
    sendq_ring_follow(q, q->tls ? q->tls->plain : NULL);
}

bool sendq_makes(const struct sendq *q)
{
    return q->is_socket && (sendq_begins_with_source(q->pieces) ||
                            (q->tls && sendq_begins_with_source(q->tls->plain)));
}

const char *sendq_reason(const struct sendq *q)
{
    return q->error == ESTALE ? "the content changed while it was sent" : "write failed";
}

static size_t sendq_ring_held(const struct sendq_piece *ring, size_t *by_sources)
{
    size_t held = 0;
    const struct sendq_piece *piece = ring;
    while (piece) {
        if (piece->kind == PIECE_SOURCE) {
            *by_sources += piece->memory.source->held;
        } else if (piece->kind == PIECE_TAKEN) {
            held += piece->size;
        } else {
            held += (size_t)(piece->memory.end - (const char *)piece);
        }
        piece = list_entry(piece->link.next, struct sendq_piece, link);
        piece = piece == ring ? NULL : piece;
    }
    return held;
}

size_t sendq_held(const struct sendq *q, size_t *ret_by_sources)
{
    *ret_by_sources = 0;
    size_t held = sendq_ring_held(q->pieces, ret_by_sources);
    return held + (q->tls ? sendq_ring_held(q->tls->plain, ret_by_sources) : 0);
}
