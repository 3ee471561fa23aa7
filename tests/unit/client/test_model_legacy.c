/* SPDX-License-Identifier: MIT
 *
 * Random runs with legacy servers over Streamable HTTP: requests that overtake one another, are not
 * handled, or lose their answer; streams that break or end cleanly; dropped sessions; server
 * restarts. With event ids, with cursors, with both, with neither. Also over lines, where the
 * connection is the session. See support/client_model.h.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/client_model.h"
#include "support/fake_fetch.h"
#include "support/fake_transport.h"

#define SESSIONS 64
#define EVENTS 512
#define EVENT_BYTES 448

struct session {
    bool is_alive;
    bool is_used; /* the client receives its stream */
    bool names[MODEL_SLOTS];
    int held[MODEL_SLOTS][MODEL_URIS]; /* the first delayed change, 0: none */
    struct fetch_transfer *stream;     /* NULL: no receiver */
    bool is_line;                      /* the connection receives it */
    char log[EVENTS][EVENT_BYTES];     /* with event ids: the sent messages, number 1 first */
    int logged;
};

struct server {
    struct model *model;
    struct fake_net net;
    struct fake fake;
    struct session sessions[SESSIONS];
    int count;
    bool has_events;
};

static struct server server;

static struct session *latest(void)
{
    return server.count > 0 ? &server.sessions[server.count - 1] : NULL;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void send_event(const struct session *s, int number)
{
    char text[1024];
    if (server.has_events) {
        snprintf(text, sizeof(text), "id: %d\ndata: %s\n\n", number, s->log[number - 1]);
    } else {
        snprintf(text, sizeof(text), "data: %s\n\n", s->log[0]);
    }
    fake_transfer_bytes(s->stream, text);
}

/* A message without a receiver is lost, unless it is kept for a resuming client. */
static void say(struct session *s, const char *text)
{
    if (s->is_line) {
        fake_say(&server.fake, text);
        return;
    }
    s->logged = server.has_events ? s->logged : 0;
    if (s->logged == EVENTS || strlen(text) >= EVENT_BYTES) {
        abort();
    }
    snprintf(s->log[s->logged++], EVENT_BYTES, "%s", text);
    if (s->stream) {
        send_event(s, s->logged);
    }
}

static int cursor_of(const struct model *m, const struct session *s)
{
    int cursor = m->seq;
    for (int k = 0; k < MODEL_SLOTS * MODEL_URIS; k++) {
        int held = s->held[k / MODEL_URIS][k % MODEL_URIS];
        cursor = held > 0 && held <= cursor ? held - 1 : cursor;
    }
    return cursor;
}

static void say_update(struct model *m, struct session *s, int slot, int uri)
{
    char text[512];
    model_put_update(m, text, slot, uri, 0, cursor_of(m, s));
    say(s, text);
}

static void flush(struct model *m, struct session *s, int slot)
{
    for (int i = 0; i < MODEL_URIS; i++) {
        if (s->held[slot][i] > 0) {
            s->held[slot][i] = 0;
            say_update(m, s, slot, i);
        }
    }
}

static void flush_server(struct model *m)
{
    for (int k = 0; k < server.count * MODEL_SLOTS; k++) {
        struct session *s = &server.sessions[k / MODEL_SLOTS];
        if (s->is_alive) {
            flush(m, s, k % MODEL_SLOTS);
        }
    }
}

static void hold(const struct model *m, struct session *s, int slot, int uri)
{
    if (s->names[slot] && s->held[slot][uri] == 0) {
        s->held[slot][uri] = m->seq;
    }
}

/* The model records all updates due for a change before it sends any: see cursor_of. */
static void changed(struct model *m, int uri)
{
    for (int k = 0; k < server.count; k++) {
        struct session *s = &server.sessions[k];
        if (!s->is_alive) {
            continue;
        }
        hold(m, s, uri, uri);
        hold(m, s, MODEL_ROOT, uri);
        if (m->is_calm || model_roll(m, 3) > 0) {
            flush(m, s, uri);
        }
        if (m->is_calm || model_roll(m, 3) > 0) {
            flush(m, s, MODEL_ROOT);
        }
    }
}

/* ---- methods --------------------------------------------------------------------------------- */

static struct session *begin_session(bool is_line)
{
    if (server.count == SESSIONS) {
        abort();
    }
    if (is_line && server.count > 0) {
        latest()->is_alive = false; /* its connection is gone */
    }
    struct session *s = &server.sessions[server.count++];
    memset(s, 0, sizeof(*s));
    s->is_alive = true;
    s->is_line = is_line;
    return s;
}

/* The result, as JSON. */
static void subscribe(struct model *m, struct session *s, struct json *params, char out[512])
{
    int slot = model_slot(jv_str(jv_get(params, "uri")));
    int since = model_since(m, jv_get(jv_get(params, "_meta"), "dev.tidings/options"));
    char meta[128], text[512];
    s->names[slot] = true;
    for (int i = 0; since >= 0 && i < MODEL_URIS; i++) {
        int *held = &s->held[slot][i];
        if (model_covers(slot, i) && m->values[i] > since) {
            *held = *held > 0 && *held <= since ? *held : since + 1;
        }
    }
    model_put_meta(m, meta, 0, cursor_of(m, s));
    snprintf(out, 512, "{\"_meta\":{%s\"x\":0}}", meta);
    if (since == -2) {
        model_put_truncated(m, text, slot, 0, cursor_of(m, s));
        say(s, text);
    }
    if (since != -1) {
        flush(m, s, slot);
    }
}

/* false: the client wants no answer. */
static bool answer(struct model *m, struct session *s, const char *method, struct json *params,
                   char out[512])
{
    if (model_put_answer(m, out, method, params)) {
        return true;
    }
    snprintf(out, 512, "{}");
    if (strcmp(method, "initialize") == 0) {
        snprintf(out, 512,
                 "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":"
                 "{\"subscribe\":true}},\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}");
    } else if (strcmp(method, "resources/subscribe") == 0) {
        subscribe(m, s, params, out);
    } else if (strcmp(method, "resources/unsubscribe") == 0) {
        int slot = model_slot(jv_str(jv_get(params, "uri")));
        s->names[slot] = false;
        memset(s->held[slot], 0, sizeof(s->held[slot]));
    }
    return strncmp(method, "notifications/", 14) != 0;
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static struct session *find_session(const struct fetch_transfer *t)
{
    const char *id = fake_transfer_header(t, "Mcp-Session-Id");
    struct session *s = id ? &server.sessions[strtol(id + 2, NULL, 10)] : NULL;
    if (s && strcmp(fake_transfer_method(t), "GET") == 0) {
        s->is_used = true;
    }
    return s && s->is_alive ? s : NULL;
}

static void reply(struct fetch_transfer *t, long status, const char *session)
{
    fake_transfer_head(t, status, "text/plain", session);
    fake_transfer_end(t);
}

static void on_get(struct model *m, struct session *s, struct fetch_transfer *t)
{
    const char *last = fake_transfer_header(t, "Last-Event-ID");
    if (s->stream) {
        fake_transfer_end(s->stream); /* one is enough */
    }
    fake_transfer_head(t, 200, "text/event-stream", "");
    s->stream = t;
    if (last) {
        for (int n = (int)strtol(last, NULL, 10) + 1; n <= s->logged; n++) {
            send_event(s, n);
        }
    } else if (server.has_events && model_roll(m, 2) == 0) {
        char text[64];
        snprintf(text, sizeof(text), "id: %d\ndata:\n\n", s->logged);
        fake_transfer_bytes(t, text);
    }
}

static void on_post(struct model *m, struct fetch_transfer *t, struct json *root)
{
    struct session *s = find_session(t);
    char method[64], result[512], text[640], id[16] = "";
    snprintf(method, sizeof(method), "%.*s", STR_ARG(jv_str(jv_get(root, "method"))));
    if (strcmp(method, "server/discover") == 0) {
        reply(t, 400, "");
        return;
    }
    bool is_first = strcmp(method, "initialize") == 0;
    if (is_first == (fake_transfer_header(t, "Mcp-Session-Id") != NULL) || (!is_first && !s)) {
        reply(t, 404, "");
        return;
    }
    if (is_first) {
        s = begin_session(false);
        snprintf(id, sizeof(id), "s-%d", server.count - 1);
    }
    if (!answer(m, s, method, jv_get(root, "params"), result)) {
        reply(t, 202, "");
        return;
    }
    bool is_stream = model_roll(m, 3) == 0;
    snprintf(text, sizeof(text), "%s{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":%s}%s",
             is_stream ? "data: " : "", jv_int(jv_get(root, "id")), result,
             is_stream ? "\n\n" : "");
    fake_transfer_head(t, 200, is_stream ? "text/event-stream" : "application/json", id);
    fake_transfer_bytes(t, text);
    fake_transfer_end(t);
}

static void on_transfer(void *user, struct fetch_transfer *t)
{
    struct model *m = user;
    struct session *s = find_session(t);
    struct json *root = NULL;
    unsigned luck = m->is_calm ? 24 : model_roll(m, 25);
    if (luck == 0) {
        fake_transfer_cut(t, 0); /* not handled */
    } else if (strcmp(fake_transfer_method(t), "POST") == 0) {
        if (jv_parse(fake_transfer_body(t), JSON_MAX_DEPTH, &root, NULL) < 0) {
            abort();
        }
        on_post(m, t, root);
        jv_unref(root);
        if (luck == 1) {
            fake_transfer_cut(t, 0); /* handled, but its answer is lost */
        }
    } else if (!s) {
        reply(t, 404, "");
    } else if (strcmp(fake_transfer_method(t), "DELETE") == 0) {
        s->is_alive = false;
        reply(t, 204, "");
    } else {
        on_get(m, s, t);
    }
}

static void on_close(void *user, struct fetch_transfer *t)
{
    (void)user;
    for (int k = 0; k < server.count; k++) {
        struct session *s = &server.sessions[k];
        s->stream = s->stream == t ? NULL : s->stream;
    }
}

static unsigned draw(void *user, unsigned sides)
{
    return model_roll(user, sides);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void serving(struct fake *f, const char *method, int64_t id, struct json *message)
{
    struct model *m = f->user;
    struct session *s = latest();
    char result[512];
    f->log[0] = '\0';
    if (!m->is_calm && model_roll(m, 12) == 0) {
        fake_say(f, NULL); /* the server answers no request of any kind */
        if (s) {
            s->is_alive = false;
        }
    } else if (strcmp(method, "server/discover") == 0) {
        fake_error(f, id, -32601, "what?");
    } else {
        s = strcmp(method, "initialize") == 0 ? begin_session(true) : s;
        if (answer(m, s, method, jv_get(message, "params"), result)) {
            fake_result(f, id, result);
        }
    }
}

/* ---- what it does by itself ------------------------------------------------------------------ */

/* Cleanly, or with messages in transit. */
static void end_stream(struct model *m, struct session *s, bool is_cut)
{
    struct fetch_transfer *stream = s->stream;
    s->stream = NULL;
    if (s->is_line && s->is_alive) {
        fake_say(&server.fake, NULL);
        s->is_alive = false;
    } else if (stream && is_cut) {
        fake_transfer_cut(stream, model_roll(m, (unsigned)fake_transfer_pending(stream) + 1));
    } else if (stream) {
        fake_transfer_end(stream);
    }
}

static void fault(struct model *m)
{
    unsigned kind = model_roll(m, 14);
    int slot = (int)model_roll(m, MODEL_SLOTS), uri = slot % MODEL_URIS;
    struct session *s = latest();
    if (!s || !s->is_alive) {
        return;
    }
    if (kind < 6) {
        flush(m, s, slot);
    } else if (kind < 9 && s->names[slot] && s->held[slot][uri] == 0 && m->values[uri] > 0) {
        say_update(m, s, slot, uri); /* once more */
    } else if (kind < 10) {
        end_stream(m, s, true);
    } else if (kind < 11) {
        end_stream(m, s, false);
    } else if (kind < 12) {
        end_stream(m, s, model_roll(m, 2) == 0);
        s->is_alive = false;
    } else if (kind < 13) {
        end_stream(m, s, true);
        s->is_alive = false;
        model_begin_epoch(m);
    }
}

static struct tidings_client *start_http(struct model *m, const struct tidings_client_options *o)
{
    server.count = 0;
    server.net = (struct fake_net){
        .on_transfer = on_transfer, .on_close = on_close, .draw = draw, .user = m};
    fake_net_use(&server.net);
    return tidings_client_create("http://127.0.0.1:1/mcp", o, NULL);
}

static struct tidings_client *start_lines(struct model *m, const struct tidings_client_options *o)
{
    server.count = 0;
    return fake_client(&server.fake, serving, m, o);
}

static void allow(struct model *m)
{
    if (server.net.fetch) {
        fake_net_allow(&server.net, m->is_calm ? 1000000 : 1 + model_roll(m, 6));
    }
}

static bool is_asking(const struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        if (list_entry(it, struct watch, link)->asked > 0) {
            return true;
        }
    }
    return false;
}

static bool http_is_at_rest(const struct model *m)
{
    const struct session *s = latest();
    bool is_heard = s && s->is_alive && s->stream;
    return fake_net_is_quiet(&server.net) && !is_asking(m->client) &&
           (m->client->watch_count == 0 || (m->client->is_streaming && is_heard));
}

static bool lines_are_at_rest(const struct model *m)
{
    return list_empty(&server.fake.said) && !is_asking(m->client);
}

static bool tells(const struct model *m, int slot)
{
    const struct session *s = latest();
    (void)m;
    return s && s->is_alive && s->names[slot];
}

static void http_left(struct model *m)
{
    const struct session *s = latest();
    (void)m;
    assert_true(s && !s->is_alive); /* it took its leave */
    for (int k = 0; k < server.count; k++) {
        assert_false(server.sessions[k].is_alive && server.sessions[k].is_used);
    }
    assert_null(server.net.fetch);
}

static void lines_left(struct model *m)
{
    (void)m;
}

static const struct model_ops http = {
    .start = start_http,
    .changed = changed,
    .fault = fault,
    .flush = flush_server,
    .allow = allow,
    .is_at_rest = http_is_at_rest,
    .tells = tells,
    .left = http_left,
};

static const struct model_ops lines = {
    .start = start_lines,
    .changed = changed,
    .fault = fault,
    .flush = flush_server,
    .allow = allow,
    .is_at_rest = lines_are_at_rest,
    .tells = tells,
    .left = lines_left,
};

static void play_http(const char *name, bool has_events, bool has_cursor, bool has_version)
{
    server.has_events = has_events;
    model_play_all(&(struct model){
        .ops = &http, .name = name, .has_cursor = has_cursor, .has_version = has_version});
}

static void changes_arrive_exactly_once_with_event_ids_and_cursors(void **state)
{
    (void)state;
    play_http("event ids and cursors", true, true, true);
}

static void changes_arrive_exactly_once_with_event_ids_only(void **state)
{
    (void)state;
    play_http("event ids", true, false, true);
}

static void changes_arrive_exactly_once_with_cursors_only(void **state)
{
    (void)state;
    play_http("cursors", false, true, true);
}

static void changes_are_not_lost_with_neither(void **state)
{
    (void)state;
    play_http("neither", false, false, true);
}

static void changes_are_not_lost_without_versions(void **state)
{
    (void)state;
    play_http("event ids, no versions", true, false, false);
    play_http("nothing but updates", false, false, false);
}

static void changes_are_not_lost_over_lines(void **state)
{
    (void)state;
    server.net.fetch = NULL;
    model_play_all(&(struct model){
        .ops = &lines, .name = "lines with cursors", .has_cursor = true, .has_version = true});
    model_play_all(&(struct model){.ops = &lines, .name = "lines", .has_version = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_arrive_exactly_once_with_event_ids_and_cursors),
        cmocka_unit_test(changes_arrive_exactly_once_with_event_ids_only),
        cmocka_unit_test(changes_arrive_exactly_once_with_cursors_only),
        cmocka_unit_test(changes_are_not_lost_with_neither),
        cmocka_unit_test(changes_are_not_lost_without_versions),
        cmocka_unit_test(changes_are_not_lost_over_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
