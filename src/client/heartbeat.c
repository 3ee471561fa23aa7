/* SPDX-License-Identifier: MIT
 *
 * Counting the comments and pings of a server, and the timer that ends a silent connection.
 */
#include "client/heartbeat.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/connection.h"
#include "client/state.h"

uint64_t heartbeat_limit(const struct tidings_client *c)
{
    const struct heartbeat *s = &c->heartbeat;
    if (c->settings.silence_ms > 0) {
        return c->settings.silence_ms;
    }
    return s->beats >= HEARTBEAT_BEATS ? 3 * s->longest + HEARTBEAT_MORE_MS : 0;
}

/* What is heard often does not set the timer each time: it looks again when it is due. */
static void heartbeat_arm(struct tidings_client *c)
{
    struct heartbeat *s = &c->heartbeat;
    uint64_t limit = heartbeat_limit(c);
    if (s->is_listening && limit > 0 && !poller_is_set(&s->timer)) {
        uint64_t past = clock_monotonic_ms() - s->heard_at;
        poller_set(&c->poller, &s->timer, past < limit ? limit - past : 0);
    }
}

static void heartbeat_on_timer(void *user)
{
    struct tidings_client *c = user;
    struct heartbeat *s = &c->heartbeat;
    struct tidings_error why;
    uint64_t limit = heartbeat_limit(c);
    if (!s->is_listening || c->stage != STAGE_READY) {
        return;
    }
    if (clock_monotonic_ms() - s->heard_at < limit) {
        heartbeat_arm(c);
        return;
    }
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "nothing was heard of the server for %" PRIu64 " ms",
                 limit);
    if (c->transport->ops->hang_up) {
        c->transport->ops->hang_up(c->transport);
    }
    connection_lose(c, &why);
}

void heartbeat_init(struct tidings_client *c)
{
    poller_timer_init(&c->heartbeat.timer, heartbeat_on_timer, c);
}

void heartbeat_begin(struct tidings_client *c)
{
    if (!c->heartbeat.is_listening) {
        c->heartbeat.is_listening = true;
        c->heartbeat.heard_at = clock_monotonic_ms();
    }
    heartbeat_arm(c);
}

void heartbeat_end(struct tidings_client *c)
{
    struct heartbeat *s = &c->heartbeat;
    poller_unset(&s->timer);
    s->is_listening = false;
    s->beats = 0;
    s->longest = 0;
}

void heartbeat_heard(struct tidings_client *c, bool is_beat)
{
    struct heartbeat *s = &c->heartbeat;
    if (!s->is_listening) {
        return;
    }
    uint64_t now = clock_monotonic_ms(), past = now - s->heard_at;
    s->heard_at = now;
    if (is_beat && past >= HEARTBEAT_SHORTEST_MS) {
        s->beats += s->beats < HEARTBEAT_BEATS;
        s->longest = past > s->longest ? past : s->longest;
        s->all_max = past > s->all_max ? past : s->all_max;
        c->info.public.beats = ++s->all;
        c->info.public.beat_ms = s->all_max;
    }
    heartbeat_arm(c);
}
