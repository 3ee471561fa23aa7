/* SPDX-License-Identifier: MIT
 *
 * Writing sessions to the shared store, and releasing them when another node has taken them.
 */
#include "engine/protocol/session_migration.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/delivery/content.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/options.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/method.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration_import.h"
#include "engine/worker.h"

/* -------------------------------------------------------------------------------------------------
 * Deferred answers wait until a change of their session is written. If another node has taken the
 * session in that time, this node takes it again and repeats the request.
 */

#define ASKED_AGAIN 3u /* times that a request is repeated when its session has moved */

/* An answer that waits until a change of its session is written. */
struct deferred_answer {
    struct list link; /* in migration->deferred */
    struct session_wait wait;
    struct request *request;
    uint64_t change;
    int status;
    char id[SESSION_ID_LEN]; /* of its session, once that has gone */
};

/* Moves the answers to changes up to that one into a list. Then they are sent; or, if their session
 * has gone, their requests are repeated wherever it is. Either may end any session. */
static void session_take_deferred(struct session_migration *m, uint64_t upto, struct list *ret)
{
    list_init(ret);
    list_each (it, next, &m->deferred) {
        if (list_entry(it, struct deferred_answer, link)->change <= upto) {
            list_remove(it);
            list_append(ret, it);
        }
    }
}

static void session_release(struct list *deferred)
{
    while (!list_empty(deferred)) {
        struct deferred_answer *h = list_entry(deferred->next, struct deferred_answer, link);
        list_remove(&h->link);
        request_release(h->request, h->status);
        mem_free(h);
    }
}

/* As `hold` of struct requests. */
static bool session_hold(struct request *request, int status)
{
    struct session_migration *m = request->cancelled || !request->channel || !request->session
                                      ? NULL
                                      : request->session->migration;
    if (!m || m->is_gone || request->session_change <= m->written || !m->job) {
        return false;
    }
    struct deferred_answer *h = mem_zalloc(sizeof(*h));
    if (!h) {
        return false;
    }
    h->request = request;
    h->change = request->session_change;
    h->status = status;
    list_append(&m->deferred, &h->link);
    return true;
}

/* The session has returned, or has not: repeats the request, which went to the copy that another
 * node has taken. */
static void ask_again(struct session_wait *wait, int code)
{
    struct deferred_answer *h = list_entry(wait, struct deferred_answer, wait);
    struct request *request = h->request;
    if (request->cancelled || !request->channel) {
        request_drop(request);
        mem_free(h);
        return;
    }
    struct session *session =
        code < 0
            ? NULL
            : session_find(request->worker, tidings_strn(h->id, sizeof(h->id)), request->principal);
    mem_free(h);
    if (!session) {
        request_fail(request, TIDINGS_E_BUSY, STR_EMPTY,
                     "the session has moved to another node; send this again");
        return;
    }
    request->session = session;
    list_append(&session->requests, &request->session_link);
    method_run(request);
}

static void take_back_for(struct deferred_answer *h)
{
    struct request *request = h->request;
    struct refusal why;
    bool is_awaited = false;
    request_unanswer(request);
    request->session = NULL;
    h->wait.done = ask_again;
    if (!request->cancelled && request->channel && request->moves++ < ASKED_AGAIN) {
        const struct session_lookup asked = {.id = tidings_strn(h->id, sizeof(h->id))};
        is_awaited = session_await(&h->wait, request->channel, &asked, &why) == SESSION_AWAITED;
    }
    if (!is_awaited) {
        ask_again(&h->wait, TIDINGS_E_BUSY);
    }
}

