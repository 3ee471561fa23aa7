/* SPDX-License-Identifier: MIT
 *
 * The promise of delivery, checked at random against a model of each client.
 *
 * Clients of every sort (sessions, listens, pipes of both eras) subscribe in every way with windows
 * and rates, read or stall, lose their connection and with it any number of messages, come back
 * with the last event id or cursor they saw, or in a new session; the log is long or short, the
 * outbox small. A client knows of a change when it was told of that resource with a version as new,
 * or told "re-read" (truncated) after it. Then, for every subscription:
 *
 *   - every change after its acknowledgement is known in the end;
 *   - coming back with a cursor loses nothing that was not told before it;
 *   - versions of one resource never fall, and only rise within a stream.
 *
 * The seed is in every failure; TIDINGS_LONG=1 tries thousands, TIDINGS_SEED=N one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "core/session.h"
#include "support/bench_client.h"
#include "support/bench_core.h"
#include "support/bench_json.h"
#include "support/bench_subs.h"

#define URIS 8u
#define SUBS 3u
#define PEERS 4u
#define STEPS 90u
#define HISTORY 512u

static const struct {
    const char *spelled, *match;
    unsigned mask; /* of the URIs it matches */
} patterns[] = {
    {"mem://x/a/0", "auto", 0x01},   {"mem://x/a/", "auto", 0x0f},
    {"mem://x/*/1", "auto", 0x22},   {"mem://x/**", "auto", 0xff},
    {"mem://x/{d}/2", "auto", 0x44}, {"x/b/[01]$", "regex", 0x30},
    {"mem://x/b/?", "glob", 0xf0},   {"mem://x/a/%33", "literal", 0x08},
    {"mem://x/", "container", 0xff},
};
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static struct bench b;
static struct place place;

enum sort { SESSION, LISTEN, PIPE_LEGACY, PIPE_MODERN, SORTS };

struct wanted {
    unsigned pattern;
    bool promised;           /* the client saw that it has it … */
    uint64_t acked;          /* … when this was the newest change */
    uint64_t known[URIS];    /* up to which number the client knows each resource */
    uint64_t version[URIS];  /* the newest it was told */
    uint64_t streamed[URIS]; /* the same, on this stream */
};

struct who {
    enum sort sort;
    struct client *line; /* NULL: broken */
    struct client *dead; /* gone for the client, not for the server */
    struct bench_session session;
    size_t seen;
    size_t cursor_from; /* messages before this one say nothing about all subscriptions */
    char last_id[64];
    char cursor[64]; /* empty: never saw one */
    struct wanted subs[SUBS];
};

static struct {
    unsigned seed;
    bool traced;
    uint64_t random, seq;
    uint64_t history[URIS][HISTORY]; /* numbers of its changes, ascending */
    size_t count[URIS];
    struct who who[PEERS];
} m;

/* With one seed only: what happens, for whoever looks for a failure. */
#define TRACE(...)                                                                                 \
    do {                                                                                           \
        if (m.traced) {                                                                            \
            printf(__VA_ARGS__);                                                                   \
        }                                                                                          \
    } while (0)

static unsigned roll(unsigned n)
{
    m.random ^= m.random << 13;
    m.random ^= m.random >> 7;
    m.random ^= m.random << 17;
    return (unsigned)((m.random >> 11) % n);
}

static const char *uri_of(unsigned i)
{
    return text_of("mem://x/%c/%u", i < 4 ? 'a' : 'b', i % 4);
}

/* The newest change of a resource that is not above `limit`; 0: none. */
static uint64_t changed_by(unsigned i, uint64_t limit)
{
    uint64_t newest = 0;
    for (size_t k = 0; k < m.count[i] && m.history[i][k] <= limit; k++) {
        newest = m.history[i][k];
    }
    return newest;
}

static void note_change(unsigned i)
{
    assert_true(m.count[i] < HISTORY);
    m.history[i][m.count[i]++] = m.seq;
}

/* ---- what a client makes of a message -------------------------------------------------------- */

