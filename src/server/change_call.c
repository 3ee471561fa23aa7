/* SPDX-License-Identifier: MIT
 *
 * Runs a call of `changes_since` or `wait_for_change`: its query, and the timer of one that waits.
 */
#include "server/change_call.h"

#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "request/request.h"
#include "store/change.h"
#include "uri/uri.h"

#define PROGRESS_MS 3000u /* well within the patience of hosts */
#define ROW_OVERHEAD 128u
#define NOTES_BYTES (1u << 20) /* of what is said of URIs: as many as the schema allows fit */

/* ---- end ------------------------------------------------------------------------------------- */

void change_call_end(struct change_call *c, int code, struct tidings_error *err)
{
    struct tidings_call *call = c->call;
    if (c->is_cancelled) {
        code = TIDINGS_E_CANCELLED;
    } else if (code == 0) {
        code = call_take_structured(call, &c->out, err);
    }
    loop_timer_close(c->timer);
    for (size_t i = 0; i < c->count; i++) {
        change_unref(c->rows[i].change);
    }
    mem_free(c->rows);
    buf_deinit(&c->lost);
    buf_deinit(&c->refused);
    buf_deinit(&c->out);
    arena_deinit(&c->arena);
    mem_free(c);
    tidings_call_done(call, code, err);
}

static void change_call_stop(struct change_call *c, int code, const char *why)
{
    struct tidings_error err;
    change_query_cancel(c->query);
    change_call_end(c, tidings_fail(&err, code, "%s", why), &err);
}

static void change_call_on_cancel(void *user, struct tidings_call *call)
{
    struct change_call *c = user;
    (void)call;
    if (c->query) {
        change_call_stop(c, TIDINGS_E_CANCELLED, "cancelled");
    } else { /* contents are being read */
        c->is_cancelled = true;
        job_cancel(&c->read.base);
    }
}

/* ---- what the query says --------------------------------------------------------------------- */

static void put_element(struct buf *array, struct tidings_str text)
{
    if (array->len > 0) {
        buf_putc(array, ',');
    }
    buf_puts(array, text);
}

static void on_refused(void *user, struct tidings_str spelled, const struct tidings_error *why)
{
    struct change_call *c = user;
    struct buf text;
    struct jw w;
    if (c->refused.len == 0) {
        tidings_fail(&c->why, why->code, "'%.*s': %s", STR_ARG_MAX(spelled, 128), why->text);
    }
    buf_init(&text, NOTES_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), spelled);
    jw_put_string(&w, STR("reason"), tidings_str(why->text));
    jw_end_object(&w);
    put_element(&c->refused, buf_str(&text));
    c->refused.failed = text.failed ? text.failed : c->refused.failed;
    buf_deinit(&text);
}

static void on_lost(void *user, struct tidings_str spelled)
{
    struct change_call *c = user;
    struct buf text;
    buf_init(&text, URI_MAX * 6 + 16);
    jw_quote(&text, spelled);
    put_element(&c->lost, buf_str(&text));
    c->lost.failed = text.failed ? text.failed : c->lost.failed;
    buf_deinit(&text);
}

static bool on_row(void *user, const struct change *change, enum tidings_change_kind kind)
{
    struct change_call *c = user;
    size_t bytes = ROW_OVERHEAD + change->uri_json.len + change->metadata_json.len +
                   change->etag.len + change->from.len + change->to_json.len;
    if (c->count == c->limit || (c->count > 0 && c->bytes + bytes > c->budget)) {
        return false;
    }
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : 16;
        struct change_row *rows = mem_realloc(c->rows, room * sizeof(*rows));
        if (!rows) {
            return false;
        }
        c->rows = rows;
        c->room = room;
    }
    c->rows[c->count++] = (struct change_row){.change = change_ref(change), .kind = kind};
    c->bytes += bytes;
    return true;
}

static void change_call_on_done(void *user, const struct log_cursor *cursor, bool more)
{
    struct change_call *c = user;
    c->query = NULL;
    if (c->timer) {
        loop_timer_stop(c->timer);
    }
    if (!cursor) {
        struct tidings_error why = c->why;
        change_call_end(c, why.code, &why);
        return;
    }
    c->cursor = *cursor;
    c->more = more;
    change_answer(c);
}

