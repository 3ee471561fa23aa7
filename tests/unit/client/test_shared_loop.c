/* SPDX-License-Identifier: MIT
 *
 * Clients on one loop of their program: each runs its callbacks in turns of the loop, each can be
 * destroyed in any callback, and none leaves anything behind. The fixture compares memory and
 * descriptors before and after each test; destroying the loop asserts that it is empty.
 */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/fail_alloc.h"
#include "support/fake_transport.h"
#include "support/scripted_server.h"

#define UPDATED                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"              \
    "{\"uri\":\"x:/a\"}}"

struct world {
    struct loop *loop;
    int fds;
};

/* A client and its server. */
struct peer {
    struct fake fake;
    struct loop *loop;
    struct tidings_client *client;
    struct peer *victim; /* destroyed by the next update; NULL: none */
    struct peer *waker;  /* updated while an update waits for an answer; NULL: no wait */
    struct peer
        *second;     /* called after the client was destroyed inside its transport; NULL: none */
    bool is_private; /* offers no subscriptions */
    int updates, closed, failures;
    int closed_inside;             /* `closed` of the victim after its destruction */
    struct tidings_error failure;  /* the last */
    struct tidings_error answered; /* the awaited request */
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

static bool has_timerfd(void)
{
    char path[64], target[256];
    bool is_there = false;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        is_there = is_there || strstr(target, "timerfd");
    }
    return is_there;
}

static int begin(void **state)
{
    static struct world w;
    fail_alloc_start(0);
    w.fds = count_fds();
    w.loop = loop_create(NULL);
    *state = &w;
    return w.loop ? 0 : -1;
}

static int end(void **state)
{
    const struct world *w = *state;
    loop_destroy(w->loop);
    long live = fail_alloc_live();
    int fds = count_fds();
    fail_alloc_end();
    if (live != 0 || fds != w->fds) {
        print_error("%ld allocations and %d descriptors are left\n", live, fds - w->fds);
    }
    return live == 0 && fds == w->fds ? 0 : -1;
}

static void on_failed(void *user, const struct tidings_error *why)
{
    struct peer *p = user;
    p->failures++;
    p->failure = *why;
}

static void on_closed(void *user)
{
    struct peer *p = user;
    p->closed++;
    p->client = NULL;
    loop_stop(p->loop); /* the turn does not block */
}

static void serve(struct fake *f, const char *method, int64_t id, struct json *m)
{
    const struct peer *p = f->user;
    if (p->is_private && strcmp(method, "server/discover") == 0) {
        fake_result(f, id, "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}");
    } else if (strcmp(method, "answered") == 0) {
        fake_result(f, id, "{}");
    } else if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, "");
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct peer *p = user;
    (void)u;
    p->updates++;
    assert_int_equal(p->closed, 0);
    if (p->victim) {
        tidings_client_destroy(p->victim->client);
        p->closed_inside = p->victim->closed;
        p->victim = NULL;
    } else if (p->waker) {
        fake_say(&p->waker->fake, UPDATED);
        assert_null(tidings_client_request(p->client, "unanswered", NULL, &p->answered));
    }
}

static void subscribe(struct peer *p)
{
    struct tidings_subscribe_options on = {.fn = on_update, .user = p};
    assert_non_null(tidings_client_subscribe(p->client, "x:/a", &on, NULL));
}

/* Inside the transport: destroys its client while another takes nested turns. */
static void on_wire(void *user, const struct tidings_client_wire *wire)
{
    struct peer *p = user;
    char *text = NULL;
    if (wire->is_sent || !p->second) {
        return;
    }
    struct peer *other = p->second;
    p->second = NULL;
    tidings_client_destroy(p->client);
    text = tidings_client_request(other->client, "answered", NULL, NULL);
    assert_non_null(text);
    tidings_free(text);
    assert_int_equal(p->closed, 0);
}

static void connect_to(struct peer *p, struct world *w)
{
    struct tidings_client_options options = {
        .no_compare = true, .on_wire = on_wire, .wire_user = p};
    struct client_host host = {
        .loop = w->loop, .on_failed = on_failed, .on_closed = on_closed, .user = p};
    p->loop = w->loop;
    p->client = fake_client_on(&host, &p->fake, serve, p, &options);
    assert_non_null(p->client);
    subscribe(p);
}

