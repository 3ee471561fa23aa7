/* SPDX-License-Identifier: MIT
 *
 * A store that several nodes write to: what one of them has to know of the others. A third
 * interface of the same object, beside store/entity_rows.h and store/kept.h.
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
#ifndef STORE_SHARED_H
#define STORE_SHARED_H

#include "store/kept.h"

#define SHARED_NAME_MAX 128u            /* of a node, a lease */
#define SHARED_SESSION_MAX (256u << 10) /* bytes of a session's state */
#define SHARED_TASK_ID_MAX 128u
#define SHARED_TASK_CLIENT_MAX 4096u        /* bytes of its client's name … */
#define SHARED_TASK_MESSAGE_MAX 4096u       /* … of its message */
#define SHARED_TASK_PAYLOAD_MAX (64u << 20) /* … of its result */
#define SHARED_TASK_ASKED_MAX (40u << 20)   /* … of what is asked, and of answers */
#define SHARED_TASKS_AT_ONCE 64u            /* that are failed, or forgotten, in one batch */

/* A program that serves from this store, as the others see it. */
struct node_row {
    struct tidings_str name;    /* unique among those that live */
    struct tidings_str version; /* of the program */
    struct tidings_str state;   /* JSON text: addresses, counts, lag; at most 4 KiB */
    uint64_t epoch;             /* of its change log: its run */
    uint64_t followed;          /* how far it has read */
    int64_t begun_ms;           /* Unix time of the store */
    int64_t left_ms;            /* until it counts as gone; below 0: since then */
    /* How old the oldest change was that it had not followed when it wrote its row (0: it had
     * followed all; -1: it did not say), and how old the oldest is now that comes after
     * `followed`. By the store's clock. */
    int64_t behind_ms, behind_now_ms;
};
typedef bool (*node_row_fn)(void *user, const struct node_row *row);

/* A session of the legacy era. */
struct session_row {
    struct tidings_str id;
    struct tidings_str node;  /* who has it */
    struct tidings_str state; /* JSON text */
    uint64_t generation;      /* how often it was taken; a write that knows an older
                               * one is refused. In databases the column `turn` */
    int64_t used_ms;          /* Unix time of the store */
};

/* How others' changes came here, counted. */
struct shared_heard {
    uint64_t told; /* batches that came as notices with all of their rows, and were applied … */
    uint64_t changes; /* … and so many changes in them */
    uint64_t asked;   /* questions to the store */
    uint64_t refused; /* notices that somebody else wrote, or altered */
};

struct shared_ops {
    /* Everything that others committed since the last time, in the order of positions. Outside of
     * batches, and right after `begin`. What `fn` was given counts as followed. */
    int (*follow)(struct entity_rows *rows, kept_change_fn fn, void *user,
                  struct tidings_error *err);
    /* Everything up to this position was followed, or written here. */
    uint64_t (*followed)(struct entity_rows *rows);
    /* Clients are served from now on: errors do not say where the store is, nor what it says. May
     * be NULL, and so may `explain`: for the log, the text of `err` or all that is known of it. */
    void (*conceal)(struct entity_rows *rows);
    const char *(*explain)(struct entity_rows *rows, const struct tidings_error *err);
    /* The newest position of all, asked of the store. Outside of batches. */
    int (*newest)(struct entity_rows *rows, uint64_t *ret, struct tidings_error *err);
    /* A descriptor that becomes readable when others have committed, or that way is lost; -1: there
     * is none now, ask `follow` every so often. May be another one after each call of anything. */
    int (*descriptor)(struct entity_rows *rows);
    /* It is readable. 1: there may be something to follow. */
    int (*wake)(struct entity_rows *rows);
    /* Before the descriptor is waited for, outside of batches: has something come meanwhile, with
     * the answers to other questions, for which it will not be readable any more? Then it is to be
     * followed. NULL: never. */
    bool (*has_news)(struct entity_rows *rows);
    /* Any thread. NULL: nobody counts. */
    void (*heard)(struct entity_rows *rows, struct shared_heard *ret);

