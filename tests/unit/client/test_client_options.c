/* SPDX-License-Identifier: MIT
 *
 * Subscription options in both eras, and after an interruption; failures that a server explains.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/copy.h>

#include "support/scripted_server.h"

#define ACK                                                                                        \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","          \
    "\"params\":{\"notifications\":{\"resourceSubscriptions\":[\"x://a\",\"x://b\"]}}}\n\n"
#define UPDATED                                                                                    \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"        \
    "{\"uri\":\"x://a\"}}\n\n"

/* The servers here do not support reads, so the client must not compare. */
static const struct tidings_client_options quick = {
    .retry_min_ms = 1, .retry_max_ms = 2, .no_compare = true};

/* The options of each subscription, one per line. */
struct sent {
    struct tidings_client *client;
    struct tidings_subscription *first; /* of x://a */
    sem_t watching;                     /* posted by the state callback */
    char options[1024];
    int updates, subscribed, streams, in_effect;
};

/* The text from "dev.tidings/options" on, or an empty string. */
static void note(struct scripted_server *s, const struct scripted_request *r)
{
    struct sent *sent = s->user;
    const char *at = strstr(r->body, "\"dev.tidings/options\":");
    pthread_mutex_lock(&s->lock);
    size_t len = strlen(sent->options);
    const char *end = at ? strstr(at, "}}") : NULL;
    snprintf(sent->options + len, sizeof(sent->options) - len, "%.*s\n",
             at && end ? (int)(end - at) : 0, at ? at : "");
    pthread_mutex_unlock(&s->lock);
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct sent *sent = user;
    (void)u;
    assert_int_equal(
        tidings_subscription_set_options(sent->first, "{ \"baseline\": \"two\" }", NULL), 0);
    if (++sent->updates == 2) {
        tidings_client_stop(sent->client);
    }
}

/* x://a and, perhaps, x://b. */
static void subscribe(struct sent *sent, tidings_update_fn fn, bool both)
{
    struct tidings_subscribe_options on = {.fn = fn, .user = sent};
    sent->first = tidings_client_subscribe(sent->client, "x://a", &on, NULL);
    assert_non_null(sent->first);
    assert_string_equal(tidings_subscription_uri(sent->first), "x://a");
    assert_true(!both || tidings_client_subscribe(sent->client, "x://b", &on, NULL));
}

static void run(scripted_fn answer, struct sent *sent)
{
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, answer, sent);
    sent->client = tidings_client_create(server.url, &quick, &err);
    assert_non_null(sent->client);
    subscribe(sent, on_update, true);
    assert_int_equal(tidings_subscription_set_options(sent->first, "{\"baseline\":\"one\"}", &err),
                     0);
    assert_int_equal(tidings_client_run(sent->client, &err), 0);
    scripted_stop(&server);
    tidings_client_destroy(sent->client);
}

/* ---- modern ---------------------------------------------------------------------------------- */

static void modern_server(struct scripted_server *s, const struct scripted_request *r)
{
    if (scripted_discovered(r)) {
        return;
    }
    note(s, r);
    scripted_stream(r, "");
    scripted_send(r, ACK UPDATED); /* and breaks off */
    if (r->turn > 1) {
        scripted_await_close(r);
    }
}

static void listen_carries_newest_options_of_each_uri(void **state)
{
    (void)state;
    struct sent sent = {.updates = 0};
    run(modern_server, &sent);
    assert_string_equal(sent.options,
                        "\"dev.tidings/options\":{\"uris\":{\"x://a\":{\"baseline\":\"one\"\n"
                        "\"dev.tidings/options\":{\"uris\":{\"x://a\":{\"baseline\":\"two\"\n");
}

/* ---- legacy ---------------------------------------------------------------------------------- */

