/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: checks that a subscriber receives changes of its resource, no other changes, and
 * none after it unsubscribes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/probe.h"
#include "cli/remote.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings probe`: checks that the server answers invalid requests with the errors of the
 * specification.
 */

#define NO_METHOD "tidings-probe/nothing"
#define NOWHERE "tidings-probe://no/such/resource"
#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"%s\","                               \
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"tidings\",\"version\":\"0\"},"             \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* ---- through the client ---------------------------------------------------------------------- */

/* The error code of the answer; 0: a result, or no answer. */
static int probe_errors_code_of(struct run *r, const char *method, const char *params,
                                char **ret_result, struct tidings_error *err)
{
    *ret_result = tidings_client_request(r->client, method, params, err);
    const char *error = *ret_result ? NULL : tidings_client_last_error(r->client);
    char *code = error ? tidings_json_get(tidings_str(error), "/code") : NULL;
    int number = code ? (int)strtol(code, NULL, 10) : 0;
    tidings_free(code);
    return number;
}

struct wrong {
    const char *id, *method, *params;
    int code;
    enum verdict otherwise; /* for another code, or a result */
};

static void check_code(struct run *r, const struct wrong *w)
{
    struct tidings_error err = {0};
    char *result;
    int code = probe_errors_code_of(r, w->method, w->params, &result, &err);
    if (result) {
        probe_found(r, w->id, w->otherwise, "a result instead of an error");
    } else if (code == 0) {
        probe_found(r, w->id, err.code == TIDINGS_E_TIMEOUT ? VERDICT_FAIL : w->otherwise,
                    "no error object: %.150s", err.text);
    } else {
        probe_found(r, w->id, code == w->code ? VERDICT_PASS : w->otherwise, "error %d", code);
    }
    tidings_free(result);
}

/* ---- as raw HTTP ----------------------------------------------------------------------------- */

#define TAKEN_MAX 4096u
struct taken {
    char text[TAKEN_MAX];
    size_t len;
};

static int probe_errors_on_bytes(void *user, long status, struct tidings_str bytes)
{
    struct taken *t = user;
    (void)status;
    size_t room = TAKEN_MAX - 1 - t->len;
    size_t n = bytes.len < room ? bytes.len : room;
    if (n > 0) {
        memcpy(t->text + t->len, bytes.ptr, n);
        t->len += n;
    }
    return t->len == TAKEN_MAX - 1;
}

static struct raw_answer probe_post(struct run *r, const char *const *lines, const char *body)
{
    struct taken taken = {.len = 0};
    struct tidings_client_http_answer answer;
    struct tidings_error err = {0};
    struct tidings_client_http request = {.method = "POST",
                                          .headers = lines,
                                          .body = body,
                                          .on_bytes = probe_errors_on_bytes,
                                          .user = &taken};
    (void)tidings_client_http(r->client, &request, &answer, &err);
    /* JSON is used unchanged; of an SSE stream the first event is used. */
    taken.text[taken.len] = '\0';
    const char *brace = strchr(taken.text, '{');
    size_t n = brace ? strcspn(brace, "\r\n") : 0;
    char *code = brace ? tidings_json_get(tidings_strn(brace, n), "/error/code") : NULL;
    struct raw_answer a = {.status = answer.status, .code = code ? (int)strtol(code, NULL, 10) : 0};
    tidings_free(code);
    return a;
}

#define TYPE "Content-Type: application/json"
#define ACCEPT "Accept: application/json, text/event-stream"
#define LINE_MAX_BYTES 640u

/* `status` and `code` (0: any) are expected. Another error is `lesser`; no error is `worse`. */
struct expected {
    const char *id;
    long status;
    int code;
    enum verdict lesser, worse;
};

static void probe_errors_check(struct run *r, const struct expected *e, struct raw_answer a)
{
    char code[32] = "";
    if (a.code != 0) {
        snprintf(code, sizeof(code), " with error %d", a.code);
    }
    bool is_right = a.status == e->status && (e->code == 0 || a.code == e->code);
    bool is_refused = (a.status >= 400 && a.status < 500) || a.code != 0;
    enum verdict v = is_right ? VERDICT_PASS : is_refused ? e->lesser : e->worse;
    if (a.status == 0) {
        probe_found(r, e->id, VERDICT_FAIL, "no answer");
    } else {
        probe_found(r, e->id, v, "HTTP %ld%s", a.status, code);
    }
}

/* A valid request. */
static void put_request(const struct run *r, const char *method, const char *version, char *out,
                        size_t room)
{
    size_t n =
        (size_t)snprintf(out, room, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",", method);
    if (r->is_modern) {
        snprintf(out + n, room - n, "\"params\":{" META "}}", version);
    } else {
        snprintf(out + n, room - n, "\"params\":{}}");
    }
}

