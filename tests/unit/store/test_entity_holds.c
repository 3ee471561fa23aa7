/* SPDX-License-Identifier: MIT
 *
 * Held versions: counted, the oldest first, kept from every kind of compaction, and gone when
 * memory runs out.
 */
#include "store/entities.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/memory_store.h"
#include "support/fail_alloc.h"

#define TIMES 16u

static void random_holds_match_the_table(void **state)
{
    (void)state;
    struct entity_holds h;
    unsigned counts[2][TIMES] = {{0}};
    const struct tidings_str ids[2] = {STR("a"), STR("b")};
    uint64_t seed = 7;
    entity_holds_init(&h);
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned which = (unsigned)(seed >> 63), at = (unsigned)((seed >> 40) % TIMES);
        bool adds = (seed >> 50) % 2;
        if (adds) {
            assert_int_equal(entity_holds_add(&h, ids[which], at), 0);
            counts[which][at]++;
        } else {
            entity_holds_remove(&h, ids[which], at); /* it may not exist */
            counts[which][at] -= counts[which][at] > 0;
        }
        int64_t oldest = TIMELINE_FOREVER;
        for (unsigned k = TIMES; k-- > 0;) {
            assert_int_equal(entity_holds_has(&h, ids[which], k), counts[which][k] > 0);
            oldest = counts[which][k] > 0 ? k : oldest;
        }
        assert_true(entity_holds_oldest(&h, ids[which]) == oldest);
    }
    entity_holds_deinit(&h);
}

static void offered_versions_count_as_held_while_any_is_held(void **state)
{
    (void)state;
    struct entity_holds h;
    entity_holds_init(&h);
    entity_holds_offer(&h, STR("a"), 2);
    assert_false(entity_holds_has(&h, STR("a"), 2));
    assert_int_equal(entity_holds_add(&h, STR("a"), 1), 0);
    entity_holds_offer(&h, STR("a"), 2);
    assert_true(entity_holds_has(&h, STR("a"), 2));
    entity_holds_offer(&h, STR("a"), 3);
    assert_false(entity_holds_has(&h, STR("a"), 2));
    assert_true(entity_holds_has(&h, STR("a"), 3));
    assert_true(entity_holds_oldest(&h, STR("a")) == 1);
    entity_holds_remove(&h, STR("a"), 1);
    assert_false(entity_holds_has(&h, STR("a"), 3));
    entity_holds_deinit(&h);
}

static void failed_allocation_holds_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct entity_holds h;
        entity_holds_init(&h);
        fail_alloc_start(n);
        bool held[3];
        for (int i = 0; i < 3; i++) {
            int rc = entity_holds_add(&h, STR("a"), 3 - i);
            assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
            held[i] = rc == 0;
        }
        bool reached = fail_alloc_stop();
        for (int i = 0; i < 3; i++) {
            assert_int_equal(entity_holds_has(&h, STR("a"), 3 - i), held[i]);
            entity_holds_remove(&h, STR("a"), 3 - i);
        }
        assert_true(entity_holds_oldest(&h, STR("a")) == TIMELINE_FOREVER);
        entity_holds_deinit(&h);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

/* ---- compaction of held versions ------------------------------------------------------------ */

static struct entities *e;
static struct arena arena;
static struct entity_done done;

static void add_type(const char *name, const char *options)
{
    struct entity_type_spec spec = {.name = tidings_str(name), .version = STR("1")};
    assert_int_equal(jv_parse(STR("{}"), JSON_MAX_DEPTH, &spec.schema, NULL), 0);
    assert_int_equal(jv_parse(tidings_str(options), JSON_MAX_DEPTH, &spec.options, NULL), 0);
    assert_int_equal(entities_begin(e, NULL), 0);
    assert_int_equal(entities_add_type(e, &spec, NULL), 0);
    assert_int_equal(entities_commit(e, NULL), 0);
    jv_unref(spec.schema);
    jv_unref(spec.options);
}

