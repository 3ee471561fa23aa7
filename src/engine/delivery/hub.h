/* SPDX-License-Identifier: MIT
 *
 * The hub: one thread that numbers changes, keeps the log, owns the catalog and tells providers
 * what to watch.
 *
 * The hub guarantees order. Everything it sends to one worker arrives in the order it was sent: the
 * answer to a watch request comes before every change numbered after it, and the answer to a
 * catch-up comes after every change it contains. A worker that puts a subscription into its index
 * when the answer arrives therefore misses no change and receives none twice.
 */
#ifndef ENGINE_DELIVERY_HUB_H
#define ENGINE_DELIVERY_HUB_H

#include "base/thread.h"
#include "engine/catalog/catalog.h"
#include "engine/protocol/cursor.h"
#include "engine/protocol/feature.h"
#include "store/change_log.h"

struct access_rules;
struct file_history;
struct worker;
struct hub;
struct refusal;
struct shared;
struct share_taker;
struct option_rules;

#define HUB_MAX_ANNOUNCED (32u << 20)

struct hub_options {
    struct changelog_limits log;
    struct changelog *durable; /* takes ownership, even on failure; NULL: in memory */
    size_t max_announced;      /* bytes of pending changes; 0: HUB_MAX_ANNOUNCED */
    uint64_t list_changed_ms;  /* minimum time between two list_changed */
    uint64_t watch_timeout_ms; /* deadline of providers' answers to a watch; 0: none */
    bool list_changed;
    bool is_shared; /* other nodes write to the log's store: hub_announce_applied is called */
};

/* `loop` and `shared` must outlive the hub. Entries and mounts can be added from now on. */
struct hub *hub_create(struct loop *loop, struct shared *shared, struct tidings_error *err);
/* Starts the log. Call before workers attach. */
int hub_start(struct hub *hub, const struct hub_options *options, struct tidings_error *err);
/* The server does not start after all; its store is closed. Ends the log if it was started. Waiting
 * messages stay for the next start, except those of the store and of owned mounts, which are
 * dropped. */
void hub_undo_start(struct hub *hub);
/* Closes all providers. Workers must be gone. Accepts NULL. */
void hub_destroy(struct hub *hub);

uint64_t hub_epoch(const struct hub *hub);
uint64_t hub_last(const struct hub *hub); /* the newest number; before threads start */
/* Returns true if cursors contain positions of a store. hub_first: the first number of this
 * epoch. */
bool hub_is_durable(const struct hub *hub);
uint64_t hub_first(const struct hub *hub);
/* Any thread. Returns true if a cursor may come from another node that is ahead of this one. */
bool hub_is_shared(const struct hub *hub);
/* Any thread: everything up to this position has its number. */
uint64_t hub_applied(const struct hub *hub);
/* Any thread. The shared store became unreachable, or reachable again. Reads may be stale during
 * the outage. */
void hub_set_store_unreachable(struct hub *hub, bool is_unreachable);
bool hub_is_store_unreachable(const struct hub *hub);
/* Any thread: changelog `resume` (store/change_log.h). */
bool hub_resume(const struct hub *hub, const struct log_cursor *cursor, bool is_durable,
                uint64_t *ret);
/* Any thread: changelog `knows`; true for epoch 0. */
bool hub_knows_epoch(const struct hub *hub, uint64_t epoch, uint64_t position);
/* Sets the stored file state (borrowed; NULL: none). Call before threads start. */
void hub_set_file_history(struct hub *hub, const struct file_history *history);
/* Any thread: the same for resources below `scope`, a scope of a provider with a file history. */
bool hub_resume_files(const struct hub *hub, struct tidings_str scope,
                      const struct log_cursor *cursor, uint64_t *ret);