static void check_raw(struct run *r)
{
    char version[LINE_MAX_BYTES], session[LINE_MAX_BYTES], body[1024];
    snprintf(version, sizeof(version), "MCP-Protocol-Version: %s", r->version);
    snprintf(session, sizeof(session), "Mcp-Session-Id: %s", r->session);
    const char *method = r->is_modern ? "Mcp-Method: resources/list" : NULL;
    const char *last = r->is_modern ? method : r->session[0] ? session : NULL;
    put_request(r, "resources/list", r->version, body, sizeof(body));

    const char *fine[] = {TYPE, ACCEPT, version, last, NULL};
    probe_errors_check(r, &(struct expected){"malformed", 400, -32700, VERDICT_WARN, VERDICT_FAIL},
                       probe_post(r, fine, "{\"jsonrpc\":\"2.0\",\"id\":1,"));
    const char *foreign[] = {
        "Origin: https://tidings-probe.invalid", TYPE, ACCEPT, version, last, NULL};
    /* Older revisions require the check but do not specify a status. */
    bool has_status = strcmp(r->version, "2025-11-25") >= 0;
    probe_errors_check(r,
                       &(struct expected){"origin", 403, 0,
                                          has_status ? VERDICT_FAIL : VERDICT_WARN, VERDICT_FAIL},
                       probe_post(r, foreign, body));
    if (r->is_modern) {
        const char *other[] = {TYPE, ACCEPT, version, "Mcp-Method: resources/read", NULL};
        probe_errors_check(r,
                           &(struct expected){"headers", 400, -32020, VERDICT_FAIL, VERDICT_FAIL},
                           probe_post(r, other, body));
        const char *future[] = {TYPE, ACCEPT, "MCP-Protocol-Version: 2999-01-01", method, NULL};
        put_request(r, "resources/list", "2999-01-01", body, sizeof(body));
        probe_errors_check(r,
                           &(struct expected){"version", 400, -32022, VERDICT_FAIL, VERDICT_FAIL},
                           probe_post(r, future, body));
        const char *nothing[] = {TYPE, ACCEPT, version, "Mcp-Method: " NO_METHOD, NULL};
        put_request(r, NO_METHOD, r->version, body, sizeof(body));
        probe_errors_check(
            r, &(struct expected){"unknown-method", 404, -32601, VERDICT_FAIL, VERDICT_FAIL},
            probe_post(r, nothing, body));
        return;
    }
    if (!r->session[0]) {
        probe_found(r, "session-unknown", VERDICT_SKIP, "the server keeps no sessions");
        return;
    }
    const char *unknown[] = {TYPE, ACCEPT, version,
                             "Mcp-Session-Id: 00000000-0000-4000-8000-000000000000", NULL};
    probe_errors_check(r, &(struct expected){"session-unknown", 404, 0, VERDICT_WARN, VERDICT_WARN},
                       probe_post(r, unknown, body));
    const char *none[] = {TYPE, ACCEPT, version, NULL};
    probe_errors_check(r, &(struct expected){"session-missing", 400, 0, VERDICT_WARN, VERDICT_WARN},
                       probe_post(r, none, body));
}

static void probe_errors_resources(struct run *r)
{
    if (!r->has_resources) {
        probe_found(r, "bad-params", VERDICT_SKIP, PROBE_NO_RESOURCES);
        probe_found(r, "unknown-resource", VERDICT_SKIP, PROBE_NO_RESOURCES);
        return;
    }
    check_code(r, &(struct wrong){"bad-params", "resources/list", "{\"cursor\":{}}", -32602,
                                  VERDICT_WARN});
    check_code(r, &(struct wrong){"unknown-resource", "resources/read", "{\"uri\":\"" NOWHERE "\"}",
                                  r->is_modern ? -32602 : -32002,
                                  r->is_modern ? VERDICT_FAIL : VERDICT_WARN});
}

