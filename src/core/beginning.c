/* SPDX-License-Identifier: MIT
 *
 * Initial state: one update per resource that exists now, marked as initial, at most INITIAL_MAX
 * for patterns. Since: the log is asked once for all subscriptions of the request that gave a
 * cursor; until its answer comes live changes pass them over, being in it.
 */
#include "core/beginning.h"

#include "base/mem.h"
#include "base/str.h"
#include "core/hub.h"
#include "core/resource.h"
#include "store/change.h"

#define INITIAL_MAX 100u

/* ---- since ----------------------------------------------------------------------------------- */

struct missed {
    struct listen_pending pending;
    uint64_t since; /* the lowest asked for */
};

struct offering {
    struct listen *listen;
    const struct change *change;
    enum tidings_change_kind kind;
};

static void offer_missed(void *user, struct match_node *node)
{
    struct offering *o = user;
    struct sub *sub = list_entry(node, struct sub, node);
    if (sub->listen == o->listen && sub->catching_up) {
        peer_offer(o->listen->peer, sub, o->change, o->kind);
    }
}

static void replay_missed(struct listen *listen, const struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        struct offering o = {.listen = listen, .change = change, .kind = change->kind};
        if (change->list_changed) {
            continue;
        }
        if (change->kind == TIDINGS_CHANGE_UPDATED && c->changes[i].created_seq > c->since) {
            o.kind = TIDINGS_CHANGE_CREATED;
        }
        match_find(&listen->peer->core->match, change->uri, offer_missed, &o);
    }
}

static void missed_arrived(struct hub_catchup *c, struct core *core)
{
    (void)core;
    struct missed *m = c->user;
    struct listen *listen = m->pending.listen;
    if (listen && !c->truncated) {
        replay_missed(listen, c);
    }
    for (struct list *it = listen ? listen->subs.next : NULL; listen && it != &listen->subs;
         it = it->next) {
        struct sub *sub = list_entry(it, struct sub, link);
        if (sub->catching_up && sub->catchup == m) {
            sub->catching_up = false;
            listen->peer->catching--;
            if (c->truncated) {
                peer_owe_truncated(listen->peer, sub, sub->since + 1);
            }
        }
    }
    if (listen) {
        peer_mark_dirty(listen->peer);
    }
    list_remove(&m->pending.link);
    mem_free(m);
    hub_catchup_free(c);
}

static void ask_log(struct subscribing *s)
{
    struct listen *listen = s->pending.listen;
    struct missed *m = mem_zalloc(sizeof(*m));
    uint64_t since = UINT64_MAX;
    for (size_t i = 0; i < s->count; i++) {
        struct wish *w = &s->wishes[i];
        if (!w->sub || !w->options.has_since) {
            continue;
        }
        /* Another epoch, or a number not given out yet: nothing is known about what was missed. */
        if (!m || w->options.since_epoch != s->core->epoch || w->options.since > w->sub->since) {
            peer_owe_truncated(listen->peer, w->sub, 1);
            continue;
        }
        w->sub->since = w->options.since;
        w->sub->catching_up = true;
        w->sub->catchup = m;
        listen->peer->catching++;
        peer_owe(listen->peer, w->options.since + 1);
        since = w->options.since < since ? w->options.since : since;
    }
    if (since == UINT64_MAX) {
        mem_free(m);
        return;
    }
    m->since = since;
    m->pending.listen = listen;
    list_append(&listen->pending, &m->pending.link);
    if (!hub_catchup(s->core, since, missed_arrived, m)) {
        struct hub_catchup *none = mem_zalloc(sizeof(*none));
        if (none) {
            none->user = m;
            none->truncated = true;
            missed_arrived(none, s->core);
        }
    }
}

/* ---- initial --------------------------------------------------------------------------------- */

static void offer_state(struct core *core, struct sub *sub, const struct tidings_resource *about,
                        uint64_t seq)
{
    struct tidings_change now = {
        .uri = about->uri,
        .etag = about->etag,
        .size = about->size,
        .has_size = about->size >= 0,
        .modified_ms = about->modified_ms,
    };
    struct change *change = change_create(&now, core->epoch, seq);
    if (change) {
        peer_offer_initial(sub->listen->peer, sub, change);
        change_unref(change);
    } else {
        peer_owe_truncated(sub->listen->peer, sub, seq);
    }
}

