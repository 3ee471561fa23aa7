/* SPDX-License-Identifier: MIT
 *
 * Whether a subscription hears of a change that matches it: access, the conditions of a query, the
 * origin it leaves out, its JSON Schema, the application's own function. Asked before the window,
 * so that what is filtered out merges with nothing and begins no period.
 *
 * A schema judges {"uri": …, "metadata": {…}} of a change; one that names them also the time and
 * what differs from the change of that resource that its subscription was told before. Equal texts
 * are one filter: compiled once on a worker, counted by those who use it, asked once per change.
 * What it may cost is bounded when it is compiled and each time it judges, and it judges at the
 * expense of a client that may hear of the change (security/client_account.h). A judgement that is
 * given up counts as a yes, so that nothing is lost; after FILTER_GIVE_UPS of changes that it may
 * hear of, a subscription is suspended and told so. When its client has nothing left, changes pass
 * unfiltered.
 */
#ifndef ENGINE_DELIVERY_FILTERS_H
#define ENGINE_DELIVERY_FILTERS_H

#include "base/map.h"
#include "formats/json.h"

#define FILTERS_MAX 4096u      /* distinct ones on a worker */
#define FILTER_MAX_BYTES 8192u /* of its text */
#define FILTER_GIVE_UPS 3u
/* What is remembered of the changes that were told, for filters that look back, besides
 * CLIENT_ACCOUNT_MAX_FILTER_PAST for a client (which together stay below what a worker has). Beyond
 * any of these a change is not remembered: the next one is judged like the first of its resource.
 */
#define FILTER_PAST_URIS 1024u              /* for a subscription */
#define FILTER_PAST_METADATA 2048u          /* bytes of metadata of one */
#define FILTERS_PAST_BYTES (32u * 1048576u) /* for a worker */

struct client_account;
struct change;
struct filter;
struct principal;
struct subscription;

struct filters {
    struct map by_text;
    uint64_t decided;  /* how often any of them was asked */
    size_t past_bytes; /* of changes that are remembered, counted for each subscription */
};

void filters_init(struct filters *all);
/* What is still in use stays until it is released. */
void filters_deinit(struct filters *all);

/* A reference to the filter with that schema; a new one counts for `client`. TIDINGS_E_LIMIT: too
 * long, or too many; else what is wrong with the schema, with the place in it. */
int filter_acquire(struct filters *all, struct json *schema, struct client_account *client,
                   struct filter **ret, struct tidings_error *err);
/* Only whether that would do, for configurations. */
int filter_check(struct json *schema, struct tidings_error *err);
void filter_release(struct filter *filter);                  /* NULL is fine */
struct tidings_str filter_text(const struct filter *filter); /* its schema, compact */

/* Is it one that the subscription leaves out, being its client's own? */
bool filters_is_own(const struct subscription *sub, const struct change *change);
/* Returns true if the principal may be notified of the change: never for a resource that is not
 * subscribable. Worker's thread. */
bool filters_allow(const struct principal *principal, const struct change *change);
/* Returns true if the principal may learn the other URI of a move. Worker's thread. */
bool filters_show_from(const struct principal *principal, const struct change *change);
/* May `sub` hear of it? `alone` false: the change stands for others of which only the numbers are
 * known, so nothing but access keeps it back. */
bool filters_pass(struct subscription *sub, const struct change *change, bool alone);
/* It ends: nothing is remembered for it any more. */
void filters_forget(struct subscription *sub);

#endif
