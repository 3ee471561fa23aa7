/* SPDX-License-Identifier: MIT
 *
 * The hub: one thread that numbers changes, keeps the log, owns the catalog and tells providers
 * what is being watched.
 *
 * Order is the promise. Everything the hub sends to one worker arrives in the order it was sent:
 * the answer to a watch request comes before every change numbered after it, and the answer to a
 * catch-up comes after every change it contains. So a worker that puts a subscription into its
 * index when the answer arrives has missed nothing and hears of nothing twice.
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
    struct changelog *durable; /* taken over, also on failure; NULL: one in memory */
    size_t max_announced;      /* bytes of changes on their way; 0: HUB_MAX_ANNOUNCED */
    uint64_t list_changed_ms;  /* at most one list_changed per this long */
    uint64_t watch_timeout_ms; /* a watch must be answered within; 0: some time */
    bool list_changed;
    bool
        is_shared; /* the log's store is written to by others too: hub_announce_applied is called */
};

/* `loop` and `shared` outlive the hub. Things can be registered and mounted from now on. */
struct hub *hub_create(struct loop *loop, struct shared *shared, struct tidings_error *err);
/* Begin the log; before workers attach. */
int hub_start(struct hub *hub, const struct hub_options *options, struct tidings_error *err);
/* The server does not start after all; its store is closed. Ends the log, if it began. Messages
 * that wait stay for the next start, except those of the store and of owned mounts: they are
 * ignored. */
void hub_undo_start(struct hub *hub);
/* Closes all providers. Workers must be gone. NULL is fine. */
void hub_destroy(struct hub *hub);

uint64_t hub_epoch(const struct hub *hub);
uint64_t hub_last(const struct hub *hub); /* the newest number; before threads start */
/* Are there positions of a store in cursors? The number this epoch began with. */
bool hub_is_durable(const struct hub *hub);
uint64_t hub_first(const struct hub *hub);
/* Any thread: may a cursor be one of another node, which came further than this one? */
bool hub_is_shared(const struct hub *hub);
/* Any thread: everything up to this position has its number. */
uint64_t hub_applied(const struct hub *hub);
/* Any thread. The store that nodes share cannot be reached, or can again: what is served from it
 * may be old meanwhile. */
void hub_set_store_unreachable(struct hub *hub, bool is_unreachable);
bool hub_is_store_unreachable(const struct hub *hub);
/* Any thread: `resume` of the log (store/change_log.h). */
bool hub_resume(const struct hub *hub, const struct log_cursor *cursor, bool is_durable,
                uint64_t *ret);
/* Any thread: `knows` of the log; the epoch 0 is. */
bool hub_knows_epoch(const struct hub *hub, uint64_t epoch, uint64_t position);
/* What the store knew of files (borrowed; NULL: nothing); before threads start. */
void hub_set_file_history(struct hub *hub, const struct file_history *history);
/* Any thread: the same for what lies below `scope`, a scope of a provider with a history. */
bool hub_resume_files(const struct hub *hub, struct tidings_str scope,
                      const struct log_cursor *cursor, uint64_t *ret);
/* Hub thread: the log. */
const struct changelog *hub_log(const struct hub *hub);
struct mailbox *hub_mailbox(struct hub *hub);
/* A new reference to the newest snapshot; hub thread, or before threads start. */
struct catalog *hub_catalog(struct hub *hub);
/* How long one list_changed is after the other at least. */
uint64_t hub_list_period(const struct hub *hub);
/* A new reference to the newest list (NULL: there are none); like hub_catalog. */
struct feature_list *hub_features(struct hub *hub, enum feature_kind kind);

/* Workers take part from the next change on. Before threads start. */
int hub_attach(struct hub *hub, struct worker *worker);
/* Hub thread: rules of subscriptions to come, on every worker. The reference stays the caller's.
 * TIDINGS_E_NOMEM: some have the old ones still. */
int hub_set_rules(struct hub *hub, struct option_rules *rules, struct tidings_error *err);
/* Hub thread: how many workers take part, and each of them. */
size_t hub_worker_count(const struct hub *hub);
struct worker *hub_worker(const struct hub *hub, size_t index);
/* Hub thread: to the first worker's mailbox; dropped when there is none. */
void hub_forward(struct hub *hub, struct thread_message *message);
void hub_detach_all(struct hub *hub);

/* ---- from any thread ------------------------------------------------------------------------- */

