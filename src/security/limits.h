/* SPDX-License-Identifier: MIT
 *
 * Every limit that a client can run into: its name, its value, how often it was reached, how much
 * of it is in use. One set of counters for the whole server: all threads write into it, and it is
 * always kept, whoever may read it (tidings://self/limits).
 *
 * A limit is called like its option; those without an option are fixed. What a refused client is
 * told is a struct refusal: which limit, its value, and when to try again.
 */
#ifndef SECURITY_LIMITS_H
#define SECURITY_LIMITS_H

#include <tidings/types.h>

#include "base/rate.h"

/* name of the enum, name, value where there is no option for it, what it counts */
#define LIMIT_MAX_STREAMS 4u /* open at a time in a session */

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

/* Limits that all clients have in common: their use is counted and divided (security/limits.h). */
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
/* Returns its place among the shared limits, or -1. */
int limit_shared_at(enum limit limit);
static inline bool limit_is_shared(enum limit limit)
{
    return limit_shared_at(limit) >= 0;
}
/* Of LIMIT_CLIENTS each client is one. */
static inline bool limit_is_counted(enum limit limit)
{
    return limit_is_shared(limit) || limit == LIMIT_CLIENTS;
}

/* Everything in it is written and read by any thread; all zero is empty but for the fixed values,
 * which limit_counters_init sets. */
