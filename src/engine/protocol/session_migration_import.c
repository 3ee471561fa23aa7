/* SPDX-License-Identifier: MIT
 *
 * Importing a session from another node: this node takes it from the store, recreates it, and makes
 * its subscriptions in the ordinary way, so that all checks of a new subscription are repeated.
 * Updates continue at the stored positions; for changes that only the other node knew, the client
 * gets a resync.
 */
#include "engine/protocol/session_migration_import.h"

#include "base/log.h"
#include "base/mem.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration.h"
#include "formats/uri.h"
#include "security/client_account.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * The string form of sessions: written, and read with every bound checked.
 */

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
    if (r->is_gap) {
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
        w->out->failed = w->out->failed ? w->out->failed : TIDINGS_E_NOMEM; /* this node wrote it */
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
    if (sub->is_gap) {
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
    ret->is_gap = jv_is_true(lost);
    return read_number(jv_get(v, "event"), SESSION_STATE_EVENT_MAX, &ret->event) &&
           is_bool_or_missing(lost) &&
           (ret->is_gap || session_state_read_cursor(jv_get(v, "to"), &ret->to));
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
        .is_gap = jv_is_true(jv_get(v, "lost")),
        .is_initial = jv_is_true(jv_get(v, "initial")),
    };
    ret->has_since = session_state_read_cursor(jv_get(v, "since"), &ret->since);
    ret->must_replay = ret->has_since && !ret->is_gap && jv_is_true(jv_get(v, "replay"));
}

/* ---------------------------------------------------------------------------------------------- */

/* The other node may have issued more numbers than it has written, and so may later owners that
 * died before they wrote any state: numbers issued here start higher. */
#define EVENTS_UNWRITTEN (UINT64_C(1) << 20)
#define STREAMS_UNWRITTEN 16u
#define TAKEOVERS_UNWRITTEN 1024u

/* A session on its way here. */
struct session_import {
    struct session_migrations *movers;
    char key[SESSION_KEY_LEN + 1];
    const struct principal *principal; /* a reference: the principal of the request */
    struct client_account *account;    /* likewise */
    struct session_place place;        /* it counts there already, until it is a session */
    struct list waits;                 /* struct session_wait */
    struct session_job *job;           /* the query of the store */
    struct loop_timer *delay;          /* NULL: none */
    struct session_state state;
    struct subscribe_batch *batch;  /* its subscriptions are being made */
    struct session_migration *asks; /* of a session that is here: is still confirming its owner */
    struct hub_watch_request *arm;  /* this node has yet to catch up with … */
    struct session_event last; /* … the last event that its client received, where `has_last` */
    bool has_last;
    struct log_cursor awaits[SESSION_STATE_REWINDS + 1];
    bool was_elsewhere; /* of a session that is here: its client has received events of another node
                           since */
    bool is_made;
};

static void session_import_free(struct session_import *a)
{
    if (!a->is_made) {
        session_left(a->movers->worker, &a->place);
    }
    if (a->job) {
        a->job->user = NULL;
    }
    if (a->arm) {
        a->arm->user = NULL;
    }
    if (a->asks) {
        a->asks->confirming = NULL;
    }
    if (a->batch) {
        a->batch->done = NULL;
        a->batch->dropped = NULL;
        a->batch->await_count = 0;
    }
    loop_timer_close(a->delay);
    session_state_deinit(&a->state);
    client_account_release(a->account);
    principal_unref(a->principal);
    mem_free(a);
}

/* The waiting requests continue, or fail because the result is unknown. */
static void session_import_end(struct session_import *a, int code)
{
    struct list waits;
    list_init(&waits);
    list_splice(&waits, &a->waits);
    (void)map_remove(&a->movers->imports, tidings_str(a->key));
    session_import_free(a);
    while (!list_empty(&waits)) {
        struct session_wait *wait = list_entry(waits.next, struct session_wait, link);
        list_remove(&wait->link);
        wait->done(wait, code);
    }
}

/* ---- made again ------------------------------------------------------------------------------ */

