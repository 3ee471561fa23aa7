/* SPDX-License-Identifier: MIT
 *
 * Queries for subscribers: sessions, listens and the program itself, queried from outside and from
 * callbacks, ended one by one and together, during constant churn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/served.h"

#define ROWS 64
#define PATIENCE_S 20

struct row {
    uint64_t subscriber;
    char session[64], stream[16], uri[64], id[16];
    uint32_t period_ms;
};

struct found {
    struct row rows[ROWS];
    int count;
    int stop_after; /* 0: never */
};

static void copy(char *out, size_t size, struct tidings_str s)
{
    snprintf(out, size, "%.*s", (int)s.len, s.len > 0 ? s.ptr : "");
}

static bool note(void *user, const struct tidings_subscriber *s)
{
    struct found *f = user;
    assert_true(f->count < ROWS);
    struct row *r = &f->rows[f->count++];
    r->subscriber = s->subscriber;
    r->period_ms = s->period_ms;
    assert_false(s->suspended || s->truncated);
    copy(r->session, sizeof(r->session), s->session);
    copy(r->stream, sizeof(r->stream), s->stream);
    copy(r->uri, sizeof(r->uri), s->subscribed_uri);
    copy(r->id, sizeof(r->id), s->subscription_id);
    return f->count != f->stop_after;
}

static int covering(const char *uri, struct found *f)
{
    struct tidings_error err = {0, ""};
    f->count = 0;
    return tidings_server_subscribers(served(), tidings_str(uri), note, f, &err);
}

/* Subscribes and disconnects take a while; then this number of subscriptions covers `uri`. */
static void await_covering(const char *uri, int count, struct found *f)
{
    time_t until = time(NULL) + PATIENCE_S;
    while (covering(uri, f) != count) {
        if (time(NULL) > until) {
            fail_msg("%d instead of %d are subscribed to %s", f->count, count, uri);
        }
        sched_yield();
    }
}

static const struct row *find(const struct found *f, const char *uri)
{
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->rows[i].uri, uri) == 0) {
            return &f->rows[i];
        }
    }
    fail_msg("nobody is subscribed to %s", uri);
    return NULL;
}

/* ---- a session of the legacy era ------------------------------------------------------------- */

static const char *legacy(const char *session, const char *method, const char *params)
{
    char head[512], body[512];
    snprintf(head, sizeof(head),
             "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nConnection: close%s%s",
             session[0] ? "\r\nMcp-Session-Id: " : "", session);
    snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}",
             method, params);
    return served_http(head, body);
}

static void open_session(char id[64])
{
    const char *answer = legacy("", "initialize",
                                "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
                                "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    const char *at = strcasestr(answer, "mcp-session-id: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen("mcp-session-id: "), "%63[-0-9a-z]", id), 1);
}

static void subscribe(const char *session, const char *uri)
{
    char params[128];
    snprintf(params, sizeof(params), "\"uri\":\"%s\"", uri);
    assert_non_null(strstr(legacy(session, "resources/subscribe", params), "\"result\""));
}

/* Everything on the stream until it ends or contains `last`. */
static const char *await_said(int fd, const char *last)
{
    static char said[65536];
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    size_t len = 0;
    ssize_t got;
    said[0] = '\0';
    while ((!last || !strstr(said, last)) &&
           (got = recv(fd, said + len, sizeof(said) - 1 - len, 0)) > 0) {
        len += (size_t)got;
        said[len] = '\0';
    }
    return said;
}

/* ---- queries --------------------------------------------------------------------------------- */

