/* SPDX-License-Identifier: MIT
 *
 * A subscription of the embedding program: a subscriber on the first worker that calls a function
 * instead of writing to a stream. It is created and ended on that worker's thread; remaining ones
 * end with the server.
 *
 * It has two references: one of the program, until it ends the subscription, and one of the server:
 * first for the message to the worker, then for the subscriber. So the handle stays valid after the
 * server has released it, and the other way round. The server uses the list of all subscriptions
 * when it ends, when only its own thread is left; until then a mutex guards the list.
 */
#include "server/local_subscription.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/subscription_handle.h"
#include "base/thread.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscribe.h"
#include "engine/protocol/dialect.h"
#include "store/change.h"

struct inproc_subscription {
    struct tidings_subscription base;
    struct thread_message begin, end;
    struct inproc_subscriptions *all;
    struct list link;                     /* among all */
    unsigned refs;                        /* atomic */
    bool is_ending;                       /* atomic: the program ended it */
    struct sink sink;                     /* has no stream */
    struct subscriber *subscriber;        /* worker's thread; NULL: not yet, or no longer */
    struct json *options;                 /* a reference, or NULL */
    struct tidings_subscribe_options how; /* the program's functions */
    size_t uri_len;
    char uri[]; /* and a NUL */
};

static struct inproc_subscription *inproc_of(struct tidings_subscription *base)
{
    return list_entry(base, struct inproc_subscription, base);
}

static void inproc_free(struct inproc_subscription *inproc)
{
    jv_unref(inproc->options);
    mem_free(inproc);
}

static void inproc_unref(struct inproc_subscription *inproc)
{
    struct inproc_subscriptions *all = inproc->all;
    if (__atomic_sub_fetch(&inproc->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        pthread_mutex_lock(&all->lock);
        list_remove(&inproc->link);
        pthread_mutex_unlock(&all->lock);
        inproc_free(inproc);
    }
}

/* ---- notifications --------------------------------------------------------------------------- */

static void inproc_notify_state(struct inproc_subscription *inproc, enum tidings_state state,
                                struct tidings_str reason)
{
    struct tidings_state_event event = {
        .state = state,
        .subscription = &inproc->base,
        .uri = tidings_strn(inproc->uri, inproc->uri_len),
        .reason = reason,
    };
    if (inproc->how.on_state) {
        inproc->how.on_state(inproc->how.user, &event);
    }
}

static void inproc_on_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub)
{
    struct inproc_subscription *inproc = subscriber->owner;
    if (u->suspended) {
        inproc_notify_state(inproc, TIDINGS_STATE_LOST,
                            STR("its filter took too long too often: nothing more will come"));
        return;
    }
    struct tidings_update update = {
        .subscription = &inproc->base,
        .uri = u->change ? u->change->uri : subscription_as_requested(sub),
        .subscribed_uri = subscription_as_requested(sub),
        .metadata = u->change ? change_metadata_object(u->change) : STR_EMPTY,
        .value = u->value_json,
        .kind = u->change ? change_kind_of(u->change, u->kind) : u->kind,
        .merged = u->merged,
        .caught_up = u->caught_up,
        .truncated = u->truncated,
        .initial = u->initial,
    };
    if (u->change && update.kind == TIDINGS_CHANGE_MOVED) {
        update.uri = u->change->to.len > 0 ? u->change->to : update.uri;
        update.from = u->change->from;
    }
    inproc->how.fn(inproc->how.user, &update);
}

static void inproc_subscribed(struct subscribe_batch *s, const struct log_cursor *at)
{
    (void)at;
    if (!s->pending.group) {
        return; /* it has ended */
    }
    if (s->items[0].refused) {
        inproc_notify_state(s->user, TIDINGS_STATE_REFUSED,
                            tidings_str(s->items[0].stat.base.err.text));
    } else {
        inproc_notify_state(s->user, TIDINGS_STATE_WATCHING, s->items[0].warning);
    }
}

static void inproc_gone(struct subscriber *subscriber)
{
    struct inproc_subscription *inproc = subscriber->owner;
    inproc->subscriber = NULL;
    inproc_unref(inproc);
}

static void inproc_disconnect(struct subscriber *subscriber)
{
    inproc_notify_state(subscriber->owner, TIDINGS_STATE_ENDED, STR_EMPTY);
    subscriber_destroy(subscriber);
}

static const struct subscriber_ops inproc_subscriber_ops = {
    .on_update = inproc_on_update,
    .on_destroy = inproc_gone,
    .disconnect = inproc_disconnect,
};

/* ---- start ----------------------------------------------------------------------------------- */

