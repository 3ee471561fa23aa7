/* SPDX-License-Identifier: MIT
 *
 * subscriptions/listen: answers every error in the request itself; then the request becomes a
 * stream (a message connection is one already) and its URIs are resolved one by one, each accepted
 * or refused separately.
 */
#include "engine/protocol/method_listen.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/method.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/failures.h"
#include "security/limits.h"
#include "security/principal.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * resources/subscribe and resources/unsubscribe.
 */

bool method_subscribes_too_often(struct request *request)
{
    struct refusal why;
    struct worker *worker = request->worker;
    if (quota_take_subscribe(channel_quota(request->channel), loop_now_ms(worker->loop), &why)) {
        return false;
    }
    request_fail_limit(request, &why, STR_EMPTY);
    return true;
}

/* Answer with {} and, in _meta, the cursor and a warning. */
static void answer_subscribed(struct subscribe_batch *s, const struct log_cursor *at)
{
    struct subscribe_item *w = &s->items[0];
    struct request *request = s->user;
    struct subscription_group *group = s->pending.group;
    if (!group) {
        request_fail(request, TIDINGS_E_CLOSED, w->as_requested, "the session has ended");
    } else if (w->refused) {
        bool is_invalid = w->stat.base.err.code == TIDINGS_E_INVALID && !w->stat.base.details;
        request_fail_job(request, &w->stat.base, w->as_requested,
                         is_invalid ? STR("invalid") : STR_EMPTY);
    } else if (dialect_rules(request->worker->self)->is_literal) {
        delivery_log_begun(group);
        session_subscribed(request->session, request, w->as_requested);
        method_confirm(request, true, w->as_requested);
    } else {
        delivery_log_begun(group);
        session_subscribed(request->session, request, w->as_requested);
        const struct principal *principal = group->subscriber->principal;
        char text[CURSOR_TEXT];
        request_begin(request);
        dialect_put_subscribed(&request->w, cursor_seal_put(s->worker, principal, at, text),
                               w->as_requested, w->warning);
        request_end(request, CACHE_NONE);
    }
}

static void method_subscribe_on_dropped(struct subscribe_batch *s)
{
    request_drop(s->user);
}

void method_subscribe_one(struct request *request, struct subscription_group *group,
                          struct tidings_str as_requested)
{
    struct json *given = options_find(request->msg.params);
    struct options options;
    struct tidings_error err;
    options_init(&options);
    if (options_read(&options, given, false, &err) < 0 ||
        options_read_params(&options, request->msg.params, &err) < 0) {
        request_fail_err(request, &err, STR_EMPTY);
        return;
    }
    const struct subscription *old = subscription_group_find_sub(group, as_requested);
    if (old && !given && !options.given && !old->needs_baseline) {
        method_confirm(request, true, as_requested);
        return;
    }
    if (as_requested.len > URI_MAX) {
        limit_hit(request->worker->limit_counters, LIMIT_URI);
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.uri may be at most %u bytes long", URI_MAX);
        return;
    }
    struct subscribe_batch *s = subscribe_batch_create(group, 1);
    struct tidings_str copy = s ? arena_dup(&s->arena, as_requested) : STR_EMPTY;
    if (!s || !copy.ptr || !subscribe_batch_set_channel(s, request->channel)) {
        request_fail(request, TIDINGS_E_NOMEM, as_requested, "out of memory");
        if (s) {
            subscribe_batch_free(s);
        }
        return;
    }
    s->is_legacy = true;
    s->done = answer_subscribed;
    s->dropped = method_subscribe_on_dropped;
    s->user = request;
    s->items[0].as_requested = copy;
    s->items[0].options = options;
    subscribe_batch_resolve(s);
}

/* Returns true if `as_requested` means the canonical URI or pattern `uri`. */
static bool is_spelling_of(const struct catalog *c, struct tidings_str as_requested,
                           struct tidings_str uri)
{
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    bool is =
        catalog_canonical(c, as_requested, true, &text, NULL) == 0 && str_eq(buf_str(&text), uri);
    buf_deinit(&text);
    return is;
}

