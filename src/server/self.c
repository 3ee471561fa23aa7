/* SPDX-License-Identifier: MIT
 *
 * The provider of tidings://self/. A read sends one message to each worker; each adds its part on
 * its own thread, and the last one finishes the read. No locks are needed, and nothing is counted
 * twice.
 */
#include "server/self.h"

#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/types.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "cluster/cluster.h"
#include "cluster/nodes.h"
#include "engine/catalog/job_read.h"
#include "engine/catalog/resource.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/dialect.h"
#include "engine/protocol/method_listen.h"
#include "engine/protocol/request.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "security/auth.h"
#include "security/failures.h"
#include "security/limits.h"
#include "security/sandbox.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/sandbox_rules.h"
#include "server/stats.h"
#include "sources/command.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Rows of tidings://self/subscriptions?covers=URI: the subscriptions of a worker that match a
 * change of that URI. The match index finds them as for a change, so the query costs no more than a
 * change. Regexes are not searched at their clients' expense: they are listed with `regex: true` if
 * they may match. Filters are not applied, because they check changes, not URIs.
 */

struct worker;

/* -------------------------------------------------------------------------------------------------
 * tidings://self/subscriptions/mine: the reader's own subscriptions.
 */

struct tidings_read;

/* -------------------------------------------------------------------------------------------------
 * Gathers the subscriptions of the client that reads tidings://self/subscriptions/mine.
 */

struct status_mine {
    struct own_listing listing;
    struct tidings_read *read;
};

/* A page ends after 1 MiB plus one row. */
#define STATUS_MINE_MAX (8u << 20)

static void status_mine_done(struct job *job)
{
    struct status_mine *mine = job->user;
    struct tidings_read *read = mine->read;
    struct tidings_error err = job->err;
    struct buf text;
    struct jw w;
    int rc = job->code;
    struct tidings_resource about = {0}; /* its URI is the requested one, with its query */
    about.name = STR("subscriptions/mine");
    about.mime_type = STR("application/json");
    buf_init(&text, STATUS_MINE_MAX);
    if (rc == 0) {
        jw_init(&w, &text);
        jw_begin_object(&w);
        own_listing_write(&mine->listing, &w);
        jw_end_object(&w);
        rc = buf_check(&text, "the page", NULL, &err);
        rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    }
    buf_deinit(&text);
    own_listing_deinit(&mine->listing);
    mem_free(mine);
    tidings_read_done(read, rc, &err);
}

/* Finishes the read later; `after`: the end of the previous page. */
static void status_mine_read(struct tidings_read *read, struct tidings_str after)
{
    struct tidings_error err;
    struct status_mine *mine = mem_zalloc(sizeof(*mine));
    int rc = mine ? own_listing_init(&mine->listing, read->reader, read->principal, after, &err)
                  : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(mine);
        tidings_read_done(read, rc, &err);
        return;
    }
    mine->read = read;
    job_init(&mine->listing.base, read->base.worker, status_mine_done, mine, STR_EMPTY);
    own_listing_start(&mine->listing);
}

/* -------------------------------------------------------------------------------------------------
 * Writes the rows of tidings://self/stats, /peers and /subscriptions. The subscribers of a worker
 * are already sorted by number.
 */

#define SESSION_HASH_BYTES 4u
#define SHOWN_ID_DIGITS 8u /* of the id of a task */

bool status_after_parse(struct tidings_str text, struct status_after *ret)
{
    struct tidings_str index;
    bool has_index = false;
    struct tidings_str peer = str_cut(text, '.', &index, &has_index);
    struct status_after after = {.index = UINT64_MAX};
    if (!str_to_u64(peer, &after.peer) || (has_index && !str_to_u64(index, &after.index))) {
        return false;
    }
    *ret = after;
    return true;
}

struct page {
    struct jw w;
    struct buf *out;
    size_t rows, before;
    struct status_after after;
    uint64_t now_us;
};

static bool is_full(const struct page *p)
{
    return p->rows >= STATUS_PAGE_ROWS || p->out->len - p->before >= STATUS_PAGE_BYTES;
}

static void status_rows_put_count(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), (int64_t)n);
}

static void write_stats(struct page *p, const struct worker *worker)
{
    const struct worker_stats *s = &worker->stats;
    struct jw *w = &p->w;
    jw_begin_object(w);
    status_rows_put_count(w, "worker", worker->index);
    status_rows_put_count(w, "requests", s->requests);
    status_rows_put_count(w, "deliveries", s->deliveries);
    status_rows_put_count(w, "coalesced", s->coalesced);
    status_rows_put_count(w, "truncated", s->truncated);
    status_rows_put_count(w, "cut", s->cut);
    status_rows_put_count(w, "subscriptions", s->subscriptions);
    status_rows_put_count(w, "subscribers", s->subscribers);
    status_rows_put_count(w, "sessions", s->sessions);
    status_rows_put_count(w, "lastChange", worker->last_seq);
    status_rows_put_count(w, "indexBytes", match_bytes(&worker->delivery->match));
    status_rows_put_count(w, "filters", worker->delivery->filters.by_text.count);
    status_rows_put_count(w, "filterJudgements", worker->delivery->filters.decided);
    status_rows_put_count(w, "patches", worker->delivery->contents.patches);
    status_rows_put_count(w, "pauses", s->pauses);
    status_rows_put_count(w, "mostPerTurn", s->most_per_turn);
    jw_end_object(w);
}

