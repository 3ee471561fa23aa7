/* SPDX-License-Identifier: MIT
 *
 * See silence.h.
 */
#include "client/silence.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/private.h"

uint64_t silence_limit(const struct tidings_client *c)
{
    const struct silence *s = &c->silence;
    if (c->settings.silence_ms > 0) {
        return c->settings.silence_ms;
    }
    return s->beats >= SILENCE_BEATS ? 3 * s->longest + SILENCE_MORE_MS : 0;
}

/* What is heard often does not set the timer each time: it looks again when it is due. */
static void arm(struct tidings_client *c)
{
    struct silence *s = &c->silence;
    uint64_t limit = silence_limit(c);
    if (s->is_listening && limit > 0 && !pump_is_set(&s->timer)) {
        uint64_t past = clock_monotonic_ms() - s->heard_at;
        pump_set(&c->pump, &s->timer, past < limit ? limit - past : 0);
    }
}

static void on_timer(void *user)
{
    struct tidings_client *c = user;
    struct silence *s = &c->silence;
    struct tidings_error why;
    uint64_t limit = silence_limit(c);
    if (!s->is_listening || c->stage != STAGE_READY) {
        return;
    }
    if (clock_monotonic_ms() - s->heard_at < limit) {
        arm(c);
        return;
    }
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "nothing was heard of the server for %" PRIu64 " ms",
                 limit);
    if (c->link->ops->hang_up) {
        c->link->ops->hang_up(c->link);
    }
    client_lose(c, &why);
}

void silence_init(struct tidings_client *c)
{
    pump_timer_init(&c->silence.timer, on_timer, c);
}

void silence_begin(struct tidings_client *c)
{
    if (!c->silence.is_listening) {
        c->silence.is_listening = true;
        c->silence.heard_at = clock_monotonic_ms();
    }
    arm(c);
}

void silence_end(struct tidings_client *c)
{
    struct silence *s = &c->silence;
    pump_unset(&s->timer);
    s->is_listening = false;
    s->beats = 0;
    s->longest = 0;
}

void silence_heard(struct tidings_client *c, bool is_beat)
{
    struct silence *s = &c->silence;
    if (!s->is_listening) {
        return;
    }
    uint64_t now = clock_monotonic_ms(), past = now - s->heard_at;
    s->heard_at = now;
    if (is_beat && past >= SILENCE_SHORTEST_MS) {
        s->beats += s->beats < SILENCE_BEATS;
        s->longest = past > s->longest ? past : s->longest;
        s->all_max = past > s->all_max ? past : s->all_max;
        c->info.public.beats = ++s->all;
        c->info.public.beat_ms = s->all_max;
    }
    arm(c);
}
