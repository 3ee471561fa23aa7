/* SPDX-License-Identifier: MIT
 *
 * The end of subscribers: one whose application wants it gone, and all of them when the server
 * stops.
 *
 * Every client that is ended comes back at once, to this server's successor or its neighbours, so
 * many are not ended together: subscribers go in the order they came, evenly over the time there
 * is. A few are no crowd and go at once. What is held back for a subscriber is told before its end.
 */
#include "delivery/core.h"

#include "delivery/subscriber.h"
#include "protocol/session.h"
#include "request/channel.h"

#define TICK_MS 20u
#define FEW 16u

static void end_listen(struct listen *listen, struct worker *worker)
{
    struct buf result;
    buf_init(&result, 64u * 1024u);
    dialect_put_listen_result(&result, listen_id(listen), worker->self);
    if (!result.failed) { /* else the end of the stream says it */
        subscriber_send(listen->subscriber, &result);
    }
    buf_deinit(&result);
    listen_destroy(listen);
}

/* Its session ends, or its listens with their results; and its stream. `withdraws`: what it has
 * subscribed in the legacy way on a pipe, which stays open, ends too and is told. */
static void end_peer(struct subscriber *subscriber, bool withdraws)
{
    if (subscriber->ops && subscriber->ops->disconnect) {
        subscriber->ops->disconnect(subscriber);
        return;
    }
    subscriber_flush(subscriber);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        if (listen->id_len > 0) {
            end_listen(listen, subscriber->worker);
            continue;
        }
        list_each (it, next, &listen->subs) {
            if (withdraws) {
                subscription_withdraw(list_entry(it, struct subscription, link));
            }
        }
    }
    if (subscriber->sink) {
        subscriber->sink->ops->end(subscriber->sink);
    }
}

void subscriber_disconnect(struct subscriber *subscriber)
{
    end_peer(subscriber, true);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void release_held(struct worker *worker)
{
    struct window *window;
    while ((window = windows_due(&worker->windows, UINT64_MAX)) != NULL) {
        subscriber_release_held(list_entry(window, struct subscription, window));
    }
}

/* Has it a stream that is yet to be ended? Programs' own subscriptions have none. */
static bool is_due(const struct worker *worker, const struct subscriber *subscriber)
{
    return subscriber->sink && subscriber->number > worker->stop.ended_upto;
}

static void end_some(struct worker *worker, size_t count)
{
    release_held(worker);
    list_each (it, next, &worker->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (count == 0) {
            return;
        }
        if (is_due(worker, subscriber)) {
            worker->stop.ended_upto = subscriber->number; /* they are in order */
            worker->stop.ended++;
            count--;
            end_peer(subscriber, false);
        }
    }
}

static void end_rest(struct worker *worker)
{
    end_some(worker, SIZE_MAX);
    list_each (it, next, &worker->session_list) { /* without a stream */
        session_destroy(list_entry(it, struct session, link));
    }
}

static void on_tick(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    uint64_t passed = loop_now_ms(worker->loop) - worker->stop.begun_ms;
    if (passed >= worker->stop.over_ms) {
        loop_timer_stop(timer);
        end_rest(worker);
        return;
    }
    size_t due = (size_t)(worker->stop.total * passed / worker->stop.over_ms) + 1;
    if (due > worker->stop.ended) {
        end_some(worker, due - worker->stop.ended);
    }
}

bool worker_is_done_with(const struct worker *worker, const struct channel *channel)
{
    return worker->stopping && list_empty(&channel->requests) &&
           (!channel->subscriber || !is_due(worker, channel->subscriber));
}

void worker_stop(struct worker *worker, uint64_t over_ms)
{
    if (worker->stopping) {
        if (worker->stop.timer) {
            loop_timer_stop(worker->stop.timer);
        }
        end_rest(worker);
        return;
    }
    worker->stopping = true;
    worker->stop.begun_ms = loop_now_ms(worker->loop);
    worker->stop.over_ms = over_ms;
    list_each (it, next, &worker->subscribers) {
        worker->stop.total += is_due(worker, list_entry(it, struct subscriber, link));
    }
    worker->stop.timer = over_ms > 0 ? loop_timer_open(worker->loop, on_tick, worker) : NULL;
    if (!worker->stop.timer) {
        end_rest(worker);
        return;
    }
    if (worker->stop.total <= FEW) {
        end_some(worker, SIZE_MAX);
    }
    loop_timer_start(worker->stop.timer, 0, TICK_MS);
}
