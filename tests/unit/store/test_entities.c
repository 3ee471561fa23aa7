/* SPDX-License-Identifier: MIT
 *
 * The rules for writing an entity: types, values and patches, conflicts, deletion, transactions and
 * history retention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/entities.h"
#include "store/memory_store.h"
#include "support/fail_alloc.h"

static struct entities *e;
static struct arena arena;
static struct entity_problem problem;
static struct entity_done done[4];
static struct tidings_error err;
static int64_t now;

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error why = {0};
    if (text && jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &why) < 0) {
        fail_msg("%s: %s", text, why.text);
    }
    return root;
}

static int add_type(const char *name, const char *version, const char *schema, const char *options)
{
    struct entity_type_spec spec = {tidings_str(name), tidings_str(version), STR("about"),
                                    parse(schema),     parse(options),       NULL};
    int rc = entities_begin(e, &err);
    rc = rc == 0 ? entities_add_type(e, &spec, &err) : rc;
    if (rc == 0) {
        rc = entities_commit(e, &err);
    } else {
        entities_rollback(e);
    }
    jv_unref(spec.schema);
    jv_unref(spec.options);
    return rc;
}

#define USER                                                                                       \
    "{\"type\":\"object\",\"required\":[\"name\"],\"properties\":{\"name\":{\"type\":\"string\"}," \
    "\"age\":{\"type\":[\"integer\",\"null\"]}}}"

static int set_up(void **state)
{
    (void)state;
    now = 1000;
    arena_init(&arena, 64u << 20);
    assert_int_equal(entities_open(memory_store_create(NULL), &e, &err), 0);
    return add_type("User", "1.0", USER, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    entities_close(e);
    arena_deinit(&arena);
    return 0;
}

static struct entity_write write_to(const char *id)
{
    return (struct entity_write){
        .id = tidings_str(id),
        .type = STR("User"),
        .type_version = STR("1.0"),
        .changed_by = STR("[{\"userId\":\"u\"}]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = TIMELINE_NEVER,
    };
}

/* Releases the values of the writes. */
static int transact(struct entity_write *writes, size_t count)
{
    const struct entity_transaction t = {.writes = writes, .count = count, .now = now};
    int rc = entities_begin(e, &err);
    rc = rc == 0 ? entities_transact(e, &t, &arena, done, &problem, &err) : rc;
    if (rc < 0) {
        entities_rollback(e);
    } else if (entities_commit(e, &err) < 0) {
        rc = TIDINGS_E_IO;
    }
    for (size_t i = 0; i < count; i++) {
        jv_unref(writes[i].value);
        jv_unref(writes[i].patch);
    }
    return rc;
}

static int upsert(const char *id, const char *value)
{
    struct entity_write w = write_to(id);
    w.value = parse(value);
    return transact(&w, 1);
}

static int patch(const char *id, const char *text, int64_t baseline, bool rebase)
{
    struct entity_write w = write_to(id);
    w.patch = parse(text);
    w.baseline = baseline;
    w.rebase = rebase;
    return transact(&w, 1);
}

static int mark(const char *id, enum entity_op op)
{
    struct entity_write w = write_to(id);
    w.op = op;
    return transact(&w, 1);
}

static void assert_refused(int rc, enum entity_reason reason, const char *sentence)
{
    assert_true(rc < 0);
    assert_string_equal(err.text, sentence);
    assert_int_equal(problem.reason, reason);
}

static void assert_current(const char *id, int64_t from, const char *value)
{
    struct entity_version v;
    assert_int_equal(entities_find(e, tidings_str(id), TIMELINE_FOREVER, &arena, &v, &err), 1);
    assert_int_equal(v.from, from);
    assert_string_equal(v.value.ptr, value);
}

static bool count_versions(void *user, const struct entity_version *v)
{
    (void)v;
    ++*(unsigned *)user;
    return true;
}

static unsigned versions_of(const char *id)
{
    unsigned n = 0;
    assert_int_equal(entities_history(e, tidings_str(id), TIMELINE_NEVER, count_versions, &n, &err),
                     0);
    return n;
}

/* ---- values and patches ---------------------------------------------------------------------- */

static void value_is_created_and_replaced_with_rising_versions(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    assert_true(done[0].created && done[0].changed);
    assert_int_equal(done[0].version.from, 1000);
    assert_int_equal(upsert("u1", "{\"name\":\"b\",\"age\":null}"), 0);
    assert_false(done[0].created);
    assert_int_equal(done[0].version.from, 1001); /* the clock did not advance: one later */
    assert_int_equal(done[0].before, 1000);
    assert_string_equal(done[0].version.previous.ptr, "{\"age\":null,\"name\":\"a\"}");
    assert_current("u1", 1001, "{\"name\":\"b\",\"age\":null}");
    assert_int_equal(versions_of("u1"), 2);
}

