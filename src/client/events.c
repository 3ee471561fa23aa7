/* SPDX-License-Identifier: MIT
 *
 * The queue of events for the program. Bounded: a program that keeps making requests and never
 * steps loses its connection before the queue uses up the memory.
 */
#include "client/events.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/client_internal.h"
#include "client/connection.h"
#include "client/json_api.h"
#include "client/questions.h"
#include "client/subscriptions.h"

/* -------------------------------------------------------------------------------------------------
 * One event of the client that waits to be handed to the program.
 */

enum event_kind {
    EVENT_STATE,
    EVENT_NOTIFICATION,
    EVENT_FOUND,
    EVENT_ANSWER,
    EVENT_PROGRESS,
    EVENT_STDERR,
};

struct event {
    struct list link;
    enum event_kind kind;
    size_t bytes;
    struct json *root; /* NOTIFICATION, FOUND, PROGRESS: the message, or one of the client, which
                          the event holds */
    int64_t received_ms;
    struct tidings_state_event state;
    char *cursor;       /* STATE */
    char *text, *error; /* STATE: URI and reason; ANSWER: result and error; STDERR: its output */
    int64_t number;     /* ANSWER, PROGRESS: of the request; STATE: of the watch, 0: none */
    struct tidings_client_asking asking;
    struct tidings_error why;
};

/* ---------------------------------------------------------------------------------------------- */

static void events_release(struct event *e)
{
    jv_unref(e->root);
    mem_free(e->text);
    mem_free(e->error);
    mem_free(e->cursor);
    mem_free(e);
}

static void events_out_of_memory(struct tidings_client *c)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    connection_give_up(c, &why);
}

static struct event *events_new(struct tidings_client *c, enum event_kind kind)
{
    struct event *e = mem_zalloc(sizeof(*e));
    if (!e) {
        events_out_of_memory(c);
        return NULL;
    }
    e->kind = kind;
    e->received_ms = clock_wall_ms();
    return e;
}

static void events_append(struct tidings_client *c, struct event *e, size_t bytes)
{
    e->bytes = bytes + sizeof(*e);
    c->event_bytes += e->bytes;
    c->event_count++;
    list_append(&c->events, &e->link);
    events_nudge(c);
}

/* Removes an event from the queue. */
static void events_remove(struct tidings_client *c, struct event *e)
{
    list_remove(&e->link);
    c->event_count--;
    c->event_bytes -= e->bytes;
}

/* The number of the watch of that URI, 0: none. */
static int64_t events_watch_number(struct tidings_client *c, struct tidings_str uri)
{
    const struct watch *w = uri.len > 0 ? watch_find(c, uri) : NULL;
    return w ? (int64_t)w->number : 0;
}

void events_nudge(struct tidings_client *c)
{
    bool has_work = c->stage == STAGE_IDLE || c->failure.code < 0 || !list_empty(&c->events) ||
                    question_has_news(c);
    if (has_work && !c->is_stepping && !loop_timer_is_running(&c->nudge)) {
        loop_timer_start(&c->nudge, 0, 0);
    }
}

void events_put_state(struct tidings_client *c, const struct tidings_state_event *state)
{
    struct event *e = events_new(c, EVENT_STATE);
    if (!e) {
        return;
    }
    e->state = *state;
    e->text = str_dup(state->uri);
    e->error = str_dup(state->reason);
    e->cursor = str_dup(state->cursor);
    if (!e->text || !e->error || !e->cursor) {
        events_release(e);
        events_out_of_memory(c);
        return;
    }
    e->state.uri = tidings_str(e->text);
    e->state.reason = tidings_str(e->error);
    e->state.cursor = tidings_str(e->cursor);
    e->number = events_watch_number(c, state->uri);
    events_append(c, e, state->uri.len + state->reason.len + state->cursor.len);
}

void events_put_notification(struct tidings_client *c, struct json *root, size_t bytes)
{
    struct tidings_error why;
    if (c->event_count >= CLIENT_MAX_EVENTS || c->event_bytes / 4 > c->settings.max_bytes) {
        tidings_fail(&why, TIDINGS_E_LIMIT, "the program takes notifications too slowly");
        connection_lose(c, &why);
        return;
    }
    struct event *e = events_new(c, EVENT_NOTIFICATION);
    if (e) {
        e->root = jv_ref(root);
        events_append(c, e, bytes);
    }
}

void events_put_found(struct tidings_client *c, struct json *root, size_t bytes)
{
    struct event *e = events_new(c, EVENT_FOUND);
    if (e) {
        e->root = jv_ref(root);
        events_append(c, e, bytes);
    }
}

void events_put_answer(struct tidings_client *c, const struct tidings_client_asking *asking,
                       const struct response *a)
{
    struct event *e = events_new(c, EVENT_ANSWER);
    size_t len = 0;
    if (!e) {
        return;
    }
    e->number = a->id;
    e->asking = *asking;
    e->why = a->why;
    if (a->result && !(e->text = json_text_of(c, a->result, &len))) {
        tidings_fail(&e->why, TIDINGS_E_LIMIT, "the answer is too large");
    }
    if (a->error) {
        e->error = json_text_of(c, a->error, &len);
    }
    events_append(c, e, len);
}

