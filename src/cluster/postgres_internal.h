/* SPDX-License-Identifier: MIT
 *
 * What the parts of the store in PostgreSQL share. The SQL is in cluster/postgres_schema.c,
 * the tables in cluster/postgres_schema.c.
 */
#ifndef CLUSTER_POSTGRES_INTERNAL_H
#define CLUSTER_POSTGRES_INTERNAL_H

#include "base/str.h"
#include "cluster/follow.h"
#include "cluster/history.h"
#include "cluster/postgres.h"
#include "cluster/postgres_nodes.h"
#include "cluster/postgres_store.h"
#include "store/entity_cache.h"
#include "store/store.h"

enum postgres_statement {
    PG_BEGIN,
    PG_LOCK,
    PG_COMMIT,
    PG_ROLLBACK,
    PG_LAZY,
    PG_SET_STATE,
    PG_SET_STATE_MARKED,
    PG_NOTIFY,
    PG_NOTIFY_IF,
    PG_COMMIT_PUT,
    PG_COMMIT_PUT_MANY,
    PG_COMMIT_ANNOUNCE,
    PG_COMMIT_ANNOUNCE_MANY,
    PG_COMMIT_NOTHING,
    PG_PLACE,
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
    PG_LIST_ALL, /* the next six: this order is used */
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
    PG_BREAKS,
    PG_ADD_BREAK,
    PG_DROP_BREAKS,
    PG_SET_MARK,
    PG_SET_SERVER,
    PG_RUNS,
    PG_DEAD_RUNS,
    PG_END_DEAD_RUN,
    PG_ADD_RUN,
    PG_KEEP_RUN,
    PG_REVIVE_RUN,
    PG_END_RUN,
    PG_DROP_RUNS,
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
    PG_TRANSFER_RUNS,
    PG_TRANSFER_FIND,
    PG_TRANSFER_BEGIN,
    PG_TRANSFER_PUT_RUN,
    PG_TRANSFER_MARK,
    PG_STATEMENTS,
};
_Static_assert(PG_STATEMENTS <= POSTGRES_MAX_STATEMENTS, "room for each");
/* cluster/postgres_schema.c */
extern const char *const postgres_statements[PG_STATEMENTS];

/* The one row of tidings_state. */
struct postgres_counters {
    uint64_t position;
    uint64_t floor;     /* what happened up to this one may be forgotten */
    uint64_t announced; /* the same, of what was announced alone */
    int64_t keys;       /* the number of the newest idempotency key */
    int64_t max_keys;   /* not more than these */
};

#define POSTGRES_RUN_MS 15000     /* that a run counts as alive before its node is written */
#define POSTGRES_ANNOUNCED 65536u /* announcements that are remembered */

/* What the change log and who follows share. */
struct postgres_log {
    struct runs *runs;
    uint64_t first;
    unsigned refs;
};

/* Rows of the batch that have yet to be sent, of versions (at most one of an entity) or of
 * announcements: one statement for all of them costs the database a fraction of one for each. */
#define POSTGRES_PENDING_MAX 64u
#define POSTGRES_PENDING_BYTES (64u << 10) /* what is larger by itself does not wait */
#define POSTGRES_PENDING_COLUMNS 11
struct postgres_pending_table {
    int columns;
    enum postgres_element kinds[POSTGRES_PENDING_COLUMNS];
    enum postgres_statement put[2];    /* one row; many */
    enum postgres_statement commit[2]; /* the same with the commit: and then the position it takes,
                                        * the one before, and the mark */
};
struct postgres_pending {
    const struct postgres_pending_table *table;
    struct postgres_array columns[POSTGRES_PENDING_COLUMNS]; /* as PG_PUT, PG_ANNOUNCE have them */
    uint64_t ids[POSTGRES_PENDING_MAX];                      /* hashes */
    unsigned count;
    size_t bytes;
};

