/* SPDX-License-Identifier: MIT
 *
 * A store: entities with their history, published resources, tasks, and the order of their changes.
 * Three media implement struct store_ops: memory (store/memory_store.h), SQLite
 * (store/sqlite_store.h) and PostgreSQL (cluster/postgres_store.h). The rules of entities are in
 * store/entities.h; a store knows only one: each version of an entity is later than the one before.
 *
 * Batches. Writes happen between `begin` and `commit`; reads inside the batch see them at once. If
 * `commit` returns 0, the medium has all of them. After a rollback, or if the program ends before
 * the commit, it has none.
 *
 * Positions. A durable store gives each change a position, higher than the positions of all earlier
 * changes, even across restarts. Cursors of clients refer to positions.
 *
 * Shared stores. Several nodes write to one PostgreSQL database. `begin` takes a lock that lasts
 * until the end of the batch. In a batch, no other node commits, every earlier change can be read,
 * and a decision (compare and set) holds for all nodes. Outside of batches, `follow` reads the
 * changes of the other nodes, in the order of positions and without gaps. If the database cannot be
 * reached, each operation that needs it fails with TIDINGS_E_BUSY, at once or after
 * POSTGRES_DEADLINE_MS, and operations reconnect at most every POSTGRES_RETRY_MS.
 *
 * Threads. A store belongs to one thread, the commit thread (store/commit_thread.h). Slices that an
 * operation returns are valid until the next call.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <string.h>

#include <tidings/provider.h>
#include <tidings/types.h>

#include "store/change_log.h"

/* ---- valid time ---------------------------------------------------------------------------------
 *
 * Instants are milliseconds of Unix time. Version i of an entity is valid in [start i, start i+1),
 * the last version until TIMELINE_FOREVER. Starts increase strictly, so exactly one version is
 * valid at each instant from the first start on. The functions are pure.
 */

#define TIMELINE_FOREVER INT64_C(253370764800000) /* 9999-01-01T00:00:00.000Z */
#define TIMELINE_NEVER INT64_MIN                  /* before every instant: "none" */
#define TIMELINE_TEXT 25                          /* bytes of an instant as text, with its NUL */

/* Parse RFC 3339 with any offset, at most milliseconds (further digits must be zero) and years 0000
 * to 9998: "2024-01-01T10:00:00Z" equals "2024-01-01T10:00:00.000Z". TIDINGS_E_INVALID: the error
 * message shows the form. */
int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err);
/* Write an instant in UTC, with three decimals and Z. */
struct tidings_str timeline_text(int64_t ms, char out[TIMELINE_TEXT]);

/* Start of a new version: `wanted`, or one millisecond after `newest` if `wanted` is not later
 * (LU-17). `newest` can be TIMELINE_NEVER. TIDINGS_E_LIMIT: time has no room for it. */
int timeline_next(int64_t newest, int64_t wanted, int64_t *ret_ms, struct tidings_error *err);

/* ---- entities -------------------------------------------------------------------------------- */

/* One version of one entity. */
struct entity_version {
    struct tidings_str id;
    struct tidings_str type, type_version;
    struct tidings_str parent;     /* the id of an entity, or empty */
    struct tidings_str old_parent; /* of the version before, if it was different */
    struct tidings_str value;      /* JSON text */
    struct tidings_str changed_by; /* JSON text: the writer, as the writer states it */
    struct tidings_str principal;  /* JSON text: the authenticated writer; or empty */
    struct tidings_str previous;   /* merge patch to the version before; empty: none expresses it */
    int64_t from, to;              /* [from, to); the current version: TIMELINE_FOREVER */
    int64_t since; /* start of the first version that this one replaced; none: `from` */
    bool deleted;
    bool created; /* the first version, or the first one after a deletion */
    /* Input of `put` only: the version of the type before this one, if it was different. */
    struct tidings_str old_type_version;
};

/* A registered version of an entity type. */
struct entity_type_row {
    struct tidings_str name, version;
    struct tidings_str schema;      /* JSON text */
    struct tidings_str description; /* or empty */
    struct tidings_str options;     /* JSON text, or empty */
};

