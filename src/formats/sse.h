/* SPDX-License-Identifier: MIT
 *
 * Server-sent events (WHATWG): a parser, and the event that begins a stream.
 */
#ifndef FORMATS_SSE_H
#define FORMATS_SSE_H

#include "base/str.h"

#define SSE_COMMENT ":\n\n" /* keep-alive */

/* "id: …\nretry: …\ndata:\n\n": the priming event of 2025-11-25. retry_ms < 0: no retry line. A
 * line break in `id` is rejected (TIDINGS_E_INVALID). On failure nothing is written. */
int sse_put_priming(struct buf *out, struct tidings_str id, int64_t retry_ms);

struct sse_event {
    struct tidings_str event; /* "message" by default */
    struct tidings_str data;  /* lines joined by LF */
    struct tidings_str id;    /* the last id seen on the stream */
    int64_t retry_ms;         /* -1: none in this event */
};

struct sse_parser {
    struct buf line, data, event, id;
    int64_t retry_ms;
    bool after_cr, started, has_data, has_id;
};

typedef void (*sse_event_fn)(const struct sse_event *event, void *user);
void sse_parser_init(struct sse_parser *p, size_t max_event);
void sse_parser_deinit(struct sse_parser *p);
/* Calls fn for each complete event; fn must not use the parser, and its arguments are valid only
 * during the call. Events without data are also reported if they have id or retry (priming), with
 * empty data. TIDINGS_E_LIMIT: an event exceeded the maximum; this or TIDINGS_E_NOMEM ends the
 * stream: every later feed returns it again. */
int sse_parser_feed(struct sse_parser *p, const char *bytes, size_t len, sse_event_fn fn,
                    void *user);

#endif
