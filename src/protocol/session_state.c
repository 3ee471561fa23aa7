/* SPDX-License-Identifier: MIT
 *
 * Sessions as texts: written, and read with every bound checked.
 */
#include "protocol/session_state.h"

#include "uri/uri.h"

#define BY_MAX 4096u

/* ---- writing --------------------------------------------------------------------------------- */

static void session_state_put_cursor(struct jw *w, struct tidings_str key,
                                     const struct log_cursor *cursor)
{
    char text[CURSOR_TEXT];
    jw_put_string(w, key, cursor_print(cursor, text));
}

static void put_rewind(struct jw *w, const struct session_rewind *r)
{
    jw_begin_object(w);
    jw_put_integer(w, STR("event"), (int64_t)r->event);
    if (r->is_lost) {
        jw_put_bool(w, STR("lost"), true);
    } else {
        session_state_put_cursor(w, STR("to"), &r->to);
    }
    jw_end_object(w);
}

void session_state_begin(struct jw *w, const struct session_state *s)
{
    jw_begin_object(w);
    jw_put_integer(w, STR("v"), SESSION_STATE_VERSION);
    jw_put_raw(w, STR("by"), s->by);
    jw_put_string(w, STR("revision"), s->revision);
    jw_put_bool(w, STR("initialized"), s->initialized);
    jw_put_bool(w, STR("listed"), s->has_listed);
    jw_put_integer(w, STR("level"), s->level);
    jw_put_integer(w, STR("turn"), (int64_t)s->generation);
    jw_put_integer(w, STR("asks"), s->asks);
    if (s->client_name.len > 0) {
        jw_key(w, STR("client"));
        jw_begin_object(w);
        jw_put_string(w, STR("name"), s->client_name);
        jw_put_string(w, STR("version"), s->client_version);
        jw_end_object(w);
    }
    jw_put_integer(w, STR("stream"), s->stream);
    jw_put_integer(w, STR("event"), (int64_t)s->event);
    session_state_put_cursor(w, STR("cursor"), &s->cursor);
    jw_key(w, STR("rewinds"));
    jw_begin_array(w);
    for (unsigned i = 0; i < s->rewind_count; i++) {
        put_rewind(w, &s->rewinds[i]);
    }
    jw_end_array(w);
    jw_key(w, STR("subscriptions"));
    jw_begin_array(w);
}

static void put_options(struct jw *w, const struct session_sub *sub)
{
    struct json *given = NULL;
    struct tidings_str key;
    struct json *member = NULL;
    if (sub->raw.len > 0 && jv_parse(sub->raw, SESSION_STATE_DEPTH, &given, NULL) < 0) {
        w->out->failed = w->out->failed ? w->out->failed : TIDINGS_E_NOMEM; /* it was ours */
    }
    struct json *options = given ? given : sub->options;
    if (!options && sub->baseline.len == 0) {
        return;
    }
    jw_key(w, STR("options"));
    jw_begin_object(w);
    for (void *at = jv_next(options, NULL, &key, &member); at;
         at = jv_next(options, at, &key, &member)) {
        bool is_baseline = str_eq(key, STR("baseline")) || str_eq(key, STR("initialBaseline"));
        if (!str_eq(key, STR("since")) && !str_eq(key, STR("initial")) &&
            !(is_baseline && sub->baseline.len > 0)) {
            jw_key(w, key);
            jw_value(w, member);
        }
    }
    if (sub->baseline.len > 0) {
        jw_put_string(w, STR("baseline"), sub->baseline);
    }
    jw_end_object(w);
    jv_unref(given);
}

void session_state_put(struct jw *w, const struct session_sub *sub)
{
    jw_begin_object(w);
    jw_put_string(w, STR("uri"), sub->uri);
    put_options(w, sub);
    if (sub->is_lost) {
        jw_put_bool(w, STR("lost"), true);
    } else if (sub->has_since) {
        session_state_put_cursor(w, STR("since"), &sub->since);
        if (sub->must_replay) {
            jw_put_bool(w, STR("replay"), true);
        }
    }
    if (sub->is_initial) {
        jw_put_bool(w, STR("initial"), true);
    }
    jw_end_object(w);
}