struct postgres_store {
    struct store base;
    struct postgres *db;
    struct pg_result *next_page; /* of what others wrote, read with the lock; or NULL … */
    uint64_t next_after;         /* … after this position */
    uint64_t notified;           /* a position that others have come to */
    struct row_notice notice;    /* of the batch */
    struct buf record;           /* the newest that was encoded */
    struct heard heard;
    struct shared_heard heard_so_far; /* atomic */
    struct seal_key notice_key;
    struct sealer sealer; /* of notices */
    struct row_notice_place place;
    uint64_t server;                 /* that server and its timeline */
    uint64_t say_refused_ms;         /* not before: monotonic */
    struct pg_result *handed_out;    /* has slices out, or NULL */
    struct postgres_pending pending; /* versions */
    struct postgres_pending announcing;
    struct heads heads;                   /* newest versions of before `followed` */
    struct entity_ids ids;                /* that there may be, as far as followed */
    char *ids_after;                      /* those up to it were read; NULL: none */
    char *cluster;                        /* its name */
    uint64_t cluster_id;                  /* 0: not known yet */
    struct postgres_counters now, before; /* of the batch; outside: the newest that is known */
    uint64_t followed;
    uint64_t doubted;
    struct postgres_log *log;        /* NULL: there is no change log yet */
    uint64_t run;                    /* its epoch; 0: none */
    bool is_run_ended;               /* others took it for ended, and it goes on: they must know */
    uint64_t instance;               /* random: this store and no other of the same name */
    int64_t now_ms;                  /* when the batch began, by the clock of the database */
    struct store_clock clock;        /* that of the database */
    int64_t newest_key_ms;           /* when the newest key of the batch was made */
    unsigned n_removed, n_announced; /* since the oldest were forgotten */
    unsigned char owner[32];         /* of the newest key of the batch, as its digest */
    bool is_in_batch;
    bool is_unlocked;  /* the batch has no lock, and nothing of it was sent … */
    bool is_settled;   /* … which may be: this connection has had the lock once */
    bool is_overtaken; /* others committed meanwhile: it has to be run again, with the lock … */
    bool is_in_doubt;  /* … which finds out whether it was committed: then the store is not at
                        * `doubted` any more */
    unsigned locked_left;  /* batches that take the lock before one tries without … */
    unsigned locked_after; /* … the next time that one was overtaken */
    bool is_target;        /* of a copy, which may be half done */
    bool is_durable;       /* something in the batch is more than an announcement */
    bool has_keys;         /* in the batch; `owner` counts */
    bool is_behind;   /* the batch began with others' changes that were not followed: no heads */
    bool reads_ahead; /* others wrote before the last batch: they are followed with the lock */
    bool wants_to_listen, is_listening; /* NOTIFY; this connection does */
    bool is_listener_new; /* another descriptor than before, which may have the same number */
    bool has_notify;      /* the engine knows it */
    bool has_place;       /* of notices; else positions alone are told */
    bool has_heard_all;   /* nothing else has to be asked for, if it leads up to `notified` */
    unsigned value_pages; /* to be read yet with values, for the heads */
};

struct postgres_store *postgres_store_of(struct store *store);
/* Free what was handed out last, before anything else is asked. */
void postgres_store_release(struct postgres_store *s);
/* Connected, and the database is the one it was; else TIDINGS_E_BUSY, within `wait_ms` and what
 * its answers take. Outside of batches. */
int postgres_store_ready(struct postgres_store *s, int wait_ms, struct tidings_error *err);
/* Of what failed just now: does this engine not know it, or not let us (history.c)? */
bool postgres_store_is_unsupported(const struct postgres_store *s);
/* A statement of a batch, without an answer. */
int postgres_store_send(struct postgres_store *s, enum postgres_statement which,
                        const struct postgres_values *values, struct tidings_error *err);
/* One that is read, inside of batches or outside. */
int postgres_store_ask(struct postgres_store *s, enum postgres_statement which,
                       const struct postgres_values *values, struct pg_result **ret,
                       struct tidings_error *err);
