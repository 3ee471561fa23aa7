/* SPDX-License-Identifier: MIT
 *
 * Waits until this node has followed the store up to where it is now, by arming no scopes at the
 * hub (hub_arm): its answer comes when everything up to `await` has its number.
 *
 * The position of the cursor alone would not do. A cursor says that everything up to it was told,
 * so what a window or a queue holds back keeps it below the change that its own message tells, and
 * a value may be newer than its change. What was told is committed; so the store is asked.
 */
#include "delivery/at_least.h"

#include "access/access.h"
#include "base/mem.h"
#include "delivery/cursor_seal.h"
#include "delivery/hub.h"
#include "worker/worker.h"

struct at_least {
    struct log_cursor cursor;
    bool is_full; /* whoever asks may be told numbers */
    void (*done)(void *user, int code, const struct tidings_error *err);
    void *user;
};

/* Of those that end in `~lost` too: what they count as told is. */
static bool at_least_read(struct worker *worker, const struct principal *principal,
                          struct tidings_str text, struct log_cursor *ret)
{
    return cursor_is_sealed(text) ? cursor_seal_open(worker, principal, text, ret)
                                  : access_is_full(principal) && cursor_parse(text, ret);
}

static int at_least_check(const struct worker *worker, const struct log_cursor *c,
                          struct tidings_error *err)
{
    uint64_t number;
    bool is_ours = c->epoch == worker->epoch && c->seq <= worker->last_seq;
    return is_ours || (c->has_position && hub_resume(worker->hub, c, true, &number))
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "nothing is known here of the cursor in 'dev.tidings/atLeast': read "
                              "without it");
}

static void at_least_end(struct at_least *a, int code, const struct tidings_error *err)
{
    a->done(a->user, code, err);
    mem_free(a);
}

static void at_least_answered(struct hub_arm *arm, struct worker *worker)
{
    struct at_least *a = arm->user;
    struct tidings_error err = {0};
    uint64_t reached = hub_reached(worker->hub);
    int rc = 0;
    if (arm->newest_code == TIDINGS_E_CLOSED) {
        rc = tidings_fail(&err, TIDINGS_E_CLOSED, "%s", arm->newest_err.text);
    } else if (arm->newest_code < 0) {
        rc = tidings_fail(&err, TIDINGS_E_BUSY,
                          "the store cannot be reached, so this node does not know whether it has "
                          "come to the cursor; try again later");
    } else if (reached >= arm->await) {
        rc = at_least_check(worker, &a->cursor, &err);
    } else if (a->is_full) {
        rc =
            tidings_fail(&err, TIDINGS_E_TIMEOUT,
                         "this node has come to position %llu and not to %llu within %u ms; try "
                         "again later",
                         (unsigned long long)reached, (unsigned long long)arm->await, HUB_AWAIT_MS);
    } else {
        rc = tidings_fail(&err, TIDINGS_E_TIMEOUT,
                          "this node has not come to the cursor within %u ms; try again later",
                          HUB_AWAIT_MS);
    }
    hub_arm_free(arm);
    at_least_end(a, rc, &err);
}

static void at_least_dropped(struct hub_arm *arm)
{
    struct tidings_error err;
    int rc = tidings_fail(&err, TIDINGS_E_CLOSED, "the server is ending");
    at_least_end(arm->user, rc, &err);
}

void at_least_await(struct worker *worker, const struct principal *principal,
                    struct tidings_str cursor,
                    void (*done)(void *user, int code, const struct tidings_error *err), void *user)
{
    struct tidings_error err = {0};
    struct log_cursor c = {0};
    if (!at_least_read(worker, principal, cursor, &c)) {
        int rc = tidings_fail(&err, TIDINGS_E_INVALID,
                              "'dev.tidings/atLeast' must be a cursor that you were given");
        done(user, rc, &err);
        return;
    }
    if (c.epoch == worker->epoch || !c.has_position || !hub_is_shared(worker->hub)) {
        done(user, at_least_check(worker, &c, &err), &err);
        return;
    }
    struct at_least *a = mem_zalloc(sizeof(*a));
    struct hub_arm *arm = a ? hub_arm_create(worker, NULL, 0) : NULL;
    if (!arm) {
        mem_free(a);
        done(user, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return;
    }
    *a = (struct at_least){
        .cursor = c, .is_full = access_is_full(principal), .done = done, .user = user};
    arm->done = at_least_answered;
    arm->dropped = at_least_dropped;
    arm->user = a;
    arm->asks_newest = true;
    hub_arm_await(arm, &c);
    hub_arm_send(arm);
}
