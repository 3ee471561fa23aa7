/* SPDX-License-Identifier: MIT
 *
 * The durable side of a store, what it keeps beside the rows of entities: published resources, and
 * which change had which position. A second interface of the same object (store/entity_rows.h): a
 * file of SQLite, or a database that several nodes share.
 *
 * One order for everything kept: each change has a position, higher than all before.
 */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include <string.h>

#include <tidings/provider.h>

#include "store/changelog.h"
#include "store/entity_rows.h"

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
    /* Of a store that nodes share (store/shared.h), no resource: */
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

/* A task of a tool (handler/task.h), for those who ask for its result after a restart, or another
 * node that shares the store. */
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

struct transfer_ops; /* store/transfer.h */

/* What a store that outlives the program can do beyond struct entity_rows_ops. */
struct kept_ops {
    /* Inside a batch. A failure leaves nothing but rollback. */
    int (*publish)(struct entity_rows *rows, const struct published_row *row,
                   uint64_t *ret_position, struct tidings_error *err);
    /* Of `gone` the URI, the metadata and whether it was subscribable count. */
    int (*unpublish)(struct entity_rows *rows, const struct published_row *gone,
                     uint64_t *ret_position, struct tidings_error *err);
    /* Everything that is published. */
    int (*each_published)(struct entity_rows *rows, published_row_fn fn, void *user,
                          struct tidings_error *err);
    /* What changed at the newest `max` positions, oldest first. *ret_floor: what happened up to
     * this one is not among them. */
    int (*each_change)(struct entity_rows *rows, size_t max, uint64_t *ret_floor, kept_change_fn fn,
                       void *user, struct tidings_error *err);
    /* A change log whose cursors outlive the program; a new epoch begins. Outside of batches. */
    int (*create_changelog)(struct entity_rows *rows, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);
    const struct transfer_ops *transfer; /* copying it into another */
    /* Tasks; NULL: they are not kept here. Inside a batch: keep one, instead of another with its
     * id, unless that has ended (TIDINGS_E_CONFLICT) or there is no room for it (TIDINGS_E_LIMIT);
     * forget those whose time to live has passed at that Unix time. `each_task`: outside. */
    int (*put_task)(struct entity_rows *rows, const struct kept_task *task,
                    struct tidings_error *err);
    int (*sweep_tasks)(struct entity_rows *rows, int64_t now_ms, struct tidings_error *err);
    int (*each_task)(struct entity_rows *rows, kept_task_fn fn, void *user,
                     struct tidings_error *err);
};

#endif