/* The subscription to the same URI that was made with another spelling; NULL: none. */
static struct subscription *find_other_spelling(const struct request *request,
                                                const struct subscription_group *group,
                                                struct tidings_str as_requested)
{
    const struct catalog *catalog = request->worker->catalog;
    struct subscription *found = NULL;
    struct buf uri;
    buf_init(&uri, URI_MAX * 3);
    bool is_uri = catalog_canonical(catalog, as_requested, true, &uri, NULL) == 0;
    list_each (it, next, &group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (is_uri && !found && str_starts(buf_str(&uri), subscription_uri(sub)) &&
            is_spelling_of(catalog, subscription_as_requested(sub), buf_str(&uri))) {
            found = sub;
        }
    }
    buf_deinit(&uri);
    return found;
}

void method_unsubscribe_one(struct request *request, struct subscription_group *group,
                            struct tidings_str as_requested)
{
    struct subscription *sub = subscription_group_find_sub(group, as_requested);
    sub = sub ? sub : find_other_spelling(request, group, as_requested);
    bool was_known = sub != NULL;
    if (sub) {
        subscriber_hand_over(sub);
        subscription_destroy(sub);
        session_changed(request->session, request);
    }
    list_each (it, next, &group->pending) {
        struct subscription_group_pending *pending =
            list_entry(it, struct subscription_group_pending, link);
        struct subscribe_batch *s =
            pending->is_subscribing ? list_entry(pending, struct subscribe_batch, pending) : NULL;
        if (s && s->is_legacy && s->count == 1 && str_eq(s->items[0].as_requested, as_requested)) {
            s->withdrawn = was_known = true;
        }
    }
    if (!was_known && dialect_rules(request->worker->self)->knows_subscriptions) {
        request_fail_rpc(request, RPC_NO_SUBSCRIPTION, STR_EMPTY, "Subscription not found");
    } else {
        method_confirm(request, false, as_requested);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Collects and writes a client's subscriptions, on the worker where each of them lives.
 */

#define OWN_MAX_BYTES (4u << 20) /* a page, one row more, and the writer's margin */

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
                            "the cursor is not from this server; retry without a cursor");
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
    const char *include = extra && extra->patch_base ? "patch"
                          : sub->wants_content       ? "value"
                          : sub->wants_metadata      ? "metadata"
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
    jw_put_raw(w, STR("uri"), subscription_as_requested_json(sub));
    if (sub->group->id_len > 0) {
        jw_put_raw(w, STR("subscriptionId"), subscription_group_id(sub->group));
    }
    jw_put_string(w, STR("state"),
                  sub->suspended         ? STR("suspended")
                  : !sub->group->is_open ? STR("opening")
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

/* Returns false if the page is full. */
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
    list_each (lit, lnext, &subscriber->groups) {
        const struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
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
static void own_drop(struct thread_message *message)
{
    struct tidings_error err;
    struct own_listing *l = list_entry(message, struct own_listing, message);
    job_finish(&l->base, tidings_fail(&err, TIDINGS_E_CLOSED, "the server is stopping"), &err);
}

static void own_on_hub(struct thread_message *message, void *owner);

static void own_on_worker(struct thread_message *message, void *owner)
{
    struct own_listing *l = list_entry(message, struct own_listing, message);
    struct worker *worker = owner;
    own_walk(l, worker);
    if (l->more || l->rows.failed) {
        own_finish(l);
        return;
    }
    l->message.deliver = own_on_hub;
    mailbox_send(hub_mailbox(worker->hub), &l->message);
}

static void own_on_hub(struct thread_message *message, void *owner)
{
    struct own_listing *l = list_entry(message, struct own_listing, message);
    struct hub *hub = owner;
    if (l->worker >= hub_worker_count(hub)) {
        own_finish(l);
        return;
    }
    l->message.deliver = own_on_worker;
    mailbox_send(hub_worker(hub, l->worker++)->mailbox, &l->message);
}

static void own_run(struct job *job)
{
    struct own_listing *l = list_entry(job, struct own_listing, base);
    if (l->subscriber != OWN_BY_PRINCIPAL) { /* where its session or connection is: here */
        own_walk(l, job->worker);
        own_finish(l);
        return;
    }
    l->message.deliver = own_on_hub;
    l->message.drop = own_drop;
    mailbox_send(hub_mailbox(job->worker->hub), &l->message);
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

/* ---------------------------------------------------------------------------------------------- */

/* A message connection has one subscriber for all subscriptions; each HTTP listen has its own
 * subscriber. */
static void http_listen_closed(struct subscriber *subscriber)
{
    subscriber_destroy(subscriber);
}

static struct subscriber *listen_subscriber(struct request *request)
{
    struct channel *channel = request->channel;
    if (!channel->ops->is_http) {
        return subscriber_of_channel(channel);
    }
    struct subscriber *subscriber = subscriber_create(request->worker, channel->principal);
    if (subscriber) {
        static const struct response_headers none;
        static const struct subscriber_ops ops = {.on_stream_end = http_listen_closed};
        subscriber->ops = &ops;
        subscriber->is_modern = true;
        subscriber_set_client(subscriber, dialect_client_info(request->meta));
        subscriber_set_sink(subscriber, channel->ops->stream(channel, &none));
    }
    return subscriber;
}

/* Options of one URI: those for all, then its own. An error refuses the item. */
static void read_options(struct subscribe_batch *s, struct subscribe_item *w, struct json *given)
{
    struct tidings_error err;
    options_init(&w->options);
    struct json *own = jv_get_str(jv_get(given, "uris"), w->as_requested);
    if (options_read(&w->options, given, true, &err) < 0 ||
        options_read(&w->options, own, false, &err) < 0) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
        return;
    }
    /* The message goes before the subscription is made. */
    w->kept = jv_ref(w->options.filter);
    w->options.origin = arena_dup(&s->arena, w->options.origin);
    w->options.baseline = arena_dup(&s->arena, w->options.baseline);
    w->options.sealed = arena_dup(&s->arena, w->options.sealed);
    if (!w->options.origin.ptr || !w->options.baseline.ptr || !w->options.sealed.ptr) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
    }
}

/* Copies the tasks likewise, after the URIs: their subscriptions also send the current state. */
static int method_listen_copy_tasks(struct subscribe_batch *s, struct json *ids)
{
    struct map seen;
    map_init(&seen);
    int rc = 0;
    for (size_t i = 0; i < jv_count(ids) && rc == 0; i++) {
        struct tidings_str id = jv_str(jv_at(ids, i));
        if (id.len != OWNED_ID_LEN || map_find(&seen, id)) {
            continue; /* no task has such an id: it is not acknowledged */
        }
        char uri[sizeof(OWNED_URI_PREFIX) + OWNED_ID_LEN] = OWNED_URI_PREFIX;
        memcpy(uri + sizeof(OWNED_URI_PREFIX) - 1, id.ptr, OWNED_ID_LEN);
        struct subscribe_item *w = &s->items[s->count++];
        w->as_requested = arena_dup(&s->arena, tidings_str(uri));
        w->is_task = true;
        options_init(&w->options);
        w->options.given = OPTION_MATCH | OPTION_INITIAL;
        w->options.match = OPTION_MATCH_LITERAL;
        w->options.initial = true;
        rc = w->as_requested.ptr
                 ? map_put(&seen, str_skip(w->as_requested, sizeof(OWNED_URI_PREFIX) - 1), w, NULL)
                 : TIDINGS_E_NOMEM;
    }
    map_deinit(&seen);
    return rc;
}

/* Copy the items; a repeated one counts once. */
static int method_listen_copy_uris(struct subscribe_batch *s, struct json *uris,
                                   struct json *options)
{
    struct map seen;
    map_init(&seen);
    size_t n = 0;
    int rc = 0;
    for (size_t i = 0; i < jv_count(uris) && rc == 0; i++) {
        struct tidings_str as_requested = jv_str(jv_at(uris, i));
        if (map_find(&seen, as_requested)) {
            continue;
        }
        struct subscribe_item *w = &s->items[n++];
        w->as_requested = arena_dup(&s->arena, as_requested);
        rc = w->as_requested.ptr ? map_put(&seen, w->as_requested, w, NULL) : TIDINGS_E_NOMEM;
        if (rc == 0) {
            read_options(s, w, options);
        }
    }
    s->count = n;
    map_deinit(&seen);
    return rc;
}

static bool check_flag(struct request *request, struct json *wanted, const char *name)
{
    struct json *flag = jv_get(wanted, name);
    if (flag && !jv_is(flag, JV_TRUE) && !jv_is(flag, JV_FALSE)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "notifications.%s must be true or false", name);
        return false;
    }
    return true;
}

static bool method_listen_check_uris(struct request *request, struct json *uris)
{
    size_t most = request->worker->limits->max_uris_per_listen;
    if (uris && !jv_is(uris, JV_ARRAY)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "notifications.resourceSubscriptions must be an array of URIs");
        return false;
    }
    if (jv_count(uris) > most) {
        struct refusal why = {.limit = LIMIT_LISTEN_URIS, .value = most};
        limit_hit(request->worker->limit_counters, LIMIT_LISTEN_URIS);
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    for (size_t i = 0; i < jv_count(uris); i++) {
        struct json *uri = jv_at(uris, i);
        if (!jv_is(uri, JV_STRING) || jv_str(uri).len > URI_MAX) {
            if (jv_is(uri, JV_STRING)) {
                limit_hit(request->worker->limit_counters, LIMIT_URI);
            }
            request_fail(
                request, TIDINGS_E_INVALID, STR_EMPTY,
                "notifications.resourceSubscriptions[%zu] must be a string of at most %u bytes", i,
                URI_MAX);
            return false;
        }
    }
    return true;
}

/* For the tasks extension. Each task is a subscription to its URI (tidings://tasks/ID) with another
 * notification. */
static bool method_listen_check_tasks(struct request *request, struct json *ids, size_t uri_count)
{
    size_t most = request->worker->limits->max_uris_per_listen;
    bool is_good = jv_is(ids, JV_ARRAY);
    if (!ids) {
        return true;
    }
    if (!call_task_is_possible(request)) {
        call_task_refuse(request, "notifications.taskIds is for clients that declare the extension "
                                  "'" DIALECT_TASKS "'");
        return false;
    }
    for (size_t i = 0; is_good && i < jv_count(ids); i++) {
        is_good = jv_is(jv_at(ids, i), JV_STRING);
    }
    if (!is_good) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "notifications.taskIds must be an array of ids");
        return false;
    }
    if (jv_count(ids) + uri_count > most) {
        struct refusal why = {.limit = LIMIT_LISTEN_URIS, .value = most};
        limit_hit(request->worker->limit_counters, LIMIT_LISTEN_URIS);
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    return true;
}

