/* SPDX-License-Identifier: MIT
 *
 * Retained answers of disconnected clients: the eviction order if space runs out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "security/limits.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define ASKED "elicitation/create"
#define ANSWER "\"result\":{\"action\":\"decline\"}"
#define BYTES 1000u /* at least this much of an answer */

static struct harness b;

/* Asks, then returns an answer of that size. */
static void ask(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    char text[BYTES];
    int rc = 0;
    if (tidings_call_answer(h, "who").len > 0) {
        memset(text, 'x', sizeof(text));
        rc = tidings_call_text(h, tidings_strn(text, sizeof(text)), &err);
    } else {
        rc = tidings_call_ask(h, "who", ASKED,
                              STR("{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\","
                                  "\"properties\":{}}}"),
                              &err);
    }
    tidings_call_done(h, rc, &err);
}

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "ask", .handler = ask});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

/* A client with a session, and the events with which its streams are resumed. */
struct owner {
    const char *name;
    char session[64];
    unsigned calls;
    char events[16][256];
};

static struct client *client_of(const struct owner *o)
{
    struct client *c = client_http(&b);
    client_is(c, PRINCIPAL_TOKEN, o->name, "", 0);
    return c;
}

static void owner_begin(struct owner *o, const char *name)
{
    *o = (struct owner){.name = name};
    struct client *c = client_of(o);
    client_legacy(c, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    snprintf(o->session, sizeof(o->session), "%s", client_answer(c)->session);
    client_free(c);
}

/* The client calls, is asked, loses its connection, and answers on another: the outcome is kept. */
static void call_and_vanish(struct owner *o)
{
    struct client *c = client_of(o);
    unsigned n = ++o->calls;
    assert_in_range(n, 1, sizeof(o->events) / sizeof(o->events[0]) - 1);
    client_legacy(c, o->session, text_of("%u", 100 + n), "tools/call", "\"name\":\"ask\"");
    harness_run_until_idle(&b);
    snprintf(o->events[n], sizeof(o->events[n]), "%s", client_nth_said(c, ASKED, 0)->id);
    client_vanish(c);
    client_free(c);
    const struct dialect_headers headers = {.session_id = tidings_str(o->session)};
    c = client_of(o);
    client_say(c, &headers, text_of("{\"jsonrpc\":\"2.0\",\"id\":%u," ANSWER "}", n));
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(c, SAID_ACCEPTED), 1);
    client_free(c);
}

/* Returns true if the outcome of its n-th call (from 1) was kept, and fetches it. */
static bool fetches(const struct owner *o, unsigned n)
{
    struct client *c = client_of(o);
    client_stream(c, o->session, o->events[n]);
    harness_run_until_idle(&b);
    size_t events = client_count_kind(c, SAID_EVENT);
    bool is_kept = events > 0;
    if (is_kept) {
        assert_json(client_nth_kind(c, SAID_EVENT, events - 1)->text, "id", text_of("%u", 100 + n));
    }
    client_free(c);
    return is_kept;
}

static void assert_nothing_is_kept(void)
{
    const struct requests *all = b.worker[0]->requests;
    assert_int_equal(all->retained_bytes, 0);
    assert_true(list_empty(&all->retained));
    assert_true(list_empty(&all->retained_clients));
}

static void principal_with_the_most_bytes_loses_its_oldest_answer(void **state)
{
    (void)state;
    struct requests *all = b.worker[0]->requests;
    struct owner alice, bob;
    owner_begin(&alice, "alice");
    owner_begin(&bob, "bob");
    call_and_vanish(&alice);
    size_t one = all->retained_bytes;
    assert_true(one > BYTES);
    all->retained_most = 4 * one;
    call_and_vanish(&alice);
    for (unsigned i = 1; i <= 10; i++) {
        call_and_vanish(&bob);
        assert_true(all->retained_bytes <= all->retained_most);
    }
    assert_true(fetches(&alice, 1)); /* the oldest of all, but alice has no more than bob */
    assert_true(fetches(&alice, 2));
    for (unsigned i = 1; i <= 8; i++) {
        assert_false(fetches(&bob, i));
    }
    assert_true(fetches(&bob, 9));
    assert_true(fetches(&bob, 10));
    assert_nothing_is_kept();
    assert_int_equal(limit_in_use(b.worker[0]->limit_counters, LIMIT_OUTPUT), 0);
}

/* Bob has all of it; then alice arrives and gets half. */
static void later_answer_evicts_older_ones(void **state)
{
    (void)state;
    struct requests *all = b.worker[0]->requests;
    struct owner alice, bob;
    owner_begin(&alice, "alice");
    owner_begin(&bob, "bob");
    call_and_vanish(&bob);
    all->retained_most = 4 * all->retained_bytes;
    for (unsigned i = 2; i <= 4; i++) {
        call_and_vanish(&bob);
    }
    for (unsigned i = 1; i <= 3; i++) {
        call_and_vanish(&alice);
    }
    assert_false(fetches(&bob, 1));
    assert_false(fetches(&bob, 2));
    assert_true(fetches(&bob, 3));
    assert_true(fetches(&bob, 4));
    assert_false(fetches(&alice, 1)); /* from here on she loses her own */
    assert_true(fetches(&alice, 2));
    assert_true(fetches(&alice, 3));
    assert_nothing_is_kept();
}

static void answer_without_space_harms_no_other(void **state)
{
    (void)state;
    struct requests *all = b.worker[0]->requests;
    struct owner alice, bob;
    owner_begin(&alice, "alice");
    owner_begin(&bob, "bob");
    call_and_vanish(&alice);
    all->retained_most = all->retained_bytes + all->retained_bytes / 2; /* exactly one */
    call_and_vanish(&bob);
    assert_false(fetches(&bob, 1));
    assert_true(fetches(&alice, 1));
    assert_nothing_is_kept();
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(principal_with_the_most_bytes_loses_its_oldest_answer),
        WITH_BENCH(later_answer_evicts_older_ones),
        WITH_BENCH(answer_without_space_harms_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
