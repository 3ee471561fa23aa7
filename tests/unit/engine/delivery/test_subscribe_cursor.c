/* SPDX-License-Identifier: MIT
 *
 * The value of a cursor for a subscription: from the current epoch, from an earlier start of the
 * store, or from an unknown server; for durable and for volatile resources.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscribe.h"
#include "engine/shared.h"

#define FIRST 100u /* the newest position when this epoch began */
#define EARLIER 0xeau

/* ---- a hub with a log that knows one earlier epoch ------------------------------------------- */

static struct loop *loop;
static struct hub *hub;
static struct shared *shared;
static struct delivery delivery; /* the server only reads it … */
static struct worker worker;     /* … of both */
static struct changelog *kept_log;
static const struct changelog_ops *real;
static struct changelog_ops ops;

/* The store crashed at 60: changes that were only announced before that are lost. */
static bool resume(const struct changelog *log, uint64_t epoch, uint64_t position, bool is_durable,
                   uint64_t *ret)
{
    (void)log;
    *ret = position;
    return epoch == EARLIER && position <= 90 && (is_durable || position >= 60);
}

static int open_mount(struct tidings_provider *p, struct tidings_str config,
                      struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void close_mount(struct tidings_provider *p)
{
    (void)p;
}

static void read_nothing(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    (void)p;
    (void)read;
    (void)uri;
}

static void read_own(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)read;
    (void)uri;
}

static const struct tidings_provider_ops table = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "mount",
    .open = open_mount,
    .read = read_nothing,
    .close = close_mount,
};

static void mount_as(const char *prefix, bool is_durable, enum mount_nodes nodes)
{
    struct tidings_provider *p = NULL;
    assert_int_equal(hub_mount(hub, &table, tidings_str(prefix), STR_EMPTY, &p, NULL), 0);
    p->is_durable = is_durable;
    p->nodes = nodes;
}

static void mount(const char *prefix, bool is_durable)
{
    mount_as(prefix, is_durable, MOUNT_LOCAL);
}

static void add(const char *uri)
{
    struct tidings_resource about = tidings_resource(uri, "own", NULL);
    struct catalog_entry *e = catalog_entry_create(&about, false, read_own, NULL, NULL);
    assert_int_equal(hub_add_entry(hub, e, NULL), 0);
}

static int begin(void **state)
{
    (void)state;
    const struct changelog_limits limits = {.max_entries = 10, .max_bytes = 1u << 20};
    struct hub_options o = {.log = limits};
    loop = loop_create(NULL);
    shared = shared_create(NULL);
    hub = hub_create(loop, shared, NULL);
    o.durable = changelog_memory_create_at(&limits, FIRST, NULL);
    assert_true(loop && hub && o.durable);
    kept_log = o.durable;
    real = kept_log->ops;
    assert_int_equal(hub_start(hub, &o, NULL), 0);
    mount("kept:///", true);
    mount("kept:///inner/", false);
    mount("file:///", false);
    mount_as("owned:///", false, MOUNT_OWNED);
    mount_as("shared:///", false, MOUNT_SHARED);
    add("kept:///own/x");
    memset(&worker, 0, sizeof(worker));
    memset(&delivery, 0, sizeof(delivery));
    worker.delivery = &delivery;
    worker.hub = hub;
    worker.epoch = hub_epoch(hub);
    worker.delivery->positions.first = FIRST;
    worker.catalog = hub_catalog(hub);
    /* From here on only `resume` is called. */
    ops = *real;
    ops.resume = resume;
    kept_log->ops = &ops;
    return 0;
}

static int end(void **state)
{
    (void)state;
    catalog_unref(worker.catalog);
    kept_log->ops = real;
    hub_destroy(hub);
    shared_destroy(shared);
    loop_destroy(loop);
    return 0;
}

