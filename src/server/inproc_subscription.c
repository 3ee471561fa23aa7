/* SPDX-License-Identifier: MIT
 *
 * A subscription of the embedding program: a subscriber on the first worker that is called instead
 * of written to. Made and ended on that worker's thread; what is left ends with the server.
 */
#include "server/inproc_subscription.h"

#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/subscribe_batch.h"
#include "store/change.h"

struct inproc_subscription {
    struct letter letter;
    struct inproc_subscriptions *all;
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

static void inproc_told(struct subscriber *subscriber, const struct dialect_updated *u,
                        const struct subscription *sub)
{
    struct inproc_subscription *inproc = subscriber->owner;
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
    inproc->fn(inproc->user, &update);
}

static void inproc_settled(struct subscribe_batch *s, void *user)
{
    struct inproc_subscription *inproc = user;
    if (s->items[0].refused) {
        struct tidings_update update = {
            .subscribed_uri = s->items[0].spelled,
            .refused = tidings_str(s->items[0].stat.base.err.text),
        };
        inproc->fn(inproc->user, &update);
    }
}

static void inproc_subscription_free(struct inproc_subscription *inproc)
{
    jv_unref(inproc->options);
    mem_free(inproc);
}

static struct tidings_str inproc_key_of(const int *id)
{
    return tidings_strn((const char *)id, sizeof(*id));
}

static void gone(struct subscriber *subscriber)
{
    struct inproc_subscription *inproc = subscriber->owner;
    map_remove(&inproc->all->by_id, inproc_key_of(&inproc->id));
    inproc_subscription_free(inproc);
}

static void inproc_disconnect(struct subscriber *subscriber)
{
    struct inproc_subscription *inproc = subscriber->owner;
    struct tidings_update update = {
        .subscribed_uri = tidings_strn(inproc->uri, inproc->uri_len),
        .ended = true,
    };
    inproc->fn(inproc->user, &update);
    subscriber_destroy(subscriber);
}

static const struct subscriber_ops inproc_subscriber_ops = {
    .told = inproc_told,
    .destroyed = gone,
    .disconnect = inproc_disconnect,
};

static void subscribe(struct letter *letter, void *owner)
{
    struct worker *worker = owner;
    struct inproc_subscription *inproc = list_entry(letter, struct inproc_subscription, letter);
    struct subscriber *subscriber = subscriber_create(worker, NULL);
    struct listen *listen = subscriber ? listen_create(subscriber, STR_EMPTY) : NULL;
    struct subscribe_batch *s = listen ? subscribe_batch_create(listen, 1) : NULL;
    struct subscribe_item *w = s ? &s->items[0] : NULL;
    if (w) { /* it may be under way for longer than the subscription lives */
        w->spelled = arena_dup(&s->arena, tidings_strn(inproc->uri, inproc->uri_len));
        w->kept = jv_ref(inproc->options);
    }
    if (!w || !w->spelled.ptr ||
        map_put(&inproc->all->by_id, inproc_key_of(&inproc->id), inproc, NULL) < 0) {
        struct tidings_update update = {.refused = STR("out of memory")};
        inproc->fn(inproc->user, &update);
        if (s) {
            subscribe_batch_free(s);
        }
        subscriber_destroy(subscriber);
        inproc_subscription_free(inproc);
        return;
    }
    inproc->sink.ops = &sink_nowhere;
    inproc->subscriber = subscriber;
    subscriber->owner = inproc;
    subscriber->ops = &inproc_subscriber_ops;
    subscriber_set_sink(subscriber, &inproc->sink);
    listen->live = true;
    struct tidings_error err;
    options_init(&w->options);
    if (options_read(&w->options, inproc->options, false, &err) < 0) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
    }
    s->filter = inproc->filter;
    s->filter_user = inproc->filter_user;
    s->done = inproc_settled;
    s->done_user = inproc;
    subscribe_batch_resolve(s);
}

/* The hub knows the workers. */
static void inproc_on_hub(struct letter *letter, void *owner)
{
    letter->deliver = subscribe;
    hub_forward(owner, letter);
}

static void inproc_drop(struct letter *letter)
{
    inproc_subscription_free(list_entry(letter, struct inproc_subscription, letter));
}

void inproc_subscriptions_init(struct inproc_subscriptions *all)
{
    map_init(&all->by_id);
    all->last = 0;
}

void inproc_subscriptions_deinit(struct inproc_subscriptions *all)
{
    map_deinit(&all->by_id);
}

struct letter *inproc_subscription_create(struct inproc_subscriptions *all, struct tidings_str uri,
                                          const struct tidings_subscribe_options *options,
                                          tidings_update_fn fn, void *user,
                                          struct tidings_error *err)
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
    struct inproc_subscription *inproc = mem_zalloc(sizeof(*inproc) + uri.len);
    if (!inproc) {
        jv_unref(parsed);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    memcpy(inproc->uri, uri.ptr, uri.len);
    inproc->uri_len = uri.len;
    inproc->options = parsed;
    inproc->filter = options ? options->filter : NULL;
    inproc->filter_user = options ? options->filter_user : NULL;
    inproc->fn = fn;
    inproc->user = user;
    inproc->all = all;
    inproc->id = __atomic_add_fetch(&all->last, 1, __ATOMIC_RELAXED);
    inproc->letter.deliver = inproc_on_hub;
    inproc->letter.drop = inproc_drop;
    return &inproc->letter;
}

int inproc_subscription_id(struct letter *begin)
{
    return list_entry(begin, struct inproc_subscription, letter)->id;
}

/* ---- ending ---------------------------------------------------------------------------------- */

struct end_letter {
    struct letter letter;
    struct inproc_subscriptions *all;
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
    struct inproc_subscription *inproc = map_find(&l->all->by_id, inproc_key_of(&l->id));
    if (inproc) {
        inproc_disconnect(inproc->subscriber);
    }
    end_drop(letter);
}

static void end_on_hub(struct letter *letter, void *owner)
{
    letter->deliver = end_now;
    hub_forward(owner, letter);
}

struct letter *inproc_subscription_end(struct inproc_subscriptions *all, int id,
                                       struct tidings_error *err)
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
