/* SPDX-License-Identifier: MIT
 *
 * The harness up to delivery: loop, hub, workers that take no requests, and resources.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/harness_delivery.h"

#include "base/str.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "security/failures.h"

#undef calloc /* workers may outlive a test */
#undef free

#define MAX_TURNS 100000
#define MAX_WAIT_MS 20000

void harness_init(struct harness *b)
{
    memset(b, 0, sizeof(*b));
    b->worker_count = 1;
    b->limits = (struct worker_limits){
        .page_size = 100,
        .max_page_size = 1000,
        .max_read_bytes = 64u * 1024u,
        .max_depth = 32,
        .max_sessions = 1000,
        .max_listens = 8,
        .max_uris_per_listen = 64,
        .max_subscriptions = 64,
        .outbox_max = 64,
        .max_broad = 100,
        .max_value_bytes = 65536,
        .session_timeout_ms = 60000,
        .max_calls = 16,
        .call_timeout_ms = 60000,
        .ask_timeout_ms = 600000,
        .max_tasks = 32,
        .max_client_tasks = 8,
        .task_ttl_ms = 3600000,
        .retry_ms = 1234,
        .bookmark_ms = 60000,
        .list_linger_ms = 60000,
    };
    b->self = (struct server_identity){
        .implementation = STR("{\"name\":\"bench\",\"version\":\"1\"}"),
        .instructions = STR_EMPTY,
        .ceiling = STR_EMPTY,
        .list_changed = true,
    };
    b->option_limits = (struct option_limits){.max_window_ms = 60000, .max_rate_ms = 60000};
    b->options = (struct hub_options){
        .log = {.max_entries = 1000, .max_bytes = 1u << 20},
        .list_changed_ms = 20,
        .list_changed = true,
    };
}

void harness_start_hub(struct harness *b)
{
    struct tidings_error err = {0};
    b->loop = loop_create(&err);
    assert_non_null(b->loop);
    b->shared = shared_create(&err);
    assert_non_null(b->shared);
    b->hub = hub_create(b->loop, b->shared, &err);
    assert_non_null(b->hub);
    assert_int_equal(hub_start(b->hub, &b->options, &err), 0);
    hub_set_running(b->hub, true);
    b->limits.options = &b->option_limits;
}

void harness_detach(struct harness *b)
{
    hub_detach_all(b->hub);
    for (int i = 0; i < 3; i++) {
        loop_turn(b->loop);
    }
}

void harness_stop_hub(struct harness *b)
{
    hub_set_running(b->hub, false);
    hub_destroy(b->hub);
    shared_destroy(b->shared);
    loop_destroy(b->loop);
    for (size_t i = 0; i < b->worker_count; i++) {
        free(b->state[i]);
        b->state[i] = NULL;
    }
}

/* ---- workers that take no requests ----------------------------------------------------------- */

/* The state of each part up to delivery. */
struct delivering {
    struct worker worker;
    struct principals principals;
    struct failures failures;
    struct requests requests;
    struct handlers handlers;
    struct delivery delivery;
};

void harness_start_delivery(struct harness *b)
{
    struct tidings_error err = {0};
    harness_start_hub(b);
    for (size_t i = 0; i < b->worker_count; i++) {
        struct delivering *d = b->state[i] = calloc(1, sizeof(*d));
        assert_non_null(d);
        struct worker *worker = b->worker[i] = &d->worker;
        worker->limits = &b->limits;
        worker->self = &b->self;
        worker->loop = b->loop;
        worker->index = (unsigned)i;
        worker->principals = &d->principals;
        worker->failures = &d->failures;
        worker->requests = &d->requests;
        worker->handlers = &d->handlers;
        worker->delivery = &d->delivery;
        shared_give(b->shared, worker);
        delivery_use_hub(worker, b->hub);
        assert_int_equal(worker_init(worker, &b->shared->seal, &err), 0);
        principals_init(worker->principals, worker->loop, worker->quotas, worker->client_accounts);
        requests_init(worker->requests);
        assert_true(calls_open(worker));
        assert_int_equal(delivery_init(worker, &err), 0);
    }
}

void harness_stop_delivery(struct harness *b)
{
    for (size_t i = 0; i < b->worker_count; i++) {
        struct worker *worker = b->worker[i];
        delivery_end_subscribers(worker);
        calls_close(worker);
        worker_deinit(worker);
        delivery_deinit(worker);
        principals_deinit(worker->principals);
        catalog_unref(worker->catalog);
        handlers_deinit(worker);
    }
    harness_detach(b);
    harness_stop_hub(b);
}

static bool is_idle(struct harness *b)
{
    if (!mailbox_is_empty(hub_mailbox(b->hub))) {
        return false;
    }
    for (size_t i = 0; i < b->worker_count; i++) {
        if (!mailbox_is_empty(b->worker[i]->mailbox) ||
            !list_empty(&b->worker[i]->delivery->dirty)) {
            return false;
        }
    }
    return true;
}

void harness_run_until_idle(struct harness *b)
{
    int quiet = 0;
    for (int i = 0; i < MAX_TURNS && quiet < 2; i++) {
        loop_turn(b->loop);
        quiet = is_idle(b) ? quiet + 1 : 0;
    }
    assert_int_equal(quiet, 2);
}

void harness_until(struct harness *b, bool (*fn)(void *user), void *user)
{
    loop_turn(b->loop);
    uint64_t deadline = loop_now_ms(b->loop) + MAX_WAIT_MS;
    while (!fn(user)) {
        struct pollfd pollfd = {.fd = loop_fd(b->loop), .events = POLLIN};
        int timeout = loop_timeout_ms(b->loop);
        (void)poll(&pollfd, 1, timeout < 0 || timeout > 5 ? 5 : timeout);
        loop_turn(b->loop);
        assert_true(loop_now_ms(b->loop) < deadline);
    }
}

/* ---- resources ------------------------------------------------------------------------------- */

static void read_text(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    char text[256];
    int n = snprintf(text, sizeof(text), "text of %.*s", STR_ARG(uri));
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_strn(text, (size_t)n), &err);
    tidings_read_done(read, rc, &err);
}

static void add(struct harness *b, const char *uri, bool is_template)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = STR("a thing");
    about.mime_type = STR("text/plain");
    struct tidings_error err = {0};
    struct catalog_entry *e = catalog_entry_create(&about, is_template, read_text, b, &err);
    assert_non_null(e);
    assert_int_equal(hub_add_entry(b->hub, e, &err), 0);
    harness_run_until_idle(b);
}

void harness_add(struct harness *b, const char *uri)
{
    add(b, uri, false);
}

void harness_add_template(struct harness *b, const char *uri_template)
{
    add(b, uri_template, true);
}

void harness_remove(struct harness *b, const char *uri)
{
    struct tidings_error err = {0};
    assert_int_equal(hub_remove_entry(b->hub, tidings_str(uri), &err), 0);
    harness_run_until_idle(b);
}

void harness_change(struct harness *b, const char *uri, enum tidings_change_kind kind)
{
    struct tidings_change change = {.uri = tidings_str(uri), .kind = kind};
    assert_int_equal(hub_announce(b->hub, &change, NULL), 0);
}

void harness_update(struct harness *b, const char *uri)
{
    harness_change(b, uri, TIDINGS_CHANGE_UPDATED);
}
