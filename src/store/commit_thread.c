/* SPDX-License-Identifier: MIT
 *
 * The thread that writes the store, by group commit: the first write of a turn begins a batch;
 * before the loop would wait, before a read runs, and when the batch is large, it is committed and
 * its jobs are answered.
 *
 * A refusal rests on the stored state, which includes the writes before it in the batch. So the
 * keeper answers it after the commit, and a failed commit fails it too. Only a refusal before the
 * first write of a batch rests on committed state alone; the keeper answers it at once.
 *
 * A store that others write to may have a batch begin without its lock. If somebody else commits
 * meanwhile all of its jobs run again, with the lock: what they decided before does not count, so
 * even the first refusal waits for the commit.
 *
 * Invariant: `batch` holds the jobs that ran since `begin`, in order, none of them answered,
 * without the refusals that committed state explains. A batch is open exactly while `is_open`.
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
 * What the files of store/commit_thread.h share: jobs and their batches (store/commit_thread.c),
 * and following what others write (store/commit_thread.c).
 */

struct keeper {
    struct actor actor;
    struct loop_hook before_wait;
    struct loop_timer *idle;
    struct entities *entities;
    struct list batch;
    struct list again; /* of the batch, what has yet to be run a second time */
    unsigned count;
    unsigned last_count; /* of the batch before */
    bool is_open;
    bool is_unlocked; /* the batch began without the lock: all that ran is in it, also what was
                       * refused */
    bool is_in_doubt; /* it may have been committed before it was run again */
    struct durations commits; /* atomic: how long those took that went well */
    uint64_t lost;            /* atomic: batches */
    bool is_failing;          /* atomic: the last batch was lost, and it was logged */
    keeper_announce_fn announce;
    void *announce_user;
    /* Of a store that others write to as well: */
    struct store *shared;            /* that store; NULL: nobody else does */
    struct keeper_follower follower; /* zero: none yet … */
    bool is_following;               /* … and nobody is followed */
    struct loop_timer *follow_timer; /* when nobody wakes us */
    int woken_fd;                    /* that of the store; -1: none is watched */
    int watched_fd;                  /* a duplicate of it, ours to close; -1: none */
    struct loop_poll *woken;         /* of the duplicate */
    uint64_t reached;                /* what `follower` was last told */
    uint64_t broken_at;              /* everything has: the store lost changes; 0: it did not */
    uint64_t say_ms;                 /* not before then, that it failed */
    bool has_new_types;              /* they have yet to be read again */
    bool is_unreachable;             /* atomic: the store cannot be reached, and it was logged */
};

/* Nothing of it happens without `shared`. */

/* ---------------------------------------------------------------------------------------------- */

#define BATCH_MAX 256u
#define BATCH_LARGE 8u /* of a store that others share: the next one waits for the lock */
#define IDLE_MS 200u   /* without writes, before work that was put off is done */
#define REST_MS 60000u /* and when nothing is ever written */

static void keeper_answer(struct keeper_job *job, int code)
{
    job->done(job, code);
}

static const char *keeper_follow_explain(const struct keeper *k, const struct tidings_error *err);

/* One line when it begins and one when it ends, however many are refused meanwhile. */
static void keeper_note(struct keeper *k, const struct tidings_error *err)
{
    if (err && !k->is_failing) {
        log_error(LOG_STORE, "store cannot be written",
                  KV("reason", keeper_follow_explain(k, err)));
    } else if (!err && k->is_failing) {
        log_info(LOG_STORE, "store can be written again", NO_FIELDS);
    }
    __atomic_store_n(&k->is_failing, err != NULL, __ATOMIC_RELAXED);
}

/* The batch is over; all that it had is in `ret`. */
static void keeper_end_batch(struct keeper *k, struct list *ret)
{
    list_init(ret);
    list_splice(ret, &k->batch);
    list_splice(ret, &k->again);
    k->last_count = k->count;
    k->count = 0;
    k->is_open = k->is_unlocked = k->is_in_doubt = false;
}

/* The error code of a lost batch: a store error must never read as a refusal of the job. */
static int keeper_loss(int code, struct tidings_error *err)
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