/* Takes no lock and never waits. Bounded: beyond max_announced bytes of changes that are not
 * numbered yet TIDINGS_E_BUSY, and every subscription is told once to look again; the same when
 * memory is gone (TIDINGS_E_NOMEM). A worker that is behind by as much is treated alike. */
int hub_announce(struct hub *hub, const struct tidings_change *change, struct tidings_error *err);
/* Receives the outcome of an announcement. */
struct hub_receipt {
    /* Once, on any thread. 0: it is committed, so every node notifies its subscribers.
     * TIDINGS_E_UNKNOWN: perhaps. Other codes: it did not happen. */
    void (*done)(struct hub_receipt *receipt, int code, const struct tidings_error *err);
};
/* Announce at every node of a cluster; without others it is hub_announce. Returns 0 at once; the
 * announcement waits while the store cannot be reached. */
int hub_announce_shared(struct hub *hub, const struct tidings_change *change,
                        struct tidings_error *err);
/* The same for a change that a client announces, as its share of LIMIT_ANNOUNCED. If the share is
 * used up, `why` says so, and no subscription is told. Returns 1 if `done` is called later;
 * TIDINGS_E_BUSY while the store cannot be reached. */
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
/* Who takes them, from any thread; before threads start. NULL: nobody any more. */
void hub_on_shared(struct hub *hub, hub_shared_fn fn, void *user);
/* Ask the store for its newest position, and follow up to there: hub_newest is called once, later.
 * One question at a time. */
typedef void (*hub_ask_newest_fn)(void *user);
/* Who asks; as hub_on_shared. */
void hub_on_ask_newest(struct hub *hub, hub_ask_newest_fn fn, void *user);
/* Any thread: the answer. `code` below 0: why there is none. */
void hub_newest(struct hub *hub, int code, uint64_t position, const struct tidings_error *err);
/* What the provider of a mount that one node owns for all says: a change, on the hub's thread; or
 * (NULL) that some may have been missed, on any. */
typedef int (*hub_owned_fn)(void *user, const struct tidings_provider *p,
                            const struct tidings_change *change, struct tidings_error *err);
/* Who takes that, until the hub is gone; before threads start. */
void hub_on_owned(struct hub *hub, hub_owned_fn fn, void *user);
/* True: the program or a client announces an unsubscribable publication. Any thread. The catalog
 * knows registered resources, and publishing marks its own changes. */
typedef bool (*hub_mute_fn)(void *user, struct tidings_str uri);
/* Before threads start. */
void hub_on_mute(struct hub *hub, hub_mute_fn fn, void *user);
/* As hub_announce, for what a store keeps: `position` is where it stands there. A URI of which
 * change_is_missed_uri is true (store/change.h): what lies below the rest of it may have changed.
 */
int hub_announce_durable(struct hub *hub, const struct tidings_change *change, uint64_t position,
                         struct tidings_error *err);
/* Of a store that others write to as well: everything up to this position was announced. */
void hub_announce_applied(struct hub *hub, uint64_t position);
/* The same, and the store lost what it had committed: every subscription is told once to look
 * again, and so is who comes back with a cursor of before `position`. */
void hub_announce_data_loss(struct hub *hub, uint64_t position);
/* A change cannot be announced: every subscription is told once to look again. Any thread; needs no
 * memory. */
void hub_overflow(struct hub *hub);
/* Anything may have changed: every subscription is told once. */
int hub_announce_everything(struct hub *hub, struct tidings_error *err);
/* The same of what lies below `prefix`, to those whose subscriptions may cover some of it; without
 * memory to all of them. */
void hub_announce_missed(struct hub *hub, struct tidings_str prefix);
/* At most one notification per `ms` for what matches `uri`, on every worker. */
int hub_set_rate(struct hub *hub, struct tidings_str uri, uint64_t ms, struct tidings_error *err);
/* Register or remove, and wait until it is done (at once before threads start and on the hub's own
 * thread). `entry` is taken over, also on failure. */
int hub_add_entry(struct hub *hub, struct catalog_entry *entry, struct tidings_error *err);
int hub_remove_entry(struct hub *hub, struct tidings_str uri, struct tidings_error *err);
/* The same for tools and prompts; `feature` is taken over, also on failure. */
int hub_add_feature(struct hub *hub, struct feature *feature, struct tidings_error *err);
int hub_remove_feature(struct hub *hub, enum feature_kind kind, struct tidings_str name,
                       struct tidings_error *err);
#define HUB_MAX_FEATURES 100000u
/* The hook for a URI or template text; `hook` NULL: none any more. Its reference is taken over,
 * also on failure. TIDINGS_E_LIMIT. */
