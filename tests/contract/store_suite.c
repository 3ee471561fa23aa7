/* SPDX-License-Identifier: MIT
 *
 * The contract of a store for entity versions.
 */
#include "contract/store_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"

static store_factory_fn factory;

static struct entity_version version(const char *id, int64_t from, const char *value)
{
    return (struct entity_version){
        .id = tidings_str(id),
        .type = STR("user"),
        .type_version = STR("1"),
        .parent = STR(""),
        .value = tidings_str(value),
        .changed_by = STR("[]"),
        .previous = STR("{}"),
        .from = from,
    };
}

static void must(int rc, const struct tidings_error *err)
{
    if (rc < 0) {
        fail_msg("%s", err->text);
    }
}

static void begin(struct store *r)
{
    struct tidings_error err = {0};
    must(r->ops->begin(r, &err), &err);
}

static void commit(struct store *r)
{
    struct tidings_error err = {0};
    must(r->ops->commit(r, &err), &err);
}

static void put_version(struct store *r, struct entity_version v, bool instead)
{
    struct tidings_error err = {0};
    must(r->ops->put(r, &v, instead, &err), &err);
}

static void put(struct store *r, const char *id, int64_t from, const char *value)
{
    put_version(r, version(id, from, value), false);
}

/* ---- seeing ---------------------------------------------------------------------------------- */

static bool dump_version(void *user, const struct entity_version *v)
{
    buf_putf(user, " %.*s[%lld,%lld)%.*s@%.*s^%.*s%s=%.*s/%.*s", STR_ARG(v->id), (long long)v->from,
             v->to == TIMELINE_FOREVER ? -1 : (long long)v->to, STR_ARG(v->type),
             STR_ARG(v->type_version), STR_ARG(v->parent), v->deleted ? "!" : "", STR_ARG(v->value),
             STR_ARG(v->previous));
    if (v->since != 0) {
        buf_putf(user, "~%lld", (long long)v->since);
    }
    return true;
}

static bool dump_id(void *user, const struct entity_version *v)
{
    buf_putf(user, "%.*s ", STR_ARG(v->id));
    return true;
}

static bool dump_type(void *user, const struct entity_type_row *row)
{
    buf_putf(user, "%.*s@%.*s ", STR_ARG(row->name), STR_ARG(row->version));
    return true;
}

static void dump_list(struct store *r, const char *type, const char *of, const char *parent,
                      struct buf *out)
{
    struct tidings_error err = {0};
    const struct entity_scope scope = {
        .type = tidings_str(type),
        .type_version = tidings_str(of),
        .parent = tidings_str(parent ? parent : ""),
        .by_parent = parent != NULL,
    };
    must(r->ops->list(r, &scope, STR(""), dump_id, out, &err), &err);
    buf_putc(out, '\n');
}

static const char *const random_ids[] = {"a", "b", "c", "d.e", "f-g"};

void store_dump(struct store *store, struct buf *out)
{
    struct tidings_error err = {0};
    must(store->ops->types(store, dump_type, out, &err), &err);
    dump_list(store, "", "", NULL, out);
    dump_list(store, "user", "", NULL, out);
    dump_list(store, "user", "2", NULL, out);
    dump_list(store, "", "", "a", out);
    dump_list(store, "user", "", "a", out);
    dump_list(store, "user", "1", "a", out);
    for (size_t i = 0; i < sizeof random_ids / sizeof *random_ids; i++) {
        struct tidings_str id = tidings_str(random_ids[i]);
        must(store->ops->history(store, id, TIMELINE_NEVER, dump_version, out, &err), &err);
        buf_puts(out, STR("\n at"));
        for (int64_t at = 0; at < 120; at += 7) {
            struct entity_version v;
            int rc = store->ops->find(store, id, at, &v, &err);
            must(rc, &err);
            buf_putf(out, " %lld", rc == 1 ? (long long)v.from : -1);
        }
        buf_putc(out, '\n');
    }
    assert_int_equal(out->failed, 0);
}

