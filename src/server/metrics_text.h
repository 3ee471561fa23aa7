/* SPDX-License-Identifier: MIT
 *
 * Writes metrics as Prometheus reads them: OpenMetrics 1.0.0, or the text format 0.0.4 before it.
 * One family after the other: begin it, then its samples.
 */
#ifndef SERVER_METRICS_TEXT_H
#define SERVER_METRICS_TEXT_H

#include "base/durations.h"
#include "base/str.h"

enum metrics_kind {
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
};

struct metrics_text {
    struct buf *out;
    bool is_openmetrics;
    /* private: the family that was begun */
    const char *name;
    enum metrics_kind kind;
};

/* `name` without the suffix of its kind (_total, _bucket); lives until the next. */
void metrics_begin(struct metrics_text *m, enum metrics_kind kind, const char *name,
                   const char *help);
/* A sample of a counter or gauge. `labels` is `a="b",c="d"`, or NULL: none. */
void metrics_put(struct metrics_text *m, const char *labels, uint64_t value);
/* The same of microseconds, as seconds. */
void metrics_put_seconds(struct metrics_text *m, const char *labels, uint64_t us);
void metrics_put_durations(struct metrics_text *m, const char *labels, const struct durations *d);
/* A family with one sample. */
void metrics_put_one(struct metrics_text *m, enum metrics_kind kind, const char *name,
                     const char *help, uint64_t value);
void metrics_end(struct metrics_text *m);

/* Put `name="value"` behind what is in `out`, with a comma unless it is empty; of the value at most
 * 128 bytes, escaped, and what is no printable ASCII as '?'. */
#define METRICS_LABELS 512u
void metrics_label(char out[METRICS_LABELS], const char *name, struct tidings_str value);

/* Content types. */
#define METRICS_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_PLAIN "text/plain; version=0.0.4; charset=utf-8"

#endif
