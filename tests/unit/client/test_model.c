/* SPDX-License-Identifier: MIT
 *
 * Random runs with a modern server: connections that break with messages in transit, server
 * restarts, repetitions, delayed updates. See support/client_model.h.
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

#include "support/client_model.h"
#include "support/fake_transport.h"

#define LISTENS 64

struct listen {
    int64_t id;
    bool names[MODEL_SLOTS];
    int held[MODEL_SLOTS][MODEL_URIS]; /* the first delayed change, 0: none */
};

struct server {
    struct fake fake;
    struct listen listens[LISTENS];
    size_t count;
};

static struct server server;

static int cursor_of(const struct model *m, const struct listen *l)
{
    int cursor = m->seq;
    for (int k = 0; k < MODEL_SLOTS * MODEL_URIS; k++) {
        int held = l->held[k / MODEL_URIS][k % MODEL_URIS];
        cursor = held > 0 && held <= cursor ? held - 1 : cursor;
    }
    return cursor;
}

static void say_update(struct model *m, const struct listen *l, int slot, int uri)
{
    char text[512];
    model_put_update(m, text, slot, uri, l->id, cursor_of(m, l));
    fake_say(&server.fake, text);
}

static void flush(struct model *m, struct listen *l, int slot)
{
    for (int i = 0; i < MODEL_URIS; i++) {
        if (l->held[slot][i] > 0) {
            l->held[slot][i] = 0;
            say_update(m, l, slot, i);
        }
    }
}

static void flush_all(struct model *m, struct listen *l)
{
    for (int i = 0; i < MODEL_SLOTS; i++) {
        flush(m, l, i);
    }
}

static void flush_server(struct model *m)
{
    for (size_t k = 0; k < server.count; k++) {
        flush_all(m, &server.listens[k]);
    }
}

static void hold(const struct model *m, struct listen *l, int slot, int uri)
{
    if (l->names[slot] && l->held[slot][uri] == 0) {
        l->held[slot][uri] = m->seq;
    }
}

/* The model records all updates due for a change before it sends any: see cursor_of. */
static void changed(struct model *m, int uri)
{
    for (size_t k = 0; k < server.count; k++) {
        struct listen *l = &server.listens[k];
        hold(m, l, uri, uri);
        hold(m, l, MODEL_ROOT, uri);
        if (m->is_calm || model_roll(m, 3) > 0) {
            flush(m, l, uri);
        }
        if (m->is_calm || model_roll(m, 3) > 0) {
            flush(m, l, MODEL_ROOT);
        }
    }
}

static void cut(void)
{
    fake_say(&server.fake, NULL); /* messages sent from now on are lost */
    server.count = 0;
}

/* ---- what it is asked ------------------------------------------------------------------------ */

static void acknowledge(struct model *m, int64_t id, struct json *params, int cursor)
{
    char *asked = json_text_of(m->client, jv_get(params, "notifications"), NULL);
    char meta[128];
    model_put_meta(m, meta, id, cursor);
    fake_sayf(&server.fake,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
              "\"params\":{\"notifications\":%s,\"_meta\":{%s\"x\":0}}}",
              asked, meta);
    tidings_free(asked);
}

/* All of them before the first is sent: the cursor is below the due updates. */
static void owe(const struct model *m, struct listen *l, const int since[MODEL_SLOTS])
{
    for (int k = 0; k < MODEL_SLOTS * MODEL_URIS; k++) {
        int slot = k / MODEL_URIS, i = k % MODEL_URIS;
        if (since[slot] >= 0 && model_covers(slot, i) && m->values[i] > since[slot]) {
            l->held[slot][i] = since[slot] + 1;
        }
    }
}

