/* SPDX-License-Identifier: MIT
 *
 * The commit thread: writes the store by group commit. The first write of a turn begins a batch;
 * the batch is committed and its jobs are answered before the loop waits, before a read runs, and
 * when the batch is large.
 *
 * A refusal depends on the stored state, which includes the earlier writes of the batch. So the
 * commit thread answers it after the commit, and a failed commit fails it too. Only a refusal
 * before the first write of a batch depends only on committed state; the commit thread answers it
 * immediately.
 *
 * On a shared store, a batch can begin without the lock. If another node commits first, all its
 * jobs run again with the lock: their first results are discarded, so even the first refusal waits
 * for the commit.
 *
 * Invariant: `batch` holds the jobs that ran since `begin`, in order, all unanswered, except for
 * refusals by committed state. A batch is open exactly while `is_open`.
 */
#include "store/commit_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Shared declarations of this file: jobs and their batches, and following the writes of other
 * nodes.
 */

struct commit_thread {
    struct actor actor;
    struct loop_hook before_wait;
    struct loop_timer *idle;
    struct entities *entities;
    struct list batch;
    struct list again; /* jobs of the batch that must still run a second time */
    unsigned count;
    unsigned last_count; /* of the previous batch */
    bool is_open;
    /* the batch began without the lock: it contains all jobs that ran, including refused ones */
    bool is_unlocked;
    bool is_in_doubt;         /* it may have been committed before it ran again */
    struct durations commits; /* atomic: duration of successful commits */
    uint64_t lost;            /* atomic: lost batches */
    bool is_failing;          /* atomic: the last batch was lost, and this was logged */
    commit_thread_announce_fn announce;
    void *announce_user;
    /* For a shared store: */
    struct store *shared;                   /* that store; NULL: it is not shared */
    struct commit_thread_follower follower; /* zero: none yet … */
    bool is_following;                      /* … and following is not started */
    struct loop_timer *follow_timer;        /* fallback if the store sends no notification */
    int woken_fd;                           /* descriptor of the store; -1: none is polled */
    int watched_fd;                         /* a duplicate of it, owned; -1: none */
    struct loop_poll *woken;                /* poll of the duplicate */
    uint64_t applied;                       /* the last position passed to `follower` */
    uint64_t data_loss_at;                  /* position of a data loss in the store; 0: none */
    uint64_t say_ms;                        /* earliest time to log the next failure */
    bool has_new_types;                     /* new types must still be read */
    bool is_unreachable; /* atomic: the store is unreachable, and this was logged */
};

/* Unused without `shared`. */

/* ---------------------------------------------------------------------------------------------- */

#define BATCH_MAX 256u
#define BATCH_LARGE 8u /* on a shared store: the next batch takes the lock */
#define IDLE_MS 200u   /* time without writes before deferred work runs */
#define REST_MS 60000u /* the same if nothing is ever written */

static void commit_thread_answer(struct store_job *job, int code)
{
    job->done(job, code);
}

static const char *commit_thread_follow_explain(const struct commit_thread *k,
                                                const struct tidings_error *err);

/* Logs once when failures begin and once when they end, however many jobs fail in between. */
static void commit_thread_note(struct commit_thread *k, const struct tidings_error *err)
{
    if (err && !k->is_failing) {
        log_error(LOG_STORE, "store cannot be written",
                  KV("reason", commit_thread_follow_explain(k, err)));
    } else if (!err && k->is_failing) {
        log_info(LOG_STORE, "store can be written again", NO_FIELDS);
    }
    __atomic_store_n(&k->is_failing, err != NULL, __ATOMIC_RELAXED);
}

/* Ends the batch; moves all its jobs to `ret`. */
static void commit_thread_end_batch(struct commit_thread *k, struct list *ret)
{
    list_init(ret);
    list_splice(ret, &k->batch);
    list_splice(ret, &k->again);
    k->last_count = k->count;
    k->count = 0;
    k->is_open = k->is_unlocked = k->is_in_doubt = false;
}

/* The error code of a lost batch: callers must be able to distinguish a store error from a refusal
 * of the job. */
static int commit_thread_loss(int code, struct tidings_error *err)
{
    switch (code) {
    case TIDINGS_E_NOMEM:
    case TIDINGS_E_BUSY:
    case TIDINGS_E_CLOSED:
    case TIDINGS_E_IO:
    case TIDINGS_E_INTERNAL:
    case TIDINGS_E_FULL:
    case TIDINGS_E_UNKNOWN:
        break;
    default:
        code = TIDINGS_E_IO;
        err->code = code;
    }
    return code;
}