static const struct change_query_ops change_query_ops = {
    .refused = on_refused,
    .lost = on_lost,
    .row = on_row,
    .done = change_call_on_done,
};

/* ---- waiting --------------------------------------------------------------------------------- */

/* A connection of the legacy era that is lost cancels nothing, but nobody hears the answer. */
static bool is_alone(const struct change_call *c)
{
    return !c->call->request || !c->call->request->channel;
}

static void change_call_set_timer(struct change_call *c, uint64_t waited_ms)
{
    uint64_t left = c->wait_ms - waited_ms;
    loop_timer_start(c->timer, left < PROGRESS_MS ? left : PROGRESS_MS, 0);
}

static void change_call_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct change_call *c = user;
    uint64_t waited = loop_now_ms(c->worker->loop) - c->begun_ms;
    if (is_alone(c)) {
        change_call_stop(c, TIDINGS_E_CLOSED, "the client is gone");
        return;
    }
    if (waited >= c->wait_ms) {
        change_query_hurry(c->query);
        return;
    }
    tidings_call_progress(c->call, (double)waited / 1000, (double)c->wait_ms / 1000,
                          STR("nothing has changed yet"));
    change_call_set_timer(c, waited);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* The schema has seen to types and counts; lengths it counts in characters. */
static int change_call_check_uris(struct json *uris, struct tidings_error *err)
{
    for (size_t i = 0; i < jv_count(uris); i++) {
        if (jv_str(jv_at(uris, i)).len > URI_MAX) {
            return tidings_fail(err, TIDINGS_E_INVALID, "uris[%zu] may be at most %u bytes long", i,
                                URI_MAX);
        }
    }
    return 0;
}

static int change_call_start(struct change_call *c, struct tidings_error *err)
{
    struct tidings_call *call = c->call;
    struct json *uris = jv_get(call->arguments, "uris");
    c->limit = (size_t)tidings_call_integer(call, "limit", CHANGE_LIMIT);
    c->wants_contents = tidings_call_boolean(call, "includeContent", false);
    c->wait_ms = (uint64_t)tidings_call_integer(call, "timeoutMs", CHANGE_WAIT_MS);
    bool waits = c->waits && c->wait_ms > 0;
    int rc = change_call_check_uris(uris, err);
    if (rc < 0) {
        return rc;
    }
    c->timer = waits ? loop_timer_open(c->worker->loop, change_call_on_timer, c) : NULL;
    if (waits && !c->timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    c->query =
        change_query_create(call->request, uris, tidings_call_string(call, "cursor"), waits, err);
    if (!c->query) {
        return err->code;
    }
    c->begun_ms = loop_now_ms(c->worker->loop);
    if (waits) {
        change_call_set_timer(c, 0);
    }
    tidings_call_on_cancel(call, change_call_on_cancel, c);
    change_query_start(c->query, &change_query_ops, c);
    return 0;
}

static void change_call_begin(struct tidings_call *call, bool waits)
{
    struct tidings_error err = {0, ""};
    struct change_call *c = mem_zalloc(sizeof(*c));
    if (!c) {
        tidings_call_done(call, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return;
    }
    c->call = call;
    c->worker = call->base.worker;
    c->waits = waits;
    size_t half = c->worker->limits->max_read_bytes / 2;
    c->budget = half < CHANGE_BYTES ? half : CHANGE_BYTES;
    buf_init(&c->lost, NOTES_BYTES);
    buf_init(&c->refused, NOTES_BYTES);
    arena_init(&c->arena, 1u << 16);
    int rc = change_call_start(c, &err);
    if (rc < 0) {
        change_call_end(c, rc, &err);
    }
}

void change_call_since(void *user, struct tidings_call *call)
{
    (void)user;
    change_call_begin(call, false);
}

void change_call_wait(void *user, struct tidings_call *call)
{
    (void)user;
    change_call_begin(call, true);
}
