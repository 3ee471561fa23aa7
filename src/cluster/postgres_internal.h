/* SPDX-License-Identifier: MIT
 *
 * The state that the parts of the store in PostgreSQL share. Each part also has private state.
 */
#ifndef CLUSTER_POSTGRES_INTERNAL_H
#define CLUSTER_POSTGRES_INTERNAL_H

#include "base/str.h"
#include "cluster/follow.h"
#include "cluster/history.h"
#include "cluster/postgres.h"
#include "cluster/postgres_nodes.h"
#include "cluster/postgres_schema.h"
#include "cluster/postgres_store.h"
#include "store/entity_cache.h"
#include "store/store.h"

/* The one row of tidings_state. */
struct postgres_counters {
    uint64_t position;
    uint64_t floor;     /* changes up to this position may have been removed */
    uint64_t announced; /* the same, for announcements only */
    int64_t keys;       /* the number of the newest idempotency key */
    int64_t max_keys;   /* upper bound of their number */
};

#define POSTGRES_INCARNATION_MS 15000 /* life of a run before its node has a row */
#define POSTGRES_ANNOUNCED 65536u     /* announcements that are retained */

struct postgres_batch;   /* cluster/postgres_commit.c */
struct postgres_follow;  /* cluster/follow.c */
struct postgres_history; /* cluster/history.c */

struct postgres_store {
    struct store base;
    struct postgres *db;
    struct postgres_batch *batch;
    struct postgres_follow *follow;
    struct postgres_history *history;
    char *cluster;       /* its name */
    uint64_t cluster_id; /* 0: not known yet */
    uint64_t instance;   /* random: identifies this store among those of the same name */
    bool is_target;      /* target of a copy, which may be incomplete */
    /* Progress. */
    struct postgres_counters now; /* in the batch; outside: the newest known */
    uint64_t followed;
    int64_t now_ms;           /* when the batch began, by the clock of the database */
    struct store_clock clock; /* that of the database */
    /* The batch. */
    bool is_in_batch;
    bool is_durable;                 /* it has more than announcements */
    bool is_behind;                  /* it began with unfollowed changes of other nodes: no heads */
    bool has_keys;                   /* it has idempotency keys: … */
    int64_t newest_key_ms;           /* … when the newest was made … */
    unsigned char owner[32];         /* … and its owner, as a digest */
    unsigned n_removed, n_announced; /* since the oldest were removed */
    struct pg_result *next_page;     /* changes of other nodes, read with the lock; or NULL … */
    uint64_t next_after;             /* … after this position */
    /* Entities, as far as followed. */
    struct latest_versions latest; /* newest versions */
    struct entity_ids ids;         /* of entities that may exist */
    char *ids_after;               /* those up to it were read; NULL: none */
    /* The last result and the last encoded record. */
    struct pg_result *handed_out; /* has borrowed slices, or NULL */
    struct buf record;
    /* NOTIFY, on this connection. */
    bool has_notify; /* the engine supports it */
    bool has_scope;  /* of payloads; else notifications are only positions */
    struct notify_payload_scope scope;
    struct sealer sealer; /* of payloads */
};

struct postgres_store *postgres_store_of(struct store *store);
/* Frees the last result with borrowed slices, before the next query. */
void postgres_store_release(struct postgres_store *s);
/* Ensures a connection to the same database; else TIDINGS_E_BUSY, within `wait_ms` and the time of
 * its answers. Outside of batches. */
int postgres_store_ready(struct postgres_store *s, int wait_ms, struct tidings_error *err);
/* Returns true if the engine does not support, or does not permit, the statement that just failed
 * (history.c). */
bool postgres_store_is_unsupported(const struct postgres_store *s);
/* Sends a statement of a batch, without an answer. */
int postgres_store_send(struct postgres_store *s, enum postgres_statement which,
                        const struct postgres_values *values, struct tidings_error *err);
/* Sends a query and waits for its rows, inside or outside of batches. */
int postgres_store_ask(struct postgres_store *s, enum postgres_statement which,
                       const struct postgres_values *values, struct pg_result **ret,
                       struct tidings_error *err);
/* The same without parameters or with one number. */
int postgres_store_ask_int(struct postgres_store *s, enum postgres_statement which, int64_t n,
                           struct pg_result **ret, struct tidings_error *err);
/* Reads the results of PG_LOCK and PG_STATE (TIDINGS_E_INVALID: impossible values), and the clock
 * of the database, which was queried at that time (monotonic). */
int postgres_store_read_counters(struct postgres_store *s, struct pg_result *r,
                                 struct postgres_counters *ret, struct tidings_error *err);
int64_t postgres_store_hear_clock(struct postgres_store *s, struct pg_result *r, uint64_t asked_ms);
void postgres_store_digest(struct tidings_str text, unsigned char out[32]);

/* cluster/history.c: detects and records a data loss. */
int postgres_store_check_server(struct postgres_store *s, struct tidings_error *err);

/* cluster/postgres_commit.c: operations of struct store_ops. */
int postgres_store_begin(struct store *store, struct tidings_error *err);
int postgres_store_commit(struct store *store, struct tidings_error *err);
void postgres_store_rollback(struct store *store);
struct postgres_batch *postgres_batch_create(void); /* NULL: out of memory */
void postgres_batch_destroy(struct postgres_batch *b);
/* This connection is new: it has not had the lock yet. */
void postgres_batch_unsettle(struct postgres_store *s);
/* Adds a row with the parameters of PG_PUT or PG_ANNOUNCE. It is sent with other rows or
 * separately, but before all later statements. */
int postgres_store_add_version(struct postgres_store *s, const struct postgres_values *v,
                               struct tidings_error *err);
