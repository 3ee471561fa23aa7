/* SPDX-License-Identifier: MIT
 *
 * Which cursors of other nodes are good at a node of a cluster, and whether the store they share
 * lost something. Without I/O: whoever talks to the store says what is there, and does what is
 * decided.
 *
 * Several nodes share a store. An *incarnation* is one life of one node; its epoch is a random
 * number, and stands in its cursors. The store gives each change a *position*, under a lock that is
 * held to the commit, so positions are those of one order that all nodes see without gaps. A node
 * tells its clients of what has positions in that order, but numbers it by itself, together with
 * what only it has. So a cursor is (epoch of the incarnation, number, position): "everything up to
 * here was told". At the node that made it the number counts, at every other the position.
 *
 * A store may lose what it had committed, and what clients have been told of already:
 *   - It crashed. Announcements (of which nothing is kept, and no commit waits for the disk) are
 *     gone, and the counter of positions went back to the last commit that was on the disk. What is
 *     durable is all there: its commit was on the disk before anybody saw it.
 *   - Another server took over that had not received everything, or an older copy was put in its
 *     place. Durable changes are gone too.
 * That is a *data loss*. It is noticed when a node connects, or begins a batch
 * (incarnations_check): before any position is taken, so under the lock. Who notices writes the
 * data loss down, as a row of the store with a position of its own, and everybody follows it like
 * any other: (`kept`, `began`]. What is there up to `kept` is what is left of before; the data loss
 * has the position `began`, and everything after it higher ones. Positions between were perhaps
 * told, and are gone.
 *
 * `began` lies so far above whatever was given out, by a distance that is random, that no position
 * means two things, ever:
 *   - A position says by itself before or after which data losses it was made. Nothing has to be
 *     known of how long the incarnation lived that gave it, also when that lived through data
 *     losses.
 *   - A node that was away finds everything that came since above what it had followed, and nothing
 *     else: first the data loss.
 *   - A server may take over that lost a data loss which another had written down, and get one of
 *     its own. Positions that followed the lost one are below the new one's `began`, or so far
 *     above it that they are never reached.
 *
 * The rules, then. A cursor of an incarnation that this store knows, with position p, is good
 *   - for what is durable, when no data loss with `began` > p lost durable changes, and none has p
 *     in (`kept`, `began`): then everything durable up to p was told and is still so, and
 *     everything that came since has a higher position. Of data losses that lost durable changes
 *     `kept` does not help: what a client was told may be beyond the position in its cursor (what
 *     waits in a window holds the cursor back).
 *   - for what is only announced, when no data loss has `began` > p.
 * Else the client is told to look again (`truncated`), and so is everybody at a node that follows
 * a data loss: by one row of its log with the position `began`. That row also tells those who come
 * back to the same node with a number from before it.
 *
 * What the store has to do for this:
 *   - Rows of incarnations and data losses are durable; the counter is in the row that is locked.
 *   - The break, the counter (= `began`), the mark that crashes remove and the name of the server
 *     are written in one transaction that waits for the disk.
 *   - All kinds of rows are followed by one statement, that is, from one snapshot: else a row that
 *     was committed between two of them is passed over.
 *   - When an incarnation begins, each other whose node does not live any more gets as `last` the
 *     newest position; a node that finds its own incarnation ended so begins it again
 *     (INCARNATION_LIVES). That refuses cursors from after an old copy was made which was put in
 *     place while no node ran.
 *   - Who follows a data loss that lost durable changes reads all rows of incarnations and data
 *     losses again (and whatever else it remembers of the store): some of what it followed is gone,
 *     and some of what is there has positions below what it had followed.
 *   - What is announced and no longer there (the table is bounded) makes a node that had not come
 *     so far look again: incarnations_miss.
 *
 * One lock inside: any thread may ask.
 */
#ifndef CLUSTER_HISTORY_H
#define CLUSTER_HISTORY_H

#include <tidings/types.h>

#define INCARNATIONS_MAX 1000u       /* then the oldest is forgotten, its cursors refused */
#define INCARNATIONS_LOSSES_MAX 100u /* then cursors from before the oldest are refused */
#define INCARNATIONS_POSITIONS_MAX                                                                 \
    4096u /* then every second of the older half is forgotten: an answer is lower                  \
           * than need be */

