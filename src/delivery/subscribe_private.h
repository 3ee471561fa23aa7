/* SPDX-License-Identifier: MIT
 *
 * Steps of subscribing that the files subscribe*.c share: subscribe_resolve.c (what a URI means),
 * subscribe_query.c (which metadata a query asks for), subscribe_baseline.c (where patches begin),
 * subscribe_cursor.c (what a cursor stands for), subscribe_limits.c (what it may cost),
 * subscribe_hooks.c (what hooks watch), subscribe_reach.c (whether anything can match) and
 * subscribe.c (arming, making the subscriptions).
 */
#ifndef DELIVERY_SUBSCRIBE_PRIVATE_H
#define DELIVERY_SUBSCRIBE_PRIVATE_H

#include "delivery/subscribe.h"

struct hub_arm;

/* All items are resolved: arm their watches, and go on. */
void subscribe_batch_arm(struct subscribe_batch *s);

/* Is it refused, perhaps because there are too many, or its client has no steps left for a regex?
 * If not, its subscriber holds the share that subscribe_item_make_sub takes. */
bool subscribe_item_is_too_many(struct subscribe_batch *s, struct subscribe_item *w);
/* Its subscription; a regex is compiled at the expense of its client. */
struct subscription *subscribe_item_make_sub(struct subscribe_batch *s,
                                             const struct subscribe_item *w, uint64_t since,
                                             struct tidings_error *err);
/* Broad items count for their client until they end; beyond what it may have they are refused. */
void subscribe_batch_count_broad(struct subscribe_batch *s);
/* Before anything is armed, so that a bad filter costs nobody else anything. */
void subscribe_batch_compile_filters(struct subscribe_batch *s);

/* Resources and templates with a watch hook that a pattern may cover are scopes of it too. */
void subscribe_item_add_hooked(struct subscribe_item *w);

/* Refuses what can never be notified, or sets `warning` and `needs_watch`. */
void subscribe_item_judge_reach(struct subscribe_item *w);
/* False: nothing below that mount can match. */
bool subscribe_item_meets_mount(const struct subscribe_item *w, const struct tidings_provider *p);
/* Refuses what cannot be subscribed to. */
void subscribe_item_refuse_mute(struct subscribe_item *w);
struct tidings_str subscribe_scheme(struct tidings_str uri);

/* Attributes the metadata of a change must have: type=error&level=high. Refuses what is malformed,
 * and what no change of `w->uri` and below can ever have. */
void subscribe_item_read_conditions(struct subscribe_item *w, struct tidings_str query);

/* Is the canonical `uri` one under which patches of another resource are told? Sets `subject`, or
 * refuses. */
void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri);
/* What can be said of its baseline once the kind is known; refuses. */
void subscribe_item_judge_baseline(struct subscribe_item *w);
/* Ask the provider for the version it names: `done` comes later, perhaps after a refusal. false:
 * nothing to ask. */
bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w));
/* Where its patches begin. NULL: out of memory. */
struct chain *subscribe_item_begin_chain(const struct subscribe_item *w);
/* What has to be known here before their cursors are looked at. */
void subscribe_batch_await(const struct subscribe_batch *s, struct hub_arm *arm);
/* What the cursor of its options is to whoever gave it: perhaps unknown. */
void subscribe_item_open_since(struct subscribe_item *w, const struct principal *principal);
/* The number here that the cursor of its options stands for, `seq` being the newest; SINCE_UNKNOWN:
 * the client has to look again. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq);

#endif
