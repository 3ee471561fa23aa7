/* SPDX-License-Identifier: MIT
 *
 * PUT, PATCH and DELETE of an entity over HTTP. The body is the value or the merge patch, If-Match
 * names the baseline, and what else the tools take stands in the query under its name there: all of
 * it is made the arguments of the tool, and goes its road.
 */
#include "base/error.h"
#include "base/str.h"
#include "delivery/options.h"
#include "server/entity_call.h"
#include "wire/http_fields.h"

#define ARGUMENTS_MAX (64u << 10)

#define ACCEPTED                                                                                   \
    "baseline, changedBy, idempotencyKey, onConflict, origin, parentId, undelete, validFrom, "     \
    "validTo"

static const char *const names[] = {"baseline",   "changedBy", "idempotencyKey",
                                    "onConflict", "origin",    "parentId",
                                    "undelete",   "validFrom", "validTo"};

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

/* ---- the query ------------------------------------------------------------------------------- */

static int entity_http_check_names(struct tidings_str query, struct tidings_error *err)
{
    while (query.len > 0) {
        struct tidings_str value;
        struct tidings_str name = str_cut(str_cut(query, '&', &query, NULL), '=', &value, NULL);
        bool known = str_eq(name, STR("uri"));
        for (size_t i = 0; i < NAME_COUNT; i++) {
            known = known || str_eq(name, tidings_str(names[i]));
        }
        if (!known) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "'%.*s' is no parameter; accepted: " ACCEPTED,
                                STR_ARG_MAX(name, 64));
        }
    }
    return 0;
}

/* One user's id, or all of it as JSON. */
static int put_changed_by(struct jw *w, struct tidings_str value, struct tidings_error *err)
{
    struct json *list = NULL;
    if (!str_starts(value, STR("["))) {
        jw_key(w, STR("changedBy"));
        jw_begin_array(w);
        jw_begin_object(w);
        jw_put_string(w, STR("userId"), value);
        jw_end_object(w);
        jw_end_array(w);
        return 0;
    }
    int rc = jv_parse(value, JSON_MAX_DEPTH, &list, err);
    if (rc == 0) {
        jw_key(w, STR("changedBy"));
        jw_value(w, list);
    }
    jv_unref(list);
    return rc < 0 ? error_wrap(err, rc, "changedBy") : 0;
}

static int put_argument(struct jw *w, const char *name, struct tidings_str value,
                        struct tidings_error *err)
{
    if (strcmp(name, "changedBy") == 0) {
        return put_changed_by(w, value, err);
    }
    if (strcmp(name, "undelete") == 0) {
        jw_put_bool(w, STR("undelete"), str_eq(value, STR("true")));
        return str_eq(value, STR("true")) || str_eq(value, STR("false"))
                   ? 0
                   : tidings_fail(err, TIDINGS_E_INVALID, "undelete: write true or false");
    }
    if (strcmp(name, "onConflict") == 0 && !str_eq(value, STR("rebase")) &&
        !str_eq(value, STR("fail"))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "onConflict: write fail or rebase");
    }
    if (strcmp(name, "origin") == 0 && value.len > ORIGIN_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "origin has at most %u bytes", ORIGIN_MAX);
    }
    jw_put_string(w, tidings_str(name), value);
    return 0;
}

int entity_http_query(struct jw *w, struct tidings_str query, struct tidings_error *err)
{
    struct buf value;
    buf_init(&value, ARGUMENTS_MAX);
    int rc = entity_http_check_names(query, err);
    for (size_t i = 0; rc == 0 && i < NAME_COUNT; i++) {
        buf_clear(&value);
        rc = http_query_get(query, names[i], &value);
        if (rc == TIDINGS_E_NOMEM) {
            rc = tidings_fail(err, rc, "out of memory");
        } else if (rc < 0) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "'%s' must come once, percent-encoded",
                              names[i]);
        }
        rc = rc == 1 ? put_argument(w, names[i], buf_str(&value), err) : rc;
    }
    buf_deinit(&value);
    return rc;
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* Everything but the body, as arguments of the tool. */
static int read_arguments(struct entity_call *c, struct tidings_str uri, struct tidings_error *err)
{
    struct tidings_str match = tidings_write_if_match(c->write);
    struct buf text;
    struct jw w;
    int64_t baseline;
    bool is_named = match.len > 0 && !str_eq(match, STR("*"));
    if (is_named && timeline_parse(match, &baseline, NULL) < 0) {
        c->problem.reason = ENTITY_UNKNOWN_BASELINE; /* an etag, but none of ours */
        return tidings_fail(err, TIDINGS_E_CONFLICT, "no version has the etag of If-Match");
    }
    buf_init(&text, 2 * ARGUMENTS_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), uri);
    int rc = entity_http_query(&w, tidings_write_query(c->write), err);
    if (is_named) {
        jw_put_string(&w, STR("baseline"), match);
    }
    jw_end_object(&w);
    if (rc == 0 && text.failed) {
        bool is_long = text.failed == TIDINGS_E_LIMIT;
        rc = tidings_fail(err, is_long ? TIDINGS_E_INVALID : text.failed, "%s",
                          is_long ? "the parameters are too long" : "out of memory");
    }
    rc = rc == 0 ? jv_parse(buf_str(&text), JSON_MAX_DEPTH, &c->arguments, err) : rc;
    if (rc == TIDINGS_E_PARSE) { /* only a name that stands twice is left */
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the baseline stands in If-Match already");
    }
    buf_deinit(&text);
    return rc;
}