/* The result of a request with an idempotency key, which a repeated request returns. */
struct entity_key {
    struct tidings_str owner;  /* keys of different owners are different */
    struct tidings_str key;    /* not empty */
    struct tidings_str digest; /* of the request */
    struct tidings_str text;   /* the result */
    int64_t at;                /* Unix time in milliseconds */
};

#define ENTITY_KEYS 10000u
#define ENTITY_KEYS_OF_ONE 1000u
#define ENTITY_KEY_AGE_MS (24 * 60 * 60 * INT64_C(1000))
/* Beyond ENTITY_KEYS: how many keys the owner with the most keys (`count`) loses at once. */
#define ENTITY_KEYS_DROPPED(count) ((count) / 8 > 0 ? (count) / 8 : 1)

/* Selects current versions. Empty slices match all. */
struct entity_scope {
    struct tidings_str type, type_version, parent;
    bool by_parent; /* `parent` counts even if it is empty */
    bool deleted;   /* include deleted entities */
};

/* Return false to stop. */
typedef bool (*entity_version_fn)(void *user, const struct entity_version *version);
typedef bool (*entity_type_fn)(void *user, const struct entity_type_row *row);

/* A checksum of a version, never 0, which detects bytes that changed on the disk. */
int64_t entity_version_checksum(const struct entity_version *v);
/* Returns true if the version has that checksum, or `checksum` is 0 (an old row without one). */
bool entity_version_is_whole(const struct entity_version *v, int64_t checksum);

/* ---- published resources --------------------------------------------------------------------- */

/* The newest content of one URI. */
struct published_row {
    struct tidings_resource about; /* including `etag`, `size` and `modified_ms` */
    struct tidings_str content;
    struct tidings_str metadata; /* of its change, or empty; `each_published` does not return it */
    bool created;
};
#define PUBLISHED_MAX_REMOVED 10000u /* removed URIs that are remembered */
#define PUBLISHED_MAX_CONTENT                                                                      \
    1000000000u /* bytes: the limit of SQLite; PostgreSQL has a higher one */

/* The priority of a resource as a number that every medium stores exactly; below 0: none. */
static inline int64_t resource_priority_bits(const struct tidings_resource *about)
{
    double n = about->has_priority ? about->priority : -1;
    int64_t bits;
    memcpy(&bits, &n, sizeof bits);
    return bits;
}

static inline void resource_set_priority_bits(struct tidings_resource *about, int64_t bits)
{
    memcpy(&about->priority, &bits, sizeof bits);
    about->has_priority = about->priority >= 0;
}

/* Slices are valid during the call. A negative code stops the reading, which returns it. */
typedef int (*published_row_fn)(void *user, const struct published_row *row,
                                struct tidings_error *err);

/* ---- the log --------------------------------------------------------------------------------- */

/* Databases contain these numbers: add new kinds at the end. */
enum log_entry_kind {
    LOG_ENTRY_ENTITY, /* `version`; `old_type_version` if the version of its type changed */
    LOG_ENTRY_MOVED,  /* the same, for an entity that left the URI with `old_type_version`. Parent
                       * and writer are missing if that version is forgotten */
    LOG_ENTRY_TYPES,  /* the registry of types changed */
    LOG_ENTRY_PUBLISHED, /* `uri` to `modified_ms` */
    LOG_ENTRY_FILE, /* the same, `came_from` and `target`; or changes of files were possibly missed:
                     * the URI says so, as in struct change */
    LOG_ENTRY_ANNOUNCED, /* the store has nothing but the change itself: `announced` */
    /* Shared stores only; these are not changes of resources: */
    LOG_ENTRY_SESSION,     /* the node `target` has taken the session with the id `uri` */
    LOG_ENTRY_INCARNATION, /* a node started; its cursors are valid */
    LOG_ENTRY_DATA_LOSS,   /* the store has lost committed changes; every subscription gets
                            * `truncated` */
    /* Like LOG_ENTRY_ANNOUNCED, for a mount that several nodes have; nodes without the mount ignore
     * it. Or changes there were possibly missed, as for LOG_ENTRY_FILE. */
    LOG_ENTRY_MOUNTED,
};

/* Returns true if the store has nothing but the change itself. */
static inline bool log_entry_is_announced(enum log_entry_kind kind)
{
    return kind == LOG_ENTRY_ANNOUNCED || kind == LOG_ENTRY_MOUNTED;
}

