/* SPDX-License-Identifier: MIT
 *
 * Session migration: legacy sessions move between nodes. Where nodes share a store, each node
 * writes the state of a session (engine/protocol/session_migration_import.h) there when it changes.
 * A request with the id of a session that is not here waits for a query of the store; this node
 * then recreates the session from the stored state, and the previous node releases it.
 *
 *     A: initialize, subscribe ──put──> row of the session, generation 0
 *     B: any request with its id ──take──> generation 1: B's; A hears that, and ends its copy
 *     A: … and is asked again ──take──> generation 2: A's
 *
 * The server writes new state (a session, a subscription) before it confirms it to the client, as
 * long as the store answers. It writes the client's position at most every second and when the
 * server ends. A session has one write under way at a time, and the newest state counts. A session
 * too large for the store does not move. None of this happens without a shared store.
 */
#ifndef ENGINE_PROTOCOL_SESSION_MIGRATION_H
#define ENGINE_PROTOCOL_SESSION_MIGRATION_H

#include "base/str.h"
#include "base/thread.h"
#include "engine/protocol/session.h"

struct session_store;

#define SESSION_WRITE_MS 1000u /* between two writes of a session's position */
#define SESSION_WRITES 128u    /* sessions written per tick by one worker; others wait */
#define SESSION_HOLD_MS 250u   /* the previous node takes a lost session no earlier than this */
#define SESSION_IMPORTS 1024u  /* under way on one worker */
#define SESSION_AWAIT_MS 5000u /* time that a request waits for its session */

/* ---- of a worker ----------------------------------------------------------------------------- */

/* From now on the worker keeps its sessions in `store`, which outlives it. TIDINGS_E_NOMEM. */
int sessions_share(struct worker *worker, struct session_store *store, struct tidings_error *err);
/* The store has lost what it had committed: all sessions are rewritten. */
void sessions_write_again(struct worker *worker);
/* The session of this row belongs to another node now. */
void session_migrated(struct worker *worker, struct tidings_str key);

/* ---- of a session ---------------------------------------------------------------------------- */

/* Part of the session's stored state changed; the answer to `request` (NULL: none) waits for the
 * write. */
void session_changed(struct session *session, struct request *request);
/* The same for a subscription with the options in `request`. */
void session_subscribed(struct session *session, struct request *request,
                        struct tidings_str as_requested);

/* ---- asked for by a request ------------------------------------------------------------------ */

/* A request or stream that waits for its session. */
struct session_wait {
    struct list link;
    /* 0: continue, the session is here or does not exist; TIDINGS_E_CONFLICT: another node has just
     * taken it, ask once more; else negative: unknown, retry later. */
    void (*done)(struct session_wait *wait, int code);
    void *user;
};

enum session_await_result {
    SESSION_READY,   /* continue: it is here, or nowhere */
    SESSION_AWAITED, /* `wait->done` is called later, not before this returns */
    SESSION_REFUSED, /* a limit (`why`) does not allow it here */
    SESSION_BUSY,    /* not now: the server ends, or too many are under way */
};
/* The session of a request, as the request describes it. */
struct session_lookup {
    struct tidings_str id;
    bool is_stream;                   /* it opens one */
    struct tidings_str last_event_id; /* or empty */
};
/* Returns false if the session cannot be on another node, so that no request needs to wait. */
bool session_may_be_elsewhere(const struct worker *worker, const struct session_lookup *asked);
/* Returns true if the session is here with its subscriptions. A session that is still being
 * imported has none yet. */
bool session_has_arrived(const struct worker *worker, struct tidings_str id);
/* Returns true if the client resumes with an event id issued after the session left this node; the
 * copy here knows no later events. */
bool session_was_elsewhere(struct channel *channel, const struct session_lookup *asked);
/* Returns true if the event id is from another node and ahead of this one. */
bool session_is_behind_client(struct channel *channel, const struct session_lookup *asked);
/* Brings the session here if it may be on another node and belongs to the principal of `channel`.
 * Before a stream is opened, also confirms with the store that the session is still ours, and waits
 * until this node has caught up with the node that sent the last event. */
enum session_await_result session_await(struct session_wait *wait, struct channel *channel,
                                        const struct session_lookup *asked, struct refusal *why);
void session_await_cancel(struct session_wait *wait);