/* Everything in the batch is gone. */
static void keeper_lose(struct keeper *k, int code, struct tidings_error *err)
{
    struct list lost;
    code = keeper_loss(code, err);
    if (k->is_in_doubt && code != TIDINGS_E_UNKNOWN) {
        code = error_wrap(err, TIDINGS_E_UNKNOWN,
                          "whether it was kept is not known; read before you try again");
    }
    keeper_note(k, err);
    __atomic_fetch_add(&k->lost, 1, __ATOMIC_RELAXED);
    keeper_end_batch(k, &lost);
    while (!list_empty(&lost)) {
        struct keeper_job *job = list_entry(lost.next, struct keeper_job, letter.link);
        list_remove(&job->letter.link);
        job->is_lost = true;
        job->err = *err;
        keeper_answer(job, code);
    }
}

static int keeper_follow(struct keeper *k, struct tidings_error *err);

static void keeper_follow_note(struct keeper *k, int rc, const struct tidings_error *err);

/* Caches are up to date when the first job of a batch runs. */
static int keeper_begin(struct keeper *k, struct tidings_error *err)
{
    int rc = entities_begin(k->entities, err);
    keeper_follow_note(k, rc, err);
    if (rc == 0 && k->is_following) {
        rc = keeper_follow(k, err);
        if (rc < 0) {
            entities_rollback(k->entities);
        }
    }
    return rc;
}

/* It ran, and is in the batch or was answered. false: the batch was lost with it. */
static bool keeper_take(struct keeper *k, struct keeper_job *job)
{
    if (job->code < 0 && job->is_lost) {
        struct tidings_error err = job->err;
        keeper_follow_note(k, job->code, &err);
        entities_rollback(k->entities);
        list_append(&k->batch, &job->letter.link);
        keeper_lose(k, job->code, &err);
        return false;
    }
    /* What is in doubt may have been kept as it was decided first, until this one is committed. */
    bool rests_on_batch = k->count > 0 || k->is_unlocked || k->is_in_doubt;
    if (job->code < 0 && !rests_on_batch) {
        keeper_answer(job, job->code);
        return true;
    }
    list_append(&k->batch, &job->letter.link);
    k->count++;
    return true;
}

/* ---- without the lock ------------------------------------------------------------------------ */

static bool keeper_follow_is_level(const struct keeper *k);

/* Where many write at once the lock is worth its time: they come while it is waited for, and one
 * commit is enough for all of them. */
static bool keeper_begin_unlocked(struct keeper *k)
{
    k->is_unlocked = k->last_count < BATCH_LARGE && keeper_follow_is_level(k) &&
                     entities_begin_unlocked(k->entities);
    return k->is_unlocked;
}

static bool keeper_must_run_again(struct keeper *k)
{
    return k->is_unlocked && k->shared->ops->must_run_again(k->shared);
}

/* All of the batch, with the lock: from the last job on everything is taken back, then they run in
 * their order. false: it was lost, and its jobs were answered. */
static bool keeper_run_again(struct keeper *k)
{
    struct tidings_error err = {0};
    entities_rollback(k->entities);
    for (struct list *it = k->batch.prev; it != &k->batch; it = it->prev) {
        struct keeper_job *job = list_entry(it, struct keeper_job, letter.link);
        if (job->undo) {
            job->undo(job);
        }
    }
    list_splice(&k->again, &k->batch);
    k->count = 0;
    k->is_unlocked = false;
    int rc = keeper_begin(k, &err);
    if (rc < 0) {
        keeper_lose(k, rc, &err);
        return false;
    }
    bool goes_on = true;
    while (goes_on && !list_empty(&k->again)) {
        struct keeper_job *job = list_entry(k->again.next, struct keeper_job, letter.link);
        list_remove(&job->letter.link);
        job->is_lost = false;
        job->err = err;
        job->code = job->run(job, k->entities);
        goes_on = keeper_take(k, job);
    }
    return goes_on;
}

static void keeper_follow_reached(struct keeper *k);

/* ---- batches --------------------------------------------------------------------------------- */