/* Walks the mounts a pattern reaches; may outlive the subscription. */
struct walk {
    struct tidings_list list;
    struct listen_pending pending;
    struct core *core;
    struct catalog *catalog; /* a reference */
    enum match_kind kind;
    uint64_t seq;
    size_t mount, found;
    struct tidings_resource *rows[INITIAL_MAX]; /* copies */
    struct tidings_str spelled, text;
    char memory[];
};

static void walk_free(struct walk *k)
{
    for (size_t i = 0; i < k->found; i++) {
        mem_free(k->rows[i]);
    }
    list_remove(&k->pending.link);
    catalog_unref(k->catalog);
    mem_free(k);
}

static struct sub *walk_sub(struct walk *k)
{
    struct listen *listen = k->pending.listen;
    for (struct list *it = listen ? listen->subs.next : NULL; listen && it != &listen->subs;
         it = it->next) {
        struct sub *sub = list_entry(it, struct sub, link);
        if (str_eq(sub->spelled, k->spelled)) {
            return sub;
        }
    }
    return NULL;
}

/* On whichever thread lists: keep the rows that match. */
static int walk_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct walk *k = list_entry(list, struct walk, list);
    if (!match_kind_matches(k->kind, k->text, row->uri)) {
        return 1;
    }
    struct tidings_resource *copy = resource_dup(row);
    if (copy) {
        k->rows[k->found++] = copy;
    }
    return k->found < INITIAL_MAX;
}

static void walk_next(struct walk *k);

static void walked(struct request *request)
{
    struct walk *k = request->user;
    k->mount++;
    walk_next(k);
}

static void walk_end(struct walk *k)
{
    struct sub *sub = walk_sub(k);
    for (size_t i = 0; sub && i < k->found; i++) {
        if (access_allows(sub->listen->peer->who, ACCESS_READ, k->rows[i]->uri)) {
            offer_state(k->core, sub, k->rows[i], k->seq);
        }
    }
    walk_free(k);
}

static void walk_next(struct walk *k)
{
    if (k->found == INITIAL_MAX || k->mount >= k->catalog->mount_count || !k->pending.listen) {
        walk_end(k);
        return;
    }
    request_init(&k->list.base, k->core, walked, k, STR_EMPTY);
    k->list.on_row = walk_row;
    k->list.after = STR_EMPTY;
    k->list.full = false;
    struct tidings_provider *p = k->catalog->mounts[k->mount];
    if (k->kind == MATCH_CONTAINER && str_starts(k->text, p->prefix)) {
        k->list.after = k->text; /* what is below begins right after it */
    }
    request_list(&k->list, p);
}

static void walk_registered(struct walk *k)
{
    for (size_t i = 0; i < k->catalog->resource_count && k->found < INITIAL_MAX; i++) {
        walk_row(&k->list, k->catalog->resources[i]->about);
    }
}

static void show_matching(struct subscribing *s, struct wish *w, uint64_t seq)
{
    struct listen *listen = s->pending.listen;
    struct walk *k = mem_zalloc(sizeof(*k) + w->spelled.len + w->uri.len);
    if (!k) {
        peer_owe_truncated(listen->peer, w->sub, seq);
        return;
    }
    char *at = k->memory;
    k->core = s->core;
    k->catalog = catalog_ref(s->core->catalog);
    k->kind = w->kind;
    k->seq = seq;
    k->spelled = str_place(&at, w->spelled);
    k->text = str_place(&at, w->uri);
    k->pending.listen = listen;
    list_append(&listen->pending, &k->pending.link);
    walk_registered(k);
    walk_next(k);
}

void beginning(struct subscribing *s, uint64_t seq)
{
    for (size_t i = 0; i < s->count; i++) {
        struct wish *w = &s->wishes[i];
        if (!w->sub || !w->options.initial) {
            continue;
        }
        if (w->exists && w->kind == MATCH_LITERAL) {
            struct tidings_resource about = w->stat.about;
            about.uri = w->uri;
            about.etag = STR_EMPTY; /* its text is gone by now */
            offer_state(s->core, w->sub, &about, seq);
        } else {
            show_matching(s, w, seq);
        }
    }
    ask_log(s);
}
