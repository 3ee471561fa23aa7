/* SPDX-License-Identifier: MIT
 *
 * A request to subscribe on its way, shared by subscribe_resolve.c (what each URI means),
 * subscribe_baseline.c (where patches begin), subscribe.c (arming, making the subscriptions,
 * telling the client) and protocol/method_listen.c (subscriptions/listen).
 *
 *     resolve every URI (maybe later) -> arm all scopes at the hub -> create subs, acknowledge
 *
 * It may outlive its listen (the client went): then whatever was armed is released again.
 */
#ifndef DELIVERY_SUBSCRIBE_BATCH_H
#define DELIVERY_SUBSCRIBE_BATCH_H

#include "catalog/job.h"
#include "delivery/listen.h"
#include "delivery/options.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "request/request.h"

struct subscribe_batch;

struct subscribe_item {
    struct subscribe_batch *owner;
    struct tidings_str spelled; /* as the client wrote it; all texts lie in the arena */
    struct tidings_str uri;     /* canonical, or the pattern that goes into the index */
    struct tidings_str subject; /* what it is told patches of, when that is another; or empty */
    struct options options;
    unsigned matches;      /* 1u << enum option_match: what it may turn out to be */
    struct json *kept;     /* a reference to what the options borrow, or NULL */
    struct filter *filter; /* of the options, once all is settled; a reference */
    enum match_kind kind;
    struct tidings_str *scopes; /* to be armed */
    size_t scope_count;
    struct tidings_str *hooked; /* the memory they lie in, or NULL: the arena */
    size_t first_item;          /* of its scopes in the arm */
    struct subscription_condition *conditions;
    size_t condition_count;
    struct tidings_provider *covering; /* has a relation of its own */
    struct tidings_stat stat;          /* its err says why it was refused */
    struct subscription *sub;          /* once it exists */
    bool refused, broad;
};

struct subscribe_batch {
    struct listen_pending pending; /* .listen is NULL once the client is gone */
    struct worker *worker;
    const struct principal *who; /* a reference: who asks, also once the client is gone */
    struct request *request;     /* resources/subscribe; NULL for listens */
    struct arena arena;
    struct option_rules *rules;    /* a reference to what options may borrow from, or NULL */
    struct tidings_str share;      /* HUB_SHARE and the principal; empty: the program itself */
    subscription_filter_fn filter; /* in-process subscriptions */
    void *filter_user;
    /* In-process: instead of an answer, unless the listen is gone. */
    void (*done)(struct subscribe_batch *s, void *user);
    void *done_user;
    bool acknowledge; /* a listen waits for its acknowledgement */
    bool wants_list;  /* also arm every mount */
    bool withdrawn;   /* unsubscribed before it came to be */
    size_t unresolved;
    size_t count;
    struct subscribe_item items[];
};

struct subscribe_batch *subscribe_batch_create(struct listen *listen, size_t count);
void subscribe_batch_free(struct subscribe_batch *s);
/* Settle all items; when the last is, subscribe_batch_arm is called. */
void subscribe_batch_resolve(struct subscribe_batch *s);
void subscribe_batch_arm(struct subscribe_batch *s);

/* On whose behalf: broad items are counted per principal. false: out of memory. */
bool subscribe_batch_set_channel(struct subscribe_batch *s, const struct channel *channel);

void subscribe_item_refuse(struct subscribe_item *w, int code, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

/* The details that go with a refusal by a limit. */
void subscribe_item_explain_limit(struct subscribe_item *w, enum limit limit, uint64_t value);
/* Is it refused, perhaps because there are too many, or its client has no steps left for a regex?
 */
bool subscribe_item_is_too_many(struct subscribe_batch *s, struct subscribe_item *w);
/* Its subscription; a regex is compiled at the expense of its client. */
struct subscription *subscribe_item_make_sub(struct subscribe_batch *s,
                                             const struct subscribe_item *w, uint64_t since,
                                             struct tidings_error *err);
/* Before anything is armed, so that a bad filter costs nobody else anything. */
void subscribe_batch_compile_filters(struct subscribe_batch *s);

/* Is the canonical `uri` one under which patches of another resource are told? Sets `subject`, or
 * refuses. */
void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri);
/* What can be said of its baseline once the kind is settled; refuses. */
void subscribe_item_judge_baseline(struct subscribe_item *w);
/* Ask the provider for the version it names: `done` comes later, perhaps after a refusal. false:
 * nothing to ask. */
bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w));
/* Where its patches begin. NULL: out of memory. */
struct chain *subscribe_item_begin_chain(const struct subscribe_item *w);
/* What the cursor of its options is to whoever gave it: perhaps unknown. */
void subscribe_item_open_since(struct subscribe_item *w, const struct principal *who);
/* The number here that the cursor of its options stands for, `seq` being the newest; SINCE_UNKNOWN:
 * the client has to look again. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq);

/* `dev.tidings/options` of a request's `_meta`; NULL: none. */
struct json *options_of(const struct rpc_message *msg);

#endif
