/* SPDX-License-Identifier: MIT
 *
 * Registers the tools `changes_since` and `wait_for_change`, with their descriptions and schemas.
 * Models read these strings, so they describe only the purpose, the arguments, and the use of the
 * answer.
 */
#include "server/tools_changes.h"

#include <stdio.h>

#include <tidings/tool.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/catalog/roots.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/protocol/request.h"
#include "formats/uri.h"
#include "server/tools_admin.h"
#include "store/change.h"

/* ---------------------------------------------------------------------------------------------- */

#define TEXT_OF(x) #x
#define NUMBER(x) TEXT_OF(x)
#define LIMIT_MAX 1000
#define URIS_MAX 100
/* The caller sets the actual deadline; this one applies if a provider never answers. */
#define OWN_TIMEOUT_MS (CHANGE_WAIT_MAX_MS + 60000u)

#define URIS                                                                                       \
    "\"uris\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":" NUMBER(                            \
        URIS_MAX) ",\"uniqueItems\":true,\"items\":{\"type\":\"string\",\"minLength\":1},"         \
                  "\"description\":\"resources: file:///docs/a.md, everything below "              \
                  "file:///docs/, a pattern such as file:///logs/*.log or file:///logs/**, or "    \
                  "paths of files; everything when absent\"}"
#define CURSOR                                                                                     \
    "\"cursor\":{\"type\":\"string\",\"minLength\":1,\"description\":\"the cursor of the "         \
    "previous answer about the same uris; absent: begin now\"}"
#define LIMIT                                                                                      \
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":" NUMBER(                           \
        LIMIT_MAX) ",\"default\":100}"
#define CONTENT                                                                                    \
    "\"includeContent\":{\"type\":\"boolean\",\"description\":\"also return the current content "  \
    "of "                                                                                          \
    "small resources, as further blocks of the result\"}"
#define TIMEOUT                                                                                    \
    "\"timeoutMs\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":600000,\"default\":25000,"      \
    "\"description\":\"how long to wait\"}"
#define INPUT(properties)                                                                          \
    "{\"type\":\"object\",\"properties\":{" properties "},\"additionalProperties\":false}"

#define CHANGE                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},"                          \
    "\"change\":{\"enum\":[\"exists\",\"created\",\"updated\",\"deleted\",\"moved\"]},"            \
    "\"at\":{\"type\":\"string\",\"description\":\"when\"},\"etag\":{\"type\":\"string\"},"        \
    "\"from\":{\"type\":\"string\",\"description\":\"its URI before it was moved\"},"              \
    "\"metadata\":{\"type\":\"object\"},\"blocks\":{\"type\":\"array\",\"items\":{\"type\":"       \
    "\"integer\"},\"description\":\"which blocks of this result hold its content; this text is "   \
    "block 0\"}},"                                                                                 \
    "\"required\":[\"uri\",\"change\"]}"
#define ANSWER(more)                                                                               \
    "{\"type\":\"object\",\"properties\":{\"cursor\":{\"type\":\"string\",\"description\":"        \
    "\"give it to the next call\"},\"changes\":{\"type\":\"array\",\"items\":" CHANGE              \
    ",\"description\":\"the latest change of each resource, oldest first\"},"                      \
    "\"more\":{\"type\":\"boolean\",\"description\":\"there are more: call again with the "        \
    "cursor\"}," more "\"gap\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"               \
    "\"description\":\"history does not reach back to the cursor for these: anything they cover "  \
    "may have changed, read it again\"},\"refused\":{\"type\":\"array\",\"items\":{\"type\":"      \
    "\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"}},"  \
    "\"required\":[\"uri\",\"reason\"]},\"description\":\"of the uris, those that cannot be "      \
    "watched\"},\"warnings\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"  \
    "\"uri\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"}},\"required\":[\"uri\","       \
    "\"reason\"]},\"description\":\"of the uris, those that match nothing the server has: "        \
    "waiting "                                                                                     \
    "for them is useless\"}},\"required\":[\"cursor\",\"changes\",\"more\"]}"

static const char since_input[] = INPUT(CURSOR "," URIS "," LIMIT "," CONTENT);
static const char since_output[] = ANSWER("");
static const char wait_input[] = INPUT(URIS "," CURSOR "," TIMEOUT "," LIMIT "," CONTENT);
static const char wait_output[] =
    ANSWER("\"timedOut\":{\"type\":\"boolean\",\"description\":\"nothing changed in that time\"},");

static const char own_input[] = INPUT(
    "\"cursor\":{\"type\":\"string\",\"minLength\":1,\"description\":\"nextCursor of the previous "
    "page\"}");
