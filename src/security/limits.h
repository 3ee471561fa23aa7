/* SPDX-License-Identifier: MIT
 *
 * Limits: the name, value, hit count and current use of every limit that a client can reach. The
 * whole server has one set of counters. All threads update it, whatever the access rules of
 * tidings://self/limits.
 *
 * A limit is named like its option; limits without an option are fixed. A refused client gets the
 * contents of a struct refusal: which limit, its value, and when to retry.
 */
#ifndef SECURITY_LIMITS_H
#define SECURITY_LIMITS_H

#include <tidings/types.h>

#include "base/rate.h"

/* name of the enum, name, value if it has no option, description */
#define LIMIT_MAX_STREAMS 4u /* open at a time per session */

#define LIMIT_MAP(X)                                                                               \
    X(CONNECTIONS, "max-connections", 0, "connections at a time")                                  \
    X(CLIENT_CONNECTIONS, "max-client-connections", 0, "connections of one client")                \
    X(CONNECTION_RATE, "connection-rate", 0, "new connections of one client in a second")          \
    X(CLIENTS, "max-clients", 0, "clients that are told apart")                                    \
    X(BLOCKED, "block-after", 0, "refusals of one client in a minute before it is shut out")       \
    X(REQUEST_RATE, "request-rate", 0, "requests of one client in a second")                       \
    X(SUBSCRIBE_RATE, "subscribe-rate", 0, "subscribing of one client in a second")                \
    X(SESSIONS, "max-sessions", 0, "legacy sessions at a time")                                    \
    X(CLIENT_SESSIONS, "max-client-sessions", 0, "legacy sessions of one client")                  \
    X(TOKENS, "waiting-tokens", 1024, "tokens that wait for a key or an introspection")            \
    X(SESSION_STREAMS, "session-streams", 4, "open streams of one session")                        \
    X(LISTENS, "max-listens", 0, "open listens on one connection")                                 \
    X(LISTEN_URIS, "max-uris-per-listen", 0, "URIs in one listen")                                 \
    X(SUBSCRIPTIONS, "max-subscriptions", 0, "subscriptions of one session or connection")         \
    X(ALL_SUBSCRIPTIONS, "max-all-subscriptions", 0, "subscriptions at a time")                    \
    X(BREADTH, "max-breadth", 0, "subscriptions of one client that cover whole mounts")            \
    X(PATTERN_STEPS, "pattern-steps", 20000000,                                                    \
      "steps a second of one client's regexes, filters and schemas")                               \
    X(CALLS, "max-calls", 0, "tools and prompts under way at a time")                              \
    X(CALL_TIME, "call-timeout", 0, "ms for a tool, prompt or provider to answer")                 \
    X(ASK_TIME, "ask-timeout", 0, "ms for a client to answer what a tool or prompt asks")          \
    X(TASKS, "max-tasks", 0, "tasks that run or whose results are kept")                           \
    X(CLIENT_TASKS, "max-client-tasks", 0, "tasks of one client")                                  \
    X(TASK_TIME, "task-ttl", 0, "ms for a task to finish")                                         \
    X(TASK_BYTES, "task-bytes", 67108864,                                                          \
      "bytes of what tasks got and gave, a quarter for one client")                                \
    X(QUESTIONS, "open-questions", 64, "questions that one client has not answered")               \
    X(BODY, "max-body", 0, "bytes of an HTTP body or WebSocket message")                           \
    X(LINE, "max-line", 0, "bytes of a message on a line")                                         \
    X(INPUT, "max-input", 0, "bytes of input that is not handled yet, of all")                     \
    X(OUTPUT, "max-output", 0, "bytes of answers that are under way")                              \
    X(CONNECTION_OUTPUT, "max-connection-output", 0, "bytes of answers under way on a connection") \
    X(DEPTH, "max-depth", 0, "levels of JSON")                                                     \
    X(BATCH, "batch-messages", 100, "messages in one batch")                                       \
    X(NOTIFY, "notify-changes", 1000, "changes that one request says there were")                  \
    X(URI, "uri-bytes", 4096, "bytes of a URI")                                                    \
    X(HEAD, "head-bytes", 32768, "bytes of the head of a request, of at most 100 fields")          \
    X(TARGET, "target-bytes", 8192, "bytes of the target of a request")                            \
    X(HEAD_TIME, "header-timeout", 0, "ms for the head of a request, or a handshake")              \
    X(BODY_TIME, "body-timeout", 0, "ms for each 64 KiB of a body or message")                     \
    X(STALL, "stall-timeout", 0, "ms without taking anything that waits")                          \
    X(CONNECTION_REQUESTS, "connection-requests", 256,                                             \
      "requests under way on one connection of messages")                                          \
    X(OUTBOX, "outbox", 0, "notifications waiting for one client")                                 \
    X(ANNOUNCED, "max-announced", 0, "bytes of changes on their way")                              \
    X(PUBLISHED, "published-max", 0, "resources published at a time")                              \
    X(PUBLISHED_BYTES, "published-bytes", 0, "bytes of all that is published")

