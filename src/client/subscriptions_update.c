/* SPDX-License-Identifier: MIT
 *
 * Reads an update and routes it to the subscriptions it concerns.
 *
 * An update without `uri` says that something changed, not what: profile `gateway` sends one when
 * anything may have changed. It becomes an update of each subscription it may concern, for the URI
 * subscribed to and `truncated`, so that the program reads again.
 */
#include "client/subscriptions.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include <tidings/json.h>

#include "base/clock.h"
#include "client/comparison.h"
#include "client/state.h"
#include "client/subscriptions_private.h"
#include "json/write.h"

/* ---- routing --------------------------------------------------------------------------------- */

/* By which version an update is judged to be new. */
enum guard {
    GUARD_NONE,    /* it is told in any case */
    GUARD_EPOCH,   /* `epoch.number` */
    GUARD_VERSION, /* as people write it */
};

/* What the server told before is not told again (ER-28). */
static void subscriptions_tell(struct tidings_client *c, struct watch *w, struct tidings_update *u,
                               enum guard guard)
{
    if (guard != GUARD_NONE &&
        !resume_is_new(&c->resume, w->number, u->uri, u->version, guard == GUARD_EPOCH)) {
        return;
    }
    if (!u->synthetic) {
        comparison_on_update(c, w, u->uri, u->kind == TIDINGS_CHANGE_DELETED);
    }
    list_each (it, next, &w->subscriptions) {
        struct client_subscription *s = list_entry(it, struct client_subscription, link);
        if (!s->is_ended && !client_is_stopping(c)) {
            u->subscription = &s->base;
            s->fn(s->user, u);
        }
    }
}

/* Those it names; else that very URI; else whoever may cover it. */
static void route(struct tidings_client *c, struct tidings_update *u, enum guard guard)
{
    struct watch *w =
        u->subscribed_uri.len > 0 ? watch_find(c, u->subscribed_uri) : watch_find(c, u->uri);
    if (w && !w->is_ending) {
        subscriptions_tell(c, w, u, guard);
        legacy_on_update(c, w, u->cursor);
    } else if (u->subscribed_uri.len == 0) {
        list_each (it, next, &c->watches) {
            w = list_entry(it, struct watch, link);
            if (watch_covers(w, u->uri)) {
                subscriptions_tell(c, w, u, guard);
            }
        }
    }
}

/* Those it names; else every subscription that the server accepted. */
static void route_without_uri(struct tidings_client *c, const struct tidings_update *about)
{
    struct watch *named =
        about->subscribed_uri.len > 0 ? watch_find(c, about->subscribed_uri) : NULL;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        bool is_meant = named ? w == named : w->is_accepted;
        if (is_meant && !w->is_ending && (named || about->subscribed_uri.len == 0)) {
            struct tidings_update u = *about;
            u.uri = u.subscribed_uri = tidings_str(w->uri);
            u.kind = TIDINGS_CHANGE_UPDATED;
            u.version = STR_EMPTY;
            u.truncated = true;
            subscriptions_tell(c, w, &u, GUARD_NONE);
            legacy_on_update(c, w, u.cursor);
        }
    }
}

static struct tidings_str first_of(struct tidings_str a, struct tidings_str b)
{
    return a.len > 0 ? a : b;
}

/* A text, or a number as some servers count. */
static struct tidings_str version_of(struct json *meta, struct json *metadata, char number[24],
                                     enum guard *ret_guard)
{
    struct tidings_str ours = jv_str(jv_get(meta, "dev.tidings/version"));
    struct json *plain = jv_get(metadata, "version");
    bool is_number = jv_is(plain, JV_INT);
    *ret_guard = ours.len > 0 && !is_number ? GUARD_EPOCH : GUARD_VERSION;
    if (is_number) {
        snprintf(number, 24, "%" PRId64, jv_int(plain));
        return tidings_str(number);
    }
    return first_of(ours, jv_str(plain));
}

/* What the server calls it; a word that is not known is a change like others. */
static enum tidings_change_kind subscriptions_kind_of(struct tidings_str method,
                                                      struct tidings_str word)
{
    static const enum tidings_change_kind kinds[] = {TIDINGS_CHANGE_CREATED, TIDINGS_CHANGE_DELETED,
                                                     TIDINGS_CHANGE_MOVED};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (str_eq(word, tidings_str(tidings_change_name(kinds[i])))) {
            return kinds[i];
        }
    }
    bool is_deleted = word.len == 0 && str_ends(method, STR("deleted"));
    return is_deleted ? TIDINGS_CHANGE_DELETED : TIDINGS_CHANGE_UPDATED;
}

