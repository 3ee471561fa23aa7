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
#include "store/keeper.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/keeper_private.h"
#include "store/shared.h"

#define BATCH_MAX 256u
#define BATCH_LARGE 8u /* of a store that others share: the next one waits for the lock */
#define IDLE_MS 200u   /* without writes, before work that was put off is done */
#define REST_MS 60000u /* and when nothing is ever written */

static void keeper_answer(struct keeper_job *job, int code)
{
    job->done(job, code);
}

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
    return k->is_unlocked && k->shared->must_run_again(entities_rows(k->entities));
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

int keeper_open(struct entity_rows *rows, struct keeper **ret, struct tidings_error *err)
{
    struct keeper *k = mem_zalloc(sizeof(*k));
    if (!k) {
        rows->ops->destroy(rows);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list_init(&k->batch);
    list_init(&k->again);
    int rc = entities_open(rows, &k->entities, err);
    rc = rc == 0 ? actor_init(&k->actor, k, err) : rc;
    rc = rc == 0 && rows->shared ? keeper_follow_open(k, err) : rc;
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
