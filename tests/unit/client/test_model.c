/* SPDX-License-Identifier: MIT
 *
 * By chance: changes, connections that break with messages on their way, servers that begin again,
 * repetitions, updates that are held back, subscriptions that come and go. In the end the program
 * knows how everything it watches is, and was never told anything older than before.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/fake_link.h"

#define URIS 5
#define LISTENS 64
#define STEPS 150
#define RUNS 150

struct listen {
    int64_t id;
    bool names[URIS];
    int held[URIS]; /* the first change that is held back, 0: none */
};

struct model {
    struct fake fake;
    struct tidings_client *client;
    uint64_t dice;
    bool has_cursor;
    bool is_calm; /* no more faults */
    /* the server */
    int epoch, seq;
    int values[URIS]; /* the number of the last change, 0: none in this epoch */
    struct listen listens[LISTENS];
    size_t count;
    /* the program */
    struct tidings_subscription *subs[URIS];
    int known_epoch[URIS], known[URIS]; /* how it is, as far as the program knows */
    int told_epoch[URIS], told[URIS];   /* by the last update */
    unsigned updates, losses, found;
};

static unsigned roll(struct model *m, unsigned sides)
{
    m->dice = m->dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->dice >> 33) % sides;
}

static int index_of(struct tidings_str uri)
{
    return uri.len == 4 ? uri.ptr[3] - '0' : -1;
}

/* ---- the server ------------------------------------------------------------------------------ */

static int cursor_of(const struct model *m, const struct listen *l)
{
    int cursor = m->seq;
    for (int i = 0; i < URIS; i++) {
        cursor = l->held[i] > 0 && l->held[i] <= cursor ? l->held[i] - 1 : cursor;
    }
    return cursor;
}

static void say_update(struct model *m, const struct listen *l, int i, bool is_truncated)
{
    char cursor[64] = "";
    if (m->has_cursor) {
        snprintf(cursor, sizeof(cursor), ",\"dev.tidings/cursor\":\"e%d.%d\"", m->epoch,
                 cursor_of(m, l));
    }
    fake_sayf(&m->fake,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
              "{\"uri\":\"x:/%d\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%" PRId64
              ",\"dev.tidings/subscribedUri\":\"x:/%d\",\"dev.tidings/version\":\"e%d.%d\"%s%s}}}",
              i, l->id, i, m->epoch, m->values[i], cursor,
              is_truncated ? ",\"dev.tidings/truncated\":true" : "");
}

static void flush(struct model *m, struct listen *l, int i)
{
    if (l->held[i] > 0) {
        l->held[i] = 0;
        say_update(m, l, i, false);
    }
}

static void change(struct model *m, int i)
{
    m->values[i] = ++m->seq;
    for (size_t k = 0; k < m->count; k++) {
        struct listen *l = &m->listens[k];
        if (l->names[i]) {
            l->held[i] = l->held[i] > 0 ? l->held[i] : m->seq;
        }
        if (l->names[i] && (m->is_calm || roll(m, 3) > 0)) {
            flush(m, l, i);
        }
    }
}

static void cut(struct model *m)
{
    fake_say(&m->fake, NULL); /* what is said from now on is lost */
    m->count = 0;
}

/* What it knew of the past is gone. */
static void restart(struct model *m)
{
    cut(m);
    m->epoch++;
    for (int i = 0; i < URIS; i++) {
        m->values[i] = 0;
    }
    m->seq = 0;
    change(m, (int)roll(m, URIS));
}