static bool is_listening(const struct peer *p)
{
    return p->client->listen > 0;
}

/* Turns until it holds. */
#define AWAIT(world, condition)                                                                    \
    while (!(condition)) {                                                                         \
        loop_turn_for((world)->loop, 10000);                                                       \
    }

static void close_both(struct world *w, struct peer *a, struct peer *b)
{
    tidings_client_destroy(a->client);
    tidings_client_destroy(b->client);
    AWAIT(w, a->closed == 1 && b->closed == 1);
}

static void two_clients_run_in_turns_of_the_loop(void **state)
{
    struct world *w = *state;
    struct peer a = {0}, b = {0};
    connect_to(&a, w);
    connect_to(&b, w);
    AWAIT(w, is_listening(&a) && is_listening(&b));
    fake_say(&a.fake, UPDATED);
    AWAIT(w, a.updates == 1);
    assert_int_equal(b.updates, 0);
    fake_say(&b.fake, UPDATED);
    AWAIT(w, b.updates == 1);
    assert_int_equal(a.updates, 1);
    assert_false(has_timerfd()); /* no host waits for the loop */
    close_both(w, &a, &b);
}

static void shared_clients_reject_direct_step(void **state)
{
    struct world *w = *state;
    struct tidings_error err = {0};
    struct peer a = {0}, b = {0};
    connect_to(&a, w);
    connect_to(&b, w);
    assert_int_equal(tidings_client_fd(a.client), -1);
    assert_int_equal(tidings_client_step(a.client, 0, &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "the client is on another loop");
    assert_int_equal(tidings_client_run(b.client, &err), TIDINGS_E_INVALID);
    close_both(w, &a, &b);
}

static void client_can_be_destroyed_in_callback_of_another(void **state)
{
    struct world *w = *state;
    struct peer a = {0}, b = {.victim = &a};
    connect_to(&a, w);
    connect_to(&b, w);
    AWAIT(w, is_listening(&a) && is_listening(&b));
    fake_say(&a.fake, UPDATED); /* in transit to a client that is destroyed */
    fake_say(&b.fake, UPDATED);
    AWAIT(w, a.closed == 1);
    assert_int_equal(b.closed_inside, 0); /* b's callback was on the stack */
    assert_int_equal(b.updates, 1);
    assert_int_equal(b.closed, 0);
    fake_say(&b.fake, UPDATED); /* the other continues */
    AWAIT(w, b.updates == 2);
    tidings_client_destroy(b.client);
    AWAIT(w, b.closed == 1);
}

static void client_can_be_destroyed_in_its_own_callback(void **state)
{
    struct world *w = *state;
    struct peer a = {0};
    a.victim = &a;
    connect_to(&a, w);
    AWAIT(w, is_listening(&a));
    fake_say(&a.fake, UPDATED);
    fake_say(&a.fake, UPDATED); /* no callback follows the first */
    AWAIT(w, a.closed == 1);
    assert_int_equal(a.updates, 1);
}

/* The callback of `a` waits for an answer in a nested turn, in which `b` destroys `a`. */
static void wait_ends_if_nested_callback_destroys_client(void **state)
{
    struct world *w = *state;
    struct peer a = {0}, b = {.victim = &a};
    a.waker = &b;
    connect_to(&a, w);
    connect_to(&b, w);
    AWAIT(w, is_listening(&a) && is_listening(&b));
    fake_say(&a.fake, UPDATED);
    AWAIT(w, a.updates == 1);
    assert_int_equal(b.updates, 1);
    assert_int_equal(a.answered.code, TIDINGS_E_CANCELLED);
    assert_int_equal(b.closed_inside, 0);
    AWAIT(w, a.closed == 1);
    tidings_client_destroy(b.client);
    AWAIT(w, b.closed == 1);
}

/* The same for a wait outside turns: the client stays in memory until the wait ends. */
static void wait_outside_turns_ends_if_client_is_destroyed(void **state)
{
    struct world *w = *state;
    struct tidings_error err = {0};
    struct peer a = {0}, b = {.victim = &a};
    connect_to(&a, w);
    connect_to(&b, w);
    AWAIT(w, is_listening(&a) && is_listening(&b));
    fake_say(&b.fake, UPDATED);
    assert_null(tidings_client_request(a.client, "unanswered", NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_CANCELLED);
    assert_int_equal(a.closed, 0);
    AWAIT(w, a.closed == 1);
    tidings_client_destroy(b.client);
    AWAIT(w, b.closed == 1);
}

static void client_destroyed_inside_transport_stays_in_memory(void **state)
{
    struct world *w = *state;
    struct peer a = {0}, b = {0};
    connect_to(&a, w);
    connect_to(&b, w);
    AWAIT(w, is_listening(&a) && is_listening(&b));
    a.second = &b;
    fake_say(&a.fake, UPDATED);
    AWAIT(w, a.closed == 1);
    assert_int_equal(a.updates, 0);
    tidings_client_destroy(b.client);
    AWAIT(w, b.closed == 1);
}

static void failure_is_reported_once_and_subscription_retries(void **state)
{
    struct world *w = *state;
    struct peer a = {.is_private = true};
    connect_to(&a, w);
    AWAIT(w, a.failures == 1);
    assert_int_equal(a.failure.code, TIDINGS_E_UNSUPPORTED);
    for (int i = 0; i < 10; i++) {
        loop_turn(w->loop);
    }
    assert_int_equal(a.failures, 1);
    a.is_private = false;
    struct tidings_subscribe_options on = {.fn = on_update, .user = &a};
    assert_non_null(tidings_client_subscribe(a.client, "x:/b", &on, NULL));
    AWAIT(w, is_listening(&a));
    tidings_client_destroy(a.client);
    AWAIT(w, a.closed == 1);
}

/* ---- a real transport ------------------------------------------------------------------------ */

static void with_session(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    if (scripted_is(r, "server/discover")) {
        scripted_reply(
            r, 400, "", "application/json",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"?\"}}");
    } else if (scripted_is(r, "initialize")) {
        scripted_result(r, "Mcp-Session-Id: s1\r\n", INITIALIZED);
    } else if (strcmp(r->method, "GET") == 0) {
        scripted_stream(r, "");
        scripted_await_close(r);
    } else if (scripted_is(r, "resources/subscribe")) {
        scripted_result(r, "", "{}");
    } else {
        scripted_reply(r, 202, "", "text/plain", "");
    }
}

static void session_ends_in_turns_after_client_is_destroyed(void **state)
{
    struct world *w = *state;
    struct scripted_server server;
    struct peer a = {.loop = w->loop};
    struct client_host host = {.loop = w->loop, .on_closed = on_closed, .user = &a};
    scripted_start(&server, with_session, NULL);
    a.client = client_create_on(&host, server.url, NULL, NULL);
    assert_non_null(a.client);
    subscribe(&a);
    AWAIT(w, a.client->stage == STAGE_READY && a.client->is_streaming);
    tidings_client_destroy(a.client);
    assert_int_equal(a.closed, 0);
    assert_null(strstr(server.log, "DELETE"));
    AWAIT(w, a.closed == 1);
    scripted_stop(&server);
    assert_non_null(strstr(server.log, "DELETE"));
}

static void client_can_be_destroyed_before_first_turn(void **state)
{
    struct world *w = *state;
    struct peer a = {0}, b = {0};
    connect_to(&a, w);
    connect_to(&b, w);
    close_both(w, &a, &b);
    assert_string_equal(a.fake.log, "");
}

#define ON_A_LOOP(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LOOP(two_clients_run_in_turns_of_the_loop),
        ON_A_LOOP(shared_clients_reject_direct_step),
        ON_A_LOOP(client_can_be_destroyed_in_callback_of_another),
        ON_A_LOOP(client_can_be_destroyed_in_its_own_callback),
        ON_A_LOOP(wait_ends_if_nested_callback_destroys_client),
        ON_A_LOOP(wait_outside_turns_ends_if_client_is_destroyed),
        ON_A_LOOP(client_destroyed_inside_transport_stays_in_memory),
        ON_A_LOOP(failure_is_reported_once_and_subscription_retries),
        ON_A_LOOP(session_ends_in_turns_after_client_is_destroyed),
        ON_A_LOOP(client_can_be_destroyed_before_first_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
