/* SPDX-License-Identifier: MIT
 *
 * HTTP requests on an event loop. The fixture compares descriptors before and after each test;
 * destroying the loop asserts that no socket or timer of the library is left on it. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/net/fetch.h"
#include "support/scripted_server.h"

#define MAX_BYTES 100000u

struct world {
    struct scripted_server server;
    struct loop *loop;
    struct fetch *fetch;
    int fds;
};

struct got {
    struct world *world;
    struct fetch_transfer *transfer;
    char text[64];
    size_t bytes;
    int calls;             /* from its receivers */
    struct got *inner;     /* its receiver fetches it in nested turns; NULL: none */
    bool ends_early;       /* its receiver closes it */
    bool is_inside;        /* … runs */
    bool was_called_again; /* … while it ran */
};

static int count_fds(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

/* The server answers a GET but not a DELETE. It answers a POST with the body in a stream that stays
 * open, and a PUT with the start of a stream that it resets. */
static void answer(struct scripted_server *s, const struct scripted_request *r)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)s;
    if (strcmp(r->method, "GET") == 0) {
        scripted_reply(r, 200, "", "text/plain", "hello");
    } else if (strcmp(r->method, "POST") == 0) {
        scripted_stream(r, "");
        scripted_send(r, "one");
        scripted_send(r, "two");
        scripted_await_close(r);
    } else if (strcmp(r->method, "PUT") == 0) {
        scripted_stream(r, "");
        (void)connect(r->fd, &nowhere, sizeof(nowhere)); /* resets it */
    } else {
        scripted_await_close(r);
    }
}

static int begin(void **state)
{
    static struct world w;
    struct tidings_error err = {0};
    if (!fetch_library()) { /* loaded before descriptors are counted */
        return -1;
    }
    w.fds = count_fds();
    scripted_start(&w.server, answer, NULL);
    w.loop = loop_create(&err);
    *state = &w;
    return w.loop ? fetch_create(w.loop, MAX_BYTES, &w.fetch, &err) : -1;
}

static int end(void **state)
{
    struct world *w = *state;
    fetch_destroy(w->fetch);
    loop_destroy(w->loop);
    scripted_stop(&w->server);
    int fds = count_fds();
    if (fds != w->fds) {
        print_error("%d descriptors are left\n", fds - w->fds);
    }
    return fds == w->fds ? 0 : -1;
}

static void start(struct got *g, struct world *w, const char *method);

static bool is_finished(const struct got *g)
{
    return fetch_status(g->transfer)->finished;
}

static void received(struct got *g)
{
    g->calls++;
    g->was_called_again = g->was_called_again || g->is_inside;
    g->is_inside = true;
    if (g->inner && !g->inner->transfer) {
        start(g->inner, g->world, "GET");
        while (!is_finished(g->inner)) {
            loop_turn_for(g->world->loop, -1);
        }
    }
    g->is_inside = false;
    if (g->ends_early) {
        fetch_close(g->transfer);
        g->transfer = NULL;
    }
}

static int on_bytes(void *user, struct tidings_str bytes)
{
    struct got *g = user;
    size_t len = strlen(g->text);
    snprintf(g->text + len, sizeof(g->text) - len, "%.*s", (int)bytes.len, bytes.ptr);
    g->bytes += bytes.len;
    received(g);
    return 0;
}

static void on_change(void *user)
{
    received(user);
}

static void start_request(struct got *g, struct world *w, const struct fetch_request *about)
{
    struct fetch_request q = *about;
    struct tidings_error err = {0};
    q.on_bytes = on_bytes;
    q.on_change = on_change;
    q.user = g;
    g->world = w;
    assert_int_equal(fetch_start(w->fetch, &q, &g->transfer, &err), 0);
}

static void start(struct got *g, struct world *w, const char *method)
{
    start_request(g, w, &(struct fetch_request){.method = method, .url = w->server.url});
}

static void finish(struct got *g)
{
    while (!is_finished(g)) {
        loop_turn_for(g->world->loop, -1);
    }
}

