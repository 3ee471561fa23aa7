/* SPDX-License-Identifier: MIT
 *
 * A client's subscriptions are walked and written, on the worker where each of them lives.
 */
#include "protocol/own_subscriptions.h"

#include <stdio.h>

#include "access/principal.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/hub.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "protocol/session.h"
#include "request/request.h"

#define OWN_MAX_BYTES (4u << 20) /* a page, one row more, and what the writer takes at once */

uint64_t own_subscriber(const struct request *request)
{
    const struct channel *channel = request->channel;
    if (request->session) {
        return subscriber_id(request->session->subscriber);
    }
    if (!channel || channel->ops->is_http) {
        return OWN_BY_PRINCIPAL;
    }
    return channel->subscriber ? subscriber_id(channel->subscriber) : OWN_NOTHING;
}

int own_listing_init(struct own_listing *l, uint64_t subscriber, const struct principal *principal,
                     struct tidings_str after, struct tidings_error *err)
{
    uint64_t skip = 0;
    if (after.len > 0 && (!str_to_u64(after, &skip) || skip > SIZE_MAX / 2)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the cursor is not one this server gave out; begin again without it");
    }
    bool is_named = principal && principal->kind != PRINCIPAL_ANONYMOUS;
    if (subscriber == OWN_BY_PRINCIPAL && !is_named) {
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "nothing says which subscriptions are yours: the request has no session, "
            "token or certificate, and is not on a message connection");
    }
    *l = (struct own_listing){.subscriber = subscriber,
                              .principal = principal,
                              .after = (size_t)skip,
                              .skip = (size_t)skip,
                              .wanted = OWN_PAGE_ROWS};
    buf_init(&l->rows, OWN_MAX_BYTES);
    return 0;
}

void own_listing_deinit(struct own_listing *l)
{
    buf_deinit(&l->rows);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void write_options(struct jw *w, const struct subscription *sub)
{
    static const char *const matches[] = {
        [PATTERN_LITERAL] = "literal", [PATTERN_CONTAINER] = "container", [PATTERN_GLOB] = "glob",
        [PATTERN_GLOB_Q] = "glob",     [PATTERN_TEMPLATE] = "template",   [PATTERN_REGEX] = "regex",
    };
    const struct subscription_extra *extra = sub->extra;
    const char *include = extra && extra->chain ? "patch"
                          : sub->wants_content  ? "value"
                          : sub->wants_metadata ? "metadata"
                                                : "none";
    jw_begin_object(w);
    jw_put_string(w, STR("match"), tidings_str(matches[sub->kind]));
    jw_put_string(w, STR("include"), tidings_str(include));
    jw_put_string(w, STR("order"), sub->is_strict ? STR("strict") : STR("merged"));
    jw_put_integer(w, STR("periodMs"), sub->window.period_ms);
    jw_put_integer(w, STR("gatherMs"), sub->gather_ms);
    jw_put_bool(w, STR("bookmarks"), sub->bookmarks);
    jw_put_string(w, STR("detail"), sub->is_slim ? STR("slim") : STR("full"));
    if (extra && extra->claimed > 0) {
        jw_put_string(w, STR("origin"), tidings_strn(extra->origin.ptr, extra->claimed));
        jw_put_bool(w, STR("echo"), false);
    }
    if (extra && extra->schema) {
        jw_put_raw(w, STR("filter"), filter_text(extra->schema));
    }
    jw_end_object(w);
}

static void own_write_row(struct jw *w, const struct subscription *sub)
{
    const struct subscriber *subscriber = sub->subscriber;
    struct log_cursor at = subscriber_cursor(subscriber);
    char cursor[CURSOR_TEXT];
    jw_begin_object(w);
    jw_put_raw(w, STR("uri"), subscription_spelled_json(sub));
    if (sub->listen->id_len > 0) {
        jw_put_raw(w, STR("subscriptionId"), listen_id(sub->listen));
    }
    jw_put_string(w, STR("state"),
                  sub->suspended          ? STR("suspended")
                  : !sub->listen->is_open ? STR("opening")
                                          : STR("active"));
    jw_put_string(w, STR("stream"),
                  subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR("none"));
    jw_put_bool(w, STR("truncated"), sub->truncated);
    jw_put_integer(w, STR("waiting"), sub->queued);
    jw_put_string(w, STR("cursor"),
                  cursor_seal_put(subscriber->worker, subscriber->principal, &at, cursor));
    jw_key(w, STR("options"));
    write_options(w, sub);
    jw_end_object(w);
}

/* false: the page is full. */
static bool own_offer_row(struct own_listing *l, const struct subscription *sub)
{
    if (l->skip > 0) {
        l->skip--;
        return true;
    }
    l->more = l->count == l->wanted || l->rows.len >= OWN_PAGE_BYTES;
    if (l->more) {
        return false;
    }
    struct jw w;
    if (l->count++ > 0) {
        buf_putc(&l->rows, ',');
    }
    jw_init(&w, &l->rows);
    own_write_row(&w, sub);
    return !l->rows.failed;
}

static bool own_walk_subscriber(struct own_listing *l, const struct subscriber *subscriber)
{
    list_each (lit, lnext, &subscriber->listens) {
        const struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            if (!own_offer_row(l, list_entry(it, struct subscription, link))) {
                return false;
            }
        }
    }
    return true;
}

