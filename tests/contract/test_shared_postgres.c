/* SPDX-License-Identifier: MIT
 *
 * Several stores on one PostgreSQL database, as in a cluster: each node follows the others' commits
 * in one order without gaps, decisions under the lock happen once; leases, nodes and sessions.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cluster/postgres_nodes.h"
#include "support/postgres.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

/* ---- following ------------------------------------------------------------------------------- */

static void commits_are_followed_in_order_by_other_nodes(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    const struct entity_type_row type = {.name = STR("T"), .version = STR("1")};
    store_begin(a);
    assert_int_equal(a->ops->put_type(a, &type, NULL), 0);
    store_commit(a);
    store_begin(a);
    store_put(a, "x", 1, "1");
    store_announce(a, "n:///1");
    store_commit(a);
    store_publish_alone(a, "p:///1", "hello");
    store_publish_alone(a, "p:///2", "there");
    store_publish_alone(a, "p:///1", NULL);
    assert_string_equal(store_followed(a, true), ""); /* its own it knows */
    assert_string_equal(store_followed(b, true),
                        "1 types\n2 entity x\n3 announced n:///1 e o 7\n5 published p:///2=there\n"
                        "6 published p:///1 gone\n");
    assert_string_equal(store_followed(b, true), "");
    assert_int_equal(b->ops->followed(b), 6);
    assert_int_equal(store_put_alone(b, "y", 1, "1"), 7);
    assert_string_equal(store_followed(a, true), "7 entity y\n");
    assert_string_equal(store_followed(b, true), "");
    store_close(a);
    store_close(b);
}

/* Even before its notification is read. */
static void newest_position_is_known_before_follow(void **state)
{
    (void)state;
    uint64_t newest = 0;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    for (uint64_t n = 1; n <= 3; n++) {
        store_publish_alone(a, "p:///1", n % 2 ? "odd" : "even");
        assert_int_equal(b->ops->newest(b, &newest, NULL), 0);
        assert_int_equal(newest, n);
        assert_int_equal(b->ops->followed(b), 0);
    }
    (void)store_followed(b, false);
    assert_int_equal(b->ops->followed(b), 3);
    store_close(a);
    store_close(b);
}

/* A node started later also finds it in the log. */
static void owner_announcements_differ_from_program_announcements(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_begin(a);
    store_announce_mounted(a, "m:///1");
    store_announce_mounted(a, "*m:///");
    store_announce(a, "n:///1");
    store_commit(a);
    const char *all = "1 mounted m:///1 e o 7\n2 mounted *m:/// e o 7\n3 announced n:///1 e o 7\n";
    assert_string_equal(store_followed(b, true), all);
    struct buf lines;
    uint64_t floor = 0;
    buf_init(&lines, 4096);
    assert_int_equal(b->ops->each_change(b, 100, &floor, store_print, &lines, NULL), 0);
    assert_string_equal(lines.ptr, all);
    buf_deinit(&lines);
    store_close(a);
    store_close(b);
}

/* In a page that another node reads, from one and from several tables, and in the log after a
 * restart. */
static void unsubscribable_changes_stay_unsubscribable_on_other_nodes(void **state)
{
    (void)state;
    struct buf lines;
    uint64_t floor = 0;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_announce_alone(a, "n:///dark/1");
    assert_string_equal(store_followed(b, true), "1 announced n:///dark/1 e o 7 mute\n");
    store_begin(a);
    store_announce(a, "n:///dark/2");
    store_announce(a, "n:///light");
    store_announce_mounted(a, "m:///dark");
    store_commit(a);
    store_publish_alone(a, "p:///dark/1", "here");
    store_publish_alone(a, "p:///dark/2", "there");
    store_publish_alone(a, "p:///dark/2", NULL);
    const char *rest = "2 announced n:///dark/2 e o 7 mute\n3 announced n:///light e o 7\n"
                       "4 mounted m:///dark e o 7 mute\n5 published p:///dark/1=here mute\n"
                       "7 published p:///dark/2 mute gone\n";
    assert_string_equal(store_followed(b, true), rest);
    store_close(b);
    b = store_open(url);
    buf_init(&lines, 4096);
    assert_int_equal(b->ops->each_change(b, 5, &floor, store_print, &lines, NULL), 0);
    assert_non_null(strstr(lines.ptr, "2 announced n:///dark/2 e o 7 mute\n3 announced n:///light "
                                      "e o 7\n4 mounted m:///dark e o 7 mute\n"));
    assert_non_null(strstr(lines.ptr, "7 published p:///dark/2 mute gone\n"));
    buf_deinit(&lines);
    store_close(a);
    store_close(b);
}

