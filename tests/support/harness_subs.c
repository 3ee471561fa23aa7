/* SPDX-License-Identifier: MIT
 *
 * Subscriptions with options, and a provider for them.
 */
#include "support/harness_subs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"

/* ---- saying ---------------------------------------------------------------------------------- */

void client_listen_with(struct client *c, const char *id, const char *uris, const char *options)
{
    const char *text =
        text_of("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/listen\",\"params\":{"
                "\"notifications\":{\"resourceSubscriptions\":%s},"
                "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientCapabilities\":{}%s%s}}}",
                id, uris, options ? ",\"dev.tidings/options\":" : "", options ? options : "");
    struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = STR("subscriptions/listen"),
    };
    client_say(c, c->channel.ops->is_http ? &headers : NULL, text);
}

struct client *listen_with(struct harness *b, const char *uris, const char *options)
{
    struct client *c = client_http(b);
    client_listen_with(c, "1", uris, options);
    harness_run_until_idle(b);
    assert_int_equal(client_count(c, SAID_ACK), 1);
    return c;
}

static const char *subscribe_params(const char *uri, const char *options)
{
    return text_of("\"uri\":\"%s\"%s%s%s", uri,
                   options ? ",\"_meta\":{\"dev.tidings/options\":" : "", options ? options : "",
                   options ? "}" : "");
}

const char *session_subscribe_with(struct harness_session *s, const char *uri, const char *options)
{
    struct client *c =
        session_request(s, "5", "resources/subscribe", subscribe_params(uri, options));
    harness_run_until_idle(s->harness);
    const char *answer = text_of("%s", client_answer(c)->text);
    client_free(c);
    return answer;
}

const char *pipe_subscribe_with(struct client *pipe, const char *id, const char *uri,
                                const char *options)
{
    client_legacy(pipe, NULL, id, "resources/subscribe", subscribe_params(uri, options));
    harness_run_until_idle(pipe->harness);
    const struct utterance *u =
        client_nth_kind(pipe, SAID_ANSWER, client_count_kind(pipe, SAID_ANSWER) - 1);
    return text_of("%s", u->text);
}

void harness_announce(struct harness *b, const struct tidings_change *change)
{
    assert_int_equal(hub_announce(b->hub, change, NULL), 0);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_update(const struct utterance *u, const char *subscribed)
{
    if (u->kind != SAID_EVENT) {
        return false;
    }
    const char *method = json_at(u->text, "method");
    if (!method || strcmp(method, SAID_UPDATED) != 0) {
        return false;
    }
    return !subscribed || strcmp(json_at(u->text, "params|subscribedUri"), subscribed) == 0;
}

size_t update_count(const struct client *c, const char *subscribed)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += is_update(&c->said[i], subscribed);
    }
    return n;
}

const char *update_nth(const struct client *c, const char *subscribed, size_t n)
{
    for (size_t i = 0; i < c->count; i++) {
        if (is_update(&c->said[i], subscribed) && n-- == 0) {
            return c->said[i].text;
        }
    }
    fail_msg("no such update for %s", subscribed ? subscribed : "anything");
    return NULL;
}

const char *refused_reason(const struct client *c, const char *uri)
{
    const char *ack = client_nth(c, SAID_ACK, client_count(c, SAID_ACK) - 1);
    for (unsigned i = 0;; i++) {
        const char *at = json_at(ack, text_of("params|_meta|dev.tidings/refused|%u|uri", i));
        if (!at) {
            return NULL;
        }
        if (strcmp(at, uri) == 0) {
            return json_at(ack, text_of("params|_meta|dev.tidings/refused|%u|reason", i));
        }
    }
}

bool is_honoured(const struct client *c, const char *uri)
{
    const char *ack = client_nth(c, SAID_ACK, client_count(c, SAID_ACK) - 1);
    for (unsigned i = 0;; i++) {
        const char *at = json_at(ack, text_of("params|notifications|resourceSubscriptions|%u", i));
        if (!at || strcmp(at, uri) == 0) {
            return at != NULL;
        }
    }
}

uint64_t number_of(const char *version)
{
    assert_non_null(version);
    struct tidings_str rest;
    uint64_t number = 0;
    (void)str_cut(tidings_str(version), '.', &rest, NULL);
    assert_true(str_to_u64(rest, &number));
    return number;
}

uint64_t version_of(const char *update)
{
    return number_of(json_at(update, "params|_meta|dev.tidings/version"));
}

