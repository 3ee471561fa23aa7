/* SPDX-License-Identifier: MIT
 *
 * A connection of a client, of any protocol: HTTP, WebSocket or lines.
 *
 * A connection is the first member of the struct of its kind. It has a channel, a sink and a send
 * queue, and it is in one state. A kind is a const table: its states, and the operations in which
 * it differs from the others. All else exists once, here:
 *
 *   states       connection_set_state is the only function that changes a state. A change that the
 *                table does not have is a bug: it is asserted, and without assertions the
 *                connection is closed.
 *   deadlines    Each state has a list, and its members have the same time. One timer runs until
 *                the nearest deadline of the worker.
 *   stall        A connection that takes nothing for `stall_ms` is cut.
 *   keep-alive   Output (for a WebSocket: input) postpones it without moving the connection.
 *   credentials  A connection ends when its token or certificate expires or is revoked.
 *   input        The budget for unfinished messages (LIMIT_INPUT) cuts the slowest connection.
 *   output       The send queue is booked (LIMIT_OUTPUT).
 *   end          connection_close; the memory is freed at the end of the turn.
 *
 * Everything belongs to the thread of the worker.
 *
 *   struct connection_worker   the connections of one worker that share a timer
 *     struct connections       those of one kind
 *       struct connection      one of them
 */
#ifndef TRANSPORT_CONNECTION_H
#define TRANSPORT_CONNECTION_H

#include "base/list.h"
#include "base/loop.h"
#include "base/net/sendq.h"
#include "engine/protocol/channel.h"
#include "engine/worker.h"
#include "security/principal.h"
#include "transport/listener.h"

/* -------------------------------------------------------------------------------------------------
 * Deadlines. The members of a list have the same time, so the list is ordered, oldest first, and
 * only its first member can be due. One timer runs for all lists, until the nearest deadline; while
 * there is none, it does not run, and a worker with idle clients sleeps. The timer is rounded up by
 * at most an eighth of the time and a second, so that many deadlines share one wake-up.
 *
 * A list can have no deadline; then it only knows its members.
 */

struct deadline {
    uint32_t noted; /* for the owner: a time, or a number of bytes */
    /* When it was put at the end of its list. The loop's time, truncated to 32 bits, which is
     * longer than any deadline. */
    uint32_t listed_ms;
    struct list link;
};

/* Its time in the list is over. It is already at the end of that list again, so a function that
 * does nothing is called again after the same time. It can move or discard this and other
 * deadlines. */
typedef void (*deadline_fn)(struct deadline *deadline);

struct deadline_list {
    struct list all; /* oldest first, by deadline.link */
    struct deadlines *deadlines;
    struct list link; /* in deadlines->lists, if there is a deadline */
    uint32_t after_ms;
    uint32_t grain_ms;
    deadline_fn due;
};

/* Further work on the same timer, by the loop's time. */
struct deadlines_also {
    uint64_t (*next)(void *user); /* when; UINT64_MAX: never. Called at the end of a turn */
    void (*check)(void *user);    /* at that time, and whenever deadlines are due */
    void *user;
};

struct deadlines {
    struct loop *loop;
    struct loop_timer *timer;
    struct list lists;
    struct deadlines_also also;
    uint64_t check_ms;   /* `also`; UINT64_MAX: not */
    uint64_t started_ms; /* the timer; UINT64_MAX: it does not run */
    bool has_changed;    /* since the timer was set: it may run too early */
};

/* -1: out of memory. */
int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also);
void deadlines_deinit(struct deadlines *d); /* all zero is fine */
/* At the end of each turn: sets the timer. */
void deadlines_end_turn(struct deadlines *d);
/* The time of `also` has changed. */
void deadlines_changed(struct deadlines *d);
/* For `also.next`: the time to look for an event at `wall_ms` (Unix time; 0: never). The wall clock
 * can be set, so this is at most a minute from now. */
uint64_t deadlines_at_wall(const struct deadlines *d, int64_t wall_ms);
/* Runs everything that is due, like the timer. */
void deadlines_run(struct deadlines *d);

/* `after_ms` 0: no deadline, `due` is not called. */
void deadline_list_init(struct deadline_list *list, struct deadlines *d, uint64_t after_ms,
                        deadline_fn due);
