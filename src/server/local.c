/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of the program itself: a subscriber on the first worker that is called instead of
 * written to. Made and ended on that worker's thread; what is left ends with the server.
 */
#include "server/local.h"

#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/subscribe_batch.h"
#include "store/change.h"

struct local {
    struct letter letter;
    struct locals *all;
    int id;
    struct sink sink; /* nowhere */
    struct subscriber *subscriber;
    struct json *options; /* a reference, or NULL */
    tidings_filter_fn filter;
    void *filter_user;
    tidings_update_fn fn;
    void *user;
    size_t uri_len;
    char uri[];
};

/* ---- being told ------------------------------------------------------------------------------ */

static void told(struct subscriber *subscriber, const struct dialect_updated *u,
                 const struct subscription *sub)
{
    struct local *local = subscriber->owner;
    struct tidings_update update = {
        .uri = u->change ? u->change->uri : subscription_spelled(sub),
        .subscribed_uri = subscription_spelled(sub),
        .metadata = u->change ? u->change->metadata_json : STR_EMPTY,
        .value = u->value_json,
        .kind = u->change ? change_kind_of(u->change, u->kind) : u->kind,
        .merged = u->merged,
        .truncated = u->truncated,
        .suspended = u->suspended,
        .initial = u->initial,
    };
    if (u->change && update.kind == TIDINGS_CHANGE_MOVED) {
        update.from = u->change->from;
    }
    local->fn(local->user, &update);
}

static void settled(struct subscribe_batch *s, void *user)
{
    struct local *local = user;
    if (s->items[0].refused) {
        struct tidings_update update = {
            .subscribed_uri = s->items[0].spelled,
            .refused = tidings_str(s->items[0].stat.base.err.text),
        };
        local->fn(local->user, &update);
    }
}

static void local_free(struct local *local)
{
    jv_unref(local->options);
    mem_free(local);
}

static struct tidings_str key_of(const int *id)
{
    return tidings_strn((const char *)id, sizeof(*id));
}

static void gone(struct subscriber *subscriber)
{
    struct local *local = subscriber->owner;
    map_remove(&local->all->by_id, key_of(&local->id));
    local_free(local);
}

static void disconnect(struct subscriber *subscriber)
{
    struct local *local = subscriber->owner;
    struct tidings_update update = {
        .subscribed_uri = tidings_strn(local->uri, local->uri_len),
        .ended = true,
    };
    local->fn(local->user, &update);
    subscriber_destroy(subscriber);
}

static const struct subscriber_ops local_peer_ops = {
    .told = told,
    .destroyed = gone,
    .disconnect = disconnect,
};

static void subscribe(struct letter *letter, void *owner)
{
    struct worker *worker = owner;
    struct local *local = list_entry(letter, struct local, letter);
    struct subscriber *subscriber = subscriber_create(worker, NULL);
    struct listen *listen = subscriber ? listen_create(subscriber, STR_EMPTY) : NULL;
    struct subscribe_batch *s = listen ? subscribe_batch_create(listen, 1) : NULL;
    struct subscribe_item *w = s ? &s->items[0] : NULL;
    if (w) { /* it may be under way for longer than the subscription lives */
        w->spelled = arena_dup(&s->arena, tidings_strn(local->uri, local->uri_len));
        w->kept = jv_ref(local->options);
    }
    if (!w || !w->spelled.ptr || map_put(&local->all->by_id, key_of(&local->id), local, NULL) < 0) {
        struct tidings_update update = {.refused = STR("out of memory")};
        local->fn(local->user, &update);
        if (s) {
            subscribe_batch_free(s);
        }
        subscriber_destroy(subscriber);
        local_free(local);
        return;
    }
    local->sink.ops = &sink_nowhere;
    local->subscriber = subscriber;
    subscriber->owner = local;
    subscriber->ops = &local_peer_ops;
    subscriber_set_sink(subscriber, &local->sink);
    listen->live = true;
    struct tidings_error err;
    options_init(&w->options);
    if (options_read(&w->options, local->options, false, &err) < 0) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
    }
    s->filter = local->filter;
    s->filter_user = local->filter_user;
    s->done = settled;
    s->done_user = local;
    subscribe_batch_settle(s);
}

/* The hub knows the workers. */
static void on_hub(struct letter *letter, void *owner)
{
    letter->deliver = subscribe;
    hub_forward(owner, letter);
}

static void drop(struct letter *letter)
{
    local_free(list_entry(letter, struct local, letter));
}

void locals_init(struct locals *all)
{
    map_init(&all->by_id);
    all->last = 0;
}

void locals_deinit(struct locals *all)
{
    map_deinit(&all->by_id);
}

struct letter *local_create(struct locals *all, struct tidings_str uri,
                            const struct tidings_subscribe_options *options, tidings_update_fn fn,
                            void *user, struct tidings_error *err)
{
    if (uri.len == 0 || !fn) {
        tidings_fail(err, TIDINGS_E_INVALID, "a subscription needs a URI and a function to call");
        return NULL;
    }
    struct json *parsed = NULL;
    if (options && options->json.len > 0 &&
        jv_parse(options->json, JSON_MAX_DEPTH, &parsed, err) < 0) {
        return NULL;
    }
    struct local *local = mem_zalloc(sizeof(*local) + uri.len);
    if (!local) {
        jv_unref(parsed);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    memcpy(local->uri, uri.ptr, uri.len);
    local->uri_len = uri.len;
    local->options = parsed;
    local->filter = options ? options->filter : NULL;
    local->filter_user = options ? options->filter_user : NULL;
    local->fn = fn;
    local->user = user;
    local->all = all;
    local->id = __atomic_add_fetch(&all->last, 1, __ATOMIC_RELAXED);
    local->letter.deliver = on_hub;
    local->letter.drop = drop;
    return &local->letter;
}

int local_id(struct letter *begin)
{
    return list_entry(begin, struct local, letter)->id;
}

/* ---- ending ---------------------------------------------------------------------------------- */

struct end_letter {
    struct letter letter;
    struct locals *all;
    int id;
};

static void end_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct end_letter, letter));
}

static void end_now(struct letter *letter, void *owner)
{
    (void)owner;
    struct end_letter *l = list_entry(letter, struct end_letter, letter);
    struct local *local = map_find(&l->all->by_id, key_of(&l->id));
    if (local) {
        disconnect(local->subscriber);
    }
    end_drop(letter);
}

static void end_on_hub(struct letter *letter, void *owner)
{
    letter->deliver = end_now;
    hub_forward(owner, letter);
}

struct letter *local_end(struct locals *all, int id, struct tidings_error *err)
{
    if (id <= 0 || id > __atomic_load_n(&all->last, __ATOMIC_RELAXED)) {
        tidings_fail(err, TIDINGS_E_INVALID, "%d is not a subscription", id);
        return NULL;
    }
    struct end_letter *l = mem_zalloc(sizeof(*l));
    if (!l) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    l->letter.deliver = end_on_hub;
    l->letter.drop = end_drop;
    l->all = all;
    l->id = id;
    return &l->letter;
}
