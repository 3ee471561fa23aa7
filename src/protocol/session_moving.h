/* SPDX-License-Identifier: MIT
 *
 * Sessions of the legacy era that go on at another node. Where nodes share a store, what a session
 * is (protocol/session_state.h) is written there when it changes, and a request with the id of one
 * that is not here waits while the store is asked; the session is made again from what was written,
 * and who had it before lets go of it.
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
#ifndef PROTOCOL_SESSION_MOVING_H
#define PROTOCOL_SESSION_MOVING_H

#include "protocol/session.h"

struct session_store;

#define SESSION_WRITE_MS 1000u  /* between two writes of how far a session was told */
#define SESSION_WRITES 128u     /* of these in a tick, of one worker; the rest has its turn later */
#define SESSION_HOLD_MS 250u    /* who lost one does not take it back earlier than that */
#define SESSION_ADOPTIONS 1024u /* under way on one worker */
#define SESSION_AWAIT_MS 5000u  /* a request waits for its session */

/* ---- of a worker ----------------------------------------------------------------------------- */

/* From now on its sessions are kept in `store`, which outlives it. TIDINGS_E_NOMEM. */
int sessions_share(struct worker *worker, struct session_store *store, struct tidings_error *err);
/* The store has lost what it had committed: all of them are written again. */
void sessions_write_again(struct worker *worker);
/* The session of this row is another node's now. */
void session_moved(struct worker *worker, struct tidings_str key);

/* ---- of a session ---------------------------------------------------------------------------- */

/* Something of it changed that has to be kept; the answer to `request` (NULL: none) waits for it.
 */
void session_changed(struct session *session, struct request *request);
/* The same of a subscription as `request` asked for it. */
void session_subscribed(struct session *session, struct request *request,
                        struct tidings_str spelled);

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
struct session_asked {
    struct tidings_str id;
    bool is_stream;                   /* it opens one */
    struct tidings_str last_event_id; /* or empty */
};
/* Perhaps; false: surely not, and nobody need wait. */
bool session_may_be_elsewhere(const struct worker *worker, const struct session_asked *asked);
/* Is it here, with its subscriptions? One that is on its way has none yet. */
bool session_has_arrived(const struct worker *worker, struct tidings_str id);
/* Does its client come with an event that was given out after the session left this node, whose
 * copy knows nothing of what followed? */
bool session_was_elsewhere(struct channel *channel, const struct session_asked *asked);
/* Or with one of another node that this one has not come to yet? */
bool session_is_behind_client(struct channel *channel, const struct session_asked *asked);
/* May the session, of the principal of `channel`, be at another node? Then it is brought here. And
 * before a stream is opened the store is asked whether it is ours still, and this node comes as far
 * as the one where the last event was told. */
enum session_await_result session_await(struct session_wait *wait, struct channel *channel,
                                        const struct session_asked *asked, struct refusal *why);
void session_await_cancel(struct session_wait *wait);

#endif