void harness_end_windows(struct harness *b)
{
    for (size_t i = 0; i < b->worker_count; i++) {
        struct windows *all = &b->worker[i]->delivery->windows;
        while (all->count > 0) {
            struct window *w = windows_due(all, windows_next(all));
            assert_non_null(w);
            subscriber_release_deferred(list_entry(w, struct subscription, window), lag_due_now());
        }
    }
    harness_run_until_idle(b);
}

static bool no_window_holds(void *user)
{
    struct harness *b = user;
    for (size_t i = 0; i < b->worker_count; i++) {
        if (b->worker[i]->delivery->windows.count > 0) {
            return false;
        }
    }
    return true;
}

void harness_await_windows(struct harness *b)
{
    harness_until(b, no_window_holds, b);
    harness_run_until_idle(b);
}

/* ---- the provider ---------------------------------------------------------------------------- */

static struct stub *next_stub; /* whom the instance being opened belongs to */

static struct stub *of(struct tidings_provider *p)
{
    return *(struct stub **)tidings_provider_state(p);
}

static int stub_open(struct tidings_provider *p, struct tidings_str config,
                     struct tidings_error *err)
{
    (void)config;
    (void)err;
    *(struct stub **)tidings_provider_state(p) = next_stub;
    next_stub->provider = p;
    return 0;
}

static void stub_close(struct tidings_provider *p)
{
    (void)p;
}

static int find(const struct stub *p, struct tidings_str uri)
{
    for (size_t i = 0; i < p->count; i++) {
        if (str_eq(tidings_str(p->uris[i]), uri)) {
            return (int)i;
        }
    }
    return -1;
}

static void describe(const struct stub *p, size_t i, struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = tidings_str(p->uris[i]);
    about->name = STR("thing");
    about->listable = p->listable[i];
    about->not_subscribable = p->is_mute[i];
}

static void stub_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error err = {0};
    int rc = TIDINGS_E_NOTFOUND;
    if (find(of(p), uri) >= 0) {
        rc = tidings_read_text(read, NULL, uri, &err);
    }
    tidings_read_done(read, rc, &err);
}