/* Even across several pages, and even if the reader stops early. */
static bool take_three(void *user, const struct log_entry *change)
{
    unsigned *count = user;
    (void)change;
    return ++*count % 3 != 0;
}

static void delivered_changes_count_as_followed(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_begin(a);
    for (int i = 0; i < 2500; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "e%d", i);
        store_put(a, id, 1, "1");
    }
    store_commit(a);
    unsigned count = 0;
    assert_int_equal(b->ops->follow(b, take_three, &count, NULL), 0);
    assert_int_equal(b->ops->followed(b), 3);
    const char *rest = store_followed(b, true);
    const char *at = rest;
    for (unsigned i = 4; i <= 2500; i++) {
        char line[48];
        int len = snprintf(line, sizeof line, "%u entity e%u\n", i, i - 1);
        assert_memory_equal(at, line, (size_t)len);
        at += len;
    }
    assert_int_equal(*at, '\0');
    store_close(a);
    store_close(b);
}

static void lost_announcements_are_reported_in_their_place(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_announce_alone(a, "n:///1");
    store_put_alone(a, "x", 1, "1");
    store_announce_alone(a, "n:///3");
    store_put_alone(a, "y", 1, "1");
    char schema[32];
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
    postgres_server_exec(server, schema,
                         "DELETE FROM tidings_announced;UPDATE tidings_state SET announced=3");
    assert_string_equal(store_followed(b, true), "2 entity x\n3 broken\n4 entity y\n");
    assert_string_equal(store_followed(b, true), "");
    store_close(a);
    store_close(b);
}

static bool check_strange(void *user, const struct log_entry *c)
{
    const struct published_row *row = user, *found = c->published;
    assert_non_null(found);
    assert_true(str_eq(found->about.uri, row->about.uri) && str_eq(c->uri, row->about.uri));
    assert_true(str_eq(found->about.title, row->about.title));
    assert_true(str_eq(found->content, row->content) && str_eq(c->metadata, row->metadata));
    return true;
}

/* The longest URI exceeds the size of an index entry; text columns would reject NUL and invalid
 * bytes. */
static void untrusted_bytes_are_stored_unchanged(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    char uri[4096];
    uint64_t position = 0, seed = 1;
    for (size_t i = 0; i < sizeof uri; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uri[i] = (char)(seed >> 56);
    }
    struct published_row row = {.content = tidings_strn("a\0\xff", 3),
                                .metadata = tidings_strn("\xc3", 1)};
    row.about.uri = tidings_strn(uri, sizeof uri);
    static const char title[] = "t\0\xfe'; DROP TABLE tidings_state; --";
    row.about.title = tidings_strn(title, sizeof title);
    const struct entity_key key = {.owner = tidings_strn("o\0\xff", 3),
                                   .key = tidings_strn("k\0\xff", 3),
                                   .digest = STR("d"),
                                   .text = tidings_strn("\0", 1),
                                   .at = 1};
    struct entity_key found;
    store_begin(a);
    assert_int_equal(a->ops->publish(a, &row, &position, &err), 0);
    assert_int_equal(a->ops->put_key(a, &key, &err), 0);
    store_commit(a);
    assert_int_equal(b->ops->follow(b, check_strange, &row, &err), 0);
    assert_int_equal(b->ops->followed(b), 1);
    assert_int_equal(b->ops->find_key(b, key.owner, key.key, &found, &err), 1);
    assert_true(str_eq(found.text, key.text));
    assert_int_equal(b->ops->find_key(b, STR("o"), key.key, &found, &err), 0);
    store_close(a);
    store_close(b);
}

static long long whole_reads(const char *schema)
{
    return postgres_server_number(server, schema,
                                  "SELECT sum(seq_scan)::int8 FROM pg_stat_user_tables WHERE"
                                  " schemaname=current_schema() AND relname IN"
                                  " ('tidings_versions', 'tidings_current', 'tidings_log')");
}