static void put_principal(struct jw *w, const struct principal *principal)
{
    if (!principal) {
        jw_put_string(w, STR("by"), STR("program"));
        return;
    }
    if (principal->name.len > 0) {
        jw_put_string(w, STR("principal"), principal->name);
    }
    jw_put_string(w, STR("by"), tidings_str(principal_kind_name(principal->kind)));
}

/* Every row starts with its client and the cursor of the next page. */
static void status_rows_begin_row(struct page *p, const struct subscriber *subscriber,
                                  uint64_t index)
{
    char row[48];
    int n =
        index == UINT64_MAX
            ? snprintf(row, sizeof(row), "%llu", (unsigned long long)subscriber_id(subscriber))
            : snprintf(row, sizeof(row), "%llu.%llu", (unsigned long long)subscriber_id(subscriber),
                       (unsigned long long)index);
    const char *dot = memchr(row, '.', n > 0 ? (size_t)n : 0);
    size_t len = n > 0 ? (size_t)n : 0;
    jw_begin_object(&p->w);
    jw_put_string(&p->w, STR("row"), tidings_strn(row, len));
    jw_put_string(&p->w, STR("peer"), tidings_strn(row, dot ? (size_t)(dot - row) : len));
    status_rows_put_count(&p->w, "worker", subscriber->worker->index);
    p->rows++;
}

/* The id of a session is a secret, because it grants access. */
static void put_session(struct jw *w, const struct subscriber *subscriber)
{
    struct tidings_str id = subscriber->ops && subscriber->ops->session_id
                                ? subscriber->ops->session_id(subscriber)
                                : STR_EMPTY;
    unsigned char hash[SHA256_BYTES];
    char text[2 * SESSION_HASH_BYTES + 1];
    if (id.len == 0) {
        return;
    }
    struct sha256 sha;
    sha256_init(&sha);
    sha256_put(&sha, id.ptr, id.len);
    sha256_end(&sha, hash);
    for (size_t i = 0; i < SESSION_HASH_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    }
    jw_put_string(w, STR("session"), tidings_str(text));
}

/* The client's address and its name. */
static void status_rows_put_client(struct jw *w, const struct subscriber *subscriber,
                                   const struct channel_facts *facts)
{
    const struct client_info *client =
        client_info_get(&subscriber->worker->requests->clients, subscriber->client);
    if (facts->address[0]) {
        jw_put_string(w, STR("address"), tidings_str(facts->address));
    }
    if (client) {
        jw_key(w, STR("client"));
        jw_begin_object(w);
        jw_put_string(w, STR("name"), client->name);
        jw_put_string(w, STR("version"), client->version);
        jw_end_object(w);
    }
}

static void status_put_who(struct jw *w, const struct subscriber *subscriber)
{
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    put_principal(w, subscriber->principal);
    status_rows_put_client(w, subscriber, &facts);
}

/* … and its transport. */
static void put_origin(struct jw *w, const struct subscriber *subscriber,
                       const struct channel_facts *facts)
{
    status_rows_put_client(w, subscriber, facts);
    jw_put_string(w, STR("listener"),
                  facts->listener ? tidings_str(facts->listener) : STR("program"));
    jw_put_string(w, STR("transport"),
                  subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR("none"));
    jw_put_string(w, STR("era"), subscriber->is_modern ? STR("modern") : STR("legacy"));
    put_session(w, subscriber);
    jw_put_integer(w, STR("sinceMs"), (int64_t)subscriber->created_s * 1000);
}

static void write_peer(struct page *p, const struct subscriber *subscriber)
{
    struct jw *w = &p->w;
    struct channel_facts facts;
    const struct client_error *error =
        client_errors_get(&subscriber->worker->delivery->errors, subscriber->error);
    subscriber_get_facts(subscriber, &facts);
    peer_identity_ask_kernel(facts.fd, &facts);
    uint64_t lag_ms = subscriber_lag_us(subscriber, p->now_us) / 1000;
    status_rows_begin_row(p, subscriber, UINT64_MAX);
    put_principal(w, subscriber->principal);
    put_origin(w, subscriber, &facts);
    status_rows_put_count(w, "listens", subscriber->group_count);
    status_rows_put_count(w, "subscriptions", subscriber->subscription_count);
    status_rows_put_count(w, "waiting", subscriber->outbox.count);
    status_rows_put_count(w, "held", subscriber->deferred_count);
    status_rows_put_count(
        w, "unsentBytes",
        facts.kernel_bytes +
            (subscriber->sink ? subscriber->sink->ops->pending(subscriber->sink) : 0));
    status_rows_put_count(w, "lagMs", lag_ms > facts.stalled_ms ? lag_ms : facts.stalled_ms);
    status_rows_put_count(w, "bytesOut", facts.bytes_out);
    uint64_t received = facts.bytes_in > 0 ? facts.bytes_in
                        : facts.fd > 0     ? peer_identity_received(facts.fd)
                                           : 0;
    if (received > 0) { /* HTTP over a Unix socket does not provide it */
        status_rows_put_count(w, "bytesIn", received);
    }
    if (error) {
        jw_put_string(w, STR("lastError"), tidings_str(error->text));
        jw_put_integer(w, STR("lastErrorCode"), error->code);
        jw_put_integer(w, STR("lastErrorMs"), error->at_ms);
    }
    status_rows_put_count(w, "cursor", subscriber_low_water(subscriber));
    jw_end_object(w);
}