enum limit {
#define LIMIT_ENUM(symbol, name, value, text) LIMIT_##symbol,
    LIMIT_MAP(LIMIT_ENUM)
#undef LIMIT_ENUM
        LIMIT_COUNT,
};

const char *limit_name(enum limit limit);
const char *limit_text(enum limit limit);

/* Limits that all clients share: their use is counted and divided into fair shares (see below). */
#define LIMIT_SHARED_MAP(X)                                                                        \
    X(CONNECTIONS)                                                                                 \
    X(SESSIONS)                                                                                    \
    X(ALL_SUBSCRIPTIONS)                                                                           \
    X(TOKENS)                                                                                      \
    X(CALLS)                                                                                       \
    X(TASKS)                                                                                       \
    X(TASK_BYTES)                                                                                  \
    X(INPUT)                                                                                       \
    X(OUTPUT)                                                                                      \
    X(ANNOUNCED)                                                                                   \
    X(PUBLISHED)                                                                                   \
    X(PUBLISHED_BYTES)

enum limit_shared {
#define LIMIT_SHARED_ENUM(symbol) LIMIT_SHARED_##symbol,
    LIMIT_SHARED_MAP(LIMIT_SHARED_ENUM)
#undef LIMIT_SHARED_ENUM
        LIMIT_SHARED_COUNT,
};
/* Returns the index among the shared limits, or -1. */
int limit_shared_at(enum limit limit);
static inline bool limit_is_shared(enum limit limit)
{
    return limit_shared_at(limit) >= 0;
}
/* LIMIT_CLIENTS counts clients. */
static inline bool limit_is_counted(enum limit limit)
{
    return limit_is_shared(limit) || limit == LIMIT_CLIENTS;
}

/* All threads read and write it; all zero is empty except for the fixed values, which
 * limit_counters_init sets. */
struct limit_counters {
    uint64_t values[LIMIT_COUNT]; /* set before threads start */
    uint64_t hits[LIMIT_COUNT];   /* atomic: hit count */
    /* atomic: use of limits that count something in the whole server */
    size_t in_use[LIMIT_COUNT];
    uint64_t share_hits[LIMIT_COUNT]; /* atomic: those of `hits` that reached a share */
    /* percentage of such a limit for one principal; 0: all of it */
    unsigned fair_share;
};
#define LIMIT_FAIR_SHARE 25u
void limit_counters_init(struct limit_counters *counters);

static inline void limit_hit(struct limit_counters *counters, enum limit limit)
{
    __atomic_fetch_add(&counters->hits[limit], 1, __ATOMIC_RELAXED);
}
static inline size_t limit_in_use(const struct limit_counters *counters, enum limit limit)
{
    return __atomic_load_n(&counters->in_use[limit], __ATOMIC_RELAXED);
}

/* Why a client is refused. */
struct refusal {
    enum limit limit;
    uint64_t value;
    uint64_t share;    /* the part of `value` that one principal may have, if this was reached */
    uint64_t retry_ms; /* 0: retrying does not help */
    bool is_own;       /* caused by this client, not by all of them: 429 rather than 503 */
};

