/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: checks that a server sends notifications. The probe uses the server like a
 * client, in each era that the server supports. Each finding gives the expected and the received
 * result.
 */
#include "cli/probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings probe`: makes a change of the resource, by a command of the user or a tool of the
 * server, and checks that the resource changed.
 */

/* Of @modelcontextprotocol/server-everything: the first call starts updates to the session every
 * few seconds; the second call stops them. */
#define TOGGLE "toggle-subscriber-updates"
#define NAME_BYTES 128u
#define ADDED "-tidings-probe" /* appended to the URI for a new list entry */

bool probe_can_change(const struct run *r)
{
    return r->probe->change || r->probe->touches || r->probe->call;
}

static int probe_change_run_command(const char *option, const char *command,
                                    struct tidings_error *err)
{
    fflush(stdout);
    int status = system(command);
    if (status == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "the command of %s ended with status %d", option,
                        status > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

/* ---- tools ----------------------------------------------------------------------------------- */

struct tools {
    bool publishes, toggles;
};

static int on_tool(void *user, struct tidings_str item)
{
    struct tools *t = user;
    char *name = text_at(item, "/name");
    t->publishes = t->publishes || (name && strcmp(name, "publish") == 0);
    t->toggles = t->toggles || (name && strcmp(name, TOGGLE) == 0);
    tidings_free(name);
    return 0;
}

static int call(struct tidings_client *by, const char *tool, const char *arguments,
                struct tidings_error *err)
{
    char *answer = tidings_client_call(by, tool, arguments, NULL, NULL, err);
    int rc = answer ? 0 : err->code;
    if (answer && is_true_at(tidings_str(answer), "/isError")) {
        char *text = text_at(tidings_str(answer), "/content/0/text");
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%s failed: %.120s", tool, text ? text : "");
        tidings_free(text);
    }
    tidings_free(answer);
    return rc;
}

/* Call a tidings tool for the resource, or with `added` for a new one beside it. */
static int call_about(struct run *r, struct tidings_client *by, const char *tool, const char *added,
                      struct tidings_error *err)
{
    struct json_text t;
    bool has_text = strcmp(tool, "publish") == 0;
    size_t room = strlen(r->uri) + strlen(added) + 1;
    char *uri = malloc(room);
    if (!uri || !json_text_begin(&t)) {
        free(uri);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    snprintf(uri, room, "%s%s", r->uri, added);
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(uri));
    if (has_text) {
        fprintf(t.out, ",\"text\":\"tidings probe, change %u\\n\"", r->probe->changes);
    }
    fputc('}', t.out);
    char *arguments = json_text_take(&t);
    int rc = arguments ? call(by, tool, arguments, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    free(arguments);
    free(uri);
    return rc;
}

static int probe_change_touch(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct tools tools = {0};
    int rc = tidings_client_list(by, TIDINGS_LISTING_TOOLS, on_tool, &tools, err);
    if (rc < 0) {
        return rc;
    }
    if (tools.publishes) {
        return call_about(r, by, "publish", "", err);
    }
    if (!tools.toggles) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server has neither the tool publish nor " TOGGLE);
    }
    r->toggled = by;
    return call(by, TOGGLE, "{}", err);
}

/* The arguments of --call, with the number of the change in place of each {n}; free it. NULL: no
 * memory. */
static char *number_in(const char *text, unsigned number)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    while (*text) {
        if (strncmp(text, "{n}", 3) == 0) {
            fprintf(t.out, "%u", number);
            text += 3;
        } else {
            fputc(*text++, t.out);
        }
    }
    return json_text_take(&t);
}

/* The tool of --call, and its arguments (free them). */
static int probe_change_read_call(const struct probe *p, char tool[NAME_BYTES], char **ret,
                                  struct tidings_error *err)
{
    size_t n = strcspn(p->call, " \t");
    const char *rest = p->call + n + strspn(p->call + n, " \t");
    if (n == 0 || n >= NAME_BYTES) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--call takes the name of a tool of up to %u bytes, and a JSON object",
                            NAME_BYTES - 1);
    }
    snprintf(tool, NAME_BYTES, "%.*s", (int)n, p->call);
    *ret = number_in(*rest ? rest : "{}", p->changes);
    if (!*ret) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *object = tidings_json_get(tidings_str(*ret), "");
    bool is_object = object && object[0] == '{';
    tidings_free(object);
    if (!is_object) {
        int rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "--call: '%.60s' must be followed by a JSON object, not '%.60s'",
                              tool, *ret);
        free(*ret);
        *ret = NULL;
        return rc;
    }
    return 0;
}