static void subscribers_are_found_by_covered_uri(void **state)
{
    (void)state;
    struct found f = {.count = 0};
    struct ears e;
    char session[64];
    ears_init(&e);
    served_run();
    assert_int_equal(covering("app:///a", &f), 0);
    open_session(session);
    subscribe(session, "app:///a");
    int one = served_listen("app:///a"), many = served_listen("app:///row/{id}");
    served_subscribe("app:///", NULL, &e);
    await_covering("app:///a", 3, &f);
    const struct row *container = find(&f, "app:///");
    assert_string_equal(container->stream, "local");
    assert_string_equal(container->session, "");
    unsigned sessions = 0, listens = 0;
    for (int i = 0; i < f.count; i++) {
        sessions += strcmp(f.rows[i].session, session) == 0 && f.rows[i].stream[0] == '\0';
        listens += strcmp(f.rows[i].id, "1") == 0 && f.rows[i].stream[0] != '\0';
    }
    assert_int_equal(sessions, 1);
    assert_int_equal(listens, 1);
    await_covering("app:///row/7", 2, &f);
    uint64_t subscriber = find(&f, "app:///row/{id}")->subscriber;
    await_covering("", 4, &f);
    for (int i = 0; i < f.count; i++) {
        for (int k = 0; k < i; k++) {
            assert_true(f.rows[i].subscriber != f.rows[k].subscriber);
        }
    }
    struct tidings_str seven = tidings_str("app:///row/7"), a = tidings_str("app:///a");
    assert_int_equal(tidings_server_is_subscribed(served(), subscriber, seven, NULL), 1);
    assert_int_equal(tidings_server_is_subscribed(served(), subscriber, a, NULL), 0);
    assert_int_equal(tidings_server_is_subscribed(served(), subscriber + 1000, a, NULL), 0);
    f.count = 0;
    assert_int_equal(tidings_server_subscriptions(served(), subscriber, note, &f, NULL), 1);
    assert_string_equal(f.rows[0].uri, "app:///row/{id}");
    struct tidings_totals t;
    assert_int_equal(tidings_server_totals(served(), &t, NULL), 0);
    assert_int_equal(t.subscriptions, 4);
    assert_int_equal(t.sessions, 1);
    assert_int_equal(t.subscribers, 4);
    f = (struct found){.stop_after = 2};
    assert_int_equal(covering("", &f), 4);
    assert_int_equal(f.count, 2);
    close(one);
    close(many);
    await_covering("", 2, &f); /* a vanished client is forgotten */
    assert_int_equal(tidings_server_totals(served(), &t, NULL), 0);
    assert_int_equal(t.subscribers, 2);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void ended_subscription_notifies_its_client(void **state)
{
    (void)state;
    struct found f = {.count = 0};
    char session[64];
    served_run();
    int fd = served_listen("app:///a");
    await_covering("app:///a", 1, &f);
    uint64_t subscriber = f.rows[0].subscriber;
    struct tidings_str a = tidings_str("app:///a"), b = tidings_str("app:///b");
    assert_int_equal(tidings_server_unsubscribe(served(), subscriber, b, NULL), 0);
    assert_int_equal(tidings_server_unsubscribe(served(), subscriber, a, NULL), 1);
    assert_int_equal(tidings_server_unsubscribe(served(), subscriber, a, NULL), 0);
    assert_non_null(strstr(await_said(fd, "suspended\":true"), "\"subscribedUri\":\"app:///a\""));
    assert_int_equal(covering("app:///a", &f), 0);
    close(fd);
    open_session(session);
    subscribe(session, "app:///a");
    assert_non_null(strstr(legacy(session, "resources/subscribe",
                                  "\"uri\":\"app:///b\",\"_meta\":{\"dev.tidings/options\":"
                                  "{\"windowMs\":70}}"),
                           "\"result\""));
    await_covering("app:///b", 1, &f);
    assert_int_equal(f.rows[0].period_ms, 70);
    assert_int_equal(tidings_server_unsubscribe(served(), f.rows[0].subscriber, b, NULL), 1);
    assert_int_equal(covering("", &f), 1);
    subscribe(session, "app:///b"); /* and may reconnect */
    assert_int_equal(covering("", &f), 2);
}

static void peer_end_removes_all_its_subscriptions(void **state)
{
    (void)state;
    struct found f = {.count = 0};
    struct ears e;
    char session[64];
    ears_init(&e);
    served_run();
    open_session(session);
    subscribe(session, "app:///a");
    subscribe(session, "app:///b");
    int fd = served_listen("app:///row/{id}");
    served_subscribe("app:///row/5", NULL, &e);
    await_covering("", 4, &f);
    assert_int_equal(tidings_server_disconnect(served(), find(&f, "app:///a")->subscriber, NULL),
                     2);
    assert_int_equal(tidings_server_disconnect(served(), find(&f, "app:///a")->subscriber, NULL),
                     0);
    assert_non_null(strstr(legacy(session, "ping", ""), " 404 "));
    assert_int_equal(
        tidings_server_disconnect(served(), find(&f, "app:///row/{id}")->subscriber, NULL), 1);
    assert_non_null(strstr(await_said(fd, NULL), "\"result\"")); /* and then the end */
    close(fd);
    assert_int_equal(
        tidings_server_disconnect(served(), find(&f, "app:///row/5")->subscriber, NULL), 1);
    assert_true(ears_await(&e, 0).ended);
    await_covering("", 0, &f);
    struct tidings_totals t;
    assert_int_equal(tidings_server_totals(served(), &t, NULL), 0);
    assert_int_equal(t.subscriptions + t.subscribers + t.sessions, 0);
}

static void misuse_is_rejected_and_stopped_server_has_no_subscribers(void **state)
{
    (void)state;
    struct found f = {.count = 0};
    struct tidings_error err = {0, ""};
    struct tidings_totals t;
    struct tidings_str a = tidings_str("app:///a"), none = {"", 0};
    for (int i = 0; i < 3; i++) { /* before, while, after */
        assert_int_equal(covering("app:///a", &f), 0);
        assert_int_equal(tidings_server_totals(served(), &t, &err), 0);
        assert_int_equal(t.subscriptions, 0);
        assert_int_equal(tidings_server_disconnect(served(), 1, &err), 0);
        assert_int_equal(tidings_server_subscriptions(served(), 0, note, &f, &err), 0);
        assert_int_equal(tidings_server_disconnect(served(), 0, &err), TIDINGS_E_INVALID);
        assert_int_equal(tidings_server_unsubscribe(served(), 1, none, &err), TIDINGS_E_INVALID);
        assert_int_equal(tidings_server_unsubscribe(served(), 0, a, &err), TIDINGS_E_INVALID);
        assert_int_equal(covering("no uri", &f), TIDINGS_E_INVALID);
        if (i == 0) {
            served_run();
        } else if (i == 1) {
            served_stop();
        }
    }
}

/* ---- from callbacks -------------------------------------------------------------------------- */

static struct {
    struct ears ears;
    int asked, asked_in_filter, disconnected; /* atomic */
    uint64_t subscriber;                      /* atomic */
} inside;

static void ask_when_told(void *user, const struct tidings_update *update)
{
    (void)user;
    struct found f = {.count = 0};
    uint64_t subscriber = __atomic_load_n(&inside.subscriber, __ATOMIC_SEQ_CST);
    __atomic_store_n(&inside.asked, covering("app:///a", &f), __ATOMIC_SEQ_CST);
    if (subscriber > 0) {
        __atomic_store_n(&inside.disconnected,
                         tidings_server_disconnect(served(), subscriber, NULL), __ATOMIC_SEQ_CST);
    }
    ears_hear(&inside.ears, update);
}

static bool ask_in_filter(void *user, struct tidings_str uri, struct tidings_str metadata)
{
    (void)user;
    (void)uri;
    (void)metadata;
    struct found f = {.count = 0};
    __atomic_store_n(&inside.asked_in_filter, covering("app:///a", &f), __ATOMIC_SEQ_CST);
    return true;
}

static void subscriber_queries_do_not_block_in_callbacks(void **state)
{
    bool alone = !*state;
    memset(&inside, 0, sizeof(inside));
    ears_init(&inside.ears);
    struct tidings_subscribe_options o = {
        .fn = ask_when_told, .on_state = ears_state, .user = &inside.ears, .filter = ask_in_filter};
    assert_non_null(tidings_server_subscribe(served(), tidings_str("app:///a"), &o, NULL));
    served_run();
    served_await_subscribed("app:///a", &inside.ears);
    assert_int_equal(__atomic_load_n(&inside.asked, __ATOMIC_SEQ_CST), alone ? 1 : TIDINGS_E_BUSY);
    assert_int_equal(__atomic_load_n(&inside.asked_in_filter, __ATOMIC_SEQ_CST), TIDINGS_E_BUSY);
    struct found f = {.count = 0};
    await_covering("app:///a", 1, &f);
    __atomic_store_n(&inside.disconnected, -1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&inside.subscriber, f.rows[0].subscriber, __ATOMIC_SEQ_CST);
    served_announce("app:///a", "{}", TIDINGS_CHANGE_UPDATED);
    for (size_t n = 0; !ears_await(&inside.ears, n).ended; n++) {
    }
    assert_int_equal(__atomic_load_n(&inside.disconnected, __ATOMIC_SEQ_CST), 0);
    await_covering("app:///a", 0, &f);
}

/* ---- all at once ----------------------------------------------------------------------------- */

static bool is_over; /* atomic */

static void *ask_all_the_time(void *arg)
{
    uint64_t *seen = arg;
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        struct found f = {.count = 0};
        struct tidings_totals t;
        int count = covering("app:///row/1", &f);
        if (count < 0 || tidings_server_totals(served(), &t, NULL) < 0) {
            return arg;
        }
        *seen += (uint64_t)count;
        if (f.count > 0) {
            (void)tidings_server_disconnect(served(), f.rows[0].subscriber, NULL);
            (void)tidings_server_unsubscribe(served(), f.rows[f.count - 1].subscriber,
                                             tidings_str("app:///row/1"), NULL);
        }
    }
    return NULL;
}

static void subscriber_queries_are_safe_during_churn_and_stop(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint64_t seen[3] = {0};
    struct ears e;
    __atomic_store_n(&is_over, false, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all_the_time, &seen[i]), 0);
    }
    served_run();
    for (int i = 0; i < 30; i++) {
        ears_init(&e);
        struct tidings_subscription *sub = served_subscribe("app:///row/1", NULL, &e);
        int fd = served_listen("app:///row/1");
        tidings_subscription_end(sub);
        close(fd);
        for (size_t n = 0; !ears_await(&e, n).ended; n++) {
        }
    }
    served_stop();
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(subscribers_are_found_by_covered_uri),
        SERVED_BOTH(ended_subscription_notifies_its_client),
        SERVED_BOTH(peer_end_removes_all_its_subscriptions),
        SERVED_BOTH(misuse_is_rejected_and_stopped_server_has_no_subscribers),
        SERVED_BOTH(subscriber_queries_do_not_block_in_callbacks),
        SERVED_BOTH(subscriber_queries_are_safe_during_churn_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