/* The URI of the subscription. The id of a task is truncated, because any unauthenticated client
 * that knows it may read the task. */
static struct tidings_str status_shown_uri(const struct subscription *sub)
{
    const size_t most = sizeof(OWNED_URI_PREFIX) - 1 + SHOWN_ID_DIGITS;
    struct tidings_str uri = subscription_uri(sub);
    return !owned_uri_is(uri) ? subscription_as_requested(sub)
           : uri.len > most   ? tidings_strn(uri.ptr, most)
                              : uri;
}

static void write_subscription(struct page *p, const struct subscription *sub, uint64_t index)
{
    struct jw *w = &p->w;
    status_rows_begin_row(p, sub->subscriber, index);
    status_put_who(w, sub->subscriber);
    jw_put_string(w, STR("subscribedUri"), status_shown_uri(sub));
    if (sub->group->id_len > 0) {
        jw_put_raw(w, STR("subscriptionId"), subscription_group_id(sub->group));
    }
    status_rows_put_count(w, "periodMs", sub->window.period_ms);
    status_rows_put_count(w, "waiting", sub->queued);
    jw_put_bool(w, STR("suspended"), sub->suspended);
    jw_end_object(w);
}

static bool write_subscriptions(struct page *p, const struct subscriber *subscriber)
{
    uint64_t index = 0;
    bool is_first = subscriber_id(subscriber) == p->after.peer;
    list_each (lit, lnext, &subscriber->groups) {
        const struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
            index++;
            if (is_first && index <= p->after.index) {
                continue;
            }
            if (is_full(p)) {
                return false;
            }
            write_subscription(p, list_entry(it, struct subscription, link), index);
        }
    }
    return true;
}

static bool write_subscribers(struct page *p, const struct worker *worker, bool subscriptions)
{
    list_each (it, next, &worker->delivery->subscribers) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber_id(subscriber) < p->after.peer ||
            (!subscriptions && subscriber_id(subscriber) == p->after.peer)) {
            continue;
        }
        if (subscriptions ? !write_subscriptions(p, subscriber) : is_full(p)) {
            return false;
        }
        if (!subscriptions) {
            write_peer(p, subscriber);
        }
    }
    return true;
}

/* The array of all limits; thread-safe. */
static void status_write_limits(struct jw *w, const struct limit_counters *counters)
{
    jw_begin_array(w);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        enum limit limit = (enum limit)i;
        jw_begin_object(w);
        jw_put_string(w, STR("limit"), tidings_str(limit_name(limit)));
        jw_put_string(w, STR("about"), tidings_str(limit_text(limit)));
        status_rows_put_count(w, "value", counters->values[i]);
        uint64_t value = counters->values[i];
        if (limit_is_counted(limit)) {
            status_rows_put_count(w, "inUse", limit_in_use(counters, limit));
            status_rows_put_count(w, "reserve", share_reserve(value));
        }
        if (limit_is_shared(limit)) {
            status_rows_put_count(w, "share", share_part(counters, value));
            status_rows_put_count(w, "shareReached",
                                  __atomic_load_n(&counters->share_hits[i], __ATOMIC_RELAXED));
        }
        status_rows_put_count(w, "reached", __atomic_load_n(&counters->hits[i], __ATOMIC_RELAXED));
        jw_end_object(w);
    }
    jw_end_array(w);
}

/* Appends `{…},{…}`. On the worker's thread. Returns true if these are all rows, false if the page
 * is full. A single row larger than a page is written whole. */
static bool status_write_rows(struct buf *out, const struct worker *worker, enum status_rows what,
                              const struct status_after *after)
{
    struct page p = {
        .out = out, .before = out->len, .after = *after, .now_us = clock_monotonic_ns() / 1000};
    bool all = true;
    jw_init(&p.w, out);
    jw_begin_array(&p.w);
    if (what == STATUS_ROWS_STATS) {
        write_stats(&p, worker);
    } else if (what == STATUS_ROWS_FAILURES) {
        failures_write(worker->failures, worker->index, &p.w);
    } else {
        all = write_subscribers(&p, worker, what == STATUS_ROWS_SUBSCRIPTIONS);
    }
    jw_end_array(&p.w);
    return all;
}

