/* SPDX-License-Identifier: MIT
 *
 * Sessions with subscriptions that go back (`since`) while a stream is open. Ids of earlier events
 * do not cover the replay of such a subscription. Wherever the stream is cut, a client that resumes
 * with the id of the last received event gets everything after `since`, for each subscription. Once
 * for every place where a stream can be cut, and once at random with two streams.
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
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/torn_client.h"

#define URIS 3u
#define SUBS 3u
#define TURNS 4u /* loop turns: more than the replay of a subscription takes */
#define PAST 8u
#define SEEDS 200u
#define STEPS 60u

static const char *const subscribed[SUBS] = {"mem://x/0", "mem://x/", "mem://x/1"};

static struct harness b;
static struct stub stub;
static struct harness_session s;
static struct torn_client t;

/* ---- worlds ---------------------------------------------------------------------------------- */

static void learn_all(const struct client *c)
{
    for (size_t i = 0; i < c->count; i++) {
        torn_learn(&t, &c->said[i]);
    }
}

static void start(size_t log_entries, size_t outbox_max)
{
    t = (struct torn_client){.harness = &b,
                             .session = &s,
                             .uris = URIS,
                             .subscribed = subscribed,
                             .subs = SUBS,
                             .deads = 2,
                             .reads_at_update = true};
    torn_serve(&t, &stub, log_entries, outbox_max);
}