void events_put_progress(struct tidings_client *c, int64_t number,
                         const struct tidings_client_asking *asking, struct json *params)
{
    struct event *e = c->event_count < CLIENT_MAX_EVENTS ? events_new(c, EVENT_PROGRESS) : NULL;
    if (e) {
        e->number = number;
        e->asking = *asking;
        e->root = jv_ref(params);
        events_append(c, e, 256);
    }
}

void events_put_stderr(struct tidings_client *c, struct tidings_str bytes)
{
    struct event *e =
        c->event_bytes / 4 < c->settings.max_bytes ? events_new(c, EVENT_STDERR) : NULL;
    if (e && !(e->text = str_dup(bytes))) {
        events_release(e);
        e = NULL;
    }
    if (e) {
        e->number = (int64_t)bytes.len;
        events_append(c, e, bytes.len);
    }
}

void events_forget(struct tidings_client *c, int64_t number)
{
    list_each (it, next, &c->events) {
        struct event *e = list_entry(it, struct event, link);
        if (e->number == number && (e->kind == EVENT_ANSWER || e->kind == EVENT_PROGRESS)) {
            events_remove(c, e);
            events_release(e);
        }
    }
}

void events_drop_all(struct tidings_client *c)
{
    list_each (it, next, &c->events) {
        struct event *e = list_entry(it, struct event, link);
        events_remove(c, e);
        events_release(e);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Delivers events to the program, in a separate step.
 */

bool events_is_update(struct tidings_str method)
{
    static const char *const names[] = {
        "notifications/resources/updated",
        "notifications/resources/deleted",
        "resources/updated", /* the name that some servers use */
        "resources/deleted",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (str_eq(method, tidings_str(names[i]))) {
            return true;
        }
    }
    return false;
}

static void deliver_notification(struct tidings_client *c, const struct event *e)
{
    struct tidings_str method = jv_str(jv_get(e->root, "method"));
    struct json *params = jv_get(e->root, "params");
    if (c->on_notification) {
        size_t len = 0;
        char *text = params ? json_text_of(c, params, &len) : NULL;
        c->on_notification(c->notification_user, method,
                           text ? tidings_strn(text, len) : STR("{}"));
        mem_free(text);
    }
    if (events_is_update(method) && !client_is_stopping(c)) {
        subscriptions_updated(c, e->root, e->received_ms, false);
    } else if (str_eq(method, STR("notifications/dev.tidings/bookmark"))) {
        subscriptions_bookmark(c, params);
    }
}

void events_call_progress(tidings_client_progress_fn fn, void *user, struct json *params)
{
    struct json *total = jv_get(params, "total");
    bool has_total = jv_is(total, JV_INT) || jv_is(total, JV_REAL);
    fn(user, jv_real(jv_get(params, "progress")), has_total ? jv_real(total) : -1,
       jv_str(jv_get(params, "message")));
}

/* Later subscriptions do not get this state: they get a later one. */
static void deliver_state(struct tidings_client *c, const struct event *e)
{
    if (e->number != events_watch_number(c, e->state.uri)) {
        return;
    }
    struct watch *w = e->number > 0 ? watch_find(c, e->state.uri) : NULL;
    if (c->on_state) {
        c->on_state(c->state_user, &e->state); /* the watch stays until it is swept */
    }
    if (w) {
        subscriptions_notify_state(c, w, &e->state);
    }
}

static void events_deliver_one(struct tidings_client *c, struct event *e)
{
    struct tidings_str text = tidings_str(e->text ? e->text : "");
    switch (e->kind) {
    case EVENT_STATE:
        deliver_state(c, e);
        break;
    case EVENT_NOTIFICATION:
        deliver_notification(c, e);
        break;
    case EVENT_FOUND:
        subscriptions_updated(c, e->root, e->received_ms, true);
        break;
    case EVENT_ANSWER:
        e->asking.on_answer(e->asking.user, text, e->why.code < 0 ? &e->why : NULL,
                            tidings_str(e->error ? e->error : ""));
        break;
    case EVENT_PROGRESS:
        events_call_progress(e->asking.on_progress, e->asking.user, e->root);
        break;
    case EVENT_STDERR:
        c->settings.on_stderr(c->settings.stderr_user, tidings_strn(e->text, (size_t)e->number));
        break;
    }
}

void events_deliver(struct tidings_client *c)
{
    c->is_delivering = true;
    c->has_gap = false;
    while (!list_empty(&c->events) && !client_is_stopping(c)) {
        struct event *e = list_entry(c->events.next, struct event, link);
        events_remove(c, e);
        events_deliver_one(c, e);
        events_release(e);
    }
    c->is_delivering = false;
}