/* Statements planned while the tables were small are still used when they are large. */
static void follow_queries_never_scan_whole_tables(void **state)
{
    (void)state;
    char schema[32];
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
    store_close(store_open(url)); /* the node that creates the tables reads them */
    long long before = whole_reads(schema);
    struct store *a = store_open(url), *b = store_open(url);
    for (int i = 1; i <= 10; i++) {
        store_put_alone(a, "x", i, "1");
        store_followed(b, false);
        assert_int_equal(store_value(b, "x"), 1);
    }
    store_close(a); /* counts are written when a connection closes */
    store_close(b);
    while (postgres_server_number(server, schema,
                                  "SELECT count(*) FROM pg_stat_user_tables WHERE"
                                  " schemaname=current_schema() AND"
                                  " relname='tidings_versions' AND n_tup_ins=10") == 0) {
    }
    while (postgres_server_number(server, "public",
                                  "SELECT count(*) FROM pg_stat_activity WHERE"
                                  " application_name='tidings' AND pid<>pg_backend_pid()") > 0) {
    }
    assert_int_equal(whole_reads(schema), before);
}

/* ---- decided once ---------------------------------------------------------------------------- */

static void writes_of_other_nodes_are_visible_under_lock(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_put_alone(a, "x", 1, "1");
    store_followed(b, false);
    store_put_alone(b, "x", 2, "2"); /* both nodes know it as theirs now */
    assert_int_equal(store_value(a, "x"), 1);
    store_begin(a);
    assert_int_equal(store_value(a, "x"), 2); /* even before it was followed */
    assert_string_equal(store_followed(a, true), "2 entity x\n");
    assert_int_equal(store_value(a, "x"), 2);
    store_put(a, "x", 3, "3");
    store_commit(a);
    store_begin(b); /* which does not follow: it is reported later, with its own change */
    assert_int_equal(store_value(b, "x"), 3);
    store_put(b, "y", 1, "1");
    store_commit(b);
    assert_int_equal(store_value(b, "x"), 3);
    assert_string_equal(store_followed(b, true), "3 entity x\n4 entity y\n");
    store_close(a);
    store_close(b);
}

#define WRITERS 3
#define ROUNDS 25

struct writer {
    pthread_t thread;
    int number;
    int failed;
};

static bool ignore(void *user, const struct log_entry *change)
{
    (void)user;
    (void)change;
    return true;
}

/* One more each time; cmocka's asserts belong to the main thread. */
static void *count_up(void *user)
{
    struct writer *w = user;
    struct store *store = store_open(url);
    for (int i = 0; i < ROUNDS; i++) {
        char value[24], id[32];
        struct entity_version v = {.from = 0};
        struct tidings_error err = {0};
        int64_t n = 0;
        int rc = store->ops->begin(store, &err);
        rc = rc == 0 ? store->ops->follow(store, ignore, NULL, &err) : rc;
        int found =
            rc == 0 ? store->ops->find(store, STR("counter"), TIMELINE_FOREVER, &v, &err) : rc;
        if (found < 0 || (found == 1 && !str_to_i64(v.value, &n))) {
            w->failed++;
            store->ops->rollback(store);
            continue;
        }
        (void)snprintf(value, sizeof value, "%lld", (long long)n + 1);
        (void)snprintf(id, sizeof id, "w%d-%d", w->number, i);
        store_put(store, "counter", v.from + 1, value);
        store_put(store, id, 1, "1");
        store_announce(store, id);
        w->failed += store->ops->commit(store, &err) < 0;
    }
    store_close(store);
    return NULL;
}

struct order {
    uint64_t last;
    unsigned count, counter;
    bool is_wrong;
};

static bool check_order(void *user, const struct log_entry *c)
{
    struct order *o = user;
    o->is_wrong = o->is_wrong || c->position <= o->last;
    o->last = c->position;
    o->count++;
    o->counter += c->kind == LOG_ENTRY_ENTITY && str_eq(c->uri, STR("counter"));
    return true;
}

static void concurrent_writers_produce_one_order_without_gaps(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *reader = store_open(url);
    struct writer writers[WRITERS];
    struct order order = {0};
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.number = i};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, count_up, &writers[i]), 0);
    }
    /* Each batch has three positions. */
    for (int i = 0; i < 20000 && order.last < WRITERS * ROUNDS * 3; i++) {
        struct pollfd p = {.fd = reader->ops->descriptor(reader), .events = POLLIN};
        (void)poll(&p, p.fd >= 0 ? 1 : 0, 5);
        assert_int_equal(reader->ops->follow(reader, check_order, &order, NULL), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_int_equal(writers[i].failed, 0);
    }
    assert_false(order.is_wrong);
    assert_int_equal(order.last, WRITERS * ROUNDS * 3);
    assert_int_equal(order.count, WRITERS * ROUNDS * 3);
    assert_int_equal(order.counter, WRITERS * ROUNDS);
    assert_int_equal(store_value(reader, "counter"), WRITERS * ROUNDS);
    store_close(reader);
}