static void status_rows_put_refusal(void *user, const char *why, uint64_t count)
{
    struct jw *w = user;
    jw_begin_object(w);
    jw_put_string(w, STR("reason"), tidings_str(why));
    status_rows_put_count(w, "count", count);
    jw_end_object(w);
}

/* The object of token counters; thread-safe. `auth` NULL: all of them are 0. */
static void status_write_tokens(struct jw *w, const struct auth *auth)
{
    struct auth_counts c = {0};
    struct auth_fetches f = {0};
    if (auth) {
        auth_get_counts(auth, &c);
        auth_get_fetches(auth, &f);
    }
    jw_begin_object(w);
    status_rows_put_count(w, "verified", c.verified);
    status_rows_put_count(w, "remembered", c.remembered);
    status_rows_put_count(w, "waiting", c.waiting);
    status_rows_put_count(w, "malformed", c.malformed);
    status_rows_put_count(w, "invalid", c.invalid);
    status_rows_put_count(w, "unavailable", c.unavailable);
    jw_key(w, STR("refused"));
    jw_begin_array(w);
    if (auth) {
        auth_each_refusal(auth, status_rows_put_refusal, w);
    }
    jw_end_array(w);
    status_rows_put_count(w, "keyFetches", f.keys);
    status_rows_put_count(w, "introspections", f.introspections);
    status_rows_put_count(w, "failedFetches", f.failures);
    jw_end_object(w);
}

/* -------------------------------------------------------------------------------------------------
 * Asks a worker's match index which subscriptions a URI matches, and writes a row for each.
 */

struct covers {
    struct jw w;
    struct tidings_str uri;
    size_t rows;
};

static void covers_put(struct covers *c, const struct subscription *sub, bool is_regex)
{
    char peer[24];
    const struct subscriber *subscriber = sub->subscriber;
    if (c->rows >= STATUS_PAGE_ROWS || sub->suspended ||
        !access_subscribes(subscriber->principal, c->uri)) {
        return;
    }
    c->rows++;
    snprintf(peer, sizeof(peer), "%llu", (unsigned long long)subscriber_id(subscriber));
    jw_begin_object(&c->w);
    jw_put_string(&c->w, STR("peer"), tidings_str(peer));
    jw_put_integer(&c->w, STR("worker"), (int64_t)subscriber->worker->index);
    status_put_who(&c->w, subscriber);
    jw_put_string(&c->w, STR("subscribedUri"), status_shown_uri(sub));
    jw_put_integer(&c->w, STR("periodMs"), (int64_t)sub->window.period_ms);
    jw_put_integer(&c->w, STR("waiting"), (int64_t)sub->queued);
    if (is_regex) {
        jw_put_bool(&c->w, STR("regex"), true);
    }
    jw_end_object(&c->w);
}

static void covers_found(void *user, struct match_node *node)
{
    covers_put(user, list_entry(node, struct subscription, node), false);
}

static void covers_unsure(void *user, struct match_node *node)
{
    covers_put(user, list_entry(node, struct subscription, node), true);
}

static bool covers_may_pay(void *user, struct match_node *node, uint64_t *ret_steps)
{
    (void)user;
    (void)node;
    *ret_steps = 0; /* there is no client to charge */
    return true;
}

static void covers_paid(void *user, struct match_node *node, uint64_t steps)
{
    (void)user;
    (void)node;
    (void)steps;
}

/* Appends an array of at most STATUS_PAGE_ROWS rows. `uri` is canonical. On the worker's thread. */
static void status_write_covers(struct buf *out, struct worker *worker, struct tidings_str uri)
{
    static const struct match_calls calls = {covers_found, covers_may_pay, covers_paid,
                                             covers_unsure};
    struct covers c = {.uri = uri};
    jw_init(&c.w, out);
    jw_begin_array(&c.w);
    match_find_paid(&worker->delivery->match, uri, &calls, &c);
    jw_end_array(&c.w);
}

/* -------------------------------------------------------------------------------------------------
 * Root accesses files of all users through capabilities. Reading stays allowed if directories are
 * served, because any user may own their files; writing only if root does not own the directory of
 * the store or of a socket. Ports below 1024 are bound after the other capabilities are dropped.
 */

#define PRIVILEGED_PORTS 1024u
#define ALL_RIGHTS UINT64_MAX

/* Returns true if we own it and its mode lets us write. A missing file: true. */
static bool rights_is_own(const char *path)
{
    struct stat st;
    mode_t wanted = S_IRUSR | S_IWUSR;
    if (stat(path, &st) < 0) {
        return true;
    }
    wanted |= S_ISDIR(st.st_mode) ? S_IXUSR : 0u;
    return st.st_uid == geteuid() && (st.st_mode & wanted) == wanted;
}

static bool rights_is_folder_own(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash ? (int)(slash - path) + 1 : 1;
    return (size_t)snprintf(folder, sizeof folder, "%.*s", len, slash ? path : ".") <
               sizeof folder &&
           rights_is_own(folder);
}

