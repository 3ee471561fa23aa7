/* SPDX-License-Identifier: MIT
 *
 * Two nodes in one process: a hub and a worker's core each (support/harness_core.h), with a store
 * of sessions in memory that they share and change logs that understand each other's positions.
 *
 *     struct nodes all;
 *     nodes_start(&all);
 *     struct harness_session s;
 *     nodes_session(&all, 0, &s);                 // begins at the first
 *     nodes_update(&all, "kept://x/a");           // both hear of it, with one position
 *     nodes_bring(&all, 1, &s);                   // and goes on at the second
 *     nodes_stop(&all);
 *
 * "kept://x/" is in the store, "mem://x/" local to each node.
 */
#ifndef SUPPORT_NODES_H
#define SUPPORT_NODES_H

#include "engine/protocol/session_migration.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_subs.h"

#define NODES 2u
#define NODES_ROWS 32u

struct session_memory_row {
    char key[SESSION_KEY_LEN + 1]; /* empty: none */
    char *state;
    uint64_t generation;
    size_t node;
};

struct node {
    struct nodes *all;
    size_t index;
    struct harness b;
    struct stub kept, local;
    struct session_store store;
    struct changelog log;
    struct changelog *rows; /* the underlying store */
    struct {
        uint64_t position, seq;
    } marks[256];
    size_t mark_count;
    char moved[NODES_ROWS][SESSION_KEY_LEN + 1]; /* lost without a report to it */
    size_t moved_count;
    bool is_deaf;    /* it receives no wakeups */
    char missed[64]; /* unfollowed entries: the last letters of the stored ones */
    uint64_t missed_from;
    bool is_behind;        /* it follows nothing, … */
    bool is_lonely;        /* … not even that others have begun … */
    uint64_t others_ended; /* … or that they continue since this position; 0: it knows that */
    bool is_running;
};

struct nodes {
    struct node at[NODES];
    struct session_memory_row rows[NODES_ROWS];
    uint64_t position;
    uint64_t lost_below;           /* cursors from before are worth nothing at another node */
    bool is_unreachable;           /* the store */
    bool is_stuck;                 /* it answers nothing … */
    struct session_job *stuck[64]; /* … that was asked */
    size_t stuck_count;
    unsigned puts, takes, drops;
};

/* Before nodes_start the harness of each may be changed. */
void nodes_init(struct nodes *all);
void nodes_start(struct nodes *all);
void nodes_stop(struct nodes *all);
/* It ends as by kill -9: nothing more is written. */
void nodes_kill(struct nodes *all, size_t node);
/* Turns until nothing is under way anywhere. */
void nodes_run_until_idle(struct nodes *all);
/* The stored entries changed; both nodes are woken. */
void nodes_update(struct nodes *all, const char *uri);
/* It follows what it has missed. */
void nodes_catch_up(struct nodes *all, size_t node);
/* It is time to write the delivery positions of sessions. */
void nodes_tick(struct nodes *all, size_t node);
/* The node that lost a session may reclaim it at once. */
void nodes_forget_losses(struct nodes *all);
/* The store does what it was asked while it was stuck. */
void nodes_unstick(struct nodes *all);

/* Starts a session there; from now on that node is asked for `s`, as a transport does: the result
 * of session_await, or of its later callback (0 or negative). */
void nodes_session(struct nodes *all, size_t node, struct harness_session *s);
int nodes_bring(struct nodes *all, size_t node, struct harness_session *s);
/* The same for a stream that comes with this id; *ret becomes what nodes_bring returns, now or
 * later, SESSION_AWAITED before. */
void nodes_bring_stream(struct nodes *all, size_t node, struct harness_session *s,
                        const char *last_event_id, struct session_wait *wait, int *ret);
/* The row of a session; NULL: none. */
struct session_memory_row *nodes_row(struct nodes *all, const struct harness_session *s);

#endif
