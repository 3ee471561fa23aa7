/* SPDX-License-Identifier: MIT
 *
 * Values and the schemas of their types: sizes are checked first. A type whose schema this program
 * cannot use still exists: its entities can be read and deleted, but not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/entities.h"
#include "store/memory_store.h"

static struct entities *e;
static struct arena arena;
static struct entity_problem problem;
static struct tidings_error err;

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err), 0);
    return root;
}

static uint64_t *steps; /* of everything below; NULL: the built-in ones */

static int add_type(const char *version, const char *schema)
{
    const struct entity_type_spec spec = {
        STR("Note"), tidings_str(version), STR_EMPTY, parse(schema), NULL, steps};
    assert_int_equal(entities_begin(e, &err), 0);
    int rc = entities_add_type(e, &spec, &err);
    if (rc == 0) {
        rc = entities_commit(e, &err);
    } else {
        entities_rollback(e);
    }
    jv_unref(spec.schema);
    return rc;
}

static const char *type_version = "1";

/* Takes the value and the patch. */
static int write_it(enum entity_op op, struct json *value, struct json *patch)
{
    static int64_t now = 1000;
    struct entity_done done;
    const struct entity_write w = {
        .op = op,
        .id = STR("a"),
        .type = STR("Note"),
        .type_version = tidings_str(type_version),
        .value = value,
        .patch = patch,
        .rebase = patch != NULL,
        .changed_by = STR("[]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = TIMELINE_NEVER,
    };
    const struct entity_transaction t = {.writes = &w, .count = 1, .now = now++, .steps = steps};
    assert_int_equal(entities_begin(e, &err), 0);
    int rc = entities_transact(e, &t, &arena, &done, &problem, &err);
    if (rc == 0) {
        rc = entities_commit(e, &err);
    } else {
        entities_rollback(e);
    }
    jv_unref(value);
    jv_unref(patch);
    return rc;
}

static int upsert(const char *value)
{
    return write_it(ENTITY_UPSERT, parse(value), NULL);
}

static int write_as(const char *version, const char *value)
{
    type_version = version;
    int rc = upsert(value);
    type_version = "1";
    return rc;
}

static void open_rows(struct store *store)
{
    arena_init(&arena, 64u << 20);
    assert_int_equal(entities_open(store, &e, &err), 0);
}

static int set_up(void **state)
{
    (void)state;
    open_rows(memory_store_create(NULL));
    return add_type("1", "{\"properties\":{\"text\":{\"maxLength\":3}}}");
}

static int tear_down(void **state)
{
    (void)state;
    entities_close(e);
    arena_deinit(&arena);
    return 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* An object whose text is longer than the value limit and the schema allow. */
static struct json *too_large(void)
{
    static char text[ENTITY_VALUE_MAX + 16];
    char *at = text;
    str_pack(&at, STR("{\"text\":\""));
    memset(at, 'x', ENTITY_VALUE_MAX);
    at += ENTITY_VALUE_MAX;
    str_pack(&at, STR("\"}"));
    struct json *root = NULL;
    assert_int_equal(jv_parse(tidings_strn(text, (size_t)(at - text)), JSON_MAX_DEPTH, &root, &err),
                     0);
    return root;
}

static void too_large_value_is_not_checked(void **state)
{
    (void)state;
    assert_true(write_it(ENTITY_UPSERT, too_large(), NULL) < 0);
    assert_int_equal(problem.reason, ENTITY_INVALID);
    assert_string_equal(err.text, "the value has more than 1048576 bytes");
    assert_true(upsert("{\"text\":\"four\"}") < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
}

static void too_large_patch_is_not_checked(void **state)
{
    (void)state;
    assert_int_equal(upsert("{\"text\":\"one\"}"), 0);
    assert_true(write_it(ENTITY_UPSERT, NULL, too_large()) < 0);
    assert_int_equal(problem.reason, ENTITY_INVALID);
    assert_string_equal(err.text, "the value has more than 1048576 bytes");
}

/* A type has two schemas, the second for patches: together they have the budget of one. */
static int add_type_with(const char *version, unsigned patterns)
{
    static char text[16384];
    char *at = text;
    str_pack(&at, STR("{\"properties\":{"));
    for (unsigned i = 0; i < patterns; i++) {
        at +=
            snprintf(at, 80, "%s\"p%u\":{\"pattern\":\"\\\\p{L}\\\\P{N}%u\"}", i ? "," : "", i, i);
    }
    snprintf(at, 8, "}}");
    return add_type(version, text);
}

static void both_schemas_of_a_type_share_one_compile_bound(void **state)
{
    (void)state;
    assert_int_equal(add_type_with("2", 30), 0);
    assert_int_equal(add_type_with("3", 60), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "takes too long to compile"));
}

/* ---- steps ----------------------------------------------------------------------------------- */

#define ORDINARY                                                                                   \
    "{\"type\":\"object\",\"required\":[\"title\"],\"properties\":{"                               \
    "\"title\":{\"type\":\"string\",\"maxLength\":100},\"done\":{\"type\":\"boolean\"},"           \
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"additionalProperties\":"     \
    "false}"

/* The cost of a few bytes under an ordinary schema, of 20,000,000 steps per second. */
static void ordinary_write_costs_few_steps(void **state)
{
    (void)state;
    uint64_t left = ENTITY_STEPS;
    steps = &left;
    assert_int_equal(add_type("2", ORDINARY), 0);
    print_message("compiling it: %u steps\n", (unsigned)(ENTITY_STEPS - left));
    assert_in_range(ENTITY_STEPS - left, 1, 20000);
    left = ENTITY_STEPS;
    assert_int_equal(write_as("2", "{\"title\":\"milk\",\"done\":false,\"tags\":[\"a\",\"b\"]}"),
                     0);
    print_message("a write: %u steps\n", (unsigned)(ENTITY_STEPS - left));
    assert_in_range(ENTITY_STEPS - left, 1, 1000);
    steps = NULL;
}

#define COSTLY "{\"properties\":{\"text\":{\"pattern\":\"(a{1,99}){1,20}b\"}}}"
#define TEXT "{\"text\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"}"

static void write_is_checked_within_its_steps(void **state)
{
    (void)state;
    assert_int_equal(add_type("2", COSTLY), 0);
    uint64_t left = ENTITY_STEPS;
    steps = &left;
    assert_int_equal(write_as("2", TEXT), 0);
    uint64_t cost = ENTITY_STEPS - left;
    assert_in_range(cost, 1000, ENTITY_STEPS);
    left = cost - 1;
    assert_true(write_as("2", TEXT) < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
    assert_true(problem.is_out_of_steps);
    assert_int_equal(left, 0);
    left = cost;
    assert_int_equal(write_as("2", TEXT), 0);
    assert_int_equal(left, 0);
    left = cost;
    assert_true(write_as("2", "{\"text\":\"a\"}") < 0); /* a refusal that was reached */
    assert_false(problem.is_out_of_steps);
    assert_in_range(left, 1, cost - 1);
    steps = NULL;
}

static void type_is_compiled_within_its_steps(void **state)
{
    (void)state;
    uint64_t left = ENTITY_STEPS;
    steps = &left;
    assert_int_equal(add_type_with("2", 10), 0);
    uint64_t cost = ENTITY_STEPS - left;
    left = cost / 4;
    assert_int_equal(add_type_with("3", 10), TIDINGS_E_INVALID);
    assert_int_equal(left, 0);
    left = cost / 2 + cost / 4; /* the second schema costs steps too */
    assert_int_equal(add_type_with("3", 10), TIDINGS_E_INVALID);
    assert_int_equal(left, 0);
    left = cost + 1;
    assert_int_equal(add_type_with("3", 10), 0);
    steps = NULL;
}

/* ---- schemas of other program versions ------------------------------------------------------- */

#define BACKREFERENCE "{\"properties\":{\"text\":{\"pattern\":\"(a)\\\\1\"}}}"

/* State left by a program version that supported backreferences: a type, and an entity of it. */
static int set_up_old(void **state)
{
    (void)state;
    struct store *store = memory_store_create(NULL);
    const struct entity_type_row type = {STR("Note"), STR("1"), STR(BACKREFERENCE), STR_EMPTY,
                                         STR_EMPTY};
    const struct entity_version version = {
        .id = STR("a"),
        .type = STR("Note"),
        .type_version = STR("1"),
        .value = STR("{\"text\":\"aa\"}"),
        .changed_by = STR("[]"),
        .from = 500,
        .since = 500,
        .to = TIMELINE_FOREVER,
        .created = true,
    };
    assert_int_equal(store->ops->begin(store, &err), 0);
    assert_int_equal(store->ops->put_type(store, &type, &err), 0);
    assert_int_equal(store->ops->put(store, &version, false, &err), 0);
    assert_int_equal(store->ops->commit(store, &err), 0);
    open_rows(store);
    return 0;
}

static void assert_stored(const char *value, bool deleted)
{
    struct entity_version v;
    assert_int_equal(entities_find(e, STR("a"), TIMELINE_FOREVER, &arena, &v, &err), 1);
    assert_string_equal(v.value.ptr, value);
    assert_int_equal(v.deleted, deleted);
}

static void assert_unusable(int rc)
{
    assert_int_equal(rc, TIDINGS_E_INVALID);
    assert_int_equal(problem.reason, ENTITY_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'Note@1'"));
    assert_non_null(strstr(err.text, "/properties/text/pattern"));
    assert_non_null(strstr(err.text, "backreference"));
}

static void entity_of_an_unusable_type_is_readable_but_not_writable(void **state)
{
    (void)state;
    assert_non_null(entity_types_find(e, STR("Note"), STR("1")));
    assert_stored("{\"text\":\"aa\"}", false);
    assert_unusable(upsert("{\"text\":\"aa\"}"));
    assert_unusable(write_it(ENTITY_UPSERT, NULL, parse("{\"text\":\"b\"}")));
    assert_stored("{\"text\":\"aa\"}", false);
    assert_int_equal(write_it(ENTITY_DELETE, NULL, NULL), 0);
    assert_stored("{\"text\":\"aa\"}", true);
    assert_int_equal(write_it(ENTITY_UNDELETE, NULL, NULL), 0);
}

static void new_type_version_makes_the_entity_writable(void **state)
{
    (void)state;
    assert_int_equal(add_type("2", BACKREFERENCE), TIDINGS_E_INVALID); /* not a second time */
    assert_int_equal(add_type("2", "{\"properties\":{\"text\":{\"pattern\":\"^a\"}}}"), 0);
    assert_int_equal(upsert("{\"text\":\"ab\"}"), 0); /* which moves it to the newest */
    assert_stored("{\"text\":\"ab\"}", false);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define OLD_CASE(name) cmocka_unit_test_setup_teardown(name, set_up_old, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(too_large_value_is_not_checked),
        CASE(too_large_patch_is_not_checked),
        CASE(both_schemas_of_a_type_share_one_compile_bound),
        CASE(ordinary_write_costs_few_steps),
        CASE(write_is_checked_within_its_steps),
        CASE(type_is_compiled_within_its_steps),
        OLD_CASE(entity_of_an_unusable_type_is_readable_but_not_writable),
        OLD_CASE(new_type_version_makes_the_entity_writable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