/* A refusal without a known retry time: one second. Does not count it. */
struct refusal limit_refusal(enum limit limit, uint64_t value, bool is_own);
int refusal_status(const struct refusal *refusal); /* HTTP status */
/* Value of the Retry-After header: whole seconds, rounded up. */
uint64_t refusal_seconds(const struct refusal *refusal);
#define REFUSAL_SENTENCE 192u
/* "too many connections (--max-connections 64); try again in 1 s", or
 * "too many connections (--max-connections 64, at most 16 of one client); …" */
const char *refusal_sentence(const struct refusal *refusal, char out[REFUSAL_SENTENCE]);
/* The members of `data` for a refusal, "share" only if it was reached:
 * {"limit":"max-connections","value":64,"share":16,"retryAfterMs":1000} */
#define REFUSAL_JSON 160u
struct tidings_str refusal_json(const struct refusal *refusal, char out[REFUSAL_JSON]);

/* -------------------------------------------------------------------------------------------------
 * Fair shares of the limits that all clients share. Every such limit is divided in the same way,
 * for counts and for bytes, exactly and over all workers:
 *
 *   - A principal may hold its share, a part of the limit (limit_counters.fair_share), rounded up,
 *     but never all of it unless that part is 100 percent.
 *   - Clients without a name on this machine are one account, without a share of its own: they may
 *     hold everything except the reserve. So may the program itself.
 *   - The reserve, a 64th, is for operators, who may call end_peer (access_is_operator). An
 *     operator may hold its share and the reserve.
 *
 * A limit of 1 cannot be divided, and limits below SHARE_RESERVE_MIN have no reserve, which would
 * be more than a quarter of them.
 *
 *     struct share_taker who = channel_taker(channel);
 *     if (!share_take(counters, LIMIT_CALLS, max_calls, 1, &who, &why)) … refuse with `why`
 *     …
 *     share_give(counters, LIMIT_CALLS, 1, who.account);
 */

struct client_account;
struct principal;

#define SHARE_MIN 2u         /* smaller limits have no shares */
#define SHARE_RESERVE_MIN 4u /* smaller limits have no reserve */
#define SHARE_RESERVE 64u    /* the reserve is this part of a limit, at least 1 */

/* The client that takes. */
struct share_taker {
    struct client_account *account; /* borrowed; NULL: only the total counts */
    const struct principal *principal;
    bool is_operator; /* true for an operator */
};

/* How much of a limit of `most` one principal may hold, and how much is reserved for operators. */
uint64_t share_part(const struct limit_counters *counters, uint64_t most);
uint64_t share_reserve(uint64_t most);

/* Takes `n` more of a limit of `most` (0: unlimited), which holds the account until they are given
 * back. Returns false if the limit or the share is reached: counted, and `why` says which. Any
 * thread. */
bool share_take(struct limit_counters *counters, enum limit limit, uint64_t most, size_t n,
                const struct share_taker *who, struct refusal *why);
/* Takes `n` that cannot be refused, for example after a restart. */
void share_add(struct limit_counters *counters, enum limit limit, size_t n,
               struct client_account *account);
/* Returns true if `who` may take nothing more. */
bool share_is_over(const struct limit_counters *counters, enum limit limit, uint64_t most,
                   const struct share_taker *who);
void share_give(struct limit_counters *counters, enum limit limit, size_t n,
                struct client_account *account);

/* -------------------------------------------------------------------------------------------------
 * The quota of a client: how many connections and sessions it has and may have, and how many
 * requests it may send. A client is identified by its address (an IPv6 client by the first 64 bits,
 * because it controls the rest), by the user of a Unix socket, or by the name in its token.
 *
 * A client has one quota in the whole server, whichever worker serves it, so that counts and rates
 * are exact. It is looked up when a connection arrives; its holders use it from any thread without
 * a lock. A quota without holders whose rates have recovered can be evicted when another client
 * arrives. The table is bounded; when it is full of quotas that cannot be evicted, other clients
 * are refused (LIMIT_CLIENTS).
 */