/* Rejects options for a URI that is not in the list, because they would have no effect. */
static bool check_option_uris(struct request *request, struct json *options, struct json *uris)
{
    struct tidings_str key;
    struct json *value = NULL;
    void *at = options ? jv_next(options, NULL, &key, &value) : NULL;
    for (; at; at = jv_next(options, at, &key, &value)) {
        bool found = false;
        for (size_t i = 0; i < jv_count(uris) && !found; i++) {
            found = str_eq(jv_str(jv_at(uris, i)), key);
        }
        if (!found) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "option 'uris' names '%.*s', which is not in resourceSubscriptions",
                         STR_ARG_MAX(key, 128));
            return false;
        }
    }
    return true;
}

/* If the token lacks the scopes for all URIs, the error names the missing scope, so that the client
 * can get a token with it. If some URIs are allowed, the listen starts, and the acknowledgement
 * lists the rest as refused. */
static bool method_listen_check_scopes(struct request *request, struct json *wanted)
{
    struct json *uris = jv_get(wanted, "resourceSubscriptions");
    bool wants_more = jv_is_true(jv_get(wanted, "toolsListChanged")) ||
                      jv_is_true(jv_get(wanted, "promptsListChanged")) ||
                      jv_is_true(jv_get(wanted, "resourcesListChanged")) ||
                      jv_count(jv_get(wanted, "taskIds")) > 0;
    if (jv_count(uris) == 0 || wants_more || !request_lacks_scopes(request, uris)) {
        return true;
    }
    request_fail(request, TIDINGS_E_NOTFOUND, jv_str(jv_at(uris, 0)), "resource not found");
    return false;
}

