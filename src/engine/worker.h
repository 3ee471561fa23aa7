/* SPDX-License-Identifier: MIT
 *
 * A worker: one thread's share of the server. It has what every part of the server needs (loop,
 * mailbox, limits) and a pointer to the state of each folder, which only that folder's header
 * defines. Everything belongs to the worker's thread; other threads reach it through its mailbox,
 * whose messages have the worker as their owner.
 *
 * engine/engine.h creates a worker with all of its parts.
 */
#ifndef ENGINE_WORKER_H
#define ENGINE_WORKER_H

#include <tidings/types.h>

#include "base/net/sendq.h"
#include "security/seal.h"

struct client_accounts;
struct catalog;
struct channel_facts;
struct delivery;
struct drain;
struct failures;
struct handlers;
struct hub;
struct job;
struct limit_counters;
struct loop;
struct loop_timer;
struct mailbox;
struct option_limits;
struct principals;
struct quotas;
struct requests;
struct server_identity;
struct sessions;
struct skill_cache;

/* Frozen while the server runs. */
struct worker_limits {
    size_t page_size, max_page_size;
    size_t max_read_bytes;
    unsigned max_depth;
    size_t max_sessions; /* on all workers */
    size_t max_listens;  /* per message connection */
    size_t max_uris_per_listen;
    size_t max_subscriptions;     /* per subscriber */
    size_t max_all_subscriptions; /* on all workers; 0: any number */
    size_t outbox_max;            /* pending notifications per subscriber */
    size_t max_broad;         /* subscriptions per principal that cover a whole mount or scheme */
    size_t max_value_bytes;   /* content that a notification may include */
    size_t max_calls;         /* tool and prompt handlers under way, on all workers */
    uint64_t call_timeout_ms; /* for each of them */
    uint64_t ask_timeout_ms;  /* for a client to answer their questions */
    size_t max_tasks;         /* tasks that run or have results; … */
    size_t max_client_tasks;  /* … of one client */
    uint64_t task_ttl_ms;     /* how long each is kept, from its creation */
    const struct option_limits *options; /* of subscriptions (engine/delivery/options.h) */
    bool io_uring;                       /* try to gather writes */
    uint64_t session_timeout_ms;
    uint64_t bookmark_ms;    /* interval of bookmarks */
    int64_t retry_ms;        /* sent to clients of resumable streams */
    bool refuses_stale;      /* stale data is not served (`stale-reads`) */
    uint64_t list_linger_ms; /* how long lists are watched after a session's last stream */
};

#define WORKER_KINDS 8u
struct worker_stats {
    uint64_t bytes_in;
    uint64_t changes; /* announced by the hub since it started */
    uint64_t requests, deliveries, coalesced, truncated, cut;
    uint64_t pauses;        /* connections that used up their turn */
    uint64_t most_per_turn; /* most messages handled for one of them */
    size_t subscriptions, subscribers, sessions;
    size_t by_kind[WORKER_KINDS]; /* of the subscriptions, by how they match: enum pattern_kind */
    size_t streams;               /* HTTP responses that are open as streams */
};

struct principal;

struct worker {
    struct loop *loop;
    struct mailbox *mailbox;
    unsigned index; /* index of this worker … */
    unsigned count; /* … of this many; 0: unknown. A session id selects one */
    const struct worker_limits *limits;
    const struct server_identity *self; /* engine/protocol/dialect.h */
    struct hub *hub;                    /* engine/delivery/hub.h */
    /* State of the whole server, used from any thread: */
    struct limit_counters *limit_counters;   /* security/limits.h */
    struct quotas *quotas;                   /* security/limits.h */
    struct client_accounts *client_accounts; /* security/client_account.h */
    /* The state of each part: */
    struct principals *principals; /* security/principal.h */
    struct failures *failures;     /* security/failures.h */
    struct catalog *catalog;    /* engine/catalog/catalog.h: a reference to the newest snapshot */
    struct skill_cache *skills; /* engine/protocol/method_skills.h; NULL: none */
    struct requests *requests;  /* engine/protocol/request.h */
    struct handlers *handlers;  /* engine/protocol/feature.h */
    struct delivery *delivery;  /* engine/delivery/delivery.h */
    struct sessions *sessions;  /* engine/protocol/session.h */
    struct drain *drain;        /* engine/protocol/enforce.h */

    uint64_t epoch;        /* of the change log */
    uint64_t last_seq;     /* the number of the newest change seen */
    uint64_t next_request; /* for engine/protocol/request.h … */
    size_t message_bytes;  /* … and: of the message that is being read */
    const char *ending;    /* reason for the end under way, for the log; NULL: unset … */
    const struct channel_facts *ending_facts; /* … and the connection that it ends; or NULL */
    size_t jobs;                              /* not yet finished by providers and handlers */
    struct job *first_job;                    /* … the newest of them: engine/catalog/job.h */
    bool stopping;            /* nothing new is started (engine/protocol/enforce.h) */
    struct sendq_batch batch; /* gathers the writes of a turn */
    struct sealer sealer;     /* of cursors and states kept by clients; with the hub's key */
    struct loop_timer *trim;  /* runs after large memory was freed: worker_trim_later */
    struct worker_stats stats;
};

/* `bytes` were handled and are freed shortly. If they are many (a message of some MiB becomes a
 * tree of a hundred), returns memory to the system a second later. */
#define WORKER_TRIM_BYTES (256u * 1024u)
#define WORKER_TRIM_MS 1000u
void worker_trim_later(struct worker *worker, size_t bytes);

/* Initializes only the worker's own part: loop, hub, limits and identity are set.
 * TIDINGS_E_NOMEM. */
int worker_init(struct worker *worker, const struct seal_key *key, struct tidings_error *err);
void worker_deinit(struct worker *worker); /* even if worker_init failed */

#endif
