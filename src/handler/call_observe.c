/* SPDX-License-Identifier: MIT
 *
 * The beginning and the end of each call of a tool: counted for the operator, and reported to the
 * program if it asked for that. Both on the worker's thread.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "handler/tool_counts.h"

int call_observe_begin(struct tidings_call *h, struct tidings_error *err)
{
    const struct tidings_call_hooks *hooks = h->base.worker->handlers->hooks;
    if (h->kind->feature != FEATURE_TOOL || h->begun_us > 0) { /* it goes on after a question */
        return 0;
    }
    h->begun_us = clock_monotonic_ns() / 1000;
    int rc = hooks && hooks->begin ? hooks->begin(hooks->user, h, err) : 0;
    if (rc < 0 && err->code >= 0) { /* it did not say why */
        tidings_fail(err, rc, "the call is refused");
    }
    return rc;
}

static enum tidings_call_outcome call_observe_outcome(const struct tidings_call *h)
{
    if (h->is_late) {
        return TIDINGS_CALL_TIMEOUT;
    }
    if (tidings_call_cancelled(h)) {
        return TIDINGS_CALL_CANCELLED;
    }
    switch (h->outcome) {
    case CALL_RESULT:
        return h->is_error ? TIDINGS_CALL_ERROR : TIDINGS_CALL_OK;
    case CALL_FAILED:
        return TIDINGS_CALL_ERROR;
    case CALL_REFUSED:
    case CALL_LIMITED:
        break;
    }
    return TIDINGS_CALL_REFUSED;
}

void call_observe_end(struct tidings_call *h)
{
    struct handlers *all = h->base.worker->handlers;
    if (h->begun_us == 0 || h->is_observed) {
        return;
    }
    h->is_observed = true;
    struct tidings_call_report report = {
        .tool = h->feature->name,
        .principal = tidings_call_principal(h),
        .outcome = call_observe_outcome(h),
        .duration_us = clock_monotonic_ns() / 1000 - h->begun_us,
    };
    all->counts = all->counts ? all->counts : mem_zalloc(sizeof(*all->counts));
    if (all->counts) { /* without memory it is not counted */
        tool_counts_add(all->counts, report.tool, report.outcome, report.duration_us);
    }
    if (all->hooks && all->hooks->end) {
        all->hooks->end(all->hooks->user, &report);
    }
}