static void keeper_commit(struct keeper *k)
{
    if (!k->is_open) {
        return;
    }
    struct tidings_error err = {0};
    uint64_t begun = clock_monotonic_ns();
    int rc = entities_commit(k->entities, &err);
    if (rc < 0 && keeper_must_run_again(k)) {
        k->is_in_doubt = rc == TIDINGS_E_UNKNOWN;
        if (!keeper_run_again(k)) {
            return;
        }
        rc = entities_commit(k->entities, &err);
    }
    if (rc == 0) {
        durations_count_shared(&k->commits, (clock_monotonic_ns() - begun) / 1000);
    }
    keeper_follow_note(k, rc, &err);
    if (rc < 0) {
        keeper_lose(k, rc, &err);
        return;
    }
    struct list done;
    keeper_note(k, NULL);
    keeper_end_batch(k, &done);
    while (!list_empty(&done)) {
        struct keeper_job *job = list_entry(done.next, struct keeper_job, letter.link);
        list_remove(&job->letter.link);
        keeper_answer(job, job->code);
    }
    keeper_follow_reached(k);
    loop_timer_start(k->idle, IDLE_MS, 0);
}

static void keeper_follow_before_wait(struct keeper *k);

/* Writes that came while a batch waited for the lock of a store that others write to go with it:
 * the longer the others have it, the more share the next commit. */
static void on_before_wait(void *user)
{
    struct keeper *k = user;
    if (k->is_open && k->shared) {
        (void)mailbox_drain(k->actor.mailbox);
    }
    keeper_commit(k);
    keeper_follow_before_wait(k);
}

static void on_idle(struct loop_timer *timer, void *user)
{
    struct keeper *k = user;
    bool is_more = !k->is_open && entities_idle(k->entities, NULL) == 1;
    loop_timer_start(timer, is_more ? 0 : REST_MS, 0);
}

static void keeper_run_write(struct keeper *k, struct keeper_job *job)
{
    struct tidings_error err = {0};
    if (!k->is_open) {
        int rc = keeper_begin_unlocked(k) ? 0 : keeper_begin(k, &err);
        if (rc < 0) {
            rc = keeper_loss(rc, &err);
            keeper_note(k, &err);
            job->is_lost = true;
            job->err = err;
            keeper_answer(job, rc);
            return;
        }
        k->is_open = true;
    }
    job->code = job->run(job, k->entities);
    bool goes_on = true;
    if (keeper_must_run_again(k)) {
        list_append(&k->batch, &job->letter.link);
        goes_on = keeper_run_again(k);
    } else {
        goes_on = keeper_take(k, job);
    }
    if (goes_on && k->count >= BATCH_MAX) {
        keeper_commit(k);
    }
}

static void job_deliver(struct letter *letter, void *owner)
{
    struct keeper *k = owner;
    struct keeper_job *job = list_entry(letter, struct keeper_job, letter);
    if (job->is_write) {
        keeper_run_write(k, job);
    } else if (job->is_aside) {
        keeper_answer(job, job->run(job, k->entities));
    } else {
        keeper_commit(k);
        int rc = job->run(job, k->entities);
        if (rc < 0) { /* what worked may have come from memory */
            keeper_follow_note(k, rc, &job->err);
        }
        keeper_answer(job, rc);
    }
}

static void job_drop(struct letter *letter)
{
    struct keeper_job *job = list_entry(letter, struct keeper_job, letter);
    keeper_answer(job, tidings_fail(&job->err, TIDINGS_E_CLOSED, "the server is ending"));
}

void keeper_submit(struct keeper *k, struct keeper_job *job)
{
    job->is_lost = false;
    job->letter.deliver = job_deliver;
    job->letter.drop = job_drop;
    mailbox_send(k->actor.mailbox, &job->letter);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void waiting_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    (void)owner;
}

static void waiting_drop(struct letter *letter)
{
    (void)letter; /* lies with who waits */
}

/* The mailbox is the one of who waits, who closes it: nothing of it may be touched after this. */
static void keeper_on_waited(struct keeper_job *job, int code)
{
    struct mailbox *waiter = mailbox_ref(job->waiter);
    if (job->then) {
        job->then(job, code);
    }
    job->code = code;
    job->letter.deliver = waiting_deliver;
    job->letter.drop = waiting_drop;
    mailbox_send(waiter, &job->letter);
    mailbox_unref(waiter);
}

