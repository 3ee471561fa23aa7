/* SPDX-License-Identifier: MIT
 *
 * W3C Trace Context: which trace a request belongs to, as `traceparent` and `tracestate` of HTTP
 * headers or of `_meta` (SEP-414) say.
 *
 *     traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *
 * Pure. What is not valid is ignored, as the recommendation has it, and a `tracestate` goes with
 * its `traceparent`. We make no spans of our own (there is no exporter): what is passed on is what
 * came, so that whoever is told hangs its span below the one that asked.
 */
#ifndef WIRE_TRACE_H
#define WIRE_TRACE_H

#include <tidings/types.h>

#define TRACE_PARENT_LEN 55u /* of version 00, which is what is passed on */
#define TRACE_ID_LEN 32u
#define TRACE_SPAN_LEN 16u
#define TRACE_STATE_MAX 512u /* longer ones are dropped whole */

/* Both texts have their NUL; empty: there is none. */
struct trace {
    char parent[TRACE_PARENT_LEN + 1];
    char state[TRACE_STATE_MAX + 1];
};

/* false: `parent` is not valid, and *ret is empty. Of a version we do not know the part we do know
 * is taken, and passed on as version 00. */
bool trace_read(struct tidings_str parent, struct tidings_str state, struct trace *ret);

static inline bool trace_is_there(const struct trace *trace)
{
    return trace->parent[0] != '\0';
}
static inline struct tidings_str trace_id(const struct trace *trace)
{
    return tidings_strn(trace->parent + 3, TRACE_ID_LEN);
}
static inline struct tidings_str trace_span_id(const struct trace *trace)
{
    return tidings_strn(trace->parent + 4 + TRACE_ID_LEN, TRACE_SPAN_LEN);
}

#endif