/* Fails every job in the batch. */
static void commit_thread_drop_batch(struct commit_thread *k, int code, struct tidings_error *err)
{
    struct list lost;
    code = commit_thread_loss(code, err);
    if (k->is_in_doubt && code != TIDINGS_E_UNKNOWN) {
        code = error_wrap(err, TIDINGS_E_UNKNOWN,
                          "whether it was kept is not known; read before you try again");
    }
    commit_thread_note(k, err);
    __atomic_fetch_add(&k->lost, 1, __ATOMIC_RELAXED);
    commit_thread_end_batch(k, &lost);
    while (!list_empty(&lost)) {
        struct store_job *job = list_entry(lost.next, struct store_job, message.link);
        list_remove(&job->message.link);
        job->is_fatal = true;
        job->err = *err;
        commit_thread_answer(job, code);
    }
}

static int commit_thread_follow(struct commit_thread *k, struct tidings_error *err);

static void commit_thread_follow_note(struct commit_thread *k, int rc,
                                      const struct tidings_error *err);

/* Updates the caches before the first job of a batch runs. */
static int commit_thread_begin(struct commit_thread *k, struct tidings_error *err)
{
    int rc = entities_begin(k->entities, err);
    commit_thread_follow_note(k, rc, err);
    if (rc == 0 && k->is_following) {
        rc = commit_thread_follow(k, err);
        if (rc < 0) {
            entities_rollback(k->entities);
        }
    }
    return rc;
}

/* The job ran, and is in the batch or was answered. false: it lost the batch. */
static bool commit_thread_take(struct commit_thread *k, struct store_job *job)
{
    if (job->code < 0 && job->is_fatal) {
        struct tidings_error err = job->err;
        commit_thread_follow_note(k, job->code, &err);
        entities_rollback(k->entities);
        list_append(&k->batch, &job->message.link);
        commit_thread_drop_batch(k, job->code, &err);
        return false;
    }
    /* A batch in doubt may have been committed with its first results, until the rerun is
     * committed. */
    bool rests_on_batch = k->count > 0 || k->is_unlocked || k->is_in_doubt;
    if (job->code < 0 && !rests_on_batch) {
        commit_thread_answer(job, job->code);
        return true;
    }
    list_append(&k->batch, &job->message.link);
    k->count++;
    return true;
}

/* ---- without the lock ------------------------------------------------------------------------ */

static bool commit_thread_follow_is_level(const struct commit_thread *k);

/* With many concurrent writes the lock is worth its time: more writes arrive during the wait, and
 * one commit covers them all. */
static bool commit_thread_begin_unlocked(struct commit_thread *k)
{
    k->is_unlocked = k->last_count < BATCH_LARGE && commit_thread_follow_is_level(k) &&
                     entities_begin_unlocked(k->entities);
    return k->is_unlocked;
}

static bool commit_thread_must_run_again(struct commit_thread *k)
{
    return k->is_unlocked && k->shared->ops->must_run_again(k->shared);
}

/* Reruns the whole batch with the lock: undoes all jobs from the last to the first, then runs them
 * in order. false: the batch was lost, and its jobs were answered. */
static bool commit_thread_run_again(struct commit_thread *k)
{
    struct tidings_error err = {0};
    entities_rollback(k->entities);
    for (struct list *it = k->batch.prev; it != &k->batch; it = it->prev) {
        struct store_job *job = list_entry(it, struct store_job, message.link);
        if (job->undo) {
            job->undo(job);
        }
    }
    list_splice(&k->again, &k->batch);
    k->count = 0;
    k->is_unlocked = false;
    int rc = commit_thread_begin(k, &err);
    if (rc < 0) {
        commit_thread_drop_batch(k, rc, &err);
        return false;
    }
    bool goes_on = true;
    while (goes_on && !list_empty(&k->again)) {
        struct store_job *job = list_entry(k->again.next, struct store_job, message.link);
        list_remove(&job->message.link);
        job->is_fatal = false;
        job->err = err;
        job->code = job->run(job, k->entities);
        goes_on = commit_thread_take(k, job);
    }
    return goes_on;
}

static void commit_thread_follow_applied(struct commit_thread *k);

/* ---- batches --------------------------------------------------------------------------------- */

