/* SPDX-License-Identifier: MIT
 *
 * The stream of a session for questions of the server: the client opens it only for them and
 * reopens it after a loss, which does not affect the connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/question.h>

#include "support/scripted_server.h"

struct seen {
    atomic_int streams, answers;
    int lost;  /* number of streams that end at once */
    int asked; /* of the program */
    int states;
};

static void answer(struct scripted_server *s, const struct scripted_request *r)
{
    struct seen *seen = s->user;
    if (strcmp(r->method, "GET") == 0) {
        scripted_stream(r, "");
        if (atomic_fetch_add(&seen->streams, 1) >= seen->lost) {
            scripted_send(r, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":"
                             "\"elicitation/create\",\"params\":{\"message\":\"m\","
                             "\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n\n");
            scripted_await_close(r);
        }
    } else if (scripted_is(r, "initialize")) {
        scripted_result(r, "Mcp-Session-Id: s\r\n", INITIALIZED);
    } else if (scripted_is(r, "server/discover")) {
        scripted_reply(r, 400, "", "text/plain", "what?");
    } else {
        atomic_fetch_add(&seen->answers, strstr(r->body, "\"action\":\"accept\"") != NULL);
        scripted_reply(r, 202, "", "text/plain", "");
    }
}

static void on_form(void *user, struct tidings_question *q)
{
    struct seen *seen = user;
    seen->asked++;
    assert_int_equal(tidings_question_accept(q, TIDINGS_STR("{}"), NULL), 0);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct seen *seen = user;
    seen->states += e->state == TIDINGS_STATE_DISCONNECTED;
}

static void lost_question_stream_is_reopened(void **state)
{
    (void)state;
    for (int lost = 0; lost < 3; lost++) {
        struct scripted_server s;
        struct seen seen = {.lost = lost};
        struct tidings_client_options o = {.retry_min_ms = 1, .retry_max_ms = 1};
        struct tidings_question_handlers on = {.on_form = on_form, .user = &seen};
        scripted_start(&s, answer, &seen);
        struct tidings_client *c = tidings_client_create(s.url, &o, NULL);
        assert_non_null(c);
        assert_int_equal(tidings_client_on_question(c, &on, NULL), 0);
        tidings_client_on_state(c, on_state, &seen);
        while (atomic_load(&seen.answers) == 0) {
            assert_int_equal(tidings_client_step(c, 20, NULL), 1);
        }
        assert_int_equal(seen.asked, 1);
        assert_int_equal(seen.states, 0); /* the session exists all the time */
        assert_int_equal(atomic_load(&seen.streams), lost + 1);
        tidings_client_destroy(c);
        scripted_stop(&s);
    }
}

static void client_without_handlers_opens_no_stream(void **state)
{
    (void)state;
    struct scripted_server s;
    struct seen seen = {0};
    scripted_start(&s, answer, &seen);
    struct tidings_client *c = tidings_client_create(s.url, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    tidings_client_destroy(c);
    scripted_stop(&s);
    assert_int_equal(atomic_load(&seen.streams), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_question_stream_is_reopened),
        cmocka_unit_test(client_without_handlers_opens_no_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