/* ---- nodes that start ------------------------------------------------------------------------ */

static void *open_and_close(void *user)
{
    struct store **ret = user;
    *ret = store_open(url);
    return NULL;
}

static void concurrent_first_starts_create_one_store(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    pthread_t threads[5];
    struct store *rows[5] = {NULL};
    unsigned char secret[32], other[32];
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &rows[i]), 0);
    }
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(rows[i]);
        assert_int_equal(rows[i]->ops->secret(rows[i], i == 0 ? secret : other, NULL), 0);
        assert_true(i == 0 || memcmp(secret, other, 32) == 0);
    }
    for (int i = 0; i < 5; i++) {
        store_close(rows[i]);
    }
}

static const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};

/* A cursor of any node is valid on every other. */
static void cursor_of_one_node_resumes_on_another(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    struct changelog *of_a = NULL, *of_b = NULL;
    uint64_t number = 0;
    assert_int_equal(a->ops->create_changelog(a, &limits, &of_a, NULL), 0);
    assert_int_equal(b->ops->create_changelog(b, &limits, &of_b, NULL), 0);
    uint64_t epoch_a = of_a->ops->epoch(of_a), epoch_b = of_b->ops->epoch(of_b);
    assert_string_equal(store_followed(a, false), "run\n");
    store_followed(b, false);
    uint64_t position = store_put_alone(a, "x", 1, "1");
    assert_true(of_a->ops->resume(of_a, epoch_b, position, true, &number));
    assert_true(
        of_b->ops->resume(of_b, epoch_a, position, true, &number)); /* it will come so far */
    assert_string_equal(store_followed(b, false), "entity x\n");
    assert_true(of_b->ops->resume(of_b, epoch_a, position, true, &number));
    assert_false(of_b->ops->resume(of_b, epoch_a + 1, position, true, &number));
    of_a->ops->destroy(of_a);
    store_close(a); /* it ends there */
    assert_true(of_b->ops->resume(of_b, epoch_a, position, true, &number));
    of_b->ops->destroy(of_b);
    store_close(b);
}

/* ---- leases, nodes, sessions ----------------------------------------------------------------- */

static void lease_has_one_holder_until_expiry(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    int64_t left = 0;
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 15000, NULL, &err), 1);
    assert_int_equal(postgres_take_lease(b, STR("m"), STR("B"), 15000, &left, &err), 0);
    assert_in_range(left, 1, 15000);
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 1, NULL, &err), 1);
    while (postgres_take_lease(b, STR("m"), STR("B"), 15000, &left, &err) == 0) {
        assert_in_range(left, 0, 1);
    }
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 15000, NULL, &err), 0);
    assert_int_equal(postgres_release_lease(a, STR("m"), STR("A"), &err), 0); /* not its own */
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 15000, NULL, &err), 0);
    assert_int_equal(postgres_release_lease(b, STR("m"), STR("B"), &err), 0);
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 15000, NULL, &err), 1);
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 15001, NULL, &err),
                     TIDINGS_E_INVALID);
    assert_int_equal(postgres_take_lease(a, tidings_strn("a\0b", 3), STR("A"), 100, NULL, &err),
                     TIDINGS_E_INVALID);
    store_close(a);
    store_close(b);
}

static bool print_node(void *user, const struct node_row *row)
{
    buf_putf(user, "%.*s %.*s %.*s %llu %s\n", STR_ARG(row->name), STR_ARG(row->version),
             STR_ARG(row->state), (unsigned long long)row->followed,
             row->left_ms > 0 ? "alive" : "gone");
    return true;
}

static void check_nodes(struct store *store, const char *expected)
{
    struct buf out;
    buf_init(&out, 65536);
    buf_puts(&out, STR(""));
    assert_int_equal(postgres_each_node(store, print_node, &out, NULL), 0);
    assert_string_equal(out.ptr, expected);
    buf_deinit(&out);
}

