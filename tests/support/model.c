/* SPDX-License-Identifier: MIT
 *
 * The truth, and the client's view from its updates.
 */
#include "support/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

const struct model_pattern model_patterns[MODEL_PATTERNS] = {
    {"mem://x/a/0", "auto", 0x01},   {"mem://x/a/", "auto", 0x0f},
    {"mem://x/*/1", "auto", 0x22},   {"mem://x/**", "auto", 0xff},
    {"mem://x/{d}/2", "auto", 0x44}, {"x/b/[01]$", "regex", 0x30},
    {"mem://x/b/?", "glob", 0xf0},   {"mem://x/a/%33", "literal", 0x08},
    {"mem://x/", "container", 0xff},
};

struct truth truth;

/* ---- the truth ------------------------------------------------------------------------------- */

void truth_begin(unsigned seed, bool traced, uint64_t epoch)
{
    memset(&truth, 0, sizeof(truth));
    truth.seed = seed;
    truth.traced = traced;
    truth.epoch = epoch;
}

static void note(unsigned resource)
{
    assert_true(truth.count[resource] < MODEL_HISTORY);
    truth.history[resource][truth.count[resource]++] = truth.seq;
}

void truth_changed(unsigned resource)
{
    truth.seq++;
    note(resource);
    TRACE("%llu: %s\n", (unsigned long long)truth.seq, model_uri(resource));
}

void truth_changed_all(void)
{
    truth.seq++;
    for (unsigned i = 0; i < MODEL_URIS; i++) {
        note(i);
    }
    TRACE("%llu: everything\n", (unsigned long long)truth.seq);
}

/* The newest change of a resource that is not above `limit`; 0: none. */
static uint64_t changed_by(unsigned resource, uint64_t limit)
{
    uint64_t newest = 0;
    for (size_t k = 0; k < truth.count[resource] && truth.history[resource][k] <= limit; k++) {
        newest = truth.history[resource][k];
    }
    return newest;
}

const char *model_uri(unsigned resource)
{
    return text_of("mem://x/%c/%u", resource < 4 ? 'a' : 'b', resource % 4);
}

/* ---- what a client makes of a message -------------------------------------------------------- */

void model_promise(struct model_sub *s, uint64_t seq)
{
    if (!s->promised) {
        s->promised = true;
        s->acked = seq;
    }
}

void model_new_stream(struct model_client *c)
{
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        memset(c->subs[k].streamed, 0, sizeof(c->subs[k].streamed));
        c->subs[k].newest = 0;
    }
}

static struct model_sub *subscription_of(struct model_client *c, const char *spelled)
{
    for (unsigned k = 0; k < MODEL_SUBS; k++) {
        if (strcmp(c->subs[k].pattern->spelled, spelled) == 0) {
            return &c->subs[k];
        }
    }
    fail_msg("seed %u: an update for '%s', which was not subscribed", truth.seed, spelled);
    return NULL;
}

static unsigned index_of(const struct model_sub *s, const char *uri)
{
    if (strcmp(uri, s->pattern->spelled) == 0 && strchr(uri, '%')) {
        return 3; /* a literal is called by its client's own spelling */
    }
    assert_int_equal(strlen(uri), 11);
    return (unsigned)(uri[10] - '0') + (uri[8] == 'b' ? 4 : 0);
}

static void learn_update(struct model_client *c, const struct utterance *u)
{
    struct model_sub *s = subscription_of(c, json_at(u->text, "params|subscribedUri"));
    if (json_at(u->text, "params|_meta|dev.tidings/truncated")) {
        for (unsigned i = 0; i < MODEL_URIS; i++) {
            s->known[i] = u->seq > s->known[i] ? u->seq : s->known[i];
        }
        return;
    }
    unsigned i = index_of(s, json_at(u->text, "params|uri"));
    uint64_t version = version_of(u->text);
    if (!(s->pattern->mask & (1u << i))) {
        fail_msg("seed %u: '%s' does not match %s", truth.seed, s->pattern->spelled, model_uri(i));
    }
    if (version < s->version[i] || version <= s->streamed[i]) {
        fail_msg("seed %u: versions of %s for '%s' fall: %llu after %llu (%llu on this stream)",
                 truth.seed, model_uri(i), s->pattern->spelled, (unsigned long long)version,
                 (unsigned long long)s->version[i], (unsigned long long)s->streamed[i]);
    }
    if (s->is_strict && version <= s->newest) {
        fail_msg("seed %u: '%s' is strict, but %llu of %s comes after %llu", truth.seed,
                 s->pattern->spelled, (unsigned long long)version, model_uri(i),
                 (unsigned long long)s->newest);
    }
    s->newest = version;
    s->version[i] = s->streamed[i] = version;
    s->known[i] = version > s->known[i] ? version : s->known[i];
}