/* One change in the log. */
struct log_entry {
    enum log_entry_kind kind;
    uint64_t position;
    /* Without `value` and `previous`. A change of another node has them if it arrived with them and
     * the entity was read or written here recently. */
    struct entity_version version;
    struct tidings_str old_type_version;
    struct tidings_str uri, etag, came_from, target;
    struct tidings_str metadata; /* of a published resource; or empty */
    int64_t size, modified_ms;
    int64_t at_ms; /* Unix time of the write; 0: unknown */
    bool created, removed;
    bool not_subscribable; /* published (also removed), file, announced: only lists change */
    const struct published_row
        *published; /* LOG_ENTRY_PUBLISHED of another node, not removed: the whole row; else NULL */
    const struct tidings_change *announced; /* LOG_ENTRY_ANNOUNCED, LOG_ENTRY_MOUNTED */
};
/* Return false to stop. */
typedef bool (*log_entry_fn)(void *user, const struct log_entry *change);

/* ---- tasks ----------------------------------------------------------------------------------- */

#define SHARED_TASK_ID_MAX 128u
#define SHARED_TASK_CLIENT_MAX 4096u        /* bytes of the name of its client */
#define SHARED_TASK_MESSAGE_MAX 4096u       /* bytes of its message */
#define SHARED_TASK_PAYLOAD_MAX (64u << 20) /* bytes of its result */
#define SHARED_TASK_ASKED_MAX (40u << 20)   /* bytes of its questions, and of its answers */
#define SHARED_TASKS_AT_ONCE 64u            /* tasks that one batch ends or removes */

/* The limits for a new task, and the limit that it reached. */
struct stored_task_limits {
    size_t max, max_client; /* 0: no limit */
    size_t max_bytes;       /* of results; one client can use a quarter */
    enum { STORED_TASKS_FIT, STORED_TASKS_MANY, STORED_TASKS_LARGE } full;
    bool is_client; /* its client has reached the limit */
};

/* A task of a tool (engine/protocol/tasks.h). Clients can get its result after a restart, and from
 * another node of a shared store. */
struct stored_task {
    struct tidings_str id, client, status, message, payload;
    int64_t created_ms, updated_ms, ttl_ms; /* by the clock of this machine */
    /* Shared stores only, else empty: */
    struct tidings_str questions; /* JSON object */
    struct tidings_str answers;   /* JSON object: given at other nodes, not yet taken by its node */
    struct stored_task_limits *room; /* the limits if the task is new; NULL: no check */
    bool is_lost;                    /* its node is dead */
};
typedef void (*stored_task_fn)(void *user, const struct stored_task *task);

/* ---- the interface --------------------------------------------------------------------------- */

struct store;
struct transfer_ops; /* store/copy.h */

/* Counts of how the changes of other nodes arrived. */
struct notification_counts {
    uint64_t applied; /* batches whose rows were all in a notification, and that were applied */
    uint64_t changes; /* changes in those batches */
    uint64_t asked;   /* queries of the database */
    uint64_t refused; /* notifications that were forged or altered */
};

/* The operations of a medium. All are required unless their group says otherwise. */
struct store_ops {
    const char *name;
    /* Close the store. An open batch is rolled back. */
    void (*destroy)(struct store *store);

    /* ---- batches ---- */

    int (*begin)(struct store *store, struct tidings_error *err);
    /* After a failure, the batch is rolled back. TIDINGS_E_UNKNOWN: the medium did not answer; the
     * batch can appear after a restart, and `follow` of a shared store reports it like a batch of
     * another node. */
    int (*commit)(struct store *store, struct tidings_error *err);
    void (*rollback)(struct store *store);
    /* The position of the newest change. A store that is not durable returns 0. */
    uint64_t (*position)(struct store *store);

    /* ---- entities: write inside a batch; read anywhere ---- */