static void inproc_subscribe(struct thread_message *message, void *owner)
{
    struct worker *worker = owner;
    struct inproc_subscription *inproc = list_entry(message, struct inproc_subscription, begin);
    struct subscriber *subscriber = subscriber_create(worker, NULL);
    struct subscription_group *group =
        subscriber ? subscription_group_create(subscriber, STR_EMPTY) : NULL;
    struct subscribe_batch *s = group ? subscribe_batch_create(group, 1) : NULL;
    struct subscribe_item *w = s ? &s->items[0] : NULL;
    if (w) { /* the message may outlive the subscription */
        w->as_requested = arena_dup(&s->arena, tidings_strn(inproc->uri, inproc->uri_len));
        w->kept = jv_ref(inproc->options);
    }
    if (!w || !w->as_requested.ptr) {
        inproc_notify_state(inproc, TIDINGS_STATE_REFUSED, STR("out of memory"));
        if (s) {
            subscribe_batch_free(s);
        }
        subscriber_destroy(subscriber);
        inproc_unref(inproc);
        return;
    }
    inproc->sink.ops = &sink_nowhere;
    inproc->subscriber = subscriber;
    subscriber->owner = inproc;
    subscriber->ops = &inproc_subscriber_ops;
    subscriber_set_sink(subscriber, &inproc->sink);
    group->is_open = true;
    struct tidings_error err;
    options_init(&w->options);
    if (options_read(&w->options, inproc->options, false, &err) < 0) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
    }
    s->filter = inproc->how.filter;
    s->filter_user = inproc->how.filter_user;
    s->done = inproc_subscribed;
    s->user = inproc;
    subscribe_batch_resolve(s);
}

/* The hub knows the workers. */
static void inproc_begin_on_hub(struct thread_message *message, void *owner)
{
    message->deliver = inproc_subscribe;
    hub_forward(owner, message);
}

static void inproc_begin_drop(struct thread_message *message)
{
    inproc_unref(list_entry(message, struct inproc_subscription, begin));
}

/* ---- end ------------------------------------------------------------------------------------- */

static void inproc_end_drop(struct thread_message *message)
{
    inproc_unref(list_entry(message, struct inproc_subscription, end));
}

/* The message that starts it was delivered before, or dropped. */
static void inproc_end_now(struct thread_message *message, void *owner)
{
    (void)owner;
    struct inproc_subscription *inproc = list_entry(message, struct inproc_subscription, end);
    if (inproc->subscriber) {
        inproc_disconnect(inproc->subscriber);
    }
    inproc_unref(inproc);
}

static void inproc_end_on_hub(struct thread_message *message, void *owner)
{
    message->deliver = inproc_end_now;
    hub_forward(owner, message);
}

static void inproc_end(struct tidings_subscription *base)
{
    struct inproc_subscription *inproc = inproc_of(base);
    if (!__atomic_exchange_n(&inproc->is_ending, true, __ATOMIC_ACQ_REL)) {
        mailbox_send(hub_mailbox(inproc->all->hub), &inproc->end);
    }
}

/* ---- the handle ------------------------------------------------------------------------------ */

static const char *inproc_uri(const struct tidings_subscription *base)
{
    return ((const struct inproc_subscription *)base)->uri;
}

static int inproc_set_options(struct tidings_subscription *base, const char *options,
                              struct tidings_error *err)
{
    (void)base;
    (void)options;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "a subscription of a server in this program keeps its options");
}

static const struct subscription_handle_ops inproc_handle_ops = {
    .end = inproc_end,
    .uri = inproc_uri,
    .set_options = inproc_set_options,
};

void inproc_subscriptions_init(struct inproc_subscriptions *all)
{
    list_init(&all->list);
    pthread_mutex_init(&all->lock, NULL);
}

void inproc_subscriptions_deinit(struct inproc_subscriptions *all)
{
    list_each (it, next, &all->list) {
        inproc_free(list_entry(it, struct inproc_subscription, link));
    }
    pthread_mutex_destroy(&all->lock);
}

static int inproc_check(struct tidings_str uri, const struct tidings_subscribe_options *how,
                        struct json **ret, struct tidings_error *err)
{
    if (uri.len == 0 || !how || !how->fn) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a subscription needs a URI and a function to call");
    }
    int rc = RESERVED_CHECK(how, err);
    return rc == 0 && how->options ? jv_parse(tidings_str(how->options), JSON_MAX_DEPTH, ret, err)
                                   : rc;
}

struct tidings_subscription *inproc_subscription_create(struct inproc_subscriptions *all,
                                                        struct tidings_str uri,
                                                        const struct tidings_subscribe_options *how,
                                                        struct tidings_error *err)
{
    struct json *options = NULL;
    if (inproc_check(uri, how, &options, err) < 0) {
        return NULL;
    }
    struct inproc_subscription *inproc = mem_zalloc(sizeof(*inproc) + uri.len + 1);
    if (!inproc) {
        jv_unref(options);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    inproc->base.ops = &inproc_handle_ops;
    inproc->all = all;
    inproc->refs = 2;
    inproc->options = options;
    inproc->how = *how;
    inproc->how.options = NULL; /* owned by the program */
    inproc->uri_len = uri.len;
    memcpy(inproc->uri, uri.ptr, uri.len);
    inproc->begin.deliver = inproc_begin_on_hub;
    inproc->begin.drop = inproc_begin_drop;
    inproc->end.deliver = inproc_end_on_hub;
    inproc->end.drop = inproc_end_drop;
    pthread_mutex_lock(&all->lock);
    list_append(&all->list, &inproc->link);
    pthread_mutex_unlock(&all->lock);
    mailbox_send(hub_mailbox(all->hub), &inproc->begin); /* waits there until the server runs */
    return &inproc->base;
}