/* Every jump of the counter is at least so large, and less than twice. */
#define INCARNATIONS_JUMP (UINT64_C(1) << 40)
#define INCARNATIONS_POSITION_MAX ((uint64_t)INT64_MAX - 4 * INCARNATIONS_JUMP)

#define INCARNATIONS_AHEAD_MAX                                                                     \
    (UINT64_C(1) << 20) /* a node further behind than this refuses cursors */

#define INCARNATION_LIVES UINT64_MAX

struct data_loss {
    uint64_t kept, began;
    bool is_lossy; /* durable changes may be gone */
};

struct incarnations;

/* Of the incarnation with that epoch at that cluster (the random name its store got when it was
 * made), whose numbers begin with the position `first`: up to it a number is a position. */
int incarnations_create(uint64_t cluster, uint64_t epoch, uint64_t first, struct incarnations **ret,
                        struct tidings_error *err);
void incarnations_destroy(struct incarnations *r); /* NULL is fine */

/* ---- what was read in the store -------------------------------------------------------------- */

/* An incarnation is known, and came to `last` or lives. Known already: its `last` is another now.
 */
void incarnations_add(struct incarnations *r, uint64_t epoch, uint64_t last);
/* A data loss was followed, or was there before this incarnation began. Known already: nothing
 * happens. */
void incarnations_add_loss(struct incarnations *r, const struct data_loss *b);
/* Where the newest data loss began that is known; 0: there was none. What was only announced before
 * it is gone. */
uint64_t incarnations_newest_loss(struct incarnations *r);
/* Everything up to here was followed, or written here. */
void incarnations_follow(struct incarnations *r, uint64_t position, bool is_durable);
uint64_t incarnations_followed(struct incarnations *r);
/* Were there announcements that this node has not followed and cannot any more, all up to `floor`
 * being gone? Then everybody is told to look again: by a row of the log that has the position
 * `floor`, in its place among what is followed. (Told before that it would have a number lower than
 * what cursors of other nodes stand for, and who comes with one would not hear of it.) */
bool incarnations_miss(struct incarnations *r, uint64_t floor);

/* ---- cursors --------------------------------------------------------------------------------- */

/* A change with that position got that number here. Both rise. */
void incarnations_map_position(struct incarnations *r, uint64_t number, uint64_t position);

enum incarnations_answer {
    INCARNATIONS_GOOD,
    INCARNATIONS_AHEAD, /* this node has not come so far: follow, then ask again. Who does not wait
                         * goes on at the newest number and hears some changes twice; if it was a
                         * position that is lost, the data loss is yet to be followed here, and told
                         */
    INCARNATIONS_REFUSED, /* nothing is known of that incarnation, or what it told is gone */
};
/* *ret: the number here that a cursor of that incarnation with that position stands for. Everything
 * with a higher position has a higher number; something with a lower one may have. */
enum incarnations_answer incarnations_resume(struct incarnations *r, uint64_t epoch,
                                             uint64_t position, bool is_durable, uint64_t *ret);

/* ---- the state of the store ------------------------------------------------------------------ */

/* What is there, under the lock. */
struct store_state {
    uint64_t cluster;
    uint64_t server;     /* names the server and its timeline, or a sum of what does */
    uint64_t recorded;   /* the same, as it was written down with the newest data loss, or first */
    bool has_crash_mark; /* the row that crashes remove */
    uint64_t position;   /* the counter */
    const struct data_loss *data_losses; /* the newest INCARNATIONS_LOSSES_MAX, oldest first */
    size_t data_loss_count;
};

enum store_verdict {
    STORE_SAME,    /* go on; data losses that others wrote down are followed like everything else */
    STORE_CRASHED, /* write *ret down */
    STORE_REPLACED,  /* the same: it is another server, or an older copy */
    STORE_WENT_BACK, /* the same: what was followed here is not there */
    STORE_OTHER, /* of another cluster, or it had its last data loss: nothing may be done there */
};
/* `random`: a random number; *ret is filled where it is to be written. `r` NULL: of a node that has
 * no incarnation yet, and has followed nothing. */
enum store_verdict incarnations_check(struct incarnations *r, const struct store_state *state,
                                      uint64_t random, struct data_loss *ret);

#endif