void probe_errors(struct run *r)
{
    if (!r->is_http || !r->is_modern) { /* else the status counts too */
        check_code(r, &(struct wrong){"unknown-method", NO_METHOD, "{}", -32601,
                                      r->is_modern ? VERDICT_FAIL : VERDICT_WARN});
    }
    probe_errors_resources(r);
    if (r->is_http) {
        check_raw(r);
    } else {
        probe_found(r, "malformed", VERDICT_SKIP, "only tried over HTTP");
        probe_found(r, "origin", VERDICT_SKIP, "only tried over HTTP");
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define CHANGES 3u       /* changes per check */
#define SILENCE_MS 1000u /* minimum, before silence counts as no update */
#define SLOW_MS 1000u

struct tidings_client *probe_open(const struct run *r, bool receives, struct tidings_error *err)
{
    struct cli cli = r->cli;
    cli.list_changes = receives;
    struct tidings_client *client = target_open(&cli, err);
    if (client && tidings_client_connect(client, err) < 0) {
        r->probe->wants_login = tidings_client_wants_credentials(client);
        tidings_client_destroy(client);
        return NULL;
    }
    return client;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Returns true if an update of `uri` belongs to the subscription. Resources below a container
 * do. */
static bool probe_updates_is_ours(const struct run *r, const char *uri)
{
    size_t n = strlen(r->uri);
    bool is_container = n > 0 && r->uri[n - 1] == '/';
    return strcmp(uri, r->uri) == 0 || (is_container && strncmp(uri, r->uri, n) == 0);
}

/* The subscription id, in the modern era. */
static void take_id(struct received_messages *h, const char *id)
{
    h->early += !h->is_acknowledged ? 1 : 0;
    h->bare += !id ? 1 : 0;
    if (id && h->id[0] && strcmp(id, h->id) != 0) {
        snprintf(h->wrong_id, sizeof(h->wrong_id), "%.60s", id);
        h->wrong++;
    }
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    struct run *r = user;
    struct received_messages *h = &r->received;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/list_changed"))) {
        h->lists++;
        return;
    }
    bool is_acknowledgement =
        tidings_str_eq(method, TIDINGS_STR("notifications/subscriptions/acknowledged"));
    if (strncmp(method.ptr, "notifications/resources/", 24) != 0 && !is_acknowledgement) {
        return;
    }
    char *id = tidings_json_get(params, "/_meta/io.modelcontextprotocol~1subscriptionId");
    if (is_acknowledgement) {
        char *cursor = text_at(params, "/_meta/dev.tidings~1cursor");
        r->has_cursor = r->has_cursor || (cursor && *cursor);
        tidings_free(cursor);
        h->is_acknowledged = true;
        snprintf(h->id, sizeof(h->id), "%.60s", id ? id : "");
        tidings_free(id);
        return;
    }
    char *uri = text_at(params, "/uri");
    bool mine = uri && probe_updates_is_ours(r, uri);
    h->last_ms = now_ms();
    h->updates += mine ? 1 : 0;
    h->foreign += mine ? 0 : 1;
    if (!mine) {
        snprintf(h->foreign_uri, sizeof(h->foreign_uri), "%.100s", uri ? uri : "(none)");
    }
    if (r->is_modern) {
        take_id(h, id);
    }
    tidings_free(uri);
    tidings_free(id);
}

static void probe_updates_on_update(void *user, const struct tidings_update *u)
{
    struct run *r = user;
    bool is_same = tidings_str_eq(u->uri, tidings_str(r->uri));
    r->has_cursor = r->has_cursor || u->cursor.len > 0;
    r->received.bare += !r->is_modern && !is_same && u->subscribed_uri.len == 0 ? 1 : 0;
}

static void probe_updates_on_state(void *user, const struct tidings_state_event *e)
{
    struct run *r = user;
    if (e->state == TIDINGS_STATE_WATCHING && !r->received.is_watching) {
        r->received.is_watching = true;
        r->received.watched_ms = now_ms();
    }
    if (e->state == TIDINGS_STATE_REFUSED) {
        r->received.is_refused = true;
        r->received.refused_code = e->code;
    }
    if (e->state == TIDINGS_STATE_DISCONNECTED) {
        r->received.is_acknowledged = false;
        r->received.lost_ms = r->received.losses++ == 0 ? now_ms() : r->received.lost_ms;
    }
    if (e->reason.len > 0 && (r->received.losses <= 1 || e->state == TIDINGS_STATE_REFUSED)) {
        snprintf(r->received.reason, sizeof(r->received.reason), "%.*s", (int)e->reason.len,
                 e->reason.ptr);
    }
}

/* Run `client` for this time, or until `*enough` is not 0 (NULL: no condition). */
static int probe_step(struct tidings_client *client, uint64_t ms, const unsigned *enough,
                      struct tidings_error *err)
{
    uint64_t due = now_ms() + ms;
    unsigned before = enough ? *enough : 0;
    int rc = 1;
    for (uint64_t now = now_ms(); now < due && rc > 0; now = now_ms()) {
        if (enough && *enough > before) {
            return rc;
        }
        probe_waits(due - now);
        rc = tidings_client_step(client, (int)(due - now < 100 ? due - now : 100), err);
    }
    return rc;
}

/* Receive into r->received for this time, or until an update arrives. */
static void probe_listen(struct run *r, uint64_t ms, bool until_update)
{
    struct tidings_error err = {0};
    int rc = probe_step(r->client, ms, until_update ? &r->received.updates : NULL, &err);
    if (rc < 0 && !r->received.reason[0]) {
        snprintf(r->received.reason, sizeof(r->received.reason), "%.150s", err.text);
    }
}

/* How long no update must arrive before that counts as none. */
static uint64_t probe_silence(const struct run *r)
{
    uint64_t ms = 2 * r->delay_ms + PROBE_LATE_MS;
    ms = ms < SILENCE_MS ? SILENCE_MS : ms;
    return ms < r->probe->wait_ms ? ms : r->probe->wait_ms;
}

static enum verdict probe_stray_verdict(const struct run *r)
{
    return r->is_modern ? VERDICT_FAIL : VERDICT_WARN;
}

/* ---- the checks ------------------------------------------------------------------------------ */

/* Stop waiting after an acknowledgement for something else. */
static bool is_wrong_acknowledgement(const struct received_messages *h, uint64_t *since)
{
    if (h->is_acknowledged && *since == 0) {
        *since = now_ms();
    }
    return *since > 0 && now_ms() - *since >= SILENCE_MS;
}

static uint64_t reopened(const struct run *r)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    return info ? info->reopened : 0;
}

/* How often the stream ended cleanly and was reopened. */
static unsigned probe_reopened(const struct run *r)
{
    return (unsigned)(reopened(r) - r->received.reopened);
}

/* A server may refuse any URI, have no stream, or fail. It must not declare an unsupported
 * capability, and in the modern era it must acknowledge first. `rc`: the result of the wait. */
static enum verdict subscribe_verdict(const struct run *r, int rc)
{
    const struct received_messages *h = &r->received;
    bool is_unknown =
        h->refused_code == TIDINGS_E_UNSUPPORTED || (r->is_modern && rc == TIDINGS_E_UNSUPPORTED);
    bool is_answered = h->is_refused || rc < 0 || h->losses > 0;
    bool lacks_acknowledgement = r->is_modern && !is_answered;
    if (!r->declares_subscribe && !lacks_acknowledgement) {
        return VERDICT_SKIP;
    }
    return is_unknown || lacks_acknowledgement ? VERDICT_FAIL : VERDICT_WARN;
}

/* Subscribe the run's client and record the server's answer in r->received. NULL: not subscribed,
 * and r->received.reason gives the reason. */
static struct tidings_subscription *probe_subscribe(struct run *r)
{
    struct tidings_error err = {0};
    struct tidings_subscribe_options on = {.fn = probe_updates_on_update, .user = r};
    struct received_messages *h = &r->received;
    memset(h, 0, sizeof(*h));
    h->reopened = reopened(r);
    tidings_client_on_state(r->client, probe_updates_on_state, r);
    tidings_client_on_notification(r->client, on_notification, r);
    struct tidings_subscription *sub = tidings_client_subscribe(r->client, r->uri, &on, &err);
    uint64_t due = now_ms() + r->probe->wait_ms, since = 0;
    int rc = sub ? 1 : err.code;
    while (rc > 0 && !h->is_watching && !h->is_refused && !is_wrong_acknowledgement(h, &since) &&
           now_ms() < due) {
        rc = tidings_client_step(r->client, 100, &err);
    }
    if (h->is_watching) {
        return sub;
    }
    h->verdict = subscribe_verdict(r, rc);
    if (rc < 0 && !h->reason[0]) {
        snprintf(h->reason, sizeof(h->reason), "%.150s", err.text);
    } else if (h->is_acknowledged && !h->is_refused) {
        snprintf(h->reason, sizeof(h->reason),
                 "the acknowledgement names subscription %s, not the request it answers",
                 h->id[0] ? h->id : "(none)");
    } else if (!h->reason[0]) {
        snprintf(h->reason, sizeof(h->reason), "%s",
                 h->is_refused ? "refused" : "no acknowledgement in time");
    }
    tidings_subscription_end(sub);
    return NULL;
}

struct update_delays {
    unsigned made, received;
    uint64_t best, worst; /* ms */
    bool is_changed;      /* a change without an update: the content differs … */
    bool is_same;         /* … or is equal; neither: it is unreadable */
};

/* Make changes and check that updates arrive. */
static int change_and_receive(struct run *r, struct update_delays *t, struct tidings_error *err)
{
    bool is_made = probe_can_change(r);
    for (t->made = 0; t->made < CHANGES;) {
        unsigned before = r->received.updates;
        uint64_t content = is_made ? probe_content(r) : 0;
        uint64_t begun = now_ms();
        int rc = probe_change(r, r->client, err);
        if (rc < 0) {
            return rc;
        }
        if (r->probe->change) {
            begun = now_ms(); /* the change is made by now */
        }
        t->made++;
        probe_doing(r->probe, "change %u of %u: waiting for the update", t->made, CHANGES);
        probe_ask_person(r, t->made == 1 ? "three times in all" : "once more");
        probe_listen(r, r->probe->wait_ms, true);
        if (r->received.updates == before) {
            uint64_t after = content ? probe_content(r) : 0;
            t->is_changed = after != 0 && after != content;
            t->is_same = after != 0 && after == content;
            break;
        }
        uint64_t took = r->received.last_ms > begun ? r->received.last_ms - begun : 0;
        t->received++;
        t->best = t->received == 1 || took < t->best ? took : t->best;
        t->worst = took > t->worst ? took : t->worst;
        if (is_made && r->toggled != r->client) {
            probe_listen(r, PROBE_LATE_MS, false);
        }
    }
    r->is_notified = t->received > 0;
    r->delay_ms = t->worst;
    return 0;
}

static void report_updates(struct run *r, const struct update_delays *t)
{
    bool is_made = probe_can_change(r) && r->toggled != r->client;
    if (t->received == 0 && !probe_can_change(r)) {
        probe_found(r, "updates", VERDICT_SKIP,
                    "nothing changed within %.1f s; --change, --call or --touch brings that about",
                    (double)r->probe->wait_ms / 1000);
    } else if (t->received < t->made && is_made) {
        probe_found(r, "updates", VERDICT_FAIL,
                    "%u of %u changes were notified within %.1f s; %.100s", t->received, t->made,
                    (double)r->probe->wait_ms / 1000,
                    r->received.reason[0] ? r->received.reason
                    : t->is_changed       ? "the resource reads differently now"
                    : t->is_same          ? "the resource reads as before: was it changed?"
                                 : "it cannot be read, so whether it changed is not known");
    } else if (t->received == 0) {
        probe_found(r, "updates", VERDICT_FAIL, "nothing within %.1f s",
                    (double)r->probe->wait_ms / 1000);
    } else if (is_made) {
        probe_found(r, "updates", VERDICT_PASS, "%u changes, all were notified", t->received);
    } else {
        probe_found(r, "updates", VERDICT_PASS, "%u updates came by themselves", t->received);
    }
    if (t->received == 0 || !is_made) {
        probe_found(r, "latency", VERDICT_SKIP, "no notification of a change with a known time");
    } else {
        probe_found(r, "latency", t->worst > SLOW_MS ? VERDICT_WARN : VERDICT_PASS,
                    "%llu to %llu ms from %s to the update", (unsigned long long)t->best,
                    (unsigned long long)t->worst,
                    r->probe->change ? "the end of the command" : "the call of the tool");
    }
}

static void report_received(struct run *r)
{
    const struct received_messages *h = &r->received;
    if (h->foreign > 0) {
        probe_found(r, "filtered", probe_stray_verdict(r), "%u updates of something else, as %s",
                    h->foreign, h->foreign_uri);
    } else if (h->updates > 0) {
        probe_found(r, "filtered", VERDICT_PASS, "%u updates, all of what was subscribed to",
                    h->updates);
    } else {
        probe_found(r, "filtered", VERDICT_SKIP, "no notification");
    }
    unsigned all = h->updates + h->foreign;
    if (all == 0) {
        probe_found(r, "correlated", VERDICT_SKIP, "no notification");
    } else if (h->wrong > 0) {
        probe_found(r, "correlated", VERDICT_FAIL,
                    "%u of %u updates name subscription %s; it was acknowledged as %s", h->wrong,
                    all, h->wrong_id, h->id);
    } else if (h->bare > 0) {
        probe_found(r, "correlated", r->is_modern ? VERDICT_FAIL : VERDICT_WARN,
                    "%u of %u updates do not say which subscription they belong to", h->bare, all);
    } else {
        probe_found(r, "correlated", VERDICT_PASS, "each of %u updates names its subscription",
                    all);
    }
}

/* Modern: the acknowledgement. */
static void report_acknowledged(struct run *r)
{
    const struct received_messages *h = &r->received;
    if (h->early > 0) {
        probe_found(r, "acknowledged", VERDICT_FAIL, "%u updates came before the acknowledgement",
                    h->early);
    } else if (!h->id[0]) {
        probe_found(r, "acknowledged", VERDICT_FAIL, "the acknowledgement has no subscriptionId");
    } else {
        probe_found(r, "acknowledged", VERDICT_PASS, "first, as subscription %s", h->id);
    }
}

/* The state of the connection during the check. */
static void report_stream(struct run *r)
{
    const struct received_messages *h = &r->received;
    double lived = (double)((h->losses > 0 ? h->lost_ms : now_ms()) - h->watched_ms) / 1000;
    if (h->losses > 0) {
        probe_found(r, "stream", VERDICT_WARN, "lost %u times, first after %.1f s: %.120s",
                    h->losses, lived, h->reason);
    } else if (probe_reopened(r) > 0) {
        probe_found(r, "stream", VERDICT_WARN,
                    "ended %u times within %.1f s, and was taken up again after Last-Event-ID",
                    probe_reopened(r), lived);
    } else {
        probe_found(r, "stream", VERDICT_PASS, "open for %.1f s", lived);
    }
    r->watched_ms += (uint64_t)(lived * 1000);
}

/* Unsubscribe, and record what still arrives. */
static void check_unsubscribe(struct run *r, struct tidings_subscription *sub)
{
    struct tidings_error err = {0};
    tidings_subscription_end(sub);
    probe_listen(r, PROBE_LATE_MS, false);
    char *answer = tidings_client_request(r->client, "resources/list", "{}", &err);
    tidings_free(answer); /* any answer: earlier messages have been handled */
    probe_listen(r, PROBE_LATE_MS, false);
    if (!r->is_notified) {
        probe_found(r, "unsubscribe", VERDICT_SKIP, "no notification before it");
        return;
    }
    memset(&r->received, 0, sizeof(r->received));
    if (probe_change(r, r->client, &err) < 0) {
        probe_found(r, "unsubscribe", VERDICT_SKIP, "%.150s", err.text);
        return;
    }
    uint64_t silence = probe_silence(r);
    probe_doing(r->probe, "nothing must come after unsubscribing");
    probe_ask_person(r, "once more: nothing must come");
    probe_listen(r, silence, false);
    unsigned late = r->received.updates + r->received.foreign;
    probe_found(r, "unsubscribe", late > 0 ? probe_stray_verdict(r) : VERDICT_PASS,
                "%u updates within %.1f s after it", late, (double)silence / 1000);
}

static void probe_lists(struct run *r, struct other *o);

static void probe_other_report(struct run *r, const struct other *o);

static void probe_other_open(struct run *r, struct other *o);

void probe_updates(struct run *r)
{
    struct tidings_error err = {0};
    struct update_delays told = {0};
    struct other other = {0};
    if (r->uri) {
        probe_doing(r->probe, "subscribing to %.100s", r->uri);
    }
    struct tidings_subscription *sub = r->uri ? probe_subscribe(r) : NULL;
    if (!sub) {
        if (r->uri) {
            probe_found(r, "subscribe", r->received.verdict, "%.80s: %.100s%s", r->uri,
                        r->received.reason,
                        r->declares_subscribe ? "" : "; resources.subscribe is not declared");
        }
        return;
    }
    probe_found(r, "subscribe", VERDICT_PASS, "%.120s, accepted", r->uri);
    probe_other_open(r, &other);
    if (change_and_receive(r, &told, &err) < 0) {
        probe_found(r, "updates", VERDICT_SKIP, "no change was made: %.150s", err.text);
    } else {
        report_updates(r, &told);
    }
    report_received(r);
    if (r->is_modern) {
        report_acknowledged(r);
    }
    probe_other_report(r, &other);
    probe_lists(r, &other);
    tidings_client_destroy(other.client);
    report_stream(r);
    check_unsubscribe(r, sub);
}

/* -------------------------------------------------------------------------------------------------
 * `tidings probe`: checks the stream itself: whether it survives silence, which changes are lost if
 * it is cut, and how a session ends.
 */

#define LINE_BYTES 4096u
#define HEADER_BYTES 640u
#define PATIENT_MS 60000u /* proxies close idle streams after about this time */

/* A stream of events as it arrives. */
struct stream {
    struct run *run;
    struct tidings_client *by; /* the client that owns the session */
    char line[LINE_BYTES];
    size_t len;
    char last_id[512], cursor[128];
    unsigned updates;
    bool changes; /* make a change once the stream is open */
};

/* The cursor in the form that tidings servers send it. */
static void probe_stream_take_cursor(struct stream *s)
{
    static const char name[] = "\"dev.tidings/cursor\":\"";
    const char *at = strstr(s->line, name);
    if (at) {
        at += sizeof(name) - 1;
        snprintf(s->cursor, sizeof(s->cursor), "%.*s", (int)strcspn(at, "\"\\"), at);
    }
}

static void probe_stream_take_line(struct stream *s)
{
    s->line[s->len] = '\0';
    if (strncmp(s->line, "id:", 3) == 0) {
        const char *id = s->line + 3 + (s->line[3] == ' ');
        snprintf(s->last_id, sizeof(s->last_id), "%.500s", id);
    }
    if (strncmp(s->line, "data:", 5) == 0 && strstr(s->line, "notifications/resources/updated")) {
        s->updates++;
        probe_stream_take_cursor(s);
    }
    s->len = 0;
}

static void probe_stream_take_bytes(struct stream *s, struct tidings_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] == '\n') {
            s->len -= s->len > 0 && s->line[s->len - 1] == '\r' ? 1 : 0;
            probe_stream_take_line(s);
        } else if (s->len + 1 < sizeof(s->line)) {
            s->line[s->len++] = bytes.ptr[i];
        }
    }
}