/* SQLite gives the files beside a database to the owner of the database. */
static uint64_t rights_to_store(const struct config *c)
{
    const char *store = config_store(c);
    bool is_file = store && !config_store_is_shared(c) && strcmp(store, ":memory:") != 0;
    return !is_file || (rights_is_folder_own(store) && rights_is_own(store))
               ? 0
               : CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_CHOWN);
}

static uint64_t rights_to_sockets(const struct config *c)
{
    const struct config_list *paths[] = {&c->unix_sockets, &c->http_unix};
    uint64_t rights = 0;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < paths[k]->count; i++) {
            rights |= rights_is_folder_own(paths[k]->items[i]) ? 0 : CAPABILITY(CAP_DAC_OVERRIDE);
        }
    }
    return rights;
}

static uint64_t rights_to_bind(const char *address)
{
    struct config_address a;
    bool is_privileged = address && config_parse_address(tidings_str(address), &a, NULL) == 0 &&
                         a.port > 0 && a.port < PRIVILEGED_PORTS;
    return is_privileged ? CAPABILITY(CAP_NET_BIND_SERVICE) : 0;
}

uint64_t rights_of_server(const struct config *c, bool serves_http)
{
    uint64_t rights = rights_to_store(c) | rights_to_sockets(c) | rights_to_bind(c->metrics);
    if (serves_http && c->http.port > 0 && c->http.port < PRIVILEGED_PORTS) {
        rights |= CAPABILITY(CAP_NET_BIND_SERVICE);
    }
    for (size_t i = 0; i < c->tcp.count; i++) {
        rights |= rights_to_bind(c->tcp.items[i]);
    }
    for (size_t i = 0; i < c->mount_count; i++) {
        rights |= c->mounts[i].path ? CAPABILITY(CAP_DAC_READ_SEARCH) : 0;
    }
    return rights;
}

uint64_t rights_of_helper(const struct config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        if (c->mounts[i].ops == &provider_command_ops) {
            return ALL_RIGHTS; /* commands run with the operator's permissions */
        }
    }
    bool has_log = c->log_file[0] != '\0' || c->access_log_file[0] != '\0';
    return CAPABILITY(CAP_DAC_READ_SEARCH) | (has_log ? CAPABILITY(CAP_DAC_OVERRIDE) : 0);
}

/* ---------------------------------------------------------------------------------------------- */

#define REPLY_MAX (8u << 20) /* a page plus one row */
#define ANNOUNCE_MS 1000u

/* Live resources come first. */
enum status_kind {
    STATUS_STATS,
    STATUS_PEERS,
    STATUS_SUBSCRIPTIONS,
    STATUS_FAILURES,
    STATUS_OVERVIEW, /* … and these are not gathered as rows */
    STATUS_NODES,
    STATUS_LIMITS,
    STATUS_TOKENS,
    STATUS_TOOLS,
    STATUS_METRICS, /* from here on, subscriptions are not possible */
    STATUS_HISTORY,
    STATUS_MOUNTS,
    STATUS_SANDBOX,
    STATUS_SEMANTICS, /* from here on, available without --self */
    STATUS_MINE,
};
#define STATUS_LIVE ((unsigned)STATUS_METRICS)
#define STATUS_KINDS ((unsigned)STATUS_MINE + 1)

#define STATUS_TEXT(text)                                                                          \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define STATUS_ROW(name, description)                                                              \
    {                                                                                              \
        STATUS_TEXT(STATUS_PREFIX name), STATUS_TEXT(name), STATUS_TEXT(description)               \
    }
static const struct {
    struct tidings_str uri, name, description;
} kinds[STATUS_KINDS] = {
    [STATUS_STATS] = STATUS_ROW("stats", "Counters of each worker"),
    [STATUS_PEERS] = STATUS_ROW("peers", "Connected clients"),
    [STATUS_SUBSCRIPTIONS] = STATUS_ROW("subscriptions", "Subscriptions of all clients"),
    [STATUS_FAILURES] = STATUS_ROW("failures", "Requests that failed, by method and code"),
    [STATUS_OVERVIEW] = STATUS_ROW("status", "The server at a glance"),
    [STATUS_NODES] = STATUS_ROW("nodes", "Servers that share the store"),
    [STATUS_LIMITS] = STATUS_ROW("limits", "Limits, and how often they were reached"),
    [STATUS_TOKENS] = STATUS_ROW("tokens", "Tokens that were verified, and why others were not"),
    [STATUS_TOOLS] = STATUS_ROW("tools", "Calls of each tool, and how long they took"),
    [STATUS_METRICS] = STATUS_ROW("metrics", "Metrics for Prometheus"),
    [STATUS_HISTORY] = STATUS_ROW("history", "The last 15 minutes, for the console"),
    [STATUS_MOUNTS] = STATUS_ROW("mounts", "Mounts and their providers"),
    [STATUS_SANDBOX] = STATUS_ROW("sandbox", "Rights that the process has dropped"),
    [STATUS_SEMANTICS] = STATUS_ROW("semantics", "Subscription semantics of each scheme"),
    [STATUS_MINE] = STATUS_ROW("subscriptions/mine", "Subscriptions of the reader"),
};

