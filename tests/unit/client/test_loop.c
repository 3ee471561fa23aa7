/* SPDX-License-Identifier: MIT
 *
 * The client inside the program's own loop: its descriptor is readable if a step has work to do,
 * after any kind of wait.
 */
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fake_transport.h"

/* A server whose answer to "slow" arrives on a descriptor, like that of real servers: no expired
 * timer remains that would make the client's descriptor readable without work. */
struct slow {
    struct fake fake;
    struct tidings_client *client;
    struct loop_poll gate;
    int64_t asked;
    bool stops;      /* … the client, instead of an answer */
    bool is_private; /* offers no subscriptions */
    int updates;
    int inner; /* the result of a step inside the callback */
};

static void on_gate(struct loop_poll *poll, int events, void *user)
{
    struct slow *s = user;
    char text[64];
    int fd = poll->fd;
    (void)events;
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":{}}",
             s->asked);
    loop_poll_deinit(poll);
    close(fd);
    transport_received(s->client->transport, tidings_str(text), 0, 0);
}

static void serve(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct slow *s = f->user;
    if (s->is_private && strcmp(method, "server/discover") == 0) {
        fake_result(f, id, "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}");
    } else if (fake_modern(f, method, id)) {
        return;
    } else if (strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, "");
    } else if (strcmp(method, "slow") == 0) {
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                    "\"params\":{\"uri\":\"x:/a\"}}");
        s->asked = id;
        if (s->stops) {
            tidings_client_stop(s->client);
        } else {
            int fd = eventfd(1, EFD_CLOEXEC);
            assert_int_equal(loop_poll_init(&s->gate, s->client->loop, fd, on_gate, s, NULL), 0);
            assert_int_equal(loop_poll_set_events(&s->gate, LOOP_READ), 0);
        }
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct slow *s = user;
    (void)u;
    s->updates++;
    s->inner = tidings_client_step(s->client, 0, NULL);
    assert_int_equal(tidings_client_run(s->client, NULL), s->inner);
}

static void begin(struct slow *s)
{
    static const struct tidings_client_options options = {.no_compare = true};
    struct tidings_subscribe_options on = {.fn = on_update, .user = s};
    s->client = fake_client(&s->fake, serve, s, &options);
    assert_non_null(s->client);
    assert_non_null(tidings_client_subscribe(s->client, "x:/a", &on, NULL));
}

static bool is_ready(const struct slow *s)
{
    struct pollfd p = {.fd = tidings_client_fd(s->client), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Steps while the descriptor is ready. */
static int follow(struct slow *s, struct tidings_error *err)
{
    int rc = 1;
    while (rc == 1 && is_ready(s)) {
        rc = tidings_client_step(s->client, 0, err);
    }
    return rc;
}

static void ask_slowly(struct slow *s)
{
    struct tidings_error err = {0};
    char *text = tidings_client_request(s->client, "slow", NULL, &err);
    assert_string_equal(err.text, "");
    assert_non_null(text);
    mem_free(text);
}

static void descriptor_is_ready_before_first_step(void **state)
{
    (void)state;
    struct slow s = {0};
    begin(&s);
    struct pollfd p = {.fd = tidings_client_fd(s.client), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(follow(&s, NULL), 1);
    assert_non_null(strstr(s.fake.log, "subscriptions/listen"));
    assert_false(is_ready(&s)); /* and not for nothing */
    tidings_client_destroy(s.client);
}

static void descriptor_is_ready_for_input_received_during_wait(void **state)
{
    (void)state;
    struct slow s = {0};
    begin(&s);
    assert_int_equal(follow(&s, NULL), 1);
    ask_slowly(&s);
    assert_int_equal(s.updates, 0);
    assert_int_equal(follow(&s, NULL), 1);
    assert_int_equal(s.updates, 1);
    tidings_client_destroy(s.client);
}

static void descriptor_is_ready_for_failure_during_wait(void **state)
{
    (void)state;
    struct slow s = {.is_private = true};
    struct tidings_error err = {0};
    begin(&s);
    ask_slowly(&s);
    assert_int_equal(follow(&s, &err), TIDINGS_E_UNSUPPORTED);
    assert_string_equal(err.text, "the server offers no subscriptions");
    tidings_client_destroy(s.client);
}

static void descriptor_stays_ready_after_stop(void **state)
{
    (void)state;
    struct slow s = {.stops = true};
    struct tidings_error err = {0};
    begin(&s);
    assert_int_equal(follow(&s, NULL), 1);
    assert_null(tidings_client_request(s.client, "slow", NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_CANCELLED);
    assert_true(is_ready(&s));
    assert_int_equal(follow(&s, NULL), 0);
    assert_true(is_ready(&s));
    tidings_client_destroy(s.client);
}

static void step_is_rejected_inside_callback(void **state)
{
    (void)state;
    struct slow s = {0};
    begin(&s);
    assert_int_equal(follow(&s, NULL), 1);
    ask_slowly(&s);
    assert_int_equal(follow(&s, NULL), 1);
    assert_int_equal(s.inner, TIDINGS_E_INVALID);
    ask_slowly(&s); /* nothing was torn down */
    assert_int_equal(s.fake.opened, 1);
    tidings_client_destroy(s.client);
}

static void request_requires_method_and_callback(void **state)
{
    (void)state;
    struct slow s = {0};
    struct tidings_error err = {0};
    struct tidings_client_asking asking = {.method = "slow"};
    begin(&s);
    assert_int_equal(tidings_client_ask(s.client, &asking, &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "a request needs a method and a function");
    tidings_client_destroy(s.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptor_is_ready_before_first_step),
        cmocka_unit_test(descriptor_is_ready_for_input_received_during_wait),
        cmocka_unit_test(descriptor_is_ready_for_failure_during_wait),
        cmocka_unit_test(descriptor_stays_ready_after_stop),
        cmocka_unit_test(step_is_rejected_inside_callback),
        cmocka_unit_test(request_requires_method_and_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
