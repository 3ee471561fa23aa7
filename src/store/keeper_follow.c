/* SPDX-License-Identifier: MIT
 *
 * Following what others write to the same store: applied and told in the order of positions, and
 * before anything of ours that comes later. When the store cannot be reached, that is said once,
 * and once that it can again.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "store/keeper_private.h"
#include "store/shared.h"

#define NEWS_AT_A_TIME 4
#define SAY_AGAIN_MS 1000

/* ---- unreachable ----------------------------------------------------------------------------- */

const char *keeper_follow_explain(const struct keeper *k, const struct tidings_error *err)
{
    return k->shared && k->shared->explain ? k->shared->explain(entities_rows(k->entities), err)
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
    struct entity_rows *rows = entities_rows(e);
    (void)job;
    if (rows->shared && rows->shared->conceal) {
        rows->shared->conceal(rows);
    }
    return 0;
}

void keeper_conceal(struct keeper *k)
{
    struct keeper_job job = {.is_aside = true, .run = run_conceal};
    (void)keeper_run(k, &job);
}

/* Only that it cannot be reached (TIDINGS_E_BUSY) counts, and that something worked. */
void keeper_follow_note(struct keeper *k, int rc, const struct tidings_error *err)
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
    if (k->shared && k->shared->heard) {
        k->shared->heard(entities_rows(k->entities), ret);
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

void keeper_follow_reached(struct keeper *k)
{
    if (!k->shared || !k->follower.reached) {
        return;
    }
    uint64_t reached = k->shared->followed(entities_rows(k->entities));
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
        rc = k->follower.reread(k->follower.user, entities_rows(k->entities), err);
    }
    if (rc == 0 && k->follower.change) {
        (void)k->follower.change(k->follower.user, &broken);
    }
    k->broken_at = rc == 0 ? 0 : k->broken_at;
    return rc;
}

int keeper_follow(struct keeper *k, struct tidings_error *err)
{
    struct entity_rows *rows = entities_rows(k->entities);
    int rc = k->broken_at > 0 ? keeper_follow_reread(k, err) : 0;
    rc = rc == 0 ? k->shared->follow(rows, follow_one, k, err) : rc;
    while (rc == 0 && k->broken_at > 0) {
        rc = keeper_follow_reread(k, err);
        rc = rc == 0 ? k->shared->follow(rows, follow_one, k, err) : rc;
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

bool keeper_follow_is_level(const struct keeper *k)
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
    if (!k->is_open && k->shared->wake(entities_rows(k->entities)) != 0) {
        (void)keeper_follow(k, &err);
    }
}

/* What came while something else was asked. If that does not end, other work comes between. */
static void keeper_follow_news(struct keeper *k)
{
    struct entity_rows *rows = entities_rows(k->entities);
    struct tidings_error err = {0};
    bool has_news = k->shared->has_news && k->shared->has_news(rows);
    for (int i = 0; has_news && i < NEWS_AT_A_TIME; i++) {
        has_news = keeper_follow(k, &err) == 0 && k->shared->has_news(rows);
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
void keeper_follow_before_wait(struct keeper *k)
{
    if (!k->is_following) {
        return;
    }
    keeper_follow_news(k);
    int fd = k->shared->descriptor(entities_rows(k->entities));
    if (fd >= 0 && fd == k->woken_fd) {
        return;
    }
    keeper_follow_unwatch(k);
    /* None, perhaps since it is another one of the same number: it is watched before this wait. */
    fd = fd >= 0 ? fd : k->shared->descriptor(entities_rows(k->entities));
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

int keeper_follow_open(struct keeper *k, struct tidings_error *err)
{
    k->woken_fd = k->watched_fd = -1;
    k->follow_timer = loop_timer_open(k->actor.loop, keeper_follow_on_timer, k);
    if (!k->follow_timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    k->shared = entities_rows(k->entities)->shared;
    return 0;
}

void keeper_follow_close(struct keeper *k)
{
    if (k->shared) {
        keeper_follow_unwatch(k);
    }
    loop_timer_close(k->follow_timer);
}