    /* A batch without the lock, for who can run it again: it is decided from what was followed, and
     * what it writes is kept back and sent with the commit, which fails if anybody else committed
     * since. true: it has begun, everything was followed. false: not this time, take `begin`. May
     * be NULL, with the next one: never. */
    bool (*begin_unlocked)(struct entity_rows *rows);
    /* An operation of such a batch has failed, or its commit: true, what was decided in it does not
     * count, refusals neither; after rollback it is run again from `begin` on, at once. After
     * TIDINGS_E_UNKNOWN of the commit that may find that it was not kept: if it fails, or anything
     * of that batch, it is not known. */
    bool (*must_run_again)(struct entity_rows *rows);

    /* Inside a batch: something changed of which the store keeps nothing but that, and not for
     * ever (KEPT_ANNOUNCED, KEPT_MOUNTED). A batch of nothing else does not wait for the disk. */
    int (*announce)(struct entity_rows *rows, enum kept_kind kind,
                    const struct tidings_change *change, uint64_t *ret_position,
                    struct tidings_error *err);

    /* What time it is by the clock that all nodes have in common, Unix time; and how far this
     * machine's is ahead of it (below 0: behind; 0: not so far that it matters). NULL: by this
     * machine's. */
    int64_t (*now)(struct entity_rows *rows);
    int64_t (*clock_off)(struct entity_rows *rows);

    /* The rest outside of batches; each is a transaction of its own. */

    /* Take or keep `name` for `holder`, for so long from when this was called. 1: it is the
     * holder's; 0: another's, for *ret_left_ms (may be NULL) yet. */
    int (*lease)(struct entity_rows *rows, struct tidings_str name, struct tidings_str holder,
                 int64_t for_ms, int64_t *ret_left_ms, struct tidings_error *err);
    int (*release)(struct entity_rows *rows, struct tidings_str name, struct tidings_str holder,
                   struct tidings_error *err);

    /* This node lives, for so long. TIDINGS_E_EXISTS: another one that lives has its name. Of `row`
     * `name`, `version`, `state` and `followed` count, the rest is known to the store. */
    int (*put_node)(struct entity_rows *rows, const struct node_row *row, int64_t for_ms,
                    struct tidings_error *err);
    int (*drop_node)(struct entity_rows *rows, struct tidings_str name, struct tidings_error *err);
    /* By name; those that have been gone for a day are forgotten. */
    int (*each_node)(struct entity_rows *rows, node_row_fn fn, void *user,
                     struct tidings_error *err);

    /* Write what changed of a session (generation 0: a new one). TIDINGS_E_CONFLICT: it was taken
     * since.
     */
    int (*put_session)(struct entity_rows *rows, const struct session_row *row,
                       struct tidings_error *err);
    /* It is `node`'s from now on; who had it before follows a KEPT_SESSION. 1; 0: there is none. */
    int (*take_session)(struct entity_rows *rows, struct tidings_str id, struct tidings_str node,
                        struct session_row *ret, struct tidings_error *err);
    int (*drop_session)(struct entity_rows *rows, struct tidings_str id, struct tidings_error *err);
    /* Forget those that nobody used for so long. */
    int (*age_sessions)(struct entity_rows *rows, int64_t idle_ms, struct tidings_error *err);

    /* A task (store/kept.h), inside of batches and outside. 1; 0: there is none, its time has
     * passed, or its row is none of ours. */
    int (*find_task)(struct entity_rows *rows, struct tidings_str id, struct kept_task *ret,
                     struct tidings_error *err);
    /* Inside a batch: what was answered and not taken is that now. put_task leaves it as it is. */
    int (*put_task_answers)(struct entity_rows *rows, struct tidings_str id,
                            struct tidings_str answers, struct tidings_error *err);
    /* Are there tasks whose node is gone, or whose time has passed? 1; 0. */
    int (*has_stale_tasks)(struct entity_rows *rows, struct tidings_error *err);
    /* Inside a batch: the former become `end`, in all but id, client and times, and the latter are
     * forgotten; `fn` gets the id of each, and whether it is forgotten. At most
     * SHARED_TASKS_AT_ONCE of both. */
    int (*end_stale_tasks)(struct entity_rows *rows, const struct kept_task *end,
                           void (*fn)(void *user, struct tidings_str id, bool is_gone), void *user,
                           struct tidings_error *err);

    /* 32 bytes that all nodes have alike, for seals; made with the store. */
    int (*secret)(struct entity_rows *rows, unsigned char out[32], struct tidings_error *err);
};

#endif