int postgres_store_add_announcement(struct postgres_store *s, const struct postgres_values *v,
                                    struct tidings_error *err);
/* Takes the lock if the batch does not have it yet. */
int postgres_store_send_pending(struct postgres_store *s, struct tidings_error *err);
/* cluster/postgres_commit.c: batches without the lock; of struct store_ops. */
bool postgres_store_begin_unlocked(struct store *store);
bool postgres_store_must_run_again(struct store *store);
/* Takes the lock for the rest of a batch without it. */
int postgres_store_take_lock(struct postgres_store *s, struct tidings_error *err);
/* postgres_store_ask in a batch, with the lock or without. */
int postgres_store_ask_in_batch(struct postgres_store *s, enum postgres_statement which,
                                const struct postgres_values *values, struct pg_result **ret,
                                struct tidings_error *err);
/* cluster/postgres_store.c: likewise; before a commit, removes excess keys. */
int postgres_store_bound_keys(struct postgres_store *s, struct tidings_error *err);
/* Writes that an entity left its URI. Uses the fields of TRANSFER_MOVED. */
int postgres_put_moved(struct postgres_store *s, const struct entity_version *version,
                       struct tidings_error *err);
/* `content` NULL: removed. */
int postgres_store_write_published(struct postgres_store *s, const struct published_row *row,
                                   const struct tidings_str *content, struct tidings_error *err);
/* Reads the columns of a version, starting with that one. The checksum reveals a damaged row. */
void postgres_read_version(struct pg_result *r, int row, int first, struct kept_record *ret);
void postgres_store_read_published(struct pg_result *r, int row, struct published_row *ret);
/* cluster/history.c: likewise. */
int postgres_store_create_changelog(struct store *store, const struct changelog_limits *limits,
                                    struct changelog **ret, struct tidings_error *err);
struct postgres_history *postgres_history_create(void); /* NULL: out of memory */
void postgres_history_destroy(struct postgres_history *h);
/* A run or a data loss was followed; or everything up to a position. */
int postgres_history_note(struct postgres_store *s, const struct log_entry *c,
                          struct tidings_error *err);
void postgres_history_follow(struct postgres_store *s, uint64_t position, bool is_durable);
/* Where the newest data loss began; 0: there was none. */
uint64_t postgres_history_broken(const struct postgres_store *s);
/* Returns true if other nodes marked the run of this node as ended. */
bool postgres_history_must_revive(const struct postgres_store *s);
uint64_t postgres_history_server(const struct postgres_store *s);
uint64_t postgres_history_run(const struct postgres_store *s); /* its epoch; 0: none */
/* Keeps the incarnation of the change log alive for that long; ends it. */
int postgres_store_keep_run(struct postgres_store *s, int64_t for_ms, struct tidings_error *err);
void postgres_store_end_run(struct postgres_store *s);
/* cluster/follow.c: likewise, and of struct store_ops. */
int postgres_store_each_change(struct store *store, size_t max, uint64_t *ret_floor,
                               log_entry_fn fn, void *user, struct tidings_error *err);
int postgres_store_follow(struct store *store, log_entry_fn fn, void *user,
                          struct tidings_error *err);
/* Puts the query for changes after `followed` into the pipeline. */
int postgres_store_send_page(struct postgres_store *s, struct tidings_error *err);
/* Everything up to there was followed, or written here. */
void postgres_store_note_followed(struct postgres_store *s, uint64_t position, bool is_durable);
/* cluster/follow.c */
struct postgres_follow *postgres_follow_create(void); /* NULL: out of memory */
void postgres_follow_destroy(struct postgres_follow *f);
/* The connection was lost; it was made, and listens if this node wants to. */
void postgres_follow_disconnected(struct postgres_store *s);
void postgres_follow_connected(struct postgres_store *s);
/* After a connect: determines where payloads are valid. */
int postgres_store_read_place(struct postgres_store *s, struct tidings_error *err);
/* cluster/postgres_commit.c. Inside a batch: adds the row at the newest position to the payload. A
 * position without a row makes the payload incomplete. */
void postgres_store_tell(struct postgres_store *s, const struct kept_record *r);
/* A version replaced another one, perhaps of this batch: the payload is incomplete. */
void postgres_store_tell_replaced(struct postgres_store *s);
/* Returns a record as bytes, valid until the next call. */
int postgres_store_encode(struct postgres_store *s, const struct kept_record *r,
                          struct tidings_str *ret, struct tidings_error *err);
/* Inside a batch: write a record at its position. */
int postgres_store_log(struct postgres_store *s, const struct kept_record *r,
                       struct tidings_error *err);
/* cluster/follow.c: operations of struct store_ops. */
void postgres_store_heard(struct store *store, struct notification_counts *ret);
uint64_t postgres_store_followed(struct store *store);
int postgres_store_descriptor(struct store *store);
int postgres_store_wake(struct store *store);
bool postgres_store_has_news(struct store *store);
/* cluster/postgres_copy.c */
extern const struct transfer_ops postgres_store_transfer;
/* cluster/postgres_nodes.c */
int postgres_store_announce(struct store *store, enum log_entry_kind kind,
                            const struct tidings_change *change, uint64_t *ret_position,
                            struct tidings_error *err);
void postgres_store_conceal(struct store *store);
const char *postgres_store_explain(struct store *store, const struct tidings_error *err);
int postgres_store_newest(struct store *store, uint64_t *ret, struct tidings_error *err);
int64_t postgres_store_now(struct store *store);
int postgres_store_secret(struct store *store, unsigned char out[32], struct tidings_error *err);

#endif