static int begin(void **state)
{
    (void)state;
    start(1000, 1000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    b.principal.name = NULL;
    harness_stop(&b);
    return 0;
}

/* Writes the current cursor into `out`. */
static void now(char out[256])
{
    harness_run_until_idle(&b);
    struct client *c = listen_with(&b, "[\"mem://x/\"]", NULL);
    snprintf(out, 256, "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    client_free(c);
    harness_run_until_idle(&b);
}

/* The request only; a client that knows everything up to `seq`. */
static struct client *subscribe(unsigned sub, const char *cursor, uint64_t seq)
{
    struct client *c = session_request(&s, "5", "resources/subscribe",
                                       text_of("\"uri\":\"%s\",\"_meta\":{\"dev.tidings/options\":"
                                               "{\"windowMs\":0,\"since\":\"%s\"}}",
                                               subscribed[sub], cursor));
    t.has_subscribed[sub] = true;
    for (unsigned i = 0; i < URIS; i++) {
        torn_note(&t, sub, i, seq);
    }
    return c;
}

/* ---- cut everywhere -------------------------------------------------------------------------- */

struct scene {
    const char *revision;
    unsigned cut_at;       /* after this step … */
    unsigned turns;        /* … and this many turns of the loop */
    size_t arrived;        /* whole messages of the stream */
    bool lives;            /* a change between subscriptions */
    bool is_noticed;       /* by the server, that the stream was cut */
    bool is_blocked;       /* no more is written to it from that step on */
    bool is_unknown;       /* the cursor the subscriptions go back to */
    bool comes_back_first; /* before the remaining steps */
};

static char before[256]; /* the cursor before all changes */
static uint64_t before_seq;

static struct client *asked[2 * SUBS];
static size_t asked_count;

static void step_of_scene(const struct scene *scene, unsigned step)
{
    if (step % 2 == 0) {
        asked[asked_count++] = scene->is_unknown ? subscribe(step / 2, "5eed.1", 0)
                                                 : subscribe(step / 2, before, before_seq);
    } else if (scene->lives) {
        for (unsigned i = 0; i < URIS; i++) {
            torn_change(&t, i);
        }
    }
}

static void turn(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        loop_turn(b.loop);
    }
}

/* False if the stream has fewer messages. */
static bool play(const struct scene *scene)
{
    memset(t.known, 0, sizeof(t.known));
    memset(t.has_subscribed, 0, sizeof(t.has_subscribed));
    asked_count = 0;
    now(before);
    before_seq = t.seq;
    for (unsigned i = 0; i < 2 * URIS; i++) {
        torn_change(&t, i % URIS);
    }
    harness_run_until_idle(&b);
    harness_session(&b, scene->revision, &s);
    struct client *first = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    for (unsigned i = 0; i < scene->cut_at; i++) {
        step_of_scene(scene, i);
        harness_run_until_idle(&b);
    }
    first->pending = scene->is_blocked ? 1u << 20 : 0;
    step_of_scene(scene, scene->cut_at);
    turn(scene->turns);
    bool has_so_many = scene->arrived <= first->count;
    const char *last = NULL;
    for (size_t i = 0; i < scene->arrived && has_so_many; i++) {
        torn_learn(&t, &first->said[i]);
        last = first->said[i].id[0] ? first->said[i].id : last;
    }
    if (scene->is_noticed) {
        client_vanish(first);
    }
    struct client *second = NULL;
    if (scene->comes_back_first) {
        second = session_stream(&s, last);
    }
    for (unsigned i = scene->cut_at + 1; i < 2 * SUBS; i++) {
        step_of_scene(scene, i);
        harness_run_until_idle(&b);
    }
    if (!second) {
        second = session_stream(&s, last);
    }
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    harness_run_until_idle(&b);
    learn_all(second);
    /* Resuming needs an id: a fresh stream has the messages that no other stream carried. */
    const char *lost = has_so_many && (last || first->count == 0) ? torn_missing(&t) : NULL;
    if (lost) {
        fail_msg(
            "%s, cut after step %u and %u turns with %zu of %zu messages, %s, %s, %s, %s, %s: %s",
            scene->revision, scene->cut_at, scene->turns, scene->arrived, first->count,
            scene->lives ? "lively" : "quiet", scene->is_noticed ? "noticed" : "unnoticed",
            scene->is_unknown ? "unknown" : "known", scene->is_blocked ? "blocked" : "not blocked",
            scene->comes_back_first ? "back first" : "back last", lost);
    }
    for (size_t i = 0; i < asked_count; i++) {
        assert_non_null(json_at(client_answer(asked[i])->text, "result"));
        client_free(asked[i]);
    }
    client_free(first);
    client_free(second);
    assert_int_equal(session_delete(&s), 204);
    return has_so_many;
}

/* Under a sanitizer only a fifth runs. */
static bool is_slow(void)
{
    return getenv("TIDINGS_SLOW") != NULL;
}

static void play_all(const char *revision)
{
    struct scene scene = {.revision = revision};
    for (unsigned way = 0; way < 32; way += is_slow() ? 5 : 1) {
        scene.lives = way & 1;
        scene.is_noticed = way & 2;
        scene.comes_back_first = way & 4;
        scene.is_blocked = way & 8;
        scene.is_unknown = way & 16;
        for (scene.cut_at = 0; scene.cut_at < 2 * SUBS; scene.cut_at++) {
            for (scene.turns = 0; scene.turns <= TURNS; scene.turns++) {
                for (scene.arrived = 0; play(&scene); scene.arrived++) {
                }
            }
        }
    }
}

static void cut_session_receives_all_requested_replays(void **state)
{
    (void)state;
    play_all("2025-11-25");
}

static void cut_session_without_a_first_id_receives_all_replays(void **state)
{
    (void)state;
    play_all("2025-06-18");
}

static void cut_session_with_sealed_ids_receives_all_replays(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {{"reader", NULL, "mem://x/**", HARNESS_SEE}};
    harness_rules(&b, rules, 1);
    harness_is(&b, "reader", "");
    play_all("2025-11-25");
}

/* ---- two streams ----------------------------------------------------------------------------- */

static const char *newest_id(const struct client *c)
{
    return text_of("%s", c->said[c->count - 1].id);
}

/* The other stream replaces a resumed stream before any replay is written. The other must carry
 * the replay, which its own ids do not cover. */
static void replaced_stream_passes_its_replay_to_the_next(void **state)
{
    (void)state;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/");
    t.has_subscribed[1] = true;
    struct client *one = session_stream(&s, NULL);
    const char *one_id = newest_id(one);
    torn_change(&t, 0);
    torn_change(&t, 1);
    harness_run_until_idle(&b); /* written to it, lost on the way */
    struct client *two = session_stream(&s, NULL);
    torn_change(&t, 2);
    harness_run_until_idle(&b);
    learn_all(two);
    const char *two_id = newest_id(two);
    client_free(one);
    client_free(two);
    one = session_stream(&s, one_id); /* the log query starts … */
    two = session_stream(&s, two_id); /* … and is not awaited */
    harness_run_until_idle(&b);
    assert_int_equal(update_count(two, NULL), 3); /* lost on the way too */
    client_free(one);
    client_free(two);
    one = session_stream(&s, one_id);
    harness_run_until_idle(&b);
    two = session_stream(&s, two_id);
    harness_run_until_idle(&b);
    learn_all(one);
    learn_all(two);
    assert_null(torn_missing(&t));
    client_free(one);
    client_free(two);
    assert_int_equal(session_delete(&s), 204);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Two subscriptions without a stream, the second of which goes back to nothing. Returns the
 * number of updates for the first in another session that goes back to the cursor of the
 * second's answer. */
static size_t told_after_second_answer(const char *cursor, const char **update)
{
    harness_session(&b, "2025-11-25", &s);
    const char *options = text_of("{\"since\":\"%s\"}", cursor);
    assert_non_null(json_at(session_subscribe_with(&s, "mem://x/0", options), "result"));
    const char *answer = session_subscribe_with(&s, "mem://x/1", NULL);
    const char *newest = json_at(answer, "result|_meta|dev.tidings/cursor");
    options = text_of("{\"since\":\"%s\"}", newest);
    assert_int_equal(session_delete(&s), 204);
    harness_session(&b, "2025-11-25", &s);
    assert_non_null(json_at(session_subscribe_with(&s, "mem://x/0", options), "result"));
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    size_t told = update_count(c, "mem://x/0");
    *update = told > 0 ? text_of("%s", update_nth(c, "mem://x/0", 0)) : NULL;
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
    return told;
}

static void answers_do_not_confirm_other_subscriptions(void **state)
{
    (void)state;
    const char *update;
    now(before);
    torn_change(&t, 0);
    torn_change(&t, 1);
    harness_run_until_idle(&b);
    assert_int_equal(told_after_second_answer(before, &update), 1);
    assert_int_equal(version_of(update), 1);
    assert_int_equal(told_after_second_answer("5eed.1", &update), 1);
    assert_non_null(json_at(update, "params|_meta|dev.tidings/truncated"));
}

/* ---- at random ------------------------------------------------------------------------------- */

static struct {
    struct {
        char cursor[256];
        uint64_t seq;
    } past[PAST]; /* the cursor to go back to */
    size_t past_count;
    struct client *asked[STEPS];
    size_t asked_count;
} r;

static void go_back(void)
{
    size_t at = torn_roll(&t, (unsigned)r.past_count + 1);
    bool is_known = at < r.past_count;
    r.asked[r.asked_count++] =
        subscribe(torn_roll(&t, SUBS), is_known ? r.past[at].cursor : "5eed.1",
                  is_known ? r.past[at].seq : 0);
}

static void step(void)
{
    struct torn_line *l = torn_pick(&t);
    switch (torn_roll(&t, 8)) {
    case 0:
    case 1:
        torn_change(&t, torn_roll(&t, URIS));
        break;
    case 2:
        torn_see(&t, l);
        break;
    case 3:
    case 4:
        torn_break(&t, l);
        break;
    case 5:
        torn_choke(&t, l);
        break;
    case 6:
        go_back();
        break;
    default:
        if (torn_roll(&t, 2)) {
            harness_run_until_idle(&b);
        } else {
            turn(1 + torn_roll(&t, 4));
        }
        torn_bury(&t);
    }
}

static void run(unsigned seed, size_t log_entries)
{
    start(log_entries, seed % 2 ? 1000 : 4);
    memset(&r, 0, sizeof(r));
    torn_seed(&t, seed);
    for (unsigned i = 0; i < PAST; i++) {
        now(r.past[r.past_count].cursor);
        r.past[r.past_count++].seq = t.seq;
        torn_change(&t, torn_roll(&t, URIS));
    }
    harness_run_until_idle(&b);
    harness_session(&b, "2025-11-25", &s);
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    torn_mend(&t);
    const char *lost = torn_missing(&t);
    if (lost) {
        fail_msg("seed %u: %s", seed, lost);
    }
    torn_free(&t);
    for (size_t i = 0; i < r.asked_count; i++) {
        client_free(r.asked[i]);
    }
    harness_stop(&b);
}

static void rewound_session_misses_nothing_after_cuts(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= (is_slow() ? SEEDS / 5 : SEEDS); seed++) {
        run(seed, 1000);
    }
}

static void rewound_session_is_truncated_with_short_history(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= (is_slow() ? SEEDS / 5 : SEEDS); seed++) {
        run(seed, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_WORLD(name) cmocka_unit_test_setup_teardown(name, begin, end)
        IN_WORLD(cut_session_receives_all_requested_replays),
        IN_WORLD(cut_session_without_a_first_id_receives_all_replays),
        IN_WORLD(cut_session_with_sealed_ids_receives_all_replays),
        IN_WORLD(replaced_stream_passes_its_replay_to_the_next),
        IN_WORLD(answers_do_not_confirm_other_subscriptions),
        cmocka_unit_test(rewound_session_misses_nothing_after_cuts),
        cmocka_unit_test(rewound_session_is_truncated_with_short_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