static void restore_rewinds(struct session *session, const struct session_state *s)
{
    for (unsigned i = 0; i < s->rewind_count; i++) {
        struct log_cursor to = s->rewinds[i].to;
        bool is_known = !s->rewinds[i].is_gap && (to.epoch == session->worker->epoch ||
                                                  session_migration_resume(session, &to));
        session->rewinds[i].event = s->rewinds[i].event;
        session->rewinds[i].to = is_known ? to.seq : 0;
        session->rewinds[i].is_gap = !is_known;
    }
    session->rewind_count = s->rewind_count;
}

/* It was promised the changes of the same lists as every session here. */
static void restore_lists(struct session *session, const struct session_state *s)
{
    const struct server_identity *self = session->worker->self;
    unsigned offers = handlers_offers(session->worker);
    list_changed_want(session->group,
                      self->list_changed ? offers & (LIST_TOOLS | LIST_PROMPTS) : 0);
    session->group->has_listed = s->has_listed;
    session->initialized = s->initialized;
}

/* A session without its subscriptions. NULL: it cannot be recreated here, *ret has the reason. */
static struct session *session_import_make(struct session_import *a, const struct session_job *job,
                                           int *ret)
{
    struct worker *worker = a->movers->worker;
    struct session_state *s = &a->state;
    struct session *session = NULL;
    struct tidings_error err;
    struct buf by;
    *ret = session_state_read(s, buf_str(&job->state), &err);
    if (*ret < 0) {
        log_warn(LOG_NODES, "cannot import the session of another node", KV("reason", err.text));
        return NULL;
    }
    struct jw w;
    buf_init(&by, 4096);
    jw_init(&w, &by);
    principal_write(&w, a->principal);
    bool is_theirs = str_eq(buf_str(&by), s->by); /* the key contains it */
    buf_deinit(&by);
    const struct revision *revision = dialect_assume(s->revision); /* another, if it is not known */
    if (!is_theirs || !str_eq(revision->name, s->revision)) {
        log_warn(LOG_NODES, "cannot import the session of another node",
                 KV("reason", is_theirs ? "this node does not support its protocol revision"
                                        : "it belongs to another principal"));
        *ret = TIDINGS_E_INVALID;
        return NULL;
    }
    *ret = session_create(worker, revision, a->principal, tidings_strn(a->key, SESSION_ID_LEN),
                          &session, &err);
    if (*ret < 0) {
        return NULL;
    }
    a->is_made = true;
    session->place = a->place;
    uint64_t takeovers = job->generation > s->generation ? job->generation - s->generation : 1;
    takeovers = takeovers < TAKEOVERS_UNWRITTEN ? takeovers : TAKEOVERS_UNWRITTEN;
    session->next_stream = s->stream + (unsigned)takeovers * STREAMS_UNWRITTEN;
    session->next_event = s->event + takeovers * EVENTS_UNWRITTEN;
    session->subscriber->log_level = (int8_t)s->level;
    subscriber_set_client(session->subscriber, s->client);
    session_declare(session, s->asks & ASK_EVERYTHING);
    session->migration->generation = job->generation;
    session->migration->is_imported = session->migration->is_arriving = true;
    session->migration->taken_stream = s->stream;
    restore_lists(session, s);
    return session;
}

/* Everything up to here was sent to subscriptions without their own position. The client's position
 * may be newer than the stored state. (For subscriptions that were rewound since,
 * session_replay_later knows it.) */
static const struct log_cursor *session_import_cursor(const struct session_import *a)
{
    const struct session_state *s = &a->state;
    return a->has_last && a->last.at.position > s->cursor.position ? &a->last.at : &s->cursor;
}

/* ---- its subscriptions ----------------------------------------------------------------------- */

