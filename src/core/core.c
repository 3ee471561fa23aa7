/* SPDX-License-Identifier: MIT
 *
 * A worker's core: begin, end, and the road of a change from the hub to the outboxes.
 */
#include "core/core.h"

#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/call.h"
#include "core/hub.h"
#include "core/peer.h"
#include "core/session.h"
#include "store/change.h"

#define TICK_MS 500u

/* The end of a turn: encode what waits into the send buffers. */
static void flush_dirty(void *user)
{
    struct core *core = user;
    struct list now;
    list_init(&now);
    list_splice(&now, &core->dirty);
    while (!list_empty(&now)) {
        struct peer *peer = list_entry(now.next, struct peer, dirty_link);
        list_remove(&peer->dirty_link);
        peer_flush(peer);
    }
}

static void on_tick(struct loop_timer *timer, void *user)
{
    (void)timer;
    session_sweep(user);
}

int core_init(struct core *core, struct loop *loop, struct hub *hub, unsigned index,
              struct tidings_error *err)
{
    core->loop = loop;
    core->hub = hub;
    core->index = index;
    core->epoch = hub_epoch(hub);
    core->last_seq = hub_last(hub);
    core->catalog = hub_catalog(hub);
    match_init(&core->match);
    map_init(&core->sessions);
    list_init(&core->session_list);
    list_init(&core->peers);
    list_init(&core->dirty);
    list_init(&core->list_watchers);
    sendq_batch_init(&core->batch);
    loop_hook_add(loop, &core->flush_hook, flush_dirty, core);
    core->mailbox = mailbox_create(loop, core, err);
    core->tick = loop_timer_open(loop, on_tick, core);
    if (!core->mailbox || !core->tick || hub_attach(hub, core) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    loop_timer_start(core->tick, TICK_MS, TICK_MS);
    return 0;
}

bool core_settle(struct core *core, uint64_t timeout_ms)
{
    uint64_t deadline = clock_monotonic_ms() + timeout_ms;
    while (core->outstanding > 0 && clock_monotonic_ms() < deadline) {
        struct pollfd fd = {.fd = loop_fd(core->loop), .events = POLLIN};
        (void)poll(&fd, 1, 10);
        loop_turn(core->loop);
    }
    return core->outstanding == 0;
}

void core_deinit(struct core *core)
{
    list_each(it, next, &core->session_list)
    {
        session_destroy(list_entry(it, struct session, link));
    }
    list_each(pit, pnext, &core->peers)
    {
        peer_destroy(list_entry(pit, struct peer, link));
    }
    loop_hook_remove(&core->flush_hook);
    loop_timer_close(core->tick);
    if (core->mailbox) {
        mailbox_close(core->mailbox);
        mailbox_unref(core->mailbox);
    }
    map_deinit(&core->sessions);
    match_deinit(&core->match);
    catalog_unref(core->catalog);
}

void core_set_catalog(struct core *core, struct catalog *catalog)
{
    catalog_unref(core->catalog);
    core->catalog = catalog;
}

static void offer(void *user, struct match_node *node)
{
    const struct change *change = user;
    struct sub *sub = list_entry(node, struct sub, node);
    struct peer *peer = sub->listen->peer;
    if (!peer->catchup) {
        peer_offer(peer, sub, change, change->kind);
    }
}

static void offer_list_changed(struct core *core)
{
    list_each(it, next, &core->list_watchers)
    {
        struct listen *listen = list_entry(it, struct listen, list_link);
        if (listen->live && listen->peer->sink && !listen->peer->catchup) {
            peer_owe_list(listen->peer, listen, core->last_seq);
        }
    }
}

/* A number is missing: a letter was lost for want of memory. Nobody knows what it said. */
static void resync_all(struct core *core)
{
    log_warn("changes lost", "reason=\"out of memory\" worker=%u", core->index);
    list_each(it, next, &core->peers)
    {
        struct peer *peer = list_entry(it, struct peer, link);
        if (peer->sink) {
            peer_resync(peer);
        }
    }
}

void core_on_change(struct core *core, const struct change *change)
{
    bool gap = change->seq != core->last_seq + 1;
    core->last_seq = change->seq;
    if (gap) {
        resync_all(core);
    }
    if (change->list_changed) {
        offer_list_changed(core);
    } else {
        struct change *shared = (struct change *)(uintptr_t)change;
        match_find(&core->match, change->uri, offer, shared);
    }
}

static void end_listen(struct listen *listen, struct core *core)
{
    struct buf result;
    buf_init(&result, 64u * 1024u);
    dialect_put_listen_result(&result, listen->id_json, core->self);
    if (!result.failed) { /* else the end of the stream says it */
        peer_send(listen->peer, &result);
    }
    buf_deinit(&result);
    listen_destroy(listen);
}

void core_stop(struct core *core)
{
    core->stopping = true;
    list_each(it, next, &core->peers)
    {
        struct peer *peer = list_entry(it, struct peer, link);
        if (!peer->sink) {
            continue;
        }
        peer_flush(peer);
        bool modern = false;
        list_each(lit, lnext, &peer->listens)
        {
            struct listen *listen = list_entry(lit, struct listen, link);
            if (listen->id_json.len > 0) {
                modern = true;
                end_listen(listen, core);
            }
        }
        if (modern && peer->sink) {
            peer->sink->ops->end(peer->sink);
        }
    }
    list_each(sit, snext, &core->session_list)
    {
        session_destroy(list_entry(sit, struct session, link));
    }
}