/* -------------------------------------------------------------------------------------------------
 * The store of sessions that may move between nodes, as session_migration uses it. The server has
 * one over the shared store; tests have one in memory.
 *
 * A session is one row. Its key contains the session's id and its owner, so that lookups never find
 * another principal's session. A row belongs to a node; taking it makes it the taker's and
 * increments `generation`, after which the previous node can no longer write it.
 */

#define SESSION_KEY_LEN (SESSION_ID_LEN + 65u) /* the id, a dot, 64 hex digits */

struct session_job;

enum session_op {
    SESSION_PUT,  /* writes `state`, if the row still has that `generation`; 0: or there is none */
    SESSION_TAKE, /* takes the row: `state` and `generation` are filled in */
    SESSION_DROP, /* deletes the row, if it is still of that `generation` */
    SESSION_END,  /* … of any node, which is notified as after a take */
};

struct session_store {
    size_t max_bytes; /* of a state */
    /* Takes the job; from any worker's thread. It is answered exactly once, by session_job_answer,
     * and on this thread only after this returns. Jobs of one worker run in the order they came. */
    void (*submit)(struct session_store *store, struct session_job *job);
};

/* A job for the store. */
struct session_job {
    enum session_op op;
    char key[SESSION_KEY_LEN + 1];
    struct buf state;
    uint64_t generation; /* how often the row was taken */
    /* The answer. PUT: 0; TIDINGS_E_CONFLICT: another node took the row. TAKE: 1; 0: there is none.
     * All: TIDINGS_E_BUSY, _UNKNOWN and others: the store cannot be reached. */
    int code;
    struct tidings_error err;
    /* Runs on the worker; NULL: no callback. The job is freed afterwards. Not called when the
     * worker has ended. */
    void (*done)(struct session_job *job, struct worker *worker);
    void *user; /* the requester may set it to NULL before the answer */
    /* private */
    struct thread_message message;
    struct mailbox *reply_to; /* of the requesting worker; a reference */
};

/* A job for `worker`; NULL: out of memory. */
struct session_job *session_job_create(struct worker *worker, enum session_op op,
                                       struct tidings_str key);
/* Any thread: the job is done, with `code` (and `err`). */
void session_job_answer(struct session_job *job);

/* The key of the session with that id and owner. */
void session_make_key(struct tidings_str id, const struct principal *principal,
                      char ret[SESSION_KEY_LEN + 1]);

/* -------------------------------------------------------------------------------------------------
 * Shared by the files session_migration*.c: sessions are written to the store and recreated from it
 * (session_migration_import.c), and answers wait for both.
 */

#define SESSION_LOST 64u /* released sessions, remembered for a moment */

/* The migrations of one worker. */
struct session_migrations {
    struct worker *worker;
    struct session_store *store;
    struct list all; /* struct session_migration; the next to be written comes first */
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
    uint64_t changes, written;  /* number of changes, and of those that are written */
    uint64_t under_way;         /* … and will be, when the job is done */
    uint64_t cursor, stream_no; /* as they were last written */
    uint64_t written_ms;
    struct session_job *job; /* one at a time; NULL: none */
    struct list deferred;    /* struct deferred_answer */
    struct map options;      /* struct stored_options: the options of subscriptions */
    struct buf refused; /* quoted URIs of subscriptions that could not be imported, each ends in a
                           line break */
    struct session_import *confirming; /* checks that the session is still ours; NULL: no check … */
    uint64_t confirmed;                /* … which the write of this change confirms */
    unsigned taken_stream;             /* the highest that had been written when it was adopted */
    bool is_imported;
    bool is_arriving;   /* its subscriptions do not exist yet: the stored state stays as it is */
    bool is_incomplete; /* part of its stored state is unknown */
    bool is_unfit;      /* … or it is too large, which was logged */
    bool is_unwritten;  /* it has no row */
    bool is_gone;       /* it belongs to another node */
    bool is_ended;      /* on every node */
};

/* Ends the copy of the session and its streams here; the session continues on another node. */
void session_let_go(struct session_migration *m);
/* Records the options of a subscription, as a string. Returns false when out of memory. */
bool session_keep_options(struct session_migration *m, struct tidings_str as_requested,
                          struct tidings_str options);
/* The write is done: the row is still ours (0), unknown (BUSY), or not (CONFLICT). */
void session_confirm(struct session_import *a, int code);
/* The time until this node may take the session. */
uint64_t session_hold_ms(const struct session_migrations *movers, struct tidings_str key);
/* Frees the state of writes and imports under way. */
void session_imports_end(struct session_migrations *movers);

#endif