static bool session_import_fill(const struct session_import *a, struct subscribe_batch *s, size_t i)
{
    struct subscribe_item *w = &s->items[i];
    struct session_migration *m =
        ((struct session *)s->pending.group->subscriber->owner)->migration;
    struct session_sub sub;
    struct tidings_error err;
    session_state_at(&a->state, i, &sub);
    w->as_requested = arena_dup(&s->arena, sub.uri);
    w->kept = jv_ref(a->state.root);
    options_init(&w->options);
    w->options.initial = sub.is_initial;
    w->options.given = OPTION_INITIAL;
    w->options.since = sub.has_since ? sub.since : *session_import_cursor(a);
    if (sub.is_gap) {
        w->options.since = (struct log_cursor){.seq = UINT64_MAX};
    }
    if (options_read(&w->options, sub.options, false, &err) < 0) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
    }
    struct buf text;
    struct jw jw;
    buf_init(&text, m->movers->store->max_bytes);
    if (sub.options) {
        jw_init(&jw, &text);
        jw_value(&jw, sub.options);
    }
    bool is_kept = !text.failed && session_keep_options(m, sub.uri, buf_str(&text));
    buf_deinit(&text);
    return is_kept && w->as_requested.ptr;
}

/* Returns true if it was not refused, but could not be requested because the store cannot be
 * reached. */
static bool is_unanswered(const struct subscribe_item *w)
{
    int code = w->sub ? 0 : w->stat.base.err.code;
    return code == TIDINGS_E_BUSY || code == TIDINGS_E_NOMEM || code == TIDINGS_E_UNKNOWN ||
           code == TIDINGS_E_CLOSED;
}

/* The session is complete, and this node has caught up with its previous owner. */
static void session_import_made(struct session_import *a, struct session *session)
{
    restore_rewinds(session, &a->state);
    session->migration->is_arriving = false;
    session_changed(session, NULL);
    session_import_end(a, 0);
}

