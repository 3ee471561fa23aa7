/* SPDX-License-Identifier: MIT
 *
 * Subscribing: turns the URIs of a client into subscriptions. It resolves each URI (a resource, a
 * container, a query, a template, a glob, a regex: subscribe_resolve.c), starts its watches at the
 * hub, puts the subscription into the index, and only then notifies the client.
 *
 * A batch is one subscribe request under way. It may outlive its group (if the client disconnects);
 * its watches are then released.
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
    struct tidings_str as_requested; /* as the client wrote it; all strings are in the arena */
    struct tidings_str uri;          /* canonical, or the pattern for the index */
    struct tidings_str subject; /* the resource that its patches are of, if another; or empty */
    struct options options;
    unsigned matches;      /* 1u << enum option_match: the kinds it may turn out to be */
    struct json *kept;     /* a reference to the memory that the options borrow, or NULL */
    struct filter *filter; /* of the options, once all are resolved; a reference */
    enum pattern_kind kind;
    struct tidings_str *scopes; /* to watch */
    size_t scope_count;
    struct tidings_str *hooked; /* the memory of `scopes`, or NULL: the arena */
    size_t first_item;          /* index of its first scope in the request */
    struct subscription_condition *conditions;
    size_t condition_count;
    struct tidings_provider *covers_provider; /* has its own `covers` relation */
    struct tidings_stat stat;                 /* its err is the reason for the rejection */
    struct subscription *sub;                 /* once it exists */
    struct client_account *counted; /* as broad, until the subscription is; NULL: not counted */
    struct tidings_str warning;     /* why an accepted item may never notify; or empty */
    bool refused, broad;
    bool is_open;        /* a pattern, a query or the contents of a container */
    bool is_awaited;     /* it names an absent resource */
    bool needs_watch;    /* no registered entry matches: one of its scopes must be watched */
    bool is_task;        /* of `taskIds`: its URI ends in the id */
    bool is_leaf;        /* the resource exists and has no children */
    int64_t modified_ms; /* … its modification time; 0: unknown */
};

struct subscribe_batch {
    struct subscription_group_pending pending; /* .listen is NULL once the client is gone */
    struct worker *worker;
    const struct principal *principal; /* a reference: the client's, even after it disconnects */
    struct arena arena;
    struct option_rules *rules;    /* a reference to memory that options may borrow, or NULL */
    struct client_account *client; /* a reference; NULL: the program itself, which has no limits */
    subscription_filter_fn filter; /* in-process subscriptions */
    void *filter_user;
    /* Each item was rejected or has its subscription. `at`: the client's position. The group and
     * its owner may be gone (pending.listen is NULL). May be NULL. */
    void (*done)(struct subscribe_batch *s, const struct log_cursor *at);
    void (*dropped)(struct subscribe_batch *s); /* instead, if the server stops; may be NULL */
    void *user;
    const struct log_cursor *await; /* borrowed: its other positions of other nodes … */
    size_t await_count;             /* … their number */
    enum era era;                   /* of a subscriptions/listen: of its request */
    bool is_legacy;                 /* resources/subscribe: the profile's legacy rules apply */
    bool is_resumed; /* moved from another node, up to date to `since` of their options */
    bool wants_list; /* watch every mount too */
    bool withdrawn;  /* unsubscribed before it was complete */
    size_t unresolved;
    size_t compared; /* registered entries, with items */
    size_t count;
    struct subscribe_item items[];
};

struct subscribe_batch *subscribe_batch_create(struct subscription_group *group, size_t count);
void subscribe_batch_free(struct subscribe_batch *s);
/* Resolves each URI, starts its watches, creates the subscriptions; then calls `done`, perhaps
 * before this returns, and frees the batch. */
void subscribe_batch_resolve(struct subscribe_batch *s);

/* Sets the client: broad items are counted per principal. Returns false when out of memory. */
bool subscribe_batch_set_channel(struct subscribe_batch *s, struct channel *channel);
void subscribe_batch_set_client(struct subscribe_batch *s, struct client_account *client);

void subscribe_item_refuse(struct subscribe_item *w, int code, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

/* -------------------------------------------------------------------------------------------------
 * Makes a read wait for the client's cursor (`dev.tidings/atLeast`), so that a client that wrote at
 * one node, or received a change there, reads at least that state at another node. The read starts
 * when this node knows everything that was committed before the request arrived. The node that
 * issued the cursor is always up to date; with a shared store, the node queries the store.
 */

struct principal;
struct worker;

/* `done` is called once, on the worker's thread and perhaps before this returns, or on the thread
 * that ends the hub. TIDINGS_E_INVALID: the cursor was not issued to `principal`, or is unknown
 * here. TIDINGS_E_BUSY: the store is unreachable. TIDINGS_E_TIMEOUT: not within HUB_AWAIT_MS. */
void at_least_await(struct worker *worker, const struct principal *principal,
                    struct tidings_str cursor,
                    void (*done)(void *user, int code, const struct tidings_error *err),
                    void *user);

/* -------------------------------------------------------------------------------------------------
 * Steps of subscribing that subscribe.c and subscribe_resolve.c share.
 */

struct hub_watch_request;

/* All items are resolved: starts their watches and continues. */
void subscribe_batch_watch(struct subscribe_batch *s);

/* Resources and templates with a watch hook that a pattern may cover become scopes of it too. */
void subscribe_item_add_hooked(struct subscribe_item *w);

/* Reads the attributes that the metadata of a change must have: type=error&level=high. Rejects a
 * malformed query, and conditions that no change of `w->uri` or below can satisfy. */
void subscribe_item_read_conditions(struct subscribe_item *w, struct tidings_str query);

/* If the canonical `uri` is one that carries patches of another resource, sets `subject` or rejects
 * the item. */
void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri);
/* Checks its baseline as far as the kind allows; may reject the item. */
void subscribe_item_check_baseline(struct subscribe_item *w);
/* Asks the provider for the version it names: `done` is called later, perhaps after a rejection.
 * Returns false if there is no version to ask for. */
bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w));
/* Decodes the cursor of its options as issued to `principal`; it may be unknown. */
void subscribe_item_open_since(struct subscribe_item *w, const struct principal *principal);
/* Returns the local number of the cursor of its options, `seq` being the newest; SINCE_UNKNOWN: the
 * client has to read again. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq);

#endif