/* All errors in the request itself, before it becomes a stream. */
static bool check_listen(struct request *request, struct json *wanted)
{
    if (!jv_is(wanted, JV_OBJECT)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.notifications must be an object");
        return false;
    }
    if (!check_flag(request, wanted, "toolsListChanged") ||
        !check_flag(request, wanted, "promptsListChanged") ||
        !check_flag(request, wanted, "resourcesListChanged") ||
        !method_listen_check_uris(request, jv_get(wanted, "resourceSubscriptions")) ||
        !method_listen_check_tasks(request, jv_get(wanted, "taskIds"),
                                   jv_count(jv_get(wanted, "resourceSubscriptions")))) {
        return false;
    }
    struct json *options = options_find(request->msg.params);
    if (options && (!jv_is(options, JV_OBJECT) ||
                    (jv_get(options, "uris") && !jv_is(jv_get(options, "uris"), JV_OBJECT)))) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "'dev.tidings/options' must be an object, and so must its 'uris'");
        return false;
    }
    if (!check_option_uris(request, jv_get(options, "uris"),
                           jv_get(wanted, "resourceSubscriptions"))) {
        return false;
    }
    struct subscriber *subscriber = request->channel->subscriber;
    size_t open = subscriber ? subscriber->group_count -
                                   (subscription_group_find(subscriber, STR_EMPTY) != NULL)
                             : 0;
    if (open >= request->worker->limits->max_listens) {
        struct refusal why =
            limit_refusal(LIMIT_LISTENS, request->worker->limits->max_listens, true);
        limit_hit(request->worker->limit_counters, LIMIT_LISTENS);
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    if (request->worker->stopping) {
        request_fail(request, TIDINGS_E_BUSY, STR_EMPTY, "the server is stopping");
        return false;
    }
    return method_listen_check_scopes(request, wanted);
}

