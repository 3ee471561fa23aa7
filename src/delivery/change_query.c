/* SPDX-License-Identifier: MIT
 *
 * Looking: a peer that is called (peer_ops.told) and asks the log whenever it hears of something
 * newer than what it has looked at.
 */
#include "delivery/change_query.h"

#include "access/quota.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/lookup.h"
#include "delivery/subscribe_batch.h"
#include "request/request.h"
#include "store/change.h"
#include "uri/uri.h"

/* Comparisons of a row with a URI before others get their turn: some ms. */
#define LOOK_STEPS 8192u

struct look {
    struct sink sink; /* nowhere */
    struct peer *peer;
    struct subscribing *wanted;  /* until it is settled */
    struct hub_catchup *catchup; /* the log is being asked */
    const struct look_ops *ops;
    void *user;
    uint64_t upto;  /* everything up to here has been looked at */
    uint64_t heard; /* the newest number it was told */
    bool waits;
    bool again;     /* something is newer, nobody knows which number */
    bool has_found; /* a row, or lost history */
};

static struct core *core_of(const struct look *look)
{
    return look->peer->core;
}

static void look_free(struct look *look)
{
    if (look->catchup) {
        look->catchup->user = NULL;
    }
    if (look->peer) {
        look->peer->ops = NULL;
        peer_destroy(look->peer);
    }
    mem_free(look);
}

static void finish(struct look *look, const struct log_cursor *cursor, bool more)
{
    const struct look_ops *ops = look->ops;
    void *user = look->user;
    look_free(look);
    ops->done(user, cursor, more);
}

static void finish_here(struct look *look, bool more)
{
    struct log_cursor cursor = core_cursor(core_of(look), look->upto);
    finish(look, &cursor, more);
}

static struct listen *listen_of(const struct look *look)
{
    return list_entry(look->peer->listens.next, struct listen, link);
}

static void lose(struct look *look, struct sub *sub)
{
    look->has_found = true;
    if (!sub->truncated) {
        sub->truncated = true;
        look->ops->lost(look->user, sub_spelled(sub));
    }
}

/* Those that do not know what a change with this number may have been. */
static void lose_all(struct look *look, struct tidings_str scope, uint64_t seq)
{
    list_each (it, next, &listen_of(look)->subs) {
        struct sub *sub = list_entry(it, struct sub, link);
        if (seq > sub->since && sub_concerns(sub, scope)) {
            lose(look, sub);
        }
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static enum lookup_answer covers(struct sub *sub, struct tidings_str uri)
{
    struct tidings_provider *p = sub->extra ? sub->extra->covering : NULL;
    enum lookup_answer answer = lookup_ask(sub, uri);
    if (answer == LOOKUP_NO && p && uri_is_within(uri, p->prefix)) {
        answer = p->ops->covers(p, sub_uri(sub), uri) ? LOOKUP_YES : LOOKUP_NO;
    }
    return answer;
}

/* The first subscription that may be told of it; NULL: none. */
static const struct sub *find_sub(struct look *look, const struct changelog_row *row)
{
    const struct change *change = row->change;
    list_each (it, next, &listen_of(look)->subs) {
        struct sub *sub = list_entry(it, struct sub, link);
        if (change->seq <= sub->since || !access_hears(look->peer->who, change)) {
            continue;
        }
        enum lookup_answer answer = covers(sub, change->uri);
        if (answer == LOOKUP_UNKNOWN) {
            lose(look, sub);
        } else if (answer == LOOKUP_YES &&
                   filters_pass(sub, change, row->replaced_seq <= sub->since)) {
            return sub;
        }
    }
    return NULL;
}

/* false: no room. */
static bool take_row(struct look *look, const struct changelog_row *row)
{
    const struct change *change = row->change;
    const struct sub *sub = change->everything || change->lists ? NULL : find_sub(look, row);
    if (change->everything) {
        lose_all(look, change_scope(change), change->seq);
    }
    if (!sub) {
        return true;
    }
    enum tidings_change_kind kind = change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > sub->since) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    if (!look->ops->row(look->user, change, kind)) {
        return false;
    }
    look->has_found = true;
    return true;
}

enum taken {
    TAKEN_ALL,
    TAKEN_SOME, /* enough for one turn */
    TAKEN_FULL, /* no room for more */
};

static enum taken take_rows(struct look *look, const struct hub_catchup *c)
{
    size_t steps = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (steps > LOOK_STEPS) {
            return TAKEN_SOME;
        }
        if (!take_row(look, &c->changes[i])) {
            return TAKEN_FULL;
        }
        steps += look->peer->sub_count;
        look->upto = c->changes[i].change->seq;
    }
    look->upto = c->seq;
    return TAKEN_ALL;
}

static void arrived(struct hub_catchup *c, struct core *core);

static void ask_log(struct look *look)
{
    look->again = false;
    look->catchup = hub_catchup(core_of(look), look->upto, arrived, look);
}

/* Where it has looked at everything it was told of: done, or wait for more. */
static void decide(struct look *look)
{
    bool waits = look->waits && look->peer->sub_count > 0; /* they may have been taken away */
    bool is_behind = look->again || look->heard > look->upto;
    if (look->has_found || (!waits && !is_behind)) {
        finish_here(look, false);
    } else if (is_behind) {
        ask_log(look); /* out of memory: the next bell, or the end, comes back here */
        if (!look->catchup && !waits) {
            finish_here(look, false);
        }
    }
}

