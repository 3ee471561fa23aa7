/* SPDX-License-Identifier: MIT
 *
 * A change query, for a client that polls instead of subscribing: returns every change of some URIs
 * since a cursor; if there is none, waits for one.
 *
 * It is a subscription that lasts as long as the query. URIs mean the same, scopes are watched (so
 * that a provider finds earlier changes too), access is checked for each change, the same limits
 * apply. Results come from the log, in order and with one row per URI, so that a page may end
 * anywhere and no change falls between two queries; a live change only triggers another log query.
 *
 *     change_query_create -> change_query_start
 *         -> refused* accepted* exists* ... lost* row* ... done
 *
 * change_query_hurry ends the wait early; change_query_cancel ends the query without `done`.
 *
 * Everything runs on one worker's thread. A waiting query holds nothing but its subscriber.
 */
#ifndef ENGINE_DELIVERY_CHANGE_QUERY_H
#define ENGINE_DELIVERY_CHANGE_QUERY_H

#include <tidings/provider.h>

#include "engine/protocol/cursor.h"

struct request;
struct change;
struct change_query;

struct change_query_ops {
    /* This URI cannot be queried; the others are. */
    void (*refused)(void *user, struct tidings_str as_requested, const struct tidings_error *why);
    /* This URI is queried. `warning`: why it may never change, or empty. */
    void (*accepted)(void *user, struct tidings_str as_requested, struct tidings_str warning);
    /* The resource exists, has no children, and the client set `wants_existing`. `modified_ms` 0:
     * unknown. */
    void (*exists)(void *user, struct tidings_str uri, int64_t modified_ms);
    /* The log does not reach back for this URI: everything that it covers may have changed. */
    void (*lost)(void *user, struct tidings_str as_requested);
    /* The newest change of one resource, in ascending order. Returns false if the result is full;
     * the query ends before this row. */
    bool (*row)(void *user, const struct change *change, enum tidings_change_kind kind);
    /* The end; the query is freed. `cursor` NULL: no URI could be queried. `more`: the result was
     * full. Never called while the worker notifies its subscribers. */
    void (*done)(void *user, const struct log_cursor *cursor, bool more);
};

struct change_query_terms {
    const struct tidings_str *uris; /* copied; NULL: all resources */
    size_t count;
    struct tidings_str since; /* a cursor as shown to the client; empty: from now on */
    bool waits;               /* waits for a change to report; ignored if every URI has a warning */
    bool wants_existing;      /* without `since`: report resources that exist already */
};

/* Creates a query on behalf of `request`. Returns NULL and sets err: TIDINGS_E_INVALID (`since` is
 * not a cursor), _LIMIT (too many queries), _NOMEM. */
struct change_query *change_query_create(struct request *request,
                                         const struct change_query_terms *terms,
                                         struct tidings_error *err);
/* May call `done` before it returns. */
void change_query_start(struct change_query *query, const struct change_query_ops *ops, void *user);
/* Finishes as soon as the existing results are known, even if there are none. */
void change_query_hurry(struct change_query *query);
/* Cancels the query, whose result is no longer needed. Accepts NULL. */
void change_query_cancel(struct change_query *query);

#endif