/* Checks that --call, if given, is a name and an optional JSON object. */
static int probe_check_call(const struct probe *p, struct tidings_error *err)
{
    char tool[NAME_BYTES], *arguments = NULL;
    int rc = p->call ? probe_change_read_call(p, tool, &arguments, err) : 0;
    free(arguments);
    return rc;
}

static int call_given(const struct probe *p, struct tidings_client *by, struct tidings_error *err)
{
    char tool[NAME_BYTES], *arguments = NULL;
    int rc = probe_change_read_call(p, tool, &arguments, err);
    rc = rc == 0 ? call(by, tool, arguments, err) : rc;
    free(arguments);
    return rc;
}

int probe_change(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct probe *p = r->probe;
    p->changes++;
    if (p->change) {
        return probe_change_run_command("--change", p->change, err);
    }
    if (p->call) {
        return call_given(p, by, err);
    }
    if (!p->touches || by == r->toggled) {
        return 0; /* it changes periodically, or not at all */
    }
    return probe_change_touch(r, by, err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Returns true if the tools of --touch can add a resource. */
static bool can_add_by_touch(const struct run *r)
{
    return !r->probe->change_list && r->probe->touches && !r->toggled && r->is_notified;
}

int probe_change_list(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    int rc = 0;
    if (r->probe->change_list) {
        rc = probe_change_run_command("--change-list", r->probe->change_list, err);
    } else if (can_add_by_touch(r)) {
        rc = call_about(r, by, "publish", ADDED, err);
    } else {
        return 0;
    }
    return rc < 0 ? rc : 1;
}

void probe_restore_list(struct run *r, struct tidings_client *by)
{
    struct tidings_error err = {0};
    if (can_add_by_touch(r)) {
        (void)call_about(r, by, "unpublish", ADDED, &err);
    }
}

/* ---- content hashes -------------------------------------------------------------------------- */

/* FNV-1a */
static uint64_t probe_change_mix(uint64_t hash, const char *text)
{
    hash = hash ? hash : 14695981039346656037u;
    while (text && *text) {
        hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
    }
    return hash;
}

uint64_t probe_content(struct run *r)
{
    struct tidings_error err = {0};
    char *answer = tidings_client_read(r->client, r->uri, &err);
    char *contents = answer ? tidings_json_get(tidings_str(answer), "/contents") : NULL;
    uint64_t hash = contents ? probe_change_mix(0, contents) : 0;
    tidings_free(contents);
    tidings_free(answer);
    return hash;
}

static int on_listed(void *user, struct tidings_str item)
{
    uint64_t *hash = user;
    char *uri = text_at(item, "/uri");
    *hash = probe_change_mix(probe_change_mix(*hash, uri), "\n");
    tidings_free(uri);
    return 0;
}

uint64_t probe_list(struct run *r)
{
    struct tidings_error err = {0};
    uint64_t hash = 0;
    int rc = tidings_client_list(r->client, TIDINGS_LISTING_RESOURCES, on_listed, &hash, &err);
    return rc < 0 ? 0 : probe_change_mix(hash, "end");
}

/* -------------------------------------------------------------------------------------------------
 * The progress of `tidings probe`, for a user at a terminal: one line on standard error that is
 * overwritten, and a permanent line if the user must act. Prints nothing elsewhere.
 */

/* The current line; there is one terminal. */
static struct {
    char text[160];
    uint64_t seconds;
} shown;

static bool progress_is_seen(const struct probe *p)
{
    return !p->cli.quiet && is_terminal(stderr);
}

static void probe_clear(void)
{
    if (shown.text[0]) {
        fputs("\r\033[K", stderr);
        shown.text[0] = '\0';
    }
}

static void progress_put(void)
{
    fputs("\r\033[K", stderr);
    put_text(stderr, tidings_str(shown.text));
}

void probe_doing(const struct probe *p, const char *format, ...)
{
    va_list args;
    if (progress_is_seen(p)) {
        va_start(args, format);
        vsnprintf(shown.text, sizeof(shown.text), format, args);
        va_end(args);
        shown.seconds = 0;
        progress_put();
    }
}

void probe_waits(uint64_t left_ms)
{
    uint64_t seconds = (left_ms + 999) / 1000;
    if (shown.text[0] && seconds > 1 && seconds != shown.seconds) {
        shown.seconds = seconds;
        progress_put();
        fprintf(stderr, " (%" PRIu64 " s)", seconds);
    }
}

void probe_ask_person(const struct run *r, const char *why)
{
    if (progress_is_seen(r->probe) && !probe_can_change(r)) {
        probe_clear();
        fputs("change it now: ", stderr);
        put_text(stderr, tidings_str(r->uri));
        fprintf(stderr, " (%s)\n", why);
        probe_doing(r->probe, "waiting for the update");
    }
}

/* -------------------------------------------------------------------------------------------------
 * `tidings probe`: the table of checks, and the findings printed for people or as JSON.
 */

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
     "modern: each update carries subscriptionId; legacy: updates can be matched to subscriptions",
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
     "changes during a lost connection are replayed after Last-Event-ID, or after the cursor of a "
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

/* The line above the findings of an era. */
static void probe_heading(const struct probe *p, const struct negotiated *s)
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

/* ---- result ---------------------------------------------------------------------------------- */

static void probe_report_put_member(const char *before, const char *name, const char *value)
{
    printf("%s\"%s\":", before, name);
    put_quoted(stdout, tidings_str(value));
}

/* Returns true if changes were delivered in every era. Otherwise the result proves nothing. */
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

/* Finishes the output; returns the exit status. */
static int probe_finish(const struct probe *p)
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
        puts("inconclusive: no notification arrived, so it is unknown whether the server notifies");
    }
    int written = command_finish("probe");
    return status > 0 ? status : written;
}