static void arrived(struct hub_catchup *c, struct core *core)
{
    (void)core;
    struct look *look = c->user;
    enum taken taken = TAKEN_ALL;
    if (look) {
        look->catchup = NULL;
        if (c->truncated) {
            lose_all(look, STR_EMPTY, UINT64_MAX);
            look->upto = c->seq;
        } else {
            taken = take_rows(look, c);
        }
    }
    hub_catchup_free(c);
    if (look && taken == TAKEN_FULL) {
        finish_here(look, true);
    } else if (look && taken == TAKEN_SOME) {
        ask_log(look);
        if (!look->catchup) {
            finish_here(look, true);
        }
    } else if (look) {
        decide(look);
    }
}

/* ---- the bell -------------------------------------------------------------------------------- */

static void told(struct peer *peer, const struct dialect_updated *u, const struct sub *sub)
{
    (void)sub;
    struct look *look = peer->owner;
    if (!u->change) {
        look->again = true;
    } else if (u->change->seq > look->heard) {
        look->heard = u->change->seq;
    }
    if (!look->wanted && !look->catchup && (look->again || look->heard > look->upto)) {
        ask_log(look);
    }
}

/* The server stops, or the application wants it gone: one last look. */
static void disconnect(struct peer *peer)
{
    struct look *look = peer->owner;
    look->waits = false;
    if (!look->wanted && !look->catchup) {
        ask_log(look); /* else the deadline of the call ends it */
    }
}

static void destroyed(struct peer *peer)
{
    struct look *look = peer->owner;
    look->peer = NULL;
}

static const struct peer_ops look_peer_ops = {
    .told = told,
    .disconnect = disconnect,
    .destroyed = destroyed,
};

/* ---- begin and end --------------------------------------------------------------------------- */

/* What rules of the server add to a subscription is for those who keep theirs. */
static void be_plain(struct sub *sub)
{
    sub->owes_since = sub->owes_initial = false;
    sub->wants_value = false;
}

static void settled(struct subscribing *s, void *user)
{
    struct look *look = user;
    look->wanted = NULL;
    look->upto = UINT64_MAX;
    for (size_t i = 0; i < s->count; i++) {
        const struct wish *w = &s->wishes[i];
        if (!w->sub) {
            look->ops->refused(look->user, w->spelled, &w->stat.base.err);
            continue;
        }
        be_plain(w->sub);
        if (w->sub->since == SINCE_UNKNOWN) {
            w->sub->since = s->core->last_seq;
            lose(look, w->sub);
        }
        look->upto = w->sub->since < look->upto ? w->sub->since : look->upto;
    }
    if (look->peer->sub_count == 0) {
        finish(look, NULL, false);
        return;
    }
    if (look->upto < s->core->last_seq) {
        ask_log(look);
    }
    if (!look->catchup) {
        look->again = look->upto < s->core->last_seq; /* out of memory: later */
        decide(look);
    }
}

static int copy_wishes(struct subscribing *s, struct json *uris, struct tidings_str since,
                       struct tidings_error *err)
{
    struct tidings_str sealed = arena_dup(&s->arena, cursor_is_sealed(since) ? since : STR_EMPTY);
    struct log_cursor cursor = {0};
    if (since.len > 0 && sealed.len == 0 && !cursor_parse(since, &cursor)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'cursor' must be one that an earlier answer gave; leave it out to "
                            "begin now");
    }
    bool is_copied = sealed.ptr != NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct wish *w = &s->wishes[i];
        w->spelled = arena_dup(&s->arena, uris ? jv_str(jv_at(uris, i)) : STR("**"));
        is_copied = is_copied && w->spelled.ptr;
        options_init(&w->options);
        w->options.given = OPTION_WINDOW | (since.len > 0 ? OPTION_SINCE : 0u);
        w->options.window_ms = 0; /* the bell rings at once */
        w->options.since = cursor;
        w->options.sealed = sealed;
    }
    return is_copied ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static int check_rate(struct call *call, struct tidings_error *err)
{
    struct refusal why;
    char text[REFUSAL_SENTENCE];
    if (quota_take_subscribe(channel_quota(call->channel), loop_now_ms(call->core->loop), &why)) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, text));
}

/* The peer with its one listen, or NULL. */
static struct peer *create_peer(struct call *call, size_t count, struct subscribing **ret)
{
    struct peer *peer = peer_create(call->core, call->who);
    struct listen *listen = peer ? listen_create(peer, STR("0")) : NULL;
    *ret = listen ? subscribing_create(listen, count) : NULL;
    if (!*ret || !subscribing_set_channel(*ret, call->channel)) {
        if (*ret) {
            subscribing_free(*ret);
        }
        peer_destroy(peer);
        return NULL;
    }
    listen->live = true;
    return peer;
}

struct look *look_create(struct call *call, struct json *uris, struct tidings_str since, bool waits,
                         struct tidings_error *err)
{
    if (check_rate(call, err) < 0) {
        return NULL;
    }
    struct look *look = mem_zalloc(sizeof(*look));
    if (look) {
        look->peer = create_peer(call, uris ? jv_count(uris) : 1, &look->wanted);
    }
    if (!look || !look->peer) {
        mem_free(look);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    struct subscribing *s = look->wanted;
    struct peer *peer = look->peer;
    look->waits = waits && !call->core->stopping;
    look->sink.ops = &sink_nowhere;
    peer->owner = look;
    peer->ops = &look_peer_ops;
    peer_set_sink(peer, &look->sink);
    s->done = settled;
    s->done_user = look;
    if (copy_wishes(s, uris, since, err) < 0) {
        subscribing_free(s);
        look_free(look);
        return NULL;
    }
    return look;
}

void look_start(struct look *look, const struct look_ops *ops, void *user)
{
    look->ops = ops;
    look->user = user;
    subscribing_settle(look->wanted);
}

void look_hurry(struct look *look)
{
    look->waits = false;
    if (!look->wanted && !look->catchup) {
        decide(look);
    }
}

void look_cancel(struct look *look)
{
    if (look) {
        look_free(look);
    }
}
