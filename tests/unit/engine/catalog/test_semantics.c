/* SPDX-License-Identifier: MIT
 *
 * The description of subscriptions for programs: one entry per scheme. A provider's own rows
 * replace the general ones, and only a provider that has a relation lists it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/catalog/resource.h"
#include "support/fail_alloc.h"

static int open_it(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void read_it(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    (void)read;
    (void)uri;
}

static void read_entry(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)read;
    (void)uri;
}

static void close_it(struct tidings_provider *p)
{
    (void)p;
}

static bool covers(struct tidings_provider *p, struct tidings_str subscribed,
                   struct tidings_str changed)
{
    (void)p;
    (void)subscribed;
    (void)changed;
    return false;
}

static const struct tidings_semantics rows[] = {
    {TIDINGS_FORM_QUERY, "db:///{table}?where={+condition}", "rows that satisfy it"},
    {TIDINGS_FORM_QUERY, "db:///{table}?top={n}", "the first rows"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

static const struct tidings_provider_ops with_rows = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "rows",
    .open = open_it,
    .read = read_it,
    .close = close_it,
    .covers = covers,
    .semantics = rows,
};

static const struct tidings_provider_ops plain = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "plain",
    .open = open_it,
    .read = read_it,
    .close = close_it,
};

static const struct tidings_provider_ops bare = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "bare",
    .flags = TIDINGS_PROVIDER_BARE_CHANGES,
    .open = open_it,
    .read = read_it,
    .close = close_it,
};

/* A catalog and its providers, which it does not own. */
struct made {
    struct catalog *catalog;
    struct tidings_provider *mounts[4];
    size_t count;
};

static void derive(struct made *m, struct catalog_entry *add, struct tidings_provider *mount)
{
    struct catalog *next = catalog_derive(m->catalog, add, mount, STR_EMPTY);
    assert_non_null(next);
    catalog_unref(m->catalog);
    m->catalog = next;
}

static void mount(struct made *m, const struct tidings_provider_ops *ops, const char *prefix)
{
    struct tidings_provider **p = &m->mounts[m->count++];
    assert_int_equal(provider_create(ops, NULL, tidings_str(prefix), STR_EMPTY, p, NULL), 0);
    derive(m, NULL, *p);
}

static void add(struct made *m, const char *uri, bool is_template)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = STR("n");
    struct catalog_entry *e = catalog_entry_create(&about, is_template, read_entry, NULL, NULL);
    assert_non_null(e);
    derive(m, e, NULL);
    catalog_entry_unref(e);
}

static void make(struct made *m)
{
    memset(m, 0, sizeof(*m));
    mount(m, &with_rows, "db:///a/");
    mount(m, &with_rows, "db:///b/");
    mount(m, &plain, "x:///");
    add(m, "a-b:///1", false);
    add(m, "a:///1", false);
    add(m, "a:///2", false);
    add(m, "weather://{city}", true);
    add(m, "{+anything}", true);
}

static void unmake(struct made *m)
{
    catalog_unref(m->catalog);
    for (size_t i = 0; i < m->count; i++) {
        provider_destroy(m->mounts[i]);
    }
}