    /* Add a version; its start is later than the start of every other version of the entity. `to`
     * is ignored. `replaces_current`: the current version is forgotten. After a failure, only
     * rollback is possible. */
    int (*put)(struct store *store, const struct entity_version *version, bool replaces_current,
               struct tidings_error *err);
    /* Forget the versions of `id` that ended at `end` or earlier. */
    int (*forget)(struct store *store, struct tidings_str id, int64_t end,
                  struct tidings_error *err);
    /* Find the version valid at `at` (TIMELINE_FOREVER: the current one). Returns 1, or 0 if there
     * is none. TIDINGS_E_INTERNAL: the checksum is wrong, `ret` is filled. `history` fails
     * likewise. */
    int (*find)(struct store *store, struct tidings_str id, int64_t at, struct entity_version *ret,
                struct tidings_error *err);
    /* Get the start of the `n`th newest version of `id` (1: the current one). Returns 1, or 0 if
     * there are fewer. */
    int (*nth)(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
               struct tidings_error *err);
    /* Versions of `id` that start at `first` or later, oldest first. */
    int (*history)(struct store *store, struct tidings_str id, int64_t first, entity_version_fn fn,
                   void *user, struct tidings_error *err);
    /* Current versions with an id greater than `after`, by id (bytes). */
    int (*list)(struct store *store, const struct entity_scope *scope, struct tidings_str after,
                entity_version_fn fn, void *user, struct tidings_error *err);

    /* Add a type. TIDINGS_E_EXISTS. */
    int (*put_type)(struct store *store, const struct entity_type_row *row,
                    struct tidings_error *err);
    /* Types by name, then in the order in which they were added. */
    int (*types)(struct store *store, entity_type_fn fn, void *user, struct tidings_error *err);

    /* Add an idempotency key; it replaces an expired key of the same owner and name. No later than
     * at the commit, the store removes the oldest keys of this owner beyond ENTITY_KEYS_OF_ONE,
     * keys older than ENTITY_KEY_AGE_MS (possibly a little later), and beyond ENTITY_KEYS the
     * oldest keys of the owner that has most. So owners with few keys lose none to others. */
    int (*put_key)(struct store *store, const struct entity_key *key, struct tidings_error *err);
    /* Returns 1, or 0 if the key is unknown. */
    int (*find_key)(struct store *store, struct tidings_str owner, struct tidings_str key,
                    struct entity_key *ret, struct tidings_error *err);

    /* Do deferred work, outside of batches and while the thread has nothing else to do. Returns 1
     * if there is more. A failure costs only speed. */
    int (*idle)(struct store *store, struct tidings_error *err);

    /* ---- published resources and the log: a durable store ----
     *
     * NULL, all of them: nothing survives a restart (store_is_durable). The caller then keeps
     * published resources and the change log in memory. */

    /* Inside a batch. After a failure, only rollback is possible. */
    int (*publish)(struct store *store, const struct published_row *row, uint64_t *ret_position,
                   struct tidings_error *err);
    /* Likewise. Only the URI, the metadata and `not_subscribable` of `gone` are read. */
    int (*unpublish)(struct store *store, const struct published_row *gone, uint64_t *ret_position,
                     struct tidings_error *err);
    int (*each_published)(struct store *store, published_row_fn fn, void *user,
                          struct tidings_error *err);
    /* Changes at the newest `max` positions, oldest first. *ret_floor: changes up to this position
     * are not included. */
    int (*each_change)(struct store *store, size_t max, uint64_t *ret_floor, log_entry_fn fn,
                       void *user, struct tidings_error *err);
    /* Start an epoch of the change log, whose cursors survive a restart. Outside of batches. */
    int (*create_changelog)(struct store *store, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);
    /* `tidings store copy`. NULL: the store cannot be copied. */
    const struct transfer_ops *transfer;

    /* ---- tasks ----
     *
     * NULL, all of them: the caller keeps tasks in memory. */

    /* Inside a batch: write a task. TIDINGS_E_CONFLICT: the task of that id has ended.
     * TIDINGS_E_LIMIT: `room` says which limit is reached. `answers` stay as they are. */
    int (*put_task)(struct store *store, const struct stored_task *task, struct tidings_error *err);
    /* Inside a batch: remove the tasks whose time to live has passed at that Unix time. */
    int (*sweep_tasks)(struct store *store, int64_t now_ms, struct tidings_error *err);
    /* Outside of batches. */
    int (*each_task)(struct store *store, stored_task_fn fn, void *user, struct tidings_error *err);

    /* ---- shared stores: the changes of other nodes ----
     *
     * NULL, all of them: no other node writes to the store (store_is_shared). */