static void begin_listen(struct model *m, int64_t id, struct json *params)
{
    struct json *uris = jv_get(jv_get(params, "notifications"), "resourceSubscriptions");
    struct json *options = jv_get(jv_get(jv_get(params, "_meta"), "dev.tidings/options"), "uris");
    struct listen *l = &m->listens[m->count++];
    int since[URIS], low = m->seq;
    if (m->count >= LISTENS) {
        abort();
    }
    *l = (struct listen){.id = id};
    for (int i = 0; i < URIS; i++) {
        since[i] = -1;
    }
    for (size_t k = 0; k < jv_count(uris); k++) {
        int i = index_of(jv_str(jv_at(uris, k))), epoch = 0;
        struct tidings_str text =
            jv_str(jv_get(jv_get_str(options, jv_str(jv_at(uris, k))), "since"));
        l->names[i] = true;
        if (text.len > 0 && sscanf(text.ptr, "e%d.%d", &epoch, &since[i]) != 2) {
            abort();
        }
        since[i] = text.len == 0 ? -1 : epoch == m->epoch ? since[i] : -2;
        low = since[i] >= 0 && since[i] < low ? since[i] : low;
    }
    char *asked = json_text_of(m->client, jv_get(params, "notifications"), NULL);
    char cursor[64] = "";
    if (m->has_cursor) {
        snprintf(cursor, sizeof(cursor), ",\"dev.tidings/cursor\":\"e%d.%d\"", m->epoch, low);
    }
    fake_sayf(&m->fake,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
              "\"params\":{\"notifications\":%s,\"_meta\":"
              "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "%s}}}",
              asked, id, cursor);
    tidings_free(asked);
    for (int i = 0; i < URIS; i++) {
        if (since[i] >= 0 && m->values[i] > since[i]) {
            l->held[i] = since[i] + 1; /* all of them first: the cursor is below what is owed */
        }
    }
    for (int i = 0; i < URIS; i++) {
        if (since[i] == -2) {
            say_update(m, l, i, true);
        } else {
            flush(m, l, i);
        }
    }
}

static void end_listen(struct model *m, int64_t id)
{
    for (size_t k = 0; k < m->count; k++) {
        if (m->listens[k].id == id) {
            m->listens[k] = m->listens[--m->count];
            return;
        }
    }
}

