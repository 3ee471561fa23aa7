/* SPDX-License-Identifier: MIT
 *
 * A store that several nodes write to: what one of them has to know of the others. A third
 * interface of the same object, beside store/store.h and store/store.h.
 *
 * The store orders. Positions are taken under a lock that is held to the commit, and `begin` takes
 * it: so between `begin` and the end of the batch nobody else commits, everything up to the newest
 * position can be read, and what is decided there (compare-and-set) is decided once for all nodes.
 * Outside of batches `follow` reads what others have committed, in the order of positions, without
 * gaps.
 *
 * When the store cannot be reached every operation that asks it something fails with
 * TIDINGS_E_BUSY, at once or when nothing was heard of it for some seconds (of PostgreSQL:
 * POSTGRES_DEADLINE_MS); connecting again is tried by the operations themselves, at most every
 * POSTGRES_RETRY_MS. A batch whose commit was sent and not answered fails with TIDINGS_E_UNKNOWN;
 * if it was committed, `follow` tells of it like of another node's.
 *
 * One owner, one thread (the keeper's). Slices live until the next call.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <string.h>

#include <tidings/provider.h>
#include <tidings/types.h>

#include "store/change_log.h"

/* -------------------------------------------------------------------------------------------------
 * Valid time: instants in milliseconds, and the versions of one thing that tile it.
 *
 * Version i is valid in [start i, start i+1), the last one until TIMELINE_FOREVER. Starts rise
 * strictly, so each instant from the first start on belongs to exactly one version. Pure functions.
 */

#define TIMELINE_FOREVER INT64_C(253370764800000) /* 9999-01-01T00:00:00.000Z */
#define TIMELINE_NEVER INT64_MIN                  /* before everything: "there is none" */
#define TIMELINE_TEXT 25                          /* bytes of an instant as text, with its NUL */

/* RFC 3339, any offset, at most milliseconds (further digits must be zero), years 0000 to 9998:
 * "2024-01-01T10:00:00Z" is the same instant as "2024-01-01T10:00:00.000Z". TIDINGS_E_INVALID with
 * a sentence that shows the form. */
int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err);
/* The one spelling we write: UTC, three decimals, Z. */
struct tidings_str timeline_text(int64_t ms, char out[TIMELINE_TEXT]);

/* When a new version begins: at `wanted`, or one millisecond after the newest if that is not later
 * (LU-17). `newest` may be TIMELINE_NEVER. TIDINGS_E_LIMIT at the end of time. */
