/* SPDX-License-Identifier: MIT
 *
 * Filters: decide whether a subscription receives a change that matches it, by access, the
 * conditions of a query, the excluded origin, its JSON Schema and the application's own function.
 * They run before the window, so that an excluded change merges with nothing and starts no period.
 *
 * A schema evaluates {"uri": …, "metadata": {…}} of a change. A schema that names them also sees
 * the time and the differences from the previous change of that resource that its subscription
 * received. Equal schemas are one filter: compiled once per worker, counted by its users, evaluated
 * once per change. Its cost is limited at compilation and at each evaluation, and is charged to a
 * client that may see the change (security/client_account.h). An aborted evaluation counts as a
 * match, so that nothing is lost; after FILTER_GIVE_UPS aborts for changes that it may see, a
 * subscription is suspended and its client is notified. When a client's budget is used up, changes
 * pass unfiltered.
 */
#ifndef ENGINE_DELIVERY_FILTERS_H
#define ENGINE_DELIVERY_FILTERS_H

#include "base/map.h"
#include "formats/json.h"

#define FILTERS_MAX 4096u      /* distinct ones on a worker */
#define FILTER_MAX_BYTES 8192u /* of its JSON text */
#define FILTER_GIVE_UPS 3u
/* Limits of the remembered changes, for filters that compare with an earlier change.
 * CLIENT_ACCOUNT_MAX_FILTER_PAST also applies per client (all clients together stay below the
 * worker's limit). Beyond any of these a change is not remembered, and the next one is evaluated
 * like the first of its resource.
 */
#define FILTER_PAST_URIS 1024u              /* per subscription */
#define FILTER_PAST_METADATA 2048u          /* bytes of metadata per change */
#define FILTERS_PAST_BYTES (32u * 1048576u) /* per worker */

struct client_account;
struct change;
struct filter;
struct principal;
struct subscription;

struct filters {
    struct map by_text;
    uint64_t decided;  /* evaluations of all filters */
    size_t past_bytes; /* of remembered changes, counted per subscription */
};

void filters_init(struct filters *all);
/* Filters in use stay until they are released. */
void filters_deinit(struct filters *all);

/* Gets a reference to the filter with that schema; a new filter is charged to `client`.
 * TIDINGS_E_LIMIT: too long, or too many filters; other errors describe what is wrong with the
 * schema and where. */
int filter_acquire(struct filters *all, struct json *schema, struct client_account *client,
                   struct filter **ret, struct tidings_error *err);
/* Only checks that filter_acquire would accept it, for configurations. */
int filter_check(struct json *schema, struct tidings_error *err);
void filter_release(struct filter *filter);                  /* accepts NULL */
struct tidings_str filter_text(const struct filter *filter); /* its schema, compact */

/* Returns true if the subscription excludes the change as its client's own. */
bool filters_is_own(const struct subscription *sub, const struct change *change);
/* Returns true if the principal may be notified of the change: never for a resource that is not
 * subscribable. Worker's thread. */
bool filters_allow(const struct principal *principal, const struct change *change);
/* Returns true if the principal may learn the other URI of a move. Worker's thread. */
bool filters_show_from(const struct principal *principal, const struct change *change);
/* Returns true if `sub` should receive the change. `alone` false: the change represents others of
 * which only the numbers are known, so only access can exclude it. */
bool filters_pass(struct subscription *sub, const struct change *change, bool alone);
/* The subscription ends: drops its remembered changes. */
void filters_forget(struct subscription *sub);

#endif