struct status {
    struct tidings_provider *provider;
    struct worker *const *cores;
    size_t worker_count;
    struct loop_timer *timer;
    unsigned watched; /* bit per kind */
    unsigned needs[STATUS_LIVE];
    const struct auth *auth; /* NULL: no token counters */
    const struct sandbox *sandbox;
    struct tidings_server *server;
    struct cluster *cluster; /* NULL: the store is not shared */
    bool all;                /* false: only STATUS_SEMANTICS and later kinds */
};

/* ---- gathering ------------------------------------------------------------------------------- */

struct gather;

struct reply {
    struct thread_message message;
    struct gather *gather;
    struct buf text;  /* an array of rows */
    bool is_complete; /* no more rows follow */
};

struct gather {
    struct tidings_read *read;
    enum status_kind kind;
    struct status_after after;
    char *covers; /* for subscriptions: the URI to match; NULL: any */
    size_t count;
    size_t left; /* atomic */
    struct reply replies[];
};

/* Join the parts in order, up to the first incomplete one, into one array. */
static void status_join(struct gather *g, struct buf *text)
{
    bool more = true;
    buf_init(text, REPLY_MAX * g->count + 64);
    buf_putc(text, '[');
    for (size_t i = 0; i < g->count; i++) {
        const struct reply *reply = &g->replies[i];
        struct tidings_str rows = buf_str(&reply->text);
        if (more && reply->text.failed) {
            text->failed = reply->text.failed;
        }
        if (more && rows.len > 2) { /* they include their own brackets */
            if (text->len > 1) {
                buf_putc(text, ',');
            }
            buf_put(text, rows.ptr + 1, rows.len - 2);
        }
        more = more && reply->is_complete;
    }
    buf_putc(text, ']');
}

static void status_finish(struct gather *g)
{
    struct buf text;
    struct tidings_error err = {0};
    status_join(g, &text);
    for (size_t i = 0; i < g->count; i++) {
        buf_deinit(&g->replies[i].text);
    }
    struct tidings_resource about = {0};
    about.name = kinds[g->kind].name;
    about.mime_type = STR("application/json");
    int rc = buf_check(&text, "the server's state", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(g->read, &about, buf_str(&text), &err);
    tidings_read_done(g->read, rc, &err);
    buf_deinit(&text);
    mem_free(g->covers);
    mem_free(g);
}

static void status_reply_done(struct reply *reply)
{
    struct gather *g = reply->gather;
    if (__atomic_sub_fetch(&g->left, 1, __ATOMIC_ACQ_REL) == 0) {
        status_finish(g);
    }
}

static void status_reply_deliver(struct thread_message *message, void *owner)
{
    static const enum status_rows rows[] = {
        [STATUS_STATS] = STATUS_ROWS_STATS,
        [STATUS_PEERS] = STATUS_ROWS_PEERS,
        [STATUS_SUBSCRIPTIONS] = STATUS_ROWS_SUBSCRIPTIONS,
        [STATUS_FAILURES] = STATUS_ROWS_FAILURES,
    };
    struct reply *reply = list_entry(message, struct reply, message);
    const struct gather *g = reply->gather;
    if (g->covers) {
        status_write_covers(&reply->text, owner, tidings_str(g->covers));
        reply->is_complete = true;
        status_reply_done(reply);
        return;
    }
    reply->is_complete = status_write_rows(&reply->text, owner, rows[g->kind], &g->after);
    status_reply_done(reply);
}

static void status_reply_drop(struct thread_message *message)
{
    status_reply_done(list_entry(message, struct reply, message));
}

/* Ask every worker for the rows of `what`, and hand over its `covers`. */
static void gather_start(const struct status *status, struct tidings_read *read,
                         const struct gather *what)
{
    struct gather *g = mem_zalloc(sizeof(*g) + status->worker_count * sizeof(g->replies[0]));
    if (!g) {
        mem_free(what->covers);
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
        return;
    }
    *g = *what;
    g->read = read;
    g->count = g->left = status->worker_count;
    for (size_t i = 0; i < g->count; i++) {
        g->replies[i].gather = g;
        g->replies[i].message.deliver = status_reply_deliver;
        g->replies[i].message.drop = status_reply_drop;
        buf_init(&g->replies[i].text, REPLY_MAX);
    }
    for (size_t i = 0, n = g->count; i < n; i++) {
        mailbox_send(status->cores[i]->mailbox, &g->replies[i].message);
    }
}

/* ---- the provider ---------------------------------------------------------------------------- */

static int find_kind(const struct status *status, struct tidings_str uri)
{
    for (unsigned i = status->all ? 0 : STATUS_SEMANTICS; i < STATUS_KINDS; i++) {
        if (str_eq(kinds[i].uri, uri)) {
            return (int)i;
        }
    }
    return -1;
}

static void status_describe(enum status_kind kind, struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = kinds[kind].uri;
    about->name = kinds[kind].name;
    about->description = kinds[kind].description;
    about->mime_type = kind == STATUS_METRICS ? STR(METRICS_TYPE_PLAIN) : STR("application/json");
    about->not_subscribable = (unsigned)kind >= STATUS_LIVE;
}

static void write_mounts(struct jw *w, const struct catalog *catalog)
{
    jw_begin_array(w);
    for (size_t i = 0; i < catalog->mount_count; i++) {
        const struct tidings_provider *p = catalog->mounts[i];
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), p->prefix);
        jw_put_string(w, STR("provider"), tidings_str(p->ops->name));
        jw_put_bool(w, STR("writable"), p->ops->write != NULL);
        if (!p->is_durable) {
            jw_put_string(w, STR("nodes"), tidings_str(mount_nodes_name(p->nodes)));
        }
        jw_end_object(w);
    }
    jw_end_array(w);
}

