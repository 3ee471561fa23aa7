/* SPDX-License-Identifier: MIT
 *
 * Many rows at a time in PostgreSQL: versions of one batch inserted together, and other nodes'
 * writes read from only the tables that contain some; even if an untrusted client sends false
 * notifications.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cluster/postgres_internal.h"
#include "support/postgres.h"
#include "support/store_steps.h"

#define WAIT_MS 10000

static struct postgres_server *server;
static char url[POSTGRES_URL];

static long long count_rows(const char *sql)
{
    return postgres_server_number(server, postgres_url_schema(url), sql);
}

/* ---- together -------------------------------------------------------------------------------- */

static void batched_versions_are_stored_like_single_ones(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    char *large = mem_alloc(200001);
    memset(large, '1', 200000); /* digits: a number in JSON */
    large[200000] = '\0';
    store_begin(a);
    for (int i = 0; i < 150; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "e%d", i);
        store_put(a, id, 1, "1");
    }
    store_put(a, "e7", 2, "2"); /* twice in the batch, both consecutive and apart */
    store_put(a, "e7", 3, "3");
    store_announce(a, "n:///1");
    store_put(a, "big", 1, large);
    store_put(a, "e8", 2, "2");
    assert_int_equal(store_value(a, "e7"), 3);
    assert_int_equal(store_value(a, "e8"), 2);
    store_put(a, "e9", 2, "2");
    store_commit(a);
    assert_int_equal(count_rows("SELECT count(*) FROM tidings_versions"), 155);
    assert_int_equal(count_rows("SELECT count(*) FROM tidings_current"), 151);
    assert_int_equal(count_rows("SELECT count(*) FROM tidings_current c JOIN tidings_versions v ON"
                                " v.position=c.position AND v.id=c.id WHERE v.vfrom=(SELECT"
                                " max(vfrom) FROM tidings_versions n WHERE n.id=c.id)"),
                     151);
    assert_int_equal(count_rows("SELECT position FROM tidings_announced"), 153);
    assert_int_equal(count_rows("SELECT octet_length(value) FROM tidings_versions WHERE id='big'"),
                     200000);
    const char *told = store_followed(b, true);
    assert_non_null(strstr(told, "\n150 entity e149\n151 entity e7\n152 entity e7\n"
                                 "153 announced n:///1 e o 7\n154 entity big\n155 entity e8\n"
                                 "156 entity e9\n"));
    assert_int_equal(store_value(b, "e7"), 3);
    mem_free(large);
    store_close(a);
    store_close(b);
}

static void rolled_back_writes_are_not_sent(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url);
    store_put_alone(a, "x", 1, "1");
    store_begin(a);
    store_put(a, "x", 2, "2");
    store_put(a, "y", 1, "1");
    a->ops->rollback(a);
    assert_int_equal(store_value(a, "x"), 1);
    store_begin(a);
    store_put(a, "z", 1, "1");
    store_commit(a);
    assert_int_equal(count_rows("SELECT count(*) FROM tidings_versions"), 2);
    assert_int_equal(store_value(a, "y"), -1);
    assert_int_equal(count_rows("SELECT position FROM tidings_versions WHERE id='z'"), 2);
    store_close(a);
}

/* ---- following ------------------------------------------------------------------------------- */

/* `b` listens from this point on. */
static int descriptor_of(struct store *b)
{
    store_followed(b, false);
    (void)b->ops->descriptor(b); /* once: the other's number may be equal */
    return b->ops->descriptor(b);
}

/* Waits until a wakeup reports changes to follow. */
static void await_wake(struct store *b)
{
    while (!b->ops->has_news(b)) {
        struct pollfd p = {.fd = b->ops->descriptor(b), .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    }
}

static void write_some(struct store *a, unsigned kind, int i)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s%d", kind == 0 ? "e" : kind == 1 ? "n:///" : "p:///", i);
    if (kind == 0) {
        store_put_alone(a, name, 1, "1");
    } else if (kind == 1) {
        store_announce_alone(a, name);
    } else {
        store_publish_alone(a, name, "x");
    }
}

static void notified_node_follows_every_kind_of_change(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url), *late = store_open(url);
    struct buf told;
    uint32_t random = 1;
    buf_init(&told, 1u << 20);
    assert_true(descriptor_of(b) >= 0);
    for (int i = 0; i < 300; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned draw = random >> 24; /* long runs of one kind, with others in between */
        write_some(a, draw < 8 ? 2 : draw < 24 ? 1 : i / 100 == 1 ? 1 : 0, i);
        if (draw % 3 == 0) {
            await_wake(b);
            buf_puts(&told, tidings_str(store_followed(b, true)));
        }
    }
    buf_puts(&told, tidings_str(store_followed(b, true)));
    assert_string_equal(told.ptr, store_followed(late, true));
    assert_int_equal(b->ops->followed(b), 300);
    buf_deinit(&told);
    store_close(a);
    store_close(b);
    store_close(late);
}