/* ---------------------------------------------------------------------------------------------- */

/* For struct cli, see help.c. */
enum {
    ERA_AUTO = 0,
    ERA_MODERN = 1,
    ERA_LEGACY = 2,
    ERA_2026 = 3,
    ERA_2025_11 = 4,
    ERA_2024_11 = 7
};

/* ---- eras ------------------------------------------------------------------------------------ */

/* "resources: subscribe, listChanged; tools" */
struct summary {
    char text[160];
    size_t len;
};

static void probe_append(struct summary *s, const char *between, struct tidings_str name)
{
    if (s->len + strlen(between) + name.len + 1 < sizeof(s->text)) {
        s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s%.*s", between,
                                   (int)name.len, name.ptr);
    }
}

struct flags {
    struct summary *summary;
    const char *between;
};

static int on_flag(void *user, struct tidings_str key, struct tidings_str value)
{
    struct flags *f = user;
    if (tidings_str_eq(value, TIDINGS_STR("true"))) {
        probe_append(f->summary, f->between, key);
        f->between = ", ";
    }
    return 0;
}

static int on_capability(void *user, struct tidings_str key, struct tidings_str value)
{
    struct summary *s = user;
    struct flags f = {s, ": "};
    probe_append(s, s->len > 0 ? "; " : "", key);
    (void)tidings_json_each(value, "", on_flag, &f);
    return 0;
}

static void probe_record_spoken(struct run *r)
{
    struct probe *p = r->probe;
    const struct tidings_client_info *info = tidings_client_info(r->client);
    struct negotiated *s = &p->spoken[p->spoken_count++];
    s->era = r->era;
    snprintf(s->version, sizeof(s->version), "%s", info->version);
    snprintf(s->transport, sizeof(s->transport), "%s", info->transport);
    snprintf(s->name, sizeof(s->name), "%.60s", info->server_name);
    snprintf(s->server_version, sizeof(s->server_version), "%.30s", info->server_version);
    s->capabilities = strdup(info->capabilities);
    snprintf(r->version, sizeof(r->version), "%s", info->version);
    snprintf(r->session, sizeof(r->session), "%s", info->session ? info->session : "");
    r->is_http = strcmp(info->transport, "http") == 0;
    probe_heading(p, s);
    probe_found(r, "era", VERDICT_PASS, "%s", info->version);
    struct summary summary = {.len = 0};
    (void)tidings_json_each(tidings_str(info->capabilities), "", on_capability, &summary);
    char *resources = tidings_json_get(tidings_str(info->capabilities), "/resources");
    r->has_resources = resources != NULL;
    r->declares_subscribe = resources && is_true_at(tidings_str(resources), "/subscribe");
    tidings_free(resources);
    probe_found(r, "capabilities",
                !r->has_resources       ? VERDICT_SKIP
                : r->declares_subscribe ? VERDICT_PASS
                                        : VERDICT_WARN,
                "%s%s", summary.len > 0 ? summary.text : "none",
                r->has_resources ? "" : "; " PROBE_NO_RESOURCES);
}

