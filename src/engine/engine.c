/* SPDX-License-Identifier: MIT
 *
 * Starting and stopping a worker's parts, in order, and the one timer that ends idle sessions,
 * unanswered requests, and expired principals and tasks; it also logs counts of suppressed log
 * lines, failures and streams.
 */
#include "engine/engine.h"

#include <poll.h>

#include "base/error.h"
#include "base/time.h"
#include "engine/catalog/catalog.h"
#include "engine/delivery/hub.h"
#include "engine/protocol/call.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/method.h"
#include "engine/protocol/method_skills.h"
#include "engine/protocol/tasks.h"
#include "engine/shared.h"
#include "security/access.h"

#define TICK_MIN_MS 100u /* minimum time between two checks for expiry */
#define WALL_MS 60000    /* the wall clock may be set: read it again after this */

/* When the next item expires; UINT64_MAX: none will. */
static uint64_t core_next_tick(const struct worker *worker, uint64_t now)
{
    const struct worker_limits *limits = worker->limits;
    uint64_t due = UINT64_MAX, at = 0;
    if (!list_empty(&worker->sessions->all)) {
        at = list_entry(worker->sessions->all.next, struct session, link)->active_ms;
        due = at + limits->session_timeout_ms;
    }
    if (!list_empty(&worker->sessions->streamless)) {
        at = list_entry(worker->sessions->streamless.next, struct session, streamless_link)
                 ->streamless_ms;
        due = at + limits->list_linger_ms < due ? at + limits->list_linger_ms : due;
    }
    if (!list_empty(&worker->requests->with_job) && limits->call_timeout_ms > 0) {
        at = list_entry(worker->requests->with_job.next, struct request, job_link)->job_begun_ms;
        due = at + limits->call_timeout_ms < due ? at + limits->call_timeout_ms : due;
    }
    if (!list_empty(&worker->requests->retained)) {
        at = list_entry(worker->requests->retained.next, struct request, job_link)->job_begun_ms;
        due = at + REQUEST_RETAINED_MS < due ? at + REQUEST_RETAINED_MS : due;
    }
    if (worker->failures->due_ms > 0) {
        due = worker->failures->due_ms < due ? worker->failures->due_ms : due;
    }
    at = tasks_due_ms(worker->handlers->tasks);
    due = at < due ? at : due;
    if (worker->delivery->log.due_ms > 0) {
        due = worker->delivery->log.due_ms < due ? worker->delivery->log.due_ms : due;
    }
    if (worker->principals->next_expiry_ms > 0 && !list_empty(&worker->delivery->subscribers)) {
        int64_t left = worker->principals->next_expiry_ms - clock_wall_ms();
        uint64_t wait = left < 0 ? 0 : left < WALL_MS ? (uint64_t)left : WALL_MS;
        due = now + wait < due ? now + wait : due;
    }
    return due;
}

/* Runs at the end of a turn. Sets the timer only if needed, so that an idle server sleeps. */
static void core_set_tick(void *user)
{
    struct core *core = user;
    uint64_t now = loop_now_ms(core->worker.loop), next = core_next_tick(&core->worker, now);
    if (next == UINT64_MAX || (core->tick_due_ms != 0 && core->tick_due_ms <= next)) {
        return;
    }
    next = next < now + TICK_MIN_MS ? now + TICK_MIN_MS : next;
    if (core->tick_due_ms == 0 || next < core->tick_due_ms) {
        core->tick_due_ms = next;
        loop_timer_start(core->tick, next - now, 0);
    }
}

static void core_on_tick(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct core *core = user;
    core->tick_due_ms = 0;
    session_sweep(&core->worker);
    requests_expire(&core->worker);
    requests_drop_retained(&core->worker);
    access_enforce_expiry(&core->worker);
    tasks_sweep(core->handlers.tasks);
    uint64_t now = loop_now_ms(core->worker.loop);
    if (core->failures.due_ms > 0 && core->failures.due_ms <= now) {
        failures_say_left_out(&core->failures, now);
    }
    if (core->delivery.log.due_ms > 0 && core->delivery.log.due_ms <= now) {
        delivery_log_left_out(&core->worker, now);
    }
}

static void core_place_parts(struct core *core, struct loop *loop)
{
    struct worker *worker = &core->worker;
    worker->loop = loop;
    worker->principals = &core->principals;
    worker->requests = &core->requests;
    worker->failures = &core->failures;
    worker->handlers = &core->handlers;
    worker->delivery = &core->delivery;
    worker->sessions = &core->sessions;
    worker->drain = &core->drain;
}

int core_init_pages(struct core *core, struct loop *loop, struct shared *shared,
                    struct tidings_error *err)
{
    struct worker *worker = &core->worker;
    core_place_parts(core, loop);
    shared_give(shared, worker);
    principals_init(worker->principals, loop, worker->quotas, worker->client_accounts);
    requests_init(worker->requests);
    return worker_init(worker, &shared->seal, err);
}

void core_deinit_pages(struct core *core)
{
    struct worker *worker = &core->worker;
    worker_deinit(worker);
    principals_deinit(worker->principals);
    requests_deinit(worker->requests);
}

int core_init(struct core *core, struct loop *loop, struct hub *hub, struct shared *shared,
              unsigned index, struct tidings_error *err)
{
    struct worker *worker = &core->worker;
    core_place_parts(core, loop);
    worker->index = index;
    worker->handlers->log_level = session_log_level;
    worker->handlers->client_requests = session_client_requests;
    worker->handlers->send_on_session = session_send;
    worker->requests->failed = last_error_note;
    shared_give(shared, worker);
    delivery_use_hub(worker, hub);
    int rc = worker_init(worker, &shared->seal, err);
    principals_init(worker->principals, worker->loop, worker->quotas, worker->client_accounts);
    requests_init(worker->requests);
    sessions_init(worker->sessions);
    bool has_calls = calls_open(worker);
    int delivered = delivery_init(worker, err);
    loop_hook_add(loop, &core->tick_hook, core_set_tick, core);
    core->tick = loop_timer_open(loop, core_on_tick, core);
    if (rc < 0 || delivered < 0 || !has_calls || !core->tick) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

bool core_await_jobs(struct core *core, uint64_t timeout_ms)
{
    struct worker *worker = &core->worker;
    uint64_t deadline = clock_monotonic_ms() + timeout_ms;
    calls_cancel(worker);
    while (worker->jobs > 0 && clock_monotonic_ms() < deadline) {
        struct pollfd fd = {.fd = loop_fd(worker->loop), .events = POLLIN};
        (void)poll(&fd, 1, 10);
        loop_turn(worker->loop);
    }
    return worker->jobs == 0;
}

void core_deinit(struct core *core)
{
    struct worker *worker = &core->worker;
    sessions_deinit(worker);
    delivery_end_subscribers(worker);
    loop_hook_remove(&core->tick_hook);
    loop_timer_close(core->tick);
    drain_deinit(worker);
    calls_close(worker);
    worker_deinit(worker);
    delivery_deinit(worker);
    principals_deinit(worker->principals);
    access_rules_unref(worker->principals->rules);
    catalog_unref(worker->catalog);
    skill_cache_deinit(worker);
    handlers_deinit(worker);
    requests_deinit(worker->requests);
}