static void put_number(const char *type, int n)
{
    struct entity_problem problem;
    char value[8];
    struct entity_write w = {.id = tidings_str(type),
                             .type = tidings_str(type),
                             .type_version = STR("1"),
                             .changed_by = STR("[]"),
                             .baseline = TIMELINE_NEVER,
                             .valid_from = TIMELINE_NEVER};
    const struct entity_transaction t = {.writes = &w, .count = 1, .now = 1000 + 10 * n};
    snprintf(value, sizeof(value), "%d", n);
    assert_int_equal(jv_parse(tidings_str(value), JSON_MAX_DEPTH, &w.value, NULL), 0);
    assert_int_equal(entities_begin(e, NULL), 0);
    assert_int_equal(entities_transact(e, &t, &arena, &done, &problem, NULL), 0);
    assert_int_equal(entities_commit(e, NULL), 0);
    jv_unref(w.value);
}

static bool count_version(void *user, const struct entity_version *v)
{
    (void)v;
    ++*(unsigned *)user;
    return true;
}

static unsigned versions_of(const char *id)
{
    unsigned count = 0;
    assert_int_equal(
        entities_history(e, tidings_str(id), TIMELINE_NEVER, count_version, &count, NULL), 0);
    return count;
}

static bool begins_at(const char *id, int64_t from)
{
    struct entity_version v;
    return entities_find(e, tidings_str(id), from, &arena, &v, NULL) == 1 && v.from == from;
}

static void held_version_is_kept_until_the_first_write_after_release(void **state)
{
    (void)state;
    static const struct {
        const char *type, *options;
        unsigned kept; /* of ten */
    } rows[] = {
        {"Gauge", "{\"history\":false}", 1},
        {"Few", "{\"maxVersions\":2}", 2},
        {"Young", "{\"maxAgeMs\":10}", 2},
        {"Calm", "{\"debounceMs\":1000}", 1},
    };
    arena_init(&arena, 1u << 20);
    assert_int_equal(entities_open(memory_store_create(NULL), &e, NULL), 0);
    for (size_t t = 0; t < sizeof(rows) / sizeof(rows[0]); t++) {
        struct tidings_str id = tidings_str(rows[t].type);
        add_type(rows[t].type, rows[t].options);
        put_number(rows[t].type, 0);
        assert_int_equal(entities_hold(e, id, 1000), 0);
        assert_int_equal(entities_hold(e, id, 1000), 0); /* by two */
        put_number(rows[t].type, 1);
        int64_t second = done.version.from;
        assert_int_equal(entities_hold(e, id, second), 0);
        for (int n = 2; n < 10; n++) {
            put_number(rows[t].type, n);
        }
        assert_true(begins_at(rows[t].type, 1000));
        entities_release(e, id, 1000);
        put_number(rows[t].type, 10);
        assert_true(begins_at(rows[t].type, 1000));
        entities_release(e, id, 1000);
        assert_true(begins_at(rows[t].type, 1000));
        put_number(rows[t].type, 11);
        bool is_calm = strcmp(rows[t].type, "Calm") == 0; /* it keeps everything that was put */
        assert_int_equal(begins_at(rows[t].type, 1000), is_calm);
        assert_true(begins_at(rows[t].type, second));
        entities_release(e, id, second);
        entities_release(e, id, second); /* once too often: no effect */
        put_number(rows[t].type, 12);
        assert_int_equal(begins_at(rows[t].type, second), is_calm);
        assert_int_equal(versions_of(rows[t].type), rows[t].kept + (is_calm ? 2 : 0));
    }
    entities_close(e);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_holds_match_the_table),
        cmocka_unit_test(offered_versions_count_as_held_while_any_is_held),
        cmocka_unit_test(held_version_is_kept_until_the_first_write_after_release),
        cmocka_unit_test(failed_allocation_holds_nothing_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
