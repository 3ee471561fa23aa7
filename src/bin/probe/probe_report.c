/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: the table of checks, and the findings printed for people or as JSON.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/probe/probe.h"

struct check {
    const char *id;
    const char *expected;
    const char *spec; /* the section of the specification */
};

static const struct check checks[] = {
    {"era", "an answer in this era", "Lifecycle; Versioning"},
    {"capabilities", "resources with subscribe", "Resources: Capabilities"},
    {"list", "resources/list has the resource, or at least one", "Resources: Listing"},
    {"subscribe", "the subscription is accepted", "Resources: Subscriptions"},
    {"updates", "an update after each change", "Resources: Subscriptions"},
    {"latency", "an update within a second of the change", "none: how soon is not specified"},
    {"filtered", "updates of what was subscribed to, and of nothing else",
     "Resources: Subscriptions"},
    {"correlated",
     "modern: each update carries subscriptionId; legacy: it can be told which "
     "subscription an update belongs to",
     "Subscriptions: Notifications"},
    {"acknowledged", "the acknowledgement comes first, and carries subscriptionId",
     "Subscriptions: Acknowledgement"},
    {"bystander", "nothing for a client that did not subscribe", "Resources: Subscriptions"},
    {"unsubscribe", "nothing after unsubscribing", "Resources: Subscriptions"},
    {"list-changed",
     "list_changed when the list changes, and only when advertised; modern: with subscriptionId",
     "Resources: List Changed Notification"},
    {"list-unasked", "no list_changed for a client that did not ask for it",
     "Subscriptions: Notifications"},
    {"stream", "the stream lives as long as it is listened to",
     "Transports: Listening for Messages"},
    {"unknown-method", "error -32601, over modern HTTP with status 404", "JSON-RPC 2.0, 5.1"},
    {"bad-params", "error -32602", "JSON-RPC 2.0, 5.1"},
    {"unknown-resource", "modern: error -32602; legacy: error -32002", "Resources: Error Handling"},
    {"malformed", "HTTP 400 with error -32700", "JSON-RPC 2.0, 5.1"},
    {"origin", "HTTP 403 for a foreign Origin", "Transports: Security Warning"},
    {"headers", "HTTP 400 with error -32020 when a header says something else than the body",
     "Transports: Standard Request Headers"},
    {"version", "HTTP 400 with error -32022 for an unknown revision",
     "Versioning: Unsupported Versions"},
    {"session-unknown", "HTTP 404 for a session that there is not",
     "Transports: Session Management"},
    {"session-missing", "HTTP 400 for a request without the session",
     "Transports: Session Management"},
    {"session-end", "DELETE ends the session: 404 from then on", "Transports: Session Management"},
    {"resume",
     "what changed while the stream was cut is told after Last-Event-ID, or after the cursor of a "
     "server that has one",
     "Transports: Resumability and Redelivery"},
    {"keep-alive", "comments or pings, so that nothing between takes the stream for dead",
     "none: only recommended"},
    {"idle", "the stream lives through the silence, and tells the next change",
     "Transports: Listening for Messages"},
};

static const char *const words[] = {"pass", "fail", "warn", "skip"};

static void put_finding(const struct probe *p, const struct finding *f)
{
    static const enum style styles[] = {STYLE_GOOD, STYLE_BAD, STYLE_NAME, STYLE_DIM};
    probe_clear();
    fputs("  ", stdout);
    put_style(&p->cli, stdout, styles[f->verdict]);
    fputs(words[f->verdict], stdout);
    put_style(&p->cli, stdout, STYLE_PLAIN);
    fputs("  ", stdout);
    put_gap(stdout, put_text(stdout, tidings_str(f->check->id)), 17);
    put_text(stdout, tidings_str(f->came));
    fputc('\n', stdout);
    if (f->verdict == VERDICT_FAIL || f->verdict == VERDICT_WARN) {
        put_gap(stdout, 0, 25);
        put_style(&p->cli, stdout, STYLE_DIM);
        printf("expected: %s (%s)\n", f->check->expected, f->check->spec);
        put_style(&p->cli, stdout, STYLE_PLAIN);
    }
    fflush(stdout);
}