static struct wanted *wanted_as(struct who *w, const char *spelled)
{
    for (unsigned k = 0; k < SUBS; k++) {
        if (strcmp(patterns[w->subs[k].pattern].spelled, spelled) == 0) {
            return &w->subs[k];
        }
    }
    fail_msg("seed %u: an update for '%s', which was not subscribed", m.seed, spelled);
    return NULL;
}

static unsigned index_of(const struct wanted *s, const char *uri)
{
    const char *spelled = patterns[s->pattern].spelled;
    if (strcmp(uri, spelled) == 0 && strchr(spelled, '%')) {
        return 3; /* a literal is called by its client's own spelling */
    }
    size_t len = strlen(uri);
    assert_true(len == 11);
    return (unsigned)(uri[10] - '0') + (uri[8] == 'b' ? 4 : 0);
}

static void learn_update(struct who *w, const struct utterance *u)
{
    struct wanted *s = wanted_as(w, json_at(u->text, "params|subscribedUri"));
    if (json_at(u->text, "params|_meta|dev.tidings/truncated")) {
        for (unsigned i = 0; i < URIS; i++) {
            s->known[i] = u->seq > s->known[i] ? u->seq : s->known[i];
        }
        return;
    }
    unsigned i = index_of(s, json_at(u->text, "params|uri"));
    uint64_t version = version_of(u->text);
    if (!(patterns[s->pattern].mask & (1u << i))) {
        fail_msg("seed %u: '%s' does not match %s", m.seed, patterns[s->pattern].spelled,
                 uri_of(i));
    }
    if (version < s->version[i] || version <= s->streamed[i]) {
        fail_msg("seed %u: versions of %s for '%s' fall: %llu after %llu (%llu on this stream)",
                 m.seed, uri_of(i), patterns[s->pattern].spelled, (unsigned long long)version,
                 (unsigned long long)s->version[i], (unsigned long long)s->streamed[i]);
    }
    s->version[i] = s->streamed[i] = version;
    s->known[i] = version > s->known[i] ? version : s->known[i];
}

/* Coming back with this cursor loses nothing: what matched and did not change again (else it is
 * found by its newer number) up to the cursor was told before. */
static void check_cursor(const struct who *w, uint64_t cursor, const struct utterance *u)
{
    for (unsigned k = 0; k < SUBS; k++) {
        const struct wanted *s = &w->subs[k];
        for (unsigned i = 0; i < URIS && s->promised; i++) {
            uint64_t newest = changed_by(i, u->seq);
            if ((patterns[s->pattern].mask & (1u << i)) && newest <= cursor && newest > s->acked &&
                newest > s->known[i]) {
                fail_msg("seed %u: cursor %llu, but for '%s' %s changed at %llu and is known up "
                         "to %llu, in %s",
                         m.seed, (unsigned long long)cursor, patterns[s->pattern].spelled,
                         uri_of(i), (unsigned long long)newest, (unsigned long long)s->known[i],
                         u->text);
            }
        }
    }
}

static void take_cursor(struct who *w, const char *cursor, const struct utterance *u)
{
    uint64_t epoch = 0, seq = 0;
    assert_true(cursor_parse(tidings_str(cursor), &epoch, &seq));
    if (epoch == b.core[0].epoch) {
        check_cursor(w, seq, u);
    }
    snprintf(w->cursor, sizeof(w->cursor), "%s", cursor);
}

static void promise(struct wanted *s, uint64_t seq)
{
    if (!s->promised) {
        s->promised = true;
        s->acked = seq;
    }
}

static void learn_ack(struct who *w, const struct utterance *u)
{
    for (unsigned i = 0;; i++) {
        const char *spelled =
            json_at(u->text, text_of("params|notifications|resourceSubscriptions|%u", i));
        if (!spelled) {
            break;
        }
        promise(wanted_as(w, spelled), u->seq);
    }
    assert_no_json(u->text, "params|_meta|dev.tidings/refused");
}

static void learn(struct who *w, const struct utterance *u, bool cursor_counts)
{
    if (u->id[0]) {
        snprintf(w->last_id, sizeof(w->last_id), "%s", u->id);
    }
    const char *method = u->kind == SAID_EVENT ? json_at(u->text, "method") : NULL;
    TRACE("  client %td sees %s id %s: %s\n", w - m.who, method ? method : "something", u->id,
          u->text ? u->text : "");
    if (!method) {
        return;
    }
    if (strcmp(method, SAID_UPDATED) == 0) {
        learn_update(w, u);
    } else if (strcmp(method, SAID_ACK) == 0) {
        learn_ack(w, u);
    }
    const char *cursor = json_at(u->text, "params|_meta|dev.tidings/cursor");
    if (cursor && cursor_counts) {
        take_cursor(w, cursor, u);
    }
}

