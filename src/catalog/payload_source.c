/* SPDX-License-Identifier: MIT
 * An answer as a source of a send queue: text up to the place of a payload, the payload, and so on.
 * The total length is known in advance, so that a transport can send it first.
 */
#include "catalog/payload.h"

#include <errno.h>

#include "base/mem.h"

struct payload_stream {
    struct sendq_source source;
    struct buf text;
    size_t done; /* of it */
    struct payload *payloads;
    struct output output;
    bool is_gone; /* destroyed when the piece that is being fetched is there */
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
            break; /* what there is goes first */
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
    s->source.left += payloads_told(*payloads);
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

size_t payloads_told(const struct payload *first)
{
    size_t told = 0;
    for (const struct payload *c = first; c; c = c->next) {
        told += c->told;
    }
    return told;
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
