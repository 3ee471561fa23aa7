/* SPDX-License-Identifier: MIT
 *
 * Lists subscribers and their subscriptions (<tidings/subscribers.h>) by asking all workers. The
 * question goes to the hub, which knows the workers and sends a part to each; each fills its part
 * on its own thread; the last one sends the result back to the waiting thread, which reads the
 * rows. On the thread of the only worker, the part is filled immediately.
 */
#include <assert.h>
#include <limits.h>

#include <tidings/subscribers.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/request.h"
#include "formats/uri.h"
#include "server/server_internal.h"
#include "transport/peer_identity.h"

#define ROWS_MAX_BYTES (64u << 20)

enum question_kind {
    ASK_SUBSCRIBERS,
    ASK_TOTALS,
    DO_UNSUBSCRIBE,
    DO_DISCONNECT,
};

struct worker_answer {
    struct thread_message message;
    struct question *question;
    struct buf rows; /* struct row and its strings, one after the other */
    uint64_t count;  /* number of rows, or of ended subscriptions */
    struct tidings_totals totals;
};

struct question {
    struct thread_message message;
    struct thread_message answer;
    struct mailbox *asker; /* NULL: no thread waits; the question frees itself */
    enum question_kind what;
    uint64_t subscriber; /* 0: any */
    struct worker_answer *replies;
    size_t reply_count;
    size_t left; /* atomic: unanswered parts */
    int code;
    size_t uri_len;
    char uri[];
};

enum row_text {
    ROW_SESSION,
    ROW_STREAM,
    ROW_URI,
    ROW_ID,
    ROW_PRINCIPAL,
    ROW_ADDRESS,
    ROW_CLIENT,
    ROW_VERSION,
    ROW_LISTENER,
    ROW_ERROR,
    ROW_TEXTS,
};

struct row {
    struct tidings_subscriber about; /* without its strings, … */
    size_t texts[ROW_TEXTS];         /* … whose lengths are here; the strings follow */
};

/* ---- on a worker ----------------------------------------------------------------------------- */

/* The strings of a row; borrowed. */
static void gather_texts(const struct subscription *sub, const struct channel_facts *facts,
                         const struct client_error *error, struct tidings_str ret[ROW_TEXTS])
{
    const struct subscriber *subscriber = sub->subscriber;
    const struct client_info *client =
        client_info_get(&subscriber->worker->requests->clients, subscriber->client);
    ret[ROW_SESSION] = subscriber->ops && subscriber->ops->session_id
                           ? subscriber->ops->session_id(subscriber)
                           : STR_EMPTY;
    ret[ROW_STREAM] = subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR_EMPTY;
    ret[ROW_URI] = subscription_as_requested(sub);
    ret[ROW_ID] = subscription_group_id(sub->group);
    ret[ROW_PRINCIPAL] = subscriber->principal ? subscriber->principal->name : STR_EMPTY;
    ret[ROW_ADDRESS] = tidings_str(facts->address);
    ret[ROW_CLIENT] = client ? client->name : STR_EMPTY;
    ret[ROW_VERSION] = client ? client->version : STR_EMPTY;
    ret[ROW_LISTENER] = facts->listener ? tidings_str(facts->listener) : STR("program");
    ret[ROW_ERROR] = error ? tidings_str(error->text) : STR_EMPTY;
}

static void subscribers_collect(struct worker_answer *reply, const struct subscription *sub)
{
    const struct subscriber *subscriber = sub->subscriber;
    const struct client_error *error =
        client_errors_get(&subscriber->worker->delivery->errors, subscriber->error);
    struct tidings_str texts[ROW_TEXTS];
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    peer_identity_ask_kernel(facts.fd, &facts);
    gather_texts(sub, &facts, error, texts);
    uint64_t lag_ms = subscriber_lag_us(subscriber, clock_monotonic_ns() / 1000) / 1000;
    struct row row = {.about = {.subscriber = subscriber_id(subscriber),
                                .period_ms = sub->window.period_ms,
                                .suspended = sub->suspended,
                                .truncated = sub->truncated,
                                .is_modern = subscriber->is_modern,
                                .since_ms = (int64_t)subscriber->created_s * 1000,
                                .waiting = subscriber->outbox.count,
                                .lag_ms = lag_ms > facts.stalled_ms ? lag_ms : facts.stalled_ms,
                                .bytes_out = facts.bytes_out,
                                .last_error_ms = error ? error->at_ms : 0}};
    for (size_t i = 0; i < ROW_TEXTS; i++) {
        row.texts[i] = texts[i].len;
    }
    reply->count++;
    buf_put(&reply->rows, &row, sizeof(row));
    for (size_t i = 0; i < ROW_TEXTS; i++) {
        buf_puts(&reply->rows, texts[i]);
    }
}

