/* SPDX-License-Identifier: MIT
 *
 * What a window holds back: a small outbox of its own until the period ends.
 */
#include "base/mem.h"
#include "delivery/outbox.h"
#include "delivery/subscription.h"
#include "delivery/window.h"
#include "delivery/window_private.h"
#include "store/change.h"

/* NOLINTNEXTLINE(readability-function-size): seven of them, on the path of every delivery */
enum window_result window_offer(struct windows *all, struct window *w, uint64_t now_ms,
                                struct subscription *sub, const struct change *change,
                                struct outbox_as as, size_t max)
{
    if (w->period_ms == 0 && !w->held) {
        return WINDOW_PASS;
    }
    if (!w->held && w->open_ms < now_ms + sub->gather_ms) {
        w->open_ms = now_ms + sub->gather_ms;
    }
    if (!w->held && now_ms >= w->open_ms) {
        w->open_ms = now_ms + w->period_ms;
        return WINDOW_PASS;
    }
    if (!w->held) {
        w->held = mem_alloc(sizeof(*w->held));
        if (!w->held) {
            return WINDOW_FULL;
        }
        outbox_init(w->held);
        if (windows_enter(all, w) < 0) {
            mem_free(w->held);
            w->held = NULL;
            return WINDOW_FULL;
        }
    }
    return outbox_push(w->held, sub, change, as, max) == OUTBOX_FULL ? WINDOW_FULL : WINDOW_HELD;
}

void window_clear(struct windows *all, struct window *w)
{
    windows_leave(all, w);
    if (w->held) {
        outbox_deinit(w->held);
        mem_free(w->held);
        w->held = NULL;
    }
}

uint64_t window_first_seq(const struct window *w)
{
    return w->held && w->held->count > 0 ? outbox_first(w->held)->first_seq : 0;
}