/* The client reads what came, but for the last `lost`. */
static void see(struct who *w, size_t lost)
{
    while (w->line && w->seen + lost < w->line->count) {
        bool counts = w->seen >= w->cursor_from;
        learn(w, &w->line->said[w->seen++], counts);
    }
}

/* ---- subscribing ----------------------------------------------------------------------------- */

static const char *since_of(const struct who *w)
{
    if (!w->cursor[0]) {
        return NULL;
    }
    if (roll(12) == 0) {
        return "5eed.1"; /* as after a restart */
    }
    return w->cursor;
}

static const char *options_text(const struct wanted *s, const char *since)
{
    return text_of("{\"match\":\"%s\",\"windowMs\":%u,\"rateMs\":%u%s%s%s}",
                   patterns[s->pattern].match, roll(3) ? roll(6) : 0, roll(4) ? 0 : roll(6),
                   since ? ",\"since\":\"" : "", since ? since : "", since ? "\"" : "");
}

static void new_stream(struct who *w)
{
    w->seen = w->cursor_from = 0;
    for (unsigned k = 0; k < SUBS; k++) {
        memset(w->subs[k].streamed, 0, sizeof(w->subs[k].streamed));
    }
}

/* One listen for everything; what was promised before goes on from the cursor. */
static void open_listen(struct who *w)
{
    char uris[512], each[1536];
    size_t n = 0, len = 0;
    const char *since = since_of(w);
    for (unsigned k = 0; k < SUBS; k++) {
        struct wanted *s = &w->subs[k];
        const char *spelled = patterns[s->pattern].spelled;
        n += (size_t)snprintf(uris + n, sizeof(uris) - n, "%s\"%s\"", k ? "," : "", spelled);
        len += (size_t)snprintf(each + len, sizeof(each) - len, "%s\"%s\":%s", k ? "," : "",
                                spelled, options_text(s, s->promised ? since : NULL));
    }
    assert_true(n < sizeof(uris) && len < sizeof(each));
    TRACE("client %td listens to %s with %s\n", w - m.who, uris, each);
    w->line = client_http(&b);
    new_stream(w);
    client_listen_with(w->line, "7", text_of("[%s]", uris), text_of("{\"uris\":{%s}}", each));
}

/* The cursor in the answer says what was written to the stream, which is another connection: what
 * it carries may not have arrived. So it counts only for who never saw another. */
static void subscribe_in_session(struct who *w, struct wanted *s, const char *since)
{
    const char *options = options_text(s, since);
    const char *answer = session_subscribe_with(&w->session, patterns[s->pattern].spelled, options);
    TRACE("client %td subscribes %s with %s: %s\n", w - m.who, patterns[s->pattern].spelled,
          options, answer);
    const char *cursor = json_at(answer, "result|_meta|dev.tidings/cursor");
    if (!cursor) {
        fail_msg("seed %u: subscribing gave %s", m.seed, answer);
    }
    promise(s, b.core[0].last_seq);
    if (!w->cursor[0]) {
        char text[512];
        struct utterance u = {.seq = b.core[0].last_seq, .text = text};
        snprintf(text, sizeof(text), "%s", answer);
        take_cursor(w, cursor, &u);
    }
}

static void open_stream(struct who *w)
{
    bool fresh = w->last_id[0] == '\0';
    TRACE("client %td opens a stream after '%s'\n", w - m.who, w->last_id);
    struct client *line = session_stream(&w->session, fresh ? NULL : w->last_id);
    if (!line->is_streaming) { /* too many that the server believes in */
        client_free(line);
        return;
    }
    w->line = line;
    new_stream(w);
    if (fresh) {
        see(w, 0); /* at least its beginning arrives: without an id there is no coming back */
    }
}

