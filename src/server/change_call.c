/* SPDX-License-Identifier: MIT
 *
 * Runs a call of `changes_since` or `wait_for_change`: its query, and the timer of one that waits.
 */
#include "server/change_call.h"

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/roots.h"
#include "request/request.h"
#include "store/change.h"
#include "uri/uri.h"

#define PROGRESS_MS 3000u /* well within the patience of hosts */
#define ROW_OVERHEAD 128u
#define ARENA_BYTES (1u << 20) /* URIs of paths, and what a read needs */
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
        mem_free(c->rows[i].uri);
    }
    mem_free(c->rows);
    buf_deinit(&c->lost);
    buf_deinit(&c->refused);
    buf_deinit(&c->warnings);
    buf_deinit(&c->out);
    buf_deinit(&c->contents);
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

static void put_reason(struct buf *array, struct tidings_str spelled, struct tidings_str reason)
{
    struct buf text;
    struct jw w;
    buf_init(&text, NOTES_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), spelled);
    jw_put_string(&w, STR("reason"), reason);
    jw_end_object(&w);
    put_element(array, buf_str(&text));
    array->failed = text.failed ? text.failed : array->failed;
    buf_deinit(&text);
}

static void on_refused(void *user, struct tidings_str spelled, const struct tidings_error *why)
{
    struct change_call *c = user;
    if (c->refused.len == 0) {
        tidings_fail(&c->why, why->code, "'%.*s': %s", STR_ARG_MAX(spelled, 128), why->text);
    }
    put_reason(&c->refused, spelled, tidings_str(why->text));
}

static void on_accepted(void *user, struct tidings_str spelled, struct tidings_str warning)
{
    struct change_call *c = user;
    c->can_change = c->can_change || warning.len == 0;
    if (warning.len > 0) {
        put_reason(&c->warnings, spelled, warning);
    }
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

/* The next row, counted as `bytes`; NULL: no space. */
static struct change_row *change_call_add_row(struct change_call *c, size_t bytes)
{
    if (c->count == c->limit || (c->count > 0 && c->bytes + bytes > c->budget)) {
        return NULL;
    }
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : 16;
        struct change_row *rows = mem_realloc(c->rows, room * sizeof(*rows));
        if (!rows) {
            return NULL;
        }
        c->rows = rows;
        c->room = room;
    }
    c->bytes += bytes;
    return &c->rows[c->count++];
}

static void on_exists(void *user, struct tidings_str uri, int64_t modified_ms)
{
    struct change_call *c = user;
    char *copy = str_dup(uri);
    struct change_row *row = copy ? change_call_add_row(c, ROW_OVERHEAD + uri.len) : NULL;
    if (!row) { /* the client asks again with the cursor, or reads it */
        mem_free(copy);
        return;
    }
    *row = (struct change_row){.uri = copy, .modified_ms = modified_ms};
}

static bool on_row(void *user, const struct change *change, enum tidings_change_kind kind)
{
    size_t bytes = ROW_OVERHEAD + change->uri_json.len + change->metadata_json.len +
                   change->etag.len + change->from.len + change->to_json.len;
    struct change_row *row = change_call_add_row(user, bytes);
    if (row) {
        *row = (struct change_row){.change = change_ref(change), .kind = kind};
    }
    return row != NULL;
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
        if (why.code == TIDINGS_E_NOTFOUND) {
            roots_explain(c->worker->catalog, c->call->principal, &why);
        }
        change_call_end(c, why.code, &why);
        return;
    }
    c->cursor = *cursor;
    c->more = more;
    change_answer(c);
}

static const struct change_query_ops change_query_ops = {
    .refused = on_refused,
    .accepted = on_accepted,
    .exists = on_exists,
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

/* One element of `uris`; a path becomes the URI that it means. */
static int change_call_read_uri(struct change_call *c, struct tidings_str given,
                                struct tidings_str *ret, struct tidings_error *err)
{
    struct buf uri;
    *ret = given;
    if (given.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "it may be at most %u bytes long", URI_MAX);
    }
    buf_init(&uri, URI_MAX);
    int rc = roots_resolve(c->worker->catalog, c->call->principal, given, &uri, err);
    if (rc > 0) {
        *ret = arena_dup(&c->arena, buf_str(&uri));
        rc = ret->ptr ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    buf_deinit(&uri);
    return rc;
}

/* The argument `uris` into memory of the arena: *ret NULL if it is absent. */
static int change_call_read_uris(struct change_call *c, struct tidings_str **ret,
                                 struct tidings_error *err)
{
    const struct json *given = jv_get(c->call->arguments, "uris");
    size_t count = jv_count(given);
    struct tidings_str *uris = arena_alloc(&c->arena, (count + 1) * sizeof(*uris));
    int rc = uris ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = change_call_read_uri(c, jv_str(jv_at(given, i)), &uris[i], err);
        rc = rc < 0 ? error_wrap(err, rc, "uris[%zu]", i) : 0;
    }
    *ret = given ? uris : NULL;
    return rc;
}

static int change_call_start(struct change_call *c, struct tidings_error *err)
{
    struct tidings_call *call = c->call;
    c->limit = (size_t)tidings_call_integer(call, "limit", CHANGE_LIMIT);
    c->wants_contents = tidings_call_boolean(call, "includeContent", false);
    c->wait_ms = (uint64_t)tidings_call_integer(call, "timeoutMs", CHANGE_WAIT_MS);
    bool waits = c->waits && c->wait_ms > 0;
    struct tidings_str *uris = NULL;
    int rc = change_call_read_uris(c, &uris, err);
    if (rc < 0) {
        return rc;
    }
    const struct change_query_terms terms = {
        .uris = uris,
        .count = jv_count(jv_get(call->arguments, "uris")),
        .since = tidings_call_string(call, "cursor"),
        .waits = waits,
        .wants_existing = c->waits,
    };
    c->timer = waits ? loop_timer_open(c->worker->loop, change_call_on_timer, c) : NULL;
    if (waits && !c->timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    c->query = change_query_create(call->request, &terms, err);
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
    buf_init(&c->warnings, NOTES_BYTES);
    arena_init(&c->arena, ARENA_BYTES);
    buf_init(&c->contents, 0);
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
