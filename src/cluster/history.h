/* SPDX-License-Identifier: MIT
 *
 * Validity of cursors between the nodes of a cluster, and detection of data losses in the store
 * that they share. No I/O: the caller reads the state of the store, and acts on the decision.
 *
 * Several nodes share a store. An *incarnation* is one run of one node. Its epoch is a random
 * number and part of its cursors. The store gives each change a *position*, under a lock that is
 * held until the commit. Positions therefore form one order, which all nodes see without gaps. A
 * node announces changes with positions in that order, but numbers them itself, together with its
 * local changes. So a cursor is (epoch of the incarnation, number, position) and means "everything
 * up to here was sent". The node that made the cursor uses the number, every other node uses the
 * position.
 *
 * A store may lose data that it had committed, and that clients have already received:
 *   - It crashed. Announcements are gone (they are not durable, and no commit waits for the disk),
 *     and the counter of positions went back to the last commit on disk. All durable changes are
 *     still there: their commits were on disk before any client received them.
 *   - Another server took over that had not received everything, or an older copy was restored.
 *     Durable changes are gone too.
 * That is a *data loss*. A node detects it when it connects or begins a batch (incarnations_check):
 * before it takes any position, so under the lock. That node records the data loss as a row of the
 * store with its own position, and all nodes follow it like any other row: (`kept`, `began`].
 * Earlier changes survive up to `kept`. The data loss has the position `began`, and everything
 * after it has higher ones. Positions in between were perhaps announced, and are gone.
 *
 * `began` exceeds all issued positions by a large random distance, so that no position ever means
 * two things:
 *   - A position shows after which data losses it was made. No information about the lifetime of
 *     the incarnation that issued it is necessary, even if that survived data losses.
 *   - A disconnected node finds all newer changes, and no others, above its followed position:
 *     first the data loss.
 *   - A server may take over that lost the row of an earlier data loss, and get a data loss itself.
 *     Positions after the lost row are below the new `began`, or so far above it that they are
 *     never reached.
 *
 * These are the rules. A cursor of an incarnation that this store knows, with position p, is valid
 *   - for durable changes, if no data loss with `began` > p lost durable changes, and none has p in
 *     (`kept`, `began`). Then everything durable up to p was sent and is still valid, and
 *     everything newer has a higher position. For data losses that lost durable changes, `kept`
 *     does not help: a client may have received changes beyond the position in its cursor (changes
 *     that wait in a window hold the cursor back).
 *   - for announcements, if no data loss has `began` > p.
 * Otherwise the client gets `truncated`. So do all clients of a node that follows a data loss, by
 * one row of its log with the position `began`. That row also reaches clients that resume at the
 * same node with an earlier number.
 *
 * Requirements on the store:
 *   - Rows of incarnations and data losses are durable; the counter is in the locked row.
 *   - The data loss, the counter (= `began`), the mark that crashes remove and the name of the
 *     server are written in one transaction that waits for the disk.
 *   - One statement follows all kinds of rows, so from one snapshot: otherwise rows that were
 *     committed between two statements would be missed.
 *   - When an incarnation begins, the incarnations of all dead nodes get the newest position as
 *     `last`. A node whose own incarnation was ended that way begins it again (INCARNATION_LIVES).
 *     That rejects cursors made after a copy, if the copy was restored while no node ran.
 *   - A node that follows a data loss with lost durable changes reads all rows of incarnations and
 *     data losses again (and refreshes all other cached state): some rows that it followed are
 *     gone, and some existing rows have positions below its followed position.
 *   - If announcements were removed (the table is bounded) before a node followed them, the node
 *     makes its clients resync: incarnations_miss.
 *
 * One internal lock: thread-safe.
 */
#ifndef CLUSTER_HISTORY_H
#define CLUSTER_HISTORY_H

#include <tidings/types.h>

#define INCARNATIONS_MAX 1000u       /* then the oldest is evicted, and its cursors are rejected */
#define INCARNATIONS_LOSSES_MAX 100u /* then cursors from before the oldest are rejected */
#define INCARNATIONS_POSITIONS_MAX                                                                 \
    4096u /* then every second of the older half is forgotten: an answer is lower                  \
           * than need be */

