/* SPDX-License-Identifier: MIT
 *
 * Deadlines of the connections of one worker: until when a client must have sent its request, taken
 * what waits for it, or be sent a sign of life.
 *
 * Connections hang in lists, one for each kind of deadline. All members of a list have the same
 * time, so a list is ordered, oldest first, and only its first member has to be looked at. One
 * timer runs for all lists, until the nearest deadline of all; while there is none, it does not
 * run, and a worker whose clients are idle sleeps. It is rounded up by at most an eighth of the
 * time and a second, to where the deadlines of others are rounded to, so that many share one
 * wake-up.
 *
 * A list may also be one without a deadline: then it only says who is in it.
 */
#ifndef TRANSPORT_CONNECTION_H
#define TRANSPORT_CONNECTION_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/net/sendq.h"
#include "engine/protocol/channel.h"
#include "engine/worker.h"
#include "security/cpu_budget.h"
#include "security/limits.h"

/* In the connection. */
struct deadline {
    /* The owner's own: when something was last heard of it, or how much it had taken. */
    uint32_t noted;
    /* When it was put at the end of its list. The loop's time, cut to 32 bits: no deadline is as
     * long as that takes to come round. */
    uint32_t listed_ms;
    struct list link;
};

/* It was in its list for so long. It is at the end of that list again already: who does nothing is
 * called again after the same time. It may be moved and its memory discarded, and others' too. */
typedef void (*deadline_fn)(struct deadline *deadline);

struct deadline_list {
    struct list all; /* oldest first, by deadline.link */
    struct deadlines *deadlines;
    struct list link; /* in deadlines->lists, if there is a deadline */
    uint32_t after_ms;
    uint32_t grain_ms;
    deadline_fn due;
};

/* What has to be looked at besides, by the loop's time. */
struct deadlines_also {
    uint64_t (*next)(void *user); /* when? UINT64_MAX: never. Asked at the end of a turn */
    void (*check)(void *user);    /* now, and whenever deadlines are due */
    void *user;
};

struct deadlines {
    struct loop *loop;
    struct loop_timer *timer;
    struct list lists;
    struct deadlines_also also;
    uint64_t check_ms; /* `also`; UINT64_MAX: not */
    uint64_t armed_ms; /* the timer; UINT64_MAX: it does not run */
    bool has_changed;  /* since the timer was set: it may run too early */
};

/* -1: out of memory. */
int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also);
void deadlines_deinit(struct deadlines *d); /* all zero is fine */
/* At the end of each turn: set the timer. */
void deadlines_end_turn(struct deadlines *d);
/* What `also` waits for has changed, without any connection's having been moved. */
void deadlines_changed(struct deadlines *d);
/* For `also.next`: when to look for something that happens at `wall_ms` (Unix time; 0: never). The
 * clock on the wall may be set, so that is once a minute at least. */
uint64_t deadlines_at_wall(const struct deadlines *d, int64_t wall_ms);
/* Do what is due, as the timer does. */
void deadlines_run(struct deadlines *d);

/* `after_ms` 0: no deadline, `due` is not called. */
void deadline_list_init(struct deadline_list *list, struct deadlines *d, uint64_t after_ms,
                        deadline_fn due);
/* The one that is there for longest; NULL: nobody is. */
struct deadline *deadline_list_first(const struct deadline_list *list);

void deadline_init(struct deadline *deadline); /* in no list */
/* To the end of `list`, from wherever it was; its time begins. */
void deadline_enter(struct deadline_list *list, struct deadline *deadline);
void deadline_leave(struct deadline_list *list, struct deadline *deadline); /* twice is fine */
static inline bool deadline_is_listed(const struct deadline *deadline)
{
    return !list_empty(&deadline->link);
}
uint32_t deadline_age_ms(const struct deadline_list *list, uint32_t since_ms);

/* The kernel takes no more of what waits to be written, after `written` bytes: the time begins,
 * anew when some was taken meanwhile. `noted` is that number. */
void deadline_stall(struct deadline_list *list, struct deadline *deadline, uint64_t written);
/* The same for a queue that waits; there is no deadline while it waits for a source. */
void deadline_await(struct deadline_list *list, struct deadline *deadline, const struct sendq *q);

/* -------------------------------------------------------------------------------------------------
 * The budget for unhandled input of all connections together (`--max-input`, LIMIT_INPUT, in bytes
 * of memory): bodies, messages and lines of which a part has come, and whole ones that wait their
 * turn.
 *
 * When it is more than that, room is made where it is needed: on its own worker whoever has gone on
 * for the longest time without 64 KiB of progress is told so and cut, until there is room. So a
 * message that keeps coming stays, and what drips or stands still goes. While more than half of it
 * is in use, whoever needs more than a second (INPUT_TIGHT_MS) for 64 KiB goes likewise, on all
 * workers.
 *
 * A client that holds more than its share (security/limits.h) with several connections loses the
 * one that brought more; one connection may always have one message. Connections are counted before
 * it is known whose they are: the reserve is for Unix sockets.
 */

#define INPUT_STEP (64u * 1024u) /* bytes that are progress */
#define INPUT_TIGHT_MS 1000u

/* A connection of `origin` (NULL: nobody's), of which *counted bytes are counted already, holds
 * `held` bytes now. */
static inline void input_count_held(struct limit_counters *counters, struct allowance *origin,
                                    uint32_t *counted, size_t held)
{
    if (held == *counted) {
        return;
    }
    size_t more = held - *counted; /* modulo 2^64: what is less is subtracted */
    __atomic_fetch_add(&counters->in_use[LIMIT_INPUT], more, __ATOMIC_RELAXED);
    if (origin) {
        __atomic_fetch_add(allowance_held(origin, LIMIT_INPUT), more, __ATOMIC_RELAXED);
    }
    *counted = (uint32_t)held;
}