static void bury(struct who *w)
{
    if (w->dead) {
        client_free(w->dead);
        w->dead = NULL;
    }
}

/* The session is gone: everything again, in a new one. */
static void renew_session(struct who *w)
{
    char since[64] = "";
    bool stream_first = roll(2);
    if (since_of(w)) {
        snprintf(since, sizeof(since), "%s", since_of(w));
    }
    TRACE("client %td renews its session\n", w - m.who);
    bury(w);
    if (w->line) {
        client_free(w->line);
        w->line = NULL;
    }
    if (w->session.id[0]) {
        assert_int_equal(session_delete(&w->session), 204);
    }
    bench_session(&b, "2025-11-25", &w->session);
    w->last_id[0] = '\0';
    if (stream_first) {
        open_stream(w);
    }
    for (unsigned k = 0; k < SUBS; k++) {
        struct wanted *s = &w->subs[k];
        subscribe_in_session(w, s, s->promised && since[0] ? since : NULL);
    }
    if (!stream_first) {
        open_stream(w);
    } else {
        w->cursor_from = w->line->count; /* said before all had been asked for */
    }
}

static void open_pipe(struct who *w)
{
    TRACE("client %td is a pipe of sort %d\n", w - m.who, (int)w->sort);
    w->line = client_pipe(&b);
    new_stream(w);
    if (w->sort == PIPE_LEGACY) {
        client_handshake(w->line, "2025-11-25");
    }
    for (unsigned k = 0; k < SUBS; k++) {
        struct wanted *s = &w->subs[k];
        const char *spelled = patterns[s->pattern].spelled;
        const char *options = options_text(s, NULL);
        if (w->sort == PIPE_LEGACY) {
            const char *answer = pipe_subscribe_with(w->line, "3", spelled, options);
            assert_non_null(json_at(answer, "result|_meta|dev.tidings/cursor"));
            promise(s, b.core[0].last_seq);
        } else {
            client_listen_with(w->line, text_of("%u", k), text_of("[\"%s\"]", spelled), options);
            bench_settle(&b);
        }
    }
}