static void legacy_server(struct scripted_server *s, const struct scripted_request *r)
{
    if (scripted_is(r, "initialize")) {
        scripted_result(r, "Mcp-Session-Id: s-1\r\n", INITIALIZED);
    } else if (scripted_is(r, "notifications/initialized")) {
        scripted_reply(r, 202, "", "", "");
    } else if (scripted_is(r, "resources/subscribe")) {
        note(s, r);
        scripted_result(r, "", "{}");
    } else if (strcmp(r->method, "GET") == 0) {
        scripted_stream(r, "");
        scripted_send(r, UPDATED UPDATED);
        scripted_await_close(r);
    } else {
        scripted_reply(r, 400, "", "application/json",
                       "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
                       "\"message\":\"no\"}}");
    }
}

static void stay(void *user, const struct tidings_update *u)
{
    (void)user;
    (void)u;
}

static void stop_when_watching(void *user, const struct tidings_state_event *e)
{
    struct sent *sent = user;
    if (e->state == TIDINGS_STATE_WATCHING && ++sent->in_effect == 2) {
        tidings_client_stop(sent->client);
    }
}

static void legacy_subscription_carries_its_own_options(void **state)
{
    (void)state;
    struct sent sent = {.updates = 0};
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, legacy_server, &sent);
    sent.client = tidings_client_create(server.url, &quick, &err);
    tidings_client_on_state(sent.client, stop_when_watching, &sent);
    subscribe(&sent, stay, true);
    assert_int_equal(tidings_subscription_set_options(sent.first, "{\"windowMs\":0}", &err), 0);
    assert_int_equal(tidings_client_run(sent.client, &err), 0);
    scripted_stop(&server);
    tidings_client_destroy(sent.client);
    /* One line for each, in order of arrival. */
    if (sent.options[0] == '\n') {
        assert_string_equal(sent.options, "\n\"dev.tidings/options\":{\"windowMs\":0\n");
    } else {
        assert_string_equal(sent.options, "\"dev.tidings/options\":{\"windowMs\":0\n\n");
    }
}

/* It drops the session after the first stream, and rejects the first subscription of the next. */
static void forgetful_server(struct scripted_server *s, const struct scripted_request *r)
{
    struct sent *sent = s->user;
    char refusal[256];
    if (scripted_is(r, "resources/subscribe")) {
        note(s, r);
        snprintf(refusal, sizeof(refusal),
                 "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32602,"
                 "\"message\":\"not now\"}}",
                 scripted_id(r));
        pthread_mutex_lock(&s->lock);
        bool is_refused = ++sent->subscribed == 2;
        pthread_mutex_unlock(&s->lock);
        if (is_refused) {
            scripted_reply(r, 200, "", "application/json", refusal);
        } else {
            scripted_result(r, "", "{}");
        }
    } else if (strcmp(r->method, "GET") == 0) {
        pthread_mutex_lock(&s->lock);
        int stream = ++sent->streams;
        pthread_mutex_unlock(&s->lock);
        if (stream == 2) {
            scripted_reply(r, 404, "", "text/plain", "");
            return;
        }
        scripted_stream(r, "");
        if (stream > 1) {
            scripted_await_close(r);
        } else {
            sem_wait(&sent->watching);
        }
    } else {
        legacy_server(s, r);
    }
}

static void stop_when_watching_again(void *user, const struct tidings_state_event *e)
{
    struct sent *sent = user;
    if (e->state == TIDINGS_STATE_WATCHING && e->again) {
        tidings_client_stop(sent->client);
    } else if (e->state == TIDINGS_STATE_WATCHING) {
        sem_post(&sent->watching);
    }
}

