/* SPDX-License-Identifier: MIT
 *
 * The delivery guarantee, checked at random against a model of each client.
 *
 * Clients of every sort (sessions, listens, pipes of both eras) subscribe in every way with windows
 * and rates, read or stall, lose their connection and any number of messages, and resume with the
 * last event id or cursor they saw, or in a new session. The log is long or short, the outbox
 * small. For every subscription (support/model.h):
 *
 *   - every change after its acknowledgement is known in the end;
 *   - resuming with a cursor loses nothing that was not sent before it;
 *   - versions of one resource never fall, and only rise within a stream; for a strict subscription
 *     they rise within a stream across all resources.
 *
 * The seed is in every failure; TIDINGS_LONG=1 tries thousands, TIDINGS_SLOW (a sanitizer) a third,
 * TIDINGS_SEED=N only that seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/session.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/model.h"

#define SUBSCRIBERS 4u
#define STEPS 90u

static struct harness b;
static struct stub stub;

enum sort { SESSION, LISTEN, PIPE_LEGACY, PIPE_MODERN, SORTS };

struct model_subscriber {
    enum sort sort;
    struct model_client model;
    struct client *line; /* NULL: broken */
    struct client *dead; /* lost for the client, not for the server */
    struct harness_session session;
    size_t seen;
    size_t cursor_from; /* messages before this one do not cover all subscriptions */
};

static struct model_subscriber subscribers[SUBSCRIBERS];
static uint64_t random_state;

static unsigned roll(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 11) % n);
}

/* The client reads all messages except the last `lost`. */
static void see(struct model_subscriber *w, size_t lost)
{
    while (w->line && w->seen + lost < w->line->count) {
        bool counts = w->seen >= w->cursor_from;
        model_learn(&w->model, &w->line->said[w->seen++], counts);
    }
}

/* ---- subscribing ----------------------------------------------------------------------------- */

static const char *since_of(const struct model_subscriber *w)
{
    if (!w->model.cursor[0]) {
        return NULL;
    }
    if (roll(12) == 0) {
        return "5eed.1"; /* as after a restart */
    }
    return w->model.cursor;
}

static const char *options_text(const struct model_sub *s, const char *since)
{
    return text_of("{\"match\":\"%s\",\"order\":\"%s\",\"windowMs\":%u,\"rateMs\":%u%s%s%s}",
                   s->pattern->match, s->is_strict ? "strict" : "merged", roll(3) ? roll(6) : 0,
                   roll(4) ? 0 : roll(6), since ? ",\"since\":\"" : "", since ? since : "",
                   since ? "\"" : "");
}

static void new_stream(struct model_subscriber *w)
{
    w->seen = w->cursor_from = 0;
    model_new_stream(&w->model);
}

/* One listen for everything; confirmed subscriptions resume from the cursor. */
static void open_listen(struct model_subscriber *w)
{
    char uris[512], each[1536];
    size_t n = 0, len = 0;
    const char *since = since_of(w);
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        struct model_sub *s = &w->model.subs[k];
        const char *spelled = s->pattern->spelled;
        n += (size_t)snprintf(uris + n, sizeof(uris) - n, "%s\"%s\"", k ? "," : "", spelled);
        len += (size_t)snprintf(each + len, sizeof(each) - len, "%s\"%s\":%s", k ? "," : "",
                                spelled, options_text(s, s->promised ? since : NULL));
    }
    assert_true(n < sizeof(uris) && len < sizeof(each));
    TRACE("client %u listens to %s with %s\n", w->model.no, uris, each);
    w->line = client_http(&b);
    new_stream(w);
    client_listen_with(w->line, "7", text_of("[%s]", uris), text_of("{\"uris\":{%s}}", each));
}

/* The cursor in the answer covers messages written to the stream, which is another connection:
 * they may not have arrived. So only a client without another cursor uses it. */
static void subscribe_in_session(struct model_subscriber *w, struct model_sub *s, const char *since)
{
    const char *options = options_text(s, since);
    const char *answer = session_subscribe_with(&w->session, s->pattern->spelled, options);
    TRACE("client %u subscribes %s with %s: %s\n", w->model.no, s->pattern->spelled, options,
          answer);
    const char *cursor = json_at(answer, "result|_meta|dev.tidings/cursor");
    if (!cursor) {
        fail_msg("seed %u: subscribing gave %s", truth.seed, answer);
    }
    model_promise(s, b.worker[0]->last_seq);
    if (!w->model.cursor[0]) {
        char text[512];
        struct utterance u = {.seq = b.worker[0]->last_seq, .text = text};
        snprintf(text, sizeof(text), "%s", answer);
        model_take_cursor(&w->model, cursor, &u);
    }
}

