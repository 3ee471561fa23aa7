/* SPDX-License-Identifier: MIT
 *
 * The change log: changes in order, retained for a while, so that a client that resumes with a
 * cursor receives the changes it missed.
 *
 * Each change of a resource gets the next sequence number of the current *epoch* (a number chosen
 * when the log is created). A cursor is `epoch.seq`.
 *
 * Changes that a store keeps are *durable*: each has a *position* in the store, and positions only
 * increase. A log with a store (end of this file) starts at the number of the newest position, so
 * that numbers up to `first` are positions, and contains the changes that the store still has.
 * Cursors are then `epoch.seq.position`: the client has received everything durable up to that
 * position. A cursor of an earlier epoch of the store, or of another node that shares it, resumes
 * at its position; other cursors cannot.
 *
 * The log is compacted by URI: it keeps the newest change of each URI, so the cost of catching up
 * depends on the number of changed resources, not of changes. It is bounded (struct
 * changelog_limits): when it is full or entries are too old, it drops the oldest ones and the floor
 * rises. A cursor below the floor cannot be served completely.
 *
 * One owner (the hub thread). Records are immutable and reference counted across threads.
 */
#ifndef STORE_CHANGE_LOG_H
#define STORE_CHANGE_LOG_H

#include <tidings/provider.h>

struct change; /* store/change.h: immutable, reference counted; the log keeps references */

struct changelog;
/* The newest change of one URI. `created_seq`: when the resource was last created, as far as known
 * (0: before the log began); lets the caller merge created + updated = created. `replaced_seq`: the
 * number of the change that this one replaced (0: none); nothing else is kept of that one. */
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
    /* The number at the start of this epoch: changes that are not durable have higher ones. 0
     * without a store. */
    uint64_t (*first)(const struct changelog *log);
    /* Translates a cursor of an earlier epoch to a number, for durable resources: all later changes
     * have higher numbers. false: the epoch is unknown, or the store has not reached the position
     * (it is another store, or was replaced by an older copy). Without `is_durable`: for changes
     * that nodes with a shared store announce through it (store/store.h). Any thread. */
    bool (*resume)(const struct changelog *log, uint64_t epoch, uint64_t position, bool is_durable,
                   uint64_t *ret);
    /* Returns true if the store knows that epoch and that it reached the position. Another node may
     * have started or continued it, and this node may not have followed yet. NULL: no other node
     * starts epochs. Any thread. */
    bool (*knows)(const struct changelog *log, uint64_t epoch, uint64_t position);
    /* The highest allocated sequence number; `first` in a new log. */
    uint64_t (*last)(const struct changelog *log);
    /* Every change with seq > floor is still represented. */
    uint64_t (*floor)(const struct changelog *log);
    /* Allocates the next number. */
    uint64_t (*next)(struct changelog *log);
    /* Keeps a reference to `change`, whose seq came from `next`. Replaces an earlier change of the
     * same URI. TIDINGS_E_NOMEM: nothing kept, the floor rises to this seq (so clients are notified
     * of the gap). */
    int (*append)(struct changelog *log, const struct change *change);
    /* The change with that number could not be created: the floor rises to it. */
    void (*note_gap)(struct changelog *log, uint64_t seq);
    /* Calls `fn` for every URI whose newest change has seq in (after, last]. Returns the number
     * reported. */
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

/* In memory; the epoch comes from the random source (never 0). */
struct changelog *changelog_memory_create(const struct changelog_limits *limits,
                                          struct tidings_error *err);
/* The same, starting at that number: changes up to it may be appended without `next`. */
struct changelog *changelog_memory_create_at(const struct changelog_limits *limits, uint64_t first,
                                             struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * A change log with a store: a log in memory that starts at the position of the store; the store
 * handles cursors of earlier epochs and other nodes.
 */

struct changelog_durable_ops {
    /* Like `resume` of struct changelog_ops: any thread. */
    bool (*resume)(void *user, uint64_t epoch, uint64_t position, bool is_durable, uint64_t *ret);
    /* Like `knows`; may be NULL: any thread. */
    bool (*knows)(void *user, uint64_t epoch, uint64_t position);
    /* Called after each append; may be NULL. On the thread of the log. */
    void (*appended)(void *user, const struct change *change);
    void (*destroy)(void *user); /* destroys `user` */
};

/* Takes ownership of `user` on success. */
int changelog_durable_create(const struct changelog_limits *limits, uint64_t first,
                             const struct changelog_durable_ops *ops, void *user,
                             struct changelog **ret, struct tidings_error *err);

#endif
