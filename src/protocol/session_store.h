/* SPDX-License-Identifier: MIT
 *
 * Where sessions are kept that may go on at another node: what session_moving asks of it. The
 * server has one over the store that nodes share; tests have one in memory.
 *
 * A session is one row. Its key is the session's id and whose it is, so that somebody else's is not
 * even found. A row belongs to a node; taking it makes it the taker's and counts (`generation`),
 * and who had it before cannot write it any more.
 */
#ifndef PROTOCOL_SESSION_STORE_H
#define PROTOCOL_SESSION_STORE_H

#include "base/mailbox.h"
#include "base/str.h"
#include "protocol/session.h"

#define SESSION_KEY_LEN (SESSION_ID_LEN + 65u) /* the id, a dot, 64 hex digits */

struct session_job;

enum session_op {
    SESSION_PUT,  /* write `state`, if the row is of that `generation` still; 0: or there is none */
    SESSION_TAKE, /* it is ours from now on: `state` and `generation` are filled in */
    SESSION_DROP, /* there is none any more, if it is of that `generation` still */
    SESSION_END,  /* … whoever has it, who hears of it like of a taking */
};

struct session_store {
    size_t max_bytes; /* of a state */
    /* Takes the job; from any worker's thread. It is answered exactly once, by session_job_answer,
     * not before this returns unless on another thread. Jobs of one worker are done in the order
     * they came. */
    void (*submit)(struct session_store *store, struct session_job *job);
};

/* Something the store is asked to do. */
struct session_job {
    enum session_op op;
    char key[SESSION_KEY_LEN + 1];
    struct buf state;
    uint64_t generation; /* how often the row was taken */
    /* The answer. PUT: 0; TIDINGS_E_CONFLICT: it was taken since. TAKE: 1; 0: there is none. All:
     * TIDINGS_E_BUSY, _UNKNOWN and others: the store cannot be reached. */
    int code;
    struct tidings_error err;
    /* On the worker; NULL: nobody waits. The job is freed afterwards. Not called when the worker
     * has ended. */
    void (*done)(struct session_job *job, struct worker *worker);
    void *user; /* the asker may make it NULL meanwhile */
    /* private */
    struct letter letter;
    struct mailbox *reply_to; /* of the worker that asks; a reference */
};

/* For what `worker` asks; NULL: out of memory. */
struct session_job *session_job_create(struct worker *worker, enum session_op op,
                                       struct tidings_str key);
/* Any thread: it is done, `code` (and `err`) say how. */
void session_job_answer(struct session_job *job);

/* The key of the session with that id, if it is of `principal`. */
void session_make_key(struct tidings_str id, const struct principal *principal,
                      char ret[SESSION_KEY_LEN + 1]);

#endif
