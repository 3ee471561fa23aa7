/* SPDX-License-Identifier: MIT
 *
 * Legacy HTTP sessions and their open GET streams.
 */
#include "engine/protocol/session.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/call.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * The ids of events on the streams of a session, `stream.n.cursor`: writes them, and finds the
 * position of a client that resumes with one.
 */

static int session_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A short hash of the principal's kind and name; not secret, and the same after a restart. */
static void session_make_tag(struct session *session)
{
    const struct principal *principal = session->principal;
    if (!principal || principal->kind == PRINCIPAL_ANONYMOUS) {
        return;
    }
    unsigned char kind = (unsigned char)principal->kind, hash[SHA256_BYTES];
    struct sha256 h;
    sha256_init(&h);
    sha256_put(&h, &kind, 1);
    sha256_put(&h, principal->name.ptr, principal->name.len);
    sha256_end(&h, hash);
    snprintf(session->tag, sizeof(session->tag), "%02x%02x%02x%02x-", hash[0], hash[1], hash[2],
             hash[3]);
}

/* The id of the next event, written to `out`; its length. */
static size_t session_event_id(struct subscriber *subscriber, const struct log_cursor *at,
                               char out[EVENT_ID_MAX])
{
    struct session *session = subscriber->owner;
    struct session_stream *stream = session_newest_stream(session);
    struct tidings_str sealed = cursor_seal_make(subscriber->worker, subscriber->principal, at);
    int n = snprintf(out, EVENT_ID_MAX, "%s%x.%llu.", session->tag, stream ? stream->no : 0,
                     (unsigned long long)++session->next_event);
    size_t len = n > 0 ? (size_t)n : 0;
    char text[CURSOR_TEXT];
    if (sealed.len == 0 && session->migration) { /* a number has no meaning on another node */
        sealed = cursor_print(at, text);
    }
    if (sealed.len > 0) {
        n = snprintf(out + len, EVENT_ID_MAX - len, "%.*s", STR_ARG(sealed));
    } else {
        struct tidings_str gap = at->gap > 0 ? cursor_print_gap(at, text) : STR_EMPTY;
        n = snprintf(out + len, EVENT_ID_MAX - len, "%llu%.*s", (unsigned long long)at->seq,
                     STR_ARG(gap));
    }
    return n > 0 ? len + (size_t)n : 0;
}

/* Returns true if it is an event id of another principal's session. */
static bool session_is_foreign_event(const struct session *session, struct tidings_str id)
{
    struct tidings_str own = tidings_str(session->tag), rest = id;
    bool has_tag = id.len > SESSION_TAG_LEN && id.ptr[SESSION_TAG_LEN - 1] == '-';
    for (size_t i = 0; has_tag && i < SESSION_TAG_LEN - 1; i++) {
        has_tag = session_hex(id.ptr[i]) >= 0;
    }
    bool is_event = false; /* without a tag: 1.2.3 */
    str_cut(rest, '.', &rest, &is_event);
    return has_tag ? !str_starts(id, own) || own.len == 0 : is_event && own.len > 0;
}

/* Reads the number in it; for clients without access to numbers it must be sealed. */
static bool parse_event_cursor(const struct session *session, struct tidings_str text,
                               struct log_cursor *ret)
{
    struct tidings_str gap;
    bool has_gap = false;
    struct tidings_str number = str_cut(text, '~', &gap, &has_gap);
    *ret = (struct log_cursor){.epoch = session->worker->epoch};
    if (access_is_full(session->principal) && str_to_u64(number, &ret->seq)) {
        return ret->seq <= session->worker->last_seq && (!has_gap || cursor_parse_gap(gap, ret));
    }
    if (!cursor_seal_open(session->worker, session->principal, text, ret)) {
        return false;
    }
    /* Returns true if this node has caught up with an event of another node. The event's change may
     * have its number and still be on its way here. */
    return ret->epoch == session->worker->epoch ? ret->seq <= session->worker->last_seq
                                                : session_migration_resume(session, ret);
}

bool session_read_event(struct worker *worker, const struct principal *principal,
                        struct tidings_str id, struct session_event *ret)
{
    struct tidings_str text;
    *ret = (struct session_event){.number = 0};
    (void)str_cut(id, '.', &text, NULL);
    return str_to_u64(str_cut(text, '.', &text, NULL), &ret->number) &&
           cursor_seal_open(worker, principal, text, &ret->at) && ret->at.has_position;
}

