/* SPDX-License-Identifier: MIT
 *
 * A worker: one thread's share of the server. It has what every part of the server needs (loop,
 * mailbox, limits) and knows the state that each folder keeps for it; what is in that state only
 * the folder's own header says. Everything belongs to the worker's thread; other threads reach it
 * through its mailbox, whose messages get the worker as their owner.
 *
 * engine/engine.h makes a worker with all of its parts.
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
    size_t outbox_max;            /* notifications waiting per subscriber */
    size_t max_broad;         /* subscriptions per principal that cover a whole mount or scheme */
    size_t max_value_bytes;   /* content that may ride in a notification */
    size_t max_calls;         /* handlers of tools and prompts under way, on all workers */
    uint64_t call_timeout_ms; /* for each of them */
    uint64_t ask_timeout_ms;  /* for a client to answer what they ask */
    size_t max_tasks;         /* tasks that run or whose results are kept; … */
    size_t max_client_tasks;  /* … of one client */
    uint64_t task_ttl_ms;     /* how long each is kept, from its beginning */
    const struct option_limits *options; /* of subscriptions (engine/delivery/options.h) */
    bool io_uring;                       /* try to gather writes */
    uint64_t session_timeout_ms;
    uint64_t bookmark_ms;    /* how often those who asked get the newest cursor */
    int64_t retry_ms;        /* told to clients of resumable streams */
    bool refuses_stale;      /* what may be old is not served (`stale-reads`) */
    uint64_t list_linger_ms; /* a session's lists are watched for after its last stream ended */
};

#define WORKER_KINDS 8u
struct worker_stats {
    uint64_t bytes_in;
    uint64_t changes; /* that the hub told of: all there were while it ran */
    uint64_t requests, deliveries, coalesced, truncated, cut;
    uint64_t pauses;        /* connections that had used up their turn */
    uint64_t most_per_turn; /* messages handled for one of them */
    size_t subscriptions, subscribers, sessions;
    size_t by_kind[WORKER_KINDS]; /* of the subscriptions, by how they match: enum pattern_kind */
    size_t streams;               /* answers over HTTP that are open as streams */
};

struct principal;

struct worker {
    struct loop *loop;
    struct mailbox *mailbox;
    unsigned index; /* this worker among the others … */
    unsigned count; /* … which are so many; 0: nobody said. Session ids lead to one of them */
    const struct worker_limits *limits;
    const struct server_identity *self; /* engine/protocol/dialect.h */
    struct hub *hub;                    /* engine/delivery/hub.h */
    /* Of the whole server, used from any thread: */
    struct limit_counters *limit_counters;   /* security/limits.h */
    struct quotas *quotas;                   /* security/limits.h */
    struct client_accounts *client_accounts; /* security/client_account.h */
    /* The state of each part: */
    struct principals *principals; /* security/principal.h */
    struct failures *failures;     /* security/failures.h */
    struct catalog *catalog;    /* engine/catalog/catalog.h: a reference to the newest snapshot */
    struct skill_cache *skills; /* engine/protocol/method_skills.h; NULL: nothing is known */
    struct requests *requests;  /* engine/protocol/request.h */
    struct handlers *handlers;  /* engine/protocol/feature.h */
    struct delivery *delivery;  /* engine/delivery/delivery.h */
    struct sessions *sessions;  /* engine/protocol/session.h */
    struct drain *drain;        /* engine/protocol/enforce.h */

    uint64_t epoch;        /* of the change log */
    uint64_t last_seq;     /* the number of the newest change seen */
    uint64_t next_request; /* for engine/protocol/request.h … */
    size_t message_bytes;  /* … also: of the message that is being read */
    const char *ending;    /* why what ends now does, for the log; NULL: nobody said … */
    const struct channel_facts
        *ending_facts;        /* … and of the connection that goes with it; or NULL */
    size_t jobs;              /* that providers and handlers have not finished */
    struct job *first_job;    /* … of them, the newest: engine/catalog/job.h */
    bool stopping;            /* nothing new is begun (engine/protocol/enforce.h) */
    struct sendq_batch batch; /* gathers what is written in a turn */
    struct sealer sealer;     /* of cursors and states that clients keep; with the hub's key */
    struct loop_timer *trim;  /* runs when much was let go: worker_trim_later */
    struct worker_stats stats;
};

/* So many bytes were handled, and will be free in a moment. When they are many (a message of some
 * MiB becomes a tree of a hundred), memory is given back to the system a second later. */
#define WORKER_TRIM_BYTES (256u * 1024u)
#define WORKER_TRIM_MS 1000u
void worker_trim_later(struct worker *worker, size_t bytes);

/* Its own part alone: loop, hub, limits and identity are set. TIDINGS_E_NOMEM. */
int worker_init(struct worker *worker, const struct seal_key *key, struct tidings_error *err);
void worker_deinit(struct worker *worker); /* also half made */

#endif