static void nodes_are_listed_by_name_while_alive(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    for (int i = 0; i < 8; i++) { /* no node has followed more than exists */
        store_announce_alone(a, "n:///1");
    }
    struct node_row row = {
        .name = STR("one"), .version = STR("1"), .state = STR("{}"), .followed = 7};
    assert_int_equal(postgres_put_node(a, &row, 60000, &err), 0);
    row.followed = 8;
    assert_int_equal(postgres_put_node(a, &row, 60000, &err), 0);
    assert_int_equal(postgres_put_node(b, &row, 60000, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "'one'"));
    row.name = STR("two");
    assert_int_equal(postgres_put_node(b, &row, 60000, &err), 0);
    check_nodes(a, "one 1 {} 8 alive\ntwo 1 {} 8 alive\n");
    assert_int_equal(postgres_drop_node(b, STR("one"), &err), 0); /* not its own */
    assert_int_equal(postgres_drop_node(a, STR("one"), &err), 0);
    check_nodes(a, "two 1 {} 8 alive\n");
    row.name = STR("three");
    assert_int_equal(postgres_put_node(a, &row, 0, &err), 0);
    check_nodes(a, "three 1 {} 8 gone\ntwo 1 {} 8 alive\n");
    row.name = STR("three"); /* gone: the name is free again */
    assert_int_equal(postgres_put_node(b, &row, 60000, &err), 0);
    char large[5000];
    memset(large, 'x', sizeof large);
    row.state = tidings_strn(large, sizeof large);
    assert_int_equal(postgres_put_node(b, &row, 60000, &err), TIDINGS_E_LIMIT);
    store_close(a);
    store_close(b);
}

static void session_has_one_node_and_others_are_notified(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    struct session_row row = {.id = STR("s"), .node = STR("A"), .state = STR("{1}")}, taken;
    assert_int_equal(postgres_take_session(b, STR("s"), STR("B"), &taken, &err), 0);
    assert_int_equal(postgres_put_session(a, &row, &err), 0);
    row.state = STR("{2}");
    assert_int_equal(postgres_put_session(a, &row, &err), 0);
    assert_int_equal(postgres_take_session(b, STR("s"), STR("B"), &taken, &err), 1);
    assert_true(str_eq(taken.state, STR("{2}")) && str_eq(taken.node, STR("B")));
    assert_int_equal(taken.generation, 1);
    assert_true(taken.used_ms > 1000000000000);
    assert_string_equal(store_followed(a, false), "session s at B\n");
    assert_string_equal(store_followed(b, false), "");
    assert_int_equal(postgres_put_session(a, &row, &err), TIDINGS_E_CONFLICT);
    row = (struct session_row){
        .id = STR("s"), .node = STR("B"), .state = STR("{3}"), .generation = 1};
    assert_int_equal(postgres_put_session(b, &row, &err), 0);
    row.node = STR("A"); /* the same generation, from its previous owner */
    assert_int_equal(postgres_put_session(a, &row, &err), TIDINGS_E_CONFLICT);
    assert_int_equal(postgres_take_session(a, STR("s"), STR("A"), &taken, &err), 1);
    assert_true(str_eq(taken.state, STR("{3}")) && taken.generation == 2);
    assert_int_equal(postgres_age_sessions(a, 60000, &err), 0);
    assert_int_equal(postgres_drop_session(a, STR("s"), &err), 0);
    row =
        (struct session_row){.id = STR("s"), .node = STR("A"), .state = STR("{}"), .generation = 2};
    assert_int_equal(postgres_put_session(a, &row, &err), TIDINGS_E_CONFLICT);
    row.generation = 0;
    assert_int_equal(postgres_put_session(a, &row, &err), 0);
    assert_int_equal(postgres_age_sessions(a, 0, &err), 0);
    assert_int_equal(postgres_take_session(a, STR("s"), STR("A"), &taken, &err), 0);
    store_close(a);
    store_close(b);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_are_followed_in_order_by_other_nodes),
        cmocka_unit_test(newest_position_is_known_before_follow),
        cmocka_unit_test(owner_announcements_differ_from_program_announcements),
        cmocka_unit_test(unsubscribable_changes_stay_unsubscribable_on_other_nodes),
        cmocka_unit_test(delivered_changes_count_as_followed),
        cmocka_unit_test(lost_announcements_are_reported_in_their_place),
        cmocka_unit_test(untrusted_bytes_are_stored_unchanged),
        cmocka_unit_test(follow_queries_never_scan_whole_tables),
        cmocka_unit_test(writes_of_other_nodes_are_visible_under_lock),
        cmocka_unit_test(concurrent_writers_produce_one_order_without_gaps),
        cmocka_unit_test(concurrent_first_starts_create_one_store),
        cmocka_unit_test(cursor_of_one_node_resumes_on_another),
        cmocka_unit_test(lease_has_one_holder_until_expiry),
        cmocka_unit_test(nodes_are_listed_by_name_while_alive),
        cmocka_unit_test(session_has_one_node_and_others_are_notified),
    };
    return cmocka_run_group_tests_name("several nodes", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