static void list_now(struct stub *p, struct tidings_list *list)
{
    struct tidings_error err = {0};
    struct tidings_str after = tidings_list_after(list);
    int rc = 1;
    for (size_t i = 0; i < p->count && rc > 0; i++) {
        struct tidings_resource row;
        describe(p, i, &row);
        if (after.len == 0 || str_cmp(row.uri, after) > 0) {
            rc = tidings_list_add(list, &row, &err);
            rc = p->lists_fail < 0 ? p->lists_fail : rc;
        }
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void stub_list(struct tidings_provider *provider, struct tidings_list *list)
{
    struct stub *p = of(provider);
    p->lists++;
    if (p->holds_lists) {
        assert_null(p->waiting);
        p->waiting = list;
        return;
    }
    list_now(p, list);
}

void stub_finish_list(struct stub *p)
{
    struct tidings_list *list = p->waiting;
    assert_non_null(list);
    p->waiting = NULL;
    p->holds_lists = false;
    list_now(p, list);
}

static void stub_stat(struct tidings_provider *provider, struct tidings_stat *stat,
                      struct tidings_str uri)
{
    struct stub *p = of(provider);
    struct tidings_resource about;
    int i = find(p, uri);
    if (p->holds_stats) {
        p->held_stat = stat;
        return;
    }
    if (i < 0 || p->stats_fail < 0) {
        tidings_stat_done(stat, p->stats_fail < 0 ? p->stats_fail : TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    describe(p, (size_t)i, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

void stub_finish_stat(struct stub *p)
{
    tidings_stat_done(p->held_stat, p->stats_fail < 0 ? p->stats_fail : TIDINGS_E_NOTFOUND, NULL,
                      NULL);
    p->held_stat = NULL;
}

static size_t scope_at(struct stub *p, struct tidings_str uri)
{
    size_t i = 0;
    while (i < p->scope_count && !str_eq(tidings_str(p->scopes[i].uri), uri)) {
        i++;
    }
    if (i == p->scope_count) {
        assert_true(i < STUB_SCOPES && uri.len < sizeof(p->scopes[i].uri));
        snprintf(p->scopes[i].uri, sizeof(p->scopes[i].uri), "%.*s", STR_ARG(uri));
        p->scope_count++;
    }
    return i;
}

static void stub_watch(struct tidings_provider *provider, struct tidings_watch *watch,
                       struct tidings_str uri)
{
    struct stub *p = of(provider);
    p->scopes[scope_at(p, uri)].on += p->watches_fail == 0;
    tidings_watch_done(watch, p->watches_fail, NULL);
}

static void stub_unwatch(struct tidings_provider *provider, struct tidings_str uri)
{
    struct stub *p = of(provider);
    size_t i = scope_at(p, uri);
    assert_true(p->scopes[i].off < p->scopes[i].on);
    p->scopes[i].off++;
}

static bool stub_covers(struct tidings_provider *provider, struct tidings_str subscribed,
                        struct tidings_str changed)
{
    if (of(provider)->covers_below) {
        return str_starts(changed, subscribed);
    }
    /* …/group:NAME covers …/member:NAME:… */
    struct tidings_str group = str_skip(subscribed, tidings_provider_prefix(provider).len);
    struct tidings_str member = str_skip(changed, tidings_provider_prefix(provider).len);
    if (!str_starts(group, STR("group:")) || !str_starts(member, STR("member:"))) {
        return false;
    }
    struct tidings_str rest;
    return str_eq(str_cut(str_skip(member, 7), ':', &rest, NULL), str_skip(group, 6));
}

static int stub_query(struct tidings_provider *provider, struct tidings_str uri, char *glob,
                      size_t *len, struct tidings_error *err)
{
    (void)provider;
    struct tidings_str query;
    struct tidings_str path = str_cut(uri, '?', &query, NULL);
    if (!str_starts(query, STR("pattern=")) || query.len == 8) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a query here is '?pattern=GLOB'");
    }
    bool slash = str_ends(path, STR("/"));
    int n = snprintf(glob, *len, "%.*s%s%.*s", STR_ARG(path), slash ? "" : "/",
                     STR_ARG(str_skip(query, 8)));
    assert_true(n > 0 && (size_t)n < *len);
    *len = (size_t)n;
    return 0;
}

static void stub_write(struct tidings_provider *p, struct tidings_write *write,
                       struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_write_done(write, 0, STR_EMPTY, NULL);
}

void stub_mount(struct stub *p, struct harness *b, const char *prefix, unsigned flags)
{
    static struct tidings_provider_ops all[128];
    struct tidings_provider_ops *ops = &all[flags & 127u];
    *ops = (struct tidings_provider_ops){
        .abi = TIDINGS_PROVIDER_ABI,
        .name = "stub",
        .size = sizeof(struct stub *),
        .flags = (flags & STUB_FIXED ? TIDINGS_PROVIDER_FIXED_LIST : 0u) |
                 (flags & STUB_SINGLE ? TIDINGS_PROVIDER_SINGLE : 0u) |
                 (flags & STUB_BARE ? TIDINGS_PROVIDER_BARE_CHANGES : 0u),
        .open = stub_open,
        .read = stub_read,
        .list = stub_list,
        .stat = stub_stat,
        .watch = flags & STUB_UNWATCHED ? NULL : stub_watch,
        .unwatch = flags & STUB_UNWATCHED ? NULL : stub_unwatch,
        .covers = flags & STUB_COVERS ? stub_covers : NULL,
        .close = stub_close,
        .write = flags & STUB_WRITES ? stub_write : NULL,
        .query = flags & STUB_QUERY ? stub_query : NULL,
    };
    struct tidings_error err = {0};
    memset(p, 0, sizeof(*p));
    next_stub = p;
    assert_int_equal(hub_mount(b->hub, ops, tidings_str(prefix), STR_EMPTY, NULL, &err), 0);
    harness_run_until_idle(b);
}

void stub_add(struct stub *p, const char *uri, bool listable)
{
    assert_true(p->count < STUB_RESOURCES && strlen(uri) < sizeof(p->uris[0]));
    snprintf(p->uris[p->count], sizeof(p->uris[0]), "%s", uri);
    p->listable[p->count++] = listable;
}

unsigned stub_watched(const struct stub *p, const char *uri)
{
    for (size_t i = 0; i < p->scope_count; i++) {
        if (strcmp(p->scopes[i].uri, uri) == 0) {
            return p->scopes[i].on - p->scopes[i].off;
        }
    }
    return 0;
}

unsigned stub_watched_all(const struct stub *p)
{
    unsigned n = 0;
    for (size_t i = 0; i < p->scope_count; i++) {
        n += p->scopes[i].on - p->scopes[i].off;
    }
    return n;
}
