/* SPDX-License-Identifier: MIT
 *
 * Writes the overview: who it is and whether it is ready, what moves, what waits, what it uses.
 */
#include "bin/monitor/overview.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/monitor/peer_table.h"
#include "bin/monitor/self_state.h"

struct overview_lines {
    const struct cli *cli;
    FILE *out;
    size_t width, count;
    const char *end;
};

static void overview_line(struct overview_lines *l, const char *label, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

static void overview_line(struct overview_lines *l, const char *label, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_style(l->cli, l->out, STYLE_DIM);
    put_cell(l->out, label, 11, true);
    put_style(l->cli, l->out, STYLE_PLAIN);
    put_cell(l->out, text, l->width > 11 ? l->width - 11 : 0, false);
    fputs(l->end, l->out);
    l->count++;
}

/* "", or " (12.5/s)" since the last look. */
static const char *overview_rate(double now, double *before, double seconds, char out[40])
{
    if (seconds > 0) {
        snprintf(out, 40, " (%.1f/s)", (now - *before) / seconds);
    } else {
        out[0] = '\0';
    }
    *before = now;
    return out;
}

static void overview_put_name(struct overview_lines *l, struct tidings_str s)
{
    char age[SPAN_TEXT_MAX];
    char *name = text_at(s, "/name"), *version = text_at(s, "/version");
    char *node = text_at(s, "/node"), *reason = text_at(s, "/reasons/0");
    overview_line(l, "server", "%s %s%s%s, up %s, %s%s%s", name ? name : "", version ? version : "",
                  node && *node ? ", node " : "", node ? node : "",
                  span_text(self_state_number(s, "/uptimeMs"), age),
                  is_true_at(s, "/ready") ? "ready" : "NOT READY", reason && *reason ? ": " : "",
                  reason ? reason : "");
    tidings_free(name);
    tidings_free(version);
    tidings_free(node);
    tidings_free(reason);
}

static void overview_put_moving(struct overview_lines *l, struct tidings_str s,
                                struct overview_before *b)
{
    double now = self_state_number(s, "/nowMs");
    double seconds = b->now_ms > 0 && now > b->now_ms ? (now - b->now_ms) / 1000 : 0;
    char a[40], d[40], r[40], o[40], size[SIZE_TEXT_MAX], in[SIZE_TEXT_MAX];
    double changes = self_state_number(s, "/changes");
    double deliveries = self_state_number(s, "/deliveries");
    double requests = self_state_number(s, "/requests");
    double bytes = self_state_number(s, "/bytesOut");
    overview_line(l, "moved", "%.0f changes%s, %.0f deliveries%s, %.0f merged, %.0f truncated",
                  changes, overview_rate(changes, &b->changes, seconds, a), deliveries,
                  overview_rate(deliveries, &b->deliveries, seconds, d),
                  self_state_number(s, "/merged"), self_state_number(s, "/truncated"));
    overview_line(l, "asked", "%.0f requests%s; %.0f failures, %.0f refused by limits, %.0f cut",
                  requests, overview_rate(requests, &b->requests, seconds, r),
                  self_state_number(s, "/failures"), self_state_number(s, "/refusals"),
                  self_state_number(s, "/cut"));
    overview_line(
        l, "bytes", "%s in, %s out%s", size_text((uint64_t)self_state_number(s, "/bytesIn"), in),
        size_text((uint64_t)bytes, size), overview_rate(bytes, &b->bytes_out, seconds, o));
    b->now_ms = now;
}

/* What waits now, and how long what was written lately had waited. */
static void overview_put_lag(struct overview_lines *l, struct tidings_str s)
{
    char now[SPAN_TEXT_MAX], p50[SPAN_TEXT_MAX], p99[SPAN_TEXT_MAX], max[SPAN_TEXT_MAX];
    char written[4 * SPAN_TEXT_MAX] = "no samples";
    char *is_known = tidings_json_get(s, "/lagMs/max");
    if (is_known && strcmp(is_known, "null") != 0) {
        snprintf(written, sizeof(written), "p50 %s, p99 %s, max %s",
                 span_text(self_state_number(s, "/lagMs/p50"), p50),
                 span_text(self_state_number(s, "/lagMs/p99"), p99),
                 span_text(self_state_number(s, "/lagMs/max"), max));
    }
    tidings_free(is_known);
    overview_line(l, "lag", "oldest waiting %s (%.0f for %.0f peers); written: %s",
                  span_text(self_state_number(s, "/lagMs/now"), now),
                  self_state_number(s, "/waiting"), self_state_number(s, "/behind"), written);
}

/* Why the last request failed, and whose it was. */
static void overview_put_failure(struct overview_lines *l, struct tidings_str s)
{
    char age[SPAN_TEXT_MAX];
    double at = self_state_number(s, "/lastFailure/atMs"), now = self_state_number(s, "/nowMs");
    if (at <= 0) {
        return;
    }
    char *method = text_at(s, "/lastFailure/method"), *reason = text_at(s, "/lastFailure/reason");
    char *cause = text_at(s, "/lastFailure/cause"), *address = text_at(s, "/lastFailure/address");
    char *path = text_at(s, "/lastFailure/path"), *uri = text_at(s, "/lastFailure/uri");
    const char *about = path && *path ? path : uri ? uri : "";
    overview_line(l, "failed", "last %s ago: %s%s%s%s%s of %s: %s",
                  span_text(now > at ? now - at : 0, age), method ? method : "", *about ? " " : "",
                  about, cause && *cause ? ", refused: " : "", cause ? cause : "",
                  address ? address : "", reason ? reason : "");
    tidings_free(method);
    tidings_free(reason);
    tidings_free(cause);
    tidings_free(address);
    tidings_free(path);
    tidings_free(uri);
}

size_t overview_put(const struct cli *cli, FILE *out, struct tidings_str s,
                    struct overview_before *before, size_t width, const char *end)
{
    struct overview_lines l = {.cli = cli, .out = out, .width = width, .end = end};
    struct overview_before none = {0};
    char a[SPAN_TEXT_MAX], cpu[SPAN_TEXT_MAX], memory[SIZE_TEXT_MAX];
    char *kind = text_at(s, "/store/kind");
    overview_put_name(&l, s);
    overview_put_moving(&l, s, before ? before : &none);
    overview_put_failure(&l, s);
    overview_line(&l, "there",
                  "%.0f connections, %.0f streams, %.0f sessions, %.0f peers, %.0f subscriptions",
                  self_state_number(s, "/connections"), self_state_number(s, "/streams"),
                  self_state_number(s, "/sessions"), self_state_number(s, "/subscribers"),
                  self_state_number(s, "/subscriptions"));
    overview_put_lag(&l, s);
    overview_line(&l, "uses", "%s memory, %s CPU, %.0f descriptors, store %s%s",
                  size_text((uint64_t)self_state_number(s, "/memoryBytes"), memory),
                  span_text(self_state_number(s, "/cpuMs"), cpu),
                  self_state_number(s, "/descriptors"), kind ? kind : "",
                  is_true_at(s, "/store/ok") ? "" : " FAILING");
    if (self_state_number(s, "/nodes") > 0) {
        overview_line(&l, "nodes", "%.0f live, %.0f silent; this one is %s behind",
                      self_state_number(s, "/nodes"), self_state_number(s, "/nodesSilent"),
                      span_text(self_state_number(s, "/nodeLagMs"), a));
    }
    tidings_free(kind);
    return l.count;
}