static const char own_output[] =
    "{\"type\":\"object\",\"properties\":{\"subscriptions\":{\"type\":\"array\",\"items\":{"
    "\"type\":"
    "\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},\"state\":{\"enum\":[\"active\","
    "\"opening\",\"suspended\"]},\"cursor\":{\"type\":\"string\"},\"options\":{\"type\":"
    "\"object\"}},\"required\":[\"uri\",\"state\"]}},\"nextCursor\":{\"type\":\"string\","
    "\"description\":\"there are more: call again with it\"}},\"required\":[\"subscriptions\"]}";

static const char hints[] =
    "{\"readOnlyHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}";

int change_tools_add(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_tool since = {
        .name = STR("changes_since"),
        .title = STR("What changed"),
        .description =
            STR("Lists the resources that changed since a cursor. The first time, call it without "
                "a cursor to get one; later, with the newest cursor, to get the changes since "
                "then. Returns immediately."),
        .input_schema = tidings_str(since_input),
        .output_schema = tidings_str(since_output),
        .annotations = tidings_str(hints),
    };
    struct tidings_tool wait = {
        .name = STR("wait_for_change"),
        .title = STR("Wait for a change"),
        .description = STR(
            "Waits until one of the resources changes, and returns what changed. After timeoutMs "
            "it returns with timedOut: call it again. You can wait for a file that does not exist "
            "yet. Without a cursor it returns at once for a resource that already exists, with "
            "change 'exists' and its modification time in 'at'. If all uris are in 'warnings' it "
            "returns at once: do not repeat the call. Pass the cursor of the previous "
            "answer, so that you miss nothing between two calls."),
        .input_schema = tidings_str(wait_input),
        .output_schema = tidings_str(wait_output),
        .annotations = tidings_str(hints),
        .timeout_ms = OWN_TIMEOUT_MS,
    };
    struct tidings_tool own = {
        .name = STR("my_subscriptions"),
        .title = STR("My subscriptions"),
        .description =
            STR("Lists the subscriptions of this client with their options and whether they are "
                "still active. Fails if the server cannot identify the client."),
        .input_schema = tidings_str(own_input),
        .output_schema = tidings_str(own_output),
        .annotations = tidings_str(hints),
    };
    const struct {
        const struct tidings_tool *about;
        tidings_call_fn fn;
    } tools[] = {
        {&since, change_call_since}, {&wait, change_call_wait}, {&own, own_subscriptions_call}};
    int rc = 0;
    size_t count = 0;
    while (rc == 0 && count < sizeof(tools) / sizeof(tools[0])) {
        rc = tidings_server_add_tool(s, tools[count].about, tools[count].fn, NULL, err);
        count += rc == 0;
    }
    while (rc < 0 && count > 0) { /* the program may have a tool of that name: withdraw ours */
        (void)tidings_server_remove_tool(s, tools[--count].about->name, NULL);
    }
    return rc;
}

void change_tools_remove(struct tidings_server *s)
{
    (void)tidings_server_remove_tool(s, STR("changes_since"), NULL);
    (void)tidings_server_remove_tool(s, STR("wait_for_change"), NULL);
    (void)tidings_server_remove_tool(s, STR("my_subscriptions"), NULL);
}

/* -------------------------------------------------------------------------------------------------
 * Runs a call of `changes_since` or `wait_for_change`: its query, and the timer of a waiting call.
 */

#define PROGRESS_MS 3000u /* well below the timeout of hosts */
#define ROW_OVERHEAD 128u
#define ARENA_BYTES (1u << 20) /* URIs of paths, and memory for a read */
#define NOTES_BYTES (1u << 20) /* of notes on URIs: enough for as many as the schema allows */

/* ---- end ------------------------------------------------------------------------------------- */

static void change_call_end(struct change_call *c, int code, struct tidings_error *err)
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