static int probe_stream_on_bytes(void *user, long status, struct tidings_str bytes)
{
    struct stream *s = user;
    struct tidings_error err = {0};
    if (status != 200) {
        return 1;
    }
    probe_stream_take_bytes(s, bytes);
    if (s->changes) {
        s->changes = false;
        s->updates = 0;
        return probe_change(s->run, s->by, &err) < 0;
    }
    return s->updates > 0 && s->len == 0;
}

static char *listen_body(const struct run *r, const char *since)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fputs("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"
          "\"notifications\":{\"resourceSubscriptions\":[",
          t.out);
    put_quoted(t.out, tidings_str(r->uri));
    fprintf(t.out,
            "]},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"%s\","
            "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"tidings\",\"version\":\"0\"},"
            "\"io.modelcontextprotocol/clientCapabilities\":{}",
            r->version);
    if (since) {
        fprintf(t.out, ",\"dev.tidings/options\":{\"since\":\"%s\"}", since);
    }
    fputs("}}}", t.out);
    return json_text_take(&t);
}

/* Read from the server until `s` has enough, for at most this time; returns the result of
 * tidings_client_http. */
static int probe_stream_receive(struct stream *s, const char *after, uint64_t ms,
                                struct tidings_client_http_answer *ret, struct tidings_error *err)
{
    const struct run *r = s->run;
    char version[HEADER_BYTES], session[HEADER_BYTES], last[HEADER_BYTES];
    const struct tidings_client_info *info = tidings_client_info(s->by);
    snprintf(version, sizeof(version), "MCP-Protocol-Version: %s", r->version);
    snprintf(session, sizeof(session), "Mcp-Session-Id: %s", info ? info->session : "");
    snprintf(last, sizeof(last), "Last-Event-ID: %s", after ? after : "");
    const char *modern[] = {"Content-Type: application/json",
                            "Accept: application/json, text/event-stream", version,
                            "Mcp-Method: subscriptions/listen", NULL};
    const char *legacy[] = {"Accept: text/event-stream", version, session, after ? last : NULL,
                            NULL};
    char *body = r->is_modern ? listen_body(r, after) : NULL;
    struct tidings_client_http request = {
        .method = r->is_modern ? "POST" : "GET",
        .headers = r->is_modern ? modern : legacy,
        .body = body,
        .timeout_ms = (uint32_t)(ms < 86400000 ? ms : 86400000),
        .on_bytes = probe_stream_on_bytes,
        .user = s,
    };
    int rc = tidings_client_http(s->by, &request, ret, err);
    free(body);
    return rc;
}

