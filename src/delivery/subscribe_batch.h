/* SPDX-License-Identifier: MIT
 *
 * A request to subscribe on its way, shared by settle.c (what each URI means), settle_patch.c
 * (where patches begin), subscribe.c (arming, making the subscriptions, telling the client) and
 * listen_request.c (subscriptions/listen).
 *
 *     settle every URI (maybe later) -> arm all scopes at the hub -> create subs, acknowledge
 *
 * It may outlive its listen (the client went): then whatever was armed is released again.
 */
#ifndef DELIVERY_SUBSCRIBE_BATCH_H
#define DELIVERY_SUBSCRIBE_BATCH_H

#include "catalog/job.h"
#include "delivery/options.h"
#include "delivery/subscriber.h"
#include "request/request.h"

struct subscribing;

struct wish {
    struct subscribing *owner;
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
    struct sub_condition *conditions;
    size_t condition_count;
    struct tidings_provider *covering; /* has a relation of its own */
    struct tidings_stat stat;          /* its err says why it was refused */
    struct sub *sub;                   /* once it exists */
    bool refused, broad;
};

struct subscribing {
    struct listen_pending pending; /* .listen is NULL once the client is gone */
    struct core *core;
    const struct principal *who; /* a reference: who asks, also once the client is gone */
    struct call *call;           /* resources/subscribe; NULL for listens */
    struct arena arena;
    struct option_rules *rules; /* a reference to what options may borrow from, or NULL */
    struct tidings_str share;   /* HUB_SHARE and the principal; empty: the program itself */
    sub_filter_fn filter;       /* in-process subscriptions */
    void *filter_user;
    /* In-process: instead of an answer, unless the listen is gone. */
    void (*done)(struct subscribing *s, void *user);
    void *done_user;
    bool acknowledge; /* a listen waits for its acknowledgement */
    bool wants_list;  /* also arm every mount */
    bool withdrawn;   /* unsubscribed before it came to be */
    size_t unsettled;
    size_t count;
    struct wish wishes[];
};

struct subscribing *subscribing_create(struct listen *listen, size_t count);
void subscribing_free(struct subscribing *s);
/* Settle all wishes; when the last is, subscribing_arm is called. */
void subscribing_settle(struct subscribing *s);
void subscribing_arm(struct subscribing *s);

/* On whose behalf: broad wishes are counted per principal. false: out of memory. */
bool subscribing_set_channel(struct subscribing *s, const struct channel *channel);

void wish_refuse(struct wish *w, int code, const char *fmt, ...) TIDINGS_PRINTF(3, 4);

/* The details that go with a refusal by a limit. */
void wish_explain_limit(struct wish *w, enum limit limit, uint64_t value);
/* Is it refused, perhaps because there are too many, or its client has no steps left for a regex?
 */
bool wish_is_too_many(struct subscribing *s, struct wish *w);
/* Its subscription; a regex is compiled at the expense of its client. */
struct sub *wish_make_sub(struct subscribing *s, const struct wish *w, uint64_t since,
                          struct tidings_error *err);
/* Before anything is armed, so that a bad filter costs nobody else anything. */
void subscribing_compile_filters(struct subscribing *s);

/* Is the canonical `uri` one under which patches of another resource are told? Sets `subject`, or
 * refuses. */
void wish_find_subject(struct wish *w, struct tidings_str uri);
/* What can be said of its baseline once the kind is settled; refuses. */
void wish_judge_baseline(struct wish *w);
/* Ask the provider for the version it names: `done` comes later, perhaps after a refusal. false:
 * nothing to ask. */
bool wish_ask_baseline(struct wish *w, void (*done)(struct wish *w));
/* Where its patches begin. NULL: out of memory. */
struct chain *wish_begin_chain(const struct wish *w);
/* What the cursor of its options is to whoever gave it: perhaps unknown. */
void wish_open_since(struct wish *w, const struct principal *who);
/* The number here that the cursor of its options stands for, `seq` being the newest; SINCE_UNKNOWN:
 * the client has to look again. */
uint64_t wish_since(const struct wish *w, uint64_t seq);

/* `dev.tidings/options` of a request's `_meta`; NULL: none. */
struct json *options_of(const struct rpc_message *msg);

#endif