static void unchanged_value_is_not_written(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\",\"age\":3}"), 0);
    now = 5000;
    assert_int_equal(upsert("u1", "{\"age\":3,\"name\":\"a\"}"), 0);
    assert_false(done[0].changed);
    assert_int_equal(done[0].version.from, 1000);
    assert_int_equal(patch("u1", "{\"age\":3}", 1000, false), 0);
    assert_false(done[0].changed);
    assert_int_equal(versions_of("u1"), 1);
}

static void patch_applies_to_the_version_it_names(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\",\"age\":3}"), 0);
    now = 2000;
    assert_int_equal(patch("u1", "{\"age\":null}", 1000, false), 0);
    assert_current("u1", 2000, "{\"name\":\"a\"}");
    assert_refused(patch("u1", "{\"name\":\"b\"}", 1000, false), ENTITY_CONFLICT,
                   "'u1' has changed since its baseline: the current version begins at "
                   "1970-01-01T00:00:02.000Z");
    assert_int_equal(problem.current, 2000);
    assert_string_equal(problem.patch.ptr, "{\"age\":null}");
    assert_refused(patch("u1", "{\"name\":\"b\"}", 1500, false), ENTITY_UNKNOWN_BASELINE,
                   "no version of 'u1' begins at 1970-01-01T00:00:01.500Z");
    assert_refused(patch("u1", "{\"name\":\"b\"}", 1500, true), ENTITY_UNKNOWN_BASELINE,
                   "no version of 'u1' begins at 1970-01-01T00:00:01.500Z");
    now = 3000;
    assert_int_equal(patch("u1", "{\"name\":\"b\"}", 1000, true), 0);
    assert_current("u1", 3000, "{\"name\":\"b\"}");
    assert_refused(patch("u2", "{\"name\":\"b\"}", 1000, true), ENTITY_UNKNOWN,
                   "there is no entity 'u2'");
}

