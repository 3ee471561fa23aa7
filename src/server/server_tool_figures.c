/* SPDX-License-Identifier: MIT
 *
 * Writes how often tools were called. All tools without a row of their own are one, which has no
 * name here and the label `tool=""`.
 */
#include "server/server_tool_figures.h"

#include <stdio.h>

#include <tidings/tidings.h>

#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "server/figures.h"
#include "server/metrics_text.h"
#include "server/server_private.h"
#include "json/write.h"

#define TOOL_FIGURES_MAX (1u << 20)

/* ---- metrics --------------------------------------------------------------------------------- */

static void put_calls(void *user, const struct tool_count *row)
{
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        char labels[METRICS_LABELS] = "";
        if (row->outcomes[i] > 0) {
            metrics_label(labels, "tool", tidings_str(row->name));
            metrics_label(labels, "outcome",
                          tidings_str(tool_outcome_name((enum tidings_call_outcome)i)));
            metrics_put(user, labels, row->outcomes[i]);
        }
    }
}

static void put_durations(void *user, const struct tool_count *row)
{
    char labels[METRICS_LABELS] = "";
    metrics_label(labels, "tool", tidings_str(row->name));
    metrics_put_durations(user, labels, &row->took);
}

void server_tool_figures_put(struct metrics_text *m, const struct tool_counts *tools)
{
    metrics_begin(m, METRICS_COUNTER, "tidings_tool_calls", "Calls of tools, by outcome.");
    tool_counts_each(tools, put_calls, m);
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_tool_duration_seconds",
                  "How long calls of tools took.");
    tool_counts_each(tools, put_durations, m);
}

/* ---- tidings://self/tools -------------------------------------------------------------------- */

static void put_ms(struct jw *w, const char *key, uint64_t us)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(us / 1000),
                     (unsigned long long)(us % 1000));
    jw_put_raw(w, tidings_str(key), tidings_strn(text, (size_t)n));
}

static void tool_figures_put_row(void *user, const struct tool_count *row)
{
    struct jw *w = user;
    uint64_t calls = durations_total(&row->took);
    jw_begin_object(w);
    if (row->name[0] != '\0') {
        jw_put_string(w, STR("tool"), tidings_str(row->name));
    }
    jw_put_integer(w, STR("calls"), (int64_t)calls);
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        jw_put_integer(w, tidings_str(tool_outcome_name((enum tidings_call_outcome)i)),
                       (int64_t)row->outcomes[i]);
    }
    put_ms(w, "minMs", row->min_us);
    put_ms(w, "avgMs", row->took.sum_us / calls);
    put_ms(w, "maxMs", row->max_us);
    jw_end_object(w);
}

static void tool_figures_gathered(void *user, const struct figures *f)
{
    struct tidings_read *read = user;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    buf_init(&text, TOOL_FIGURES_MAX);
    int rc = f && f->tools ? 0 : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        struct tidings_resource about = {.name = STR("tools"),
                                         .mime_type = STR("application/json")};
        jw_init(&w, &text);
        jw_begin_array(&w);
        tool_counts_each(f->tools, tool_figures_put_row, &w);
        jw_end_array(&w);
        rc = buf_check(&text, "the server's state", NULL, &err);
        rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    }
    buf_deinit(&text);
    tidings_read_done(read, rc, &err);
}

void server_tool_figures_read(struct tidings_server *server, struct tidings_read *read)
{
    figures_gather_all(server->cores, server->worker_count, tool_figures_gathered, read);
}
