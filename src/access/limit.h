/* SPDX-License-Identifier: MIT
 *
 * Every limit that a client can run into: its name, its value, how often it was reached, how much
 * of it is in use. One set of counters for the whole server: all threads write into it, and it is
 * always kept, whoever may read it (tidings://self/limits).
 *
 * A limit is called like its option; those without an option are fixed. What a refused client is
 * told is a struct refusal: which limit, its value, and when to try again.
 */
#ifndef ACCESS_LIMIT_H
#define ACCESS_LIMIT_H

#include <tidings/types.h>

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

/* Limits that all clients have in common: their use is counted and divided (access/share.h). */
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
    uint64_t share_hits[LIMIT_COUNT]; /* atomic: of `hits`, those of a share (access/share.h) */
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
/* One more, unless there are `most` (0: there is no limit), which counts as a hit. */
bool limit_enter(struct limit_counters *counters, enum limit limit, uint64_t most);
void limit_leave(struct limit_counters *counters, enum limit limit);

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

#endif
