/* SPDX-License-Identifier: MIT
 *
 * Sessions of the legacy era that go on at another node. Where nodes share a store, what a session
 * is (engine/protocol/session_migration_import.h) is written there when it changes, and a request
 * with the id of one that is not here waits while the store is asked; the session is made again
 * from what was written, and who had it before lets go of it.
 *
 *     A: initialize, subscribe ──put──> row of the session, generation 0
 *     B: any request with its id ──take──> generation 1: B's; A hears that, and ends its copy
 *     A: … and is asked again ──take──> generation 2: A's
 *
 * What a client was told that it has (a session, a subscription) is written before it is told so,
 * as long as the store answers; how far it was told, at most every second and when the server ends.
 * One write of a session is under way at a time, and the newest counts. A session too large for the
 * store does not move. Without a shared store none of this happens.
 */
#ifndef ENGINE_PROTOCOL_SESSION_MIGRATION_H
#define ENGINE_PROTOCOL_SESSION_MIGRATION_H

#include "base/str.h"
#include "base/thread.h"
#include "engine/protocol/session.h"

struct session_store;

#define SESSION_WRITE_MS 1000u /* between two writes of how far a session was told */
#define SESSION_WRITES 128u    /* of these in a tick, of one worker; the rest has its turn later */
#define SESSION_HOLD_MS 250u   /* who lost one does not take it back earlier than that */
#define SESSION_IMPORTS 1024u  /* under way on one worker */
#define SESSION_AWAIT_MS 5000u /* a request waits for its session */

/* ---- of a worker ----------------------------------------------------------------------------- */

/* From now on its sessions are kept in `store`, which outlives it. TIDINGS_E_NOMEM. */
int sessions_share(struct worker *worker, struct session_store *store, struct tidings_error *err);
/* The store has lost what it had committed: all of them are written again. */
void sessions_write_again(struct worker *worker);
/* The session of this row is another node's now. */
void session_migrated(struct worker *worker, struct tidings_str key);

/* ---- of a session ---------------------------------------------------------------------------- */

/* Something of it changed that has to be kept; the answer to `request` (NULL: none) waits for it.
 */
void session_changed(struct session *session, struct request *request);
/* The same of a subscription as `request` asked for it. */
void session_subscribed(struct session *session, struct request *request,
                        struct tidings_str as_requested);

/* ---- asked for by a request ------------------------------------------------------------------ */

/* Who waits for a session to be here. */
struct session_wait {
    struct list link;
    /* 0: go on, it is here or there is none; TIDINGS_E_CONFLICT: it has just been taken, ask again;
     * else negative: nobody knows, try again later. */
    void (*done)(struct session_wait *wait, int code);
    void *user;
};

enum session_await_result {
    SESSION_READY,   /* go on: it is here, or nowhere */
    SESSION_AWAITED, /* `wait` is told later, not before this returns */
    SESSION_REFUSED, /* a limit (`why`) stands against having it here */
    SESSION_BUSY,    /* not now: the server ends, or too much is under way */
};
/* What a request says of its session. */
struct session_lookup {
    struct tidings_str id;
    bool is_stream;                   /* it opens one */
    struct tidings_str last_event_id; /* or empty */
};
/* Perhaps; false: surely not, and nobody need wait. */
bool session_may_be_elsewhere(const struct worker *worker, const struct session_lookup *asked);
/* Is it here, with its subscriptions? One that is on its way has none yet. */
bool session_has_arrived(const struct worker *worker, struct tidings_str id);
/* Does its client come with an event that was given out after the session left this node, whose
 * copy knows nothing of what followed? */
bool session_was_elsewhere(struct channel *channel, const struct session_lookup *asked);
/* Or with one of another node that this one has not come to yet? */
bool session_is_behind_client(struct channel *channel, const struct session_lookup *asked);
/* May the session, of the principal of `channel`, be at another node? Then it is brought here. And
 * before a stream is opened the store is asked whether it is ours still, and this node comes as far
 * as the one where the last event was told. */
enum session_await_result session_await(struct session_wait *wait, struct channel *channel,
                                        const struct session_lookup *asked, struct refusal *why);
void session_await_cancel(struct session_wait *wait);

/* -------------------------------------------------------------------------------------------------
 * Where sessions are kept that may go on at another node: what session_migration asks of it. The
 * server has one over the store that nodes share; tests have one in memory.
 *
 * A session is one row. Its key is the session's id and whose it is, so that somebody else's is not
 * even found. A row belongs to a node; taking it makes it the taker's and counts (`generation`),
 * and who had it before cannot write it any more.
 */

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
    struct thread_message message;
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

/* -------------------------------------------------------------------------------------------------
 * What the files session_migration*.c share: sessions are written to the store,
 * made again from it (session_migration_import.c), and answers wait for both.
 */

#define SESSION_LOST 64u /* sessions that went, and are remembered for a moment */

/* Of one worker. */
struct session_migrations {
    struct worker *worker;
    struct session_store *store;
    struct list all; /* struct session_migration; whose turn to be written comes first */
    size_t count;
    struct loop_timer *tick; /* runs while there are any */
    struct map imports;      /* struct session_import by key */
    bool is_failing;         /* the last write failed, and it was logged */
    struct {
        uint64_t hash, ms;
    } lost[SESSION_LOST]; /* ring */
    unsigned lost_next;
};

struct session_import;

struct session_migration {
    struct list link; /* in movers->all */
    struct session *session;
    struct session_migrations *movers;
    char key[SESSION_KEY_LEN + 1];
    uint64_t generation;        /* of the row, when it was last taken or made */
    uint64_t changes, written;  /* so many there were, and so many of them are written */
    uint64_t under_way;         /* … and will be, when the job is done */
    uint64_t cursor, stream_no; /* as they were written last */
    uint64_t written_ms;
    struct session_job *job; /* one at a time; NULL: none */
    struct list deferred;    /* struct deferred_answer */
    struct map options;      /* struct stored_options: what subscriptions were asked with */
    struct buf refused;      /* quoted URIs of subscriptions that could not come along, each ends in
                              * a line break */
    struct session_import *confirming; /* is it ours still? NULL: nobody asks … */
    uint64_t confirmed;                /* … which the write of this change says */
    unsigned taken_stream;             /* the highest that had been written when it was adopted */
    bool is_imported;
    bool is_arriving;   /* its subscriptions are not made yet: what is written stays as it is */
    bool is_incomplete; /* not all is known that would have to be written */
    bool is_unfit;      /* … or it is too large, which was said */
    bool is_unwritten;  /* there is no row of it */
    bool is_gone;       /* it is another node's */
    bool is_ended;      /* at every node */
};

/* Its copy here ends, and its streams; it goes on elsewhere. */
void session_let_go(struct session_migration *m);
/* What a subscription was asked with, as text. false: out of memory. */
bool session_keep_options(struct session_migration *m, struct tidings_str as_requested,
                          struct tidings_str options);
/* It is written: it is ours still (0), that cannot be found out (BUSY), or it is not (CONFLICT). */
void session_confirm(struct session_import *a, int code);
/* How long until it may be taken back. */
uint64_t session_hold_ms(const struct session_migrations *movers, struct tidings_str key);
/* Frees what is under way. */
void session_imports_end(struct session_migrations *movers);

#endif