static void own_walk(struct own_listing *l, const struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        bool is_own = l->subscriber == OWN_BY_PRINCIPAL
                          ? principal_is_same(subscriber->principal, l->principal)
                          : subscriber_id(subscriber) == l->subscriber;
        if (is_own && !own_walk_subscriber(l, subscriber)) {
            return;
        }
    }
}

/* ---- from worker to worker ------------------------------------------------------------------- */

static void own_finish(struct own_listing *l)
{
    struct tidings_error err = {0, ""};
    int rc = buf_check(&l->rows, "the page", NULL, &err);
    job_finish(&l->base, rc, &err);
}

/* A thread of the server ended. */
static void own_drop(struct letter *letter)
{
    struct tidings_error err;
    struct own_listing *l = list_entry(letter, struct own_listing, letter);
    job_finish(&l->base, tidings_fail(&err, TIDINGS_E_CLOSED, "the server is stopping"), &err);
}

static void own_on_hub(struct letter *letter, void *owner);

static void own_on_worker(struct letter *letter, void *owner)
{
    struct own_listing *l = list_entry(letter, struct own_listing, letter);
    struct worker *worker = owner;
    own_walk(l, worker);
    if (l->more || l->rows.failed) {
        own_finish(l);
        return;
    }
    l->letter.deliver = own_on_hub;
    mailbox_send(hub_mailbox(worker->hub), &l->letter);
}

static void own_on_hub(struct letter *letter, void *owner)
{
    struct own_listing *l = list_entry(letter, struct own_listing, letter);
    struct hub *hub = owner;
    if (l->worker >= hub_worker_count(hub)) {
        own_finish(l);
        return;
    }
    l->letter.deliver = own_on_worker;
    mailbox_send(hub_worker(hub, l->worker++)->mailbox, &l->letter);
}

static void own_run(struct job *job)
{
    struct own_listing *l = list_entry(job, struct own_listing, base);
    if (l->subscriber != OWN_BY_PRINCIPAL) { /* where its session or connection is: here */
        own_walk(l, job->worker);
        own_finish(l);
        return;
    }
    l->letter.deliver = own_on_hub;
    l->letter.drop = own_drop;
    mailbox_send(hub_mailbox(job->worker->hub), &l->letter);
}

void own_listing_start(struct own_listing *l)
{
    job_start(&l->base, NULL, own_run);
}

void own_listing_write(const struct own_listing *l, struct jw *w)
{
    jw_key(w, STR("subscriptions"));
    jw_begin_array(w);
    jw_raw(w, buf_str(&l->rows)); /* with the commas between them */
    jw_end_array(w);
    if (l->more) {
        char next[24];
        snprintf(next, sizeof(next), "%zu", l->after + l->count);
        jw_put_string(w, STR("nextCursor"), tidings_str(next));
    }
}