/* The newest revision of the era that the server supports: 1, or 0, or a negative code: the server
 * is unusable.
 */
static int probe_connect(struct run *r, struct tidings_error *err)
{
    unsigned first = r->cli.era, last = first;
    if (first == ERA_LEGACY) {
        first = ERA_2025_11;
        last = ERA_2024_11;
    }
    for (unsigned era = first; era <= last && !r->client; era++) {
        r->cli.era = era;
        /* Modern: the client requests only resource updates. Legacy: the stream stays open after
         * the last unsubscription, so later updates are still received. */
        r->client = probe_open(r, !r->is_modern, err);
        if (!r->client && err->code != TIDINGS_E_UNSUPPORTED) {
            return err->code;
        }
    }
    if (r->client) {
        probe_record_spoken(r);
    }
    return r->client ? 1 : 0;
}

/* ---- choosing the resource ------------------------------------------------------------------- */

struct looking {
    const char *wanted; /* NULL: any */
    char *first;
    unsigned count;
    bool is_there;
};

static int probe_on_resource(void *user, struct tidings_str item)
{
    struct looking *l = user;
    char *uri = text_at(item, "/uri");
    l->is_there = l->is_there || (uri && l->wanted && strcmp(uri, l->wanted) == 0);
    size_t n = uri ? strlen(uri) : 0;
    if (!l->first && n > 0 && uri[n - 1] != '/') {
        l->first = uri;
        uri = NULL;
    }
    tidings_free(uri);
    return ++l->count == 10000;
}