static void learn_ack(struct model_client *c, const struct utterance *u)
{
    for (unsigned i = 0;; i++) {
        const char *spelled =
            json_at(u->text, text_of("params|notifications|resourceSubscriptions|%u", i));
        if (!spelled) {
            break;
        }
        model_promise(subscription_of(c, spelled), u->seq);
    }
    assert_no_json(u->text, "params|_meta|dev.tidings/refused");
}

/* A change that the client had to receive by the time `newest` was the newest; 0: it knows
 * enough. */
static uint64_t unknown(const struct model_sub *s, unsigned resource, uint64_t newest)
{
    uint64_t changed = changed_by(resource, newest);
    bool matters = s->promised && (s->pattern->mask & (1u << resource)) && changed > s->acked;
    return matters && changed > s->known[resource] ? changed : 0;
}

void model_take_cursor(struct model_client *c, const char *cursor, const struct utterance *u)
{
    struct log_cursor at = {0};
    assert_true(cursor_parse(tidings_str(cursor), &at));
    uint64_t epoch = at.epoch, seq = at.seq;
    /* A resuming client finds changes above the cursor by their number. */
    for (unsigned n = 0; n < MODEL_SUBS * MODEL_URIS && epoch == truth.epoch; n++) {
        const struct model_sub *s = &c->subs[n / MODEL_URIS];
        uint64_t changed = unknown(s, n % MODEL_URIS, u->seq);
        bool covers = !cursor_has_gap(&at, cursor_order(tidings_str(s->pattern->spelled)));
        if (covers && changed > 0 && changed <= seq) {
            fail_msg("seed %u: cursor %llu, but for '%s' %s changed at %llu, in %s", truth.seed,
                     (unsigned long long)seq, s->pattern->spelled, model_uri(n % MODEL_URIS),
                     (unsigned long long)changed, u->text);
        }
    }
    snprintf(c->cursor, sizeof(c->cursor), "%s", cursor);
}

void model_learn(struct model_client *c, const struct utterance *u, bool cursor_counts)
{
    if (u->id[0]) {
        snprintf(c->last_id, sizeof(c->last_id), "%s", u->id);
    }
    const char *method = u->kind == SAID_EVENT ? json_at(u->text, "method") : NULL;
    TRACE("  client %u sees %s id %s: %s\n", c->no, method ? method : "something", u->id,
          u->text ? u->text : "");
    if (!method) {
        return;
    }
    if (strcmp(method, SAID_UPDATED) == 0) {
        learn_update(c, u);
    } else if (strcmp(method, SAID_ACK) == 0) {
        learn_ack(c, u);
    }
    const char *cursor = json_at(u->text, "params|_meta|dev.tidings/cursor");
    if (cursor && cursor_counts) {
        model_take_cursor(c, cursor, u);
    }
}

void model_check(const struct model_client *c)
{
    for (unsigned n = 0; n < MODEL_SUBS * MODEL_URIS; n++) {
        const struct model_sub *s = &c->subs[n / MODEL_URIS];
        unsigned i = n % MODEL_URIS;
        assert_true(s->promised);
        uint64_t changed = unknown(s, i, UINT64_MAX);
        if (changed > 0) {
            fail_msg("seed %u: for '%s' (client %u) %s changed at %llu, known up to %llu; "
                     "acknowledged at %llu",
                     truth.seed, s->pattern->spelled, c->no, model_uri(i),
                     (unsigned long long)changed, (unsigned long long)s->known[i],
                     (unsigned long long)s->acked);
        }
    }
}