static unsigned draw(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

void store_random_batch(struct store *store, uint64_t *seed)
{
    struct tidings_error err = {0};
    begin(store);
    for (unsigned n = draw(seed, 5); n > 0; n--) {
        struct tidings_str id = tidings_str(random_ids[draw(seed, 5)]);
        struct entity_version newest = {.from = 0}, v = version("", 0, "");
        int found = store->ops->find(store, id, TIMELINE_FOREVER, &newest, &err);
        must(found, &err);
        if (draw(seed, 6) == 0) {
            int64_t end = draw(seed, 120);
            must(store->ops->forget(store, id, end, &err), &err);
            continue;
        }
        char value[16];
        (void)snprintf(value, sizeof value, "%u", draw(seed, 1000));
        v.id = id;
        v.from = newest.from + 1 + draw(seed, 3);
        v.value = tidings_str(value);
        v.type_version = draw(seed, 3) ? STR("1") : STR("2");
        v.parent = draw(seed, 2) ? STR("a") : STR("");
        v.deleted = draw(seed, 5) == 0;
        put_version(store, v, draw(seed, 4) == 0);
    }
    if (draw(seed, 4) == 0) {
        store->ops->rollback(store);
    } else {
        commit(store);
    }
}

static void assert_dumped(struct store *r, const char *id, const char *expected)
{
    struct tidings_error err = {0};
    struct buf out;
    buf_init(&out, 1u << 16);
    buf_puts(&out, STR(""));
    must(r->ops->history(r, tidings_str(id), TIMELINE_NEVER, dump_version, &out, &err), &err);
    assert_string_equal(out.ptr, expected);
    buf_deinit(&out);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void versions_cover_time_without_gap(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    struct entity_version v;
    assert_int_equal(r->ops->find(r, STR("x"), TIMELINE_FOREVER, &v, &err), 0);
    begin(r);
    put(r, "x", 10, "1");
    put(r, "x", 20, "2");
    commit(r);
    begin(r);
    put(r, "x", 30, "3");
    commit(r);
    assert_dumped(r, "x", " x[10,20)user@1^=1/{} x[20,30)user@1^=2/{} x[30,-1)user@1^=3/{}");
    static const struct {
        int64_t at, from, to;
    } rows[] = {{9, 0, 0},
                {10, 10, 20},
                {19, 10, 20},
                {20, 20, 30},
                {29, 20, 30},
                {30, 30, TIMELINE_FOREVER},
                {TIMELINE_FOREVER, 30, TIMELINE_FOREVER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(r->ops->find(r, STR("x"), rows[i].at, &v, &err), rows[i].from ? 1 : 0);
        assert_true(!rows[i].from || (v.from == rows[i].from && v.to == rows[i].to));
    }
    r->ops->destroy(r);
}

/* The current version is found by each of its keys, even after later versions. */
static void assert_current(struct store *r, const char *id, int64_t from, struct tidings_str value)
{
    struct tidings_error err;
    struct entity_version v;
    assert_int_equal(r->ops->find(r, tidings_str(id), TIMELINE_FOREVER, &v, &err), 1);
    assert_true(str_eq(v.id, tidings_str(id)) && str_eq(v.type, STR("user")));
    assert_true(v.from == from && v.to == TIMELINE_FOREVER);
    assert_true(str_eq(v.value, value) && v.old_type_version.len == 0);
}

static void current_version_is_the_last_stored(void **state)
{
    (void)state;
    struct store *r = factory();
    char large[5000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    begin(r);
    put(r, "x", 10, "1");
    assert_current(r, "x", 10, STR("1"));
    commit(r);
    begin(r);
    put(r, "x", 20, large);
    assert_current(r, "x", 20, tidings_str(large));
    put(r, "x", 30, "3");
    assert_current(r, "x", 30, STR("3"));
    r->ops->rollback(r);
    assert_current(r, "x", 10, STR("1"));
    begin(r);
    put(r, "x", 40, large);
    put_version(r, version("x", 50, "5"), true);
    commit(r);
    assert_current(r, "x", 50, STR("5"));
    begin(r);
    put(r, "x", 60, large);
    commit(r);
    assert_current(r, "x", 60, tidings_str(large));
    r->ops->destroy(r);
}

static void batch_is_visible_at_once_and_gone_after_rollback(void **state)
{
    (void)state;
    struct store *r = factory();
    begin(r);
    put(r, "x", 10, "1");
    commit(r);
    begin(r);
    put(r, "x", 20, "2");
    put(r, "y", 5, "1");
    assert_dumped(r, "x", " x[10,20)user@1^=1/{} x[20,-1)user@1^=2/{}");
    r->ops->rollback(r);
    assert_dumped(r, "x", " x[10,-1)user@1^=1/{}");
    assert_dumped(r, "y", "");
    begin(r);
    put(r, "x", 15, "3");
    commit(r);
    assert_dumped(r, "x", " x[10,15)user@1^=1/{} x[15,-1)user@1^=3/{}");
    r->ops->destroy(r);
}

static void version_can_replace_the_current_one(void **state)
{
    (void)state;
    struct store *r = factory();
    begin(r);
    put_version(r, version("x", 10, "1"), true); /* there is none yet */
    put(r, "x", 20, "2");
    commit(r);
    begin(r);
    put_version(r, version("x", 30, "3"), true);
    r->ops->rollback(r);
    assert_dumped(r, "x", " x[10,20)user@1^=1/{} x[20,-1)user@1^=2/{}");
    begin(r);
    put_version(r, version("x", 30, "3"), true);
    put_version(r, version("x", 40, "4"), true);
    commit(r);
    assert_dumped(r, "x", " x[10,40)user@1^=1/{} x[40,-1)user@1^=4/{}");
    begin(r);
    struct entity_version later = version("x", 50, "5");
    later.since = 40;
    put_version(r, later, true);
    commit(r);
    assert_dumped(r, "x", " x[10,50)user@1^=1/{} x[50,-1)user@1^=5/{}~40");
    r->ops->destroy(r);
}

static void newest_versions_can_be_counted(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    int64_t from = 0;
    static const int64_t starts[] = {10, 20, 30, 40, 50};
    for (size_t i = 0; i < 5; i++) {
        begin(r);
        put(r, "x", starts[i], "1");
        put(r, "y", starts[i], "1");
        commit(r);
        if (i == 2) {
            must(r->ops->idle(r, &err), &err); /* some are in place, some are not */
            begin(r);
            must(r->ops->forget(r, STR("x"), 20, &err), &err);
            commit(r);
        }
    }
    for (int64_t n = 1; n <= 4; n++) {
        assert_int_equal(r->ops->nth(r, STR("x"), n, &from, &err), 1);
        assert_int_equal(from, 60 - 10 * n);
    }
    assert_int_equal(r->ops->nth(r, STR("x"), 5, &from, &err), 0);
    assert_int_equal(r->ops->nth(r, STR("x"), 0, &from, &err), 0);
    assert_int_equal(r->ops->nth(r, STR("z"), 1, &from, &err), 0);
    assert_int_equal(r->ops->nth(r, STR("y"), 5, &from, &err), 1);
    assert_int_equal(from, 10);
    r->ops->destroy(r);
}

static void ended_versions_can_be_removed(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    begin(r);
    for (int64_t i = 1; i <= 5; i++) {
        put(r, "x", 10 * i, "v");
    }
    commit(r);
    (void)r->ops->idle(r, &err);
    begin(r);
    must(r->ops->forget(r, STR("x"), 29, &err), &err);
    must(r->ops->forget(r, STR("nobody"), 29, &err), &err);
    commit(r);
    assert_dumped(r, "x",
                  " x[20,30)user@1^=v/{} x[30,40)user@1^=v/{} x[40,50)user@1^=v/{} "
                  "x[50,-1)user@1^=v/{}");
    begin(r);
    must(r->ops->forget(r, STR("x"), 1000, &err), &err);
    r->ops->rollback(r);
    begin(r);
    must(r->ops->forget(r, STR("x"), 40, &err), &err);
    commit(r);
    assert_dumped(r, "x", " x[40,50)user@1^=v/{} x[50,-1)user@1^=v/{}");
    begin(r);
    must(r->ops->forget(r, STR("x"), TIMELINE_FOREVER - 1, &err), &err);
    commit(r);
    assert_dumped(r, "x", " x[50,-1)user@1^=v/{}");
    r->ops->destroy(r);
}

static bool stop_after_two(void *user, const struct entity_version *v)
{
    struct buf *out = user;
    dump_id(out, v);
    return out->len < 6;
}

static void current_versions_are_listed_by_id_in_pages(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    begin(r);
    for (int i = 5; i > 0; i--) {
        char id[8];
        (void)snprintf(id, sizeof id, "e%d", i);
        struct entity_version v = version(id, 10, "1");
        v.parent = i % 2 ? STR("p") : STR("");
        v.deleted = i == 3;
        put_version(r, v, false);
    }
    commit(r);
    struct buf out;
    buf_init(&out, 1024);
    struct entity_scope scope = {.type = STR("user")};
    must(r->ops->list(r, &scope, STR(""), stop_after_two, &out, &err), &err);
    assert_string_equal(out.ptr, "e1 e2 ");
    buf_clear(&out);
    must(r->ops->list(r, &scope, STR("e2"), dump_id, &out, &err), &err);
    assert_string_equal(out.ptr, "e4 e5 ");
    buf_clear(&out);
    scope = (struct entity_scope){.by_parent = true, .parent = STR("p"), .deleted = true};
    must(r->ops->list(r, &scope, STR("e0"), dump_id, &out, &err), &err);
    assert_string_equal(out.ptr, "e1 e3 e5 ");
    buf_clear(&out);
    scope = (struct entity_scope){.by_parent = true};
    must(r->ops->list(r, &scope, STR(""), dump_id, &out, &err), &err);
    assert_string_equal(out.ptr, "e2 e4 ");
    buf_deinit(&out);
    r->ops->destroy(r);
}

static void types_are_stored_once_in_order(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    static const struct tidings_str names[] = {{"b", 1}, {"a", 1}, {"b", 1}, {"a", 1}};
    static const struct tidings_str versions[] = {{"10", 2}, {"1", 1}, {"9", 1}, {"0.5", 3}};
    begin(r);
    for (size_t i = 0; i < 4; i++) {
        const struct entity_type_row row = {names[i], versions[i], STR("{}"), STR("d"), STR("")};
        must(r->ops->put_type(r, &row, &err), &err);
    }
    commit(r);
    begin(r);
    const struct entity_type_row again = {STR("a"), STR("1"), STR("{}"), STR("d"), STR("")};
    assert_int_equal(r->ops->put_type(r, &again, &err), TIDINGS_E_EXISTS);
    assert_string_equal(err.text, "entity type 'a@1' already exists");
    r->ops->rollback(r);
    begin(r);
    const struct entity_type_row third = {STR("c"), STR("1"), STR("{}"), STR(""), STR("")};
    must(r->ops->put_type(r, &third, &err), &err);
    r->ops->rollback(r);
    struct buf out;
    buf_init(&out, 1024);
    must(r->ops->types(r, dump_type, &out, &err), &err);
    assert_string_equal(out.ptr, "a@1 a@0.5 b@10 b@9 ");
    buf_deinit(&out);
    r->ops->destroy(r);
}

static void version_keeps_its_writer(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    struct entity_version v = version("a", 1, "1");
    v.principal = STR("{\"by\":\"user\"}");
    begin(r);
    put_version(r, v, false);
    put(r, "a", 2, "2");
    commit(r);
    (void)r->ops->idle(r, &err);
    assert_int_equal(r->ops->find(r, STR("a"), 1, &v, &err), 1);
    assert_true(str_eq(v.principal, STR("{\"by\":\"user\"}")));
    assert_int_equal(r->ops->find(r, STR("a"), TIMELINE_FOREVER, &v, &err), 1);
    assert_int_equal(v.principal.len, 0);
    r->ops->destroy(r);
}

static struct entity_key key_of(const char *owner, const char *key, int64_t at)
{
    return (struct entity_key){.owner = tidings_str(owner),
                               .key = tidings_str(key),
                               .digest = STR("d"),
                               .text = tidings_str(key),
                               .at = at};
}

/* Keys first, first + 1 … of one owner. */
static void put_keys(struct store *r, const char *owner, unsigned first, unsigned count, int64_t at)
{
    struct tidings_error err = {0};
    for (unsigned i = 0; i < count; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "k%u", first + i);
        struct entity_key key = key_of(owner, text, at);
        if (i % 250 == 0) {
            begin(r);
        }
        must(r->ops->put_key(r, &key, &err), &err);
        if (i % 250 == 249 || i + 1 == count) {
            commit(r);
        }
    }
}

static bool has_key(struct store *r, const char *owner, const char *key)
{
    struct tidings_error err = {0};
    struct entity_key found;
    int rc = r->ops->find_key(r, tidings_str(owner), tidings_str(key), &found, &err);
    assert_true(rc == 0 || (rc == 1 && str_eq(found.text, tidings_str(key)) &&
                            str_eq(found.owner, tidings_str(owner))));
    return rc == 1;
}

static void newest_keys_of_each_owner_are_kept(void **state)
{
    (void)state;
    struct store *r = factory();
    struct tidings_error err = {0};
    put_keys(r, "b", 0, 1, 1000);
    put_keys(r, "a", 0, ENTITY_KEYS_OF_ONE + 5, 1000);
    assert_false(has_key(r, "a", "k4"));
    assert_true(has_key(r, "a", "k5"));
    assert_true(has_key(r, "a", "k1004"));
    assert_true(has_key(r, "b", "k0")); /* which is another */
    assert_false(has_key(r, "b", "k5"));
    begin(r);
    struct entity_key key = key_of("a", "new", 1000);
    must(r->ops->put_key(r, &key, &err), &err);
    assert_true(has_key(r, "a", "new"));
    r->ops->rollback(r);
    assert_false(has_key(r, "a", "new"));
    r->ops->destroy(r);
}

static void owner_with_most_keys_loses_keys_at_limit(void **state)
{
    (void)state;
    struct store *r = factory();
    char owner[16];
    put_keys(r, "small", 0, 10, 1000);
    for (unsigned i = 0; i < 12; i++) {
        (void)snprintf(owner, sizeof owner, "large%u", i);
        put_keys(r, owner, 0, ENTITY_KEYS_OF_ONE, 1000);
    }
    for (unsigned i = 0; i < 10; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        assert_true(has_key(r, "small", key));
    }
    for (unsigned i = 0; i < 12; i++) {
        (void)snprintf(owner, sizeof owner, "large%u", i);
        assert_true(has_key(r, owner, "k999"));
    }
    assert_false(has_key(r, "large0", "k0"));
    r->ops->destroy(r);
}

static void expired_key_is_removed(void **state)
{
    (void)state;
    struct store *r = factory();
    put_keys(r, "a", 0, 2, 1000);
    put_keys(r, "a", 2, 1, 1000 + ENTITY_KEY_AGE_MS - 1);
    assert_true(has_key(r, "a", "k0"));
    put_keys(r, "b", 0, 1, 1000 + ENTITY_KEY_AGE_MS);
    assert_false(has_key(r, "a", "k0"));
    assert_false(has_key(r, "a", "k1"));
    assert_true(has_key(r, "a", "k2"));
    put_keys(r, "a", 2, 1, 1000 + ENTITY_KEY_AGE_MS); /* again: it replaces the other */
    assert_true(has_key(r, "a", "k2"));
    r->ops->destroy(r);
}

int store_suite(const char *name, store_factory_fn make)
{
    factory = make;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_cover_time_without_gap),
        cmocka_unit_test(current_version_is_the_last_stored),
        cmocka_unit_test(batch_is_visible_at_once_and_gone_after_rollback),
        cmocka_unit_test(version_can_replace_the_current_one),
        cmocka_unit_test(ended_versions_can_be_removed),
        cmocka_unit_test(newest_versions_can_be_counted),
        cmocka_unit_test(current_versions_are_listed_by_id_in_pages),
        cmocka_unit_test(types_are_stored_once_in_order),
        cmocka_unit_test(version_keeps_its_writer),
        cmocka_unit_test(newest_keys_of_each_owner_are_kept),
        cmocka_unit_test(owner_with_most_keys_loses_keys_at_limit),
        cmocka_unit_test(expired_key_is_removed),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