static void begin_listen(struct model *m, int64_t id, struct json *params)
{
    struct json *uris = jv_get(jv_get(params, "notifications"), "resourceSubscriptions");
    struct json *options = jv_get(jv_get(jv_get(params, "_meta"), "dev.tidings/options"), "uris");
    struct listen *l = &server.listens[server.count++];
    int since[MODEL_SLOTS] = {-1, -1, -1, -1, -1, -1}, low = m->seq;
    char text[512];
    if (server.count >= LISTENS) {
        abort();
    }
    *l = (struct listen){.id = id};
    for (size_t k = 0; k < jv_count(uris); k++) {
        struct tidings_str uri = jv_str(jv_at(uris, k));
        int i = model_slot(uri);
        l->names[i] = true;
        since[i] = model_since(m, jv_get_str(options, uri));
        low = since[i] >= 0 && since[i] < low ? since[i] : low;
    }
    acknowledge(m, id, params, low);
    owe(m, l, since);
    for (int i = 0; i < MODEL_SLOTS; i++) {
        if (since[i] == -2) {
            model_put_truncated(m, text, i, id, cursor_of(m, l));
            fake_say(&server.fake, text);
        }
        flush(m, l, i);
    }
}

static void end_group(int64_t id)
{
    for (size_t k = 0; k < server.count; k++) {
        if (server.listens[k].id == id) {
            server.listens[k] = server.listens[--server.count];
            return;
        }
    }
}

static void serving(struct fake *f, const char *method, int64_t id, struct json *message)
{
    struct model *m = f->user;
    struct json *params = jv_get(message, "params");
    char text[512];
    f->log[0] = '\0';
    if (!m->is_calm && model_roll(m, 12) == 0) {
        cut(); /* the server answers no request of any kind */
    } else if (fake_modern(f, method, id)) {
        server.count = 0; /* another connection */
    } else if (strcmp(method, "subscriptions/listen") == 0) {
        begin_listen(m, id, params);
    } else if (strcmp(method, "notifications/cancelled") == 0) {
        end_group(jv_int(jv_get(params, "requestId")));
    } else if (model_put_answer(m, text, method, params)) {
        fake_result(f, id, text);
    }
}

/* ---- what it does by itself ------------------------------------------------------------------ */

static void fault(struct model *m)
{
    unsigned kind = model_roll(m, 14);
    int slot = (int)model_roll(m, MODEL_SLOTS), uri = slot % MODEL_URIS;
    struct listen *l =
        server.count > 0 ? &server.listens[model_roll(m, (unsigned)server.count)] : NULL;
    if (kind < 6 && l) {
        flush(m, l, slot);
    } else if (kind < 9 && l && l->names[slot] && l->held[slot][uri] == 0 && m->values[uri] > 0) {
        say_update(m, l, slot, uri); /* once more */
    } else if (kind < 11) {
        cut();
    } else if (kind < 12) {
        cut();
        model_begin_epoch(m);
    } else if (kind < 13 && l) { /* in order: delayed updates go first */
        flush_all(m, l);
        fake_result(&server.fake, l->id, "{}");
        end_group(l->id);
    }
}

static struct tidings_client *start(struct model *m, const struct tidings_client_options *o)
{
    struct tidings_client_options mine = *o;
    mine.version = "2026-07-28";
    server.count = 0;
    return fake_client(&server.fake, serving, m, &mine);
}

static void allow(struct model *m)
{
    (void)m;
}

static bool is_at_rest(const struct model *m)
{
    const struct tidings_client *c = m->client;
    return c->coming == 0 && (c->listen > 0) == (c->watch_count > 0) &&
           !loop_timer_is_running(&c->change) && !loop_timer_is_running(&c->fade) &&
           list_empty(&server.fake.said);
}

static bool tells(const struct model *m, int slot)
{
    for (size_t k = 0; k < server.count; k++) {
        if (server.listens[k].id == m->client->listen) {
            return server.listens[k].names[slot];
        }
    }
    return false;
}

static void left(struct model *m)
{
    (void)m;
    assert_int_equal(server.count, 0);
}

static const struct model_ops modern = {
    .start = start,
    .changed = changed,
    .fault = fault,
    .flush = flush_server,
    .allow = allow,
    .is_at_rest = is_at_rest,
    .tells = tells,
    .left = left,
};

static void changes_arrive_exactly_once_with_cursors(void **state)
{
    (void)state;
    model_play_all(&(struct model){
        .ops = &modern, .name = "with cursors", .has_cursor = true, .has_version = true});
}

static void changes_are_not_lost_without_cursors(void **state)
{
    (void)state;
    model_play_all(&(struct model){.ops = &modern, .name = "without cursors", .has_version = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_arrive_exactly_once_with_cursors),
        cmocka_unit_test(changes_are_not_lost_without_cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
