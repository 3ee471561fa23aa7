/* SPDX-License-Identifier: MIT
 *
 * Entities: the types that a failed batch leaves behind, and the effect of a transaction that
 * exceeds its memory limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/entities.h"
#include "store/memory_store.h"

#define LARGE 3000u

static struct store *store;
static struct entities *e;
static struct arena arena;
static struct entity_problem problem;
static struct entity_done done[4];
static struct tidings_error err;

static int add_type(const char *name, const char *version, const char *options)
{
    struct entity_type_spec spec = {.name = tidings_str(name), .version = tidings_str(version)};
    assert_int_equal(jv_parse(STR("{}"), JSON_MAX_DEPTH, &spec.schema, NULL), 0);
    assert_int_equal(jv_parse(tidings_str(options), JSON_MAX_DEPTH, &spec.options, NULL), 0);
    int rc = entities_add_type(e, &spec, &err);
    jv_unref(spec.schema);
    jv_unref(spec.options);
    return rc;
}

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 64u << 20);
    store = memory_store_create(NULL);
    assert_int_equal(entities_open(store, &e, &err), 0);
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(add_type("T", "1", "{}"), 0);
    assert_int_equal(add_type("Calm", "1", "{\"debounceMs\":100}"), 0);
    return entities_commit(e, &err);
}

static int tear_down(void **state)
{
    (void)state;
    entities_close(e);
    arena_deinit(&arena);
    return 0;
}

static struct entity_write write_to(const char *id, const char *type, struct json *value)
{
    return (struct entity_write){
        .id = tidings_str(id),
        .type = tidings_str(type),
        .type_version = STR("1"),
        .changed_by = STR("[]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = TIMELINE_NEVER,
        .value = value,
    };
}

static int transact(struct entity_write *writes, size_t count, int64_t now, struct arena *memory)
{
    const struct entity_transaction t = {.writes = writes, .count = count, .now = now};
    return entities_transact(e, &t, memory, done, &problem, &err);
}

static int upsert(const char *id, const char *type, const char *text)
{
    struct json *value = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &value, NULL), 0);
    struct entity_write w = write_to(id, type, value);
    int rc = transact(&w, 1, 1000, &arena);
    jv_unref(value);
    return rc;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool put_label(void *user, const struct entity_type_row *row)
{
    buf_putf(user, "%.*s@%.*s ", STR_ARG(row->name), STR_ARG(row->version));
    return true;
}

static void assert_types(const char *expected)
{
    struct buf labels;
    buf_init(&labels, 256);
    entities_each_type(e, put_label, &labels);
    assert_string_equal(labels.ptr ? labels.ptr : "", expected);
    buf_deinit(&labels);
}

static int fail_types(struct store *unused, entity_type_fn fn, void *user,
                      struct tidings_error *why)
{
    (void)unused;
    (void)fn;
    (void)user;
    return tidings_fail(why, TIDINGS_E_BUSY, "the database cannot be reached");
}

static const struct store_ops *whole;
static struct store_ops away;

static void pass_rollback(struct store *failing)
{
    failing->ops = whole;
    whole->rollback(failing);
    failing->ops = &away;
}

static int fail_commit(struct store *failing, struct tidings_error *why)
{
    pass_rollback(failing);
    return tidings_fail(why, TIDINGS_E_BUSY, "the database cannot be reached");
}

/* A lost connection dropped the known types with the batch, so that every write failed after the
 * reconnect. */
static void known_types_stay_if_a_batch_with_new_types_is_lost(void **state)
{
    (void)state;
    whole = store->ops;
    away = *whole;
    away.types = fail_types;
    away.rollback = pass_rollback;
    away.commit = fail_commit;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(entities_begin(e, &err), 0);
        assert_int_equal(add_type("T", "3", "{}"), 0);
        assert_int_equal(add_type("T", "0", "{}"), 0);
        assert_int_equal(add_type("T", "2", "{}"), 0);
        assert_int_equal(add_type("New", "1", "{}"), 0);
        assert_types("Calm@1 New@1 T@0 T@1 T@2 T@3 ");
        store->ops = &away;
        if (i == 0) {
            entities_rollback(e);
        } else {
            assert_int_equal(entities_commit(e, &err), TIDINGS_E_BUSY);
        }
        store->ops = whole;
        assert_types("Calm@1 T@1 ");
        assert_int_equal(entities_begin(e, &err), 0);
        assert_int_equal(upsert("a", "T", i == 0 ? "1" : "2"), 0);
        assert_string_equal(done[0].version.type_version.ptr, "1");
        assert_true(upsert("b", "New", "1") < 0);
        assert_int_equal(entities_commit(e, &err), 0);
    }
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(add_type("T", "2", "{}"), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    assert_int_equal(entities_begin(e, &err), 0);
    entities_rollback(e);
    assert_types("Calm@1 T@1 T@2 "); /* committed types stay */
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct json *large(char c)
{
    char text[LARGE];
    struct json *value = NULL;
    memset(text, c, sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    assert_int_equal(jv_parse(tidings_strn(text, sizeof text), JSON_MAX_DEPTH, &value, NULL), 0);
    return value;
}

/* One of them replaces the previous version, which needs its own memory. */
static int write_both(char c, int64_t now, struct arena *memory)
{
    struct json *value = large(c);
    struct entity_write writes[] = {write_to("a", "T", value), write_to("b", "Calm", value)};
    int rc = transact(writes, 2, now, memory);
    jv_unref(value);
    return rc;
}

static bool has_current(const char *id, char c)
{
    struct entity_version v;
    assert_int_equal(entities_find(e, tidings_str(id), TIMELINE_FOREVER, &arena, &v, &err), 1);
    return v.value.ptr[1] == c;
}

static void only_the_write_above_the_memory_limit_is_rejected(void **state)
{
    (void)state;
    unsigned refused = 0;
    int rc = TIDINGS_E_LIMIT;
    for (char c = 'a'; c < 'd'; c++) {
        assert_int_equal(entities_begin(e, &err), 0);
        assert_int_equal(write_both(c, 1000 + (c - 'a') * 90, &arena), 0);
        assert_int_equal(entities_commit(e, &err), 0);
    }
    for (size_t max = 0; rc < 0; max += 64) {
        struct arena small;
        char other[16];
        arena_init(&small, max);
        snprintf(other, sizeof other, "%zu", max);
        assert_int_equal(entities_begin(e, &err), 0);
        assert_int_equal(upsert("other", "T", other), 0);
        rc = write_both('z', 1200, &small);
        if (rc < 0) {
            assert_int_equal(rc, TIDINGS_E_LIMIT);
            assert_int_equal(problem.reason, ENTITY_INVALID); /* the batch continues */
            assert_non_null(strstr(err.text, "write fewer entities at once"));
            refused++;
        }
        assert_int_equal(entities_commit(e, &err), 0);
        assert_true(has_current("a", rc < 0 ? 'c' : 'z') && has_current("b", rc < 0 ? 'c' : 'z'));
        arena_deinit(&small);
    }
    assert_true(refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_types_stay_if_a_batch_with_new_types_is_lost, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_the_write_above_the_memory_limit_is_rejected, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