int keeper_run(struct keeper *k, struct keeper_job *job)
{
    job->waiter = mailbox_create_blocking(job, &job->err);
    if (!job->waiter) {
        return job->err.code;
    }
    job->then = job->done;
    job->done = keeper_on_waited;
    list_init(&job->letter.link);
    keeper_submit(k, job);
    (void)mailbox_wait(job->waiter, -1);
    mailbox_close(job->waiter);
    mailbox_unref(job->waiter);
    return job->code;
}

void keeper_on_change(struct keeper *k, keeper_announce_fn announce, void *user)
{
    k->announce = announce;
    k->announce_user = user;
}

bool keeper_announce(struct keeper *k, const struct tidings_change *change, uint64_t position)
{
    if (!k->announce) {
        return false;
    }
    (void)k->announce(k->announce_user, change,
                      position); /* refused: everybody is told to look again */
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int keeper_follow_open(struct keeper *k, struct tidings_error *err);

int keeper_open(struct store *store, struct keeper **ret, struct tidings_error *err)
{
    struct keeper *k = mem_zalloc(sizeof(*k));
    if (!k) {
        store->ops->destroy(store);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list_init(&k->batch);
    list_init(&k->again);
    int rc = entities_open(store, &k->entities, err);
    rc = rc == 0 ? actor_init(&k->actor, k, err) : rc;
    rc = rc == 0 && store_is_shared(store) ? keeper_follow_open(k, err) : rc;
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
        keeper_close(k);
        return rc;
    }
    *ret = k;
    return 0;
}

static void keeper_follow_close(struct keeper *k);

void keeper_close(struct keeper *k)
{
    if (!k) {
        return;
    }
    actor_stop(&k->actor);
    if (k->actor.loop) {
        keeper_commit(k);
        keeper_follow_close(k);
        loop_hook_remove(&k->before_wait);
        loop_timer_close(k->idle);
    }
    actor_deinit(&k->actor);
    entities_close(k->entities);
    mem_free(k);
}

bool keeper_is_failing(const struct keeper *k)
{
    return __atomic_load_n(&k->is_failing, __ATOMIC_RELAXED);
}

void keeper_get_commits(const struct keeper *k, struct durations *ret, uint64_t *ret_lost)
{
    durations_copy_shared(ret, &k->commits);
    *ret_lost = __atomic_load_n(&k->lost, __ATOMIC_RELAXED);
}

/* -------------------------------------------------------------------------------------------------
 * Following what others write to the same store: applied and told in the order of positions, and
 * before anything of ours that comes later. When the store cannot be reached, that is said once,
 * and once that it can again.
 */

#define NEWS_AT_A_TIME 4
#define SAY_AGAIN_MS 1000

/* ---- unreachable ----------------------------------------------------------------------------- */

static const char *keeper_follow_explain(const struct keeper *k, const struct tidings_error *err)
{
    return k->shared && k->shared->ops->explain ? k->shared->ops->explain(k->shared, err)
                                                : err->text;
}

/* Clients do not get the reason, so it is logged, at most once a second. */
static void keeper_follow_say(struct keeper *k, const struct tidings_error *err)
{
    const char *all = keeper_follow_explain(k, err);
    uint64_t now = clock_monotonic_ms();
    if (all != err->text && now >= k->say_ms) {
        k->say_ms = now + SAY_AGAIN_MS;
        log_error(LOG_STORE, "store failed", KV("reason", all));
    }
}

static int run_conceal(struct keeper_job *job, struct entities *e)
{
    struct store *store = entities_store(e);
    (void)job;
    if (store->ops->conceal) {
        store->ops->conceal(store);
    }
    return 0;
}

void keeper_conceal(struct keeper *k)
{
    struct keeper_job job = {.is_aside = true, .run = run_conceal};
    (void)keeper_run(k, &job);
}

/* Only that it cannot be reached (TIDINGS_E_BUSY) counts, and that something worked. */
static void keeper_follow_note(struct keeper *k, int rc, const struct tidings_error *err)
{
    bool is_unreachable = rc == TIDINGS_E_BUSY;
    if (rc < 0 && !is_unreachable) {
        keeper_follow_say(k, err);
    }
    if (!k->shared || is_unreachable == k->is_unreachable || (rc < 0 && !is_unreachable)) {
        return;
    }
    if (is_unreachable) {
        log_warn(LOG_STORE, "store cannot be reached", KV("reason", keeper_follow_explain(k, err)));
    } else {
        log_info(LOG_STORE, "store can be reached again", NO_FIELDS);
    }
    __atomic_store_n(&k->is_unreachable, is_unreachable, __ATOMIC_RELEASE);
    entities_set_unreachable(k->entities, is_unreachable);
    if (k->follower.unreachable) {
        k->follower.unreachable(k->follower.user, is_unreachable);
    }
}

bool keeper_is_shared(const struct keeper *k)
{
    return k->shared != NULL;
}

const struct recent_version *keeper_recent(const struct keeper *k, struct tidings_str id)
{
    return entities_recent(k->entities, id);
}

void keeper_get_heard(const struct keeper *k, struct shared_heard *ret)
{
    *ret = (struct shared_heard){0};
    if (k->shared && k->shared->ops->heard) {
        k->shared->ops->heard(k->shared, ret);
    }
}

/* ---- following ------------------------------------------------------------------------------- */

static bool follow_one(void *user, const struct kept_change *change)
{
    struct keeper *k = user;
    k->has_new_types = k->has_new_types || change->kind == KEPT_TYPES;
    if (change->kind == KEPT_BROKEN) { /* told when everything was read again */
        k->broken_at = change->position;
        return false;
    }
    if (change->kind == KEPT_ENTITY || change->kind == KEPT_MOVED) {
        entities_note_followed(k->entities, &change->version);
    }
    if (k->follower.change && !k->follower.change(k->follower.user, change)) {
        k->broken_at = change->position;
        return false;
    }
    return true;
}

/* Own changes were told as well: how far that is. */
static void keeper_follow_reached(struct keeper *k)
{
    if (!k->shared || !k->follower.reached) {
        return;
    }
    uint64_t reached = k->shared->ops->followed(k->shared);
    if (reached != k->reached) {
        k->reached = reached;
        k->follower.reached(k->follower.user, reached);
    }
}

/* What was lost is not there any more when people are told to look again. */
static int keeper_follow_reread(struct keeper *k, struct tidings_error *err)
{
    const struct kept_change broken = {.kind = KEPT_BROKEN, .position = k->broken_at};
    int rc = entities_reload_types(k->entities, err);
    entities_drop_cached(k->entities);
    if (rc == 0 && k->follower.reread) {
        rc = k->follower.reread(k->follower.user, entities_store(k->entities), err);
    }
    if (rc == 0 && k->follower.change) {
        (void)k->follower.change(k->follower.user, &broken);
    }
    k->broken_at = rc == 0 ? 0 : k->broken_at;
    return rc;
}

/* Everything that others committed is applied and told. Outside of batches, and right after
 * `begin`: then a failure leaves nothing but rollback. */
static int keeper_follow(struct keeper *k, struct tidings_error *err)
{
    int rc = k->broken_at > 0 ? keeper_follow_reread(k, err) : 0;
    rc = rc == 0 ? k->shared->ops->follow(k->shared, follow_one, k, err) : rc;
    while (rc == 0 && k->broken_at > 0) {
        rc = keeper_follow_reread(k, err);
        rc = rc == 0 ? k->shared->ops->follow(k->shared, follow_one, k, err) : rc;
    }
    if (rc == 0 && k->has_new_types) {
        rc = entities_reload_types(k->entities, err);
        k->has_new_types = rc < 0;
    }
    keeper_follow_note(k, rc, err);
    if (rc == 0) {
        keeper_follow_reached(k);
    }
    return rc;
}

/* Nothing is known that has yet to be followed or read again. */
static bool keeper_follow_is_level(const struct keeper *k)
{
    return k->is_following && k->broken_at == 0 && !k->has_new_types;
}

int keeper_follow_now(struct keeper *k, struct tidings_error *err)
{
    return k->is_following ? keeper_follow(k, err) : 0;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* What cannot be followed now is followed when it can be: the timer comes again. */
static void keeper_follow_on_timer(struct loop_timer *timer, void *user)
{
    struct keeper *k = user;
    struct tidings_error err = {0};
    (void)timer;
    if (!k->is_open) {
        (void)keeper_follow(k, &err);
    }
}

static void on_woken(struct loop_poll *poll, int events, void *user)
{
    struct keeper *k = user;
    struct tidings_error err = {0};
    (void)poll;
    (void)events;
    /* Not within a batch: it stays readable, or is asked for before the loop waits. */
    if (!k->is_open && k->shared->ops->wake(k->shared) != 0) {
        (void)keeper_follow(k, &err);
    }
}

/* What came while something else was asked. If that does not end, other work comes between. */
static void keeper_follow_news(struct keeper *k)
{
    struct tidings_error err = {0};
    bool has_news = k->shared->ops->has_news && k->shared->ops->has_news(k->shared);
    for (int i = 0; has_news && i < NEWS_AT_A_TIME; i++) {
        has_news = keeper_follow(k, &err) == 0 && k->shared->ops->has_news(k->shared);
    }
    if (has_news) {
        loop_timer_start(k->follow_timer, 0, KEEPER_FOLLOW_MS);
    }
}

static void keeper_follow_unwatch(struct keeper *k)
{
    loop_poll_close(k->woken);
    if (k->watched_fd >= 0) {
        close(k->watched_fd);
    }
    k->woken = NULL;
    k->woken_fd = k->watched_fd = -1;
}

/* The descriptor may be another one after each operation, and closed. A duplicate is watched: what
 * is closed before it is taken out of a loop may stay in there, because a process that is being
 * started holds it open for a moment, and cannot be taken out any more. */
static void keeper_follow_before_wait(struct keeper *k)
{
    if (!k->is_following) {
        return;
    }
    keeper_follow_news(k);
    int fd = k->shared->ops->descriptor(k->shared);
    if (fd >= 0 && fd == k->woken_fd) {
        return;
    }
    keeper_follow_unwatch(k);
    /* None, perhaps since it is another one of the same number: it is watched before this wait. */
    fd = fd >= 0 ? fd : k->shared->ops->descriptor(k->shared);
    k->watched_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    k->woken =
        k->watched_fd >= 0 ? loop_poll_open(k->actor.loop, k->watched_fd, on_woken, k, NULL) : NULL;
    if (k->woken && loop_poll_want(k->woken, LOOP_READ) == 0) {
        k->woken_fd = fd;
    } else {
        keeper_follow_unwatch(k); /* the timer looks */
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct following {
    struct keeper_job job;
    struct keeper *keeper;
    const struct keeper_follower *follower;
};

static int begin_following(struct keeper_job *job, struct entities *e)
{
    const struct following *f = list_entry(job, struct following, job);
    f->keeper->follower = *f->follower;
    f->keeper->is_following = true;
    entities_set_read_cache(e, f->follower->max_cached);
    loop_timer_start(f->keeper->follow_timer, KEEPER_FOLLOW_MS, KEEPER_FOLLOW_MS);
    return 0;
}

int keeper_on_follow(struct keeper *k, const struct keeper_follower *follower,
                     struct tidings_error *err)
{
    struct following f = {.keeper = k, .follower = follower};
    f.job.run = begin_following;
    int rc = keeper_run(k, &f.job);
    return rc < 0 ? tidings_fail(err, rc, "%s", f.job.err.text) : 0;
}

static int keeper_follow_open(struct keeper *k, struct tidings_error *err)
{
    k->woken_fd = k->watched_fd = -1;
    k->follow_timer = loop_timer_open(k->actor.loop, keeper_follow_on_timer, k);
    if (!k->follow_timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    k->shared = entities_store(k->entities);
    return 0;
}

/* Before the thread runs. */
static void keeper_follow_close(struct keeper *k)
{
    if (k->shared) {
        keeper_follow_unwatch(k);
    }
    loop_timer_close(k->follow_timer);
}