static void schema_violation_gives_its_place(void **state)
{
    (void)state;
    assert_refused(upsert("u1", "{\"name\":7}"), ENTITY_BAD_VALUE,
                   "value '/name': an integer given, type 'string' expected");
    assert_string_equal(problem.where.ptr, "/name");
    assert_string_equal(problem.rule.ptr, "/properties/name/type");
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    assert_true(patch("u1", "{\"other\":7}", 1000, false) < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
    assert_non_null(strstr(err.text, "'other'"));
    assert_true(patch("u1", "{\"name\":null}", 1000, false) < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
    assert_int_equal(strncmp(err.text, "patched value", 13), 0);
    assert_int_equal(versions_of("u1"), 1);
}

static void invalid_requests_are_rejected(void **state)
{
    (void)state;
    struct entity_write w = write_to("u1");
    assert_refused(transact(&w, 1), ENTITY_INVALID, "give either a value or a patch, not neither");
    w = write_to("u1");
    w.patch = parse("{}");
    assert_refused(transact(&w, 1), ENTITY_INVALID, "a patch needs the baseline it starts from");
    static const char *const ids[] = {"", "a/b", "a b", "..", "é"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_refused(upsert(ids[i], "{\"name\":\"a\"}"), ENTITY_INVALID,
                       "an entity's id has 1 to 256 letters, digits, '-', '_' and '.'");
    }
    w = write_to("u1");
    w.value = parse("{\"name\":\"a\"}");
    w.type_version = STR("2.0");
    assert_refused(transact(&w, 1), ENTITY_UNKNOWN_TYPE, "there is no entity type 'User@2.0'");
    assert_refused(transact(NULL, 0), ENTITY_INVALID, "a transaction has 1 to 1000 writes, not 0");
}

/* ---- types ----------------------------------------------------------------------------------- */

static void types_are_checked_when_added(void **state)
{
    (void)state;
    assert_int_equal(add_type("User", "1.0", "{}", NULL), TIDINGS_E_EXISTS);
    assert_int_equal(add_type("a b", "1.0", "{}", NULL), TIDINGS_E_INVALID);
    assert_int_equal(add_type("a", "", "{}", NULL), TIDINGS_E_INVALID);
    assert_true(add_type("a", "1", "{\"type\":7}", NULL) < 0);
    assert_non_null(strstr(err.text, "entity type 'a@1'"));
    assert_true(add_type("a", "1", "{\"$ref\":\"https://example.org/x\"}", NULL) < 0);
    assert_int_equal(add_type("a", "1", "{}", "{\"histroy\":false}"), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "histroy"));
    assert_int_equal(add_type("a", "1", "{}", "{\"maxAgeMs\":-1}"), TIDINGS_E_INVALID);
    assert_null(entity_types_find(e, STR("a"), STR("1")));
}

static bool put_label(void *user, const struct entity_type_row *row)
{
    return buf_putf(user, "%.*s@%.*s ", STR_ARG(row->name), STR_ARG(row->version)) == 0;
}

static void type_versions_are_ordered_numerically(void **state)
{
    (void)state;
    assert_int_equal(add_type("User", "1.10", USER, NULL), 0);
    assert_int_equal(add_type("User", "1.9", USER, NULL), 0);
    assert_int_equal(add_type("Axe", "2", "{}", NULL), 0);
    struct buf out;
    buf_init(&out, 1000);
    entities_each_type(e, put_label, &out);
    assert_string_equal(out.ptr, "Axe@2 User@1.0 User@1.9 User@1.10 ");
    buf_deinit(&out);
    assert_true(str_eq(entity_types_newest(e, STR("User"))->row.version, STR("1.10")));
}

static void next_write_moves_the_entity_to_the_newest_type_version(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    assert_int_equal(upsert("u2", "{\"name\":\"a\"}"), 0);
    assert_int_equal(
        add_type("User", "2.0", "{\"properties\":{\"name\":true,\"size\":{\"minimum\":1}}}", NULL),
        0);
    assert_current("u1", 1000, "{\"name\":\"a\"}");
    assert_int_equal(patch("u1", "{\"size\":2}", 1000, false), 0); /* names 1.0, checked by 2.0 */
    assert_string_equal(done[0].version.type_version.ptr, "2.0");
    assert_true(upsert("u1", "{\"name\":\"a\"}") < 0);
    assert_int_equal(problem.reason, ENTITY_OTHER_TYPE);
    assert_string_equal(problem.version.ptr, "2.0");
    struct entity_write w = write_to("u2");
    w.type_version = STR("2.0");
    w.value = parse("{\"size\":0}");
    assert_true(transact(&w, 1) < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
    w = write_to("u2");
    w.type = STR("Other");
    w.value = parse("{}");
    assert_int_equal(add_type("Other", "1.0", "{}", NULL), 0);
    assert_refused(transact(&w, 1), ENTITY_OTHER_TYPE, "'u2' is a 'User@1.0'");
}

/* ---- deletion -------------------------------------------------------------------------------- */

static void deletion_keeps_the_value_and_can_be_undone(void **state)
{
    (void)state;
    assert_refused(mark("u1", ENTITY_DELETE), ENTITY_UNKNOWN, "there is no entity 'u1'");
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    assert_int_equal(mark("u1", ENTITY_UNDELETE), 0);
    assert_false(done[0].changed);
    assert_int_equal(mark("u1", ENTITY_DELETE), 0);
    assert_true(done[0].changed && done[0].version.deleted);
    assert_string_equal(done[0].version.value.ptr, "{\"name\":\"a\"}");
    assert_int_equal(mark("u1", ENTITY_DELETE), 0);
    assert_false(done[0].changed);
    assert_refused(upsert("u1", "{\"name\":\"b\"}"), ENTITY_DELETED,
                   "'u1' has been deleted; undelete it first");
    assert_int_equal(mark("u1", ENTITY_UNDELETE), 0);
    assert_true(done[0].created && !done[0].version.deleted);
    assert_int_equal(versions_of("u1"), 3);
    struct entity_write w = write_to("u1");
    w.op = ENTITY_DELETE;
    w.baseline = 1000;
    assert_true(transact(&w, 1) < 0);
    assert_int_equal(problem.reason, ENTITY_CONFLICT);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void transaction_applies_completely_at_one_instant(void **state)
{
    (void)state;
    now = 3000;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    now = 2000; /* the clock went back */
    struct entity_write w[3] = {write_to("u1"), write_to("u2"), write_to("u3")};
    w[0].patch = parse("{\"age\":1}");
    w[0].baseline = 3000;
    w[1].value = parse("{\"name\":\"b\"}");
    w[2].value = parse("{\"name\":0}");
    assert_true(transact(w, 3) < 0);
    assert_int_equal(problem.index, 2);
    assert_int_equal(versions_of("u1"), 1);
    assert_int_equal(versions_of("u2"), 0);
    w[0].patch = parse("{\"age\":1}");
    w[1].value = parse("{\"name\":\"b\"}");
    w[1].has_parent = true;
    w[1].parent = STR("u1");
    w[2].value = parse("{\"name\":\"c\"}");
    w[2].valid_from = 500;
    assert_int_equal(transact(w, 3), 0);
    assert_int_equal(done[0].version.from, 3001);
    assert_int_equal(done[1].version.from, 3001);
    assert_int_equal(done[2].version.from, 500);
    assert_string_equal(done[1].version.parent.ptr, "u1");
    struct entity_write twice[2] = {write_to("u1"), write_to("u1")};
    twice[0].op = ENTITY_DELETE;
    twice[1].op = ENTITY_UNDELETE;
    assert_refused(transact(twice, 2), ENTITY_INVALID, "'u1' occurs twice in one transaction");
}

static void creation_fails_if_the_entity_exists(void **state)
{
    (void)state;
    struct entity_write w = write_to("u1");
    w.must_be_new = true;
    w.value = parse("{\"name\":\"a\"}");
    assert_int_equal(transact(&w, 1), 0);
    w.value = parse("{\"name\":\"a\"}");
    assert_refused(transact(&w, 1), ENTITY_EXISTS, "'u1' exists already");
}

/* ---- retention ------------------------------------------------------------------------------- */

static void history_can_be_disabled_limited_and_thinned(void **state)
{
    (void)state;
    assert_int_equal(add_type("Gauge", "1", "{}", "{\"history\":false}"), 0);
    assert_int_equal(add_type("Few", "1", "{}", "{\"maxVersions\":3}"), 0);
    assert_int_equal(add_type("Young", "1", "{}", "{\"maxAgeMs\":100}"), 0);
    assert_int_equal(add_type("Calm", "1", "{}", "{\"debounceMs\":100}"), 0);
    static const char *const types[] = {"Gauge", "Few", "Young", "Calm"};
    static const unsigned kept[] = {1, 3, 4, 6};
    for (size_t t = 0; t < 4; t++) {
        for (int i = 0; i < 10; i++) {
            struct entity_write w = write_to(types[t]);
            char value[8] = {(char)('0' + i), '\0'};
            now = 1000 + 40 * i;
            w.type = tidings_str(types[t]);
            w.type_version = STR("1");
            w.value = parse(value);
            w.changed_by = i < 7 ? STR("[1]") : i % 2 ? STR("[2]") : STR("[3]");
            assert_int_equal(transact(&w, 1), 0);
        }
        assert_int_equal(versions_of(types[t]), kept[t]);
        assert_current(types[t], 1360, "9");
    }
}

static int64_t write_calm(const char *value, int64_t at, const char *who)
{
    struct entity_write w = write_to("calm");
    now = at;
    w.type = STR("Calm");
    w.type_version = STR("1");
    w.value = parse(value);
    w.changed_by = tidings_str(who);
    assert_int_equal(transact(&w, 1), 0);
    return versions_of("calm");
}

static void debouncing_ends_a_fixed_time_after_its_first_write(void **state)
{
    (void)state;
    struct entity_version v;
    assert_int_equal(add_type("Calm", "1", "{}", "{\"debounceMs\":100}"), 0);
    assert_int_equal(write_calm("{\"n\":0}", 1000, "[1]"), 1);
    /* A write every 60 ms: the version from 1000 lasts until 1100, the one from 1120 until 1220. */
    assert_int_equal(write_calm("{\"n\":1}", 1060, "[1]"), 1);
    assert_int_equal(write_calm("{\"n\":2}", 1120, "[1]"), 2);
    assert_int_equal(write_calm("{\"n\":3}", 1180, "[1]"), 2);
    assert_int_equal(write_calm("{\"n\":4}", 1240, "[1]"), 3);
    assert_current("calm", 1240, "{\"n\":4}");
    assert_int_equal(entities_find(e, STR("calm"), 1100, &arena, &v, &err), 1);
    assert_int_equal(v.from, 1060);
    assert_int_equal(v.to, 1180);
    /* Another writer, and then the first again. */
    assert_int_equal(write_calm("{\"n\":5}", 1250, "[2]"), 4);
    assert_int_equal(write_calm("{\"n\":6}", 1260, "[1]"), 5);
    /* A write exactly that much later gets its own version. */
    assert_int_equal(write_calm("{\"n\":7}", 1360, "[1]"), 6);
}

static void replacing_version_leads_back_to_the_version_before(void **state)
{
    (void)state;
    struct entity_version v;
    assert_int_equal(add_type("Calm", "1", "{}", "{\"debounceMs\":100}"), 0);
    write_calm("{\"a\":1}", 1000, "[1]");
    write_calm("{\"a\":2}", 2000, "[1]");
    write_calm("{\"a\":3,\"b\":1}", 2050, "[1]");
    assert_int_equal(entities_find(e, STR("calm"), TIMELINE_FOREVER, &arena, &v, &err), 1);
    assert_string_equal(v.previous.ptr, "{\"b\":null,\"a\":1}");
    assert_int_equal(v.since, 2000);
}

static void patch_is_available_from_any_version_to_the_current_one(void **state)
{
    (void)state;
    struct entity_patch p;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}"), 0);
    now = 2000;
    assert_int_equal(upsert("u1", "{\"name\":\"b\"}"), 0);
    now = 3000;
    assert_int_equal(upsert("u1", "{\"name\":\"b\",\"age\":null}"), 0);
    assert_int_equal(entities_patch_from(e, STR("u1"), 3000, &arena, &p, &err), 1);
    assert_string_equal(p.patch.ptr, "{}");
    assert_int_equal(entities_patch_from(e, STR("u1"), 1000, &arena, &p, &err), 1);
    assert_int_equal(p.patch.len, 0); /* no patch can say that age is null, but a value can */
    assert_string_equal(p.version.value.ptr, "{\"name\":\"b\",\"age\":null}");
    now = 4000;
    assert_int_equal(upsert("u1", "{\"name\":\"c\"}"), 0);
    assert_int_equal(entities_patch_from(e, STR("u1"), 1000, &arena, &p, &err), 1);
    assert_string_equal(p.patch.ptr, "{\"name\":\"c\"}");
    assert_int_equal(entities_patch_from(e, STR("u1"), 1001, &arena, &p, &err), 0);
    assert_int_equal(p.version.id.len, 2);
    assert_int_equal(entities_patch_from(e, STR("u9"), 1001, &arena, &p, &err), 0);
    assert_int_equal(p.version.id.len, 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void failed_allocation_leaves_no_partial_write(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct entity_write w[2] = {write_to("a"), write_to("b")};
        struct entity_type_spec spec = {STR("User"), STR("1.0"), STR(""), parse(USER), NULL, NULL};
        w[0].value = parse("{\"name\":\"a\"}");
        w[1].value = parse("{\"name\":\"b\"}");
        const struct entity_transaction t = {.writes = w, .count = 2, .key = STR("k"), .now = 1000};
        struct arena mine;
        struct entities *own = NULL;
        arena_init(&mine, 1u << 20);
        fail_alloc_start(n);
        struct store *store = memory_store_create(&err);
        int rc = store ? entities_open(store, &own, &err) : TIDINGS_E_NOMEM;
        rc = rc == 0 ? entities_begin(own, &err) : rc;
        rc = rc == 0 ? entities_add_type(own, &spec, &err) : rc;
        rc = rc == 0 ? entities_transact(own, &t, &mine, done, &problem, &err) : rc;
        reached = fail_alloc_stop();
        if (rc == 0) {
            assert_int_equal(entities_commit(own, &err), 0);
            assert_false(reached);
        } else if (own) {
            entities_rollback(own);
            struct entity_version v;
            assert_int_equal(entities_find(own, STR("a"), TIMELINE_FOREVER, &mine, &v, &err), 0);
            assert_null(entity_types_find(own, STR("User"), STR("1.0")));
        }
        assert_true(rc == 0 || reached);
        entities_close(own);
        arena_deinit(&mine);
        assert_int_equal(fail_alloc_live(), 0);
        fail_alloc_end();
        jv_unref(spec.schema);
        jv_unref(w[0].value);
        jv_unref(w[1].value);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(value_is_created_and_replaced_with_rising_versions),
        CASE(unchanged_value_is_not_written),
        CASE(patch_applies_to_the_version_it_names),
        CASE(schema_violation_gives_its_place),
        CASE(invalid_requests_are_rejected),
        CASE(types_are_checked_when_added),
        CASE(type_versions_are_ordered_numerically),
        CASE(next_write_moves_the_entity_to_the_newest_type_version),
        CASE(deletion_keeps_the_value_and_can_be_undone),
        CASE(transaction_applies_completely_at_one_instant),
        CASE(creation_fails_if_the_entity_exists),
        CASE(debouncing_ends_a_fixed_time_after_its_first_write),
        CASE(replacing_version_leads_back_to_the_version_before),
        CASE(history_can_be_disabled_limited_and_thinned),
        CASE(patch_is_available_from_any_version_to_the_current_one),
        cmocka_unit_test(failed_allocation_leaves_no_partial_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
