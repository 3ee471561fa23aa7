/* SPDX-License-Identifier: MIT
 *
 * A guarantee checked at random: a client whose streams break at any point, with any number of lost
 * events, and that resumes with the last event id it saw on each, learns of every change, through
 * an update as new as the change or through a later "re-read".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/session.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/torn_client.h"

#define SEEDS 150u
#define STEPS 80u

static const char *const subscribed[] = {"mem://x/", "mem://x/0"};

static struct harness b;
static struct stub stub;
static struct harness_session s;
static struct torn_client t;

static void step(void)
{
    struct torn_line *l = torn_pick(&t);
    unsigned i = torn_roll(&t, TORN_URIS);
    switch (torn_roll(&t, 8)) {
    case 0:
    case 1:
    case 2:
        torn_change(&t, i);
        break;
    case 3:
        torn_see(&t, l);
        break;
    case 4:
        torn_break(&t, l);
        break;
    case 5:
        torn_choke(&t, l);
        break;
    case 6:
        torn_bury(&t);
        break;
    default:
        harness_run_until_idle(&b);
    }
}

static void run(unsigned seed, size_t log_entries)
{
    t = (struct torn_client){.harness = &b,
                             .session = &s,
                             .uris = TORN_URIS,
                             .subscribed = subscribed,
                             .subs = 2,
                             .deads = TORN_DEAD};
    torn_seed(&t, seed);
    torn_serve(&t, &stub, log_entries, 3);
    harness_session(&b, "2025-11-25", &s);
    for (unsigned i = 0; i < t.subs; i++) {
        session_subscribe(&s, subscribed[i]);
        t.has_subscribed[i] = true;
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    torn_mend(&t);
    assert_int_equal(b.worker[0]->last_seq, t.seq);
    const char *lost = torn_missing(&t);
    if (lost) {
        fail_msg("seed %u: %s", seed, lost);
    }
    torn_free(&t);
    harness_stop(&b);
}

static void resuming_client_misses_nothing(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        run(seed, 1000);
    }
}

static void resuming_client_is_truncated_with_short_history(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        run(seed, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resuming_client_misses_nothing),
        cmocka_unit_test(resuming_client_is_truncated_with_short_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