static void collect_match(void *user, struct match_node *node)
{
    struct worker_answer *reply = user;
    const struct subscription *sub = list_entry(node, struct subscription, node);
    uint64_t subscriber = reply->question->subscriber;
    if (sub->group->is_open && (subscriber == 0 || subscriber_id(sub->subscriber) == subscriber)) {
        subscribers_collect(reply, sub);
    }
}

static void collect_subscriber(struct worker_answer *reply, const struct subscriber *subscriber)
{
    list_each (lit, lnext, &subscriber->groups) {
        const struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
            if (group->is_open) {
                subscribers_collect(reply, list_entry(it, struct subscription, link));
            }
        }
    }
}

static struct subscriber *find_subscriber(struct worker *worker, uint64_t id)
{
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber_id(subscriber) == id) {
            return subscriber;
        }
    }
    return NULL;
}

static void answer_subscribers(struct worker_answer *reply, struct worker *worker)
{
    const struct question *q = reply->question;
    struct tidings_str uri = tidings_strn(q->uri, q->uri_len);
    if (uri.len > 0) {
        match_find(&worker->delivery->match, uri, collect_match, reply);
        delivery_find_matching(worker, uri, collect_match, reply);
        return;
    }
    list_each (it, next, &worker->delivery->subscribers) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (q->subscriber == 0 || subscriber_id(subscriber) == q->subscriber) {
            collect_subscriber(reply, subscriber);
        }
    }
}

static uint64_t server_subscribers_unsubscribe(struct subscriber *subscriber,
                                               struct tidings_str spelled)
{
    uint64_t count = 0;
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (str_eq(subscription_as_requested(sub), spelled)) {
                subscription_withdraw(sub);
                count++;
            }
        }
    }
    return count;
}

