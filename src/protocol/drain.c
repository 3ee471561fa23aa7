/* SPDX-License-Identifier: MIT
 *
 * The end of peers: one whose application wants it gone, and all of them when the server stops.
 *
 * Every client that is ended comes back at once, to this server's successor or its neighbours, so
 * many are not ended together: peers go in the order they came, evenly over the time there is. A
 * few are no crowd and go at once. What is held back for a peer is told before its end.
 */
#include "delivery/core.h"

#include "delivery/subscriber.h"
#include "protocol/session.h"
#include "request/channel.h"

#define TICK_MS 20u
#define FEW 16u

static void end_listen(struct listen *listen, struct core *core)
{
    struct buf result;
    buf_init(&result, 64u * 1024u);
    dialect_put_listen_result(&result, listen_id(listen), core->self);
    if (!result.failed) { /* else the end of the stream says it */
        peer_send(listen->peer, &result);
    }
    buf_deinit(&result);
    listen_destroy(listen);
}

/* Its session ends, or its listens with their results; and its stream. `withdraws`: what it has
 * subscribed in the legacy way on a pipe, which stays open, ends too and is told. */
static void end_peer(struct peer *peer, bool withdraws)
{
    if (peer->ops && peer->ops->disconnect) {
        peer->ops->disconnect(peer);
        return;
    }
    peer_flush(peer);
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        if (listen->id_len > 0) {
            end_listen(listen, peer->core);
            continue;
        }
        list_each (it, next, &listen->subs) {
            if (withdraws) {
                sub_withdraw(list_entry(it, struct sub, link));
            }
        }
    }
    if (peer->sink) {
        peer->sink->ops->end(peer->sink);
    }
}

void peer_disconnect(struct peer *peer)
{
    end_peer(peer, true);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void release_held(struct core *core)
{
    struct window *window;
    while ((window = windows_due(&core->windows, UINT64_MAX)) != NULL) {
        peer_release_held(list_entry(window, struct sub, window));
    }
}

/* Has it a stream that is yet to be ended? Programs' own subscriptions have none. */
static bool is_due(const struct core *core, const struct peer *peer)
{
    return peer->sink && peer->number > core->stop.ended_upto;
}

static void end_some(struct core *core, size_t count)
{
    release_held(core);
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (count == 0) {
            return;
        }
        if (is_due(core, peer)) {
            core->stop.ended_upto = peer->number; /* they are in order */
            core->stop.ended++;
            count--;
            end_peer(peer, false);
        }
    }
}

static void end_rest(struct core *core)
{
    end_some(core, SIZE_MAX);
    list_each (it, next, &core->session_list) { /* without a stream */
        session_destroy(list_entry(it, struct session, link));
    }
}

static void on_tick(struct loop_timer *timer, void *user)
{
    struct core *core = user;
    uint64_t passed = loop_now_ms(core->loop) - core->stop.begun_ms;
    if (passed >= core->stop.over_ms) {
        loop_timer_stop(timer);
        end_rest(core);
        return;
    }
    size_t due = (size_t)(core->stop.total * passed / core->stop.over_ms) + 1;
    if (due > core->stop.ended) {
        end_some(core, due - core->stop.ended);
    }
}

bool core_is_done_with(const struct core *core, const struct channel *channel)
{
    return core->stopping && list_empty(&channel->calls) &&
           (!channel->peer || !is_due(core, channel->peer));
}

void core_stop(struct core *core, uint64_t over_ms)
{
    if (core->stopping) {
        if (core->stop.timer) {
            loop_timer_stop(core->stop.timer);
        }
        end_rest(core);
        return;
    }
    core->stopping = true;
    core->stop.begun_ms = loop_now_ms(core->loop);
    core->stop.over_ms = over_ms;
    list_each (it, next, &core->peers) {
        core->stop.total += is_due(core, list_entry(it, struct peer, link));
    }
    core->stop.timer = over_ms > 0 ? loop_timer_open(core->loop, on_tick, core) : NULL;
    if (!core->stop.timer) {
        end_rest(core);
        return;
    }
    if (core->stop.total <= FEW) {
        end_some(core, SIZE_MAX);
    }
    loop_timer_start(core->stop.timer, 0, TICK_MS);
}