/* Hub thread: the log. */
const struct changelog *hub_log(const struct hub *hub);
struct mailbox *hub_mailbox(struct hub *hub);
/* Returns a new reference to the newest snapshot. Hub thread, or before threads start. */
struct catalog *hub_catalog(struct hub *hub);
/* Returns the minimum time between two list_changed notifications. */
uint64_t hub_list_period(const struct hub *hub);
/* Returns a new reference to the newest list (NULL: none). Threads as for hub_catalog. */
struct feature_list *hub_features(struct hub *hub, enum feature_kind kind);

/* The worker receives changes from the next one on. Call before threads start. */
int hub_attach(struct hub *hub, struct worker *worker);
/* Hub thread: sets the rules of future subscriptions on every worker. The caller keeps its
 * reference. TIDINGS_E_NOMEM: some workers still have the old rules. */
int hub_set_rules(struct hub *hub, struct option_rules *rules, struct tidings_error *err);
/* Hub thread: the number of attached workers, and each of them. */
size_t hub_worker_count(const struct hub *hub);
struct worker *hub_worker(const struct hub *hub, size_t index);
/* Hub thread: forwards to the first worker's mailbox; drops the message if there is no worker. */
void hub_forward(struct hub *hub, struct thread_message *message);
void hub_detach_all(struct hub *hub);

/* ---- from any thread ------------------------------------------------------------------------- */

/* Takes no lock and never blocks. If more than max_announced bytes of changes have no number yet,
 * returns TIDINGS_E_BUSY and every subscription gets one `truncated` update; the same if memory
 * runs out (TIDINGS_E_NOMEM). A worker that is behind by the same number of bytes gets no more
 * changes, and its subscriptions get that update. */
int hub_announce(struct hub *hub, const struct tidings_change *change, struct tidings_error *err);
/* Receives the outcome of an announcement. */
struct hub_receipt {
    /* Called once, on any thread. 0: it is committed, so every node notifies its subscribers.
     * TIDINGS_E_UNKNOWN: it may be committed. Other codes: it was not committed. */
    void (*done)(struct hub_receipt *receipt, int code, const struct tidings_error *err);
};
/* Announces at every node of a cluster; same as hub_announce on a single node. Returns 0 at once;
 * the announcement waits while the store is unreachable. */
int hub_announce_shared(struct hub *hub, const struct tidings_change *change,
                        struct tidings_error *err);
/* The same for a change that a client announces, charged to its share of LIMIT_ANNOUNCED. If the
 * share is used up, `why` has the error and no subscription is notified. Returns 1 if `done` is
 * called later; TIDINGS_E_BUSY while the store is unreachable. */
int hub_announce_by(struct hub *hub, const struct tidings_change *change,
                    const struct share_taker *who, struct hub_receipt *receipt, struct refusal *why,
                    struct tidings_error *err);
/* The same at this node only. `who` NULL: the program. */
int hub_announce_here(struct hub *hub, const struct tidings_change *change,
                      const struct share_taker *who, struct refusal *why,
                      struct tidings_error *err);
/* `who`, `receipt` and `why` are NULL for the program. */
typedef int (*hub_shared_fn)(void *user, const struct tidings_change *change,
                             const struct share_taker *who, struct hub_receipt *receipt,
                             struct refusal *why, struct tidings_error *err);
/* Sets the handler of shared announcements, called on any thread. Call before threads start. NULL
 * removes it. */
void hub_on_shared(struct hub *hub, hub_shared_fn fn, void *user);
/* Asks the store for its newest position and follows up to it; hub_newest is called once, later.
 * Only one query may be pending. */
typedef void (*hub_ask_newest_fn)(void *user);
/* Sets the function that queries; rules as for hub_on_shared. */
void hub_on_ask_newest(struct hub *hub, hub_ask_newest_fn fn, void *user);
/* Any thread: the result. `code` below 0: the query failed. */
void hub_newest(struct hub *hub, int code, uint64_t position, const struct tidings_error *err);
/* Called with events of the provider of an owned mount: a change, on the hub's thread, or NULL on
 * any thread if changes may have been missed. */
typedef int (*hub_owned_fn)(void *user, const struct tidings_provider *p,
                            const struct tidings_change *change, struct tidings_error *err);