static void session_ask_again(struct list *deferred, struct tidings_str id)
{
    while (!list_empty(deferred)) {
        struct deferred_answer *h = list_entry(deferred->next, struct deferred_answer, link);
        list_remove(&h->link);
        memcpy(h->id, id.ptr, sizeof(h->id));
        take_back_for(h);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Imported sessions: whether a session was imported, the local values of other nodes' cursors, and
 * the notices for subscriptions that could not be imported.
 */

bool session_is_imported(const struct session *session)
{
    return session->migration && session->migration->is_imported;
}

bool session_was_written(const struct session *session, unsigned stream)
{
    return session->migration && stream <= session->migration->taken_stream;
}

bool session_migration_resume(const struct session *session, struct log_cursor *cursor)
{
    uint64_t seq = 0;
    if (!session->migration || !cursor->has_position ||
        !hub_resume(session->worker->hub, cursor, true, &seq)) {
        return false;
    }
    cursor->epoch = session->worker->epoch;
    cursor->seq = seq;
    return true;
}

/* A subscription that could not be imported is reported as no longer evaluated. */
static bool send_refused(struct subscriber *subscriber, struct tidings_str uri_json)
{
    struct log_cursor at = subscriber_cursor(subscriber);
    const struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = uri_json,
        .subscribed_json = uri_json,
        .cursor = at,
        .sealed = cursor_seal_make(subscriber->worker, subscriber->principal, &at),
        .suspended = true,
        .profile = subscriber->worker->self->profile,
    };
    return subscriber_write_update(subscriber, &u, NULL, 0);
}

void session_migration_streams(struct session *session)
{
    struct buf *refused = session->migration ? &session->migration->refused : NULL;
    size_t notified = 0;
    struct tidings_str rest = refused ? buf_str(refused) : STR_EMPTY;
    while (rest.len > 0) {
        struct tidings_str uri_json = str_cut(rest, '\n', &rest, NULL);
        if (!session->subscriber->sink || !send_refused(session->subscriber, uri_json)) {
            break;
        }
        notified += uri_json.len + 1;
    }
    if (notified > 0) {
        buf_consume(refused, notified);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Makes the requests to a store of sessions: on a worker, answered from any thread.
 */

static void session_job_free(struct session_job *job)
{
    mailbox_unref(job->reply_to);
    buf_deinit(&job->state);
    mem_free(job);
}

static void session_job_deliver(struct thread_message *message, void *owner)
{
    struct session_job *job = list_entry(message, struct session_job, message);
    if (job->done) {
        job->done(job, owner);
    }
    session_job_free(job);
}

static void session_job_drop(struct thread_message *message)
{
    session_job_free(list_entry(message, struct session_job, message));
}

struct session_job *session_job_create(struct worker *worker, enum session_op op,
                                       struct tidings_str key)
{
    struct session_job *job = mem_zalloc(sizeof(*job));
    if (job) {
        job->op = op;
        memcpy(job->key, key.ptr, key.len < SESSION_KEY_LEN ? key.len : SESSION_KEY_LEN);
        job->reply_to = mailbox_ref(worker->mailbox);
    }
    return job;
}

void session_job_answer(struct session_job *job)
{
    struct mailbox *reply_to =
        mailbox_ref(job->reply_to); /* the job may be gone before this returns */
    job->message.deliver = session_job_deliver;
    job->message.drop = session_job_drop;
    mailbox_send(reply_to, &job->message);
    mailbox_unref(reply_to);
}

void session_make_key(struct tidings_str id, const struct principal *principal,
                      char ret[SESSION_KEY_LEN + 1])
{
    /* The program itself has no HTTP sessions; it gets a distinct kind anyway. */
    unsigned char kind = principal ? (unsigned char)principal->kind : UINT8_MAX;
    unsigned char hash[SHA256_BYTES];
    struct sha256 h;
    sha256_init(&h);
    sha256_put(&h, &kind, 1);
    if (principal) {
        sha256_put(&h, principal->name.ptr, principal->name.len);
    }
    sha256_end(&h, hash);
    int n = snprintf(ret, SESSION_KEY_LEN + 1, "%.*s.", (int)SESSION_ID_LEN, id.ptr);
    for (size_t i = 0; n > 0 && i < SHA256_BYTES; i++) {
        n += snprintf(ret + n, SESSION_KEY_LEN + 1 - (size_t)n, "%02x", hash[i]);
    }
}

/* ---------------------------------------------------------------------------------------------- */

_Static_assert(SESSION_STATE_REWINDS == SESSION_REWINDS, "each is written");

/* The options of a subscription. */
struct stored_options {
    struct tidings_str text;
    struct tidings_str as_requested;
    char memory[];
};

/* ---- as text --------------------------------------------------------------------------------- */

/* Everything up to here was written to a stream, except changes that subscriptions record
 * themselves. */
static uint64_t session_written(const struct session *session)
{
    return session->subscriber->sink ? subscriber_written(session->subscriber)
                                     : session->delivered_upto;
}

static void put_sub(struct jw *w, const struct session_migration *m, struct subscription *sub,
                    uint64_t notified)
{
    const struct worker *worker = m->session->worker;
    struct tidings_str as_requested = subscription_as_requested(sub);
    const struct stored_options *stored = map_find(&m->options, as_requested);
    struct session_sub s = {
        .uri = as_requested,
        .raw = stored ? stored->text : STR_EMPTY,
        .is_gap = sub->truncated || (sub->since_pending && sub->since == SINCE_UNKNOWN),
        .has_since = sub->since_pending || sub->since > notified,
        .must_replay = sub->since_pending,
        .is_initial = sub->initial_pending,
    };
    if (s.has_since && !s.is_gap) {
        s.since = delivery_cursor(worker, sub->since);
    }
    struct patch_base *patch_base =
        sub->extra && sub->kind == PATTERN_LITERAL ? sub->extra->patch_base : NULL;
    const struct baseline *last =
        patch_base ? patch_base_at(patch_base, subscription_uri(sub)) : NULL;
    if (last) {
        s.baseline = baseline_etag(last);
    }
    session_state_put(w, &s);
}

static void session_put_state(const struct session_migration *m, struct buf *out)
{
    const struct session *session = m->session;
    uint64_t notified = session_written(session);
    struct jw w;
    struct buf by;
    buf_init(&by, 4096);
    jw_init(&w, &by);
    principal_write(&w, session->principal);
    const struct client_info *client =
        client_info_get(&session->worker->requests->clients, session->subscriber->client);
    struct session_state s = {
        .by = buf_str(&by),
        .client_name = client ? client->name : STR_EMPTY,
        .client_version = client ? client->version : STR_EMPTY,
        .revision = session->revision->name,
        .initialized = session->initialized,
        .has_listed = session->group->has_listed,
        .level = session->subscriber->log_level,
        .generation = m->generation,
        .asks = session->client_requests ? session->client_requests->can : 0,
        .stream = session->next_stream + 1, /* it is written before one is opened */
        .event = session->next_event,
        .cursor = delivery_cursor(session->worker, notified),
        .rewind_count = session->rewind_count,
    };
    for (unsigned i = 0; i < session->rewind_count; i++) {
        s.rewinds[i] = (struct session_rewind){
            .event = session->rewinds[i].event,
            .to = delivery_cursor(session->worker, session->rewinds[i].to),
            .is_gap = session->rewinds[i].is_gap,
        };
    }
    jw_init(&w, out);
    session_state_begin(&w, &s);
    list_each (it, next, &session->group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (!sub->suspended) {
            put_sub(&w, m, sub, notified);
        }
    }
    session_state_end(&w);
    out->failed = out->failed ? out->failed : by.failed;
    buf_deinit(&by);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void session_write(struct session_migration *m);

static void note_outcome(struct session_migrations *movers, const struct session_job *job)
{
    bool fails = job->code < 0 && job->code != TIDINGS_E_CONFLICT;
    if (fails && !movers->is_failing) {
        log_warn(LOG_NODES, "sessions cannot be kept for other nodes", KV("reason", job->err.text));
    } else if (!fails && movers->is_failing) {
        log_info(LOG_NODES, "sessions are kept for other nodes again", NO_FIELDS);
    }
    movers->is_failing = fails;
}

static void session_is_written(struct session_job *job, struct worker *worker)
{
    struct session_migration *m = job->user;
    if (job->op == SESSION_PUT && worker->sessions->movers) {
        note_outcome(worker->sessions->movers, job);
    }
    if (!m) {
        return;
    }
    m->job = NULL;
    if (job->op == SESSION_PUT &&
        (job->code == TIDINGS_E_CONFLICT || job->code == TIDINGS_E_NOTFOUND)) {
        session_let_go(m);
        return;
    }
    if (job->code >= 0) {
        m->written = m->under_way;
        m->is_unwritten = job->op == SESSION_DROP;
    }
    /* On failure, too: the session is valid here. */
    struct list due;
    session_take_deferred(m, m->under_way, &due);
    struct session_import *confirmed =
        m->confirming && (job->code < 0 || m->confirmed <= m->under_way) ? m->confirming : NULL;
    if (job->code >= 0 && m->changes > m->written) {
        session_write(m);
    }
    int code = job->code < 0 ? TIDINGS_E_BUSY : 0;
    /* Requests continue from here on, and the session may end. */
    if (confirmed) {
        session_confirm(confirmed, code);
    }
    session_release(&due);
}

static struct session_job *session_job_of(struct session_migration *m, enum session_op op,
                                          struct buf *state)
{
    struct session_job *job = session_job_create(m->session->worker, op, tidings_str(m->key));
    if (job) {
        job->done = session_is_written;
        job->generation = m->generation;
        job->state = *state;
        buf_init(state, 0);
    }
    return job;
}

/* A session that is too large, or whose options are not all known, does not move; its stored state
 * is too old to continue from, and is deleted. */
static bool session_is_unfit(struct session_migration *m, const struct buf *state)
{
    bool is_unfit = m->is_incomplete || state->failed == TIDINGS_E_LIMIT;
    if (is_unfit && !m->is_unfit) {
        log_warn(LOG_NODES, "session does not move to other nodes",
                 KV("reason", m->is_incomplete ? "out of memory" : "it is too large"),
                 KV("subscriptions", m->session->subscriber->subscription_count),
                 KV("most_bytes", m->movers->store->max_bytes));
        subscriber_warn(m->session->subscriber,
                        "this session has too many subscriptions to move to another node");
        m->generation = 0; /* of a new row, when it fits again */
    }
    m->is_unfit = is_unfit;
    return is_unfit;
}

static void session_write(struct session_migration *m)
{
    struct buf state;
    if (m->job || m->is_gone || m->is_arriving) {
        return; /* then, with everything there is then */
    }
    buf_init(&state, m->movers->store->max_bytes);
    session_put_state(m, &state);
    bool is_unfit = session_is_unfit(m, &state);
    if (is_unfit && m->is_unwritten) {
        m->written = m->changes;
    } else if (is_unfit || !state.failed) { /* else, with the next tick */
        m->job = session_job_of(m, is_unfit ? SESSION_DROP : SESSION_PUT, &state);
    }
    buf_deinit(&state);
    if (m->job) {
        m->job->user = m;
        m->under_way = m->changes;
        m->written_ms = loop_now_ms(m->session->worker->loop);
        m->cursor = session_written(m->session);
        m->stream_no = m->session->next_stream;
        m->movers->store->submit(m->movers->store, m->job);
    }
}

void session_changed(struct session *session, struct request *request)
{
    struct session_migration *m = session ? session->migration : NULL;
    if (!m) {
        return;
    }
    m->changes++;
    session_write(m);
    if (request) {
        request->session_change = m->changes;
    }
}

/* ---- how far it was told --------------------------------------------------------------------- */

static bool session_is_due(const struct session_migration *m, uint64_t now)
{
    const struct session *session = m->session;
    uint64_t rest = session->worker->limits->session_timeout_ms / 4;
    bool is_notified =
        session->subscriber->subscription_count > 0 && m->cursor != session_written(session);
    return !m->job && (m->changes > m->written || is_notified ||
                       m->stream_no != session->next_stream || m->written_ms + rest <= now);
}

static void session_on_tick(struct loop_timer *timer, void *user)
{
    struct session_migrations *movers = user;
    uint64_t now = loop_now_ms(movers->worker->loop);
    size_t left = movers->count;
    for (unsigned writes = 0; left > 0 && writes < SESSION_WRITES; left--) {
        struct session_migration *m = list_entry(movers->all.next, struct session_migration, link);
        list_remove(&m->link);
        list_append(&movers->all, &m->link);
        if (session_is_due(m, now)) {
            session_write(m);
            writes++;
        }
    }
    if (movers->count == 0) {
        loop_timer_stop(timer);
    }
}

/* ---- options of subscriptions ---------------------------------------------------------------- */

bool session_keep_options(struct session_migration *m, struct tidings_str as_requested,
                          struct tidings_str options)
{
    mem_free(map_remove(&m->options, as_requested));
    if (options.len == 0) {
        return true;
    }
    struct stored_options *stored = mem_zalloc(sizeof(*stored) + as_requested.len + options.len);
    if (!stored) {
        return false;
    }
    char *at = stored->memory;
    stored->as_requested = str_pack(&at, as_requested);
    stored->text = str_pack(&at, options);
    if (map_put(&m->options, stored->as_requested, stored, NULL) < 0) {
        mem_free(stored);
        return false;
    }
    return true;
}

/* Occasionally drops the options of ended subscriptions. */
static bool prune_options(struct session_migration *m)
{
    const struct session *session = m->session;
    if (m->options.count <= 2 * (size_t)session->subscriber->subscription_count + 16) {
        return true;
    }
    struct map left;
    size_t at = 0;
    bool is_whole = true;
    struct stored_options *stored;
    map_init(&left);
    while ((stored = map_next(&m->options, &at)) != NULL) {
        bool is_needed = subscription_group_find_sub(session->group, stored->as_requested) != NULL;
        if (!is_needed || map_put(&left, stored->as_requested, stored, NULL) < 0) {
            mem_free(stored);
            is_whole = is_whole && !is_needed;
        }
    }
    map_deinit(&m->options);
    m->options = left;
    return is_whole;
}

/* Writes all of them, and the baseline, which may be outside of them. */
static void put_asked_options(struct buf *text, const struct request *request)
{
    struct json *given = options_find(request->msg.params), *member = NULL;
    struct json *baseline = jv_get(request->msg.params, "baseline");
    struct tidings_str key;
    struct jw w;
    baseline = baseline ? baseline : jv_get(request->msg.params, "initialBaseline");
    if (!given && !baseline) {
        return;
    }
    jw_init(&w, text);
    jw_begin_object(&w);
    for (void *at = jv_next(given, NULL, &key, &member); at;
         at = jv_next(given, at, &key, &member)) {
        jw_key(&w, key);
        jw_value(&w, member);
    }
    if (baseline && !jv_get(given, "baseline")) {
        jw_put_string(&w, STR("baseline"), jv_str(baseline));
    }
    jw_end_object(&w);
}

void session_subscribed(struct session *session, struct request *request,
                        struct tidings_str as_requested)
{
    struct session_migration *m = session ? session->migration : NULL;
    if (!m) {
        return;
    }
    struct buf text;
    buf_init(&text, m->movers->store->max_bytes);
    put_asked_options(&text, request);
    if (!prune_options(m) || text.failed ||
        !session_keep_options(m, as_requested, buf_str(&text))) {
        m->is_incomplete = true;
    }
    buf_deinit(&text);
    session_changed(session, request);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool session_migration_begin(struct session *session)
{
    struct session_migrations *movers = session->worker->sessions->movers;
    if (!movers) {
        return true;
    }
    struct session_migration *m = mem_zalloc(sizeof(*m));
    if (!m) {
        return false;
    }
    m->session = session;
    m->movers = movers;
    session_make_key(tidings_strn(session->id, SESSION_ID_LEN), session->principal, m->key);
    list_init(&m->deferred);
    map_init(&m->options);
    buf_init(&m->refused, 1u << 20);
    list_append(&movers->all, &m->link);
    m->written_ms = loop_now_ms(session->worker->loop);
    session->migration = m;
    if (movers->count++ == 0) {
        loop_timer_start(movers->tick, SESSION_WRITE_MS, SESSION_WRITE_MS);
    }
    return true;
}

/* Writes the session's last state, or its end, without waiting. */
void session_migration_last(struct session *session)
{
    struct session_migration *m = session->migration;
    bool is_kept = session->worker->stopping;
    struct buf state;
    if (!m || m->changes == 0) {
        return; /* nothing was ever written */
    }
    buf_init(&state, m->movers->store->max_bytes);
    if (is_kept) {
        session_put_state(m, &state);
    }
    bool is_said = !m->is_gone && !(is_kept && (m->is_incomplete || state.failed));
    struct session_job *job = is_said ? session_job_of(m,
                                                       is_kept       ? SESSION_PUT
                                                       : m->is_ended ? SESSION_END
                                                                     : SESSION_DROP,
                                                       &state)
                                      : NULL;
    buf_deinit(&state);
    if (job) {
        m->movers->store->submit(m->movers->store, job);
    }
}

void session_migration_end_everywhere(struct session *session)
{
    if (session->migration) {
        session->migration->is_ended = true;
    }
}

void session_migration_end(struct session *session)
{
    struct session_migration *m = session->migration;
    if (!m) {
        return;
    }
    session->migration = NULL;
    if (m->job) {
        m->job->user = NULL;
    }
    struct session_import *confirming = m->confirming;
    bool is_gone = m->is_gone;
    struct list due;
    session_take_deferred(m, UINT64_MAX, &due);
    size_t at = 0;
    struct stored_options *stored;
    while ((stored = map_next(&m->options, &at)) != NULL) {
        mem_free(stored);
    }
    map_deinit(&m->options);
    buf_deinit(&m->refused);
    list_remove(&m->link);
    m->movers->count--;
    if (confirming) {
        session_confirm(confirming, is_gone ? TIDINGS_E_CONFLICT : 0);
    }
    mem_free(m);
    session_release(&due);
}

/* ---- at another node ------------------------------------------------------------------------- */

uint64_t session_hold_ms(const struct session_migrations *movers, struct tidings_str key)
{
    uint64_t hash = str_hash(key, 0), now = loop_now_ms(movers->worker->loop), left = 0;
    for (size_t i = 0; i < SESSION_LOST; i++) {
        uint64_t until = movers->lost[i].ms + SESSION_HOLD_MS;
        if (movers->lost[i].hash == hash && until > now && until - now > left) {
            left = until - now;
        }
    }
    return left;
}

void session_let_go(struct session_migration *m)
{
    struct session_migrations *movers = m->movers;
    struct list deferred;
    m->is_gone = true;
    unsigned at = movers->lost_next++ % SESSION_LOST;
    movers->lost[at].hash = str_hash(tidings_str(m->key), 0);
    movers->lost[at].ms = loop_now_ms(movers->worker->loop);
    list_init(&deferred);
    list_splice(&deferred, &m->deferred);
    char id[SESSION_ID_LEN];
    memcpy(id, m->session->id, sizeof(id));
    session_destroy(m->session);
    session_ask_again(&deferred, tidings_strn(id, sizeof(id)));
}

void sessions_write_again(struct worker *worker)
{
    struct session_migrations *movers = worker->sessions->movers;
    for (struct list *it = movers ? movers->all.next : NULL; movers && it != &movers->all;
         it = it->next) {
        list_entry(it, struct session_migration, link)->changes++; /* with the next ticks */
    }
}

void session_migrated(struct worker *worker, struct tidings_str key)
{
    struct session *session =
        worker->sessions->movers && key.len == SESSION_KEY_LEN
            ? map_find(&worker->sessions->by_id, tidings_strn(key.ptr, SESSION_ID_LEN))
            : NULL;
    struct session_migration *m = session ? session->migration : NULL;
    if (!m || !str_eq(key, tidings_str(m->key))) {
        return;
    }
    if (m->generation == 0) {
        session_let_go(m);
    } else {
        session_changed(session, NULL); /* this node may have taken it again: the store knows */
    }
}

bool session_has_migrated(const struct session *session)
{
    return session->migration && session->migration->is_gone;
}

bool session_has_arrived(const struct worker *worker, struct tidings_str id)
{
    const struct session *here = map_find(&worker->sessions->by_id, id);
    return here && !(here->migration && here->migration->is_arriving);
}

/* ---- of a worker ----------------------------------------------------------------------------- */

int sessions_share(struct worker *worker, struct session_store *store, struct tidings_error *err)
{
    struct session_migrations *movers = mem_zalloc(sizeof(*movers));
    struct loop_timer *tick =
        movers ? loop_timer_open(worker->loop, session_on_tick, movers) : NULL;
    if (!tick) {
        mem_free(movers);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    movers->worker = worker;
    movers->store = store;
    movers->tick = tick;
    list_init(&movers->all);
    map_init(&movers->imports);
    worker->sessions->movers = movers;
    worker->requests->hold = session_hold;
    return 0;
}

void sessions_unshare(struct worker *worker)
{
    struct session_migrations *movers = worker->sessions->movers;
    if (!movers) {
        return;
    }
    session_imports_end(movers);
    map_deinit(&movers->imports);
    loop_timer_close(movers->tick);
    mem_free(movers);
    worker->sessions->movers = NULL;
}