void probe_found(struct run *r, const char *id, enum verdict verdict, const char *format, ...)
{
    struct probe *p = r->probe;
    if (p->count == PROBE_MAX_FINDINGS) {
        return;
    }
    struct finding *f = &p->findings[p->count];
    f->check = NULL;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        f->check = strcmp(checks[i].id, id) == 0 ? &checks[i] : f->check;
    }
    if (!f->check) {
        return;
    }
    f->era = r->era;
    f->verdict = verdict;
    va_list args;
    va_start(args, format);
    vsnprintf(f->came, sizeof(f->came), format, args);
    va_end(args);
    p->count++;
    if (!p->cli.json && (!p->cli.quiet || verdict == VERDICT_FAIL)) {
        put_finding(p, f);
    }
}

void probe_heading(const struct probe *p, const struct negotiated *s)
{
    if (p->cli.json || p->cli.quiet) {
        return;
    }
    probe_clear();
    put_style(&p->cli, stdout, STYLE_BOLD);
    printf("%s %s over %s", s->era, s->version, s->transport);
    put_style(&p->cli, stdout, STYLE_PLAIN);
    fputs(": ", stdout);
    put_text(stdout, tidings_str(s->name));
    fputc(' ', stdout);
    put_text(stdout, tidings_str(s->server_version));
    fputc('\n', stdout);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void probe_report_put_member(const char *before, const char *name, const char *value)
{
    printf("%s\"%s\":", before, name);
    put_quoted(stdout, tidings_str(value));
}

/* Was it seen in each era that changes are told? Without that nothing has been proved. */
static bool has_evidence(const struct probe *p)
{
    size_t told = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct finding *f = &p->findings[i];
        told += f->verdict == VERDICT_PASS && strcmp(f->check->id, "updates") == 0 ? 1 : 0;
    }
    return told == p->spoken_count;
}

static void put_report(const struct probe *p, const char *verdict, const size_t counts[4])
{
    probe_report_put_member("{", "verdict", verdict);
    for (size_t i = 0; i < 4; i++) {
        printf(",\"%s\":%zu", words[i], counts[i]);
    }
    fputs(",\"eras\":[", stdout);
    for (size_t i = 0; i < p->spoken_count; i++) {
        const struct negotiated *s = &p->spoken[i];
        probe_report_put_member(i > 0 ? ",{" : "{", "era", s->era);
        probe_report_put_member(",", "version", s->version);
        probe_report_put_member(",", "transport", s->transport);
        probe_report_put_member(",", "name", s->name);
        probe_report_put_member(",", "serverVersion", s->server_version);
        fputs(",\"capabilities\":", stdout);
        put_json_text(stdout, s->capabilities ? tidings_str(s->capabilities) : TIDINGS_STR("{}"));
        fputc('}', stdout);
    }
    fputs("],\"checks\":[", stdout);
    for (size_t i = 0; i < p->count; i++) {
        const struct finding *f = &p->findings[i];
        probe_report_put_member(i > 0 ? ",{" : "{", "era", f->era);
        probe_report_put_member(",", "id", f->check->id);
        probe_report_put_member(",", "verdict", words[f->verdict]);
        probe_report_put_member(",", "came", f->came);
        probe_report_put_member(",", "expected", f->check->expected);
        probe_report_put_member(",", "spec", f->check->spec);
        fputc('}', stdout);
    }
    fputs("]}\n", stdout);
}

int probe_finish(const struct probe *p)
{
    size_t counts[4] = {0};
    for (size_t i = 0; i < p->count; i++) {
        counts[p->findings[i].verdict]++;
    }
    int status = counts[VERDICT_FAIL] > 0 ? 1 : has_evidence(p) ? 0 : EXIT_INCONCLUSIVE;
    const char *verdict = status == 0 ? "pass" : status == 1 ? "fail" : "inconclusive";
    probe_clear();
    if (p->cli.json) {
        put_report(p, verdict, counts);
    } else if (!p->cli.quiet) {
        printf("%zu passed, %zu failed, %zu warnings, %zu skipped\n", counts[VERDICT_PASS],
               counts[VERDICT_FAIL], counts[VERDICT_WARN], counts[VERDICT_SKIP]);
    }
    if (status == EXIT_INCONCLUSIVE && !p->cli.json) {
        puts("inconclusive: no change was seen to be told, so whether it notifies is not known");
    }
    int written = command_finish("probe");
    return status > 0 ? status : written;
}