/* A client that has not opened its stream yet; legacy: it has subscribed. */
static struct tidings_client *open_subscribed(struct run *r, struct tidings_error *err)
{
    struct json_text t;
    struct tidings_client *client = probe_open(r, false, err);
    if (!client || r->is_modern || !json_text_begin(&t)) {
        return client;
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(r->uri));
    fputc('}', t.out);
    char *params = json_text_take(&t);
    char *answer = tidings_client_request(client, "resources/subscribe", params, err);
    free(params);
    if (!answer) {
        tidings_client_destroy(client);
        return NULL;
    }
    tidings_free(answer);
    return client;
}

static void pause_for(uint64_t ms)
{
    struct timespec ts = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

/* ---- interruption ---------------------------------------------------------------------------- */

/* Cut the stream, make a change, resume. */
static void probe_stream_interrupt(struct run *r, struct tidings_client *by)
{
    struct tidings_client_http_answer answer;
    struct tidings_error err = {0};
    struct stream first = {.run = r, .by = by, .changes = true};
    if (probe_stream_receive(&first, NULL, r->probe->wait_ms, &answer, &err) < 0 ||
        first.updates == 0) {
        probe_found(r, "resume", VERDICT_SKIP, "nothing came on the stream itself (HTTP %ld)",
                    answer.status);
        return;
    }
    if (probe_change(r, by, &err) < 0) {
        probe_found(r, "resume", VERDICT_SKIP, "%.150s", err.text);
        return;
    }
    pause_for(probe_silence(r)); /* so that it happens while no stream is open */
    struct stream second = {.run = r, .by = by};
    const char *after = r->is_modern ? first.cursor : first.last_id;
    after = after[0] ? after : NULL;
    int rc = probe_stream_receive(&second, after, probe_silence(r), &answer, &err);
    if (second.updates > 0) {
        probe_found(r, "resume", VERDICT_PASS, "changes during the interruption were replayed %s",
                    r->is_modern ? "after dev.tidings/cursor"
                    : after      ? "after Last-Event-ID"
                                 : "when the stream came back");
    } else if (rc < 0 && answer.status == 0) {
        probe_found(r, "resume", VERDICT_WARN, "the stream could not be opened again: %.120s",
                    err.text);
    } else {
        probe_found(r, "resume", VERDICT_WARN, "%s: changes during an interruption are lost",
                    r->is_modern ? "the cursor brings nothing back"
                    : after      ? "Last-Event-ID brings nothing back"
                                 : "events have no ids");
    }
}

static void check_resume(struct run *r)
{
    struct tidings_error err = {0};
    if (r->is_modern && !r->has_cursor) {
        probe_found(r, "resume", VERDICT_SKIP,
                    "this revision cannot resume: changes during an interruption are lost");
    } else if (!r->is_http) {
        probe_found(r, "resume", VERDICT_SKIP, "only tried over HTTP");
    } else if (!r->is_notified || !probe_can_change(r) || r->toggled) {
        probe_found(r, "resume", VERDICT_SKIP, "needs changes at a known moment");
    } else {
        struct tidings_client *by = open_subscribed(r, &err);
        if (by) {
            probe_stream_interrupt(r, by);
        } else {
            probe_found(r, "resume", VERDICT_SKIP, "%.150s", err.text);
        }
        tidings_client_destroy(by);
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

/* Keep the stream open, and make a change after this time. */
static void probe_stream_through_silence(struct run *r)
{
    const struct received_messages *h = &r->received;
    struct tidings_error err = {0};
    struct tidings_subscription *sub = probe_subscribe(r);
    if (!sub) {
        probe_found(r, "idle", VERDICT_SKIP, "%.150s", h->reason);
        return;
    }
    probe_doing(r->probe, "staying silent");
    (void)probe_step(r->client, r->probe->idle_ms, &h->losses, NULL);
    unsigned before = h->updates;
    bool is_changed = h->losses == 0 && probe_can_change(r) && r->toggled != r->client;
    if (is_changed && probe_change(r, r->client, &err) == 0) {
        probe_listen(r, r->probe->wait_ms, true);
    }
    double lived = (double)((h->losses > 0 ? h->lost_ms : now_ms()) - h->watched_ms) / 1000;
    r->watched_ms += (uint64_t)(lived * 1000);
    if (h->losses > 0) {
        probe_found(r, "idle", VERDICT_WARN, "the stream ended after %.1f s: %.120s", lived,
                    h->reason);
    } else if (err.code < 0) {
        probe_found(r, "idle", VERDICT_SKIP, "%.150s", err.text);
    } else if (is_changed && h->updates == before) {
        probe_found(r, "idle", VERDICT_FAIL, "open, but a change after %.1f s was not notified",
                    (double)r->probe->idle_ms / 1000);
    } else if (probe_reopened(r) > 0) {
        probe_found(r, "idle", VERDICT_WARN,
                    "ended %u times within %.1f s, and was taken up again after Last-Event-ID",
                    probe_reopened(r), lived);
    } else {
        probe_found(r, "idle", VERDICT_PASS, "lived %.1f s%s", lived,
                    is_changed ? " and told the next change" : "");
    }
    tidings_subscription_end(sub);
}

static void check_keep_alive(struct run *r)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    double watched = (double)r->watched_ms / 1000;
    if (info && info->beats > 0) {
        probe_found(r, "keep-alive", VERDICT_PASS, "%llu, after silence of at most %.1f s",
                    (unsigned long long)info->beats, (double)info->beat_ms / 1000);
    } else if (r->watched_ms < PATIENT_MS) {
        probe_found(r, "keep-alive", VERDICT_SKIP, "none within %.1f s; --idle listens for longer",
                    watched);
    } else {
        probe_found(r, "keep-alive", VERDICT_WARN, "none within %.1f s", watched);
    }
}

static void check_idle(struct run *r)
{
    if (r->probe->idle_ms == 0) {
        probe_found(r, "idle", VERDICT_SKIP, "not tested; --idle TIME stays silent that long");
    } else {
        probe_stream_through_silence(r);
    }
    if (r->watched_ms > 0) {
        check_keep_alive(r);
    }
}

/* ---- the end of a session -------------------------------------------------------------------- */

static void check_session_end(struct run *r)
{
    struct tidings_error err = {0};
    char version[HEADER_BYTES], session[HEADER_BYTES];
    struct tidings_client_http_answer answer = {0};
    struct tidings_client *by = probe_open(r, false, &err);
    const struct tidings_client_info *info = by ? tidings_client_info(by) : NULL;
    if (!info || !info->session[0]) {
        probe_found(r, "session-end", VERDICT_SKIP, "no session");
        tidings_client_destroy(by);
        return;
    }
    snprintf(version, sizeof(version), "MCP-Protocol-Version: %s", r->version);
    snprintf(session, sizeof(session), "Mcp-Session-Id: %s", info->session);
    const char *lines[] = {"Content-Type: application/json",
                           "Accept: application/json, text/event-stream", version, session, NULL};
    struct tidings_client_http end = {.method = "DELETE", .headers = lines + 2};
    (void)tidings_client_http(by, &end, &answer, &err);
    if (answer.status == 405) {
        probe_found(r, "session-end", VERDICT_SKIP, "the server lets no client end it (HTTP 405)");
    } else if (answer.status < 200 || answer.status > 299) {
        probe_found(r, "session-end", VERDICT_WARN, "DELETE: HTTP %ld", answer.status);
    } else {
        struct raw_answer a = probe_post(
            r, lines, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{}}");
        probe_found(r, "session-end", a.status == 404 ? VERDICT_PASS : VERDICT_FAIL,
                    "DELETE: HTTP %ld, afterwards HTTP %ld", answer.status, a.status);
    }
    tidings_client_destroy(by);
}

void probe_streams(struct run *r)
{
    if (r->is_http && !r->is_modern && r->session[0]) {
        check_session_end(r);
    }
    if (r->uri) {
        check_resume(r);
        check_idle(r);
    }
}

/* -------------------------------------------------------------------------------------------------
 * `tidings probe` with a second client, which does not subscribe to the resource but wants list
 * changes; the first client does the opposite. So each must receive one kind of message and not the
 * other.
 */

#define STEP_MS 50u

static void probe_others_on_notification(void *user, struct tidings_str method,
                                         struct tidings_str params)
{
    struct other *o = user;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/list_changed"))) {
        char *id = tidings_json_get(params, "/_meta/io.modelcontextprotocol~1subscriptionId");
        o->lists++;
        o->bare += id ? 0 : 1;
        tidings_free(id);
    } else if (tidings_str_eq(method, TIDINGS_STR("notifications/resources/updated"))) {
        char *uri = text_at(params, "/uri");
        snprintf(o->uri, sizeof(o->uri), "%.100s", uri && *uri ? uri : "(none)");
        o->updates++;
        tidings_free(uri);
    } else if (tidings_str_eq(method, TIDINGS_STR("notifications/subscriptions/acknowledged"))) {
        o->is_acknowledged = true;
    }
}

static void probe_others_on_state(void *user, const struct tidings_state_event *e)
{
    struct other *o = user;
    o->losses += e->state == TIDINGS_STATE_DISCONNECTED ? 1 : 0;
}

/* Returns true if the clients are served by separate processes, which share no subscriptions. */
static bool is_apart(const struct run *r)
{
    return r->cli.launch && !r->probe->change_list;
}

static void probe_other_open(struct run *r, struct other *o)
{
    struct tidings_error err = {0};
    if (is_apart(r)) {
        return;
    }
    o->client = probe_open(r, true, &err);
    if (!o->client) {
        return;
    }
    tidings_client_on_notification(o->client, probe_others_on_notification, o);
    tidings_client_on_state(o->client, probe_others_on_state, o);
    uint64_t due = now_ms() + r->probe->wait_ms;
    int rc = 1;
    while (r->is_modern && !o->is_acknowledged && rc > 0 && now_ms() < due) {
        rc = tidings_client_step(o->client, STEP_MS, NULL);
    }
    if (!r->is_modern) {
        (void)probe_step(o->client, PROBE_LATE_MS, NULL, NULL); /* it is not acknowledged */
    }
}

static void probe_other_report(struct run *r, const struct other *o)
{
    if (!o->client || r->cli.launch) {
        probe_found(r, "bystander", VERDICT_SKIP, "%s",
                    r->cli.launch ? "a launched server has one client"
                                  : "no second client could connect");
        return;
    }
    (void)probe_step(o->client, PROBE_LATE_MS, NULL, NULL);
    if (o->updates > 0) {
        probe_found(r, "bystander", probe_stray_verdict(r),
                    "%u updates for a client that never subscribed, as %s", o->updates, o->uri);
    } else if (!r->is_notified) {
        probe_found(r, "bystander", VERDICT_SKIP, "nothing changed");
    } else {
        probe_found(r, "bystander", VERDICT_PASS,
                    "a client that did not subscribe received nothing");
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The number of clients that must receive the list change. Modern: the clients that requested it;
 * legacy, where clients cannot request it: all. */
static unsigned probe_others_expected(const struct run *r, const struct other *o)
{
    return o->lists + (r->is_modern ? 0 : r->received.lists);
}

/* Change the list and check the notification: 1, or 0: the list cannot be changed, or a negative
 * code. */
static int change_list_and_receive(struct run *r, struct other *o, uint64_t *took, bool *ret_same)
{
    struct tidings_error err = {0};
    struct tidings_client *by = o->client ? o->client : r->client;
    unsigned before = probe_others_expected(r, o);
    uint64_t list = probe_list(r);
    uint64_t begun = now_ms();
    int rc = probe_change_list(r, by, &err);
    if (rc < 0) {
        probe_found(r, "list-changed", VERDICT_SKIP, "%.150s", err.text);
    }
    if (rc <= 0) {
        return rc;
    }
    int alive = 1;
    while (alive > 0 && probe_others_expected(r, o) == before &&
           now_ms() - begun < r->probe->wait_ms) {
        alive = o->client ? tidings_client_step(o->client, STEP_MS, NULL) : 1;
        alive = alive > 0 ? tidings_client_step(r->client, o->client ? 0 : STEP_MS, NULL) : alive;
    }
    *took = now_ms() - begun;
    uint64_t after = probe_list(r);
    *ret_same = list != 0 && list == after;
    probe_listen(r, PROBE_LATE_MS, false); /* for unexpected updates */
    probe_restore_list(r, by);
    return 1;
}

static void report_lists(struct run *r, const struct other *o, int provoked, bool is_same,
                         uint64_t took)
{
    const struct tidings_client_info *info = tidings_client_info(r->client);
    bool is_said = info && is_true_at(tidings_str(info->capabilities), "/resources/listChanged");
    double s = (double)r->probe->wait_ms / 1000;
    unsigned n = probe_others_expected(r, o);
    if (n > 0 && !is_said) {
        probe_found(r, "list-changed", VERDICT_WARN, "%u came, though it is not advertised", n);
    } else if (r->is_modern && o->bare > 0) {
        probe_found(r, "list-changed", VERDICT_FAIL,
                    "%u of %u came without the subscriptionId of their subscription", o->bare, n);
    } else if (n > 0 && provoked) {
        probe_found(r, "list-changed", VERDICT_PASS, "notified %llu ms after the list changed",
                    (unsigned long long)took);
    } else if (n > 0) {
        probe_found(r, "list-changed", VERDICT_PASS, "%u came, as advertised", n);
    } else if (!provoked) {
        probe_found(r, "list-changed", VERDICT_SKIP,
                    "%sadvertised; no list changed during the probe (--change-list)",
                    is_said ? "" : "not ");
    } else if (!is_said) {
        probe_found(r, "list-changed", VERDICT_SKIP, "not advertised, and not told");
    } else {
        probe_found(r, "list-changed", VERDICT_WARN, "nothing within %.1f s; %s%s", s,
                    is_same ? "the list reads as before: was it changed?"
                            : "the list reads differently now",
                    o->losses > 0 ? "; the stream was lost during the probe" : "");
    }
}

/* to wait for late messages about the previous change */
static void probe_lists(struct run *r, struct other *o)
{
    uint64_t took = 0;
    bool is_same = false;
    int provoked = change_list_and_receive(r, o, &took, &is_same);
    if (provoked >= 0) {
        report_lists(r, o, provoked, is_same, took);
    }
    if (!r->is_modern) {
        return;
    }
    if (r->received.lists > 0) {
        probe_found(r, "list-unasked", VERDICT_FAIL,
                    "%u came to a client that asked only for updates of resources",
                    r->received.lists);
    } else if (o->lists == 0) {
        probe_found(r, "list-unasked", VERDICT_SKIP, "no list changed during the probe");
    } else {
        probe_found(r, "list-unasked", VERDICT_PASS,
                    "a client that did not ask for it received nothing");
    }
}
