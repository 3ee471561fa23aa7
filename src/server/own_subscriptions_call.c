/* SPDX-License-Identifier: MIT
 *
 * Answers the tool `my_subscriptions`.
 */
#include "server/own_subscriptions_call.h"

#include "base/mem.h"
#include "base/str.h"
#include "handler/call.h"
#include "protocol/own_subscriptions.h"

#define OWN_CALL_BYTES (8u << 20)

struct own_subscriptions_call {
    struct own_listing listing;
    struct tidings_call *call;
};

static void own_subscriptions_call_done(struct job *job)
{
    struct own_subscriptions_call *c = job->user;
    struct tidings_call *call = c->call;
    struct tidings_error err = job->err;
    struct buf text;
    struct jw w;
    int rc = job->code;
    buf_init(&text, OWN_CALL_BYTES);
    if (rc == 0) {
        jw_init(&w, &text);
        jw_begin_object(&w);
        own_listing_write(&c->listing, &w);
        jw_end_object(&w);
        rc = buf_check(&text, "the page", NULL, &err);
        rc = rc < 0 ? rc : call_take_structured(call, &text, &err);
    }
    buf_deinit(&text);
    own_listing_deinit(&c->listing);
    mem_free(c);
    tidings_call_done(call, rc, &err);
}

void own_subscriptions_call(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct own_subscriptions_call *c = mem_zalloc(sizeof(*c));
    int rc = c ? own_listing_init(&c->listing, own_subscriber(call->request), call->principal,
                                  tidings_call_string(call, "cursor"), &err)
               : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(c);
        tidings_call_done(call, rc, &err);
        return;
    }
    c->call = call;
    job_init(&c->listing.base, call->base.worker, own_subscriptions_call_done, c, STR_EMPTY);
    own_listing_start(&c->listing);
}