/* Sets that handler until the hub is destroyed. Call before threads start. */
void hub_on_owned(struct hub *hub, hub_owned_fn fn, void *user);
/* Returns true if the program or a client announces an unsubscribable publication. Any thread. The
 * catalog knows registered resources, and publishing marks its own changes. */
typedef bool (*hub_mute_fn)(void *user, struct tidings_str uri);
/* Before threads start. */
void hub_on_mute(struct hub *hub, hub_mute_fn fn, void *user);
/* Same as hub_announce, for a change kept in the store at `position`. If change_is_missed_uri
 * (store/change.h) is true for the URI, anything below the rest of the URI may have changed.
 */
int hub_announce_durable(struct hub *hub, const struct tidings_change *change, uint64_t position,
                         struct tidings_error *err);
/* For a shared store: everything up to this position was announced. */
void hub_announce_applied(struct hub *hub, uint64_t position);
/* The same, but the store lost committed data. Every subscription gets one `truncated` update, and
 * so does every client that resumes with a cursor from before `position`. */
void hub_announce_data_loss(struct hub *hub, uint64_t position);
/* A change cannot be announced. Every subscription gets one `truncated` update. Any thread;
 * allocates no memory. */
void hub_overflow(struct hub *hub);
/* Anything may have changed. Every subscription gets one `truncated` update. */
int hub_announce_everything(struct hub *hub, struct tidings_error *err);
/* The same for changes below `prefix`: notifies only subscriptions that may cover some of them, or
 * all subscriptions if memory runs out. */
void hub_announce_missed(struct hub *hub, struct tidings_str prefix);
/* Limits notifications for URIs that match `uri` to one per `ms`, on every worker. */
int hub_set_rate(struct hub *hub, struct tidings_str uri, uint64_t ms, struct tidings_error *err);
/* Register or remove an entry and wait for completion (immediate before threads start and on the
 * hub's own thread). Takes ownership of `entry`, even on failure. */
int hub_add_entry(struct hub *hub, struct catalog_entry *entry, struct tidings_error *err);
int hub_remove_entry(struct hub *hub, struct tidings_str uri, struct tidings_error *err);
/* The same for tools and prompts. Takes ownership of `feature`, even on failure. */
int hub_add_feature(struct hub *hub, struct feature *feature, struct tidings_error *err);
int hub_remove_feature(struct hub *hub, enum feature_kind kind, struct tidings_str name,
                       struct tidings_error *err);
#define HUB_MAX_FEATURES 100000u
/* Sets the hook of a URI or template; `hook` NULL removes it. Takes its reference, even on failure.
 * TIDINGS_E_LIMIT. */
int hub_set_hook(struct hub *hub, struct tidings_str text, struct watch_hook *hook,
                 struct tidings_error *err);
typedef int (*hub_fn)(struct hub *hub, void *arg, struct tidings_error *err);
/* Runs fn(hub, arg) on the hub's thread and waits for its result. Runs it here if this is the hub's
 * thread or the hub is not running. */
int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err);
/* Prevents other threads from using the hub while it is not running. Calls may nest. */
void hub_hold(struct hub *hub);
void hub_release(struct hub *hub);
/* Sends a message to the hub if it runs; delivery is then guaranteed. */
bool hub_send(struct hub *hub, struct thread_message *message);
/* The hub starts running on this thread, or stops. When it stops, it reads its mailbox one last
 * time. */
void hub_set_running(struct hub *hub, bool running);
/* Returns true on the hub's thread. */
bool hub_is_here(struct hub *hub);
/* hub_adopt_thread marks this thread as one of a worker. hub_is_ours returns true on such threads,
 * which must not wait for the others. */
void hub_adopt_thread(struct hub *hub);
bool hub_is_ours(struct hub *hub);

/* Opens and mounts a provider. Call before threads start. `ret` (may be NULL) receives it. */
int hub_mount(struct hub *hub, const struct tidings_provider_ops *ops, struct tidings_str prefix,
              struct tidings_str config, struct tidings_provider **ret, struct tidings_error *err);

