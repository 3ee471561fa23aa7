/* SPDX-License-Identifier: MIT
 *
 * subscriptions/listen: everything that can be wrong with the request itself is answered; then it
 * becomes a stream (a message connection is one already) and its URIs are resolved one by one, each
 * refused or not by itself.
 */
#include "access/access.h"
#include "access/allowance.h"
#include "access/failures.h"
#include "access/owned_uri.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery_log.h"
#include "delivery/list_changed.h"
#include "delivery/subscribe.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "protocol/method.h"
#include "store/change.h"
#include "uri/uri.h"

/* A message connection has one subscriber for everything it hears; an HTTP listen is a subscriber
 * of its own. */
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
    struct json *own = jv_get_str(jv_get(given, "uris"), w->spelled);
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

/* Likewise, behind the others: they are those of tasks, and told how they are now, too. */
static int method_listen_copy_tasks(struct subscribe_batch *s, struct json *ids)
{
    struct map seen;
    map_init(&seen);
    int rc = 0;
    for (size_t i = 0; i < jv_count(ids) && rc == 0; i++) {
        struct tidings_str id = jv_str(jv_at(ids, i));
        if (id.len != OWNED_ID_LEN || map_find(&seen, id)) {
            continue; /* none is ever like that: it is not acknowledged */
        }
        char uri[sizeof(OWNED_URI_PREFIX) + OWNED_ID_LEN] = OWNED_URI_PREFIX;
        memcpy(uri + sizeof(OWNED_URI_PREFIX) - 1, id.ptr, OWNED_ID_LEN);
        struct subscribe_item *w = &s->items[s->count++];
        w->spelled = arena_dup(&s->arena, tidings_str(uri));
        w->is_task = true;
        options_init(&w->options);
        w->options.given = OPTION_MATCH | OPTION_INITIAL;
        w->options.match = OPTION_MATCH_LITERAL;
        w->options.initial = true;
        rc = w->spelled.ptr
                 ? map_put(&seen, str_skip(w->spelled, sizeof(OWNED_URI_PREFIX) - 1), w, NULL)
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
        struct tidings_str spelled = jv_str(jv_at(uris, i));
        if (map_find(&seen, spelled)) {
            continue;
        }
        struct subscribe_item *w = &s->items[n++];
        w->spelled = arena_dup(&s->arena, spelled);
        rc = w->spelled.ptr ? map_put(&seen, w->spelled, w, NULL) : TIDINGS_E_NOMEM;
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

/* Of the extension of tasks. Each is a subscription to its URI (tidings://tasks/ID) that is told
 * in another way. */
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

/* Options for a URI that is not asked for would be ignored in silence. */
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

/* A client that would hear nothing for want of a scope is told which, so that it can get itself a
 * token that has it. One that would hear something begins, and is told what is left out. */
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

/* Everything that can be wrong with the request itself, before it becomes a stream. */
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
    size_t open =
        subscriber ? subscriber->listen_count - (listen_find(subscriber, STR_EMPTY) != NULL) : 0;
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
static void give_up(struct request *request, struct subscriber *subscriber, struct listen *listen,
                    struct subscribe_batch *s)
{
    if (s) {
        subscribe_batch_free(s);
    }
    listen_destroy(listen);
    if (subscriber && request->channel->ops->is_http) {
        struct sink *sink = subscriber->sink;
        request_drop(request);
        subscriber_destroy(subscriber);
        sink->ops->cut(sink, "out of memory");
    } else {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
    }
}

/* What the error of a resources/subscribe would have in `data`, besides the URI. */
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
        .uri = w->spelled,
        .task_id = w->is_task ? str_skip(w->spelled, sizeof(OWNED_URI_PREFIX) - 1) : STR_EMPTY,
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

/* What is left out of a listen is a failure like a resources/subscribe that is refused. */
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
        failures_note(worker->failures, &failure, allowance_name(s->client), clock_wall_ms());
        if (row) {
            failures_log(row, &failure, allowance_name(s->client));
        }
    }
}

static void method_listen_acknowledge(struct subscribe_batch *s, const struct log_cursor *at)
{
    struct listen *listen = s->pending.listen;
    if (!listen) {
        return;
    }
    char cursor[CURSOR_TEXT];
    struct dialect_acknowledged a = {
        .listen_id_json = listen_id(listen),
        .cursor = cursor_seal_put(s->worker, listen->subscriber->principal, at, cursor),
        .lists = listen->wants_lists,
        .count = s->count,
        .uri = acknowledged_uri,
        .user = s,
    };
    struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    dialect_put_acknowledged(&out, &a);
    listen->is_open = true;
    subscriber_send(listen->subscriber, &out);
    buf_deinit(&out);
    if (s->pending.listen) { /* else it went with its stream, which broke */
        delivery_log_begun(listen);
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
        listen_find(channel->subscriber, request->id_json) != NULL) {
        request_fail_rpc(request, RPC_INVALID_REQUEST, STR_EMPTY, "a listen with this id is open");
        return;
    }
    struct json *uris = jv_get(wanted, "resourceSubscriptions"), *ids = jv_get(wanted, "taskIds");
    struct subscriber *subscriber = listen_subscriber(request);
    struct listen *listen = subscriber ? listen_create(subscriber, request->id_json) : NULL;
    struct subscribe_batch *s =
        listen ? subscribe_batch_create(listen, jv_count(uris) + jv_count(ids)) : NULL;
    if (!s || !subscribe_batch_set_channel(s, channel) ||
        method_listen_copy_uris(s, uris, options_find(request->msg.params)) < 0 ||
        method_listen_copy_tasks(s, ids) < 0) {
        give_up(request, subscriber, listen, s);
        return;
    }
    s->done = method_listen_acknowledge;
    s->era = request->era;
    if (request->worker->self->list_changed) {
        unsigned offers = handlers_offers(request->worker);
        s->wants_list = jv_is_true(jv_get(wanted, "resourcesListChanged"));
        list_changed_want(
            listen,
            offers & ((jv_is_true(jv_get(wanted, "toolsListChanged")) ? LIST_TOOLS : 0u) |
                      (jv_is_true(jv_get(wanted, "promptsListChanged")) ? LIST_PROMPTS : 0u)));
    }
    request_drop(request);
    subscribe_batch_resolve(s);
}
