/* SPDX-License-Identifier: MIT
 *
 * Rows of a PostgreSQL store that only a cluster uses: leases, nodes and sessions. They are not
 * operations of struct store (store/store.h); the store must be one of cluster/postgres_store.h.
 *
 * Call these functions on the commit thread, outside of batches. Each is a transaction. A function
 * fails with TIDINGS_E_BUSY if the database cannot be reached. Slices that a function returns are
 * valid until the next call on the store. All times are those of the database clock.
 */
#ifndef CLUSTER_POSTGRES_NODES_H
#define CLUSTER_POSTGRES_NODES_H

#include <tidings/types.h>

#include "store/store.h"

#define SHARED_NAME_MAX 128u            /* bytes of the name of a node, a lease or a holder */
#define SHARED_SESSION_MAX (256u << 10) /* bytes of the state of a session */

/* ---- leases ---------------------------------------------------------------------------------- */

/* Take or renew the lease `name` for `holder`, for `for_ms` from the call on. Returns 1 if the
 * holder has the lease, 0 if another one has it; *ret_left_ms (can be NULL) is the time that its
 * lease still lasts. */
int postgres_take_lease(struct store *store, struct tidings_str name, struct tidings_str holder,
                        int64_t for_ms, int64_t *ret_left_ms, struct tidings_error *err);
/* Give up the lease. Does nothing if `holder` does not have it. */
int postgres_release_lease(struct store *store, struct tidings_str name, struct tidings_str holder,
                           struct tidings_error *err);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A node of the cluster, as the other nodes see it. */
struct node_row {
    struct tidings_str name;    /* unique among live nodes */
    struct tidings_str version; /* of the program */
    struct tidings_str state;   /* JSON text: addresses, counts, lag; at most 4 KiB */
    uint64_t epoch;             /* of its change log: its run */
    uint64_t followed;          /* the newest position that it has read */
    int64_t begun_ms;           /* Unix time */
    int64_t left_ms;            /* until it counts as dead; below 0: since then */
    /* Age of the oldest change that the node had not followed when it wrote its row (0: it had
     * followed all; -1: not stated), and age now of the oldest change after `followed`. */
    int64_t behind_ms, behind_now_ms;
};
/* Return false to stop. */
typedef bool (*node_row_fn)(void *user, const struct node_row *row);

/* Declare this node alive for `for_ms`. Only `name`, `version`, `state` and `followed` of the row
 * are read. TIDINGS_E_EXISTS: another live node has the name. */
int postgres_put_node(struct store *store, const struct node_row *row, int64_t for_ms,
                      struct tidings_error *err);
/* Remove the row of this node. */
int postgres_drop_node(struct store *store, struct tidings_str name, struct tidings_error *err);
/* All nodes by name. Nodes that died more than a day ago are removed. */
int postgres_each_node(struct store *store, node_row_fn fn, void *user, struct tidings_error *err);

/* ---- sessions -------------------------------------------------------------------------------- */

/* A session of the legacy era. */
struct session_row {
    struct tidings_str id;
    struct tidings_str node;  /* its owner */
    struct tidings_str state; /* JSON text */
    uint64_t generation;      /* number of times that a node took it; the column `turn` */
    int64_t used_ms;          /* Unix time */
};

/* Write a session; generation 0 adds it. TIDINGS_E_CONFLICT: another node has taken it. */
int postgres_put_session(struct store *store, const struct session_row *row,
                         struct tidings_error *err);
/* Make `node` the owner. The previous owner follows a LOG_ENTRY_SESSION. Returns 0 if the session
 * does not exist, else 1. */
int postgres_take_session(struct store *store, struct tidings_str id, struct tidings_str node,
                          struct session_row *ret, struct tidings_error *err);
int postgres_drop_session(struct store *store, struct tidings_str id, struct tidings_error *err);
/* Remove sessions that were not used for `idle_ms`. */
int postgres_age_sessions(struct store *store, int64_t idle_ms, struct tidings_error *err);

/* ---- the clock of the database ------------------------------------------------------------------
 *
 * A node estimates it from the last answer of the database and its own monotonic clock. Entities
 * therefore get times of one clock on all nodes, and a node with a wrong clock logs a warning. */

#define STORE_CLOCK_OFF_MS 5000 /* clocks may differ by that much without a warning */

/* Zero: unknown. */
struct store_clock {
    int64_t at_ms;        /* Unix time of the database … */
    uint64_t received_ms; /* … at this time of the monotonic clock … */
    uint64_t within_ms;   /* … plus or minus this error */
    bool is_known;
};

/* Note an answer: the database clock was at `at_ms` between two monotonic times. A slow answer is
 * ignored if a recent one is more exact. */
void store_clock_update(struct store_clock *c, int64_t at_ms, uint64_t asked_ms,
                        uint64_t received_ms);
/* Possibly another clock from now on: accept any next answer. */
void store_clock_doubt(struct store_clock *c);
/* Unix time of the database; `wall_ms` if it is unknown. */
int64_t store_clock_now(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms);
/* Difference of `wall_ms` to that time (below 0: `wall_ms` is behind). 0: at most
 * STORE_CLOCK_OFF_MS, or possibly only an error of the estimate. */
int64_t store_clock_off(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms);
/* The same for the clock of this node and this store. */
int64_t postgres_clock_off(struct store *store);

#endif
