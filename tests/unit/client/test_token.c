/* SPDX-License-Identifier: MIT
 *
 * A client whose tokens expire: its reaction to a rejected token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "support/scripted_server.h"

#define REFUSED "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32001,\"message\":\"no\"},\"id\":null}"
#define EXPIRED                                                                                    \
    "WWW-Authenticate: Bearer error=\"invalid_token\", error_description=\"the token has "         \
    "expired\", resource_metadata=\"https://h/meta\"\r\n"
#define ACK                                                                                        \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","          \
    "\"params\":{\"notifications\":{\"resourceSubscriptions\":[\"x://a\"]},\"_meta\":"             \
    "{\"dev.tidings/cursor\":\"c1\"}}}\n\n"
#define UPDATED                                                                                    \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"        \
    "{\"uri\":\"x://a\"}}\n\n"

/* The program's token, the server's expected token, and the reported events. */
struct scene {
    struct scripted_server server;
    struct tidings_client *client;
    atomic_int held, wanted; /* numbers of tokens */
    int asked;               /* so often for a token */
    int renewed_when;        /* … and then the next one exists; 0: never */
    int late;                /* after this number of disconnections likewise; 0: never */
    bool is_fixed;           /* no on_token */
    int status;              /* of a refusal; 0: 401 */
    atomic_int refused;      /* requests */
    char text[4096];         /* a line for each state and update */
    int updates;
};

static char *on_token(void *user)
{
    struct scene *s = user;
    char *token = tidings_alloc(24);
    if (++s->asked == s->renewed_when) {
        s->held++;
    }
    if (token) {
        snprintf(token, 24, "t-%d", s->held);
    }
    return token;
}

static bool is_good(struct scene *s, const struct scripted_request *r)
{
    char line[64];
    snprintf(line, sizeof(line), "\r\nAuthorization: Bearer t-%d\r\n", s->wanted);
    return strcasestr(r->head, line) != NULL;
}

/* True: the request had the wrong token, and was answered. */
static bool refuse(struct scene *s, const struct scripted_request *r, const char *body)
{
    if (is_good(s, r)) {
        return false;
    }
    s->refused++;
    scripted_reply(r, s->status ? s->status : 401, EXPIRED, "application/json", body);
    return true;
}

static void begin(struct scene *s, scripted_fn answer)
{
    struct tidings_client_options o = {.retry_min_ms = 2, .retry_max_ms = 20, .no_compare = true};
    if (s->is_fixed) {
        o.token = "t-0";
    } else {
        o.on_token = on_token;
        o.token_user = s;
    }
    scripted_start(&s->server, answer, s);
    s->client = tidings_client_create(s->server.url, &o, NULL);
    assert_non_null(s->client);
}

static void end(struct scene *s)
{
    tidings_client_destroy(s->client);
    scripted_stop(&s->server);
}

/* ---- one request ----------------------------------------------------------------------------- */

static void reading(struct scripted_server *server, const struct scripted_request *r)
{
    if (refuse(server->user, r, REFUSED) || scripted_discovered(r)) {
        return;
    }
    bool is_whole = scripted_is(r, "resources/read") && strstr(r->body, "x:/a") &&
                    strcasestr(r->head, "Mcp-Method: resources/read") &&
                    !strstr(strcasestr(r->head, "Authorization:") + 1, "Authorization:");
    scripted_result(r, "", is_whole ? "{\"contents\":[1]}" : "{\"contents\":[]}");
}

static void rejected_token_is_replaced_and_request_repeated(void **state)
{
    (void)state;
    struct scene s = {.renewed_when = 3};
    begin(&s, reading);
    assert_int_equal(tidings_client_connect(s.client, NULL), 0);
    s.wanted = 1;
    char *text = tidings_client_read(s.client, "x:/a", NULL);
    assert_non_null(text);
    assert_string_equal(text, "{\"contents\":[1]}");
    tidings_free(text);
    assert_int_equal(s.refused, 1);
    assert_int_equal(s.asked, 3);
    end(&s);
}

static void rejected_token_is_not_resent(void **state)
{
    (void)state;
    struct scene s = {.wanted = 1};
    struct tidings_error err = {0};
    begin(&s, reading);
    assert_int_equal(tidings_client_connect(s.client, &err), TIDINGS_E_DENIED);
    assert_string_equal(err.text, "the server wants a good token (HTTP 401); see https://h/meta; "
                                  "the token has expired");
    assert_int_equal(s.refused, 1);
    end(&s);
}

static void second_rejected_token_is_the_last(void **state)
{
    (void)state;
    struct scene s = {.wanted = 7, .renewed_when = 2};
    begin(&s, reading);
    assert_int_equal(tidings_client_connect(s.client, NULL), TIDINGS_E_DENIED);
    assert_int_equal(s.refused, 2);
    assert_int_equal(s.asked, 2);
    end(&s);
}

static void fixed_token_is_rejected_once(void **state)
{
    (void)state;
    struct scene s = {.wanted = 1, .is_fixed = true};
    begin(&s, reading);
    assert_int_equal(tidings_client_connect(s.client, NULL), TIDINGS_E_DENIED);
    assert_int_equal(s.refused, 1);
    end(&s);
}

/* ---- watching -------------------------------------------------------------------------------- */