static void open_stream(struct model_subscriber *w)
{
    bool fresh = w->model.last_id[0] == '\0';
    TRACE("client %u opens a stream after '%s'\n", w->model.no, w->model.last_id);
    struct client *line = session_stream(&w->session, fresh ? NULL : w->model.last_id);
    if (!line->is_streaming) { /* more than the server considers open */
        client_free(line);
        return;
    }
    w->line = line;
    new_stream(w);
    if (fresh) {
        see(w, 0); /* at least its start arrives: resuming needs an id */
    }
}

static void bury(struct model_subscriber *w)
{
    if (w->dead) {
        client_free(w->dead);
        w->dead = NULL;
    }
}

/* The session is gone: subscribe to everything in a new one. */
static void renew_session(struct model_subscriber *w)
{
    char since[CURSOR_TEXT] = "";
    bool stream_first = roll(2);
    if (since_of(w)) {
        snprintf(since, sizeof(since), "%s", since_of(w));
    }
    TRACE("client %u renews its session\n", w->model.no);
    bury(w);
    if (w->line) {
        client_free(w->line);
        w->line = NULL;
    }
    if (w->session.id[0]) {
        assert_int_equal(session_delete(&w->session), 204);
    }
    harness_session(&b, "2025-11-25", &w->session);
    w->model.last_id[0] = '\0';
    if (stream_first) {
        open_stream(w);
    }
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        struct model_sub *s = &w->model.subs[k];
        subscribe_in_session(w, s, s->promised && since[0] ? since : NULL);
    }
    if (!stream_first) {
        open_stream(w);
    } else {
        w->cursor_from = w->line->count; /* sent before all subscriptions were made */
    }
}

static void open_pipe(struct model_subscriber *w)
{
    TRACE("client %u is a pipe of sort %d\n", w->model.no, (int)w->sort);
    w->line = client_pipe(&b);
    new_stream(w);
    if (w->sort == PIPE_LEGACY) {
        client_handshake(w->line, "2025-11-25");
    }
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        struct model_sub *s = &w->model.subs[k];
        const char *spelled = s->pattern->spelled;
        const char *options = options_text(s, NULL);
        if (w->sort == PIPE_LEGACY) {
            const char *answer = pipe_subscribe_with(w->line, "3", spelled, options);
            assert_non_null(json_at(answer, "result|_meta|dev.tidings/cursor"));
            model_promise(s, b.worker[0]->last_seq);
        } else {
            client_listen_with(w->line, text_of("%u", k), text_of("[\"%s\"]", spelled), options);
            harness_run_until_idle(&b);
        }
    }
}