void session_state_end(struct jw *w)
{
    jw_end_array(w);
    jw_end_object(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int session_state_refuse(struct tidings_error *err, const char *member)
{
    return tidings_fail(err, TIDINGS_E_INVALID, "member '%s' of a session is wrong", member);
}

static bool read_number(struct json *v, uint64_t max, uint64_t *ret)
{
    *ret = v ? (uint64_t)jv_int(v) : 0;
    return !v || (jv_is(v, JV_INT) && jv_int(v) >= 0 && *ret <= max);
}

static bool is_bool_or_missing(const struct json *v)
{
    return !v || jv_is_bool(v);
}

static bool session_state_read_cursor(struct json *v, struct log_cursor *ret)
{
    return jv_is(v, JV_STRING) && cursor_parse(jv_str(v), ret);
}

static bool read_rewind(struct json *v, struct session_rewind *ret)
{
    struct json *lost = jv_get(v, "lost");
    ret->is_lost = jv_is_true(lost);
    return read_number(jv_get(v, "event"), SESSION_STATE_EVENT_MAX, &ret->event) &&
           is_bool_or_missing(lost) &&
           (ret->is_lost || session_state_read_cursor(jv_get(v, "to"), &ret->to));
}

static bool read_rewinds(struct session_state *s, struct json *v)
{
    if (v && (!jv_is(v, JV_ARRAY) || jv_count(v) > SESSION_STATE_REWINDS)) {
        return false;
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        if (!read_rewind(jv_at(v, i), &s->rewinds[i]) ||
            (i > 0 && s->rewinds[i].event < s->rewinds[i - 1].event)) {
            return false;
        }
    }
    s->rewind_count = (unsigned)jv_count(v);
    return true;
}

static bool is_sub(struct json *v)
{
    struct json *uri = jv_get(v, "uri"), *options = jv_get(v, "options");
    struct json *since = jv_get(v, "since");
    struct log_cursor cursor;
    return jv_is(uri, JV_STRING) && jv_str(uri).len <= URI_MAX &&
           (!options || jv_is(options, JV_OBJECT)) &&
           (!since || session_state_read_cursor(since, &cursor)) &&
           is_bool_or_missing(jv_get(v, "replay")) && is_bool_or_missing(jv_get(v, "lost")) &&
           is_bool_or_missing(jv_get(v, "initial"));
}

static bool read_subs(struct session_state *s, struct json *v)
{
    if (v && (!jv_is(v, JV_ARRAY) || jv_count(v) > SESSION_STATE_SUBS)) {
        return false;
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        if (!is_sub(jv_at(v, i))) {
            return false;
        }
    }
    s->subs = v;
    return true;
}

static int session_state_read_by(struct session_state *s, struct json *v, struct tidings_error *err)
{
    struct jw w;
    buf_init(&s->text, BY_MAX);
    jw_init(&w, &s->text);
    jw_value(&w, v);
    if (!jv_is(v, JV_OBJECT) || s->text.failed) {
        return session_state_refuse(err, "by");
    }
    s->by = buf_str(&s->text);
    return 0;
}

static int session_state_take(struct session_state *s, struct json *root, struct tidings_error *err)
{
    uint64_t version = 0, level = 0, stream = 0, asks = 0;
    struct json *revision = jv_get(root, "revision");
    if (!jv_is(root, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a session is an object");
    }
    if (!jv_get(root, "v") || !read_number(jv_get(root, "v"), UINT32_MAX, &version)) {
        return session_state_refuse(err, "v");
    }
    if (version > SESSION_STATE_VERSION) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the session is of a later version");
    }
    if (!jv_is(revision, JV_STRING)) {
        return session_state_refuse(err, "revision");
    }
    if (!is_bool_or_missing(jv_get(root, "initialized"))) {
        return session_state_refuse(err, "initialized");
    }
    if (!is_bool_or_missing(jv_get(root, "listed"))) {
        return session_state_refuse(err, "listed");
    }
    if (!read_number(jv_get(root, "level"), 7, &level)) {
        return session_state_refuse(err, "level");
    }
    if (!read_number(jv_get(root, "turn"), INT64_MAX, &s->generation)) {
        return session_state_refuse(err, "turn");
    }
    if (!read_number(jv_get(root, "asks"), UINT32_MAX, &asks)) {
        return session_state_refuse(err, "asks");
    }
    if (!read_number(jv_get(root, "stream"), SESSION_STATE_STREAM_MAX, &stream)) {
        return session_state_refuse(err, "stream");
    }
    if (!read_number(jv_get(root, "event"), SESSION_STATE_EVENT_MAX, &s->event)) {
        return session_state_refuse(err, "event");
    }
    if (!session_state_read_cursor(jv_get(root, "cursor"), &s->cursor)) {
        return session_state_refuse(err, "cursor");
    }
    if (!read_rewinds(s, jv_get(root, "rewinds"))) {
        return session_state_refuse(err, "rewinds");
    }
    if (!read_subs(s, jv_get(root, "subscriptions"))) {
        return session_state_refuse(err, "subscriptions");
    }
    s->client = jv_is(jv_get(root, "client"), JV_OBJECT) ? jv_get(root, "client") : NULL;
    s->revision = jv_str(revision);
    s->initialized = jv_is_true(jv_get(root, "initialized"));
    s->has_listed = jv_is_true(jv_get(root, "listed"));
    s->level = (int)level;
    s->asks = (unsigned)asks;
    s->stream = (unsigned)stream;
    return session_state_read_by(s, jv_get(root, "by"), err);
}

int session_state_read(struct session_state *s, struct tidings_str text, struct tidings_error *err)
{
    *s = (struct session_state){.level = 0};
    int rc = jv_parse(text, SESSION_STATE_DEPTH, &s->root, err);
    rc = rc == 0 ? session_state_take(s, s->root, err) : rc;
    if (rc < 0) {
        session_state_deinit(s);
    }
    return rc;
}

void session_state_deinit(struct session_state *s)
{
    buf_deinit(&s->text);
    jv_unref(s->root);
    *s = (struct session_state){.level = 0};
}

size_t session_state_count(const struct session_state *s)
{
    return jv_count(s->subs);
}

void session_state_at(const struct session_state *s, size_t index, struct session_sub *ret)
{
    struct json *v = jv_at(s->subs, index);
    *ret = (struct session_sub){
        .uri = jv_str(jv_get(v, "uri")),
        .options = jv_get(v, "options"),
        .is_lost = jv_is_true(jv_get(v, "lost")),
        .is_initial = jv_is_true(jv_get(v, "initial")),
    };
    ret->has_since = session_state_read_cursor(jv_get(v, "since"), &ret->since);
    ret->must_replay = ret->has_since && !ret->is_lost && jv_is_true(jv_get(v, "replay"));
}