int hub_set_hook(struct hub *hub, struct tidings_str text, struct watch_hook *hook,
                 struct tidings_error *err);
typedef int (*hub_fn)(struct hub *hub, void *arg, struct tidings_error *err);
/* Run fn(hub, arg) on the hub's thread (here, when that is this one or it does not run) and wait
 * for the outcome. */
int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err);
/* Nobody else does anything to the hub while it does not run. May be nested. */
void hub_hold(struct hub *hub);
void hub_release(struct hub *hub);
/* Send a message to the hub if it runs, so that it is delivered for sure. */
bool hub_send(struct hub *hub, struct thread_message *message);
/* The hub runs on this thread from now on, or not any more: then it looks into its mailbox for the
 * last time. */
void hub_set_running(struct hub *hub, bool running);
/* Is this the thread it runs on? */
bool hub_is_here(struct hub *hub);
/* This thread belongs to a worker of it; is it one that must not wait for the others? */
void hub_adopt_thread(struct hub *hub);
bool hub_is_ours(struct hub *hub);

/* Open and mount a provider; before threads start. `ret` (may be NULL) gets it. */
int hub_mount(struct hub *hub, const struct tidings_provider_ops *ops, struct tidings_str prefix,
              struct tidings_str config, struct tidings_provider **ret, struct tidings_error *err);

/* Close what is not mounted in `before`; before threads start, or after. */
void hub_unmount_new(struct hub *hub, const struct catalog *before);

/* ---- from workers ---------------------------------------------------------------------------- */

struct hub_watch_item {
    struct tidings_str scope; /* canonical; lies in the request's own memory */
    int code;                 /* the result */
    bool watched;             /* the provider watches: release it with hub_unwatch */
    struct tidings_error err;
};

#define HUB_AWAIT_MS 5000u
#define HUB_AWAIT_INCARNATIONS                                                                     \
    8u /* of cursors in one request; more are not waited for, and may be refused */

/* Ask that changes of some scopes be announced. One block of memory, made by the worker, sent to
 * the hub and back; `done` runs on the worker and frees it with hub_watch_request_free. Each scope
 * that came back watched is released later with hub_unwatch. */
struct hub_watch_request {
    struct thread_message message;
    struct hub *hub;
    struct mailbox *worker_mailbox;
    void (*done)(struct hub_watch_request *request, struct worker *worker);
    void (*dropped)(
        struct hub_watch_request *request); /* the hub or the worker went; freed afterwards */
    void *user;
    uint64_t seq;   /* the newest number when the answer was given */
    uint64_t await; /* hub_watch_request_await: the answer waits until everything up to this
                     * position of the store has its number … */
    struct {
        uint64_t epoch, position;
    } await_incarnations[HUB_AWAIT_INCARNATIONS]; /* … and these of others are known to have come so
                                                   * far; at most HUB_AWAIT_MS */
    unsigned await_count;
    bool asks_newest; /* set before it is sent: the store is asked how far it is, and that is
                       * awaited */
    int newest_code;  /* it could not be asked: `newest_err` */
    struct tidings_error newest_err;
    bool is_owners; /* set before it is sent: it is for all nodes, whoever subscribes (below) */
    struct list await_link; /* the hub's … */
    uint64_t await_due_ms;  /* … until when */
    size_t pending;
    size_t count;
    struct hub_watch_item items[];
};
/* Before it is sent: its answer waits until this node has come as far as that cursor, if it is one
 * of another node: that may have come further, have begun since, or was taken for ended and goes
 * on. */
void hub_watch_request_await(struct hub_watch_request *request, const struct log_cursor *at);
/* `scopes` are copied. NULL when out of memory. */
struct hub_watch_request *hub_watch_request_create(struct worker *worker,
                                                   const struct tidings_str *scopes, size_t count);
/* For everything that is mounted there, while this node owns the mount: whoever subscribes to that
 * watches nothing. `done` runs on the hub's thread, with no worker. */
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
    bool truncated; /* history does not reach back, or memory ran out */
    size_t count;
    struct changelog_row *changes; /* ascending */
};
/* Ask; `done` gets it on the worker and frees it with hub_catchup_free. Until then the asker may
 * write `user` (NULL: not interested any more) and nothing else. NULL: out of memory. */
struct hub_catchup *hub_catchup(struct worker *worker, uint64_t since,
                                void (*done)(struct hub_catchup *, struct worker *), void *user);
void hub_catchup_free(struct hub_catchup *catchup);

#endif
