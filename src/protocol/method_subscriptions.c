/* SPDX-License-Identifier: MIT
 *
 * dev.tidings/subscriptions/list: a client asks what it is subscribed to.
 */
#include "base/str.h"
#include "protocol/method.h"
#include "protocol/own_subscriptions.h"
#include "request/page.h"

static void subscriptions_listed(struct job *job)
{
    struct request *request = job->user;
    struct own_listing *l = list_entry(job, struct own_listing, base);
    request_end_job(request);
    if (job->code < 0) {
        request_fail_err(request, &job->err, STR_EMPTY);
    } else {
        request_begin(request);
        own_listing_write(l, &request->w);
        request_end(request, CACHE_NONE);
    }
}

/* Its memory goes with the request. */
static void subscriptions_done(struct job *job)
{
    struct own_listing *l = list_entry(job, struct own_listing, base);
    struct buf rows = l->rows; /* answering ends the request */
    subscriptions_listed(job);
    buf_deinit(&rows);
}

void method_subscriptions_list(struct request *request)
{
    struct tidings_error err;
    struct json *cursor = jv_get(request->msg.params, "cursor");
    size_t wanted = page_size(request);
    if (wanted == 0) {
        return;
    }
    if (cursor && !jv_is(cursor, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.cursor must be a string");
        return;
    }
    struct own_listing *l = arena_alloc(&request->arena, sizeof(*l));
    int rc =
        l ? own_listing_init(l, own_subscriber(request), request->principal, jv_str(cursor), &err)
          : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        request_fail_err(request, &err, STR_EMPTY);
        return;
    }
    l->wanted = wanted < OWN_PAGE_ROWS ? wanted : OWN_PAGE_ROWS;
    job_init(&l->base, request->worker, subscriptions_done, request, STR_EMPTY);
    request_begin_job(request, &l->base);
    own_listing_start(l);
}