/* Out of memory half way. A stream that has begun is cut, so that the client tries again. */
static void give_up(struct request *request, struct subscriber *subscriber,
                    struct subscription_group *group, struct subscribe_batch *s)
{
    if (s) {
        subscribe_batch_free(s);
    }
    subscription_group_destroy(group);
    if (subscriber && request->channel->ops->is_http) {
        struct sink *sink = subscriber->sink;
        request_drop(request);
        subscriber_destroy(subscriber);
        sink->ops->cut(sink, "out of memory");
    } else {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
    }
}

/* The `data` of the error that resources/subscribe would return, without the URI. */
static struct tidings_str refused_details(const struct subscribe_item *w)
{
    struct tidings_str details = request_details_of(&w->stat.base);
    bool is_invalid = details.len == 0 && w->stat.base.err.code == TIDINGS_E_INVALID;
    return is_invalid ? STR("{\"reason\":\"invalid\"}") : details;
}

static struct dialect_acknowledged_uri acknowledged_uri(void *user, size_t index)
{
    const struct subscribe_batch *s = user;
    const struct subscribe_item *w = &s->items[index];
    return (struct dialect_acknowledged_uri){
        .uri = w->as_requested,
        .task_id = w->is_task ? str_skip(w->as_requested, sizeof(OWNED_URI_PREFIX) - 1) : STR_EMPTY,
        .is_refused = w->refused,
        .reason = tidings_str(w->stat.base.err.text),
        .details_json = refused_details(w),
        .warning = w->warning,
    };
}

