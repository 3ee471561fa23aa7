/* SPDX-License-Identifier: MIT
 *
 * Ending the subscribers of a worker one after the other.
 */
#include "protocol/drain.h"

#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "protocol/session.h"
#include "request/channel.h"

#define DRAIN_TICK_MS 20u
#define DRAIN_FEW 16u

static void release_held(struct worker *worker)
{
    struct window *window;
    uint32_t due = lag_due_now();
    while ((window = windows_due(&worker->delivery->windows, UINT64_MAX)) != NULL) {
        subscriber_release_held(list_entry(window, struct subscription, window), due);
    }
}

/* Has it a stream that is yet to be ended? Programs' own subscriptions have none. */
static bool is_due(const struct worker *worker, const struct subscriber *subscriber)
{
    return subscriber->sink && subscriber->number > worker->drain->ended_upto;
}

static void end_some(struct worker *worker, size_t count)
{
    release_held(worker);
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (count == 0) {
            return;
        }
        if (is_due(worker, subscriber)) {
            worker->drain->ended_upto = subscriber->number; /* they are in order */
            worker->drain->ended++;
            count--;
            worker->ending = "the server is stopping";
            subscriber_end(subscriber, false);
            worker->ending = NULL;
        }
    }
}

static void end_rest(struct worker *worker)
{
    end_some(worker, SIZE_MAX);
    list_each (it, next, &worker->sessions->all) { /* without a stream */
        worker->ending = "the server is stopping";
        session_destroy(list_entry(it, struct session, link));
        worker->ending = NULL;
    }
}

static void drain_on_tick(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    uint64_t passed = loop_now_ms(worker->loop) - worker->drain->begun_ms;
    if (passed >= worker->drain->over_ms) {
        loop_timer_stop(timer);
        end_rest(worker);
        return;
    }
    size_t due = (size_t)(worker->drain->total * passed / worker->drain->over_ms) + 1;
    if (due > worker->drain->ended) {
        end_some(worker, due - worker->drain->ended);
    }
}

bool drain_is_done_with(const struct worker *worker, const struct channel *channel)
{
    return worker->stopping && list_empty(&channel->requests) &&
           (!channel->subscriber || !is_due(worker, channel->subscriber));
}

void drain_begin(struct worker *worker, uint64_t over_ms)
{
    if (worker->stopping) {
        if (worker->drain->timer) {
            loop_timer_stop(worker->drain->timer);
        }
        end_rest(worker);
        return;
    }
    worker->stopping = true;
    worker->drain->begun_ms = loop_now_ms(worker->loop);
    worker->drain->over_ms = over_ms;
    list_each (it, next, &worker->delivery->subscribers) {
        worker->drain->total += is_due(worker, list_entry(it, struct subscriber, link));
    }
    worker->drain->timer =
        over_ms > 0 ? loop_timer_open(worker->loop, drain_on_tick, worker) : NULL;
    if (!worker->drain->timer) {
        end_rest(worker);
        return;
    }
    if (worker->drain->total <= DRAIN_FEW) {
        end_some(worker, SIZE_MAX);
    }
    loop_timer_start(worker->drain->timer, 0, DRAIN_TICK_MS);
}

void drain_deinit(struct worker *worker)
{
    loop_timer_close(worker->drain->timer);
}
