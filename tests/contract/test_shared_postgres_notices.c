/* SPDX-License-Identifier: MIT
 *
 * Rows that travel with NOTIFY (store/row_notice.h), against PostgreSQL: who hears them does not
 * ask; whoever missed something does; nobody but a node is believed, and nobody else can read them.
 * A stranger plays along, who may connect and has no right on any table.
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
#include "store/postgres_rows_private.h"
#include "support/postgres.h"
#include "support/store_steps.h"

#define WAIT_MS 10000

static struct postgres_server *server;
static char url[POSTGRES_URL];

static const char *schema_of(const char *of)
{
    static char schema[32];
    (void)sscanf(strstr(of, "search_path%3D") + 14, "%31s", schema);
    return schema;
}

static long long ask(const char *sql)
{
    return postgres_server_number(server, schema_of(url), sql);
}

/* ---- a node that listens --------------------------------------------------------------------- */

static struct entity_rows *open_listening(const char *at)
{
    struct entity_rows *b = store_open(at);
    store_followed(b, false);
    (void)b->shared->descriptor(b); /* once: it may have the number of another */
    assert_true(b->shared->descriptor(b) >= 0);
    return b;
}

/* What has arrived; 1: there is something to follow. */
static int take_one(struct entity_rows *b)
{
    struct pollfd p = {.fd = b->shared->descriptor(b), .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    return b->shared->wake(b);
}

static void await_wake(struct entity_rows *b)
{
    while (take_one(b) != 1) {
    }
}

static struct shared_heard heard(struct entity_rows *b)
{
    struct shared_heard h;
    b->shared->heard(b, &h);
    return h;
}

/* It follows exactly that, by so many notices, questions, and refusals. */
static void assert_follows(struct entity_rows *b, const char *lines, unsigned told, unsigned asked,
                           unsigned refused, const struct shared_heard *before)
{
    assert_string_equal(store_followed(b, true), lines);
    struct shared_heard now = heard(b);
    assert_int_equal(now.told - before->told, told);
    assert_int_equal(now.asked - before->asked, asked);
    assert_int_equal(now.refused - before->refused, refused);
}

/* ---- the stranger ---------------------------------------------------------------------------- */

static const char *const stranger_says[] = {"SELECT pg_notify($1::text, $2::text)"};

struct stranger {
    struct postgres *db;
    char channel[48];
    struct buf seen; /* each on a line */
};

static void stranger_open(struct stranger *w, bool of_rows)
{
    struct tidings_error err = {0};
    char at[POSTGRES_URL], sql[128];
    (void)snprintf(at, sizeof at, "postgresql://stranger@127.0.0.1:%d/tidings",
                   postgres_server_port(server));
    (void)snprintf(w->channel, sizeof w->channel, "tidings_%016llx%s",
                   (unsigned long long)ask("SELECT id FROM tidings_cluster"),
                   of_rows ? "_rows" : "");
    buf_init(&w->seen, 1u << 20);
    assert_int_equal(postgres_create(at, stranger_says, &w->db, &err), 0);
    if (postgres_ready(w->db, WAIT_MS, &err) != 1) {
        fail_msg("%s", err.text);
    }
    assert_true(postgres_exec(w->db, "SELECT 1 FROM tidings_cluster", &err) < 0);
    (void)snprintf(sql, sizeof sql, "LISTEN %s", w->channel);
    assert_int_equal(postgres_exec(w->db, sql, NULL), 0);
}

static void stranger_close(struct stranger *w)
{
    postgres_destroy(w->db);
    buf_deinit(&w->seen);
}

static void see(void *user, struct tidings_str payload)
{
    struct stranger *w = user;
    buf_puts(&w->seen, payload);
    buf_putc(&w->seen, '\n');
}

/* The next notification, which it sees alone. */
static struct tidings_str stranger_hears(struct stranger *w)
{
    buf_clear(&w->seen);
    while (w->seen.len == 0) {
        struct pollfd p = {.fd = postgres_descriptor(w->db), .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        assert_int_equal(postgres_notified(w->db, see, w), 0);
    }
    return tidings_strn(w->seen.ptr, w->seen.len - 1);
}

static void stranger_says_so(struct stranger *w, struct tidings_str payload)
{
    struct postgres_values v = {0};
    struct tidings_error err = {0};
    struct pg_result *r = NULL;
    postgres_put_str(&v, tidings_str(w->channel));
    postgres_put_str(&v, payload);
    if (postgres_ask(w->db, 0, &v, &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    postgres_free(r);
}

/* ---- without asking -------------------------------------------------------------------------- */

static void who_hears_the_rows_does_not_ask(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct shared_heard before = heard(b);
    store_put_alone(a, "x", 1, "1");
    await_wake(b);
    assert_follows(b, "1 entity x\n", 1, 0, 0, &before);
    store_announce_alone(a, "n:///1");
    await_wake(b);
    assert_follows(b, "2 announced n:///1 e o 7\n", 2, 0, 0, &before);
    store_begin(a);
    store_put(a, "x", 2, "2");
    store_announce_mounted(a, "n:///2");
    store_put(a, "y", 1, "1");
    store_commit(a);
    await_wake(b);
    assert_follows(b, "3 entity x\n4 mounted n:///2 e o 7\n5 entity y\n", 3, 0, 0, &before);
    assert_int_equal(heard(b).changes, 5);
    assert_int_equal(store_value(b, "x"), 2);
    assert_int_equal(store_value(b, "y"), 1);
    /* From here on it is known to be current here, and renewed by what is heard: nobody could read
     * it any more. */
    store_put_alone(a, "x", 3, "3");
    await_wake(b);
    assert_follows(b, "6 entity x\n", 4, 0, 0, &before);
    postgres_server_exec(server, schema_of(url), "ALTER TABLE tidings_versions RENAME TO gone");
    assert_int_equal(store_value(b, "x"), 3);
    postgres_server_exec(server, schema_of(url), "ALTER TABLE gone RENAME TO tidings_versions");
    /* Nobody was woken by its own. */
    assert_int_equal(heard(a).told, 0);
    store_close(a);
    store_close(b);
}

static void what_came_together_is_followed_together(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct stranger w;
    stranger_open(&w, true);
    struct shared_heard before = heard(b);
    for (int i = 1; i <= 20; i++) {
        store_put_alone(a, "x", i, "1");
        stranger_hears(&w); /* now it has arrived there too, or is about to */
    }
    struct buf told;
    buf_init(&told, 4096);
    while (b->shared->followed(b) < 20) {
        await_wake(b);
        buf_puts(&told, tidings_str(store_followed(b, true)));
    }
    struct buf expected;
    buf_init(&expected, 4096);
    for (int i = 1; i <= 20; i++) {
        buf_putf(&expected, "%d entity x\n", i);
    }
    assert_string_equal(told.ptr, expected.ptr);
    assert_int_equal(heard(b).asked, before.asked);
    assert_int_equal(heard(b).told - before.told, 20);
    /* More at a time than are kept: asked for. */
    for (int i = 21; i <= 20 + (int)POSTGRES_HEARD_MAX + 5; i++) {
        store_put_alone(a, "x", i, "1");
    }
    while (b->shared->followed(b) < 20 + POSTGRES_HEARD_MAX + 5) {
        await_wake(b);
        store_followed(b, true);
    }
    assert_int_equal(heard(b).changes, heard(b).told);
    buf_deinit(&told);
    buf_deinit(&expected);
    stranger_close(&w);
    store_close(a);
    store_close(b);
}

static void who_missed_something_asks(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct shared_heard before = heard(b);
    store_put_alone(a, "x", 1, "1");
    await_wake(b); /* and does not follow */
    store_put_alone(a, "y", 1, "1");
    await_wake(b);
    assert_follows(b, "1 entity x\n2 entity y\n", 0, 1, 0, &before);
    /* What is looked for without having been woken is asked for, always. */
    before = heard(b);
    assert_follows(b, "", 0, 1, 0, &before);
    /* Of what is not told with its rows the position comes, and of a batch that has some of it. */
    before = heard(b);
    store_publish_alone(a, "p:///1", "x");
    await_wake(b);
    assert_string_equal(store_followed(b, true), "3 published p:///1=x\n");
    assert_true(heard(b).asked > before.asked && heard(b).told == before.told);
    store_put_alone(a, "x", 2, "2");
    await_wake(b);
    before = heard(b);
    assert_follows(b, "4 entity x\n", 1, 0, 0, &before);
    store_close(a);
    store_close(b);
}

static void what_is_too_large_is_asked_for(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    char *large = mem_alloc(7001), id[16];
    memset(large, '0', 7000); /* digits: a number in JSON, if it need be one */
    large[6999] = '7';
    large[7000] = '\0';
    struct shared_heard before = heard(b);
    store_put_alone(a, "x", 1, "1");
    await_wake(b);
    assert_follows(b, "1 entity x\n", 1, 0, 0, &before);
    assert_int_equal(store_value(b, "x"), 1); /* known to be current, from here on */
    store_put_alone(a, "x", 2, large);
    await_wake(b);
    before = heard(b);
    assert_follows(b, "2 entity x\n", 1, 0, 0, &before); /* told, without its value */
    assert_int_equal(store_value(b, "x"), 7);
    store_begin(a);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        store_put(a, id, 1, "1");
    }
    store_commit(a);
    await_wake(b);
    before = heard(b);
    assert_non_null(strstr(store_followed(b, true), "\n302 entity e299\n"));
    assert_int_equal(heard(b).told, before.told);
    mem_free(large);
    store_close(a);
    store_close(b);
}

/* ---- what was not committed ------------------------------------------------------------------ */

static void what_was_not_committed_is_not_told(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct stranger w;
    struct tidings_error err = {0};
    stranger_open(&w, true);
    store_put_alone(a, "x", 1, "1");
    stranger_hears(&w);
    await_wake(b);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    /* One that fails when it is committed, and one before. */
    postgres_server_exec(
        server, schema_of(url),
        "CREATE TABLE allowed(id text PRIMARY KEY);"
        "INSERT INTO allowed VALUES ('x'), ('good'), ('worse');"
        "ALTER TABLE tidings_versions ADD CONSTRAINT late FOREIGN KEY (id) REFERENCES allowed(id)"
        " DEFERRABLE INITIALLY DEFERRED;"
        "ALTER TABLE tidings_versions ADD CONSTRAINT early CHECK (id<>'worse')");
    for (int i = 0; i < 2; i++) {
        store_begin(a);
        store_put(a, i == 0 ? "bad" : "worse", 1, "1");
        assert_true(a->ops->commit(a, &err) < 0);
    }
    assert_int_equal(store_put_alone(a, "good", 1, "1"), 2);
    struct tidings_str payload = stranger_hears(&w);
    assert_true(str_starts(payload, STR("2 2 ")));
    assert_int_equal(str_find(payload, '\n'), -1); /* nothing else */
    await_wake(b);
    struct shared_heard before = heard(b);
    assert_follows(b, "2 entity good\n", 1, 0, 0, &before);
    assert_int_equal(store_value(b, "bad"), -1);
    stranger_close(&w);
    store_close(a);
    store_close(b);
}

/* Without the lock: who is overtaken has told nothing of what it would have written. */
static void what_was_overtaken_is_not_told(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = store_open(url), *c = open_listening(url);
    struct tidings_error err = {0};
    struct shared_heard before = heard(c);
    store_put_alone(a, "x", 1, "1");
    await_wake(c);
    assert_follows(c, "1 entity x\n", 1, 0, 0, &before);
    assert_true(a->shared->begin_unlocked(a));
    store_put(a, "bad", 1, "1");
    store_put_alone(b, "good", 1, "1");
    assert_true(a->ops->commit(a, &err) < 0);
    assert_true(a->shared->must_run_again(a));
    await_wake(c);
    assert_follows(c, "2 entity good\n", 2, 0, 0, &before);
    store_followed(a, false);
    store_put_alone(a, "again", 1, "1");
    await_wake(c);
    assert_follows(c, "3 entity again\n", 3, 0, 0, &before);
    /* One that is not overtaken tells its rows like any other. */
    postgres_rows_of(a)->locked_left = 0;
    assert_true(a->shared->begin_unlocked(a));
    store_put(a, "alone", 1, "1");
    store_commit(a);
    await_wake(c);
    assert_follows(c, "4 entity alone\n", 4, 0, 0, &before);
    store_close(a);
    store_close(b);
    store_close(c);
}

/* ---- strangers ------------------------------------------------------------------------------- */

static void who_listens_reads_nothing(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct stranger w, old;
    stranger_open(&w, true);
    stranger_open(&old, false);
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
    /* An older node knows positions alone: it is told that, and nothing else. */
    assert_true(str_eq(stranger_hears(&old), STR("2")));
    /* Said again by who recorded it: nothing happens, before and after something else did. */
    await_wake(b);
    struct shared_heard before = heard(b);
    assert_follows(b, "1 entity tell-tale-id\n2 announced n:///tell-tale e o 7\n", 1, 0, 0,
                   &before);
    char *recorded = str_dup(payload);
    for (int i = 0; i < 3; i++) {
        stranger_says_so(&w, tidings_str(recorded));
        assert_int_equal(take_one(b), 0);
        assert_follows(b, "", 1, 1 + (unsigned)i, 0, &before);
    }
    store_put_alone(a, "x", 1, "1");
    await_wake(b);
    before = heard(b);
    assert_follows(b, "3 entity x\n", 1, 0, 0, &before);
    stranger_says_so(&w, tidings_str(recorded));
    assert_int_equal(take_one(b), 0);
    assert_int_equal(heard(b).refused, 0);
    mem_free(recorded);
    buf_deinit(&raw);
    stranger_close(&w);
    stranger_close(&old);
    store_close(a);
    store_close(b);
}

/* A notice that says "fake" was written, put together with that key for that place. */
static void put_fake(struct buf *out, const unsigned char secret[32],
                     const struct row_notice_place *place, uint64_t from, uint64_t count)
{
    const struct entity_version v = {.id = STR("fake"),
                                     .from = 1,
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = STR("1"),
                                     .changed_by = STR("[]")};
    struct seal_key key;
    struct sealer sealer;
    struct row_notice n;
    row_notice_key(secret, &key);
    sealer_init(&sealer, &key);
    row_notice_init(&n);
    for (uint64_t i = 0; i < count; i++) {
        row_notice_add_version(&n, &v, 1, 1);
    }
    buf_clear(out);
    assert_int_equal(row_notice_put(&n, &sealer, place, from, out), 0);
    row_notice_deinit(&n);
    sealer_deinit(&sealer);
}

struct forging {
    struct entity_rows *a, *b;
    struct stranger w;
    struct buf text;
    unsigned char secret[32];
    struct row_notice_place place;
};

/* Something was written of which no node tells; then the stranger says its own of it. */
static void forge(struct forging *f, const char *told, unsigned by_notice, unsigned refused)
{
    char line[64];
    uint64_t position = f->b->shared->followed(f->b) + 1;
    struct shared_heard before = heard(f->b);
    stranger_says_so(&f->w, buf_str(&f->text));
    await_wake(f->b);
    (void)snprintf(line, sizeof line, "%llu entity %s\n", (unsigned long long)position, told);
    assert_follows(f->b, line, by_notice, 1 - by_notice, refused, &before);
}

static void write_silently(struct forging *f, const char *id)
{
    struct postgres_rows *a = postgres_rows_of(f->a);
    a->has_notify = false;
    store_put_alone(f->a, id, 1, "1");
}

static void nobody_but_a_node_is_believed(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct forging f = {.a = store_open(url), .b = open_listening(url)};
    struct tidings_error err = {0};
    stranger_open(&f.w, true);
    buf_init(&f.text, ROW_NOTICE_TEXT_MAX + 1);
    assert_int_equal(f.b->shared->secret(f.b, f.secret, &err), 0);
    f.place = postgres_rows_of(f.b)->place;
    const struct row_notice_place here = f.place;
    uint64_t next = 1;

    /* Who has the secret and is here: believed. So the rest of this test can fail. */
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
    struct row_notice_place there = here;
    there.digest[0] ^= 1;
    write_silently(&f, "x2");
    put_fake(&f.text, f.secret, &there, next++, 1);
    forge(&f, "x2", 0, 1);

    /* A good one of other positions, with those that would be next. */
    write_silently(&f, "x3");
    put_fake(&f.text, f.secret, &here, 9, 1);
    f.text.ptr[0] = f.text.ptr[2] = (char)('0' + next++);
    forge(&f, "x3", 0, 1);

    /* Altered in the middle, cut off, and with more after it. */
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

    /* As large as PostgreSQL takes, of nothing. */
    write_silently(&f, "x7");
    buf_clear(&f.text);
    buf_putf(&f.text, "%llu %llu ", (unsigned long long)next, (unsigned long long)next);
    while (f.text.len < ROW_NOTICE_TEXT_MAX) {
        buf_putc(&f.text, 'A');
    }
    forge(&f, "x7", 0, 1);
    next++;

    /* What is no notice, nor a number. */
    struct shared_heard before = heard(f.b);
    stranger_says_so(&f.w, STR("1 2"));
    assert_int_equal(take_one(f.b), 0);
    assert_int_equal(heard(f.b).refused - before.refused, 1);

    /* Of positions that are not next: no gap is jumped over. */
    write_silently(&f, "x8");
    put_fake(&f.text, f.secret, &here, next + 1, 1);
    before = heard(f.b);
    stranger_says_so(&f.w, buf_str(&f.text));
    await_wake(f.b);
    assert_string_equal(store_followed(f.b, true), "9 entity x8\n");
    assert_int_equal(heard(f.b).told, before.told);
    buf_deinit(&f.text);
    stranger_close(&f.w);
    store_close(f.a);
    store_close(f.b);
}

/* Two schemas of one database, one copied from the other with everything, so also the secret. */
static void a_copy_beside_it_hears_nothing_of_it(void **state)
{
    (void)state;
    char copy[POSTGRES_URL], sql[512], of[32];
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url);
    (void)snprintf(of, sizeof of, "%s", schema_of(url));
    postgres_server_fresh(server, copy);
    store_close(store_open(copy));
    (void)snprintf(sql, sizeof sql,
                   "UPDATE tidings_cluster SET id=(SELECT id FROM %s.tidings_cluster),"
                   " secret=(SELECT secret FROM %s.tidings_cluster)",
                   of, of);
    postgres_server_exec(server, schema_of(copy), sql);
    struct entity_rows *b = open_listening(copy);
    struct shared_heard before = heard(b);
    store_put_alone(a, "x", 1, "1");
    await_wake(b);
    assert_string_equal(store_followed(b, true), "");
    assert_int_equal(heard(b).told, before.told);
    assert_int_equal(heard(b).refused - before.refused, 1);
    assert_int_equal(store_value(b, "x"), -1);
    store_close(a);
    store_close(b);
}

/* After the database was started again both ends know it as another place. */
static void after_a_restart_rows_are_told_again(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct entity_rows *a = store_open(url), *b = open_listening(url);
    struct row_notice_place was = postgres_rows_of(b)->place;
    store_put_alone(a, "x", 1, "1");
    await_wake(b);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    postgres_server_down(server);
    postgres_server_up(server);
    while (b->shared->descriptor(b) >= 0) { /* until it knows that the connection is lost */
        (void)take_one(b);
    }
    struct buf unused;
    struct tidings_error err = {0};
    buf_init(&unused, 4096);
    while (b->shared->follow(b, store_print, &unused, &err) < 0 || b->shared->descriptor(b) < 0) {
    }
    buf_deinit(&unused);
    store_put_alone(a, "y", 1, "1"); /* connects */
    assert_memory_not_equal(&postgres_rows_of(b)->place, &was, sizeof was);
    assert_memory_equal(&postgres_rows_of(b)->place, &postgres_rows_of(a)->place, sizeof was);
    await_wake(b);
    struct shared_heard before = heard(b);
    assert_follows(b, "2 entity y\n", 1, 0, 0, &before);
    store_close(a);
    store_close(b);
}

static int run(struct postgres_server *p)
{
    server = p;
    postgres_server_url(server, "public", url);
    postgres_server_exec(server, "public", "CREATE ROLE stranger LOGIN");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_hears_the_rows_does_not_ask),
        cmocka_unit_test(what_came_together_is_followed_together),
        cmocka_unit_test(who_missed_something_asks),
        cmocka_unit_test(what_is_too_large_is_asked_for),
        cmocka_unit_test(what_was_not_committed_is_not_told),
        cmocka_unit_test(what_was_overtaken_is_not_told),
        cmocka_unit_test(who_listens_reads_nothing),
        cmocka_unit_test(nobody_but_a_node_is_believed),
        cmocka_unit_test(a_copy_beside_it_hears_nothing_of_it),
        cmocka_unit_test(after_a_restart_rows_are_told_again),
    };
    return cmocka_run_group_tests_name("rows told with NOTIFY", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