struct limit_counters {
    uint64_t values[LIMIT_COUNT]; /* set before threads start */
    uint64_t hits[LIMIT_COUNT];   /* atomic: how often it was reached */
    size_t in_use[LIMIT_COUNT];   /* atomic: of those that count something in the whole server */
    uint64_t share_hits[LIMIT_COUNT]; /* atomic: of `hits`, those of a share (security/limits.h) */
    unsigned fair_share;              /* percent of such a limit for one principal; 0: all of it */
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

/* Why somebody is sent away. */
struct refusal {
    enum limit limit;
    uint64_t value;
    uint64_t share;    /* the part of `value` that one principal may have, if that was reached */
    uint64_t retry_ms; /* 0: trying again does not help */
    bool is_own;       /* what the client did, not what all of them did: 429 rather than 503 */
};

/* Nobody can say when there will be room: a second. Does not count it. */
struct refusal limit_refusal(enum limit limit, uint64_t value, bool is_own);
int refusal_status(const struct refusal *refusal); /* of HTTP */
/* Whole seconds, rounded up: the header Retry-After. */
uint64_t refusal_seconds(const struct refusal *refusal);
#define REFUSAL_SENTENCE 192u
/* "too many connections (--max-connections 64); try again in 1 s", or
 * "too many connections (--max-connections 64, at most 16 of one client); …" */
const char *refusal_sentence(const struct refusal *refusal, char out[REFUSAL_SENTENCE]);
/* The members of `data` that go with it, "share" only if that was reached:
 * {"limit":"max-connections","value":64,"share":16,"retryAfterMs":1000} */
#define REFUSAL_JSON 160u
struct tidings_str refusal_json(const struct refusal *refusal, char out[REFUSAL_JSON]);

/* -------------------------------------------------------------------------------------------------
 * Fair shares of the limits that all clients have in common. Every such limit is divided in the
 * same way, for counts and for bytes, exactly and over all workers:
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

/* Who takes. */
struct share_taker {
    struct client_account *account; /* borrowed; NULL: only the total counts */
    const struct principal *principal;
    bool is_operator; /* whoever the principal is */
};

/* How much of a limit of `most` one principal may hold, and how much only operators may. */
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
 * The quota of a client: how many connections and sessions it has and may have, and how often it
 * may ask. A client is what the transport can tell apart: an address (of IPv6 the first 64 bits,
 * since whoever has one has them all), the user of a Unix socket, or who a token says it is.
 *
 * There is one quota for a client in the whole server, whichever worker serves it, so that counts
 * and rates are exact. It is looked up when a connection comes; whoever has it uses it from any
 * thread without a lock. One that nobody holds any more and whose rates have recovered makes room
 * when another client comes. The table is bounded; when it is full of clients that count, those who
 * are not in it are sent away (LIMIT_CLIENTS).
 */

struct quota;
struct quotas;

#define QUOTA_NAME_MAX 64u /* bytes of a name, with its NUL */

/* What one client may; 0: whatever it likes. */
struct quota_rules {
    size_t max_connections, max_sessions;
    struct token_bucket_rule connections, requests, subscribes;
    struct token_bucket_rule refusals; /* it may run into; after these it is shut out … */
    uint64_t block_ms;                 /* … for so long */
};

struct quotas_options {
    struct quota_rules remote; /* clients of other machines */
    struct quota_rules local;  /* of this one: themselves, or a proxy that stands for many */
    size_t max_clients;
};

/* `counters` outlives them. NULL: out of memory. */
struct quotas *quotas_create(struct limit_counters *counters);
void quotas_destroy(struct quotas *quotas); /* nobody holds any; NULL is fine */
/* Before threads start. Without it nobody is limited. */
void quotas_set(struct quotas *quotas, const struct quotas_options *options);

/* A connection of that client comes. 0: it may, and *ret is to be left when it goes (NULL: nothing
 * limits this client). TIDINGS_E_LIMIT: sent away, `why` says for what reason. TIDINGS_E_NOMEM. */
int quotas_enter(struct quotas *quotas, struct tidings_str name, bool is_local, uint64_t now_ms,
                 struct quota **ret, struct refusal *why);
void quota_leave(struct quota *quota); /* NULL is fine, here and below */

/* The quota of somebody who has shown who it is, wherever it comes from (so the rules for other
 * machines hold); to be released. NULL: nothing limits it, or there is no room for it. */
struct quota *quotas_find(struct quotas *quotas, struct tidings_str name, uint64_t now_ms);
void quota_release(struct quota *quota);

/* May it do this now? If not, `why` says so. */
bool quota_take_request(struct quota *quota, uint64_t now_ms, struct refusal *why);
bool quota_take_subscribe(struct quota *quota, uint64_t now_ms, struct refusal *why);
/* A session begins, which holds the quota until it ends. */
bool quota_open_session(struct quota *quota, struct refusal *why);
void quota_close_session(struct quota *quota);

/* -------------------------------------------------------------------------------------------------
 * The memory budget for the answers of all clients (`--max-output`, LIMIT_OUTPUT, in bytes), of
 * which each principal has a share (security/limits.h). An answer is booked from the moment its
 * content is known until the client has received it.
 *
 * Large contents are booked before they are stored, and refused if there is no room. Short answers
 * are booked only if the client does not receive them at once. A connection with unread answers
 * waits while the budget or the share is used up.
 */

/* The bytes booked for one answer. All zero: none, for no client. */
struct output {
    struct limit_counters *limit_counters;
    struct client_account *account; /* a reference */
    size_t bytes;                   /* atomic: other threads read it */
    size_t text;                    /* of them, for a text that grows */
    bool is_operator;
};

/* Takes over the reference of `who` to its account. */
void output_init(struct output *output, struct limit_counters *counters, struct share_taker who);
/* Books more bytes. Returns false and sets `why` if there is no room. Any thread. */
bool output_book(struct output *output, size_t bytes, struct refusal *why);
/* Books a text whose memory has grown to `held` bytes. By the thread that writes it. */
bool output_book_text(struct output *output, size_t held, struct refusal *why);
void output_end(struct output *output); /* gives all of it back; twice is fine */
/* Moves the bytes booked by `from` to `to`. */
void output_move(struct output *to, struct output *from);
/* Adds the bytes booked by `from` to `to`, for the account of `to`. It cannot be refused. */
void output_join(struct output *to, struct output *from);
static inline size_t output_booked(const struct output *output)
{
    return __atomic_load_n(&output->bytes, __ATOMIC_RELAXED);
}

/* Changes the booking of memory that exists from *booked to `held` bytes. It cannot be refused. */
void output_count(struct limit_counters *counters, struct client_account *account, uint32_t *booked,
                  size_t held);

#endif