/* Without the reserve. */
static inline bool input_is_over(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most - share_reserve(most);
}

/* The reserve is there for it. */
static inline bool input_may_stay(const struct limit_counters *counters,
                                  const struct allowance *origin)
{
    return origin && allowance_is_user(origin) &&
           limit_in_use(counters, LIMIT_INPUT) <= counters->values[LIMIT_INPUT];
}

/* Its client holds too much, and not only on this connection. Counts it. */
static inline bool input_is_unfair(struct limit_counters *counters, struct allowance *origin,
                                   uint32_t counted)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    if (!origin || most == 0 || allowance_is_whole(origin)) {
        return false;
    }
    size_t own = __atomic_load_n(allowance_held(origin, LIMIT_INPUT), __ATOMIC_RELAXED);
    uint64_t reserve = allowance_is_user(origin) ? share_reserve(most) : 0;
    if (own <= share_part(counters, most) + reserve || own == counted) {
        return false;
    }
    __atomic_fetch_add(&counters->share_hits[LIMIT_INPUT], 1, __ATOMIC_RELAXED);
    return true;
}

/* More than half? */
static inline bool input_is_tight(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most / 2;
}

/* When those in a list of unfinished input should be asked whether they go on too slowly: some
 * worker may use more than half by then. */
static inline uint64_t input_next_check(const struct limit_counters *counters,
                                        const struct deadline_list *partial)
{
    const struct deadline *first = deadline_list_first(partial);
    if (!first || counters->values[LIMIT_INPUT] == 0) {
        return UINT64_MAX;
    }
    uint32_t age = deadline_age_ms(partial, first->listed_ms);
    return loop_now_ms(partial->deadlines->loop) +
           (age < INPUT_TIGHT_MS ? INPUT_TIGHT_MS - age : INPUT_TIGHT_MS);
}

/* -------------------------------------------------------------------------------------------------
 * Books the send queue of a connection (security/limits.h). Long answers have a booking of their
 * own. These functions book the rest: short answers and notifications that a client does not read
 * at once.
 */

/* The account of its client, borrowed: the principal's, or where it comes from. */
static inline struct allowance *output_account(const struct channel *channel)
{
    const struct principal *p = channel->principal;
    return p && p->kind != PRINCIPAL_ANONYMOUS ? p->account : channel->origin;
}

/* Books nothing for the queue, until it is booked again. */
static inline void output_unbook_queue(const struct channel *channel, struct sink *sink)
{
    if (sink->booked > 0) {
        output_count(channel->worker->limit_counters, output_account(channel), &sink->booked, 0);
    }
}

/* Books the present size of the queue. Call it after each change. */
static inline void output_book_queue(const struct channel *channel, struct sink *sink,
                                     const struct sendq *out)
{
    size_t by_sources;
    if (out->pending > 0 || sink->booked > 0) {
        output_count(channel->worker->limit_counters, output_account(channel), &sink->booked,
                     out->pending > 0 ? sendq_held(out, &by_sources) : 0);
    }
}

/* Call this after an answer was queued. It ignores small queues, which the next flush empties. */
static inline void output_book_answer(const struct channel *channel, struct sink *sink,
                                      const struct sendq *out)
{
    if (out->pending > SENDQ_MADE) {
        output_book_queue(channel, sink, out);
    }
}

/* Returns true if the connection must read its answers before it may send more requests. */
static inline bool output_must_wait(const struct channel *channel, const struct sendq *out)
{
    struct limit_counters *counters = channel->worker->limit_counters;
    if (out->pending == 0) {
        return false;
    }
    struct share_taker who = channel_taker(channel);
    bool is_over = share_is_over(counters, LIMIT_OUTPUT, counters->values[LIMIT_OUTPUT], &who);
    allowance_release(who.account);
    return is_over;
}

/* -------------------------------------------------------------------------------------------------
 * What connections that carry messages both ways have in common, however they are framed (lines,
 * WebSocket): messages interleave freely, answers and notifications share one send queue, and the
 * number of requests under way, the memory for their answers, and the bytes in the queue are
 * bounded.
 * Order: short messages are sent in the order in which they arise. A long answer begins when the
 * queue is empty, and after pending notifications. So a notification waits for one long answer at
 * most.
 */

#define MESSAGE_CONN_HIGH_WATER (1u << 20) /* bytes of output that wait */
#define MESSAGE_CONN_MAX_CALLS 256u        /* requests under way */

/* May another message be handled? If not it waits, and nothing more is read. */
bool message_conn_has_room(const struct channel *channel, const struct sendq *out);
/* For channel_ops.is_sending. */
bool message_conn_is_sending(const struct sendq *out, size_t *ret_held);
/* Put a text into the queue; a large one gives its memory away, and is empty then. */
void message_conn_put(struct sendq *out, struct buf *text);

/* For channels and sinks that have nothing to say here: no status to a notification, no ids of
 * events, and no end of a stream but that of the connection. */
void message_conn_accepted(struct channel *channel);
void message_conn_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
void message_conn_sink_end(struct sink *sink);

/* -------------------------------------------------------------------------------------------------
 * The address of a socket, of whichever family it is: one type for what bind, accept, getsockname
 * and getpeername take and give.
 */

union socket_address {
    struct sockaddr any;
    struct sockaddr_storage storage;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

/* Does it lead to this machine alone? An IPv4 address that came as IPv6 is judged as what it is. */
static inline bool socket_address_is_local(const union socket_address *a)
{
    switch (a->any.sa_family) {
    case AF_INET:
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) ? a->v6.sin6_addr.s6_addr[12] == 127
                                                      : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    default:
        return a->any.sa_family == AF_UNIX;
    }
}

#endif
