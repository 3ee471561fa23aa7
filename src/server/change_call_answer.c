/* SPDX-License-Identifier: MIT
 *
 * Writes the answer of `changes_since` and `wait_for_change`, one row after the other.
 *
 * Contents appear once in a result: as blocks of it, whose positions the row names. The first block
 * is the structured content as text. Contents that cannot be read (gone, too large, unreadable) are
 * left out: the client reads the resource itself and learns why.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "server/change_call.h"
#include "store/change.h"

/* Escaping may turn one byte into six. */
#define ESCAPE 6u

/* ---- metadata -------------------------------------------------------------------------------- */

/* Is it what the server itself says of every change, and no news here? */
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
    if (!hides_from || change->to.len == 0) { /* else it is that of where it is now */
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

/* The URI that the content of a row is read from; empty: there is no content. */
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

/* The row ends when its contents are there. false: it has none. */
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

/* As far as it goes: a read that is not done at once goes on here. */
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

void change_answer(struct change_call *c)
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