static void choose(struct run *r)
{
    struct tidings_error err = {0}, wrong = {0};
    if (!r->has_resources) {
        probe_found(r, "list", VERDICT_SKIP, PROBE_NO_RESOURCES);
        return;
    }
    bool is_given = r->cli.arg_count > 0;
    r->uri = is_given ? uri_of_argument(r->cli.args[0], &wrong) : NULL;
    struct looking l = {.wanted = r->uri};
    int rc = tidings_client_list(r->client, TIDINGS_LISTING_RESOURCES, probe_on_resource, &l, &err);
    if (!is_given) {
        r->uri = l.first ? strdup(l.first) : NULL;
    }
    if (rc < 0 || wrong.code < 0) {
        probe_found(r, "list",
                    wrong.code < 0                ? VERDICT_SKIP
                    : err.code == TIDINGS_E_PARSE ? VERDICT_FAIL
                                                  : VERDICT_WARN,
                    "%.150s", rc < 0 ? err.text : wrong.text);
    } else if (l.count == 0 && !r->uri) {
        probe_found(r, "list", VERDICT_WARN, "no resources; a URI on the command line is tried");
    } else {
        probe_found(r, "list", VERDICT_PASS, "%u resources%s", l.count,
                    l.wanted && !l.is_there ? ", this one not listed" : "");
    }
    tidings_free(l.first);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* 1: supported, 0: not, or a negative code. */
static int probe_era(struct probe *p, unsigned era, struct tidings_error *err)
{
    bool is_modern = era == ERA_MODERN || era == ERA_2026;
    struct run *r = calloc(1, sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *r = (struct run){.probe = p, .era = is_modern ? "modern" : "legacy", .is_modern = is_modern};
    r->cli = p->cli;
    r->cli.era = era;
    probe_doing(p, "asking whether it speaks the %s era", r->era);
    int rc = probe_connect(r, err);
    if (rc == 1) {
        probe_doing(p, "listing its resources");
        choose(r);
        probe_updates(r);
        probe_doing(p, "asking wrong things");
        probe_errors(r);
        probe_doing(p, "cutting streams, and ending sessions");
        probe_streams(r);
    } else if (rc == 0) {
        probe_found(r, "era", VERDICT_SKIP, "%s: %.150s", r->era, err->text);
    } else if (p->spoken_count > 0) {
        probe_found(r, "era", VERDICT_WARN, "%s: %.150s", r->era, err->text);
    }
    tidings_client_destroy(r->client);
    free(r->uri);
    free(r);
    return rc;
}

static int probe_run(struct cli *cli)
{
    struct probe *p = (struct probe *)cli;
    struct tidings_error err = {0};
    if ((p->change ? 1 : 0) + (p->call ? 1 : 0) + (p->touches ? 1 : 0) > 1) {
        return command_misuse(
            "probe", "there is one way to change something: --change, --call or --touch", NULL);
    }
    if (probe_check_call(p, &err) < 0) {
        return command_misuse("probe", err.text, NULL);
    }
    unsigned eras[PROBE_MAX_ERAS] = {cli->era, 0};
    if (cli->era == ERA_AUTO) {
        eras[0] = ERA_MODERN;
        eras[1] = ERA_LEGACY;
    }
    int rc = 0;
    for (size_t i = 0; i < PROBE_MAX_ERAS && eras[i] && rc >= 0; i++) {
        rc = probe_era(p, eras[i], &err);
    }
    probe_clear();
    int status = p->spoken_count > 0
                     ? probe_finish(p)
                     : command_fail("probe", &err, target_hint(cli, &err, p->wants_login));
    for (size_t i = 0; i < p->spoken_count; i++) {
        free(p->spoken[i].capabilities);
    }
    return status;
}

#define AT(member) offsetof(struct probe, member)

static const struct option options[] = {
    {.name = "change",
     .kind = OPTION_TEXT,
     .offset = AT(change),
     .metavar = "COMMAND",
     .help = "a command for the shell that changes the resource"},
    {.name = "call",
     .kind = OPTION_TEXT,
     .offset = AT(call),
     .metavar = "TOOL",
     .help = "a tool that changes it, and its arguments: 'NAME {\"value\":{n}}'; {n} counts"},
    {.name = "touch",
     .kind = OPTION_FLAG,
     .offset = AT(touches),
     .help = "change it by a tool of the server: publish, or toggle-subscriber-updates"},
    {.name = "change-list",
     .kind = OPTION_TEXT,
     .offset = AT(change_list),
     .metavar = "COMMAND",
     .help = "a command for the shell that adds a resource to the list, or removes one"},
    {.name = "wait",
     .kind = OPTION_TIME,
     .offset = AT(wait_ms),
     .metavar = "TIME",
     .help = "how long to wait for an update",
     .value = "10s",
     .min = 100,
     .max = 3600000},
    {.name = "idle",
     .kind = OPTION_TIME,
     .offset = AT(idle_ms),
     .metavar = "TIME",
     .help = "stay silent that long and check that the stream still works",
     .min = 100,
     .max = 86400000},
    {0},
};

const struct command command_probe = {
    .name = "probe",
    .args = "[URI]",
    .help = "find out whether a server really notifies",
    .about =
        "Use a server as a client would, in each era it speaks: subscribe to the URI, or to the\n"
        "first resource listed, change it three times, and see whether updates come, only those,\n"
        "and none after unsubscribing; then ask wrong things, cut the stream and end the session.\n"
        "--change, --call or --touch make changes; without these options the probe waits for "
        "changes.\n\n"
        "A line for each check: pass, fail (against a MUST), warn (allowed, but clients "
        "will feel it) or skip, and what came. The exit status is 1 when a check failed, and 2, "
        "inconclusive, if in some era no notification arrived. On a terminal it says what "
        "it is doing, and when it needs you to change something.\n\n"
        "--json prints an object: verdict, how many pass, fail, warn, skip, eras, and checks with\n"
        "era, id, verdict, came, expected, spec.\n",
    .options = options,
    .size = sizeof(struct probe),
    .max_args = 1,
    .has_target = true,
    .run = probe_run,
};
