/* SPDX-License-Identifier: MIT
 *
 * Untrusted clients and rows in NOTIFY payloads (cluster/log_record.h), against PostgreSQL: nodes
 * accept only payloads of nodes, and other clients cannot read them. The untrusted client may
 * connect and has no right on any table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/encode.h"
#include "base/mem.h"
#include "support/listeners.h"
#include "support/postgres.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

static void notify_payload_is_unreadable_without_key(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct stranger w;
    stranger_open(&w, server, postgres_url_schema(url));
    store_begin(a);
    store_put(a, "tell-tale-id", 1, "\"tell-tale-value\"");
    store_announce(a, "n:///tell-tale");
    store_commit(a);
    struct tidings_str payload = stranger_hears(&w);
    assert_true(str_starts(payload, STR("1 2 ")));
    assert_null(strstr(payload.ptr, "tell-tale"));
    struct buf raw;
    buf_init(&raw, 8192);
    assert_int_equal(base64url_decode(&raw, str_skip(payload, 4)), 0);
    assert_null(memmem(raw.ptr, raw.len, "tell", 4));
    /* A recorded payload, sent again: nothing happens, before and after another change. */
    hearer_await(b);
    struct notification_counts before = hearer_heard(b);
    hearer_follows(b, "1 entity tell-tale-id\n2 announced n:///tell-tale e o 7\n", 1, 0, 0,
                   &before);
    char *recorded = str_dup(payload);
    for (int i = 0; i < 3; i++) {
        stranger_says(&w, tidings_str(recorded));
        assert_int_equal(hearer_take(b), 0);
        hearer_follows(b, "", 1, 1 + (unsigned)i, 0, &before);
    }
    store_put_alone(a, "x", 1, "1");
    hearer_await(b);
    before = hearer_heard(b);
    hearer_follows(b, "3 entity x\n", 1, 0, 0, &before);
    stranger_says(&w, tidings_str(recorded));
    assert_int_equal(hearer_take(b), 0);
    assert_int_equal(hearer_heard(b).refused, 0);
    mem_free(recorded);
    buf_deinit(&raw);
    stranger_close(&w);
    store_close(a);
    store_close(b);
}

/* A notice that says that "fake" was written, made with that key for that place. */
static void put_fake(struct buf *out, const unsigned char secret[32],
                     const struct notify_payload_scope *scope, uint64_t from, uint64_t count)
{
    const struct entity_version v = {.id = STR("fake"),
                                     .from = 1,
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = STR("1"),
                                     .changed_by = STR("[]")};
    struct seal_key key;
    struct sealer sealer;
    struct notify_payload n;
    notify_payload_key(secret, &key);
    sealer_init(&sealer, &key);
    notify_payload_init(&n);
    for (uint64_t i = 0; i < count; i++) {
        notify_payload_add(
            &n, &(struct kept_record){.kind = LOG_ENTRY_ENTITY, .at_ms = 1, .version = v});
    }
    buf_clear(out);
    assert_int_equal(notify_payload_put(&n, &sealer, scope, from, out), 0);
    notify_payload_deinit(&n);
    sealer_deinit(&sealer);
}

struct forging {
    struct store *a, *b;
    struct stranger w;
    struct buf text;
    unsigned char secret[32];
    struct notify_payload_scope scope;
};

/* A write without a notification; then the untrusted client sends its own. */
static void forge(struct forging *f, const char *told, unsigned by_notice, unsigned refused)
{
    char line[64];
    uint64_t position = f->b->ops->followed(f->b) + 1;
    struct notification_counts before = hearer_heard(f->b);
    stranger_says(&f->w, buf_str(&f->text));
    hearer_await(f->b);
    (void)snprintf(line, sizeof line, "%llu entity %s\n", (unsigned long long)position, told);
    hearer_follows(f->b, line, by_notice, 1 - by_notice, refused, &before);
}

static void write_silently(struct forging *f, const char *id)
{
    struct postgres_store *a = postgres_store_of(f->a);
    a->has_notify = false;
    store_put_alone(f->a, id, 1, "1");
}