static struct json *describe_for(const struct catalog *catalog, bool allow_write)
{
    struct buf text;
    struct jw w;
    struct json *root = NULL;
    struct tidings_error err = {0};
    buf_init(&text, 1u << 20);
    jw_init(&w, &text);
    semantics_write(&w, catalog, allow_write);
    assert_int_equal(text.failed, 0);
    if (jv_parse(buf_str(&text), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", err.text, text.ptr);
    }
    buf_deinit(&text);
    return root;
}

static struct json *describe(const struct catalog *catalog)
{
    return describe_for(catalog, false);
}

static void expect(const struct json *scheme, size_t index, const char *form, const char *uri)
{
    const struct json *row = jv_at(scheme, index);
    assert_true(str_eq(jv_str(jv_get(row, "form")), tidings_str(form)));
    assert_true(str_eq(jv_str(jv_get(row, "uri")), tidings_str(uri)));
    assert_true(jv_count(jv_get(row, "covers")) > 0);
    assert_true(jv_str(jv_get(row, "description")).len > 0);
}

static void schemes_are_each_described_once(void **state)
{
    (void)state;
    struct made m;
    make(&m);
    struct json *root = describe(m.catalog);
    const struct json *schemes = jv_get(root, "schemes");
    assert_int_equal(jv_count(schemes), 5); /* a, a-b, db, weather, x; not the variable one */
    const struct json *db = jv_get(schemes, "db");
    assert_int_equal(jv_count(db), 8);
    expect(db, 0, "resource", "db:{+resource}");
    expect(db, 1, "query", "db:///{table}?where={+condition}");
    expect(db, 2, "query", "db:///{table}?top={n}");
    expect(db, 7, "related", "db:{+resource}");
    const struct json *a = jv_get(schemes, "a");
    assert_int_equal(jv_count(a), 6);
    expect(a, 1, "query", "a:{+path}?{+attributes}");
    expect(a, 4, "container", "a:{+path}/");
    assert_int_equal(jv_count(jv_get(schemes, "a-b")), 6);
    assert_int_equal(jv_count(jv_get(schemes, "weather")), 6);
    assert_int_equal(jv_count(jv_get(schemes, "x")), 6);
    jv_unref(root);
    unmake(&m);
}

static bool has_queries(const struct catalog *catalog, const char *scheme, bool allow_write)
{
    struct json *root = describe_for(catalog, allow_write);
    const struct json *rows_of = jv_get(jv_get(root, "schemes"), scheme);
    bool has = false;
    assert_true(jv_count(rows_of) >= 5);
    for (size_t i = 0; i < jv_count(rows_of); i++) {
        has = has || str_eq(jv_str(jv_get(jv_at(rows_of, i), "form")), STR("query"));
    }
    jv_unref(root);
    return has;
}

static void queries_are_described_if_changes_can_carry_metadata(void **state)
{
    (void)state;
    struct made m = {0};
    mount(&m, &bare, "m:///");
    assert_false(has_queries(m.catalog, "m", false));
    assert_true(has_queries(m.catalog, "m", true)); /* a client may notify */
    mount(&m, &plain, "x:///");
    assert_true(has_queries(m.catalog, "x", false));
    assert_false(has_queries(m.catalog, "m", false)); /* another scheme does not help */
    add(&m, "m2:///1", false);
    assert_false(has_queries(m.catalog, "m", false));
    add(&m, "m:{name}", true); /* the program may announce these */
    assert_true(has_queries(m.catalog, "m", false));
    unmake(&m);
    m = (struct made){0};
    mount(&m, &bare, "m:///a/");
    mount(&m, &plain, "m:///b/");
    assert_true(has_queries(m.catalog, "m", false));
    unmake(&m);
}

static void description_is_empty_if_nothing_is_served(void **state)
{
    (void)state;
    struct catalog *empty = catalog_derive(NULL, NULL, NULL, STR_EMPTY);
    struct json *root = describe(empty);
    assert_int_equal(jv_count(jv_get(root, "schemes")), 0);
    jv_unref(root);
    catalog_unref(empty);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    fail_alloc_start(0); /* all memory is allocated here */
    struct made m;
    make(&m);
    long before = fail_alloc_live();
    for (long n = 1;; n++) {
        struct buf text;
        struct jw w;
        buf_init(&text, 1u << 20);
        jw_init(&w, &text);
        fail_alloc_start(n);
        semantics_write(&w, m.catalog, false);
        bool reached = fail_alloc_stop();
        assert_int_equal(text.failed, reached ? TIDINGS_E_NOMEM : 0);
        buf_deinit(&text);
        assert_int_equal(fail_alloc_live(), before);
        if (!reached) {
            break;
        }
    }
    unmake(&m);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemes_are_each_described_once),
        cmocka_unit_test(queries_are_described_if_changes_can_carry_metadata),
        cmocka_unit_test(description_is_empty_if_nothing_is_served),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