static void rejected_subscription_is_retried_in_new_session(void **state)
{
    (void)state;
    struct sent sent = {.updates = 0};
    struct scripted_server server;
    struct tidings_error err = {0};
    sem_init(&sent.watching, 0, 0);
    scripted_start(&server, forgetful_server, &sent);
    sent.client = tidings_client_create(server.url, &quick, &err);
    tidings_client_on_state(sent.client, stop_when_watching_again, &sent);
    subscribe(&sent, stay, false);
    assert_int_equal(tidings_client_run(sent.client, &err), 0);
    scripted_stop(&server);
    tidings_client_destroy(sent.client);
    sem_destroy(&sent.watching);
    assert_int_equal(sent.subscribed, 3);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void options_are_rejected_unless_an_object(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct tidings_client *c = tidings_client_create("http://127.0.0.1:1/mcp", NULL, &err);
    struct tidings_subscribe_options on = {.fn = stay, .options = "[]"};
    assert_null(tidings_client_subscribe(c, "x://a", &on, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    on.options = NULL;
    struct tidings_subscription *s = tidings_client_subscribe(c, "x://a", &on, &err);
    assert_non_null(s);
    assert_int_equal(tidings_subscription_set_options(s, "[]", &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_subscription_set_options(s, "{", &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_subscription_set_options(s, "{}", &err), 0);
    assert_int_equal(tidings_subscription_set_options(s, NULL, &err), 0);
    tidings_client_destroy(c);
}

static void refusing_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    char body[512];
    if (scripted_discovered(r)) {
        return;
    }
    const char *reason = strstr(r->body, "x://gone") ? "deleted" : "not_found";
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32602,\"message\":\"no\","
             "\"data\":{\"reason\":\"%s\"}}}",
             scripted_id(r), reason);
    scripted_reply(r, 400, "", "application/json", body);
}

static void deleted_resource_differs_from_missing_resource(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, refusing_server, NULL);
    struct tidings_client *c = tidings_client_create(server.url, NULL, &err);
    assert_null(tidings_client_read(c, "x://gone", &err));
    assert_int_equal(err.code, TIDINGS_E_GONE);
    assert_null(tidings_client_read(c, "x://never", &err));
    assert_int_equal(err.code, TIDINGS_E_NOTFOUND);
    tidings_client_destroy(c);
    scripted_stop(&server);
}

/* ---- mistakes of the program ----------------------------------------------------------------- */

static void never_answered(void *user, struct tidings_str result, const struct tidings_error *err,
                           struct tidings_str error)
{
    (void)user, (void)result, (void)err, (void)error;
}

static void never_copied(void *user, const struct tidings_copy_state *s)
{
    (void)user, (void)s;
}

static void is_refused(bool refused, struct tidings_error *err)
{
    assert_true(refused);
    assert_int_equal(err->code, TIDINGS_E_INVALID);
    assert_string_equal(err->text,
                        "`reserved` is not zero: zero the struct before it is filled in");
    *err = (struct tidings_error){0};
}

static void uninitialized_struct_is_rejected(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct tidings_client_options o = {.reserved = {[3] = &err}};
    is_refused(!tidings_client_create("http://127.0.0.1:1/mcp", &o, &err), &err);
    struct tidings_client *c = tidings_client_create("http://127.0.0.1:1/mcp", NULL, &err);
    struct tidings_subscribe_options on = {.fn = on_update, .reserved = {&err}};
    is_refused(!tidings_client_subscribe(c, "x://a", &on, &err), &err);
    struct tidings_client_asking asking = {
        .method = "ping", .on_answer = never_answered, .reserved = {[3] = &err}};
    is_refused(tidings_client_ask(c, &asking, &err) == TIDINGS_E_INVALID, &err);
    struct tidings_copying how = {.fn = never_copied, .reserved = {&err}};
    is_refused(!tidings_copy_begin(c, "entity:///T@1.0/a", &how, &err), &err);
    tidings_client_destroy(c);
}

static void request_without_uri_is_rejected(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct tidings_client *c = tidings_client_create("http://127.0.0.1:1/mcp", NULL, &err);
    assert_null(tidings_client_read(c, NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_string_equal(err.text, "read '': the uri is missing");
    assert_null(tidings_client_call(c, "", NULL, NULL, NULL, &err));
    assert_string_equal(err.text, "the name is missing");
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listen_carries_newest_options_of_each_uri),
        cmocka_unit_test(legacy_subscription_carries_its_own_options),
        cmocka_unit_test(rejected_subscription_is_retried_in_new_session),
        cmocka_unit_test(options_are_rejected_unless_an_object),
        cmocka_unit_test(deleted_resource_differs_from_missing_resource),
        cmocka_unit_test(uninitialized_struct_is_rejected),
        cmocka_unit_test(request_without_uri_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