/* Each jump of the counter is at least this large, and less than twice as large. */
#define INCARNATIONS_JUMP (UINT64_C(1) << 40)
#define INCARNATIONS_POSITION_MAX ((uint64_t)INT64_MAX - 4 * INCARNATIONS_JUMP)

#define INCARNATIONS_AHEAD_MAX                                                                     \
    (UINT64_C(1) << 20) /* a node that lags more than this rejects cursors */

#define INCARNATION_LIVES UINT64_MAX

struct data_loss {
    uint64_t kept, began;
    bool is_lossy; /* durable changes may be gone */
};

struct incarnations;

/* Creates the state of the incarnation `epoch` of `cluster` (the random name that its store got at
 * creation). Its numbers begin with the position `first`: up to that, numbers are positions. */
int incarnations_create(uint64_t cluster, uint64_t epoch, uint64_t first, struct incarnations **ret,
                        struct tidings_error *err);
void incarnations_destroy(struct incarnations *r); /* NULL is fine */

/* ---- what was read in the store -------------------------------------------------------------- */

/* Adds an incarnation that reached `last` or lives. Updates `last` of a known one. */
void incarnations_add(struct incarnations *r, uint64_t epoch, uint64_t last);
/* Adds a data loss that was followed, or existed before this incarnation began. Ignores known
 * ones. */
void incarnations_add_loss(struct incarnations *r, const struct data_loss *b);
/* Returns where the newest known data loss began; 0: there was none. Announcements from before it
 * are gone. */
uint64_t incarnations_newest_loss(struct incarnations *r);
/* Everything up to here was followed, or written here. */
void incarnations_follow(struct incarnations *r, uint64_t position, bool is_durable);
uint64_t incarnations_followed(struct incarnations *r);
/* Returns true if announcements up to `floor` were removed before this node followed them. Then all
 * clients must resync, by a row of the log with the position `floor`, in order with the followed
 * rows. (An earlier row would have a lower number than cursors of other nodes stand for, and
 * clients with such cursors would miss it.) */
bool incarnations_miss(struct incarnations *r, uint64_t floor);

/* ---- cursors --------------------------------------------------------------------------------- */

/* A change with that position got that number here. Both rise. */
void incarnations_map_position(struct incarnations *r, uint64_t number, uint64_t position);

enum incarnations_answer {
    INCARNATIONS_GOOD,
    INCARNATIONS_AHEAD, /* this node has not reached that position: follow, then ask again. A client
                           that does not wait resumes at the newest number and receives some changes
                           twice. If the position is lost, this node has yet to follow and announce
                           the data loss */
    INCARNATIONS_REFUSED, /* the incarnation is unknown, or its announcements are lost */
};
/* *ret: the number here that a cursor of that incarnation with that position stands for. Everything
 * with a higher position has a higher number; something with a lower one may have. */
enum incarnations_answer incarnations_resume(struct incarnations *r, uint64_t epoch,
                                             uint64_t position, bool is_durable, uint64_t *ret);

/* ---- the state of the store ------------------------------------------------------------------ */

/* The state of the store, read under the lock. */
struct store_state {
    uint64_t cluster;
    uint64_t server;     /* identifies the server and its timeline, possibly as a checksum */
    uint64_t recorded;   /* the same, as recorded with the newest data loss, or at first */
    bool has_crash_mark; /* the row that crashes remove */
    uint64_t position;   /* the counter */
    const struct data_loss *data_losses; /* the newest INCARNATIONS_LOSSES_MAX, oldest first */
    size_t data_loss_count;
};

enum store_verdict {
    STORE_SAME, /* no change; data losses that other nodes recorded are followed like other rows */
    STORE_CRASHED,   /* record *ret */
    STORE_REPLACED,  /* the same: another server, or an older copy */
    STORE_WENT_BACK, /* the same: changes followed here are missing */
    STORE_OTHER,     /* of another cluster, or it had its last data loss: it must not be used */
};
/* `random`: a random number; *ret is set if it must be recorded. `r` NULL: the node has no
 * incarnation yet, and has followed nothing. */
enum store_verdict incarnations_check(struct incarnations *r, const struct store_state *state,
                                      uint64_t random, struct data_loss *ret);

#endif
