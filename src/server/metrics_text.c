/* SPDX-License-Identifier: MIT
 *
 * Writes families of metrics and their samples, a line each.
 */
#include "server/metrics_text.h"

#include <stdio.h>

void metrics_begin(struct metrics_text *m, enum metrics_kind kind, const char *name,
                   const char *help)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const char *suffix = kind == METRICS_COUNTER && !m->is_openmetrics ? "_total" : "";
    m->name = name;
    m->kind = kind;
    buf_putf(m->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
             kinds[kind]);
}

static void metrics_line(struct metrics_text *m, const char *suffix, const char *labels,
                         const char *value)
{
    buf_putf(m->out, "%s%s%s%s%s %s\n", m->name, suffix, labels && *labels ? "{" : "",
             labels ? labels : "", labels && *labels ? "}" : "", value);
}

void metrics_put(struct metrics_text *m, const char *labels, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    metrics_line(m, m->kind == METRICS_COUNTER ? "_total" : "", labels, text);
}

static void metrics_seconds(char out[32], uint64_t us)
{
    snprintf(out, 32, "%llu.%06llu", (unsigned long long)(us / 1000000),
             (unsigned long long)(us % 1000000));
}

void metrics_put_seconds(struct metrics_text *m, const char *labels, uint64_t us)
{
    char text[32];
    metrics_seconds(text, us);
    metrics_line(m, m->kind == METRICS_COUNTER ? "_total" : "", labels, text);
}

void metrics_put_durations(struct metrics_text *m, const char *labels, const struct durations *d)
{
    static const char *const bounds[DURATIONS_BUCKETS] = {
        "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1",
        "0.25",   "0.5",     "1.0",    "2.5",   "5.0",    "10.0",  "30.0", "60.0",  "+Inf"};
    uint64_t count = 0;
    char text[32];
    for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
        count += d->buckets[i];
        buf_putf(m->out, "%s_bucket{%s%sle=\"%s\"} %llu\n", m->name, labels ? labels : "",
                 labels && *labels ? "," : "", bounds[i], (unsigned long long)count);
    }
    metrics_seconds(text, d->sum_us);
    metrics_line(m, "_sum", labels, text);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
    metrics_line(m, "_count", labels, text);
}

void metrics_put_one(struct metrics_text *m, enum metrics_kind kind, const char *name,
                     const char *help, uint64_t value)
{
    metrics_begin(m, kind, name, help);
    metrics_put(m, NULL, value);
}

void metrics_end(struct metrics_text *m)
{
    if (m->is_openmetrics) {
        buf_puts(m->out, STR("# EOF\n"));
    }
}

void metrics_label(char out[METRICS_LABELS], const char *name, struct tidings_str value)
{
    size_t at = strlen(out);
    at += (size_t)snprintf(out + at, METRICS_LABELS - at, "%s%s=\"", at > 0 ? "," : "", name);
    for (size_t i = 0; i < value.len && i < 128 && at + 4 < METRICS_LABELS; i++) {
        char c = value.ptr[i];
        if (c == '"' || c == '\\') {
            out[at++] = '\\';
        }
        out[at++] = (char)(c < 0x20 || c > 0x7e ? '?' : c);
    }
    out[at++] = '"';
    out[at] = '\0';
}