/* The same without parameters or with one number. */
int postgres_store_ask_int(struct postgres_store *s, enum postgres_statement which, int64_t n,
                           struct pg_result **ret, struct tidings_error *err);
/* What PG_LOCK and PG_STATE give (TIDINGS_E_INVALID: it cannot be); and its clock, when it was
 * asked at that time (monotonic). */
int postgres_store_read_counters(struct postgres_store *s, struct pg_result *r,
                                 struct postgres_counters *ret, struct tidings_error *err);
int64_t postgres_store_hear_clock(struct postgres_store *s, struct pg_result *r, uint64_t asked_ms);
void postgres_store_digest(struct tidings_str text, unsigned char out[32]);

/* cluster/postgres_schema.c: the tables, made or brought up to date; which cluster it is. */
struct postgres_layout {
    int64_t made;             /* what this program makes */
    int64_t oldest;           /* the oldest whose programs may go on beside it */
    const char *const *steps; /* `made` of them: from no tables to 1, from 1 to 2, … */
};
extern const struct postgres_layout postgres_layout;
int postgres_store_lay_out(struct postgres_store *s, const struct postgres_layout *l,
                           struct tidings_error *err);
/* cluster/history.c: has the store lost something since? Then that is written down. */
int postgres_store_check_server(struct postgres_store *s, struct tidings_error *err);

/* cluster/postgres_commit.c: operations of struct store_ops. */
int postgres_store_begin(struct store *store, struct tidings_error *err);
int postgres_store_commit(struct store *store, struct tidings_error *err);
void postgres_store_rollback(struct store *store);
/* What a commit leaves in the session, and its notification looks for; it is rolled back with it.
 * The position, which no two batches have that a session commits. */
#define POSTGRES_MARK 24
void postgres_store_mark(const struct postgres_store *s, char out[POSTGRES_MARK]);
/* cluster/postgres_commit.c: a row with the parameters of PG_PUT or PG_ANNOUNCE, sent with
 * others or by itself, at the latest before anything else is. */
extern const struct postgres_pending_table postgres_pending_versions,
    postgres_pending_announcements;
void postgres_pending_init(struct postgres_pending *p, const struct postgres_pending_table *table);
void postgres_pending_deinit(struct postgres_pending *p);
/* Of versions: they are not the newest of their entities, since they are taken back. */
int postgres_store_add_pending(struct postgres_store *s, struct postgres_pending *p,
                               const struct postgres_values *v, struct tidings_error *err);
/* Takes the lock, when the batch does not have it yet. */
int postgres_store_send_pending(struct postgres_store *s, struct tidings_error *err);
/* cluster/postgres_commit.c: batches without the lock; of struct store_ops. */
bool postgres_store_begin_unlocked(struct store *store);
bool postgres_store_must_run_again(struct store *store);
/* The batch, if it is without, has the lock from now on. */
int postgres_store_take_lock(struct postgres_store *s, struct tidings_error *err);
/* postgres_store_ask in a batch, with the lock or without. */
int postgres_store_ask_in_batch(struct postgres_store *s, enum postgres_statement which,
                                const struct postgres_values *values, struct pg_result **ret,
                                struct tidings_error *err);
/* cluster/postgres_store.c: likewise; before a commit, those that are too many. */
int postgres_store_bound_keys(struct postgres_store *s, struct tidings_error *err);
/* That an entity left its URI: what counts is what TRANSFER_MOVED has. */
int postgres_put_moved(struct postgres_store *s, const struct entity_version *version,
                       struct tidings_error *err);
/* `content` NULL: removed. */
int postgres_store_write_published(struct postgres_store *s, const struct published_row *row,
                                   const struct tidings_str *content, struct tidings_error *err);