/* A pattern each, all different, so that an update identifies its subscription. */
static void begin_subscriber(struct model_subscriber *w)
{
    unsigned first = roll(MODEL_PATTERNS);
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        w->model.subs[k].pattern = &model_patterns[(first + 2 * k) % MODEL_PATTERNS];
        w->model.subs[k].is_strict = roll(2);
    }
    w->sort = (enum sort)roll(SORTS);
    if (w->sort == SESSION) {
        renew_session(w);
    } else if (w->sort == LISTEN) {
        open_listen(w);
    } else {
        open_pipe(w);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void break_line(struct model_subscriber *w)
{
    size_t unseen = w->line->count - w->seen;
    TRACE("client %u breaks\n", w->model.no);
    see(w, roll((unsigned)unseen + 1));
    if (roll(2) && !w->dead && w->sort == SESSION) {
        w->dead = w->line; /* the server continues to write to it for some time */
    } else {
        client_free(w->line);
    }
    w->line = NULL;
}

static void come_back(struct model_subscriber *w)
{
    if (w->sort == LISTEN) {
        open_listen(w);
    } else if (roll(4)) {
        open_stream(w);
    } else {
        renew_session(w);
    }
}

static void break_or_come_back(struct model_subscriber *w)
{
    if (w->sort != SESSION && w->sort != LISTEN) {
        return;
    }
    if (w->line) {
        break_line(w);
    } else {
        come_back(w);
    }
}

/* Other options; in the legacy era including after an unsubscription. */
static void subscribe_again(struct model_subscriber *w)
{
    struct model_sub *s = &w->model.subs[roll(MODEL_SUBS)];
    const char *spelled = s->pattern->spelled;
    if (w->sort == SESSION) {
        if (roll(3) == 0) {
            session_unsubscribe(&w->session, spelled);
            s->promised = false; /* its pending changes no longer count */
        }
        subscribe_in_session(w, s, NULL);
    } else if (w->sort == PIPE_LEGACY) {
        (void)pipe_subscribe_with(w->line, "3", spelled, options_text(s, NULL));
    }
}

static void step(void)
{
    struct model_subscriber *w = &subscribers[roll(SUBSCRIBERS)];
    unsigned i = roll(MODEL_URIS);
    switch (roll(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        harness_change(&b, model_uri(i), (enum tidings_change_kind)roll(3));
        truth_changed(i);
        break;
    case 5:
    case 6:
        see(w, 0);
        break;
    case 7:
    case 8:
        break_or_come_back(w);
        break;
    case 9:
        if (w->line) {
            w->line->pending = roll(2) ? 1u << 20 : 0;
            client_drain(w->line);
            w->line->pending = roll(3) ? 0 : 1u << 20;
        }
        break;
    case 10:
        bury(w);
        break;
    case 11:
        if (b.worker[0]->delivery->windows.count > 0) { /* the next period ends */
            struct windows *all = &b.worker[0]->delivery->windows;
            struct window *due = windows_due(all, windows_next(all));
            subscriber_release_deferred(list_entry(due, struct subscription, window),
                                        lag_due_now());
        }
        break;
    case 12:
        if (roll(3) == 0) {
            subscribe_again(w);
        } else {
            assert_int_equal(hub_set_rate(b.hub, tidings_str(model_uri(i)), roll(6), NULL), 0);
        }
        break;
    case 13:
        if (roll(6) == 0) {
            assert_int_equal(hub_announce_everything(b.hub, NULL), 0);
            truth_changed_all();
        }
        break;
    case 14:
        loop_turn(b.loop);
        break;
    default:
        harness_run_until_idle(&b);
    }
}

static void finish(void)
{
    harness_run_until_idle(&b);
    for (unsigned p = 0; p < SUBSCRIBERS; p++) {
        bury(&subscribers[p]);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned p = 0; p < SUBSCRIBERS; p++) {
            struct model_subscriber *w = &subscribers[p];
            if (!w->line) {
                come_back(w);
            }
            w->line->pending = 0;
            client_drain(w->line);
        }
        harness_run_until_idle(&b);
        harness_end_windows(&b);
        for (unsigned p = 0; p < SUBSCRIBERS; p++) {
            see(&subscribers[p], 0);
        }
    }
}

static void run(unsigned seed, size_t log_entries)
{
    memset(subscribers, 0, sizeof(subscribers));
    random_state = 88172645463325252ull + seed * 7919u;
    harness_init(&b);
    b.limits.outbox_max = roll(2) ? 3 : 64;
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = log_entries;
    harness_start(&b);
    truth_begin(seed, getenv("TIDINGS_SEED") != NULL, b.worker[0]->epoch);
    stub_mount(&stub, &b, "mem://x/", 0);
    for (unsigned i = 0; i < MODEL_URIS; i++) {
        stub_add(&stub, model_uri(i), false);
    }
    for (unsigned p = 0; p < SUBSCRIBERS; p++) {
        subscribers[p].model.no = p;
        begin_subscriber(&subscribers[p]);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    finish();
    assert_int_equal(b.worker[0]->last_seq, truth.seq);
    for (unsigned p = 0; p < SUBSCRIBERS; p++) {
        model_check(&subscribers[p].model);
        client_free(subscribers[p].line);
        if (subscribers[p].sort == SESSION) {
            assert_int_equal(session_delete(&subscribers[p].session), 204);
        }
    }
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    assert_int_equal(stub_watched_all(&stub), 0);
    harness_stop(&b);
}

static void run_many(size_t log_entries)
{
    const char *one = getenv("TIDINGS_SEED");
    const char *is_long = getenv("TIDINGS_LONG");
    unsigned first = one ? (unsigned)strtoul(one, NULL, 10) : 1;
    unsigned count = one                            ? 1
                     : is_long && is_long[0] == '1' ? 5000
                     : getenv("TIDINGS_SLOW")       ? 100
                                                    : 300;
    print_message("seeds %u to %u\n", first, first + count - 1);
    for (unsigned seed = first; seed < first + count; seed++) {
        run(seed, log_entries);
    }
}

static void clients_all_reach_the_current_state(void **state)
{
    (void)state;
    run_many(1000);
}

static void clients_reach_the_current_state_with_short_history(void **state)
{
    (void)state;
    run_many(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_all_reach_the_current_state),
        cmocka_unit_test(clients_reach_the_current_state_with_short_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