/* The next stream starts where the first of them must. */
static void subscriptions_made(struct subscribe_batch *s, const struct log_cursor *at)
{
    (void)at;
    struct session_import *a = s->user;
    struct subscription_group *group = s->pending.group;
    a->batch = NULL;
    if (!group) { /* the session has gone */
        session_import_end(a, TIDINGS_E_BUSY);
        return;
    }
    struct session *session = group->subscriber->owner;
    for (size_t i = 0; i < s->count; i++) {
        if (is_unanswered(&s->items[i])) { /* the stored state stays: the next request takes it */
            session_let_go(session->migration);
            session_import_end(a, TIDINGS_E_BUSY);
            return;
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct subscribe_item *w = &s->items[i];
        if (!w->sub) {
            jw_quote(&session->migration->refused, w->as_requested);
            buf_putc(&session->migration->refused, '\n');
            continue;
        }
        struct session_sub was;
        session_state_at(&a->state, i, &was);
        if (was.must_replay) {
            w->sub->since_pending = true;
        } else if (w->sub->since < session->delivered_upto) {
            session->delivered_upto = w->sub->since;
        }
    }
    session_import_made(a, session);
}

static void subscriptions_dropped(struct subscribe_batch *s)
{
    struct session_import *a = s->user;
    a->batch = NULL;
    session_import_end(a, TIDINGS_E_CLOSED);
}

/* The positions of its client and of its subscriptions may be from nodes that this one has yet to
 * catch up with. */
static void session_import_await(struct session_import *a, struct subscribe_batch *s)
{
    if (a->has_last) {
        a->awaits[s->await_count++] = a->last.at;
    }
    for (unsigned i = 0; i < a->state.rewind_count; i++) {
        if (!a->state.rewinds[i].is_gap) {
            a->awaits[s->await_count++] = a->state.rewinds[i].to;
        }
    }
    s->await = a->awaits;
}

static void session_import_subscribe(struct session_import *a, struct session *session)
{
    size_t count = session_state_count(&a->state);
    if (count == 0) {
        session_import_made(a, session);
        return;
    }
    struct subscribe_batch *s = subscribe_batch_create(session->group, count);
    bool is_filled = s != NULL;
    for (size_t i = 0; is_filled && i < count; i++) {
        is_filled = session_import_fill(a, s, i);
    }
    if (!is_filled) {
        if (s) {
            subscribe_batch_free(s);
        }
        session_let_go(session->migration); /* the next request takes it */
        session_import_end(a, TIDINGS_E_NOMEM);
        return;
    }
    subscribe_batch_set_client(s, a->account);
    s->is_legacy = s->is_resumed = true;
    s->done = subscriptions_made;
    s->dropped = subscriptions_dropped;
    s->user = a;
    session_import_await(a, s);
    a->batch = s;
    subscribe_batch_resolve(s);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void session_import_taken(struct session_job *job, struct worker *worker)
{
    struct session_import *a = job->user;
    if (!a) {
        return; /* the worker has ended */
    }
    a->job = NULL;
    int code = job->code;
    struct session *session = NULL;
    if (code > 0 && worker->stopping) {
        code = TIDINGS_E_BUSY;
    } else if (code > 0) {
        session = session_import_make(a, job, &code);
        code = code == TIDINGS_E_NOMEM ? code : 0; /* counts as missing */
    }
    if (session) {
        session_import_subscribe(a, session);
    } else {
        session_import_end(a, code);
    }
}

/* Returns false when out of memory. */
static bool session_import_ask(struct session_import *a)
{
    struct session_store *store = a->movers->store;
    a->job = session_job_create(a->movers->worker, SESSION_TAKE, tidings_str(a->key));
    if (!a->job) {
        return false;
    }
    buf_init(&a->job->state, store->max_bytes);
    a->job->done = session_import_taken;
    a->job->user = a;
    store->submit(store, a->job);
    return true;
}

static void on_delay_over(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct session_import *a = user;
    if (!session_import_ask(a)) {
        session_import_end(a, TIDINGS_E_NOMEM);
    }
}

/* A session that went a moment ago is not taken at once: otherwise two nodes with alternating
 * requests would only take it from each other. */
static bool session_import_begin(struct session_import *a)
{
    uint64_t delay = session_hold_ms(a->movers, tidings_str(a->key));
    if (delay == 0) {
        return session_import_ask(a);
    }
    a->delay = loop_timer_open(a->movers->worker->loop, on_delay_over, a);
    if (a->delay) {
        loop_timer_start(a->delay, delay, 0);
    }
    return a->delay != NULL;
}

/* ---- coming as far --------------------------------------------------------------------------- */

static void session_import_applied(struct hub_watch_request *arm, struct worker *worker)
{
    (void)worker;
    struct session_import *a = arm->user;
    hub_watch_request_free(arm);
    if (a) {
        a->arm = NULL;
        session_import_end(a, 0);
    }
}

static void session_import_never_applied(struct hub_watch_request *arm)
{
    if (arm->user) {
        ((struct session_import *)arm->user)->arm = NULL; /* it ends with the worker */
    }
}

static bool session_has_come_to(const struct worker *worker, const struct log_cursor *at)
{
    return at->epoch == worker->epoch ||
           (hub_knows_epoch(worker->hub, at->epoch, at->position) &&
            at->position <= position_map_find(&worker->delivery->positions, worker->last_seq));
}

bool session_is_behind_client(struct channel *channel, const struct session_lookup *asked)
{
    struct session_event last;
    return session_read_event(channel->worker, channel->principal, asked->last_event_id, &last) &&
           !session_has_come_to(channel->worker, &last.at);
}

/* The session is here and belongs to this node. Its client may have received later events from
 * another node than this one knows. */
static void session_import_apply(struct session_import *a)
{
    const struct worker *worker = a->movers->worker;
    const struct log_cursor *at = &a->last.at;
    bool is_there = !a->has_last || session_has_come_to(worker, at);
    a->arm = is_there ? NULL : hub_watch_request_create(a->movers->worker, NULL, 0);
    if (!a->arm) {
        session_import_end(a, 0);
        return;
    }
    hub_watch_request_await(a->arm, at);
    a->arm->user = a;
    a->arm->done = session_import_applied;
    a->arm->dropped = session_import_never_applied;
    hub_watch_request_send(a->arm);
}

void session_confirm(struct session_import *a, int code)
{
    a->asks->confirming = NULL;
    a->asks = NULL;
    if (code == 0 || (code == TIDINGS_E_BUSY && !a->was_elsewhere)) {
        session_import_apply(a); /* if the store cannot be reached, the copy here counts as valid */
    } else {
        session_import_end(a, code);
    }
}

/* Before a stream of an existing session opens: another node may have taken the session, and sent
 * its client later events than this node has. Returns false if there is no wait. */
static bool session_import_confirm(struct session_import *a, struct session *session)
{
    struct session_migration *m = session->migration;
    session_changed(session, NULL);
    if (!m->job) {
        return false;
    }
    a->asks = m;
    m->confirming = a;
    m->confirmed = m->changes;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

bool session_may_be_elsewhere(const struct worker *worker, const struct session_lookup *asked)
{
    const struct session_migrations *movers = worker->sessions->movers;
    if (!movers || session_worker(asked->id, worker->count) < 0) {
        return false;
    }
    const struct session *here = map_find(&worker->sessions->by_id, asked->id);
    return movers->imports.count > 0 || !here || asked->is_stream;
}

/* Each node that takes a session numbers its events far above those before. */
bool session_was_elsewhere(struct channel *channel, const struct session_lookup *asked)
{
    struct worker *worker = channel->worker;
    const struct session *here = map_find(&worker->sessions->by_id, asked->id);
    struct session_event last;
    return here && principal_is_same(here->principal, channel->principal) &&
           session_read_event(worker, channel->principal, asked->last_event_id, &last) &&
           last.number > here->next_event;
}

static struct session_import *session_import_create(struct channel *channel, const char *key)
{
    struct session_import *a = mem_zalloc(sizeof(*a));
    if (!a) {
        return NULL;
    }
    a->movers = channel->worker->sessions->movers;
    a->is_made = true; /* nothing is counted yet */
    a->principal = principal_ref(channel->principal);
    a->account = channel_account(channel);
    memcpy(a->key, key, sizeof(a->key));
    list_init(&a->waits);
    if (!a->account || map_put(&a->movers->imports, tidings_str(a->key), a, NULL) < 0) {
        session_import_free(a);
        return NULL;
    }
    return a;
}

enum session_await_result session_await(struct session_wait *wait, struct channel *channel,
                                        const struct session_lookup *asked, struct refusal *why)
{
    struct worker *worker = channel->worker;
    struct session_migrations *movers = worker->sessions->movers;
    char key[SESSION_KEY_LEN + 1];
    if (!session_may_be_elsewhere(worker, asked)) {
        return SESSION_READY;
    }
    if (principal_renew(worker->principals, &channel->principal) < 0) {
        return SESSION_BUSY;
    }
    session_make_key(asked->id, channel->principal, key);
    struct session_import *a = map_find(&movers->imports, tidings_str(key));
    if (a) {
        list_append(&a->waits, &wait->link);
        return SESSION_AWAITED;
    }
    struct session *here = map_find(&worker->sessions->by_id, asked->id);
    if (here && (!asked->is_stream || !here->migration ||
                 !str_eq(tidings_str(key), tidings_str(here->migration->key)))) {
        return SESSION_READY;
    }
    if (worker->stopping || movers->imports.count >= SESSION_IMPORTS) {
        return SESSION_BUSY;
    }
    struct session_place place = {0};
    if (!here && !session_enter(channel, &place, why)) {
        return SESSION_REFUSED;
    }
    a = session_import_create(channel, key);
    if (!a) {
        if (!here) {
            session_left(worker, &place);
        }
        return SESSION_BUSY;
    }
    a->has_last = session_read_event(worker, channel->principal, asked->last_event_id, &a->last);
    a->was_elsewhere = session_was_elsewhere(channel, asked);
    a->is_made = here != NULL;
    a->place = place;
    if (here ? !session_import_confirm(a, here) : !session_import_begin(a)) {
        session_import_end(a, TIDINGS_E_NOMEM);
        return here ? SESSION_READY : SESSION_BUSY;
    }
    list_append(&a->waits, &wait->link);
    return SESSION_AWAITED;
}

void session_await_cancel(struct session_wait *wait)
{
    list_remove(&wait->link);
}

void session_imports_end(struct session_migrations *movers)
{
    size_t at = 0;
    struct session_import *a;
    while ((a = map_next(&movers->imports, &at)) != NULL) {
        session_import_free(a);
    }
}