static void commit_thread_commit(struct commit_thread *k)
{
    if (!k->is_open) {
        return;
    }
    struct tidings_error err = {0};
    uint64_t begun = clock_monotonic_ns();
    int rc = entities_commit(k->entities, &err);
    if (rc < 0 && commit_thread_must_run_again(k)) {
        k->is_in_doubt = rc == TIDINGS_E_UNKNOWN;
        if (!commit_thread_run_again(k)) {
            return;
        }
        rc = entities_commit(k->entities, &err);
    }
    if (rc == 0) {
        durations_count_shared(&k->commits, (clock_monotonic_ns() - begun) / 1000);
    }
    commit_thread_follow_note(k, rc, &err);
    if (rc < 0) {
        commit_thread_drop_batch(k, rc, &err);
        return;
    }
    struct list done;
    commit_thread_note(k, NULL);
    commit_thread_end_batch(k, &done);
    while (!list_empty(&done)) {
        struct store_job *job = list_entry(done.next, struct store_job, message.link);
        list_remove(&job->message.link);
        commit_thread_answer(job, job->code);
    }
    commit_thread_follow_applied(k);
    loop_timer_start(k->idle, IDLE_MS, 0);
}

static void commit_thread_follow_before_wait(struct commit_thread *k);

/* Writes that arrive while a batch waits for the lock of a shared store join it: the longer other
 * nodes hold the lock, the more writes share the next commit. */
static void on_before_wait(void *user)
{
    struct commit_thread *k = user;
    if (k->is_open && k->shared) {
        (void)mailbox_drain(k->actor.mailbox);
    }
    commit_thread_commit(k);
    commit_thread_follow_before_wait(k);
}

static void on_idle(struct loop_timer *timer, void *user)
{
    struct commit_thread *k = user;
    bool is_more = !k->is_open && entities_idle(k->entities, NULL) == 1;
    loop_timer_start(timer, is_more ? 0 : REST_MS, 0);
}

static void commit_thread_run_write(struct commit_thread *k, struct store_job *job)
{
    struct tidings_error err = {0};
    if (!k->is_open) {
        int rc = commit_thread_begin_unlocked(k) ? 0 : commit_thread_begin(k, &err);
        if (rc < 0) {
            rc = commit_thread_loss(rc, &err);
            commit_thread_note(k, &err);
            job->is_fatal = true;
            job->err = err;
            commit_thread_answer(job, rc);
            return;
        }
        k->is_open = true;
    }
    job->code = job->run(job, k->entities);
    bool goes_on = true;
    if (commit_thread_must_run_again(k)) {
        list_append(&k->batch, &job->message.link);
        goes_on = commit_thread_run_again(k);
    } else {
        goes_on = commit_thread_take(k, job);
    }
    if (goes_on && k->count >= BATCH_MAX) {
        commit_thread_commit(k);
    }
}

static void job_deliver(struct thread_message *message, void *owner)
{
    struct commit_thread *k = owner;
    struct store_job *job = list_entry(message, struct store_job, message);
    if (job->is_write) {
        commit_thread_run_write(k, job);
    } else if (job->is_aside) {
        commit_thread_answer(job, job->run(job, k->entities));
    } else {
        commit_thread_commit(k);
        int rc = job->run(job, k->entities);
        if (rc < 0) { /* a success may have come from memory */
            commit_thread_follow_note(k, rc, &job->err);
        }
        commit_thread_answer(job, rc);
    }
}

static void job_drop(struct thread_message *message)
{
    struct store_job *job = list_entry(message, struct store_job, message);
    commit_thread_answer(job, tidings_fail(&job->err, TIDINGS_E_CLOSED, "the server is ending"));
}