static int read_body(struct entity_call *c, struct tidings_error *err)
{
    struct tidings_str said = tidings_write_mime_type(c->write), rest;
    struct tidings_str type = str_trim(str_cut(said, ';', &rest, NULL), " \t");
    bool is_patch = tidings_write_is_patch(c->write);
    bool is_json = type.len == 0 || str_eq_nocase(type, STR("application/json"));
    if (!is_json && !(is_patch && str_eq_nocase(type, STR("application/merge-patch+json")))) {
        return tidings_fail(err, TIDINGS_E_FORMAT, "Content-Type must be application/json%s",
                            is_patch ? " or application/merge-patch+json" : "");
    }
    int rc = jv_parse(tidings_write_bytes(c->write), JSON_MAX_DEPTH, &c->body, err);
    if (rc < 0) {
        return error_wrap(err, rc, "the body is no JSON value");
    }
    if (is_patch && !jv_is(c->body, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a merge patch is an object");
    }
    return 0;
}

static int read_write(struct entity_call *c, struct tidings_str uri, struct tidings_error *err)
{
    struct tidings_write *asked = c->write;
    bool any = str_eq(tidings_write_if_match(asked), STR("*"));
    bool is_patch = tidings_write_is_patch(asked);
    enum entity_op op = tidings_write_is_removal(asked) ? ENTITY_DELETE : ENTITY_UPSERT;
    int rc = read_arguments(c, uri, err);
    if (rc == 0 && jv_is_true(jv_get(c->arguments, "undelete"))) {
        bool is_bare = op == ENTITY_UPSERT && !is_patch && tidings_write_bytes(asked).len == 0;
        op = ENTITY_UNDELETE;
        rc = is_bare ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "undelete is a PUT without a body");
    }
    if (rc == 0 && op == ENTITY_UPSERT) {
        rc = entity_call_lacks_steps(c) ? TIDINGS_E_BUSY : read_body(c, err);
    }
    rc = rc == 0 ? entity_call_room(c, 1, err) : rc;
    rc = rc == 0 ? entity_call_write(c, c->arguments, op, &c->writes[0], err) : rc;
    if (rc < 0) {
        return rc;
    }
    struct entity_write *w = &c->writes[0];
    w->must_be_new = tidings_write_if_absent(asked);
    w->must_exist = any;
    w->is_careful = true;
    w->rebase = w->rebase || (any && is_patch);
    c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
    principal_put_origin(c->principal, jv_str(jv_get(c->arguments, "origin")), &c->origin);
    return is_patch && w->baseline == TIMELINE_NEVER && !w->rebase
               ? tidings_fail(err, TIDINGS_E_CONDITION, "name the version the patch starts from")
               : 0;
}

void entity_http_write(struct tidings_provider *provider, struct tidings_write *write,
                       struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct entity_call *c = entity_call_create(provider);
    if (!c) {
        tidings_write_done(write, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), STR_EMPTY,
                           &err);
        return;
    }
    c->write = write;
    c->principal = write->principal;
    c->allowance = write->allowance;
    entity_call_submit(c, read_write(c, uri, &c->job.err));
}

/* ---- what is answered ------------------------------------------------------------------------ */

void entity_http_done(struct entity_call *c)
{
    const struct entity_done *done = &c->done[0];
    struct tidings_write *write = c->write;
    char etag[TIMELINE_TEXT];
    struct buf text;
    buf_init(&text, ENTITY_ANSWER_MAX);
    entity_put_written(c, &text);
    if (!tidings_write_is_removal(write) && !text.failed) {
        tidings_write_answer(write, buf_str(&text));
    }
    bool is_new = done->changed && done->before == TIMELINE_NEVER;
    tidings_write_done(write, is_new, timeline_text(done->version.from, etag), NULL);
    buf_deinit(&text);
}

/* As a status tells it. A PUT needs nothing to be there, so what is there can only be in its way;
 * a baseline in If-Match is a condition like any other. */
static int code_of(const struct entity_call *c, int code)
{
    bool is_put = !tidings_write_is_removal(c->write) && !tidings_write_is_patch(c->write);
    bool is_matched = tidings_write_if_match(c->write).len > 0;
    enum entity_reason why = c->problem.reason;
    bool is_in_the_way = why == ENTITY_EXISTS || why == ENTITY_TAKEN ||
                         (why == ENTITY_OTHER_TYPE && is_put) ||
                         (why == ENTITY_UNKNOWN && is_put && is_matched) ||
                         (why == ENTITY_UNKNOWN_BASELINE && is_matched);
    return is_in_the_way ? TIDINGS_E_CONFLICT : code;
}

void entity_http_refuse(struct entity_call *c, int code)
{
    struct tidings_write *write = c->write;
    struct tidings_error err = c->job.err;
    struct buf text;
    entity_problem_text(c, code, &text);
    if (!text.failed) {
        tidings_write_explain(write, buf_str(&text));
    }
    tidings_write_done(write, code_of(c, code), STR_EMPTY, &err);
    buf_deinit(&text);
}