/* State that this worker has itself: its catalog, and the shared counters. */
static void read_catalog(const struct status *status, struct tidings_read *read,
                         enum status_kind kind)
{
    struct tidings_resource about;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    status_describe(kind, &about);
    buf_init(&text, REPLY_MAX);
    jw_init(&w, &text);
    if (kind == STATUS_NODES) {
        jw_begin_array(&w);
        jw_end_array(&w);
    } else if (kind == STATUS_LIMITS) {
        status_write_limits(&w, read->base.worker->limit_counters);
    } else if (kind == STATUS_TOKENS) {
        status_write_tokens(&w, status->auth);
    } else if (kind == STATUS_MOUNTS) {
        write_mounts(&w, read->base.worker->catalog);
    } else if (kind == STATUS_SANDBOX) {
        sandbox_write(status->sandbox, &w);
    } else {
        semantics_write(&w, read->base.worker->catalog, read->base.worker->self->allow_write);
    }
    int rc = buf_check(&text, "the server's state", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    tidings_read_done(read, rc, &err);
    buf_deinit(&text);
}

/* Remove `?covers=URI` from the subscriptions URI; *ret: that URI, canonical, NULL: none. */
static int take_covers(struct tidings_str *uri, char **ret, struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(*uri, '?', &query, &has_query);
    *ret = NULL;
    if (!has_query || !str_starts(query, STR("covers=")) ||
        !str_eq(path, kinds[STATUS_SUBSCRIPTIONS].uri)) {
        return 0;
    }
    struct buf text, canonical;
    buf_init(&text, URI_MAX + 1);
    buf_init(&canonical, URI_MAX + 1);
    int rc = uri_decode(&text, str_skip(query, sizeof("covers=") - 1), err);
    rc = rc == 0 ? uri_canonical(buf_str(&text), &canonical, err) : rc;
    if (rc == 0) {
        *ret = str_dup(buf_str(&canonical));
        rc = *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        *uri = path;
    }
    buf_deinit(&text);
    buf_deinit(&canonical);
    return rc;
}

/* Remove `?after=ROW`. */
static int take_after(struct tidings_str *uri, struct status_after *after,
                      struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(*uri, '?', &query, &has_query);
    *after = (struct status_after){0};
    if (!has_query) {
        return 0;
    }
    struct tidings_str value = str_skip(query, sizeof("after=") - 1);
    if (!str_starts(query, STR("after=")) || !status_after_parse(value, after)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the query must be 'after=' and the 'row' of the last row of a page");
    }
    *uri = path;
    return 0;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* The query, unless it is invalid; returns false for another resource. */
static bool is_mine(struct tidings_str uri, struct tidings_str *ret_after)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(uri, '?', &query, &has_query);
    *ret_after = str_starts(query, STR("after=")) ? str_skip(query, sizeof("after=") - 1) : query;
    return str_eq(path, kinds[STATUS_MINE].uri);
}

static void status_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    struct tidings_error err;
    struct status_after after;
    struct tidings_str mine_after;
    if (is_mine(uri, &mine_after)) {
        status_mine_read(read, mine_after);
        return;
    }
    char *covers = NULL;
    int rc = take_covers(&uri, &covers, &err);
    rc = rc == 0 ? take_after(&uri, &after, &err) : rc;
    if (rc < 0) {
        mem_free(covers);
        tidings_read_done(read, rc, &err);
        return;
    }
    int kind = find_kind(status, uri);
    static void (*const readers[STATUS_KINDS])(struct tidings_server *, struct tidings_read *) = {
        [STATUS_METRICS] = server_metrics_read,
        [STATUS_TOOLS] = server_tool_stats_read,
        [STATUS_OVERVIEW] = server_overview_read,
        [STATUS_HISTORY] = server_history_read,
    };
    if (kind >= 0 && readers[kind]) {
        readers[kind](status->server, read);
        return;
    }
    if (kind == (int)STATUS_NODES && cluster_is_joined(status->cluster)) {
        cluster_nodes_read(status->cluster, read);
        return;
    }
    if (kind >= (int)STATUS_NODES) {
        read_catalog(status, read, (enum status_kind)kind);
        return;
    }
    if (kind < 0 || status->worker_count == 0) {
        mem_free(covers);
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
        return;
    }
    gather_start(
        status, read,
        &(struct gather){.kind = (enum status_kind)kind, .after = after, .covers = covers});
}