static enum failure_cause refused_cause(const struct subscribe_batch *s,
                                        const struct subscribe_item *item)
{
    int code = item->stat.base.err.code;
    if (code == TIDINGS_E_LIMIT || code == TIDINGS_E_BUSY) {
        return FAILURE_LIMIT;
    }
    bool is_denied = code == TIDINGS_E_DENIED || (code == TIDINGS_E_NOTFOUND && item->uri.len > 0 &&
                                                  !access_subscribes(s->principal, item->uri));
    return is_denied ? FAILURE_ACCESS : FAILURE_ORDINARY;
}

/* A refused URI of a listen counts as a failure, like a refused resources/subscribe. */
static void note_refused(const struct subscribe_batch *s)
{
    struct worker *worker = s->worker;
    for (size_t i = 0; i < s->count; i++) {
        const struct tidings_error *err = &s->items[i].stat.base.err;
        const struct failure failure = {
            .kind = FAILURE_RPC,
            .cause = s->items[i].refused ? refused_cause(s, &s->items[i]) : FAILURE_ORDINARY,
            .method = "subscriptions/listen",
            .code = dialect_code(s->era, err->code),
            .reason = tidings_str(err->text),
            .principal = s->principal,
        };
        if (!s->items[i].refused) {
            continue;
        }
        struct failure_row *row =
            failures_count(worker->failures, &failure, loop_now_ms(worker->loop));
        failures_note(worker->failures, &failure, client_account_name(s->client), clock_wall_ms());
        if (row) {
            failures_log(row, &failure, client_account_name(s->client));
        }
    }
}

static void method_listen_acknowledge(struct subscribe_batch *s, const struct log_cursor *at)
{
    struct subscription_group *group = s->pending.group;
    if (!group) {
        return;
    }
    char cursor[CURSOR_TEXT];
    struct dialect_acknowledged a = {
        .listen_id_json = subscription_group_id(group),
        .cursor = cursor_seal_put(s->worker, group->subscriber->principal, at, cursor),
        .lists = group->wants_lists,
        .count = s->count,
        .uri = acknowledged_uri,
        .user = s,
    };
    struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    dialect_put_acknowledged(&out, &a);
    group->is_open = true;
    subscriber_send(group->subscriber, &out);
    buf_deinit(&out);
    if (s->pending.group) { /* else it went with its stream, which broke */
        delivery_log_begun(group);
    }
    note_refused(s);
}

void method_listen(struct request *request)
{
    struct json *wanted = jv_get(request->msg.params, "notifications");
    if (method_subscribes_too_often(request) || !check_listen(request, wanted)) {
        return;
    }
    struct channel *channel = request->channel;
    if (!channel->ops->is_http && channel->subscriber &&
        subscription_group_find(channel->subscriber, request->id_json) != NULL) {
        request_fail_rpc(request, RPC_INVALID_REQUEST, STR_EMPTY, "a listen with this id is open");
        return;
    }
    struct json *uris = jv_get(wanted, "resourceSubscriptions"), *ids = jv_get(wanted, "taskIds");
    struct subscriber *subscriber = listen_subscriber(request);
    struct subscription_group *group =
        subscriber ? subscription_group_create(subscriber, request->id_json) : NULL;
    struct subscribe_batch *s =
        group ? subscribe_batch_create(group, jv_count(uris) + jv_count(ids)) : NULL;
    if (!s || !subscribe_batch_set_channel(s, channel) ||
        method_listen_copy_uris(s, uris, options_find(request->msg.params)) < 0 ||
        method_listen_copy_tasks(s, ids) < 0) {
        give_up(request, subscriber, group, s);
        return;
    }
    s->done = method_listen_acknowledge;
    s->era = request->era;
    if (request->worker->self->list_changed) {
        unsigned offers = handlers_offers(request->worker);
        s->wants_list = jv_is_true(jv_get(wanted, "resourcesListChanged"));
        list_changed_want(
            group,
            offers & ((jv_is_true(jv_get(wanted, "toolsListChanged")) ? LIST_TOOLS : 0u) |
                      (jv_is_true(jv_get(wanted, "promptsListChanged")) ? LIST_PROMPTS : 0u)));
    }
    request_drop(request);
    subscribe_batch_resolve(s);
}