static void server_subscribers_fill(struct worker_answer *reply, struct worker *worker)
{
    const struct question *q = reply->question;
    const struct worker_stats *stats = &worker->stats;
    struct subscriber *subscriber = NULL;
    switch (q->what) {
    case ASK_SUBSCRIBERS:
        answer_subscribers(reply, worker);
        break;
    case ASK_TOTALS:
        reply->totals = (struct tidings_totals){
            .subscribers = stats->subscribers,
            .sessions = stats->sessions,
            .subscriptions = stats->subscriptions,
            .deliveries = stats->deliveries,
        };
        break;
    case DO_UNSUBSCRIBE:
        subscriber = find_subscriber(worker, q->subscriber);
        reply->count = subscriber ? server_subscribers_unsubscribe(subscriber,
                                                                   tidings_strn(q->uri, q->uri_len))
                                  : 0;
        break;
    case DO_DISCONNECT:
        subscriber = find_subscriber(worker, q->subscriber);
        reply->count = subscriber ? subscriber->subscription_count : 0;
        if (subscriber) {
            worker->ending = "ended by the program";
            subscriber_disconnect(subscriber);
            worker->ending = NULL;
        }
        break;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void question_free(struct question *q)
{
    for (size_t i = 0; i < q->reply_count; i++) {
        buf_deinit(&q->replies[i].rows);
    }
    mem_free(q->replies);
    mem_free(q);
}

static void subscribers_answer(struct question *q)
{
    if (q->asker) {
        mailbox_send(q->asker, &q->answer);
    } else {
        question_free(q);
    }
}

static void subscribers_reply_done(struct worker_answer *reply)
{
    struct question *q = reply->question;
    if (__atomic_sub_fetch(&q->left, 1, __ATOMIC_ACQ_REL) == 0) {
        subscribers_answer(q);
    }
}

static void subscribers_reply_deliver(struct thread_message *message, void *owner)
{
    struct worker_answer *reply = list_entry(message, struct worker_answer, message);
    server_subscribers_fill(reply, owner);
    subscribers_reply_done(reply);
}

/* The worker ended, and its subscribers with it. */
static void subscribers_reply_drop(struct thread_message *message)
{
    subscribers_reply_done(list_entry(message, struct worker_answer, message));
}

static bool make_replies(struct question *q, size_t count)
{
    q->replies = mem_zalloc(count * sizeof(*q->replies));
    q->code = q->replies ? 0 : TIDINGS_E_NOMEM;
    for (size_t i = 0; q->replies && i < count; i++) {
        q->replies[i].question = q;
        q->replies[i].message.deliver = subscribers_reply_deliver;
        q->replies[i].message.drop = subscribers_reply_drop;
        buf_init(&q->replies[i].rows, ROWS_MAX_BYTES);
        q->reply_count++;
    }
    return q->replies != NULL;
}

static void subscribers_on_hub(struct thread_message *message, void *owner)
{
    struct hub *hub = owner;
    struct question *q = list_entry(message, struct question, message);
    size_t count = hub_worker_count(hub);
    if (count == 0 || !make_replies(q, count)) {
        subscribers_answer(q);
        return;
    }
    q->left = count;
    for (size_t i = 0; i < count; i++) {
        mailbox_send(hub_worker(hub, i)->mailbox, &q->replies[i].message);
    }
}

static void dropped_on_the_way(struct thread_message *message)
{
    subscribers_answer(list_entry(message, struct question, message));
}

static void answer_arrived(struct thread_message *message, void *owner)
{
    (void)message;
    *(bool *)owner = true;
}

static void answer_dropped(struct thread_message *message)
{
    (void)message;
}

/* Wait for all workers. */
static int ask_and_wait(struct tidings_server *s, struct question *q, struct tidings_error *err)
{
    bool is_answered = false;
    q->asker = mailbox_create_blocking(&is_answered, err);
    if (!q->asker) {
        return TIDINGS_E_NOMEM;
    }
    if (hub_send(s->hub, &q->message)) {
        while (!is_answered) {
            mailbox_wait(q->asker, -1);
        }
    }
    mailbox_close(q->asker);
    mailbox_unref(q->asker);
    return q->code < 0 ? tidings_fail(err, q->code, "out of memory") : 0;
}

/* On a thread of the library, which must not block. 1: accepted, to be done later. */
static int ask_here(struct tidings_server *s, struct question *q, struct tidings_error *err)
{
    struct hub *hub = s->hub;
    if (q->what == DO_UNSUBSCRIBE || q->what == DO_DISCONNECT) {
        mailbox_send(hub_mailbox(hub), &q->message);
        return 1;
    }
    struct worker *only =
        hub_is_here(hub) && hub_worker_count(hub) == 1 ? hub_worker(hub, 0) : NULL;
    if (!only || only->loop != s->loop || match_is_busy(&only->delivery->match)) {
        return tidings_fail(err, TIDINGS_E_BUSY,
                            "this waits for every worker: call it on a thread of the program");
    }
    if (!make_replies(q, 1)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    server_subscribers_fill(&q->replies[0], only);
    return 0;
}

/* *ret is the answered question, or NULL if it will be answered later; the caller frees it. */
static int subscribers_ask(struct tidings_server *s, const struct question *about,
                           struct tidings_str uri, struct question **ret, struct tidings_error *err)
{
    *ret = NULL;
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct question *q = mem_zalloc(sizeof(*q) + uri.len);
    if (!q) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    q->what = about->what;
    q->subscriber = about->subscriber;
    q->uri_len = uri.len;
    if (uri.len > 0) {
        memcpy(q->uri, uri.ptr, uri.len);
    }
    q->message.deliver = subscribers_on_hub;
    q->message.drop = dropped_on_the_way;
    q->answer.deliver = answer_arrived;
    q->answer.drop = answer_dropped;
    int rc = hub_is_ours(s->hub) ? ask_here(s, q, err) : ask_and_wait(s, q, err);
    if (rc < 0) {
        question_free(q);
        return rc;
    }
    *ret = rc == 0 ? q : NULL;
    return 0;
}

/* ---- reading the answer ---------------------------------------------------------------------- */

static struct tidings_str subscribers_take(const char **at, size_t len)
{
    struct tidings_str text = tidings_strn(*at, len);
    *at += len;
    return text;
}

static bool read_rows(const struct worker_answer *reply, tidings_subscriber_fn fn, void *user)
{
    const char *at = reply->rows.ptr;
    for (uint64_t i = 0; i < reply->count; i++) {
        struct row row;
        memcpy(&row, at, sizeof(row));
        at += sizeof(row);
        struct tidings_subscriber subscriber = row.about;
        struct tidings_str *const texts[ROW_TEXTS] = {
            [ROW_SESSION] = &subscriber.session,     [ROW_STREAM] = &subscriber.stream,
            [ROW_URI] = &subscriber.subscribed_uri,  [ROW_ID] = &subscriber.subscription_id,
            [ROW_PRINCIPAL] = &subscriber.principal, [ROW_ADDRESS] = &subscriber.address,
            [ROW_CLIENT] = &subscriber.client_name,  [ROW_VERSION] = &subscriber.client_version,
            [ROW_LISTENER] = &subscriber.listener,   [ROW_ERROR] = &subscriber.last_error,
        };
        for (size_t k = 0; k < ROW_TEXTS; k++) {
            *texts[k] = subscribers_take(&at, row.texts[k]);
        }
        if (!fn(user, &subscriber)) {
            return false;
        }
    }
    return true;
}

static int count_of(const struct question *q)
{
    uint64_t count = 0;
    for (size_t i = 0; i < q->reply_count; i++) {
        count += q->replies[i].count;
    }
    return count > INT_MAX ? INT_MAX : (int)count;
}

static int report_rows(struct question *q, tidings_subscriber_fn fn, void *user,
                       struct tidings_error *err)
{
    assert(q);
    for (size_t i = 0; i < q->reply_count; i++) {
        int failed = q->replies[i].rows.failed;
        if (failed == TIDINGS_E_LIMIT) {
            return tidings_fail(err, failed, "more than %u MiB of subscriptions on one worker",
                                ROWS_MAX_BYTES >> 20);
        }
        if (failed) {
            return tidings_fail(err, failed, "out of memory");
        }
    }
    bool more = fn != NULL;
    for (size_t i = 0; more && i < q->reply_count; i++) {
        more = read_rows(&q->replies[i], fn, user);
    }
    return count_of(q);
}

/* ---- the public functions -------------------------------------------------------------------- */

static int server_subscribers_list(struct tidings_server *s, uint64_t subscriber,
                                   struct tidings_str uri, tidings_subscriber_fn fn, void *user,
                                   struct tidings_error *err)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri.len > 0 ? uri_canonical(uri, &canonical, err) : 0;
    struct question about = {.what = ASK_SUBSCRIBERS, .subscriber = subscriber}, *q = NULL;
    if (rc == 0) {
        rc = subscribers_ask(s, &about, buf_str(&canonical), &q, err);
    }
    buf_deinit(&canonical);
    if (rc == 0) {
        rc = report_rows(q, fn, user, err);
        question_free(q);
    }
    return rc;
}

int tidings_server_subscribers(struct tidings_server *s, struct tidings_str uri,
                               tidings_subscriber_fn fn, void *user, struct tidings_error *err)
{
    return server_subscribers_list(s, 0, uri, fn, user, err);
}

int tidings_server_subscriptions(struct tidings_server *s, uint64_t subscriber,
                                 tidings_subscriber_fn fn, void *user, struct tidings_error *err)
{
    return subscriber == 0 ? 0 : server_subscribers_list(s, subscriber, STR_EMPTY, fn, user, err);
}

int tidings_server_is_subscribed(struct tidings_server *s, uint64_t subscriber,
                                 struct tidings_str uri, struct tidings_error *err)
{
    if (subscriber == 0 || uri.len == 0) {
        return 0;
    }
    int rc = server_subscribers_list(s, subscriber, uri, NULL, NULL, err);
    return rc > 0 ? 1 : rc;
}

int tidings_server_totals(struct tidings_server *s, struct tidings_totals *totals,
                          struct tidings_error *err)
{
    struct question about = {.what = ASK_TOTALS}, *q = NULL;
    if (!totals) {
        return tidings_fail(err, TIDINGS_E_INVALID, "nowhere to put the totals: it is NULL");
    }
    int rc = subscribers_ask(s, &about, STR_EMPTY, &q, err);
    if (rc < 0) {
        return rc;
    }
    *totals = (struct tidings_totals){0};
    assert(q);
    for (size_t i = 0; i < q->reply_count; i++) {
        const struct tidings_totals *reply = &q->replies[i].totals;
        totals->subscribers += reply->subscribers;
        totals->sessions += reply->sessions;
        totals->subscriptions += reply->subscriptions;
        totals->deliveries += reply->deliveries;
    }
    question_free(q);
    return 0;
}

static int server_subscribers_change(struct tidings_server *s, const struct question *about,
                                     struct tidings_str uri, struct tidings_error *err)
{
    if (about->subscriber == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "no subscriber has the number 0");
    }
    struct question *q = NULL;
    int rc = subscribers_ask(s, about, uri, &q, err);
    if (q) {
        rc = count_of(q);
        question_free(q);
    }
    return rc;
}

int tidings_server_unsubscribe(struct tidings_server *s, uint64_t subscriber,
                               struct tidings_str subscribed_uri, struct tidings_error *err)
{
    struct question about = {.what = DO_UNSUBSCRIBE, .subscriber = subscriber};
    if (subscribed_uri.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "unsubscribing needs the URI as it was spelled");
    }
    return server_subscribers_change(s, &about, subscribed_uri, err);
}

int tidings_server_disconnect(struct tidings_server *s, uint64_t subscriber,
                              struct tidings_error *err)
{
    struct question about = {.what = DO_DISCONNECT, .subscriber = subscriber};
    return server_subscribers_change(s, &about, STR_EMPTY, err);
}