static void say(struct scene *s, const char *what, struct tidings_str more)
{
    size_t len = strlen(s->text);
    snprintf(s->text + len, sizeof(s->text) - len, "%s %.*s\n", what, (int)more.len, more.ptr);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct scene *s = user;
    if (e->state == TIDINGS_STATE_DISCONNECTED) {
        say(s, "disconnected", e->reason);
        s->held += s->late > 0 && --s->late == 0 ? 1 : 0;
    } else if (e->state != TIDINGS_STATE_CONNECTED) {
        say(s,
            e->state != TIDINGS_STATE_WATCHING ? "other"
            : e->again                         ? "again"
                                               : "watching",
            e->reason);
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct scene *s = user;
    say(s, "updated", u->uri);
    if (++s->updates == 2) {
        tidings_client_stop(s->client);
    }
}

static int watch(struct scene *s, scripted_fn answer, struct tidings_error *err)
{
    struct tidings_subscribe_options on = {.fn = on_update, .user = s};
    begin(s, answer);
    tidings_client_on_state(s->client, on_state, s);
    assert_non_null(tidings_client_subscribe(s->client, "x://a", &on, NULL));
    return tidings_client_run(s->client, err);
}

/* The first listen sends something and ends, and its token expires. */
static void listening(struct scripted_server *server, const struct scripted_request *r)
{
    struct scene *s = server->user;
    if (refuse(s, r, REFUSED) || scripted_discovered(r)) {
        return;
    }
    bool is_again = s->wanted > 0;
    s->wanted = 1;
    if (is_again && !strstr(r->body, "\"since\":\"c1\"")) {
        scripted_reply(r, 400, "", "text/plain", "it does not go on");
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, ACK UPDATED);
    if (is_again) {
        scripted_await_close(r);
    }
}

#define LOST "disconnected the server wants a good token (HTTP 401); see https://h/meta; the token "

static void watch_resumes_with_new_token(void **state)
{
    (void)state;
    struct scene s = {.late = 3};
    struct tidings_error err = {0};
    assert_int_equal(watch(&s, listening, &err), 0);
    end(&s);
    assert_string_equal(s.text, "watching \nupdated x://a\n"
                                "disconnected the stream broke off\n" LOST "has expired\n" LOST
                                "has expired\nagain \nupdated x://a\n");
    assert_int_equal(s.refused, 2);
}

static void watch_fails_if_token_is_not_renewed(void **state)
{
    (void)state;
    struct scene s = {.is_fixed = true};
    struct tidings_error err = {0};
    assert_int_equal(watch(&s, listening, &err), TIDINGS_E_DENIED);
    end(&s);
    assert_string_equal(s.text, "watching \nupdated x://a\n"
                                "disconnected the stream broke off\n");
}

static void watch_fails_if_forbidden(void **state)
{
    (void)state;
    struct scene s = {.status = 403};
    struct tidings_error err = {0};
    assert_int_equal(watch(&s, listening, &err), TIDINGS_E_DENIED);
    end(&s);
    assert_non_null(strstr(err.text, "the server denies access (HTTP 403)"));
    assert_int_equal(s.refused, 1);
}

static void watch_fails_if_never_accepted(void **state)
{
    (void)state;
    struct scene s = {.wanted = 1};
    struct tidings_error err = {0};
    assert_int_equal(watch(&s, listening, &err), TIDINGS_E_DENIED);
    end(&s);
    assert_string_equal(s.text, "");
}

/* ---- a session ------------------------------------------------------------------------------- */

/* The token expires just before the second subscribe; the stream does not notice. */
static void session(struct scripted_server *server, const struct scripted_request *r)
{
    struct scene *s = server->user;
    char answer[64];
    bool is_second = scripted_is(r, "resources/subscribe") && strstr(r->body, "x://b");
    s->wanted = is_second ? 1 : s->wanted;
    if (scripted_is(r, "server/discover")) {
        scripted_reply(r, 400, "", "text/plain", "");
    } else if (refuse(s, r, REFUSED)) {
        return;
    } else if (scripted_is(r, "initialize")) {
        scripted_result(r, "Mcp-Session-Id: s\r\n", INITIALIZED);
    } else if (is_second) {
        snprintf(answer, sizeof(answer),
                 "data: {\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{}}\n\n", scripted_id(r));
        scripted_stream(r, "");
        scripted_send(r, UPDATED UPDATED);
        scripted_send(r, answer);
    } else if (scripted_is(r, "resources/subscribe")) {
        scripted_result(r, "", "{}");
    } else if (strcmp(r->method, "GET") == 0) {
        scripted_stream(r, "");
        scripted_await_close(r);
    } else {
        scripted_reply(r, 202, "", "text/plain", "");
    }
}

static void on_session_state(void *user, const struct tidings_state_event *e)
{
    struct scene *s = user;
    struct tidings_subscribe_options on = {.fn = on_update, .user = s};
    on_state(user, e);
    if (e->state == TIDINGS_STATE_WATCHING && !e->again) {
        assert_non_null(tidings_client_subscribe(s->client, "x://b", &on, NULL));
    }
}

static void expired_session_token_does_not_reject_uris(void **state)
{
    (void)state;
    struct scene s = {.late = 2};
    struct tidings_error err = {0};
    struct tidings_subscribe_options on = {.fn = on_update, .user = &s};
    begin(&s, session);
    tidings_client_on_state(s.client, on_session_state, &s);
    assert_non_null(tidings_client_subscribe(s.client, "x://a", &on, NULL));
    assert_int_equal(tidings_client_run(s.client, &err), 0);
    end(&s);
    assert_null(strstr(s.text, "other"));
    assert_int_equal(s.refused, 2);
    assert_int_equal(s.updates, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejected_token_is_replaced_and_request_repeated),
        cmocka_unit_test(rejected_token_is_not_resent),
        cmocka_unit_test(second_rejected_token_is_the_last),
        cmocka_unit_test(fixed_token_is_rejected_once),
        cmocka_unit_test(watch_resumes_with_new_token),
        cmocka_unit_test(watch_fails_if_token_is_not_renewed),
        cmocka_unit_test(watch_fails_if_forbidden),
        cmocka_unit_test(watch_fails_if_never_accepted),
        cmocka_unit_test(expired_session_token_does_not_reject_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
