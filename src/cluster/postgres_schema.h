/* SPDX-License-Identifier: MIT
 *
 * The tables of the store in PostgreSQL, and every statement that is prepared. The SQL is in
 * postgres_schema.c.
 */
#ifndef CLUSTER_POSTGRES_SCHEMA_H
#define CLUSTER_POSTGRES_SCHEMA_H

#include "cluster/postgres.h"

struct postgres_store;

enum postgres_statement {
    PG_BEGIN,
    PG_LOCK,
    PG_COMMIT,
    PG_ROLLBACK,
    PG_LAZY,
    PG_SET_STATE,
    PG_SET_STATE_AND_BATCH_ID,
    PG_NOTIFY,
    PG_NOTIFY_IF,
    PG_COMMIT_PUT,
    PG_COMMIT_PUT_MANY,
    PG_COMMIT_ANNOUNCE,
    PG_COMMIT_ANNOUNCE_MANY,
    PG_COMMIT_NOTHING,
    PG_SCOPE,
    PG_CLUSTER,
    PG_STATE,
    PG_SERVER,
    PG_LOG,
    PG_UNLOG,
    PG_PUT,
    PG_PUT_MANY,
    PG_PUT_REPLACING,
    PG_FORGET,
    PG_FIND,
    PG_FIND_AT,
    PG_NTH,
    PG_HISTORY,
    PG_IDS,
    PG_LIST_ALL, /* the next six: in this order */
    PG_LIST_TYPE,
    PG_LIST_VERSION,
    PG_LIST_PARENT,
    PG_LIST_TYPE_PARENT,
    PG_LIST_VERSION_PARENT,
    PG_PUT_TYPE,
    PG_TYPES,
    PG_PUT_KEY,
    PG_FIND_KEY,
    PG_DROP_AGED_KEYS,
    PG_DROP_OLDER_KEYS,
    PG_KEY_COUNT,
    PG_MOST_KEYS,
    PG_PUBLISH,
    PG_OLD_REMOVED,
    PG_FORGET_REMOVED,
    PG_PUBLISHED,
    PG_PUBLISHED_ONE,
    PG_FOLLOW,
    PG_FLOOR,
    PG_ANNOUNCE,
    PG_ANNOUNCE_MANY,
    PG_OLD_ANNOUNCED,
    PG_FORGET_ANNOUNCED,
    PG_DATA_LOSSES,
    PG_ADD_DATA_LOSS,
    PG_DROP_DATA_LOSSES,
    PG_SET_CRASH_MARK,
    PG_SET_SERVER,
    PG_INCARNATIONS,
    PG_DEAD_RUNS,
    PG_END_DEAD_RUN,
    PG_ADD_INCARNATION,
    PG_KEEP_INCARNATION,
    PG_REVIVE_INCARNATION,
    PG_END_INCARNATION,
    PG_DROP_INCARNATIONS,
    PG_LEASE,
    PG_LEASE_OF,
    PG_RELEASE,
    PG_PUT_NODE,
    PG_DROP_NODE,
    PG_NODES,
    PG_OLDER_NODE,
    PG_LOCK_HOLDER,
    PG_AGE_NODES,
    PG_ADD_SESSION,
    PG_PUT_SESSION,
    PG_TAKE_SESSION,
    PG_DROP_SESSION,
    PG_AGE_SESSIONS,
    PG_SECRET,
    PG_TASK_ROOM,
    PG_PUT_TASK,
    PG_FIND_TASK,
    PG_TASKS,
    PG_TASK_ANSWERS,
    PG_SWEEP_TASKS,
    PG_STALE_TASKS,
    PG_OLD_TASKS,
    PG_LOST_TASKS,
    PG_LIVE_NODE,
    PG_TRANSFER_TYPES,
    PG_TRANSFER_VERSIONS,
    PG_TRANSFER_MOVED,
    PG_TRANSFER_PUBLISHED,
    PG_TRANSFER_INCARNATIONS,
    PG_TRANSFER_FIND,
    PG_TRANSFER_BEGIN,
    PG_TRANSFER_PUT_INCARNATION,
    PG_TRANSFER_MARK,
    PG_STATEMENTS,
};
_Static_assert(PG_STATEMENTS <= POSTGRES_MAX_STATEMENTS, "room for each");
extern const char *const postgres_statements[PG_STATEMENTS];

struct postgres_layout {
    int64_t made;             /* layout that this program creates */
    int64_t oldest;           /* oldest layout whose programs can run beside it */
    const char *const *steps; /* `made` of them: from no tables to 1, from 1 to 2, … */
};
extern const struct postgres_layout postgres_layout;
/* Makes the tables or brings them up to date, and finds out which cluster it is. */
int postgres_store_lay_out(struct postgres_store *s, const struct postgres_layout *l,
                           struct tidings_error *err);

#endif
