/* SPDX-License-Identifier: MIT
 *
 * Ten thousand subscribers that connect and disconnect: every allocation made for them is freed, no
 * watch remains, counters are zero.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/protocol/session.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define CYCLES 10000u
#define WARM 500u

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    fail_alloc_start(0);
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = 4; /* so that it is full before counting starts */
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", STUB_QUERY);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/dir/", true);
    stub_add(&stub, "mem://x/dir/b", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
    return 0;
}

static const char *const uris[] = {
    "[\"mem://x/a\"]",
    "[\"mem://x/dir/\",\"mem://x/a\"]",
    "[\"mem://x/*\",\"mem://x/{n}\",\"mem://x/none/\"]",
    "[\"mem://x/dir?pattern=*\",\"mem://x/missing\"]",
};

static const char *const options[] = {
    NULL,
    "{\"windowMs\":60000}",
    "{\"initial\":true,\"include\":\"value\"}",
    "{\"since\":\"1.1\"}",
    "{\"origin\":\"me\",\"echo\":false,\"rateMs\":5}",
};

/* A listen that closes after `turns` turns, whatever its state. */
static void one_listen(unsigned i)
{
    struct client *c = client_http(&b);
    client_listen_with(c, "1", uris[i % 4], options[i % 5]);
    for (unsigned turn = 0; turn < i % 7; turn++) {
        loop_turn(b.loop);
    }
    harness_update(&b, i % 2 ? "mem://x/a" : "mem://x/dir/b");
    if (i % 3 == 0) {
        harness_run_until_idle(&b);
        harness_update(&b, "mem://x/a");
        harness_run_until_idle(&b);
    }
    client_free(c);
}

static void one_session(void)
{
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    (void)session_subscribe_with(&s, "mem://x/a", "{\"windowMs\":60000}");
    (void)session_subscribe_with(&s, "mem://x/dir/", "{\"initial\":true}");
    struct client *c = session_stream(&s, NULL);
    harness_update(&b, "mem://x/a");
    harness_update(&b, "mem://x/a");
    harness_run_until_idle(&b);
    assert_int_equal(session_delete(&s), 204);
    client_free(c);
}

static void nothing_is_left(long before)
{
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    assert_int_equal(b.worker[0]->stats.sessions, 0);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    assert_int_equal(b.worker[0]->delivery->windows.count, 0);
    assert_int_equal(stub_watched_all(&stub), 0);
    /* The values of the last changes are kept, up to a limit; everything else is freed. */
    long values = (long)b.worker[0]->delivery->contents.count;
    if (before > 0 && fail_alloc_live() > before + 8 * values) {
        fail_msg("%ld allocations more than %u cycles before", fail_alloc_live() - before, CYCLES);
    }
}

static void ten_thousand_listens_leak_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WARM; i++) {
        one_listen(i);
    }
    nothing_is_left(0);
    long before = fail_alloc_live();
    size_t index = match_bytes(&b.worker[0]->delivery->match);
    for (unsigned i = 0; i < CYCLES; i++) {
        one_listen(i);
    }
    nothing_is_left(before);
    assert_int_equal(match_bytes(&b.worker[0]->delivery->match), index);
}

static void sessions_leak_nothing_after_churn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        one_session();
    }
    nothing_is_left(0);
    long before = fail_alloc_live();
    for (unsigned i = 0; i < 500; i++) {
        one_session();
    }
    nothing_is_left(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_thousand_listens_leak_nothing, begin, end),
        cmocka_unit_test_setup_teardown(sessions_leak_nothing_after_churn, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
