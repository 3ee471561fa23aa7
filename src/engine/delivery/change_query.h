/* SPDX-License-Identifier: MIT
 *
 * A query of what changed, for a client that asks instead of subscribing: everything that changed
 * among some URIs since a cursor; and, if nothing has, waiting for it.
 *
 * It is a subscription that lasts as long as the question: URIs mean what they mean there, watches
 * are watched (so that a provider notices what changed while nobody watched), access is asked for
 * each change, the same limits hold. What is told comes from the log, in order and one row for each
 * URI, so that a page may end anywhere and nothing falls between two queries; a live change only
 * makes it ask the log again.
 *
 *     change_query_create -> change_query_start
 *         -> refused* accepted* exists* ... lost* row* ... done
 *
 * Meanwhile change_query_hurry ends the waiting, and change_query_cancel all of it, without `done`.
 *
 * All of it on one worker's thread. It holds nothing but its subscriber while it waits.
 */
#ifndef ENGINE_DELIVERY_CHANGE_QUERY_H
#define ENGINE_DELIVERY_CHANGE_QUERY_H

#include <tidings/provider.h>

#include "engine/protocol/cursor.h"

struct request;
struct change;
struct change_query;

struct change_query_ops {
    /* This URI cannot be looked at; the others are. */
    void (*refused)(void *user, struct tidings_str as_requested, const struct tidings_error *why);
    /* This URI is looked at. `warning`: why it may never change, or empty. */
    void (*accepted)(void *user, struct tidings_str as_requested, struct tidings_str warning);
    /* There is such a resource, without children, and the client asked for `wants_existing`.
     * `modified_ms` 0: not known. */
    void (*exists)(void *user, struct tidings_str uri, int64_t modified_ms);
    /* History does not reach back for this one: whatever it covers may have changed. */
    void (*lost)(void *user, struct tidings_str as_requested);
    /* The newest change of one resource, in ascending order. false: there is no room for it; the
     * query ends before it. */
    bool (*row)(void *user, const struct change *change, enum tidings_change_kind kind);
    /* The end; the query is gone. `cursor` NULL: nothing could be looked at. `more`: there was no
     * room for all of it. Never while the worker tells its subscribers. */
    void (*done)(void *user, const struct log_cursor *cursor, bool more);
};

struct change_query_terms {
    const struct tidings_str *uris; /* copied; NULL: everything there is */
    size_t count;
    struct tidings_str since; /* a cursor as the client was shown it; empty: from now on */
    bool waits;               /* do not end before there is a change to report; of no effect if
                               * every URI has a warning */
    bool wants_existing;      /* without `since`: report resources that exist already */
};

/* Creates a query on behalf of `request`. NULL with err: TIDINGS_E_INVALID (`since` is not a
 * cursor), _LIMIT (too many queries), _NOMEM. */
struct change_query *change_query_create(struct request *request,
                                         const struct change_query_terms *terms,
                                         struct tidings_error *err);
/* `done` may come before this returns. */
void change_query_start(struct change_query *query, const struct change_query_ops *ops, void *user);
/* Be done as soon as it is known what there is, also when that is nothing. */
void change_query_hurry(struct change_query *query);
/* Nobody wants to know any more; NULL is fine. */
void change_query_cancel(struct change_query *query);

#endif