static void status_list(struct tidings_provider *p, struct tidings_list *list)
{
    (void)p;
    static const enum status_kind order[] = {
        STATUS_FAILURES, STATUS_HISTORY,       STATUS_LIMITS,  STATUS_METRICS,   STATUS_MOUNTS,
        STATUS_NODES,    STATUS_PEERS,         STATUS_SANDBOX, STATUS_SEMANTICS, STATUS_STATS,
        STATUS_OVERVIEW, STATUS_SUBSCRIPTIONS, STATUS_MINE,    STATUS_TOKENS,    STATUS_TOOLS};
    _Static_assert(sizeof(order) / sizeof(order[0]) == STATUS_KINDS, "each is listed");
    struct tidings_error err;
    int rc = 1;
    for (size_t i = 0; i < STATUS_KINDS && rc > 0; i++) {
        struct tidings_resource about;
        status_describe(order[i], &about);
        if (str_cmp(about.uri, tidings_list_after(list)) > 0) {
            rc = tidings_list_add(list, &about, &err);
        }
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void status_stat(struct tidings_provider *p, struct tidings_stat *stat,
                        struct tidings_str uri)
{
    int kind = find_kind(tidings_provider_state(p), uri);
    struct tidings_resource about;
    if (kind < 0) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    status_describe((enum status_kind)kind, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

static void status_announce(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct status *status = user;
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        if (status->watched & (1u << i)) {
            struct tidings_change change = {.uri = kinds[i].uri};
            (void)tidings_provider_changed(status->provider, &change, NULL);
        }
    }
}

static unsigned kinds_below(struct tidings_str uri)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        if (str_eq(kinds[i].uri, uri) ||
            (uri.ptr[uri.len - 1] == '/' && str_starts(kinds[i].uri, uri))) {
            bits |= 1u << i;
        }
    }
    return bits;
}

static void status_watch(struct tidings_provider *p, struct tidings_watch *watch,
                         struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    if (kinds_below(uri) == 0) {
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* and there never will be one */
        return;
    }
    status->watched |= kinds_below(uri);
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        status->needs[i] += (kinds_below(uri) >> i) & 1u; /* scopes overlap */
    }
    if (!loop_timer_is_running(status->timer)) {
        loop_timer_start(status->timer, ANNOUNCE_MS, ANNOUNCE_MS);
    }
    tidings_watch_done(watch, 0, NULL);
}

static void status_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        status->needs[i] -= (kinds_below(uri) >> i) & 1u;
        status->watched &= status->needs[i] > 0 ? ~0u : ~(1u << i);
    }
    if (status->watched == 0) {
        loop_timer_stop(status->timer);
    }
}

static struct tidings_str status_row(size_t i, bool *ret_not_subscribable)
{
    *ret_not_subscribable = i >= STATUS_LIVE;
    return i < STATUS_KINDS ? kinds[i].name : STR_EMPTY;
}

static int status_open(struct tidings_provider *p, struct tidings_str config,
                       struct tidings_error *err)
{
    (void)config;
    struct status *status = tidings_provider_state(p);
    status->all = p->ops == &provider_status_ops;
    p->row = status->all ? status_row : NULL;
    p->refuses_watches = !status->all; /* without --self */
    status->provider = p;
    status->timer = loop_timer_open(p->host->loop, status_announce, status);
    return status->timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void status_close(struct tidings_provider *p)
{
    struct status *status = tidings_provider_state(p);
    loop_timer_close(status->timer);
}

void status_set_cores(struct tidings_provider *p, struct worker *const *cores, size_t count)
{
    struct status *status = tidings_provider_state(p);
    status->cores = cores;
    status->worker_count = count;
}

void status_set_auth(struct tidings_provider *p, const struct auth *auth)
{
    struct status *status = tidings_provider_state(p);
    status->auth = auth;
}

void status_set_server(struct tidings_provider *p, struct tidings_server *server)
{
    struct status *status = tidings_provider_state(p);
    status->server = server;
}

void status_set_cluster(struct tidings_provider *p, struct cluster *cluster)
{
    struct status *status = tidings_provider_state(p);
    status->cluster = cluster;
}

void status_set_sandbox(struct tidings_provider *p, const struct sandbox *sandbox)
{
    struct status *status = tidings_provider_state(p);
    status->sandbox = sandbox;
}

/* These resources are never announced. */
static void refuse_watch(struct tidings_provider *p, struct tidings_watch *watch,
                         struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL);
}

const struct tidings_provider_ops provider_semantics_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "self",
    .size = sizeof(struct status),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = status_open,
    .read = status_read,
    .stat = status_stat,
    .watch = refuse_watch,
    .unwatch = status_unwatch,
    .close = status_close,
};

const struct tidings_provider_ops provider_status_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "self",
    .size = sizeof(struct status),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = status_open,
    .read = status_read,
    .list = status_list,
    .stat = status_stat,
    .watch = status_watch,
    .unwatch = status_unwatch,
    .close = status_close,
};