/* ---- query results --------------------------------------------------------------------------- */

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
    if (!row) { /* the client repeats the call with the cursor, or reads it */
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

static void change_answer(struct change_call *c);

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

/* Returns true if no client can receive the answer. In the legacy era, a lost connection does not
 * cancel the call. */
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

/* One element of `uris`; a path is converted to its URI. */
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

/* -------------------------------------------------------------------------------------------------
 * Writes the answer of `changes_since` and `wait_for_change`, one row after the other.
 *
 * Each content appears once in a result, as a block whose position the row names. The first block
 * is the structured content as text. Contents that cannot be read (deleted, too large, unreadable)
 * are omitted: a client that reads the resource itself gets the error.
 */

/* Escaping may turn one byte into six. */
#define ESCAPE 6u

/* ---- metadata -------------------------------------------------------------------------------- */

/* Returns true if the server adds this metadata to every change, so that it is not worth
 * reporting. */
static bool change_answer_is_ours(const struct change *change, struct tidings_str key,
                                  const struct json *value)
{
    char version[40];
    snprintf(version, sizeof(version), "%llx.%llu", (unsigned long long)change->epoch,
             (unsigned long long)change->seq);
    return str_eq(key, STR("updated_at")) || str_eq(key, STR("timestamp")) ||
           str_eq(key, STR("change_type")) ||
           (str_eq(key, STR("version")) && str_eq(jv_str(value), tidings_str(version)));
}

static void change_answer_write_metadata(struct jw *w, const struct change *change,
                                         struct json *metadata)
{
    struct tidings_str key;
    struct json *value = NULL;
    bool any = false;
    for (void *at = metadata ? jv_next(metadata, NULL, &key, &value) : NULL; at;
         at = jv_next(metadata, at, &key, &value)) {
        if (change_answer_is_ours(change, key, value)) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, STR("metadata"));
            jw_begin_object(w);
        }
        jw_key(w, key);
        jw_value(w, value);
    }
    if (any) {
        jw_end_object(w);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void change_answer_put_at(struct jw *w, int64_t ms)
{
    char text[25];
    clock_format_iso(ms, text);
    jw_put_string(w, STR("at"), tidings_str(text));
}

static void change_answer_begin_existing(struct change_call *c, const struct change_row *row)
{
    struct jw *w = &c->w;
    jw_begin_object(w);
    jw_put_string(w, STR("uri"), tidings_str(row->uri));
    jw_put_string(w, STR("change"), STR("exists"));
    if (row->modified_ms > 0) {
        change_answer_put_at(w, row->modified_ms);
    }
}

static void change_answer_begin_row(struct change_call *c, const struct change_row *row)
{
    const struct change *change = row->change;
    if (!change) {
        change_answer_begin_existing(c, row);
        return;
    }
    struct json *metadata = jv_get(delivery_subject(c->worker, change), "metadata");
    struct json *at = jv_get(metadata, "updated_at");
    bool hides_from = !filters_show_from(c->call->principal, change);
    enum tidings_change_kind kind = hides_from ? row->kind : change_kind_of(change, row->kind);
    struct jw *w = &c->w;
    jw_begin_object(w);
    jw_put_raw(w, STR("uri"),
               change_names_destination(change, row->kind, hides_from) ? change->to_json
                                                                       : change->uri_json);
    jw_put_string(w, STR("change"), tidings_str(tidings_change_name(kind)));
    if (jv_is(at, JV_INT)) {
        change_answer_put_at(w, jv_int(at));
    }
    if (change->etag.len > 0) {
        jw_put_string(w, STR("etag"), change->etag);
    }
    if (kind == TIDINGS_CHANGE_MOVED) {
        jw_put_string(w, STR("from"), change->from);
    }
    if (!hides_from || change->to.len == 0) { /* otherwise it is the content at the new URI */
        change_answer_write_metadata(w, change, metadata);
    }
}

static void change_answer_write_rows(struct change_call *c);

static void on_read(struct job *request)
{
    struct change_call *c = request->user;
    bool is_full = request->code >= 0 && (c->contents.failed || c->contents.len > c->budget);
    if (request->code < 0 || is_full) {
        c->contents_w = c->contents_before;
        c->contents.len = c->contents_before_len;
        c->contents.failed = 0;
    } else {
        jw_key(&c->w, STR("blocks"));
        jw_begin_array(&c->w);
        for (size_t i = 0; i < c->read.count; i++) {
            jw_integer(&c->w, (int64_t)c->block_count++);
        }
        jw_end_array(&c->w);
    }
    c->is_full = is_full;
    jw_end_object(&c->w);
    catalog_unref(c->catalog);
    c->catalog = NULL;
    arena_reset(&c->arena);
    c->is_reading = false;
    if (!c->is_writing) {
        change_answer_write_rows(c);
    }
}

/* The URI to read the content of a row from; empty: there is no content. */
static struct tidings_str change_answer_source(const struct change_call *c,
                                               const struct change_row *row)
{
    if (!row->change) {
        return tidings_str(row->uri);
    }
    bool leads = change_names_destination(row->change, row->kind,
                                          !filters_show_from(c->call->principal, row->change));
    bool is_gone = row->kind == TIDINGS_CHANGE_DELETED && !leads;
    return leads ? row->change->to : is_gone ? STR_EMPTY : row->change->uri;
}

/* The row ends after its contents have been read. Returns false if it has none. */
static bool read_contents(struct change_call *c, const struct change_row *row)
{
    struct catalog_hit hit;
    struct tidings_str uri = change_answer_source(c, row);
    if (!c->wants_contents || uri.len == 0 || c->is_full || c->out.failed ||
        !catalog_find(c->worker->catalog, uri, &c->arena, &hit)) {
        return false;
    }
    c->contents_before = c->contents_w;
    c->contents_before_len = c->contents.len;
    memset(&c->read, 0, sizeof(c->read));
    job_init(&c->read.base, c->worker, on_read, c, uri);
    c->read.w = &c->contents_w;
    c->read.principal = c->call->principal;
    c->read.own_only = true;
    c->read.max_bytes = c->worker->limits->max_value_bytes;
    c->catalog = catalog_ref(c->worker->catalog);
    c->is_reading = true;
    job_read(&c->read, &hit);
    return true;
}

static void write_array(struct jw *w, const char *key, const struct buf *elements)
{
    if (elements->len > 0) {
        jw_key(w, tidings_str(key));
        jw_begin_array(w);
        jw_raw(w, buf_str(elements)); /* with the commas between them */
        jw_end_array(w);
    }
}

static int change_answer_add_block(struct change_call *c, const struct json *content,
                                   struct tidings_error *err)
{
    const struct json *text = jv_get(content, "text");
    if (text) {
        return tidings_call_text(c->call, jv_str(text), err);
    }
    struct buf block;
    struct jw w;
    buf_init(&block, c->contents.len + 64);
    jw_init(&w, &block);
    jw_begin_object(&w);
    jw_put_string(&w, STR("type"), STR("resource"));
    jw_key(&w, STR("resource"));
    jw_value(&w, content);
    jw_end_object(&w);
    int rc = buf_check(&block, "the content", "ask for less at a time", err);
    rc = rc < 0 ? rc : tidings_call_block(c->call, buf_str(&block), err);
    buf_deinit(&block);
    return rc;
}

/* Adds the structured content as text, and the contents after it. */
static int change_answer_add_blocks(struct change_call *c, struct tidings_error *err)
{
    jw_end_array(&c->contents_w);
    struct json *contents = NULL;
    int rc = buf_check(&c->contents, "the contents", "ask for less at a time", err);
    rc = rc < 0 ? rc : jv_parse(buf_str(&c->contents), JSON_MAX_DEPTH, &contents, err);
    rc = rc < 0 ? rc : tidings_call_text(c->call, buf_str(&c->out), err);
    for (size_t i = 0; rc == 0 && i < jv_count(contents); i++) {
        rc = change_answer_add_block(c, jv_at(contents, i), err);
    }
    jv_unref(contents);
    return rc;
}

static void change_answer_finish(struct change_call *c)
{
    struct jw *w = &c->w;
    struct tidings_error err = {0, ""};
    jw_end_array(w);
    jw_put_bool(w, STR("more"), c->more);
    if (c->waits) {
        jw_put_bool(w, STR("timedOut"),
                    c->count == 0 && c->lost.len == 0 && !c->more && c->can_change);
    }
    write_array(w, "gap", &c->lost);
    write_array(w, "refused", &c->refused);
    write_array(w, "warnings", &c->warnings);
    jw_end_object(w);
    const struct buf *parts[] = {&c->out, &c->lost, &c->refused, &c->warnings};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        rc = buf_check(parts[i], "the answer", "ask for less at a time", &err);
    }
    if (rc == 0 && c->block_count > 1 && !c->is_cancelled) {
        rc = change_answer_add_blocks(c, &err);
    }
    change_call_end(c, rc, &err);
}