static void serving(struct fake *f, const char *method, int64_t id, struct json *message)
{
    struct model *m = f->user;
    struct json *params = jv_get(message, "params");
    char text[64];
    if (!m->is_calm && roll(m, 12) == 0) {
        cut(m); /* whatever it was, it is not answered */
    } else if (fake_modern(f, method, id)) {
        return;
    } else if (strcmp(method, "subscriptions/listen") == 0) {
        begin_listen(m, id, params);
    } else if (strcmp(method, "notifications/cancelled") == 0) {
        end_listen(m, jv_int(jv_get(params, "requestId")));
    } else if (strcmp(method, "resources/read") == 0) {
        int i = index_of(jv_str(jv_get(params, "uri")));
        snprintf(text, sizeof(text), "{\"contents\":[{\"text\":\"%d.%d\"}]}", m->epoch,
                 m->values[i]);
        fake_result(f, id, text);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* It reads, and knows how it is. */
static void look(struct model *m, int i)
{
    m->known_epoch[i] = m->epoch;
    m->known[i] = m->values[i];
}

static void on_update(void *user, const struct tidings_client_update *u)
{
    struct model *m = user;
    int i = index_of(u->uri), epoch = 0, version = 0;
    m->updates++;
    m->found += u->synthetic;
    if (u->synthetic || u->truncated) {
        look(m, i);
        return;
    }
    assert_int_equal(sscanf(u->version.ptr, "e%d.%d", &epoch, &version), 2);
    if (m->told_epoch[i] == epoch) {
        assert_true(version > m->told[i]);
    }
    m->told_epoch[i] = epoch;
    m->told[i] = version;
    if (epoch > m->known_epoch[i] || (epoch == m->known_epoch[i] && version > m->known[i])) {
        m->known_epoch[i] = epoch;
        m->known[i] = version;
    }
}

/* What it watches from now on it reads once. */
static void on_state(void *user, const struct tidings_client_event *e)
{
    struct model *m = user;
    m->losses += e->state == TIDINGS_CLIENT_DISCONNECTED;
    if (e->state == TIDINGS_CLIENT_WATCHING && !e->again) {
        look(m, index_of(e->uri));
    }
}

static void toggle(struct model *m, int i)
{
    char uri[8];
    struct tidings_subscribing on = {.fn = on_update, .user = m};
    if (m->subs[i]) {
        tidings_subscription_end(m->subs[i]);
        m->subs[i] = NULL;
        m->told_epoch[i] = 0;
        return;
    }
    snprintf(uri, sizeof(uri), "x:/%d", i);
    m->subs[i] = tidings_client_subscribe(m->client, uri, &on, NULL);
    assert_non_null(m->subs[i]);
}

/* ---- together -------------------------------------------------------------------------------- */

static void step(struct model *m)
{
    struct tidings_error err = {0};
    if (tidings_client_step(m->client, 1, &err) != 1) {
        fail_msg("%s", err.text);
    }
    m->fake.log[0] = '\0';
}

static bool is_at_rest(const struct model *m)
{
    const struct tidings_client *c = m->client;
    for (int i = 0; i < URIS; i++) {
        if (m->subs[i] && (!m->subs[i]->watch->is_judged || m->subs[i]->watch->look != LOOK_NONE)) {
            return false;
        }
    }
    return c->stage == STAGE_READY && c->coming == 0 && c->listen > 0 && c->event_count == 0 &&
           !pump_is_set(&c->change) && list_empty(&m->fake.said);
}

static void something(struct model *m)
{
    unsigned kind = roll(m, 40);
    int i = (int)roll(m, URIS);
    struct listen *l = m->count > 0 ? &m->listens[roll(m, (unsigned)m->count)] : NULL;
    if (kind < 14) {
        change(m, i);
    } else if (kind < 20 && l) {
        flush(m, l, i);
    } else if (kind < 23 && l && l->names[i] && l->held[i] == 0 && m->values[i] > 0) {
        say_update(m, l, i, false); /* once more */
    } else if (kind < 26) {
        toggle(m, i);
    } else if (kind < 28) {
        cut(m);
    } else if (kind < 29) {
        restart(m);
    } else {
        step(m);
    }
}

static void play(unsigned seed, bool has_cursor)
{
    static struct model m;
    struct tidings_client_options o = {
        .retry_min_ms = 1, .retry_max_ms = 1, .version = "2026-07-28"};
    m = (struct model){.dice = seed * 2654435761u, .epoch = 1, .has_cursor = has_cursor};
    uint64_t began = clock_monotonic_ms();
    m.client = fake_client(&m.fake, serving, &m, &o);
    tidings_client_on_state(m.client, on_state, &m);
    toggle(&m, 0);
    for (int i = 0; i < STEPS; i++) {
        something(&m);
    }
    m.is_calm = true;
    if (!m.subs[1]) {
        toggle(&m, 1);
    }
    int left = 20000; /* turns, far more than it takes */
    do {
        for (size_t k = 0; k < m.count; k++) {
            for (int i = 0; i < URIS; i++) {
                flush(&m, &m.listens[k], i);
            }
        }
        step(&m);
        if (--left == 0) {
            fail_msg("seed %u%s: stage %d, listen %" PRId64 ", coming %" PRId64
                     ", %zu events, judged %d, look %d",
                     seed, has_cursor ? "" : " without cursors", (int)m.client->stage,
                     m.client->listen, m.client->coming, m.client->event_count,
                     m.subs[1]->watch->is_judged, (int)m.subs[1]->watch->look);
        }
    } while (!is_at_rest(&m));
    /* Without cursors a change must be told within two seconds: a machine that stood still for as
     * long has played another game. */
    bool is_void = !has_cursor && clock_monotonic_ms() - began >= COMPARE_SETTLE_MS;
    for (int i = 0; i < URIS && !is_void; i++) {
        if (m.subs[i] && (m.known_epoch[i] != m.epoch || m.known[i] != m.values[i])) {
            fail_msg("seed %u%s: x:/%d is %d.%d, known as %d.%d", seed,
                     has_cursor ? "" : " without cursors", i, m.epoch, m.values[i],
                     m.known_epoch[i], m.known[i]);
        }
    }
    tidings_client_destroy(m.client);
}

static void play_all(bool has_cursor)
{
    const char *given = getenv("TIDINGS_SEED");
    unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : 1;
    for (unsigned seed = first; seed < first + (given ? 1 : RUNS); seed++) {
        play(seed, has_cursor);
    }
}

static void with_cursors_nothing_is_missed_or_told_twice(void **state)
{
    (void)state;
    play_all(true);
}

static void without_cursors_nothing_is_missed(void **state)
{
    (void)state;
    play_all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_cursors_nothing_is_missed_or_told_twice),
        cmocka_unit_test(without_cursors_nothing_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