    /* Report what other nodes committed since the last call, in the order of positions. Outside of
     * batches, or directly after `begin`. `fn` gets each change once. */
    int (*follow)(struct store *store, log_entry_fn fn, void *user, struct tidings_error *err);
    /* The newest position up to which every change was followed or written here. */
    uint64_t (*followed)(struct store *store);
    /* Query the newest position of all nodes. Outside of batches. */
    int (*newest)(struct store *store, uint64_t *ret, struct tidings_error *err);
    /* A descriptor that becomes readable when other nodes have committed, or when the connection is
     * lost. It can change with each call of any operation. -1: none; call `follow` periodically. */
    int (*descriptor)(struct store *store);
    /* The descriptor is readable. Returns 1 if there is possibly something to follow. */
    int (*wake)(struct store *store);
    /* Inside a batch: add a change of which the store has nothing else (LOG_ENTRY_ANNOUNCED,
     * LOG_ENTRY_MOUNTED). The newest ones are remembered. A batch of only such changes does not
     * wait for the disk. */
    int (*announce)(struct store *store, enum log_entry_kind kind,
                    const struct tidings_change *change, uint64_t *ret_position,
                    struct tidings_error *err);
    /* 32 bytes for seals, the same on all nodes. */
    int (*secret)(struct store *store, unsigned char out[32], struct tidings_error *err);

    /* ---- shared stores: optional, each can be NULL ---- */

    /* From now on, errors reveal neither the address of the store nor its messages, because clients
     * see them. NULL: errors reveal nothing. */
    void (*conceal)(struct store *store);
    /* For the log: the full reason of a failure. NULL: the text of `err`. */
    const char *(*explain)(struct store *store, const struct tidings_error *err);
    /* Before the thread waits for the descriptor, outside of batches: returns true if changes
     * arrived with the answers to other queries; the descriptor does not become readable for them,
     * so the caller follows now. NULL: this never happens. */
    bool (*has_news)(struct store *store);
    /* Any thread. NULL: all counts are 0. */
    void (*notifications)(struct store *store, struct notification_counts *ret);
    /* Unix time of the clock that all nodes use. NULL: the clock of this machine. */
    int64_t (*now)(struct store *store);

    /* Begin a batch without the lock. Its jobs decide from what was followed. Its writes are sent
     * with the commit, which fails if another node has committed since. Returns false if the caller
     * must use `begin`. NULL, both: the caller always uses `begin`. */
    bool (*begin_unlocked)(struct store *store);
    /* After an operation or the commit of such a batch failed: returns true if the batch must be
     * rolled back and run again from `begin` on, because its decisions and refusals do not count.
     * After TIDINGS_E_UNKNOWN, the second run finds out whether the first was committed; if it
     * fails too, the outcome stays unknown. */
    bool (*must_run_again)(struct store *store);

    /* ---- shared stores: tasks of other nodes ----
     *
     * NULL, all of them: the caller keeps tasks in memory. */

    /* Inside or outside of batches. Returns 1, or 0 if the task is unknown or expired, or its row
     * is invalid. */
    int (*find_task)(struct store *store, struct tidings_str id, struct stored_task *ret,
                     struct tidings_error *err);
    /* Inside a batch: replace the answers that its node has not taken. */
    int (*put_task_answers)(struct store *store, struct tidings_str id, struct tidings_str answers,
                            struct tidings_error *err);
    /* Outside of batches: returns 1 if there are tasks of dead nodes or expired tasks, else 0. */
    int (*has_stale_tasks)(struct store *store, struct tidings_error *err);
    /* Inside a batch: tasks of dead nodes become `end` (except id, client and times), and expired
     * tasks are removed, SHARED_TASKS_AT_ONCE at most. `fn` gets each id, and true if the task was
     * removed. */
    int (*end_stale_tasks)(struct store *store, const struct stored_task *end,
                           void (*fn)(void *user, struct tidings_str id, bool is_gone), void *user,
                           struct tidings_error *err);
};

struct store {
    const struct store_ops *ops;
};

/* Returns true if the data survives a restart. */
static inline bool store_is_durable(const struct store *store)
{
    return store->ops->create_changelog != NULL;
}

/* Returns true if other nodes write to the store, too. */
static inline bool store_is_shared(const struct store *store)
{
    return store->ops->follow != NULL;
}

#endif