/* The columns of a version from that one on. The sum tells whether the row is damaged. */
void postgres_read_version(struct pg_result *r, int row, int first, struct kept_record *ret);
void postgres_store_read_published(struct pg_result *r, int row, struct published_row *ret);
/* cluster/history.c: likewise. */
int postgres_store_create_changelog(struct store *store, const struct changelog_limits *limits,
                                    struct changelog **ret, struct tidings_error *err);
void postgres_log_unref(struct postgres_log *log); /* NULL is fine */
/* The run of the change log goes on for so long; it came to its end. */
int postgres_store_keep_run(struct postgres_store *s, int64_t for_ms, struct tidings_error *err);
void postgres_store_end_run(struct postgres_store *s);
/* The runs and breaks there are. */
int postgres_store_read_runs(struct postgres_store *s, struct runs *runs,
                             struct tidings_error *err);
/* cluster/follow.c: likewise, and of struct store_ops. */
int postgres_store_each_change(struct store *store, size_t max, uint64_t *ret_floor,
                               kept_change_fn fn, void *user, struct tidings_error *err);
int postgres_store_follow(struct store *store, kept_change_fn fn, void *user,
                          struct tidings_error *err);
/* The statement of what comes after `followed`, into the pipeline. */
int postgres_store_send_page(struct postgres_store *s, struct tidings_error *err);
/* Everything up to there was followed, or written here. */
void postgres_store_note_followed(struct postgres_store *s, uint64_t position, bool is_durable);
/* cluster/follow.c: notices (cluster/log_record.h) of what is written here. */
void postgres_store_notice_deinit(struct postgres_store *s);
/* After a connection was made: where they are good. */
int postgres_store_read_place(struct postgres_store *s, struct tidings_error *err);
/* Inside a batch: a row was written at the newest position. Those of a kind that is not told of
 * need not be said. */
void postgres_store_tell(struct postgres_store *s, const struct kept_record *r);
/* … and what replaced a version of the same batch would be followed without that one: the batch is
 * asked for. */
void postgres_store_tell_replaced(struct postgres_store *s);
/* A record as bytes, until the next one is made; empty: it has too many. */
struct tidings_str postgres_store_encode(struct postgres_store *s, const struct kept_record *r);
/* Inside a batch: write a record at its position. */
int postgres_store_log(struct postgres_store *s, const struct kept_record *r,
                       struct tidings_error *err);
/* The counters, before the commit, with the mark of the batch if its rows are told. */
int postgres_store_send_state(struct postgres_store *s, struct tidings_error *err);
/* Into the pipeline, with an end of its own: that something was committed up to `now.position`, and
 * the rows, if the database finds the mark that the commit leaves. How many ends need not be waited
 * for. */
unsigned postgres_store_notify(struct postgres_store *s);
/* Of others: what has arrived. 1: there may be something to follow, which is to be done at once. */
int postgres_store_hear(struct postgres_store *s);
/* Outside of batches: follow what was heard. 1: there is nothing else to ask for. */
void postgres_store_heard(struct store *store, struct shared_heard *ret);
/* cluster/postgres_copy.c */
extern const struct transfer_ops postgres_store_transfer;
/* cluster/postgres_nodes.c */
uint64_t postgres_store_followed(struct store *store);
int postgres_store_descriptor(struct store *store);
int postgres_store_wake(struct store *store);
bool postgres_store_has_news(struct store *store);
int postgres_store_announce(struct store *store, enum kept_kind kind,
                            const struct tidings_change *change, uint64_t *ret_position,
                            struct tidings_error *err);
void postgres_store_conceal(struct store *store);
const char *postgres_store_explain(struct store *store, const struct tidings_error *err);
int postgres_store_newest(struct store *store, uint64_t *ret, struct tidings_error *err);
int64_t postgres_store_now(struct store *store);
int postgres_store_secret(struct store *store, unsigned char out[32], struct tidings_error *err);
/* Listen, if that is possible now. */
void postgres_store_listen(struct postgres_store *s);

#endif