/* The oldest member; NULL: the list is empty. */
struct deadline *deadline_list_first(const struct deadline_list *list);

void deadline_init(struct deadline *deadline); /* in no list */
/* Moves it to the end of `list`, from any other; its time begins. */
void deadline_enter(struct deadline_list *list, struct deadline *deadline);
void deadline_leave(struct deadline_list *list, struct deadline *deadline); /* twice is fine */
static inline bool deadline_is_listed(const struct deadline *deadline)
{
    return !list_empty(&deadline->link);
}
/* The kernel accepts no more, after `written` bytes. The time begins, and restarts if the kernel
 * has accepted some since the last call. */
void deadline_stall(struct deadline_list *list, struct deadline *deadline, uint64_t written);

/* -------------------------------------------------------------------------------------------------
 * Kinds of connections.
 */

struct connection;
struct connection_worker;
struct connections;

#define CONNECTION_STATES_MAX 16u

/* A state of a kind. The last one of a kind is GONE: the connection is closed. */
struct connection_state {
    uint32_t next;                        /* states that can follow: bits, 1u << state */
    void (*on_due)(struct connection *c); /* its time is over; NULL: it has no deadline */
    bool is_partial : 1;    /* a part of a message has arrived: the input budget can end it */
    bool is_open : 1;       /* expired and revoked credentials end it */
    bool is_kept_alive : 1; /* its time is the keep-alive, which connection_put_off puts off */
    bool is_stream : 1;     /* counted in worker_stats.streams */
};

/* Operations of a kind. Const, one table for each kind. */
struct connection_kind {
    const struct connection_state *states;
    unsigned state_count;
    unsigned timed_state; /* each INPUT_STEP of a message has its time, shorter when it is tight */
    unsigned yielded_state; /* complete messages wait for the next turn; GONE: no such state */
    void (*resume)(struct connection *c); /* the next turn has begun */
    bool is_http;                         /* begun as HTTP */
    const struct channel_ops *channel_ops;
    const struct sink_ops *sink_ops;
    loop_poll_fn on_event; /* `user` is the connection */
    sendq_flushed_fn on_flushed;
    /* TLS has failed with `why` (tls_recv). Close or reject it; an alert may be in the queue. */
    void (*on_tls_failed)(struct connection *c, ssize_t why);
    size_t (*input_size)(const struct connection *c); /* bytes of unhandled input in memory */
    /* Rejects it because of the input budget and discards its input. `is_unfair`: its client
     * exceeds its share. */
    void (*cut_input)(struct connection *c, bool is_unfair);
    /* Its credentials have expired, or were revoked: end it. */
    void (*end_credentials)(struct connection *c, bool is_revoked);
    /* Returns true if it ends with its credentials. NULL: in open states. */
    bool (*has_credentials)(const struct connection *c);
    void (*on_closed)(struct connection *c); /* it is closed: cancel its work. May be NULL */
    void (*free)(void *connection);          /* its memory */
};

/* Differences between workers of HTTP and of lines. */
struct connection_worker_ops {
    void (*adopt)(struct thread_message *message, void *owner); /* as in struct worker_inbox */
    void (*end_turn)(void *user);                  /* `user` is the connection_worker */
    void (*on_turn)(struct connection_worker *cw); /* a requested turn; or NULL */
    /* At least every 250 ms while draining, and every `review_ms`. */
    void (*check)(struct connection_worker *cw);
    void (*review)(struct connection_worker *cw); /* end revoked credentials now; or NULL */
};

struct connection_worker {
    const struct connection_worker_ops *ops;
    struct worker *worker;
    struct worker_inbox inbox;
    struct deadlines deadlines;
    struct list kinds;            /* struct connections */
    struct loop_timer *next_turn; /* runs while connections have yielded */
    struct loop_hook end_hook;
    void (*drained)(void *user);
    void *drained_user;
    uint32_t review_ms; /* how often `check` is called; 0: never */
    bool draining;
    char scratch[65536]; /* connection_receive reads into it */
};