static unsigned merged_of(const struct json *merged)
{
    int64_t count = jv_is(merged, JV_INT) ? jv_int(merged) : 1;
    return count > 0 && count <= UINT_MAX ? (unsigned)count : 1;
}

/* Empty: there is none, or no memory. */
static struct tidings_str subscriptions_text(const struct tidings_client *c,
                                             const struct json *value, struct buf *out)
{
    struct jw w;
    buf_init(out, 2 * c->settings.max_bytes);
    if (value) {
        jw_init(&w, out);
        jw_value(&w, value);
    }
    return value && !out->failed ? buf_str(out) : STR_EMPTY;
}

/* Two streams are heard while one replaces the other: only the one that stays says how far. */
static bool is_of_current_listen(const struct tidings_client *c, struct json *meta)
{
    struct json *named = jv_get(meta, "io.modelcontextprotocol/subscriptionId");
    return !jv_is(named, JV_INT) || jv_int(named) == c->cursor_listen;
}

static void subscriptions_take_cursor(struct tidings_client *c, struct json *meta)
{
    struct tidings_str cursor = jv_str(jv_get(meta, "dev.tidings/cursor"));
    if (is_of_current_listen(c, meta) && resume_is_cursor(cursor)) {
        resume_take(&c->resume, cursor);
        c->cursor_at = clock_monotonic_ms();
    }
}

void subscriptions_bookmark(struct tidings_client *c, struct json *params)
{
    subscriptions_take_cursor(c, jv_get(params, "_meta"));
}

void subscriptions_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                           bool is_synthetic)
{
    char number[24];
    enum guard guard = GUARD_NONE;
    struct json *params = jv_get(message, "params");
    struct json *meta = jv_get(params, "_meta");
    struct json *metadata = jv_get(params, "metadata");
    struct tidings_update u = {
        .uri = jv_str(jv_get(params, "uri")),
        .subscribed_uri = first_of(jv_str(jv_get(params, "subscribedUri")),
                                   jv_str(jv_get(meta, "dev.tidings/subscribedUri"))),
        .kind = subscriptions_kind_of(jv_str(jv_get(message, "method")),
                                      jv_str(jv_get(meta, "dev.tidings/change"))),
        .from = jv_str(jv_get(meta, "dev.tidings/from")),
        .merged = merged_of(jv_get(meta, "dev.tidings/merged")),
        .caught_up = jv_is_true(jv_get(meta, "dev.tidings/caughtUp")),
        .initial = jv_is_true(jv_get(meta, "dev.tidings/initial")),
        .version = version_of(meta, metadata, number, &guard),
        .cursor = jv_str(jv_get(meta, "dev.tidings/cursor")),
        .truncated = jv_is_true(jv_get(meta, "dev.tidings/truncated")),
        .received_ms = received_ms,
        .synthetic = is_synthetic,
    };
    struct buf text, about, value;
    u.params = subscriptions_text(c, params, &text);
    u.params = u.params.len > 0 ? u.params : STR("{}");
    u.metadata =
        subscriptions_text(c, metadata ? metadata : jv_get(meta, "dev.tidings/metadata"), &about);
    u.value = subscriptions_text(c, jv_get(meta, "dev.tidings/data"), &value);
    bool is_suspended = jv_is_true(jv_get(meta, "dev.tidings/suspended"));
    if (u.uri.len > 0) {
        route(c, &u, is_suspended || u.initial || u.truncated ? GUARD_NONE : guard);
    } else {
        route_without_uri(c, &u);
    }
    subscriptions_take_cursor(c, meta);
    struct watch *over = is_suspended ? watch_find(c, first_of(u.subscribed_uri, u.uri)) : NULL;
    if (over && over->is_accepted) {
        over->is_accepted = false;
        const struct tidings_error why = {TIDINGS_E_CLOSED, "the server ended the subscription"};
        subscriptions_report(c, over, TIDINGS_STATE_LOST, &why);
    }
    buf_deinit(&text);
    buf_deinit(&about);
    buf_deinit(&value);
}