static void requests_progress_in_turns_of_the_loop(void **state)
{
    struct world *w = *state;
    struct got all[10] = {{0}};
    for (size_t i = 0; i < 10; i++) {
        start(&all[i], w, "GET");
    }
    assert_int_equal(all[0].calls, 0); /* nothing is delivered outside turns */
    for (size_t i = 0; i < 10; i++) {
        finish(&all[i]);
        assert_int_equal(fetch_status(all[i].transfer)->status, 200);
        assert_int_equal(fetch_status(all[i].transfer)->error.code, 0);
        assert_string_equal(all[i].text, "hello");
    }
}

static void receiver_may_take_nested_turns(void **state)
{
    struct world *w = *state;
    struct got inner = {0}, outer = {.inner = &inner};
    start(&outer, w, "POST");
    while (outer.bytes < 6) {
        loop_turn_for(w->loop, -1);
    }
    assert_string_equal(inner.text, "hello");
    assert_string_equal(outer.text, "onetwo"); /* including the answers from the nested turns */
    assert_false(outer.was_called_again);
    assert_false(is_finished(&outer));
}

static void receiver_may_close_its_transfer(void **state)
{
    struct world *w = *state;
    struct got ended = {.ends_early = true}, other = {0};
    start(&ended, w, "POST");
    while (ended.transfer) {
        loop_turn_for(w->loop, -1);
    }
    start(&other, w, "GET");
    finish(&other);
    assert_int_equal(ended.calls, 1);
    assert_string_equal(other.text, "hello");
}

static void unanswered_transfer_times_out(void **state)
{
    struct world *w = *state;
    struct got g = {0};
    start_request(
        &g, w, &(struct fetch_request){.method = "DELETE", .url = w->server.url, .timeout_ms = 50});
    finish(&g);
    assert_int_equal(fetch_status(g.transfer)->error.code, TIDINGS_E_TIMEOUT);
}

static void oversized_answer_is_an_error(void **state)
{
    struct world *w = *state;
    struct got g = {0};
    fetch_destroy(w->fetch);
    w->fetch = NULL;
    assert_int_equal(fetch_create(w->loop, 4, &w->fetch, NULL), 0);
    start(&g, w, "GET");
    finish(&g);
    assert_string_equal(fetch_status(g.transfer)->error.text, "the answer is too large");
    assert_string_equal(g.text, "");
}

static void unreachable_server_is_reported(void **state)
{
    struct world *w = *state;
    struct got g = {0};
    start_request(&g, w, &(struct fetch_request){.method = "GET", .url = "http://127.0.0.1:1/"});
    finish(&g);
    assert_int_equal(fetch_status(g.transfer)->error.code, TIDINGS_E_IO);
    assert_int_equal(g.calls, 1);
}

static void reset_connection_is_reported(void **state)
{
    struct world *w = *state;
    struct got g = {0};
    start(&g, w, "PUT");
    finish(&g);
    assert_int_equal(fetch_status(g.transfer)->error.code, TIDINGS_E_IO);
    assert_non_null(strstr(fetch_status(g.transfer)->error.text, "reset by peer"));
}

static void running_transfers_end_with_the_fetch(void **state)
{
    struct world *w = *state;
    struct got stream = {0}, silent = {0};
    start(&stream, w, "POST");
    start(&silent, w, "DELETE");
    while (stream.bytes == 0) {
        loop_turn_for(w->loop, -1);
    }
    /* the fixture destroys it */
}

#define ON_A_LOOP(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LOOP(requests_progress_in_turns_of_the_loop),
        ON_A_LOOP(receiver_may_take_nested_turns),
        ON_A_LOOP(receiver_may_close_its_transfer),
        ON_A_LOOP(unanswered_transfer_times_out),
        ON_A_LOOP(oversized_answer_is_an_error),
        ON_A_LOOP(unreachable_server_is_reported),
        ON_A_LOOP(reset_connection_is_reported),
        ON_A_LOOP(running_transfers_end_with_the_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