/* A pattern each, all different, so that an update tells whose it is. */
static void begin_who(struct who *w)
{
    unsigned first = roll(PATTERNS);
    for (unsigned k = 0; k < SUBS; k++) {
        w->subs[k].pattern = (first + 2 * k) % PATTERNS;
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

/* ---- what happens ---------------------------------------------------------------------------- */

static void break_line(struct who *w)
{
    size_t unseen = w->line->count - w->seen;
    TRACE("client %td breaks\n", w - m.who);
    see(w, roll((unsigned)unseen + 1));
    if (roll(2) && !w->dead && w->sort == SESSION) {
        w->dead = w->line; /* the server goes on writing to it for a while */
    } else {
        client_free(w->line);
    }
    w->line = NULL;
}

static void come_back(struct who *w)
{
    if (w->sort == LISTEN) {
        open_listen(w);
    } else if (roll(4)) {
        open_stream(w);
    } else {
        renew_session(w);
    }
}

static void break_or_come_back(struct who *w)
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

/* Other options; in the legacy era also after giving it up. */
static void subscribe_again(struct who *w)
{
    struct wanted *s = &w->subs[roll(SUBS)];
    const char *spelled = patterns[s->pattern].spelled;
    if (w->sort == SESSION) {
        if (roll(3) == 0) {
            session_unsubscribe(&w->session, spelled);
            s->promised = false; /* whatever it was still owed is forgiven */
        }
        subscribe_in_session(w, s, NULL);
    } else if (w->sort == PIPE_LEGACY) {
        (void)pipe_subscribe_with(w->line, "3", spelled, options_text(s, NULL));
    }
}

static void step(void)
{
    struct who *w = &m.who[roll(PEERS)];
    unsigned i = roll(URIS);
    switch (roll(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        bench_change(&b, uri_of(i), (enum tidings_change_kind)roll(3));
        m.seq++;
        note_change(i);
        TRACE("%llu: %s\n", (unsigned long long)m.seq, uri_of(i));
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
        if (b.core[0].windows.count > 0) { /* the next period ends */
            struct windows *all = &b.core[0].windows;
            struct window *due = windows_due(all, windows_next(all));
            peer_release_held(list_entry(due, struct sub, window));
        }
        break;
    case 12:
        if (roll(3) == 0) {
            subscribe_again(w);
        } else {
            assert_int_equal(hub_set_rate(b.hub, tidings_str(uri_of(i)), roll(6), NULL), 0);
        }
        break;
    case 13:
        if (roll(6) == 0) {
            assert_int_equal(hub_announce_everything(b.hub, NULL), 0);
            m.seq++;
            TRACE("%llu: everything\n", (unsigned long long)m.seq);
            for (unsigned k = 0; k < URIS; k++) {
                note_change(k);
            }
        }
        break;
    case 14:
        loop_turn(b.loop);
        break;
    default:
        bench_settle(&b);
    }
}

static void finish(void)
{
    bench_settle(&b);
    for (unsigned p = 0; p < PEERS; p++) {
        bury(&m.who[p]);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned p = 0; p < PEERS; p++) {
            struct who *w = &m.who[p];
            if (!w->line) {
                come_back(w);
            }
            w->line->pending = 0;
            client_drain(w->line);
        }
        bench_settle(&b);
        bench_end_windows(&b);
        for (unsigned p = 0; p < PEERS; p++) {
            see(&m.who[p], 0);
        }
    }
}

static void compare(void)
{
    assert_int_equal(b.core[0].last_seq, m.seq);
    for (unsigned p = 0; p < PEERS; p++) {
        for (unsigned k = 0; k < SUBS; k++) {
            const struct wanted *s = &m.who[p].subs[k];
            assert_true(s->promised);
            for (unsigned i = 0; i < URIS; i++) {
                uint64_t newest = changed_by(i, UINT64_MAX);
                if ((patterns[s->pattern].mask & (1u << i)) && newest > s->acked &&
                    s->known[i] < newest) {
                    fail_msg("seed %u: for '%s' (client %u of sort %d) %s changed at %llu, known "
                             "up to %llu; acknowledged at %llu",
                             m.seed, patterns[s->pattern].spelled, p, (int)m.who[p].sort, uri_of(i),
                             (unsigned long long)newest, (unsigned long long)s->known[i],
                             (unsigned long long)s->acked);
                }
            }
        }
    }
}

static void run(unsigned seed, size_t log_entries)
{
    memset(&m, 0, sizeof(m));
    m.seed = seed;
    m.traced = getenv("TIDINGS_SEED") != NULL;
    m.random = 88172645463325252ull + seed * 7919u;
    bench_init(&b);
    b.limits.outbox_max = roll(2) ? 3 : 64;
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = log_entries;
    bench_start(&b);
    place_mount(&place, &b, "mem://x/", 0);
    for (unsigned i = 0; i < URIS; i++) {
        place_add(&place, uri_of(i), false);
    }
    for (unsigned p = 0; p < PEERS; p++) {
        begin_who(&m.who[p]);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    finish();
    compare();
    for (unsigned p = 0; p < PEERS; p++) {
        client_free(m.who[p].line);
        if (m.who[p].sort == SESSION) {
            assert_int_equal(session_delete(&m.who[p].session), 204);
        }
    }
    bench_settle(&b);
    assert_int_equal(b.core[0].stats.subscriptions, 0);
    assert_int_equal(b.core[0].stats.peers, 0);
    assert_int_equal(place_watched_all(&place), 0);
    bench_stop(&b);
}

static void run_many(size_t log_entries)
{
    const char *one = getenv("TIDINGS_SEED");
    const char *is_long = getenv("TIDINGS_LONG");
    unsigned first = one ? (unsigned)strtoul(one, NULL, 10) : 1;
    unsigned count = one ? 1 : is_long && is_long[0] == '1' ? 5000 : 300;
    print_message("seeds %u to %u\n", first, first + count - 1);
    for (unsigned seed = first; seed < first + count; seed++) {
        run(seed, log_entries);
    }
}

static void every_client_ends_up_knowing_the_truth(void **state)
{
    (void)state;
    run_many(1000);
}

static void also_when_history_is_short(void **state)
{
    (void)state;
    run_many(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_client_ends_up_knowing_the_truth),
        cmocka_unit_test(also_when_history_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
