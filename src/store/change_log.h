/* SPDX-License-Identifier: MIT
 *
 * The change log: changes in order, kept for a while, so that a client that comes back with a
 * cursor is told what it missed.
 *
 * Each change of a resource gets the next sequence number of the current *epoch* (a number chosen
 * when the log is created). A cursor is `epoch.seq`.
 *
 * What a store keeps is *durable*: each of its changes has a *position* there, which rises for
 * ever. A log beside a store (store/change_log.h) begins with the number of the newest
 * position, so that up to `first` a number is a position, and holds what the store still knows.
 * Cursors are `epoch.seq.position` then: everything durable up to that position has been told. One
 * of an earlier epoch of the store, or of another node that shares it, goes on at its position;
 * nobody else's does.
 *
 * The log is compacted by URI: it holds the newest change of each URI, so catching up costs what
 * changed and not what happened. It is bounded (struct changelog_limits): when full, and when they
 * are too old, the oldest entries go and the floor rises: a cursor below the floor cannot be served
 * completely.
 *
 * One owner (the hub thread). Records are immutable and reference-counted across threads.
 */
#ifndef STORE_CHANGE_LOG_H
#define STORE_CHANGE_LOG_H

#include <tidings/provider.h>

struct change; /* store/change.h: immutable, reference-counted; the log keeps references */

struct changelog;
/* The newest change of one URI. `created_seq`: when the resource last came into being, as far as
 * known (0: before the log began); lets the caller merge created + updated = created.
 * `replaced_seq`: the number of the change this one took the place of (0: none), of which nothing
 * else is known any more. */
struct changelog_row {
    const struct change *change;
    uint64_t created_seq;
    uint64_t replaced_seq;
};
/* Called in ascending order of numbers. Return false to stop. */
typedef bool (*changelog_each_fn)(void *user, const struct changelog_row *row);

struct changelog_ops {
    const char *name;
    void (*destroy)(struct changelog *log);
    uint64_t (*epoch)(const struct changelog *log);
    /* The number this epoch began with: what is not durable has higher ones. 0 without a store. */
    uint64_t (*first)(const struct changelog *log);
    /* The number that a cursor of an earlier epoch stands for, as far as durable resources go: all
     * that changed since have higher ones. false: nothing is known of it, or the store has not
     * come that far (it is another one, or an older copy was put in its place). Not `is_durable`:
     * of what nodes that share a store announce through it (store/store.h). Any thread. */
    bool (*resume)(const struct changelog *log, uint64_t epoch, uint64_t position, bool is_durable,
                   uint64_t *ret);
    /* Has the store heard of that epoch, and that it came so far? Another node may have begun it,
     * or goes on with it, which this one has yet to follow. NULL: no others begin any. Any
     * thread. */
    bool (*knows)(const struct changelog *log, uint64_t epoch, uint64_t position);
    /* The highest sequence number given out; `first` in a new log. */
    uint64_t (*last)(const struct changelog *log);
    /* Every change with seq > floor is still represented. */
    uint64_t (*floor)(const struct changelog *log);
    /* Reserve the next number. */
    uint64_t (*next)(struct changelog *log);
    /* Keep a reference to `change`, whose seq came from `next`. An earlier change of the same URI
     * is replaced. TIDINGS_E_NOMEM: nothing kept, the floor rises to this seq (told, never silent).
     */
    int (*append)(struct changelog *log, const struct change *change);
    /* The change with that number could not be made: the floor rises to it. */
    void (*note_gap)(struct changelog *log, uint64_t seq);
    /* Every URI whose newest change has seq in (after, last]. Returns the number reported. */
    size_t (*each)(const struct changelog *log, uint64_t after, changelog_each_fn fn, void *user);
    size_t (*count)(const struct changelog *log);
    size_t (*bytes)(const struct changelog *log);
};

struct changelog {
    const struct changelog_ops *ops;
    bool is_durable; /* cursors carry positions */
};

struct changelog_limits {
    size_t max_entries;
    size_t max_bytes;
    uint64_t max_age_ms; /* 0: no limit */
};

/* In memory; epoch from the random source (never 0). */
struct changelog *changelog_memory_create(const struct changelog_limits *limits,
                                          struct tidings_error *err);
/* The same, beginning with that number: changes up to it may be appended without `next`. */
struct changelog *changelog_memory_create_at(const struct changelog_limits *limits, uint64_t first,
                                             struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * A change log beside a store: one in memory (store/change_log.h) that begins where the store
 * stood; the store decides about cursors of earlier epochs, or of other nodes.
 */

struct changelog_durable_ops {
    /* As `resume` of struct changelog_ops: any thread. */
    bool (*resume)(void *user, uint64_t epoch, uint64_t position, bool is_durable, uint64_t *ret);
    /* As `knows`; may be NULL: any thread. */
    bool (*knows)(void *user, uint64_t epoch, uint64_t position);
    /* A change was appended; may be NULL. On the thread of the log. */
    void (*appended)(void *user, const struct change *change);
    void (*destroy)(void *user); /* of `user` */
};

/* Takes `user` with a success. */
int changelog_durable_create(const struct changelog_limits *limits, uint64_t first,
                             const struct changelog_durable_ops *ops, void *user,
                             struct changelog **ret, struct tidings_error *err);

#endif
