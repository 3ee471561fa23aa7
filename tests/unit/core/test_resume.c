/* SPDX-License-Identifier: MIT
 *
 * A promise checked at random: a client whose streams break at any point, with any number of events
 * lost on the way, and that comes back with the id of the last event it saw on each, ends up
 * knowing of every change: by an update that is as new as the change, or by one that says "re-read"
 * and was written after it.
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
#include "support/bench_provider.h"

#define URIS 5u
#define LINES 2u /* streams as the client sees them, each resumed over and over */
#define DEAD 3u
#define SEEDS 150u
#define STEPS 80u

static struct bench b;
static struct fake fake;
static struct bench_session s;

struct line {
    struct client *client; /* NULL: broken */
    size_t seen;
    char last_id[256];
};

static struct {
    uint64_t random, seq;
    struct line lines[LINES];
    struct client *dead[DEAD]; /* gone for the client, not yet for the server */
    uint64_t changed[URIS];    /* the number of the newest change */
    uint64_t known[2][URIS];   /* by subscription: 0 the container, 1 the literal */
} m;

static unsigned roll(unsigned n)
{
    m.random ^= m.random << 13;
    m.random ^= m.random >> 7;
    m.random ^= m.random << 17;
    return (unsigned)((m.random >> 11) % n);
}

static void learn(const struct utterance *u)
{
    if (u->kind != SAID_EVENT || !json_at(u->text, "params|subscribedUri")) {
        return;
    }
    bool literal = strcmp(json_at(u->text, "params|subscribedUri"), "mem://x/0") == 0;
    if (json_at(u->text, "params|_meta|dev.tidings/truncated")) {
        for (unsigned i = 0; i < URIS; i++) {
            m.known[literal][i] = u->seq > m.known[literal][i] ? u->seq : m.known[literal][i];
        }
        return;
    }
    const char *uri = json_at(u->text, "params|uri");
    unsigned i = (unsigned)(uri[strlen(uri) - 1] - '0');
    struct tidings_str number;
    uint64_t seq = 0;
    (void)str_cut(tidings_str(json_at(u->text, "params|_meta|dev.tidings/version")), '.', &number,
                  NULL);
    assert_true(i < URIS && str_to_u64(number, &seq));
    if (seq > m.known[literal][i]) {
        m.known[literal][i] = seq;
    }
}

/* The client reads what came, but for the last `lost`. */
static void see(struct line *l, size_t lost)
{
    while (l->seen + lost < l->client->count) {
        const struct utterance *u = &l->client->said[l->seen++];
        learn(u);
        if (u->id[0]) {
            snprintf(l->last_id, sizeof(l->last_id), "%s", u->id);
        }
    }
}

static void reconnect(struct line *l)
{
    bool fresh = l->last_id[0] == '\0';
    l->client = session_stream(&s, fresh ? NULL : l->last_id);
    l->seen = 0;
    if (!l->client->is_streaming) { /* too many that the server believes in */
        client_free(l->client);
        l->client = NULL;
    } else if (fresh) {
        see(l, 0); /* at least its beginning arrives: without an id there is no coming back */
    }
}

static void bury(unsigned i)
{
    if (m.dead[i]) {
        client_free(m.dead[i]);
        m.dead[i] = NULL;
    }
}

static void break_line(struct line *l)
{
    size_t unseen = l->client->count - l->seen;
    see(l, roll((unsigned)unseen + 1));
    unsigned i = roll(DEAD);
    if (roll(2) && !m.dead[i]) {
        m.dead[i] = l->client; /* the server goes on writing to it for a while */
    } else {
        client_free(l->client);
    }
    l->client = NULL;
}

static void step(void)
{
    struct line *l = &m.lines[roll(LINES)];
    unsigned i = roll(URIS);
    switch (roll(8)) {
    case 0:
    case 1:
    case 2:
        bench_update(&b, text_of("mem://x/%u", i));
        m.changed[i] = ++m.seq; /* nothing else is announced here */
        break;
    case 3:
        if (l->client) {
            see(l, 0);
        }
        break;
    case 4:
        if (!l->client) {
            reconnect(l);
        } else {
            break_line(l);
        }
        break;
    case 5:
        if (l->client) {
            l->client->pending = roll(2) ? 1u << 20 : 0;
            client_drain(l->client);
            l->client->pending = roll(3) ? 0 : 1u << 20;
        }
        break;
    case 6:
        bury(roll(DEAD));
        break;
    default:
        bench_settle(&b);
    }
}

static void finish(void)
{
    bench_settle(&b);
    for (unsigned i = 0; i < DEAD; i++) {
        bury(i);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < LINES; i++) {
            struct line *l = &m.lines[i];
            if (l->client) {
                client_drain(l->client);
            } else {
                reconnect(l);
            }
            bench_settle(&b);
            see(l, 0);
        }
    }
}

static void compare(unsigned seed)
{
    assert_int_equal(b.core[0].last_seq, m.seq);
    for (unsigned i = 0; i < URIS; i++) {
        if (m.known[0][i] < m.changed[i] || (i == 0 && m.known[1][0] < m.changed[0])) {
            fail_msg("seed %u: mem://x/%u changed at %llu, known up to %llu and %llu", seed, i,
                     (unsigned long long)m.changed[i], (unsigned long long)m.known[0][i],
                     (unsigned long long)m.known[1][i]);
        }
    }
}

static void run(unsigned seed, size_t log_entries)
{
    memset(&m, 0, sizeof(m));
    m.random = 88172645463325252ull + seed * 7919u;
    bench_init(&b);
    b.limits.outbox_max = 3;
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = log_entries;
    bench_start(&b);
    fake_mount(&fake, &b);
    for (unsigned i = 0; i < URIS; i++) {
        fake_add(&fake, text_of("mem://x/%u", i));
    }
    bench_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/");
    session_subscribe(&s, "mem://x/0");
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    finish();
    compare(seed);
    for (unsigned i = 0; i < LINES; i++) {
        if (m.lines[i].client) {
            client_free(m.lines[i].client);
        }
    }
    bench_stop(&b);
}

static void whoever_comes_back_is_told_of_everything(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        run(seed, 1000);
    }
}

static void also_when_history_is_short(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        run(seed, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_comes_back_is_told_of_everything),
        cmocka_unit_test(also_when_history_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