struct quota;
struct quotas;

#define QUOTA_NAME_MAX 64u /* bytes of a name, including the NUL */

/* Limits of one client; 0: unlimited. */
struct quota_rules {
    size_t max_connections, max_sessions;
    struct token_bucket_rule connections, requests, subscribes;
    struct token_bucket_rule refusals; /* refusals before the client is blocked … */
    uint64_t block_ms;                 /* … and for how long */
};

struct quotas_options {
    struct quota_rules remote; /* clients on other machines */
    struct quota_rules local;  /* clients on this machine, or a proxy with many clients */
    size_t max_clients;
};

/* `counters` outlives them. NULL: out of memory. */
struct quotas *quotas_create(struct limit_counters *counters);
void quotas_destroy(struct quotas *quotas); /* no quota may be held; NULL is fine */
/* Call it before threads start. Without it no client is limited. */
void quotas_set(struct quotas *quotas, const struct quotas_options *options);

/* Admits a connection of a client. 0: admitted; release *ret when it closes (NULL: this client is
 * not limited). TIDINGS_E_LIMIT: refused, `why` gives the reason. TIDINGS_E_NOMEM. */
int quotas_enter(struct quotas *quotas, struct tidings_str name, bool is_local, uint64_t now_ms,
                 struct quota **ret, struct refusal *why);
void quota_leave(struct quota *quota); /* NULL is fine, here and below */

/* The quota of an authenticated client, wherever it connects from (so the rules for other machines
 * apply); the caller releases it. NULL: it is not limited, or there is no room for it. */
struct quota *quotas_find(struct quotas *quotas, struct tidings_str name, uint64_t now_ms);
void quota_release(struct quota *quota);

/* Returns true if the client may send a request now; otherwise `why` gives the reason. */
bool quota_take_request(struct quota *quota, uint64_t now_ms, struct refusal *why);
bool quota_take_subscribe(struct quota *quota, uint64_t now_ms, struct refusal *why);
/* Opens a session, which holds the quota until it ends. */
bool quota_open_session(struct quota *quota, struct refusal *why);
void quota_close_session(struct quota *quota);

/* -------------------------------------------------------------------------------------------------
 * The memory budget for the responses to all clients (`--max-output`, LIMIT_OUTPUT, in bytes), of
 * which each principal has a share (see above). A response is booked from the moment its content is
 * known until the client has received it.
 *
 * Large contents are booked before they are stored, and refused if there is no room. Short
 * responses are booked only if the client does not receive them at once. A connection with unread
 * responses waits while the budget or the share is used up.
 */

/* The bytes booked for one response. All zero: nothing booked, no client. */
struct output {
    struct limit_counters *limit_counters;
    struct client_account *account; /* a reference */
    size_t bytes;                   /* atomic: other threads read it */
    size_t text;                    /* the part of `bytes` for a growing string */
    bool is_operator;
};

/* Takes over the reference of `who` to its account. */
void output_init(struct output *output, struct limit_counters *counters, struct share_taker who);
/* Books more bytes. Returns false and sets `why` if there is no room. Any thread. */
bool output_book(struct output *output, size_t bytes, struct refusal *why);
/* Books a string whose memory has grown to `held` bytes. Call it on the thread that writes it. */
bool output_book_text(struct output *output, size_t held, struct refusal *why);
void output_end(struct output *output); /* releases all of it; safe to call twice */
/* Moves the bytes booked by `from` to `to`. */
void output_move(struct output *to, struct output *from);
/* Adds the bytes booked by `from` to `to`, for the account of `to`. Never refused. */
void output_join(struct output *to, struct output *from);
static inline size_t output_booked(const struct output *output)
{
    return __atomic_load_n(&output->bytes, __ATOMIC_RELAXED);
}

/* Changes the booking of memory that exists from *booked to `held` bytes. Never refused. */
void output_count(struct limit_counters *counters, struct client_account *account, uint32_t *booked,
                  size_t held);

#endif