/* The number of a stream; 0: invalid. */
static unsigned parse_stream(struct tidings_str text)
{
    unsigned no = 0;
    for (size_t i = 0; i < text.len && text.len <= 7; i++) {
        int digit = session_hex(text.ptr[i]);
        if (digit < 0) {
            return 0;
        }
        no = no * 16 + (unsigned)digit;
    }
    return no;
}

/* Returns true if it is a valid event id of this session and the events after it are known. */
static bool session_parse_event_id(const struct session *session, struct tidings_str id,
                                   struct event_cursor *ret)
{
    struct tidings_str rest, n;
    struct tidings_str stream = str_cut(str_skip(id, strlen(session->tag)), '.', &rest, NULL);
    n = str_cut(rest, '.', &rest, NULL);
    uint64_t event = 0;
    struct log_cursor at;
    unsigned no = parse_stream(stream);
    if (!str_to_u64(n, &event) || !parse_event_cursor(session, rest, &at) || no == 0 ||
        no > session->next_stream || event > session->next_event) {
        return false;
    }
    ret->event = event;
    ret->stream = no; /* it continues under its number even if its past is forgotten */
    bool remembered = false, is_below = true;
    for (size_t i = 0; i < SESSION_PAST_STREAMS; i++) {
        remembered = remembered || session->past[i].no == no;
        is_below = is_below && !(session->past[i].no == no && at.seq >= session->past[i].from);
    }
    if (remembered) {
        ret->cursor = at.seq < session->delivered_upto ? at.seq : session->delivered_upto;
        ret->id = at;
        ret->rewound = is_below; /* a subscription had gone back, and not yet caught up */
        bool is_notified = session->lists.stream == no && session->lists.event <= event;
        ret->lists_upto = is_notified ? session->lists.upto : 0;
    }
    if (!remembered && session_is_imported(session)) {
        /* The stream is from the node the session came from: changes that other streams carried,
         * there and here, are sent again rather than lost. */
        remembered = ret->rewound = ret->is_foreign = true;
        ret->cursor = at.seq;
        ret->id = at;
        if (!session_was_written(session, no) && session->delivered_upto < at.seq) {
            ret->cursor =
                session->delivered_upto; /* of a copy that did not know the later events */
        }
    }
    for (unsigned i = 0; i < session->rewind_count; i++) {
        if (event > session->rewinds[i].event) {
            continue;
        }
        if (session->rewinds[i].to < ret->cursor) {
            ret->rewound = true;
            ret->cursor = session->rewinds[i].to;
        }
        return remembered && !session->rewinds[i].is_gap;
    }
    return remembered;
}

/* -------------------------------------------------------------------------------------------------
 * Questions to the client of a session, and requests that continue after their stream was lost. The
 * ids of events on the stream of a request are `rREQUEST.EVENT` in hexadecimal digits, after the
 * tag of the session; those on the session's own streams are above.
 */

#define SESSION_QUESTION_MAX (2u << 20) /* bytes of one */

void session_declare(struct session *session, unsigned can)
{
    session->client_requests = client_requests_create(can);
    if (session->client_requests) {
        session->client_requests->tag = session->tag;
    }
}

struct client_requests *session_client_requests(const struct request *request)
{
    return request->session   ? request->session->client_requests
           : request->channel ? channel_client_requests(request->channel)
                              : NULL;
}

/* The session ends: its questions stay unanswered, and its kept answers are dropped. */
static void session_drop_requests(struct session *session)
{
    struct client_requests *client_requests = session->client_requests;
    client_requests_destroy(client_requests); /* notifies the code that asked */
    session->client_requests = NULL;
    list_each (it, next, &session->requests) {
        struct request *request = list_entry(it, struct request, session_link);
        request->session = NULL;
        list_remove(it);
        if (request->retained_for) {
            request_drop(request);
        }
    }
}

/* ---- on the session's own streams ------------------------------------------------------------ */

