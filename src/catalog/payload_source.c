/* SPDX-License-Identifier: MIT
 * An answer as a source of a send queue: text up to the place of a payload, the payload, and so on.
 * The total length is known in advance, so that a transport can send it first.
 */
#include "base/mem.h"
#include "catalog/payload.h"

struct payload_stream {
    struct sendq_source source;
    struct buf text;
    size_t done; /* of it */
    struct payload *payloads;
    struct output output;
};

static void payload_stream_destroy(struct sendq_source *source)
{
    struct payload_stream *s = list_entry(source, struct payload_stream, source);
    while (s->payloads) {
        struct payload *next = s->payloads->next;
        payload_destroy(s->payloads);
        s->payloads = next;
    }
    buf_deinit(&s->text);
    output_end(&s->output);
    mem_free(s);
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
                                    struct output *output)
{
    struct payload_stream *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->source.make = payload_stream_make;
    s->source.destroy = payload_stream_destroy;
    s->source.left = text->len;
    s->source.held = output ? output_booked(output) : 0;
    for (const struct payload *c = *payloads; c; c = c->next) {
        s->source.left += c->told;
    }
    s->text = *text;
    buf_init(text, 0);
    s->payloads = *payloads;
    *payloads = NULL;
    if (output) {
        output_move(&s->output, output);
    }
    return &s->source;
}

void payload_source_put(struct sendq_source *source, struct buf *out)
{
    while (source->left > 0 && buf_reserve(out, source->left) == 0) {
        ssize_t n = source->make(source, out->ptr + out->len, source->left);
        if (n <= 0) {
            out->failed = TIDINGS_E_CONFLICT;
            break;
        }
        out->len += (size_t)n;
        out->ptr[out->len] = '\0';
        source->left -= (size_t)n;
    }
    source->destroy(source);
}
