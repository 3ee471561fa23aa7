/* SPDX-License-Identifier: MIT
 *
 * What the program hears, in the order it happened, kept until a step hands it over. Bounded: a
 * program that asks and asks and never steps loses its connection rather than the machine its
 * memory.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "client/private.h"
#include "json/write.h"

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
    struct json *root; /* NOTIFICATION, FOUND, PROGRESS: a message of ours to hold on to */
    int64_t received_ms;
    struct tidings_client_event state;
    char *text, *error; /* STATE: URI and reason; ANSWER: result and error; STDERR: what it said */
    int64_t number;     /* ANSWER, PROGRESS: of the request; STATE: of the watch, 0: none */
    struct tidings_client_asking asking;
    struct tidings_error why;
};

static void release(struct event *e)
{
    jv_unref(e->root);
    mem_free(e->text);
    mem_free(e->error);
    mem_free(e);
}

static void out_of_memory(struct tidings_client *c)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    client_give_up(c, &why);
}

static struct event *create(struct tidings_client *c, enum event_kind kind)
{
    struct event *e = mem_zalloc(sizeof(*e));
    if (!e) {
        out_of_memory(c);
        return NULL;
    }
    e->kind = kind;
    e->received_ms = clock_wall_ms();
    return e;
}

static void append(struct tidings_client *c, struct event *e, size_t bytes)
{
    e->bytes = bytes + sizeof(*e);
    c->event_bytes += e->bytes;
    c->event_count++;
    list_append(&c->events, &e->link);
    client_nudge(c);
}

static void remove_event(struct tidings_client *c, struct event *e)
{
    list_remove(&e->link);
    c->event_count--;
    c->event_bytes -= e->bytes;
}

static struct watch *watch_of(struct tidings_client *c, struct tidings_str uri)
{
    return uri.len > 0 ? watching_find(c, uri) : NULL;
}

static int64_t number_of(const struct watch *w)
{
    return w ? (int64_t)w->number : 0;
}

/* ---- in -------------------------------------------------------------------------------------- */

void event_state(struct tidings_client *c, const struct tidings_client_event *state)
{
    struct event *e = create(c, EVENT_STATE);
    if (!e) {
        return;
    }
    e->state = *state;
    e->text = str_dup(state->uri);
    e->error = str_dup(state->reason);
    if (!e->text || !e->error) {
        release(e);
        out_of_memory(c);
        return;
    }
    e->state.uri = tidings_str(e->text);
    e->state.reason = tidings_str(e->error);
    e->number = number_of(watch_of(c, state->uri));
    append(c, e, state->uri.len + state->reason.len);
}

void event_notification(struct tidings_client *c, struct json *root, size_t bytes)
{
    struct tidings_error why;
    if (c->event_count >= CLIENT_MAX_EVENTS || c->event_bytes / 4 > c->settings.max_bytes) {
        tidings_fail(&why, TIDINGS_E_LIMIT, "the program takes notifications too slowly");
        client_lose(c, &why);
        return;
    }
    struct event *e = create(c, EVENT_NOTIFICATION);
    if (e) {
        e->root = jv_ref(root);
        append(c, e, bytes);
    }
}

void event_found(struct tidings_client *c, struct json *root, size_t bytes)
{
    struct event *e = create(c, EVENT_FOUND);
    if (e) {
        e->root = jv_ref(root);
        append(c, e, bytes);
    }
}

void event_answer(struct tidings_client *c, const struct tidings_client_asking *asking,
                  const struct answer *a)
{
    struct event *e = create(c, EVENT_ANSWER);
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
    append(c, e, len);
}

void event_progress(struct tidings_client *c, int64_t number,
                    const struct tidings_client_asking *asking, struct json *params)
{
    struct event *e = c->event_count < CLIENT_MAX_EVENTS ? create(c, EVENT_PROGRESS) : NULL;
    if (e) {
        e->number = number;
        e->asking = *asking;
        e->root = jv_ref(params);
        append(c, e, 256);
    }
}

void event_stderr(struct tidings_client *c, struct tidings_str bytes)
{
    struct event *e = c->event_bytes / 4 < c->settings.max_bytes ? create(c, EVENT_STDERR) : NULL;
    if (e && !(e->text = str_dup(bytes))) {
        release(e);
        e = NULL;
    }
    if (e) {
        e->number = (int64_t)bytes.len;
        append(c, e, bytes.len);
    }
}

void event_forget(struct tidings_client *c, int64_t number)
{
    list_each (it, next, &c->events) {
        struct event *e = list_entry(it, struct event, link);
        if (e->number == number && (e->kind == EVENT_ANSWER || e->kind == EVENT_PROGRESS)) {
            remove_event(c, e);
            release(e);
        }
    }
}

void event_drop_all(struct tidings_client *c)
{
    list_each (it, next, &c->events) {
        struct event *e = list_entry(it, struct event, link);
        remove_event(c, e);
        release(e);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static bool is_update(struct tidings_str method)
{
    static const char *const names[] = {
        "notifications/resources/updated",
        "notifications/resources/deleted",
        "resources/updated", /* what some servers call it */
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
    if (is_update(method) && !client_is_stopping(c)) {
        watching_updated(c, e->root, e->received_ms, false);
    } else if (str_eq(method, STR("notifications/dev.tidings/bookmark"))) {
        watching_bookmark(c, params);
    }
}

void event_call_progress(tidings_client_progress_fn fn, void *user, struct json *params)
{
    struct json *total = jv_get(params, "total");
    bool has_total = jv_is(total, JV_INT) || jv_is(total, JV_REAL);
    fn(user, jv_real(jv_get(params, "progress")), has_total ? jv_real(total) : -1,
       jv_str(jv_get(params, "message")));
}

/* Not to those who subscribed since: what became of them is told later. */
static void deliver_state(struct tidings_client *c, const struct event *e)
{
    struct watch *w = watch_of(c, e->state.uri);
    if (e->number != number_of(w)) {
        return;
    }
    if (c->on_state) {
        c->on_state(c->state_user, &e->state); /* the watch stays until it is swept */
    }
    if (w) {
        watching_tell_state(c, w, &e->state);
    }
}

static void deliver(struct tidings_client *c, struct event *e)
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
        watching_updated(c, e->root, e->received_ms, true);
        break;
    case EVENT_ANSWER:
        e->asking.on_answer(e->asking.user, text, e->why.code < 0 ? &e->why : NULL,
                            tidings_str(e->error ? e->error : ""));
        break;
    case EVENT_PROGRESS:
        event_call_progress(e->asking.on_progress, e->asking.user, e->root);
        break;
    case EVENT_STDERR:
        c->settings.on_stderr(c->settings.stderr_user, tidings_strn(e->text, (size_t)e->number));
        break;
    }
}

void event_deliver(struct tidings_client *c)
{
    c->is_delivering = true;
    while (!list_empty(&c->events) && !client_is_stopping(c)) {
        struct event *e = list_entry(c->events.next, struct event, link);
        remove_event(c, e);
        deliver(c, e);
        release(e);
    }
    c->is_delivering = false;
}