int timeline_next(int64_t newest, int64_t wanted, int64_t *ret_ms, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Where versions of entities are kept: the interface between what writing an entity means
 * (store/entities.h) and a medium (memory, SQLite, PostgreSQL). It knows no rules but this one: the
 * versions of an entity rise, and are only ever added at the end.
 *
 * One owner, one thread. Changes are made between `begin` and `commit` and are seen by reads at
 * once; they are kept for good when commit has returned 0, all of them, and are gone after
 * rollback, or when the program ends before the commit. Slices that a read hands out live until the
 * next call.
 */

/* One version of one entity. */
struct entity_version {
    struct tidings_str id;
    struct tidings_str type, type_version;
    struct tidings_str parent;     /* an entity's id, or empty */
    struct tidings_str value;      /* JSON text */
    struct tidings_str changed_by; /* JSON text: who the writer says it was */
    struct tidings_str principal;  /* JSON text: who the writer was proved to be; or empty */
    struct tidings_str
        previous;     /* merge patch back to the version before; empty: none can say it */
    int64_t from, to; /* [from, to); the current one: TIMELINE_FOREVER */
    int64_t since;    /* when the first began of those whose place it took; none: `from` */
    bool deleted;
    bool created; /* the first version, or the first after a deletion */
    /* To `put` alone: the version of the type before this one, when that was another. */
    struct tidings_str old_type_version;
};

struct entity_type_row {
    struct tidings_str name, version;
    struct tidings_str schema;      /* JSON text */
    struct tidings_str description; /* or empty */
    struct tidings_str options;     /* JSON text, or empty */
};

/* What was done under a key, so that it is not done twice. */
struct entity_key {
    struct tidings_str owner;  /* who used it: keys of different owners are different */
    struct tidings_str key;    /* not empty */
    struct tidings_str digest; /* of what was asked */
    struct tidings_str text;   /* what came of it */
    int64_t at;                /* when, Unix time in milliseconds */
};

/* Which current versions are wanted; empty slices do not matter. Deleted entities are left out
 * unless asked for. */
struct entity_scope {
    struct tidings_str type, type_version, parent;
    bool by_parent; /* `parent` matters, also when empty */
    bool deleted;   /* the deleted too */
};

/* Return false to stop. */
typedef bool (*entity_version_fn)(void *user, const struct entity_version *version);
typedef bool (*entity_type_fn)(void *user, const struct entity_type_row *row);

#define ENTITY_KEYS 10000u
#define ENTITY_KEYS_OF_ONE 1000u
#define ENTITY_KEY_AGE_MS (24 * 60 * 60 * INT64_C(1000))
/* When there are too many: of the largest owner, which has so many, so many go at once. */
#define ENTITY_KEYS_DROPPED(count) ((count) / 8 > 0 ? (count) / 8 : 1)

/* -------------------------------------------------------------------------------------------------
 * The durable side of a store, what it keeps beside the rows of entities: published resources, and
 * which change had which position. A second interface of the same object (store/store.h): a
 * file of SQLite, or a database that several nodes share.
 *
 * One order for everything kept: each change has a position, higher than all before.
 */

/* The newest content of one URI. */
struct published_row {
    struct tidings_resource about; /* `etag`, `size` and `modified_ms` too */
    struct tidings_str content;
    struct tidings_str metadata; /* of the change that made it so, or empty; `each_published` does
                                  * not give it back */
    bool created;
};
#define KEPT_MAX_REMOVED 10000u      /* removed URIs that are remembered */
#define KEPT_MAX_CONTENT 1000000000u /* bytes: what SQLite holds; PostgreSQL holds more */

/* The priority of a resource as a number that every store keeps exactly; below 0: it has none. */
static inline int64_t kept_priority(const struct tidings_resource *about)
{
    double n = about->has_priority ? about->priority : -1;
    int64_t bits;
    memcpy(&bits, &n, sizeof bits);
    return bits;
}

static inline void kept_set_priority(struct tidings_resource *about, int64_t bits)
{
    memcpy(&about->priority, &bits, sizeof bits);
    about->has_priority = about->priority >= 0;
}

/* Slices live until the function returns; a negative code of it ends the reading and is what that
 * returns. */
typedef int (*published_row_fn)(void *user, const struct published_row *row,
                                struct tidings_error *err);

enum kept_kind {
    KEPT_ENTITY, /* `version`; `old_type_version`: that of its type before, if another */
    KEPT_MOVED, /* the same, of an entity that left the URI it had as `old_type_version`. Parent and
                 * writer are missing when that version is forgotten, the version of its type
                 * (empty) in files of before */
    KEPT_TYPES, /* the registry of types changed */
    KEPT_PUBLISHED, /* `uri` … `modified_ms` */
    KEPT_FILE,      /* the same, and `came_from`, `target`; or it says that changes of files may
                     * have been missed: as struct change says it, by its URI */
    KEPT_ANNOUNCED, /* nothing is kept of it but that it changed: `announced` */
    /* Of a store that nodes share (store/store.h), no resource: */
    KEPT_SESSION, /* the session with the id `uri` is another node's, whose name is `target` */
    KEPT_RUN,     /* a node began a run: cursors may come from it */
    KEPT_BROKEN,  /* the store has lost what it had committed: everybody has to look again */
    /* As KEPT_ANNOUNCED, of what lies in a mount that several nodes have: those that do not have it
     * tell nothing. Or it says that changes there may have been missed, by its URI like a file's.
     * Numbers are kept in databases: new kinds come last. */
    KEPT_MOUNTED,
};

/* Is nothing kept of it but that it changed? */
static inline bool kept_is_announced(enum kept_kind kind)
{
    return kind == KEPT_ANNOUNCED || kind == KEPT_MOUNTED;
}

/* One change that a store knows. */
struct kept_change {
    enum kept_kind kind;
    uint64_t position;
    /* Without value and previous; of another node's they are there if they came with it and the
     * entity was read or written here lately. */
    struct entity_version version;
    struct tidings_str old_type_version;
    struct tidings_str uri, etag, came_from, target;
    struct tidings_str metadata; /* of what is published, as its writer gave it; or empty */
    int64_t size, modified_ms;
    int64_t at_ms; /* when it was written, Unix time; 0: not known */
    bool created, removed;
    bool not_subscribable; /* published (also when removed), a file, announced: only lists change */
    const struct published_row *published;  /* KEPT_PUBLISHED that another node wrote, not removed:
                                             * all of it; else NULL */
    const struct tidings_change *announced; /* KEPT_ANNOUNCED, KEPT_MOUNTED */
};
/* Return false to stop. */
typedef bool (*kept_change_fn)(void *user, const struct kept_change *change);

/* How many tasks there may be, and what was in the way of one more. */
struct kept_task_room {
    size_t max, max_client; /* 0: any */
    size_t max_bytes;       /* of results; a client has a quarter of it */
    enum { KEPT_TASKS_FIT, KEPT_TASKS_MANY, KEPT_TASKS_LARGE } full;
    bool is_client; /* … of its client */
};

/* A task of a tool (engine/protocol/tasks.h), for those who ask for its result after a restart, or
 * another node that shares the store. */
struct kept_task {
    struct tidings_str id, client, status, message, payload;
    int64_t created_ms, updated_ms, ttl_ms; /* by this machine's clock */
    /* Of stores that nodes share, else empty: */
    struct tidings_str questions; /* an object: what is asked */
    struct tidings_str answers;   /* an object: given at other nodes, and not taken by its own */
    struct kept_task_room *room;  /* it is new: is there room for it? NULL: it is not asked */
    bool is_lost;                 /* the node that ran it is gone */
};
typedef void (*kept_task_fn)(void *user, const struct kept_task *task);

struct transfer_ops; /* store/copy.h */

#define SHARED_TASK_ID_MAX 128u
#define SHARED_TASK_CLIENT_MAX 4096u        /* bytes of its client's name … */
#define SHARED_TASK_MESSAGE_MAX 4096u       /* … of its message */
#define SHARED_TASK_PAYLOAD_MAX (64u << 20) /* … of its result */
#define SHARED_TASK_ASKED_MAX (40u << 20)   /* … of what is asked, and of answers */
#define SHARED_TASKS_AT_ONCE 64u            /* that are failed, or forgotten, in one batch */

/* How others' changes came here, counted. */
struct shared_heard {
    uint64_t told; /* batches that came as notices with all of their rows, and were applied … */
    uint64_t changes; /* … and so many changes in them */
    uint64_t asked;   /* questions to the store */
    uint64_t refused; /* notices that somebody else wrote, or altered */
};

struct store;

struct store_ops {
    const char *name;
    void (*destroy)(struct store *store); /* what was not committed is gone */

    int (*begin)(struct store *store, struct tidings_error *err);
    /* After a failure everything since `begin` is gone, as after rollback. TIDINGS_E_UNKNOWN: for
     * now; it may be there when the program is started again. */
    int (*commit)(struct store *store, struct tidings_error *err);
    void (*rollback)(struct store *store);
    /* Of the newest change (put, put_type): each has a higher one than all before, also after the
     * program was started again. 0: nothing outlives the program. */
    uint64_t (*position)(struct store *store);

    /* Add a version later than all of its entity (`to` is ignored). `replaces_current`: it takes
     * the place of the current one, which is forgotten. After a failure only rollback is possible.
     */
    int (*put)(struct store *store, const struct entity_version *version, bool replaces_current,
               struct tidings_error *err);
    /* Forget the versions of `id` that ended at or before `end`. */
    int (*forget)(struct store *store, struct tidings_str id, int64_t end,
                  struct tidings_error *err);

    /* The version valid at `at` (TIMELINE_FOREVER: the current one). 1, or 0 when there is none.
     * TIDINGS_E_INTERNAL (history too): it is not what was written; `ret` is filled as it is. */
    int (*find)(struct store *store, struct tidings_str id, int64_t at, struct entity_version *ret,
                struct tidings_error *err);
    /* When the `n`th newest version of `id` began (1: the current one). 1, or 0 when it has fewer.
     */
    int (*nth)(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
               struct tidings_error *err);
    /* The versions of `id` with from >= `first`, oldest first. */
    int (*history)(struct store *store, struct tidings_str id, int64_t first, entity_version_fn fn,
                   void *user, struct tidings_error *err);
    /* Current versions with an id greater than `after`, by id (bytes). */
    int (*list)(struct store *store, const struct entity_scope *scope, struct tidings_str after,
                entity_version_fn fn, void *user, struct tidings_error *err);

    /* TIDINGS_E_EXISTS. */
    int (*put_type)(struct store *store, const struct entity_type_row *row,
                    struct tidings_error *err);
    /* By name, then in the order they were added. */
    int (*types)(struct store *store, entity_type_fn fn, void *user, struct tidings_error *err);

    /* One of that owner and key goes, for good: it is too old. Others may go then, at once or with
     * the commit, and are gone after it: of this owner's the oldest beyond ENTITY_KEYS_OF_ONE, and
     * those that are older than ENTITY_KEY_AGE_MS (some may stay for a while); while there are more
     * than ENTITY_KEYS, the oldest of whoever has most, so that nobody who has fewer loses any to
     * others. */
    int (*put_key)(struct store *store, const struct entity_key *key, struct tidings_error *err);
    /* 1, or 0 when it is not known. */
    int (*find_key)(struct store *store, struct tidings_str owner, struct tidings_str key,
                    struct entity_key *ret, struct tidings_error *err);

    /* Outside begin … commit, when nothing else is to be done: work that was put off. 1: there is
     * more of it. A failure costs speed and nothing else. */
    int (*idle)(struct store *store, struct tidings_error *err);

    /* ---- a store that outlives the program; NULL in others ---- */

    /* Inside a batch. A failure leaves nothing but rollback. */
    int (*publish)(struct store *store, const struct published_row *row, uint64_t *ret_position,
                   struct tidings_error *err);
    /* Of `gone` the URI, the metadata and whether it was subscribable count. */
    int (*unpublish)(struct store *store, const struct published_row *gone, uint64_t *ret_position,
                     struct tidings_error *err);
    /* Everything that is published. */
    int (*each_published)(struct store *store, published_row_fn fn, void *user,
                          struct tidings_error *err);
    /* What changed at the newest `max` positions, oldest first. *ret_floor: what happened up to
     * this one is not among them. */
    int (*each_change)(struct store *store, size_t max, uint64_t *ret_floor, kept_change_fn fn,
                       void *user, struct tidings_error *err);
    /* A change log whose cursors outlive the program; a new epoch begins. Outside of batches. */
    int (*create_changelog)(struct store *store, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);
    const struct transfer_ops *transfer; /* copying it into another */
    /* Tasks; NULL: they are not kept here. Inside a batch: keep one, instead of another with its
     * id, unless that has ended (TIDINGS_E_CONFLICT) or there is no room for it (TIDINGS_E_LIMIT);
     * forget those whose time to live has passed at that Unix time. `each_task`: outside. */
    int (*put_task)(struct store *store, const struct kept_task *task, struct tidings_error *err);
    int (*sweep_tasks)(struct store *store, int64_t now_ms, struct tidings_error *err);
    int (*each_task)(struct store *store, kept_task_fn fn, void *user, struct tidings_error *err);

    /* ---- a store that other nodes write to as well; NULL in others ---- */

    /* Everything that others committed since the last time, in the order of positions. Outside of
     * batches, and right after `begin`. What `fn` was given counts as followed. */
    int (*follow)(struct store *rows, kept_change_fn fn, void *user, struct tidings_error *err);
    /* Everything up to this position was followed, or written here. */
    uint64_t (*followed)(struct store *rows);
    /* Clients are served from now on: errors do not say where the store is, nor what it says. May
     * be NULL, and so may `explain`: for the log, the text of `err` or all that is known of it. */
    void (*conceal)(struct store *rows);
    const char *(*explain)(struct store *rows, const struct tidings_error *err);
    /* The newest position of all, asked of the store. Outside of batches. */
    int (*newest)(struct store *rows, uint64_t *ret, struct tidings_error *err);
    /* A descriptor that becomes readable when others have committed, or that way is lost; -1: there
     * is none now, ask `follow` every so often. May be another one after each call of anything. */
    int (*descriptor)(struct store *rows);
    /* It is readable. 1: there may be something to follow. */
    int (*wake)(struct store *rows);
    /* Before the descriptor is waited for, outside of batches: has something come meanwhile, with
     * the answers to other questions, for which it will not be readable any more? Then it is to be
     * followed. NULL: never. */
    bool (*has_news)(struct store *rows);
    /* Any thread. NULL: nobody counts. */
    void (*heard)(struct store *rows, struct shared_heard *ret);

    /* A batch without the lock, for who can run it again: it is decided from what was followed, and
     * what it writes is kept back and sent with the commit, which fails if anybody else committed
     * since. true: it has begun, everything was followed. false: not this time, take `begin`. May
     * be NULL, with the next one: never. */
    bool (*begin_unlocked)(struct store *rows);
    /* An operation of such a batch has failed, or its commit: true, what was decided in it does not
     * count, refusals neither; after rollback it is run again from `begin` on, at once. After
     * TIDINGS_E_UNKNOWN of the commit that may find that it was not kept: if it fails, or anything
     * of that batch, it is not known. */
    bool (*must_run_again)(struct store *rows);

    /* Inside a batch: something changed of which the store keeps nothing but that, and not for
     * ever (KEPT_ANNOUNCED, KEPT_MOUNTED). A batch of nothing else does not wait for the disk. */
    int (*announce)(struct store *rows, enum kept_kind kind, const struct tidings_change *change,
                    uint64_t *ret_position, struct tidings_error *err);

    /* What time it is by the clock that all nodes have in common, Unix time. NULL: by this
     * machine's. */
    int64_t (*now)(struct store *rows);

    /* The rest outside of batches; each is a transaction of its own. */

    /* A task (store/store.h), inside of batches and outside. 1; 0: there is none, its time has
     * passed, or its row is none of ours. */
    int (*find_task)(struct store *rows, struct tidings_str id, struct kept_task *ret,
                     struct tidings_error *err);
    /* Inside a batch: what was answered and not taken is that now. put_task leaves it as it is. */
    int (*put_task_answers)(struct store *rows, struct tidings_str id, struct tidings_str answers,
                            struct tidings_error *err);
    /* Are there tasks whose node is gone, or whose time has passed? 1; 0. */
    int (*has_stale_tasks)(struct store *rows, struct tidings_error *err);
    /* Inside a batch: the former become `end`, in all but id, client and times, and the latter are
     * forgotten; `fn` gets the id of each, and whether it is forgotten. At most
     * SHARED_TASKS_AT_ONCE of both. */
    int (*end_stale_tasks)(struct store *rows, const struct kept_task *end,
                           void (*fn)(void *user, struct tidings_str id, bool is_gone), void *user,
                           struct tidings_error *err);

    /* 32 bytes that all nodes have alike, for seals; made with the store. */
    int (*secret)(struct store *rows, unsigned char out[32], struct tidings_error *err);
};

struct store {
    const struct store_ops *ops;
};

/* Returns true if the store outlives the program. */
static inline bool store_is_durable(const struct store *store)
{
    return store->ops->create_changelog != NULL;
}

/* Returns true if other nodes write to the store as well. */
static inline bool store_is_shared(const struct store *store)
{
    return store->ops->follow != NULL;
}

/* -------------------------------------------------------------------------------------------------
 * The checksum of a stored version, by which bytes that changed on the disk are noticed.
 */

/* Never 0; and is a version what was written with that sum (0: with none)? */
int64_t entity_version_sum(const struct entity_version *v);
bool entity_version_is_whole(const struct entity_version *v, int64_t sum);

#endif