struct connections {
    const struct connection_kind *kind;
    struct connection_worker *cw;
    struct list link; /* in cw->kinds */
    struct deadline_list lists[CONNECTION_STATES_MAX];
    struct deadline_list put_off; /* connections whose keep-alive was postponed */
    struct deadline_list stalled;
    uint64_t keepalive_ms;
    int64_t next_expiry_ms; /* of credentials; 0: never */
};

struct connection {
    struct channel channel;
    struct connections *all;
    struct loop_poll poll;
    /* The fields from here on are used for every message to a stream, and are close together. */
    struct sink sink;
    struct sendq out;       /* also owns its descriptor: out.fd */
    uint32_t input_counted; /* bytes of input in LIMIT_INPUT */
    unsigned char state;
    bool eof : 1;      /* the client will send nothing more */
    bool has_long : 1; /* a long answer may wait */
    /* For WebSockets. They are here because there is space: a stream must not grow. */
    bool has_rest : 1;       /* messages that were read wait for space */
    bool was_enveloped : 1;  /* the last message was: so are answers */
    bool uses_envelopes : 1; /* a message was: so are notifications */
    union {
        struct {
            struct deadline stall;    /* in all->stalled while the kernel takes no more */
            struct deadline deadline; /* in all->lists[state]; noted: connection_put_off */
        };
        struct loop_discard discard; /* when it is gone */
    };
};
/* With a pointer of its kind, one of the four blocks of an idle stream (unit/server/test_idle.c):
 * malloc has no size between 312 bytes and 16 more. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct connection) <= 304, "an idle stream grows");

/* -------------------------------------------------------------------------------------------------
 * Workers and kinds.
 */

/* `cw` is zeroed. TIDINGS_E_NOMEM; connection_worker_deinit afterwards in any case. */
int connection_worker_init(struct connection_worker *cw, const struct connection_worker_ops *ops,
                           struct worker *worker, struct tidings_error *err);
/* Closes all connections. Other threads must no longer send to the inbox. */
void connection_worker_deinit(struct connection_worker *cw);
/* At the end of each turn, after everything was written. `is_throttled`: another turn is needed
 * even if no connection is in its yielded state. */
void connection_worker_end_turn(struct connection_worker *cw, bool is_throttled);
/* Calls `drained` once, when the last connection is gone. */
void connection_worker_drain(struct connection_worker *cw, void (*drained)(void *user), void *user);
/* Ends the open connections of revoked principals. */
void connection_worker_dismiss(struct connection_worker *cw, principal_test_fn is_gone, void *user);
/* A connection is gone: calls `drained` if it was the last. */
void connection_worker_left(struct connection_worker *cw);

/* `times_ms` by state. That of is_kept_alive is the longest silence. */
void connections_init(struct connections *all, const struct connection_kind *kind,
                      struct connection_worker *cw, const uint64_t *times_ms, uint64_t stall_ms);
/* Returns the connection that has been in `state` for longest; NULL: there is none. */
struct connection *connections_first(const struct connections *all, unsigned state);
/* Calls `fn` for each connection in these states (bits). It can close only its connection. */
void connections_each(struct connections *all, uint32_t states,
                      void (*fn)(struct connection *c, void *user), void *user);

/* -------------------------------------------------------------------------------------------------
 * Life of a connection.
 */

/* Initializes zeroed memory as a connection without socket and state. */
void connection_prepare(struct connection *c, struct connections *all);
/* Enters the first state. */
void connection_start(struct connection *c, unsigned state);
/* connection_prepare, then takes an accepted socket, with the state `first`. Takes the handover and
 * `c`; -1: out of memory, both are gone. */
int connection_adopt(struct connection *c, struct connections *all, struct handover *handover,
                     unsigned first);
void connection_set_state(struct connection *c, unsigned state);
bool connection_may_move(const struct connection_kind *kind, unsigned from, unsigned to);
/* Returns true if it can handle another message in this turn. If not, it has yielded. */
bool connection_may_go_on(struct connection *c);
static inline bool connection_is_gone(const struct connection *c)
{
    return c->state == c->all->kind->state_count - 1;
}

/* Reads into cw->scratch. Returns the bytes; 0: none now, or none ever if `eof` is set, which can
 * come with the last bytes; -1: it was closed, or refused by on_tls_failed. */
