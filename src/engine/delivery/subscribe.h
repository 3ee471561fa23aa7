/* SPDX-License-Identifier: MIT
 *
 * From URIs that a client names to subscriptions: find out what each URI means (one resource, what
 * is below one, a query, a template, a glob, a regex: subscribe_resolve.c), start its watches at
 * the hub, put it into the index, and only then tell the client that it has it.
 *
 * A batch is one request to subscribe on its way. It may outlive its group (the client went): then
 * whatever was watched is released again.
 */
#ifndef ENGINE_DELIVERY_SUBSCRIBE_H
#define ENGINE_DELIVERY_SUBSCRIBE_H

#include <tidings/types.h>

#include "base/mem.h"
#include "engine/catalog/job.h"
#include "engine/delivery/options.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/dialect.h"

struct client_account;
struct channel;

struct subscribe_batch;

struct subscribe_item {
    struct subscribe_batch *owner;
    struct tidings_str as_requested; /* as the client wrote it; all texts lie in the arena */
    struct tidings_str uri;          /* canonical, or the pattern that goes into the index */
    struct tidings_str subject; /* what it is told patches of, when that is another; or empty */
    struct options options;
    unsigned matches;      /* 1u << enum option_match: what it may turn out to be */
    struct json *kept;     /* a reference to what the options borrow, or NULL */
    struct filter *filter; /* of the options, once all are resolved; a reference */
    enum pattern_kind kind;
    struct tidings_str *scopes; /* to be watched */
    size_t scope_count;
    struct tidings_str *hooked; /* the memory they lie in, or NULL: the arena */
    size_t first_item;          /* of its scopes in the request */
    struct subscription_condition *conditions;
    size_t condition_count;
    struct tidings_provider *covers_provider; /* has a relation of its own */
    struct tidings_stat stat;                 /* its err says why it was refused */
    struct subscription *sub;                 /* once it exists */
    struct client_account *counted; /* as broad, until the subscription is; NULL: it is not */
    struct tidings_str warning;     /* it is honoured, but may never be notified: why; or empty */
    bool refused, broad;
    bool is_open;        /* it names no resource: a pattern, a query, what is below a container */
    bool is_awaited;     /* it names an absent resource */
    bool needs_watch;    /* nothing registered matches: of its scopes, one must be watched */
    bool is_task;        /* of `taskIds`: its URI ends in the id */
    bool is_leaf;        /* a resource of that URI exists, and has no children */
    int64_t modified_ms; /* … its modification time; 0: not known */
};

struct subscribe_batch {
    struct subscription_group_pending pending; /* .listen is NULL once the client is gone */
    struct worker *worker;
    const struct principal *principal; /* a reference: who asks, also once the client is gone */
    struct arena arena;
    struct option_rules *rules;    /* a reference to what options may borrow from, or NULL */
    struct client_account *client; /* a reference; NULL: the program itself, which has no limits */
    subscription_filter_fn filter; /* in-process subscriptions */
    void *filter_user;
    /* Each item was refused or has its subscription. `at`: where the client stands. The listen may
     * be gone (pending.listen is NULL), and with it whoever owns that. May be NULL. */
    void (*done)(struct subscribe_batch *s, const struct log_cursor *at);
    void (*dropped)(struct subscribe_batch *s); /* instead: the server ends. May be NULL */
    void *user;
    const struct log_cursor *await; /* borrowed: what else its client has of other nodes … */
    size_t await_count;             /* … so many; 0: nothing */
    enum era era;                   /* of a subscriptions/listen: of its request */
    bool is_legacy;                 /* resources/subscribe: what the profile says of it holds */
    bool is_resumed; /* they exist already, at another node: told up to `since` of their options */
    bool wants_list; /* also watch every mount */
    bool withdrawn;  /* unsubscribed before it came to be */
    size_t unresolved;
    size_t compared; /* registered entries, with items */
    size_t count;
    struct subscribe_item items[];
};

struct subscribe_batch *subscribe_batch_create(struct subscription_group *group, size_t count);
void subscribe_batch_free(struct subscribe_batch *s);
/* Find out what each URI means, start its watches, make the subscriptions; then `done`, perhaps
 * before this returns, and the batch is gone. */
void subscribe_batch_resolve(struct subscribe_batch *s);

/* On whose behalf: broad items are counted per principal. false: out of memory. */
bool subscribe_batch_set_channel(struct subscribe_batch *s, struct channel *channel);
void subscribe_batch_set_client(struct subscribe_batch *s, struct client_account *client);

void subscribe_item_refuse(struct subscribe_item *w, int code, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

/* -------------------------------------------------------------------------------------------------
 * Lets a read wait for a cursor that its client names (`dev.tidings/atLeast`), so that a client
 * that wrote at one node, or was told of a change there, reads at least that at another: the read
 * begins when everything is known here that was committed when it came. At the node that made the
 * cursor that is so already; where nodes share a store, the store is asked.
 */

struct principal;
struct worker;

/* `done` is called once, on the worker's thread and perhaps before this returns,
 * or on whichever thread ends the hub. TIDINGS_E_INVALID: no cursor that `principal` was given, or
 * one that nothing is known of here. TIDINGS_E_BUSY: the store cannot be asked. TIDINGS_E_TIMEOUT:
 * not within HUB_AWAIT_MS. */
void at_least_await(struct worker *worker, const struct principal *principal,
                    struct tidings_str cursor,
                    void (*done)(void *user, int code, const struct tidings_error *err),
                    void *user);

/* -------------------------------------------------------------------------------------------------
 * Steps of subscribing that subscribe.c and subscribe_resolve.c share.
 */

struct hub_watch_request;

/* All items are resolved: start their watches, and go on. */
void subscribe_batch_watch(struct subscribe_batch *s);

/* Resources and templates with a watch hook that a pattern may cover are scopes of it too. */
void subscribe_item_add_hooked(struct subscribe_item *w);

/* Attributes the metadata of a change must have: type=error&level=high. Refuses what is malformed,
 * and what no change of `w->uri` and below can ever have. */
void subscribe_item_read_conditions(struct subscribe_item *w, struct tidings_str query);

/* Is the canonical `uri` one under which patches of another resource are told? Sets `subject`, or
 * refuses. */
void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri);
/* What can be said of its baseline once the kind is known; refuses. */
void subscribe_item_check_baseline(struct subscribe_item *w);
/* Ask the provider for the version it names: `done` comes later, perhaps after a refusal. false:
 * nothing to ask. */
bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w));
/* What the cursor of its options is to whoever gave it: perhaps unknown. */
void subscribe_item_open_since(struct subscribe_item *w, const struct principal *principal);
/* The number here that the cursor of its options stands for, `seq` being the newest; SINCE_UNKNOWN:
 * the client has to look again. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq);

#endif
