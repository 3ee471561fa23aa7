/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: checks of the stream itself, whether it lives through silence, what is lost when
 * it is cut, and the end of a session.
 */
#include <stdlib.h>
#include <time.h>

#include "bin/cli/output.h"
#include "bin/probe/probe.h"
#include "bin/remote/remote.h"

#define LINE_BYTES 4096u
#define HEADER_BYTES 640u
#define PATIENT_MS 60000u /* what stands between closes silent streams about then */

/* A stream of events as it comes. */
struct stream {
    struct run *run;
    struct tidings_client *by; /* whose session it is */
    char line[LINE_BYTES];
    size_t len;
    char last_id[512], cursor[128];
    unsigned updates;
    bool changes; /* as soon as it is open, something is changed */
};

/* How ours says up to where everything was told. */
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

/* Hear the server until `s` has enough, at most so long: what tidings_client_http returns. */
static int probe_stream_hear(struct stream *s, const char *after, uint64_t ms,
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

/* A client whose stream is still to be opened; legacy: it has subscribed. */
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

/* Cut the stream, change something, come back. */
static void probe_stream_interrupt(struct run *r, struct tidings_client *by)
{
    struct tidings_client_http_answer answer;
    struct tidings_error err = {0};
    struct stream first = {.run = r, .by = by, .changes = true};
    if (probe_stream_hear(&first, NULL, r->probe->wait_ms, &answer, &err) < 0 ||
        first.updates == 0) {
        probe_found(r, "resume", VERDICT_SKIP, "nothing came on the stream itself (HTTP %ld)",
                    answer.status);
        return;
    }
    if (probe_change(r, by, &err) < 0) {
        probe_found(r, "resume", VERDICT_SKIP, "%.150s", err.text);
        return;
    }
    pause_for(probe_silence(r)); /* so that it happens while nobody listens */
    struct stream second = {.run = r, .by = by};
    const char *after = r->is_modern ? first.cursor : first.last_id;
    after = after[0] ? after : NULL;
    int rc = probe_stream_hear(&second, after, probe_silence(r), &answer, &err);
    if (second.updates > 0) {
        probe_found(r, "resume", VERDICT_PASS, "what changed meanwhile was told %s",
                    r->is_modern ? "after dev.tidings/cursor"
                    : after      ? "after Last-Event-ID"
                                 : "when the stream came back");
    } else if (rc < 0 && answer.status == 0) {
        probe_found(r, "resume", VERDICT_WARN, "the stream could not be opened again: %.120s",
                    err.text);
    } else {
        probe_found(r, "resume", VERDICT_WARN, "%s: what changes while the stream is cut is lost",
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
                    "this revision resumes nothing: what changes while the stream is cut is lost");
    } else if (!r->is_http) {
        probe_found(r, "resume", VERDICT_SKIP, "only tried over HTTP");
    } else if (!r->is_told || !probe_can_change(r) || r->toggled) {
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

/* Listen, and after so long change something. */
static void probe_stream_through_silence(struct run *r)
{
    const struct heard_messages *h = &r->heard;
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
        probe_found(r, "idle", VERDICT_FAIL, "open, but a change after %.1f s was not told",
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
        probe_found(r, "idle", VERDICT_SKIP, "--idle TIME stays silent for so long");
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