ssize_t connection_receive(struct connection *c);
/* After each flush: starts or ends the time of a stall, and books the queue. */
void connection_note_flush(struct connection *c, enum sendq_state state);
/* It was written to (a WebSocket: it received something): postpones the keep-alive. */
static inline void connection_put_off(struct connection *c)
{
    c->deadline.noted = (uint32_t)loop_now_ms(c->poll.loop); /* near the sink in memory */
}
/* It has a principal now, and ends with its credentials. */
void connection_note_expiry(struct connection *c);

void connection_close(struct connection *c, const char *reason); /* twice is fine */
/* Closes it because its socket failed, or because TCP_USER_TIMEOUT cut it. */
void connection_fail(struct connection *c, const char *otherwise);
/* Closes it, counted and logged as a cut: `what` for the log of slow readers. */
void connection_cut(struct connection *c, const char *what, const char *reason);
/* Gives up everything but the descriptor, the channel and the input, to move the connection. */
void connection_detach(struct connection *c);

/* -------------------------------------------------------------------------------------------------
 * The budget for unhandled input of all connections together (`--max-input`, LIMIT_INPUT, in bytes
 * of memory): partial bodies, messages and lines, and complete ones that wait for their turn.
 *
 * If the budget is exhausted, space is freed on the worker that needs it: the connection that has
 * been without 64 KiB of progress for longest is rejected and cut, until there is space. So a
 * message that keeps arriving stays. While more than half of the budget is in use, connections that
 * need more than a second (INPUT_TIGHT_MS) for 64 KiB are cut likewise, on all workers.
 *
 * If a client exceeds its share (security/limits.h) with several connections, the connection that
 * brought more input is cut; one connection can always have one message. Connections are counted
 * before their client is identified: the reserve is for Unix sockets.
 */

#define INPUT_STEP (64u * 1024u) /* bytes that are progress */
#define INPUT_TIGHT_MS 1000u

/* Counts its input as it is now. */
void connection_book_input(struct connection *c);
/* The same, and makes room if this connection or all of them hold too much. */
void connection_make_room(struct connection *c);

/* -------------------------------------------------------------------------------------------------
 * Output. Long answers have a separate booking (security/limits.h). These functions book the rest:
 * short answers and notifications that a client does not read immediately.
 */

/* Puts `text` into the queue; if large, it hands over its memory and is empty then. */
void connection_put(struct connection *c, struct buf *text);
/* Books the current size of the queue. Call it after each change. */
void connection_book_output(struct connection *c);
/* Call this after an answer was queued. It ignores small queues, which the next flush empties. */
void connection_book_answer(struct connection *c);
/* Returns true if the connection must read its answers before it can send more requests. */
bool connection_must_wait(const struct connection *c);

/* -------------------------------------------------------------------------------------------------
 * Message connections carry messages both ways, however they are framed: lines, WebSocket,
 * HTTP+SSE. Messages interleave freely, answers and notifications share one send queue, and the
 * number of requests under way, the memory for their answers, and the bytes in the queue are
 * bounded. Order: short messages are sent in the order in which they arise. A long answer begins
 * when the queue is empty, and after pending notifications. So a notification waits for one long
 * answer at most.
 */

#define MESSAGE_CONN_HIGH_WATER (1u << 20) /* bytes of output that wait */
#define MESSAGE_CONN_MAX_CALLS 256u        /* requests under way */

/* Returns true if another message can be handled. If not, it waits, and nothing more is read. */
bool message_conn_has_space(const struct connection *c);

/* -------------------------------------------------------------------------------------------------
 * Operations of channels and sinks that do not differ.
 */

void connection_unbook(struct channel *channel);
bool connection_is_sending(const struct channel *channel, size_t *ret_held);
void connection_address(const struct channel *channel, char out[PRINCIPAL_MAX]);
void connection_facts(const struct channel *channel, struct channel_facts *ret);
size_t connection_sink_pending(const struct sink *sink);
struct channel *connection_sink_channel(const struct sink *sink);
void connection_sink_cut(struct sink *sink, const char *reason);

/* For message connections: notifications have no status, events have no ids, and a stream ends only
 * with the connection. */
void message_conn_accepted(struct channel *channel);
void message_conn_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
void message_conn_sink_end(struct sink *sink);

#endif
