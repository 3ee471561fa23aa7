/* SPDX-License-Identifier: MIT
 *
 * A client that misses nothing, against a scripted server that disconnects, repeats itself and
 * restarts.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "support/scripted_server.h"

/* ---- what the client told -------------------------------------------------------------------- */

struct scene {
    struct scripted_server server;
    struct tidings_client *client;
    char text[4096];  /* one line each */
    const char *last; /* … until this one */
    uint32_t silence_ms;
    const char *then; /* at the first update: subscribe to this as well */
    struct tidings_subscribe_options on;
    sem_t watched; /* the number of times that the client sent it */
};

static void say(struct scene *s, const char *what, struct tidings_str a, struct tidings_str b)
{
    size_t len = strlen(s->text);
    snprintf(s->text + len, sizeof(s->text) - len, "%s %.*s%s%.*s\n", what, (int)a.len, a.ptr,
             b.len > 0 ? " " : "", (int)b.len, b.ptr);
    if (strcmp(s->text + len, s->last) == 0) {
        tidings_client_stop(s->client);
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct scene *s = user;
    say(s, u->truncated ? "truncated" : "updated", u->uri, u->version);
    if (s->then) {
        const char *uri = s->then;
        s->then = NULL;
        assert_non_null(tidings_client_subscribe(s->client, uri, &s->on, NULL));
    }
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct scene *s = user;
    if (e->state == TIDINGS_STATE_WATCHING) {
        say(s, e->again ? "again" : "watching", e->uri, e->reason);
        sem_post(&s->watched);
    } else if (e->state == TIDINGS_STATE_LOST) {
        say(s, "lost", e->uri, tidings_str(""));
    }
}

static void play(struct scene *s, scripted_fn answer, const char *options)
{
    struct tidings_error err = {0};
    struct tidings_client_options o = {.timeout_ms = 30000, .retry_min_ms = 2, .retry_max_ms = 20};
    o.silence_ms = s->silence_ms;
    s->on = (struct tidings_subscribe_options){.fn = on_update, .user = s, .options = options};
    sem_init(&s->watched, 0, 0);
    scripted_start(&s->server, answer, s);
    s->client = tidings_client_create(s->server.url, &o, &err);
    assert_non_null(s->client);
    tidings_client_on_state(s->client, on_state, s);
    assert_non_null(tidings_client_subscribe(s->client, "x://a", &s->on, &err));
    s->on.options = NULL;
    assert_int_equal(tidings_client_run(s->client, &err), 0);
    tidings_client_destroy(s->client);
    scripted_stop(&s->server);
    sem_destroy(&s->watched);
}

/* ---- what the server says -------------------------------------------------------------------- */

#define ACK(uris, cursor)                                                                          \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","          \
    "\"params\":{\"notifications\":{\"resourceSubscriptions\":[" uris                              \
    "]},\"_meta\":{\"dev.tidings/cursor\":\"" cursor "\"}}}\n\n"
#define UPDATED(uri, version, more)                                                                \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"        \
    "{\"uri\":\"" uri "\",\"subscribedUri\":\"" uri                                                \
    "\",\"_meta\":{\"dev.tidings/version\":\"" version "\"" more "}}}\n\n"
#define CURSOR(text) ",\"dev.tidings/cursor\":\"" text "\""

/* Asserts of cmocka belong to the main thread. */
static void check(const struct scripted_request *r, bool is_right, const char *part)
{
    if (!is_right) {
        fprintf(stderr, "about '%s' in\n%s%s\n", part, r->head, r->body);
        abort();
    }
}

static void has(const struct scripted_request *r, const char *part)
{
    check(r, strcasestr(r->head, part) || strstr(r->body, part), part);
}

static void has_not(const struct scripted_request *r, const char *part)
{
    check(r, !strstr(r->body, part), part);
}

/* Breaks in the middle of an event; repeats delivered changes, then sends new ones. */
static void cutting(struct scripted_server *server, const struct scripted_request *r)
{
    (void)server;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    if (r->turn == 1) {
        has_not(r, "since");
        scripted_send(r, ACK("\"x://a\"", "e.5") UPDATED("x://a", "e.6", CURSOR("e.6")));
        scripted_send(r, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resou");
        return;
    }
    has(r, "\"dev.tidings/options\":{\"uris\":{\"x://a\":{\"windowMs\":7,\"since\":\"e.6\"}}}");
    scripted_send(r, ACK("\"x://a\"", "e.6") UPDATED("x://a", "e.6", CURSOR("e.6")));
    scripted_send(r, UPDATED("x://a", "e.7", CURSOR("e.7")));
    scripted_await_close(r);
}

static void cut_stream_resumes_without_repeats(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a e.7\n"};
    play(&s, cutting, "{\"windowMs\":7}");
    assert_string_equal(s.text,
                        "watching x://a\nupdated x://a e.6\nagain x://a\nupdated x://a e.7\n");
}

#define BOOKMARK(cursor)                                                                           \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/dev.tidings/bookmark\",\"params\":"     \
    "{\"_meta\":{\"dev.tidings/cursor\":\"" cursor "\"}}}\n\n"
#define OFFERS_BOOKMARKS                                                                           \
    "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":"        \
    "{\"resources\":{\"subscribe\":true},\"extensions\":{\"dev.tidings/"                           \
    "subscription-correlation\":"                                                                  \
    "{\"bookmarks\":true}}},\"ttlMs\":0,\"cacheScope\":\"public\"}"

/* Nothing changes; only the cursor moves. */
static void marking(struct scripted_server *server, const struct scripted_request *r)
{
    (void)server;
    if (scripted_is(r, "server/discover")) {
        scripted_result(r, "", OFFERS_BOOKMARKS);
        return;
    }
    scripted_stream(r, "");
    if (r->turn == 1) {
        has(r,
            "\"dev.tidings/options\":{\"bookmarks\":true,\"uris\":{\"x://a\":{\"windowMs\":7}}}");
        scripted_send(r, ACK("\"x://a\"", "e.5") BOOKMARK("e.90"));
        return;
    }
    has(r, "\"since\":\"e.90\"");
    scripted_send(r, ACK("\"x://a\"", "e.90") UPDATED("x://a", "e.91", CURSOR("e.91")));
    scripted_await_close(r);
}

static void stream_resumes_at_bookmark(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a e.91\n"};
    play(&s, marking, "{\"windowMs\":7}");
    assert_string_equal(s.text, "watching x://a\nagain x://a\nupdated x://a e.91\n");
}

/* The acknowledgement is lost twice, then another server answers. */
static void restarting(struct scripted_server *server, const struct scripted_request *r)
{
    (void)server;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    if (r->turn == 1) {
        scripted_send(r, ACK("\"x://a\"", "e.5") UPDATED("x://a", "e.6", CURSOR("e.6")));
        return;
    }
    has(r, "\"since\":\"e.6\"");
    if (r->turn == 3 || r->turn == 5) {
        return;
    }
    scripted_send(r, ACK("\"x://a\"", "e.6"));
    scripted_send(r, UPDATED("x://a", "", ",\"dev.tidings/truncated\":true" CURSOR("f.0")));
    scripted_send(r, UPDATED("x://a", "f.1", CURSOR("f.1")));
    scripted_await_close(r);
}

static void restarted_server_is_followed_from_its_start(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a f.1\n"};
    play(&s, restarting, NULL);
    assert_string_equal(s.text, "watching x://a\nupdated x://a e.6\nagain x://a\n"
                                "truncated x://a\nupdated x://a f.1\n");
}

/* If the set changes, the new stream starts at the position of the old one. The old one ends only
 * when the new one is acknowledged, and changes on both are reported once. */
static void growing(struct scripted_server *server, const struct scripted_request *r)
{
    (void)server;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    if (r->turn == 1) {
        scripted_send(r, ACK("\"x://a\"", "e.5") UPDATED("x://a", "e.6", CURSOR("e.6")));
        scripted_await_close(r);
        return;
    }
    has(r, "\"resourceSubscriptions\":[\"x://a\",\"x://b\"]");
    has(r, "\"uris\":{\"x://a\":{\"since\":\"e.6\"}}");
    scripted_send(r, ACK("\"x://a\",\"x://b\"", "e.6") UPDATED("x://a", "e.6", CURSOR("e.6")));
    scripted_send(r, UPDATED("x://a", "e.7", CURSOR("e.7")) UPDATED("x://b", "e.8", ""));
    scripted_await_close(r);
}

static void changing_subscription_set_has_no_gap(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://b e.8\n", .then = "x://b"};
    play(&s, growing, NULL);
    assert_string_equal(s.text, "watching x://a\nupdated x://a e.6\nwatching x://b\n"
                                "updated x://a e.7\nupdated x://b e.8\n");
}

/* The first stream falls silent without an end. */
static void falling_silent(struct scripted_server *server, const struct scripted_request *r)
{
    (void)server;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, ACK("\"x://a\"", "e.5"));
    if (r->turn > 1) {
        has(r, "\"since\":\"e.5\"");
        scripted_send(r, UPDATED("x://a", "e.6", ""));
    }
    scripted_await_close(r);
}

static void silent_stream_counts_as_lost(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a e.6\n", .silence_ms = 500};
    play(&s, falling_silent, NULL);
    /* On a slow machine it may have been silent more often. */
    assert_non_null(strstr(s.text, "again x://a\nupdated x://a e.6\n"));
}

/* ---- legacy ---------------------------------------------------------------------------------- */

static int count(struct scripted_server *server, const char *what)
{
    int n = 0;
    pthread_mutex_lock(&server->lock);
    for (const char *at = server->log; (at = strstr(at, what)) != NULL; at++) {
        n++;
    }
    pthread_mutex_unlock(&server->lock);
    return n;
}

/* The session ends with its stream; the client asks the next one to resume. */
static void dying(struct scripted_server *server, const struct scripted_request *r)
{
    struct scene *s = server->user;
    int sessions = count(server, "POST initialize\n");
    if (scripted_is(r, "server/discover")) {
        scripted_reply(r, 400, "", "text/plain", "");
    } else if (scripted_is(r, "initialize")) {
        scripted_result(r, "Mcp-Session-Id: s\r\n", INITIALIZED);
    } else if (scripted_is(r, "resources/subscribe")) {
        if (sessions == 1) {
            has_not(r, "since");
        } else {
            has(r, "\"dev.tidings/options\":{\"since\":\"e.6\"}");
        }
        scripted_result(r, "", "{\"_meta\":{\"dev.tidings/cursor\":\"e.5\"}}");
    } else if (strcmp(r->method, "GET") != 0) {
        scripted_reply(r, 202, "", "text/plain", "");
    } else if (s->silence_ms > 0) { /* the stream falls silent, but the session lives */
        scripted_stream(r, "");
        scripted_send(r, "id: p-1\ndata:\n\n");
        if (count(server, "GET") > 1) {
            has(r, "Last-Event-ID: p-1\r\n");
            sem_wait(&s->watched);
            scripted_send(r, UPDATED("x://a", "e.7", ""));
        }
        scripted_await_close(r);
    } else if (count(server, "GET") == 2) {
        scripted_reply(r, 404, "", "text/plain", "");
    } else {
        scripted_stream(r, "");
        sem_wait(&s->watched);
        scripted_send(r, UPDATED("x://a", "e.6", CURSOR("e.6")));
        if (sessions > 1) {
            scripted_send(r, UPDATED("x://a", "e.7", CURSOR("e.7")));
            scripted_await_close(r);
        }
    }
}

static void ended_session_resumes_in_new_session(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a e.7\n"};
    play(&s, dying, NULL);
    assert_string_equal(s.text,
                        "watching x://a\nupdated x://a e.6\nagain x://a\nupdated x://a e.7\n");
}

static void silent_session_stream_is_reopened(void **state)
{
    (void)state;
    struct scene s = {.last = "updated x://a e.7\n", .silence_ms = 500};
    play(&s, dying, NULL);
    assert_non_null(strstr(s.text, "watching x://a\nwatching x://a\nupdated x://a e.7\n"));
    const char *session = strstr(s.server.log, "POST initialize\n");
    assert_non_null(session);
    assert_null(strstr(session + 1, "POST initialize\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_stream_resumes_without_repeats),
        cmocka_unit_test(stream_resumes_at_bookmark),
        cmocka_unit_test(restarted_server_is_followed_from_its_start),
        cmocka_unit_test(changing_subscription_set_has_no_gap),
        cmocka_unit_test(silent_stream_counts_as_lost),
        cmocka_unit_test(silent_session_stream_is_reopened),
        cmocka_unit_test(ended_session_resumes_in_new_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