static void notifications_are_accepted_only_from_nodes(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct forging f = {.a = store_open(url), .b = hearer_open(url)};
    struct tidings_error err = {0};
    stranger_open(&f.w, server, postgres_url_schema(url));
    buf_init(&f.text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    assert_int_equal(f.b->ops->secret(f.b, f.secret, &err), 0);
    f.scope = postgres_store_of(f.b)->scope;
    const struct notify_payload_scope here = f.scope;
    uint64_t next = 1;

    /* A payload with the right secret and place is accepted, so the rest of this test can fail. */
    write_silently(&f, "x0");
    put_fake(&f.text, f.secret, &here, next++, 1);
    forge(&f, "fake", 1, 0);

    /* The secret of another cluster. */
    unsigned char other[32];
    memcpy(other, f.secret, 32);
    other[31] ^= 1;
    write_silently(&f, "x1");
    put_fake(&f.text, other, &here, next++, 1);
    forge(&f, "x1", 0, 1);

    /* From before a failover, of a copy, of another schema: another place. */
    struct notify_payload_scope there = here;
    there.digest[0] ^= 1;
    write_silently(&f, "x2");
    put_fake(&f.text, f.secret, &there, next++, 1);
    forge(&f, "x2", 0, 1);

    /* A valid one with other positions, including the next ones. */
    write_silently(&f, "x3");
    put_fake(&f.text, f.secret, &here, 9, 1);
    f.text.ptr[0] = f.text.ptr[2] = (char)('0' + next++);
    forge(&f, "x3", 0, 1);

    /* Altered in the middle, truncated, and with extra bytes. */
    write_silently(&f, "x4");
    put_fake(&f.text, f.secret, &here, next++, 1);
    f.text.ptr[f.text.len / 2] = f.text.ptr[f.text.len / 2] == 'A' ? 'B' : 'A';
    forge(&f, "x4", 0, 1);
    write_silently(&f, "x5");
    put_fake(&f.text, f.secret, &here, next++, 1);
    f.text.len -= 4;
    forge(&f, "x5", 0, 1);
    write_silently(&f, "x6");
    put_fake(&f.text, f.secret, &here, next++, 1);
    buf_puts(&f.text, STR("AAAA"));
    forge(&f, "x6", 0, 1);

    /* As large as PostgreSQL accepts, filled with zeros. */
    write_silently(&f, "x7");
    buf_clear(&f.text);
    buf_putf(&f.text, "%llu %llu ", (unsigned long long)next, (unsigned long long)next);
    while (f.text.len < NOTIFY_PAYLOAD_TEXT_MAX) {
        buf_putc(&f.text, 'A');
    }
    forge(&f, "x7", 0, 1);
    next++;

    /* Neither a payload nor a number. */
    struct notification_counts before = hearer_heard(f.b);
    stranger_says(&f.w, STR("1 2"));
    assert_int_equal(hearer_take(f.b), 0);
    assert_int_equal(hearer_heard(f.b).refused - before.refused, 1);

    /* Positions that are not next: the node skips no gap. */
    write_silently(&f, "x8");
    put_fake(&f.text, f.secret, &here, next + 1, 1);
    before = hearer_heard(f.b);
    stranger_says(&f.w, buf_str(&f.text));
    hearer_await(f.b);
    assert_string_equal(store_followed(f.b, true), "9 entity x8\n");
    assert_int_equal(hearer_heard(f.b).applied, before.applied);
    buf_deinit(&f.text);
    stranger_close(&f.w);
    store_close(f.a);
    store_close(f.b);
}

/* Two schemas of one database; one is a full copy of the other, including the secret. */
static void copied_schema_receives_no_notifications(void **state)
{
    (void)state;
    char copy[POSTGRES_URL], sql[512], of[32];
    postgres_server_fresh(server, url);
    struct store *a = store_open(url);
    (void)snprintf(of, sizeof of, "%s", postgres_url_schema(url));
    postgres_server_fresh(server, copy);
    store_close(store_open(copy));
    (void)snprintf(sql, sizeof sql,
                   "UPDATE tidings_cluster SET id=(SELECT id FROM %s.tidings_cluster),"
                   " secret=(SELECT secret FROM %s.tidings_cluster)",
                   of, of);
    postgres_server_exec(server, postgres_url_schema(copy), sql);
    struct store *b = hearer_open(copy);
    struct notification_counts before = hearer_heard(b);
    store_put_alone(a, "x", 1, "1");
    hearer_await(b);
    assert_string_equal(store_followed(b, true), "");
    assert_int_equal(hearer_heard(b).applied, before.applied);
    assert_int_equal(hearer_heard(b).refused - before.refused, 1);
    assert_int_equal(store_value(b, "x"), -1);
    store_close(a);
    store_close(b);
}

/* After a restart of the database both ends treat it as another place. */
static void rows_are_notified_again_after_database_restart(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct notify_payload_scope was = postgres_store_of(b)->scope;
    store_put_alone(a, "x", 1, "1");
    hearer_await(b);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    postgres_server_down(server);
    postgres_server_up(server);
    while (b->ops->descriptor(b) >= 0) { /* until it knows that the connection is lost */
        (void)hearer_take(b);
    }
    struct buf unused;
    struct tidings_error err = {0};
    buf_init(&unused, 4096);
    while (b->ops->follow(b, store_print, &unused, &err) < 0 || b->ops->descriptor(b) < 0) {
    }
    buf_deinit(&unused);
    store_put_alone(a, "y", 1, "1"); /* connects */
    assert_memory_not_equal(&postgres_store_of(b)->scope, &was, sizeof was);
    assert_memory_equal(&postgres_store_of(b)->scope, &postgres_store_of(a)->scope, sizeof was);
    hearer_await(b);
    struct notification_counts before = hearer_heard(b);
    hearer_follows(b, "2 entity y\n", 1, 0, 0, &before);
    store_close(a);
    store_close(b);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notify_payload_is_unreadable_without_key),
        cmocka_unit_test(notifications_are_accepted_only_from_nodes),
        cmocka_unit_test(copied_schema_receives_no_notifications),
        cmocka_unit_test(rows_are_notified_again_after_database_restart),
    };
    return cmocka_run_group_tests_name("strangers at the database", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