/* Writes as many rows as possible: a read that is not done immediately continues here. */
static void change_answer_write_rows(struct change_call *c)
{
    c->is_writing = true;
    while (!c->is_reading && c->next < c->count && !c->is_cancelled) {
        const struct change_row *row = &c->rows[c->next++];
        change_answer_begin_row(c, row);
        if (!read_contents(c, row)) {
            jw_end_object(&c->w);
        }
    }
    c->is_writing = false;
    if (!c->is_reading) {
        change_answer_finish(c);
    }
}

/* Turns the result into the answer; ends the call and frees everything, now or later. */
static void change_answer(struct change_call *c)
{
    char cursor[CURSOR_TEXT];
    buf_init(&c->out, 4 * CHANGE_BYTES * ESCAPE);
    buf_init(&c->contents, (CHANGE_BYTES + c->worker->limits->max_value_bytes) * ESCAPE);
    jw_init(&c->contents_w, &c->contents);
    jw_begin_array(&c->contents_w);
    c->block_count = 1;
    jw_init(&c->w, &c->out);
    jw_begin_object(&c->w);
    jw_put_string(&c->w, STR("cursor"),
                  cursor_seal_put(c->worker, c->call->principal, &c->cursor, cursor));
    jw_key(&c->w, STR("changes"));
    jw_begin_array(&c->w);
    change_answer_write_rows(c);
}