static uint64_t since(enum pattern_kind kind, const char *uri, struct log_cursor cursor)
{
    struct subscribe_batch s = {.worker = &worker};
    struct subscribe_item w = {.owner = &s, .kind = kind, .uri = tidings_str(uri)};
    w.options.since = cursor;
    return subscribe_item_since(&w, 150);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void durable_cursor_resumes_after_a_restart(void **state)
{
    (void)state;
    static const struct {
        enum pattern_kind kind;
        const char *uri;
        bool expected;
    } rows[] = {
        {PATTERN_LITERAL, "kept:///a", true},
        {PATTERN_LITERAL, "kept:///own/x", false}, /* registered */
        {PATTERN_LITERAL, "kept:///inner/a", false},
        {PATTERN_LITERAL, "file:///a", false},
        {PATTERN_LITERAL, "other:///a", false},
        {PATTERN_CONTAINER, "kept:///a/", true},
        {PATTERN_CONTAINER, "kept:///", false}, /* another mount inside, and registered resources */
        {PATTERN_CONTAINER, "kept:///own/", false},
        {PATTERN_CONTAINER, "kept:///inner/", false},
        {PATTERN_GLOB, "kept:///a/*.md", true},
        {PATTERN_GLOB, "kept:///**", false},
        {PATTERN_GLOB, "kept:///i*", false},
        {PATTERN_GLOB, "kept:///o*", false},
        {PATTERN_GLOB, "kept:///[ab]*", false}, /* this can never happen, but it is not checked */
        {PATTERN_GLOB, "*:///a", false},
        {PATTERN_GLOB_Q, "kept:///a?b", true},
        {PATTERN_TEMPLATE, "kept:///a/{id}", true},
        {PATTERN_TEMPLATE, "kept:///{id}", false},
        {PATTERN_TEMPLATE, "{+any}", false},
        {PATTERN_REGEX, "^kept:///a/", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t found =
            since(rows[i].kind, rows[i].uri, (struct log_cursor){EARLIER, 7000, 42, true, 0, 0});
        if (found != (rows[i].expected ? 42 : SINCE_UNKNOWN)) {
            fail_msg("%s", rows[i].uri);
        }
    }
}

/* The log has it by its position, like durable changes; for shared resources each node has
 * separate numbers. */
static void owned_cursor_resumes_on_another_node(void **state)
{
    (void)state;
    struct log_cursor cursor = {EARLIER, 7000, 75, true, 0, 0};
    assert_int_equal(since(PATTERN_LITERAL, "owned:///a", cursor), 75);
    assert_int_equal(since(PATTERN_CONTAINER, "owned:///", cursor), 75);
    assert_true(since(PATTERN_LITERAL, "shared:///a", cursor) == SINCE_UNKNOWN);
    cursor.position = 42;
    assert_true(since(PATTERN_LITERAL, "owned:///a", cursor) == SINCE_UNKNOWN);
    assert_int_equal(since(PATTERN_LITERAL, "kept:///a", cursor), 42);
    assert_int_equal(
        since(PATTERN_LITERAL, "owned:///a", (struct log_cursor){worker.epoch, 50, 50, true, 0, 0}),
        50);
}

static void unknown_cursor_is_worthless(void **state)
{
    (void)state;
    const struct log_cursor unknown[] = {
        {EARLIER, 7000, 91, true, 0, 0},      /* a position it never reached */
        {EARLIER, 42, 0, false, 0, 0},        /* without a position */
        {EARLIER + 1, 42, 42, true, 0, 0},    /* from an unknown server */
        {worker.epoch, 151, 100, true, 0, 0}, /* from the future */
    };
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_true(since(PATTERN_LITERAL, "kept:///a", unknown[i]) == SINCE_UNKNOWN);
    }
}

static void number_counts_within_its_epoch(void **state)
{
    (void)state;
    assert_int_equal(
        since(PATTERN_LITERAL, "kept:///a", (struct log_cursor){worker.epoch, 120, 1, true, 0, 0}),
        120);
    assert_int_equal(
        since(PATTERN_LITERAL, "file:///a", (struct log_cursor){worker.epoch, 120, 1, true, 0, 0}),
        120);
    assert_int_equal(
        since(PATTERN_REGEX, "a", (struct log_cursor){worker.epoch, FIRST, 1, true, 0, 0}), FIRST);
    /* Below its start: the log has only durable changes. */
    assert_int_equal(
        since(PATTERN_LITERAL, "kept:///a", (struct log_cursor){worker.epoch, 50, 50, true, 0, 0}),
        50);
    assert_true(since(PATTERN_LITERAL, "file:///a",
                      (struct log_cursor){worker.epoch, 50, 50, true, 0, 0}) == SINCE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(durable_cursor_resumes_after_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(owned_cursor_resumes_on_another_node, begin, end),
        cmocka_unit_test_setup_teardown(unknown_cursor_is_worthless, begin, end),
        cmocka_unit_test_setup_teardown(number_counts_within_its_epoch, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