static bool session_client_requests_write(struct session *session, const struct buf *message,
                                          struct client_request *asked)
{
    struct session_stream *stream = session_newest_stream(session);
    struct subscriber *subscriber = session->subscriber;
    if (!stream || message->failed) {
        return false;
    }
    char id[EVENT_ID_MAX];
    struct log_cursor at = subscriber_cursor_at(subscriber, subscriber_written(subscriber));
    size_t len = asked ? session_event_id(subscriber, &at, id) : 0;
    char *room = stream->sink->ops->room(stream->sink, tidings_strn(id, len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    if (asked) {
        asked->is_on_session = true;
        asked->event = session->next_event;
    }
    return true;
}

bool session_send(const struct request *request, const struct buf *message,
                  struct client_request *asked)
{
    return request->session && session_client_requests_write(request->session, message, asked);
}

/* A stream of the session starts, for a client that has received everything up to that event: sends
 * again the later questions on the session's streams that are still open. */
static void session_resend_questions(struct session *session, uint64_t event)
{
    if (!session->client_requests) {
        return;
    }
    list_each (it, next, &session->client_requests->open) {
        struct client_request *asked = list_entry(it, struct client_request, link);
        struct buf text;
        if (asked->is_on_session && asked->event > event) {
            buf_init(&text, SESSION_QUESTION_MAX);
            asked->ops->put(asked, &text);
            (void)session_client_requests_write(session, &text, asked);
            buf_deinit(&text);
        }
    }
}

/* ---- on the stream of a request -------------------------------------------------------------- */

/* A hexadecimal number of at most 7 digits. */
static bool session_read_hex(struct tidings_str text, unsigned *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.len <= 7 ? session_hex(text.ptr[i]) : -1;
        if (digit < 0) {
            return false;
        }
        *ret = *ret * 16 + (unsigned)digit;
    }
    return text.len > 0;
}

/* Returns true if it is an event id on the stream of a request (and not of the session). */
static bool session_is_request_event(const struct session *session, struct tidings_str id)
{
    size_t tag = strlen(session->tag);
    return id.len > tag && id.ptr[tag] == 'r' && str_starts(id, tidings_str(session->tag));
}

/* The request continues on `channel`. TIDINGS_E_NOTFOUND: it no longer exists. */
static int session_resume_request(struct session *session, struct channel *channel,
                                  struct tidings_str id)
{
    struct tidings_str event_text;
    struct tidings_str stream_text =
        str_cut(str_skip(id, strlen(session->tag) + 1), '.', &event_text, NULL);
    unsigned stream = 0, event = 0;
    if (!session_read_hex(stream_text, &stream) || !session_read_hex(event_text, &event)) {
        return TIDINGS_E_NOTFOUND;
    }
    list_each (it, next, &session->requests) {
        struct request *request = list_entry(it, struct request, session_link);
        if (stream == 0 || request->stream != stream) {
            continue;
        }
        struct tidings_str own = arena_dup(&request->arena, id);
        request_resume(request, channel);
        request_prime(request, own.ptr ? own : STR_EMPTY);
        if (request->retained_for) {
            request_answer_retained(request);
        } else {
            call_resume(request, event);
        }
        return 0;
    }
    return TIDINGS_E_NOTFOUND;
}

/* ---------------------------------------------------------------------------------------------- */

#define SESSION_WORKERS_MAX 256u /* numbers that an id may begin with */

_Static_assert(SESSION_PAST_STREAMS <= SUBSCRIBER_MAX_SKIPS, "each may be another's");

/* A change above `to` has yet to be written to the newest stream, so event ids issued so far prove
 * nothing beyond `to`. When the table is full the two oldest entries are merged. */
static void rewind_ids(struct session *session, uint64_t to, bool is_gap)
{
    unsigned n = session->rewind_count;
    for (; n > 0 && session->rewinds[n - 1].to >= to; n--) {
        is_gap = is_gap || session->rewinds[n - 1].is_gap;
    }
    if (n == SESSION_REWINDS) {
        session->rewinds[0].event = session->rewinds[1].event;
        n--;
        memmove(&session->rewinds[1], &session->rewinds[2], (n - 1) * sizeof(session->rewinds[0]));
    }
    session->rewinds[n].event = session->next_event;
    session->rewinds[n].to = to;
    session->rewinds[n].is_gap = is_gap;
    session->rewind_count = n + 1;
}

/* Changes numbered above `end` count as not carried by any stream. */
static void session_undeliver_above(struct session *session, uint64_t end)
{
    if (end >= session->delivered_upto) {
        return;
    }
    session->delivered_upto = end;
    for (size_t i = 0; i < SESSION_PAST_STREAMS; i++) {
        session->past[i].from = session->past[i].from < end ? session->past[i].from : end;
        session->past[i].end = session->past[i].end < end ? session->past[i].end : end;
    }
    rewind_ids(session, end, false);
}

/* A subscription is rewound: its changes were not in the streams so far. */
static void session_on_rewind(struct subscriber *subscriber, uint64_t since)
{
    bool is_gap = since == SINCE_UNKNOWN;
    if (!is_gap) {
        session_undeliver_above(subscriber->owner, since);
    }
    rewind_ids(subscriber->owner, is_gap ? 0 : since, is_gap);
}

static void session_on_lists_written(struct subscriber *subscriber)
{
    struct session *session = subscriber->owner;
    const struct session_stream *stream = session_newest_stream(session);
    session->lists.stream = stream ? stream->no : 0;
    session->lists.event = session->next_event;
    session->lists.upto = subscriber->worker->last_seq;
}

static void session_touch(struct session *session)
{
    session->active_ms = loop_now_ms(session->worker->loop);
    list_remove(&session->link);
    list_append(&session->worker->sessions->all, &session->link);
}

/* The newest stream stops being written to: records the part that it carried. */
static void remember_end(struct session *session, const struct session_stream *stream)
{
    uint64_t end = subscriber_low_water(session->subscriber);
    if (end < session->delivered_upto) {
        end = session->delivered_upto; /* of its replay; a client that resumes gets the rest */
    }
    unsigned i = session->past_next++ % SESSION_PAST_STREAMS;
    session->past[i].no = stream->no;
    session->past[i].from = session->newest_from;
    session->past[i].end = end;
    session->delivered_upto = end;
}

/* A newer stream takes over and this one stays open. No client will resume this one for the rest of
 * its replay, so that part counts as not carried by any stream. */
static void session_undeliver_pending(struct session *session)
{
    session_undeliver_above(session, subscriber_low_water(session->subscriber));
}

static void stream_free(struct session_stream *stream)
{
    list_remove(&stream->link);
    stream->session->stream_count--;
    mem_free(stream);
}

/* A stream that is not the newest ended. */
static void on_older_stream_end(void *user)
{
    stream_free(user);
}

static void keep_as_older(struct session_stream *stream)
{
    static const struct sink_events events = {.closed = on_older_stream_end};
    sink_attach(stream->sink, &events, stream);
}

/* It has no stream now: after a time the watches for its lists end. */
static void session_note_streamless(struct session *session)
{
    if (session->group->list_scopes) {
        session->streamless_ms = loop_now_ms(session->worker->loop);
        list_remove(&session->streamless_link);
        list_append(&session->worker->sessions->streamless, &session->streamless_link);
    }
}

/* The newest stream ended; the subscriber has noted its cursor. */
static void on_newest_stream_end(struct subscriber *subscriber)
{
    struct session *session = subscriber->owner;
    struct session_stream *stream = session_newest_stream(session);
    if (!stream) {
        return;
    }
    remember_end(session, stream);
    stream_free(stream);
    session_touch(session);
    stream = session_newest_stream(session);
    if (stream) {
        session->newest_from =
            session->delivered_upto; /* subscriptions may be rewound with the next */
        subscriber_set_sink(subscriber, stream->sink);
        session->skips.count = 0;
        catchup_start(subscriber, session->newest_from);
    } else {
        session_note_streamless(session);
    }
}

static void session_end_streams(struct subscriber *subscriber)
{
    struct session *session = subscriber->owner;
    struct session_stream *newest = session_newest_stream(session);
    if (newest) {
        session_undeliver_pending(session);
        remember_end(session, newest);
        subscriber_set_sink(subscriber, NULL);
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a list is a ring */
    list_each (it, next, &session->streams) {
        struct session_stream *stream = list_entry(it, struct session_stream, link);
        sink_attach(stream->sink, NULL, NULL);
        stream->sink->ops->end(stream->sink);
        stream_free(stream);
    }
    session_touch(session);
    session_note_streamless(session);
}

static void session_disconnect(struct subscriber *subscriber)
{
    session_end(subscriber->owner);
}

static struct tidings_str id_of(const struct subscriber *subscriber)
{
    const struct session *session = subscriber->owner;
    return tidings_strn(session->id, SESSION_ID_LEN);
}

static const struct subscriber_skips *session_skips(const struct subscriber *subscriber)
{
    const struct session *session = subscriber->owner;
    return &session->skips;
}

/* It has no stream now: records the last address of its client. */
static void session_facts(const struct subscriber *subscriber, struct channel_facts *ret)
{
    const struct session *session = subscriber->owner;
    snprintf(ret->address, sizeof(ret->address), "%s", session->address);
    ret->listener = session->listener;
}

static const struct subscriber_ops session_subscriber_ops = {
    .end_streams = session_end_streams,
    .disconnect = session_disconnect,
    .session_id = id_of,
    .facts = session_facts,
    .skips = session_skips,
    .event_id = session_event_id,
    .on_rewind = session_on_rewind,
    .on_lists_written = session_on_lists_written,
    .on_stream_end = on_newest_stream_end,
};

/* ---- life ------------------------------------------------------------------------------------ */

int session_make_id(const struct worker *worker, char id[SESSION_ID_LEN + 1])
{
    unsigned char bytes[17];
    int rc = random_bytes(bytes, sizeof(bytes));
    if (rc < 0) {
        return rc;
    }
    /* Chooses any number that leads to this worker, so that sessions made here are spread over all
     * workers of a node that has more of them. */
    unsigned index = worker->index, count = worker->count;
    if (count > 0) {
        index += count * (bytes[16] % ((SESSION_WORKERS_MAX - 1 - index) / count + 1));
    }
    snprintf(id, SESSION_ID_LEN + 1, "%02x-", index & 0xffu);
    for (size_t i = 0; i < 16; i++) {
        snprintf(id + 3 + 2 * i, 3, "%02x", bytes[i]);
    }
    return 0;
}

int session_create(struct worker *worker, const struct revision *revision,
                   const struct principal *principal, struct tidings_str id, struct session **ret,
                   struct tidings_error *err)
{
    struct session *session = mem_zalloc(sizeof(*session));
    if (!session) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    session->worker = worker;
    session->revision = revision;
    session->principal = principal_ref(principal);
    session->active_ms = loop_now_ms(worker->loop);
    session_make_tag(session);
    list_init(&session->requests);
    list_init(&session->streams);
    list_init(&session->streamless_link);
    list_init(&session->link);
    memcpy(session->id, id.ptr, id.len);
    int rc = id.len > 0 ? 0 : session_make_id(worker, session->id);
    session->subscriber = rc < 0 ? NULL : subscriber_create(worker, principal);
    session->group =
        session->subscriber ? subscription_group_create(session->subscriber, STR_EMPTY) : NULL;
    if (!session->group || !session_migration_begin(session) ||
        map_put(&worker->sessions->by_id, tidings_strn(session->id, SESSION_ID_LEN), session,
                NULL) < 0) {
        session_migration_end(session);
        subscriber_destroy(session->subscriber);
        principal_unref(session->principal);
        mem_free(session);
        return tidings_fail(err, TIDINGS_E_NOMEM, "no session could be made");
    }
    if (dialect_rules(worker->self)->broadcasts) {
        list_changed_want(session->group, LIST_EVERYTHING);
    }
    session->delivered_upto = session->subscriber->cursor;
    session->group->is_open = true;
    session->subscriber->owner = session;
    session->subscriber->ops = &session_subscriber_ops;
    list_append(&worker->sessions->all, &session->link);
    worker->stats.sessions++;
    *ret = session;
    return 0;
}

static void session_note_address(struct session *session, const struct channel *channel)
{
    struct channel_facts facts;
    channel_get_facts(channel, &facts);
    session->listener = facts.listener;
    snprintf(session->address, sizeof(session->address), "%.*s", (int)SESSION_ADDRESS_MAX - 1,
             facts.address);
}

bool session_enter(struct channel *channel, struct session_place *ret, struct refusal *why)
{
    struct worker *worker = channel->worker;
    const struct share_taker who = channel_taker(channel);
    *ret = (struct session_place){.quota = channel_quota(channel), .account = who.account};
    bool has_share = share_take(worker->limit_counters, LIMIT_SESSIONS,
                                worker->limits->max_sessions, 1, &who, why);
    client_account_release(who.account); /* the share counts it */
    if (!has_share) {
        return false;
    }
    if (!quota_open_session(ret->quota, why)) {
        share_give(worker->limit_counters, LIMIT_SESSIONS, 1, who.account);
        return false;
    }
    return true;
}

void session_left(struct worker *worker, const struct session_place *place)
{
    share_give(worker->limit_counters, LIMIT_SESSIONS, 1, place->account);
    quota_close_session(place->quota);
}

int session_open(struct channel *channel, const struct revision *revision, struct session **ret,
                 struct refusal *why, struct tidings_error *err)
{
    struct worker *worker = channel->worker;
    struct session_place place;
    if (worker->stopping) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server is stopping");
    }
    if (!session_enter(channel, &place, why)) {
        return TIDINGS_E_LIMIT;
    }
    int rc = session_create(worker, revision, channel->principal, STR_EMPTY, ret, err);
    if (rc < 0) {
        session_left(worker, &place);
        return rc;
    }
    (*ret)->place = place;
    session_note_address(*ret, channel);
    return 0;
}

void session_destroy(struct session *session)
{
    struct worker *worker = session->worker;
    if (!session_has_migrated(session)) { /* otherwise the new node sends the remaining updates */
        subscriber_flush(session->subscriber);
    }
    session_migration_last(session);
    session_left(worker, &session->place);
    map_remove(&worker->sessions->by_id, tidings_strn(session->id, SESSION_ID_LEN));
    list_remove(&session->link);
    list_remove(&session->streamless_link);
    worker->stats.sessions--;
    session_drop_requests(session);
    session->subscriber->ops = NULL;
    subscriber_set_sink(session->subscriber, NULL);
    list_each (it, next, &session->streams) {
        struct session_stream *stream = list_entry(it, struct session_stream, link);
        sink_attach(stream->sink, NULL, NULL);
        stream->sink->ops->end(stream->sink);
        list_remove(it);
        mem_free(stream);
    }
    subscriber_destroy(session->subscriber);
    principal_unref(session->principal);
    session_migration_end(session); /* requests that wait for it continue and do not find it */
    mem_free(session);
}

void session_end(struct session *session)
{
    session_migration_end_everywhere(session);
    session_destroy(session);
}

struct session *session_find(struct worker *worker, struct tidings_str id,
                             const struct principal *principal)
{
    struct session *session = map_find(&worker->sessions->by_id, id);
    if (!session || !principal_is_same(session->principal, principal)) {
        return NULL;
    }
    if (session->principal != principal) { /* another token of the same principal */
        principal_unref(session->principal);
        session->principal = principal_ref(principal);
        subscriber_set_principal(session->subscriber, principal);
    }
    session_touch(session);
    return session;
}

int session_worker(struct tidings_str id, unsigned count)
{
    if (id.len != SESSION_ID_LEN || id.ptr[2] != '-') {
        return -1;
    }
    int high = session_hex(id.ptr[0]), low = session_hex(id.ptr[1]);
    int index = high * 16 + low;
    return high < 0 || low < 0 ? -1 : count > 0 ? index % (int)count : index;
}

void session_sweep(struct worker *worker)
{
    uint64_t now = loop_now_ms(worker->loop);
    list_each (rit, rnext, &worker->sessions->streamless) {
        struct session *session = list_entry(rit, struct session, streamless_link);
        if (session->streamless_ms + worker->limits->list_linger_ms > now) {
            break; /* the rest ended later */
        }
        list_remove(rit);
        list_changed_unwatch(session->group);
    }
    list_each (it, next, &worker->sessions->all) {
        struct session *session = list_entry(it, struct session, link);
        if (session->active_ms + worker->limits->session_timeout_ms > now) {
            break; /* the rest was active later */
        }
        if (session->stream_count > 0 || !list_empty(&session->requests)) {
            session_touch(session);
        } else {
            worker->ending = "its session was not used for long (--session-timeout)";
            session_destroy(session);
            worker->ending = NULL;
        }
    }
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Changes that other streams carried are not replayed on this one. */
static void skip_others(struct session *session, unsigned no)
{
    for (size_t i = 0; no > 0 && i < SESSION_PAST_STREAMS; i++) {
        if (session->past[i].no > 0 && session->past[i].no != no) {
            unsigned k = session->skips.count++;
            session->skips.at[k].from = session->past[i].from;
            session->skips.at[k].to = session->past[i].end;
        }
    }
}

/* Handles an event id of another node. That node knew no subscriptions made here: each gets the
 * changes since it was made. Changes that the other node sent after the event, and recorded as
 * sent, may not have arrived: the subscriptions that came from there get them again, if necessary
 * from before they began. */
static void session_replay_later(struct session *session, uint64_t cursor)
{
    list_each (it, next, &session->group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        sub->since_pending = sub->since_pending || (!sub->is_resumed && sub->since < cursor);
        if (sub->is_resumed && !sub->since_pending && sub->since > cursor) {
            sub->since = cursor;
        }
    }
}

int session_open_stream(struct session *session, struct channel *channel,
                        struct tidings_str last_event_id)
{
    if (session->stream_count >= SESSION_MAX_STREAMS) {
        return TIDINGS_E_LIMIT;
    }
    if (session_is_foreign_event(session, last_event_id)) {
        return TIDINGS_E_DENIED;
    }
    if (session_is_request_event(session, last_event_id)) {
        return session_resume_request(session, channel, last_event_id);
    }
    struct session_stream *stream = mem_zalloc(sizeof(*stream));
    if (!stream) {
        return TIDINGS_E_NOMEM;
    }
    struct subscriber *subscriber = session->subscriber;
    struct response_headers headers = {.session_id = tidings_strn(session->id, SESSION_ID_LEN)};
    /* The client may have lost the stream that was newest without notice here: it keeps its
     * part. */
    struct session_stream *newest = session_newest_stream(session);
    if (newest) {
        session_undeliver_pending(session);
        remember_end(session, newest);
        subscriber_set_sink(subscriber, NULL);
        keep_as_older(newest);
    }
    /* The start of the stream: a fresh stream carries what no stream has carried; a resumed one
     * continues under its number, with the changes after its last event. An unknown id means that
     * everything may have been missed. This happens now, because the header goes with the request
     * once it becomes a stream. */
    struct event_cursor at = {.cursor = session->delivered_upto};
    bool known = last_event_id.len == 0 || session_parse_event_id(session, last_event_id, &at);
    if (at.is_foreign) {
        session_replay_later(session, at.cursor);
    }
    stream->sink = channel->ops->stream(channel, &headers);
    session_note_address(session, channel);
    stream->session = session;
    stream->no = at.stream > 0 ? at.stream : ++session->next_stream;
    list_prepend(&session->streams, &stream->link);
    session->stream_count++;
    session->newest_from = session->delivered_upto;
    session->skips.count = 0;
    skip_others(session, at.rewound ? 0 : at.stream);
    subscriber_set_sink(subscriber, stream->sink);
    if (session->revision->has_priming && !dialect_rules(session->worker->self)->is_unprimed) {
        char id[EVENT_ID_MAX];
        /* Below the changes that subscriptions have yet to receive. */
        uint64_t written = subscriber_written(subscriber);
        struct log_cursor at_cursor =
            subscriber_cursor_at(subscriber, written < at.cursor ? written : at.cursor);
        static const struct log_cursor everybody = {.gap = 1};
        cursor_join_gap(&at_cursor, known ? &at.id : &everybody);
        size_t len = session_event_id(subscriber, &at_cursor, id);
        stream->sink->ops->prime(stream->sink, tidings_strn(id, len),
                                 session->worker->limits->retry_ms);
    }
    if (!known) {
        resync_flag_all(subscriber);
    } else if (at.id.gap > 0) {
        resync_flag_rest(subscriber, &at.id);
    }
    subscriber->lists_upto = at.lists_upto;
    session_resend_questions(session, at.event);
    catchup_start(subscriber, at.cursor);
    list_remove(&session->streamless_link);
    list_changed_watch(session->group);
    session_migration_streams(session);
    return 0;
}

void sessions_init(struct sessions *sessions)
{
    map_init(&sessions->by_id);
    list_init(&sessions->all);
    list_init(&sessions->streamless);
    sessions->movers = NULL;
}

void sessions_deinit(struct worker *worker)
{
    worker->stopping = true; /* sessions that may move continue on another node */
    list_each (it, next, &worker->sessions->all) {
        session_destroy(list_entry(it, struct session, link));
    }
    sessions_unshare(worker);
    map_deinit(&worker->sessions->by_id);
}

int session_log_level(const struct request *request)
{
    const struct subscriber *subscriber = request->session   ? request->session->subscriber
                                          : request->channel ? request->channel->subscriber
                                                             : NULL;
    return subscriber ? subscriber->log_level : 0;
}