static void false_notification_changes_nothing(void **state)
{
    (void)state;
    static const char *const said[] = {
        "99", "9223372036854775807", "18446744073709551615", "-1", "7 or so", ""};
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    assert_true(descriptor_of(b) >= 0);
    char channel[40], sql[128];
    (void)snprintf(channel, sizeof channel, "tidings_%016llx",
                   (unsigned long long)count_rows("SELECT id FROM tidings_cluster"));
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        (void)snprintf(sql, sizeof sql, "SELECT pg_notify('%s', '%s')", channel, said[i]);
        postgres_server_exec(server, postgres_url_schema(url), sql);
        struct pollfd p = {.fd = b->ops->descriptor(b), .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        (void)b->ops->wake(b);
        assert_string_equal(store_followed(b, true), "");
        assert_int_equal(b->ops->followed(b), last);
        char id[16], line[32];
        (void)snprintf(id, sizeof id, "e%zu", i);
        last = store_put_alone(a, id, 1, "1");
        await_wake(b);
        (void)snprintf(line, sizeof line, "%llu entity %s\n", (unsigned long long)last, id);
        assert_string_equal(store_followed(b, true), line);
    }
    store_close(a);
    store_close(b);
}

/* Two nodes write the same entities in turn: each compares with the other's write, which arrives
 * with the lock. */
static void page_received_with_lock_is_followed_once(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *nodes[2] = {store_open(url), store_open(url)};
    struct buf told[2];
    buf_init(&told[0], 1u << 16);
    buf_init(&told[1], 1u << 16);
    for (int i = 1; i <= 60; i++) {
        struct store *store = nodes[i % 2];
        char value[16];
        (void)snprintf(value, sizeof value, "%d", i);
        store_begin(store);
        buf_puts(&told[i % 2], tidings_str(store_followed(store, true)));
        assert_int_equal(store_value(store, "x"), i == 1 ? -1 : i - 1);
        store_put(store, "x", i, value);
        if (i % 7 == 0) {
            store_announce(store, "n:///1");
        }
        store_commit(store);
    }
    buf_puts(&told[0], tidings_str(store_followed(nodes[0], true)));
    buf_puts(&told[1], tidings_str(store_followed(nodes[1], true)));
    struct buf expected[2];
    buf_init(&expected[0], 1u << 16);
    buf_init(&expected[1], 1u << 16);
    for (int i = 1, position = 1; i <= 60; i++, position++) {
        buf_putf(&expected[1 - i % 2], "%d entity x\n", position);
        if (i % 7 == 0) {
            buf_putf(&expected[1 - i % 2], "%d announced n:///1 e o 7\n", ++position);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_string_equal(told[i].ptr, expected[i].ptr);
        buf_deinit(&told[i]);
        buf_deinit(&expected[i]);
        store_close(nodes[i]);
    }
}

/* In a batch, with a page of everything after its followed position. */
static struct postgres_store *begin_with_page(struct store *b)
{
    store_begin(b);
    struct postgres_store *s = postgres_store_of(b);
    assert_non_null(s->next_page);
    assert_int_equal(s->next_after, s->followed);
    return s;
}

/* Planted: the followed position differs from that at the time of the query. */
static void page_is_ignored_if_position_differs(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_publish_alone(a, "p:///1", "x");
    store_begin(b);
    assert_string_equal(store_followed(b, true), "1 published p:///1=x\n");
    store_put(b, "y", 1, "1");
    store_commit(b);
    store_publish_alone(a, "p:///3", "x");
    store_publish_alone(a, "p:///4", "x");
    struct postgres_store *s = begin_with_page(b);
    postgres_store_note_followed(s, 3, true);
    assert_string_equal(store_followed(b, true), "4 published p:///4=x\n");
    store_put(b, "y", 2, "2");
    store_commit(b);
    store_publish_alone(a, "p:///6", "x");
    s = begin_with_page(b);
    s->followed = s->next_after - 2;
    assert_string_equal(store_followed(b, true),
                        "4 published p:///4=x\n5 entity y\n6 published p:///6=x\n");
    store_put(b, "y", 3, "3");
    store_commit(b);
    assert_int_equal(b->ops->followed(b), 7);
    store_close(a);
    store_close(b);
}

static bool take_one(void *user, const struct log_entry *change)
{
    *(uint64_t *)user = change->position;
    return false;
}

static void node_position_never_moves_back_after_read_ahead(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    uint64_t taken = 0;
    store_put_alone(a, "x", 1, "1");
    (void)store_followed(b, false);
    assert_int_equal(store_value(b, "x"), 1);
    store_put_alone(a, "x", 2, "2");
    (void)store_followed(b, false); /* from now on it reads values too */
    store_begin(b);
    b->ops->rollback(b); /* drops the cached current versions */
    store_put_alone(a, "x", 3, "3");
    store_put_alone(a, "x", 4, "4");
    assert_int_equal(store_value(b, "x"), 4);
    assert_int_equal(b->ops->follow(b, take_one, &taken, NULL), 0);
    assert_int_equal(taken, 3);
    assert_int_equal(store_value(b, "x"), 4);
    (void)store_followed(b, false);
    assert_int_equal(store_value(b, "x"), 4);
    store_close(a);
    store_close(b);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batched_versions_are_stored_like_single_ones),
        cmocka_unit_test(rolled_back_writes_are_not_sent),
        cmocka_unit_test(notified_node_follows_every_kind_of_change),
        cmocka_unit_test(false_notification_changes_nothing),
        cmocka_unit_test(page_received_with_lock_is_followed_once),
        cmocka_unit_test(page_is_ignored_if_position_differs),
        cmocka_unit_test(node_position_never_moves_back_after_read_ahead),
    };
    return cmocka_run_group_tests_name("many rows at a time", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
