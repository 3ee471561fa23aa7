/* SPDX-License-Identifier: MIT */
#include "support/torn_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_subs.h"

/* ---- chance ---------------------------------------------------------------------------------- */

void torn_serve(const struct torn_client *t, struct stub *stub, size_t log_entries,
                size_t outbox_max)
{
    struct harness *b = t->harness;
    harness_init(b);
    b->limits.outbox_max = outbox_max;
    b->self.list_changed = b->options.list_changed = false;
    b->options.log.max_entries = log_entries;
    harness_start(b);
    stub_mount(stub, b, "mem://x/", 0);
    for (unsigned i = 0; i < t->uris; i++) {
        stub_add(stub, text_of("mem://x/%u", i), false);
    }
}

void torn_seed(struct torn_client *t, unsigned seed)
{
    t->random = 88172645463325252ull + seed * 7919u;
}

unsigned torn_roll(struct torn_client *t, unsigned n)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (unsigned)((t->random >> 11) % n);
}

/* ---- what it knows --------------------------------------------------------------------------- */

void torn_change(struct torn_client *t, unsigned uri)
{
    harness_update(t->harness, text_of("mem://x/%u", uri));
    t->changed[uri] = ++t->seq;
}

void torn_note(struct torn_client *t, unsigned sub, unsigned uri, uint64_t seq)
{
    assert_true(sub < t->subs && uri < t->uris);
    t->known[sub][uri] = seq > t->known[sub][uri] ? seq : t->known[sub][uri];
}

void torn_learn(struct torn_client *t, const struct utterance *u)
{
    const char *spelled = u->kind == SAID_EVENT ? json_at(u->text, "params|subscribedUri") : NULL;
    if (!spelled) {
        return;
    }
    unsigned sub = 0;
    while (strcmp(t->subscribed[sub], spelled) != 0) {
        sub++;
        assert_true(sub < t->subs);
    }
    if (json_at(u->text, "params|_meta|dev.tidings/truncated")) {
        for (unsigned i = 0; i < t->uris; i++) {
            torn_note(t, sub, i, u->seq);
        }
        return;
    }
    const char *uri = json_at(u->text, "params|uri");
    const char *version = json_at(u->text, "params|_meta|dev.tidings/version");
    assert_true(version || t->reads_at_update);
    torn_note(t, sub, (unsigned)(uri[strlen(uri) - 1] - '0'),
              version ? number_of(version) : u->seq);
}

static bool covers(const char *subscribed, unsigned uri)
{
    return str_ends(tidings_str(subscribed), STR("/")) ||
           strcmp(subscribed, text_of("mem://x/%u", uri)) == 0;
}

const char *torn_missing(const struct torn_client *t)
{
    for (unsigned sub = 0; sub < t->subs; sub++) {
        for (unsigned i = 0; t->has_subscribed[sub] && i < t->uris; i++) {
            if (covers(t->subscribed[sub], i) && t->known[sub][i] < t->changed[i]) {
                return text_of("%s was not told that mem://x/%u changed at %llu, only up to %llu",
                               t->subscribed[sub], i, (unsigned long long)t->changed[i],
                               (unsigned long long)t->known[sub][i]);
            }
        }
    }
    return NULL;
}

/* ---- its streams ----------------------------------------------------------------------------- */

struct torn_line *torn_pick(struct torn_client *t)
{
    return &t->lines[torn_roll(t, TORN_LINES)];
}

/* It reads the available input, except the last `lost`. */
static void see(struct torn_client *t, struct torn_line *l, size_t lost)
{
    while (l->seen + lost < l->client->count) {
        const struct utterance *u = &l->client->said[l->seen++];
        torn_learn(t, u);
        if (u->id[0]) {
            snprintf(l->last_id, sizeof(l->last_id), "%s", u->id);
        }
    }
}

void torn_see(struct torn_client *t, struct torn_line *l)
{
    if (l->client) {
        see(t, l, 0);
    }
}

void torn_choke(struct torn_client *t, struct torn_line *l)
{
    if (l->client) {
        l->client->pending = torn_roll(t, 2) ? 1u << 20 : 0;
        client_drain(l->client);
        l->client->pending = torn_roll(t, 3) ? 0 : 1u << 20;
    }
}

static void reconnect(struct torn_client *t, struct torn_line *l)
{
    bool fresh = l->last_id[0] == '\0';
    l->client = session_stream(t->session, fresh ? NULL : l->last_id);
    l->seen = 0;
    if (!l->client->is_streaming) { /* too many that the server believes in */
        client_free(l->client);
        l->client = NULL;
    } else if (fresh) {
        see(t, l, 0); /* at least its start arrives: a stream cannot resume without an id */
    }
}

void torn_break(struct torn_client *t, struct torn_line *l)
{
    if (!l->client) {
        reconnect(t, l);
        return;
    }
    see(t, l, torn_roll(t, (unsigned)(l->client->count - l->seen) + 1));
    unsigned i = torn_roll(t, t->deads);
    if (torn_roll(t, 2) && !t->dead[i]) {
        t->dead[i] = l->client; /* the server keeps writing to it for a while */
    } else {
        client_free(l->client);
    }
    l->client = NULL;
}

static void bury(struct torn_client *t, unsigned i)
{
    if (t->dead[i]) {
        client_free(t->dead[i]);
        t->dead[i] = NULL;
    }
}

void torn_bury(struct torn_client *t)
{
    bury(t, torn_roll(t, t->deads));
}

void torn_mend(struct torn_client *t)
{
    harness_run_until_idle(t->harness);
    for (unsigned i = 0; i < t->deads; i++) {
        bury(t, i);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < TORN_LINES; i++) {
            struct torn_line *l = &t->lines[i];
            if (l->client) {
                client_drain(l->client);
            } else {
                reconnect(t, l);
            }
            assert_non_null(l->client);
            harness_run_until_idle(t->harness);
            see(t, l, 0);
        }
    }
}

void torn_free(struct torn_client *t)
{
    for (unsigned i = 0; i < TORN_LINES; i++) {
        if (t->lines[i].client) {
            client_free(t->lines[i].client);
        }
    }
}