void commit_thread_submit(struct commit_thread *k, struct store_job *job)
{
    job->is_fatal = false;
    job->message.deliver = job_deliver;
    job->message.drop = job_drop;
    mailbox_send(k->actor.mailbox, &job->message);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void waiting_deliver(struct thread_message *message, void *owner)
{
    (void)message;
    (void)owner;
}

static void waiting_drop(struct thread_message *message)
{
    (void)message; /* the waiting thread owns it */
}

/* The mailbox belongs to the waiting thread, which closes it: do not touch it after this. */
static void commit_thread_on_waited(struct store_job *job, int code)
{
    struct mailbox *waiter = mailbox_ref(job->waiter);
    if (job->then) {
        job->then(job, code);
    }
    job->code = code;
    job->message.deliver = waiting_deliver;
    job->message.drop = waiting_drop;
    mailbox_send(waiter, &job->message);
    mailbox_unref(waiter);
}

int commit_thread_run(struct commit_thread *k, struct store_job *job)
{
    job->waiter = mailbox_create_blocking(job, &job->err);
    if (!job->waiter) {
        return job->err.code;
    }
    job->then = job->done;
    job->done = commit_thread_on_waited;
    list_init(&job->message.link);
    commit_thread_submit(k, job);
    (void)mailbox_wait(job->waiter, -1);
    mailbox_close(job->waiter);
    mailbox_unref(job->waiter);
    return job->code;
}

void commit_thread_on_change(struct commit_thread *k, commit_thread_announce_fn announce,
                             void *user)
{
    k->announce = announce;
    k->announce_user = user;
}

bool commit_thread_announce(struct commit_thread *k, const struct tidings_change *change,
                            uint64_t position)
{
    if (!k->announce) {
        return false;
    }
    (void)k->announce(k->announce_user, change,
                      position); /* refused: all subscriptions get a resync */
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int commit_thread_follow_open(struct commit_thread *k, struct tidings_error *err);

int commit_thread_open(struct store *store, struct commit_thread **ret, struct tidings_error *err)
{
    struct commit_thread *k = mem_zalloc(sizeof(*k));
    if (!k) {
        store->ops->destroy(store);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list_init(&k->batch);
    list_init(&k->again);
    int rc = entities_open(store, &k->entities, err);
    rc = rc == 0 ? actor_init(&k->actor, k, err) : rc;
    rc = rc == 0 && store_is_shared(store) ? commit_thread_follow_open(k, err) : rc;
    if (rc == 0) {
        loop_hook_add(k->actor.loop, &k->before_wait, on_before_wait, k);
        k->idle = loop_timer_open(k->actor.loop, on_idle, k);
        if (k->idle) {
            loop_timer_start(k->idle, IDLE_MS, 0);
        }
        rc = k->idle ? actor_start(&k->actor, "entities", err)
                     : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        commit_thread_close(k);
        return rc;
    }
    *ret = k;
    return 0;
}

static void commit_thread_follow_close(struct commit_thread *k);

void commit_thread_close(struct commit_thread *k)
{
    if (!k) {
        return;
    }
    actor_stop(&k->actor);
    if (k->actor.loop) {
        commit_thread_commit(k);
        commit_thread_follow_close(k);
        loop_hook_remove(&k->before_wait);
        loop_timer_close(k->idle);
    }
    actor_deinit(&k->actor);
    entities_close(k->entities);
    mem_free(k);
}

bool commit_thread_is_failing(const struct commit_thread *k)
{
    return __atomic_load_n(&k->is_failing, __ATOMIC_RELAXED);
}

void commit_thread_get_commits(const struct commit_thread *k, struct durations *ret,
                               uint64_t *ret_lost)
{
    durations_copy_shared(ret, &k->commits);
    *ret_lost = __atomic_load_n(&k->lost, __ATOMIC_RELAXED);
}

/* -------------------------------------------------------------------------------------------------
 * Follows the writes of other nodes to the same store: applies and announces them in the order of
 * positions, and before any later write of this node. Logs once when the store becomes unreachable,
 * and once when it is reachable again.
 */

#define NEWS_AT_A_TIME 4
#define SAY_AGAIN_MS 1000

/* ---- unreachable ----------------------------------------------------------------------------- */

static const char *commit_thread_follow_explain(const struct commit_thread *k,
                                                const struct tidings_error *err)
{
    return k->shared && k->shared->ops->explain ? k->shared->ops->explain(k->shared, err)
                                                : err->text;
}

/* Clients do not get the reason, so it is logged, at most once a second. */
static void commit_thread_follow_say(struct commit_thread *k, const struct tidings_error *err)
{
    const char *all = commit_thread_follow_explain(k, err);
    uint64_t now = clock_monotonic_ms();
    if (all != err->text && now >= k->say_ms) {
        k->say_ms = now + SAY_AGAIN_MS;
        log_error(LOG_STORE, "store failed", KV("reason", all));
    }
}

static int run_conceal(struct store_job *job, struct entities *e)
{
    struct store *store = entities_store(e);
    (void)job;
    if (store->ops->conceal) {
        store->ops->conceal(store);
    }
    return 0;
}

void commit_thread_conceal(struct commit_thread *k)
{
    struct store_job job = {.is_aside = true, .run = run_conceal};
    (void)commit_thread_run(k, &job);
}

/* Only an unreachable store (TIDINGS_E_BUSY) counts, and every success. */
static void commit_thread_follow_note(struct commit_thread *k, int rc,
                                      const struct tidings_error *err)
{
    bool is_unreachable = rc == TIDINGS_E_BUSY;
    if (rc < 0 && !is_unreachable) {
        commit_thread_follow_say(k, err);
    }
    if (!k->shared || is_unreachable == k->is_unreachable || (rc < 0 && !is_unreachable)) {
        return;
    }
    if (is_unreachable) {
        log_warn(LOG_STORE, "store cannot be reached",
                 KV("reason", commit_thread_follow_explain(k, err)));
    } else {
        log_info(LOG_STORE, "store can be reached again", NO_FIELDS);
    }
    __atomic_store_n(&k->is_unreachable, is_unreachable, __ATOMIC_RELEASE);
    entities_set_unreachable(k->entities, is_unreachable);
    if (k->follower.unreachable) {
        k->follower.unreachable(k->follower.user, is_unreachable);
    }
}

bool commit_thread_is_shared(const struct commit_thread *k)
{
    return k->shared != NULL;
}

const struct recent_version *commit_thread_recent(const struct commit_thread *k,
                                                  struct tidings_str id)
{
    return entities_recent(k->entities, id);
}

void commit_thread_get_notifications(const struct commit_thread *k, struct notification_counts *ret)
{
    *ret = (struct notification_counts){0};
    if (k->shared && k->shared->ops->notifications) {
        k->shared->ops->notifications(k->shared, ret);
    }
}

/* ---- following ------------------------------------------------------------------------------- */

static bool follow_one(void *user, const struct log_entry *change)
{
    struct commit_thread *k = user;
    k->has_new_types = k->has_new_types || change->kind == LOG_ENTRY_TYPES;
    if (change->kind == LOG_ENTRY_DATA_LOSS) { /* announced after everything was read again */
        k->data_loss_at = change->position;
        return false;
    }
    if (change->kind == LOG_ENTRY_ENTITY || change->kind == LOG_ENTRY_MOVED) {
        entities_note_followed(k->entities, &change->version);
    }
    if (k->follower.change && !k->follower.change(k->follower.user, change)) {
        k->data_loss_at = change->position;
        return false;
    }
    return true;
}

/* Reports the position up to which changes were announced; this node's own changes have been, too.
 */
static void commit_thread_follow_applied(struct commit_thread *k)
{
    if (!k->shared || !k->follower.applied) {
        return;
    }
    uint64_t applied = k->shared->ops->followed(k->shared);
    if (applied != k->applied) {
        k->applied = applied;
        k->follower.applied(k->follower.user, applied);
    }
}

/* Lost data must be gone from the caches before clients are notified to read again. */
static int commit_thread_follow_reread(struct commit_thread *k, struct tidings_error *err)
{
    const struct log_entry broken = {.kind = LOG_ENTRY_DATA_LOSS, .position = k->data_loss_at};
    int rc = entities_reload_types(k->entities, err);
    entities_drop_cached(k->entities);
    if (rc == 0 && k->follower.reread) {
        rc = k->follower.reread(k->follower.user, entities_store(k->entities), err);
    }
    if (rc == 0 && k->follower.change) {
        (void)k->follower.change(k->follower.user, &broken);
    }
    k->data_loss_at = rc == 0 ? 0 : k->data_loss_at;
    return rc;
}

/* Applies and announces everything that other nodes committed. Call it outside of batches, or right
 * after `begin`: then a failure requires a rollback. */
static int commit_thread_follow(struct commit_thread *k, struct tidings_error *err)
{
    int rc = k->data_loss_at > 0 ? commit_thread_follow_reread(k, err) : 0;
    rc = rc == 0 ? k->shared->ops->follow(k->shared, follow_one, k, err) : rc;
    while (rc == 0 && k->data_loss_at > 0) {
        rc = commit_thread_follow_reread(k, err);
        rc = rc == 0 ? k->shared->ops->follow(k->shared, follow_one, k, err) : rc;
    }
    if (rc == 0 && k->has_new_types) {
        rc = entities_reload_types(k->entities, err);
        k->has_new_types = rc < 0;
    }
    commit_thread_follow_note(k, rc, err);
    if (rc == 0) {
        commit_thread_follow_applied(k);
    }
    return rc;
}

/* Returns true if there is nothing left to follow or to read again. */
static bool commit_thread_follow_is_level(const struct commit_thread *k)
{
    return k->is_following && k->data_loss_at == 0 && !k->has_new_types;
}

int commit_thread_follow_now(struct commit_thread *k, struct tidings_error *err)
{
    return k->is_following ? commit_thread_follow(k, err) : 0;
}

/* ---- schedule -------------------------------------------------------------------------------- */

/* If following fails now, the timer retries it. */
static void commit_thread_follow_on_timer(struct loop_timer *timer, void *user)
{
    struct commit_thread *k = user;
    struct tidings_error err = {0};
    (void)timer;
    if (!k->is_open) {
        (void)commit_thread_follow(k, &err);
    }
}

static void on_woken(struct loop_poll *poll, int events, void *user)
{
    struct commit_thread *k = user;
    struct tidings_error err = {0};
    (void)poll;
    (void)events;
    /* Not within a batch: the descriptor stays readable, or the check runs before the loop waits.
     */
    if (!k->is_open && k->shared->ops->wake(k->shared) != 0) {
        (void)commit_thread_follow(k, &err);
    }
}

/* Follows changes that arrived during other requests. If more keep arriving, other work runs in
 * between. */
static void commit_thread_follow_news(struct commit_thread *k)
{
    struct tidings_error err = {0};
    bool has_news = k->shared->ops->has_news && k->shared->ops->has_news(k->shared);
    for (int i = 0; has_news && i < NEWS_AT_A_TIME; i++) {
        has_news = commit_thread_follow(k, &err) == 0 && k->shared->ops->has_news(k->shared);
    }
    if (has_news) {
        loop_timer_start(k->follow_timer, 0, COMMIT_THREAD_FOLLOW_MS);
    }
}

static void commit_thread_follow_unwatch(struct commit_thread *k)
{
    loop_poll_close(k->woken);
    if (k->watched_fd >= 0) {
        close(k->watched_fd);
    }
    k->woken = NULL;
    k->woken_fd = k->watched_fd = -1;
}

/* The descriptor can change after each operation, or be closed. Therefore a duplicate is polled: a
 * descriptor that is closed before it is removed from epoll can stay there, because a process that
 * is being started holds it open for a moment, and can then no longer be removed. */
static void commit_thread_follow_before_wait(struct commit_thread *k)
{
    if (!k->is_following) {
        return;
    }
    commit_thread_follow_news(k);
    int fd = k->shared->ops->descriptor(k->shared);
    if (fd >= 0 && fd == k->woken_fd) {
        return;
    }
    commit_thread_follow_unwatch(k);
    /* -1 can mean a new descriptor, even with the same number: get it now, and poll it before this
     * wait. */
    fd = fd >= 0 ? fd : k->shared->ops->descriptor(k->shared);
    k->watched_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    k->woken =
        k->watched_fd >= 0 ? loop_poll_open(k->actor.loop, k->watched_fd, on_woken, k, NULL) : NULL;
    if (k->woken && loop_poll_set_events(k->woken, LOOP_READ) == 0) {
        k->woken_fd = fd;
    } else {
        commit_thread_follow_unwatch(k); /* the timer checks instead */
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct following {
    struct store_job job;
    struct commit_thread *commit_thread;
    const struct commit_thread_follower *follower;
};

static int begin_following(struct store_job *job, struct entities *e)
{
    const struct following *f = list_entry(job, struct following, job);
    f->commit_thread->follower = *f->follower;
    f->commit_thread->is_following = true;
    entities_set_read_cache(e, f->follower->max_cached);
    loop_timer_start(f->commit_thread->follow_timer, COMMIT_THREAD_FOLLOW_MS,
                     COMMIT_THREAD_FOLLOW_MS);
    return 0;
}

int commit_thread_on_follow(struct commit_thread *k, const struct commit_thread_follower *follower,
                            struct tidings_error *err)
{
    struct following f = {.commit_thread = k, .follower = follower};
    f.job.run = begin_following;
    int rc = commit_thread_run(k, &f.job);
    return rc < 0 ? tidings_fail(err, rc, "%s", f.job.err.text) : 0;
}

static int commit_thread_follow_open(struct commit_thread *k, struct tidings_error *err)
{
    k->woken_fd = k->watched_fd = -1;
    k->follow_timer = loop_timer_open(k->actor.loop, commit_thread_follow_on_timer, k);
    if (!k->follow_timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    k->shared = entities_store(k->entities);
    return 0;
}

/* Call it before the thread runs. */
static void commit_thread_follow_close(struct commit_thread *k)
{
    if (k->shared) {
        commit_thread_follow_unwatch(k);
    }
    loop_timer_close(k->follow_timer);
}