/* Closes every provider that is not mounted in `before`. Call before threads start or after they
 * stop. */
void hub_unmount_new(struct hub *hub, const struct catalog *before);

/* ---- from workers ---------------------------------------------------------------------------- */

struct hub_watch_item {
    struct tidings_str scope; /* canonical; points into the request */
    int code;                 /* the result */
    bool watched;             /* the provider watches: release with hub_unwatch */
    struct tidings_error err;
};

#define HUB_AWAIT_MS 5000u
#define HUB_AWAIT_INCARNATIONS                                                                     \
    8u /* incarnations awaited per request; more are not awaited and may be rejected */

/* Asks the hub to announce changes of some scopes. One block of memory, made by the worker, sent to
 * the hub and back; `done` runs on the worker and frees it with hub_watch_request_free. Each scope
 * with `watched` set is released later with hub_unwatch. */
struct hub_watch_request {
    struct thread_message message;
    struct hub *hub;
    struct mailbox *worker_mailbox;
    void (*done)(struct hub_watch_request *request, struct worker *worker);
    void (*dropped)(
        struct hub_watch_request *request); /* the hub or the worker is gone; freed afterwards */
    void *user;
    uint64_t seq;   /* the newest number when the answer was given */
    uint64_t await; /* hub_watch_request_await: answer when all up to here is numbered … */
    struct {
        uint64_t epoch, position;
    } await_incarnations[HUB_AWAIT_INCARNATIONS]; /* … and these reached; at most HUB_AWAIT_MS */
    unsigned await_count;
    bool asks_newest; /* set before sending: query the store's newest position and await it */
    int newest_code;  /* the query failed: see `newest_err` */
    struct tidings_error newest_err;
    bool is_owners;         /* set before sending: for all nodes and subscribers (below) */
    struct list await_link; /* the hub's list … */
    uint64_t await_due_ms;  /* … and the deadline */
    size_t pending;
    size_t count;
    struct hub_watch_item items[];
};
/* Call before sending. If the cursor is from another node, the answer waits until this node has
 * reached it. The other node may be ahead, may have started since, or may still run although it
 * counted as dead. */
void hub_watch_request_await(struct hub_watch_request *request, const struct log_cursor *at);
/* Copies `scopes`. Returns NULL when out of memory. */
struct hub_watch_request *hub_watch_request_create(struct worker *worker,
                                                   const struct tidings_str *scopes, size_t count);
/* Watches everything mounted at `prefix` while this node owns the mount; subscriptions to it then
 * need no watch. `done` runs on the hub's thread, with no worker. */
struct hub_watch_request *hub_watch_request_create_owners(struct hub *hub,
                                                          struct tidings_str prefix);
void hub_watch_request_send(struct hub_watch_request *request);
void hub_watch_request_free(struct hub_watch_request *request);
void hub_unwatch(struct hub *hub, struct tidings_str scope);
void hub_unwatch_owners(struct hub *hub, struct tidings_str prefix); /* any thread */

/* Everything that changed after `since`, up to now. */
struct hub_catchup {
    struct thread_message message;
    struct hub *hub;
    struct mailbox *worker_mailbox;
    void (*done)(struct hub_catchup *catchup, struct worker *worker);
    void *user;
    uint64_t since;
    uint64_t seq;   /* up to here */
    bool truncated; /* the log does not reach back, or memory ran out */
    size_t count;
    struct changelog_row *changes; /* ascending */
};
/* Queries the log; `done` receives the result on the worker and frees it with hub_catchup_free.
 * Until then the caller may only write `user` (NULL: result not needed). Returns NULL when out of
 * memory. */
struct hub_catchup *hub_catchup(struct worker *worker, uint64_t since,
                                void (*done)(struct hub_catchup *, struct worker *), void *user);
void hub_catchup_free(struct hub_catchup *catchup);

#endif
