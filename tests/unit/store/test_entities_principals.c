/* SPDX-License-Identifier: MIT
 *
 * Entities with several writers: idempotency keys, and writes to entities that their writer may not
 * see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/entities.h"
#include "store/memory_store.h"

static struct entities *e;
static struct arena arena;
static struct entity_problem problem;
static struct entity_done done[4];
static struct tidings_error err;
static int64_t now;
static const char *principal;
static const char *hidden_id;    /* hidden; or NULL */
static const char *hidden_label; /* type and version that are hidden; or NULL */

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err), 0);
    return root;
}

static void add_type(const char *name, const char *version)
{
    struct entity_type_spec spec = {
        .name = tidings_str(name),
        .version = tidings_str(version),
        .description = STR(""),
        .schema = parse("{\"properties\":{\"name\":{\"type\":\"string\"}}}"),
    };
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(entities_add_type(e, &spec, &err), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    jv_unref(spec.schema);
}

static int set_up(void **state)
{
    (void)state;
    now = 1000;
    principal = "p";
    hidden_id = hidden_label = NULL;
    arena_init(&arena, 64u << 20);
    assert_int_equal(entities_open(memory_store_create(NULL), &e, &err), 0);
    add_type("User", "1");
    return 0;
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
        .type_version = STR("1"),
        .changed_by = STR("[]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = TIMELINE_NEVER,
    };
}

static bool may(void *user, enum entity_right right, const struct entity_type_row *type,
                struct tidings_str id)
{
    char label[64];
    (void)user;
    (void)right;
    (void)snprintf(label, sizeof label, "%.*s@%.*s", STR_ARG(type->name), STR_ARG(type->version));
    return !(hidden_id && str_eq(id, tidings_str(hidden_id))) &&
           !(hidden_label && strcmp(label, hidden_label) == 0);
}

/* Releases the values of the writes. */
static int transact(struct entity_write *writes, size_t count, const char *key)
{
    char digest[ENTITY_DIGEST_TEXT];
    assert_int_equal(entity_digest(writes, count, digest), 0);
    const struct entity_transaction t = {
        .writes = writes,
        .count = count,
        .key = tidings_str(key),
        .now = now,
        .owner = tidings_str(principal),
        .principal = tidings_str(principal),
        .digest = tidings_str(digest),
        .may = may,
    };
    int rc = entities_begin(e, &err);
    rc = rc == 0 ? entities_transact(e, &t, &arena, done, &problem, &err) : rc;
    if (rc < 0) {
        entities_rollback(e);
    } else {
        assert_int_equal(entities_commit(e, &err), 0);
    }
    for (size_t i = 0; i < count; i++) {
        jv_unref(writes[i].value);
        jv_unref(writes[i].patch);
    }
    return rc;
}

static void assert_refused(int rc, enum entity_reason reason, const char *sentence)
{
    assert_true(rc < 0);
    assert_int_equal(problem.reason, reason);
    assert_string_equal(err.text, sentence);
}

static bool count(void *user, const struct entity_version *version)
{
    (void)version;
    ++*(int *)user;
    return true;
}

static int versions_of(const char *id)
{
    int n = 0;
    assert_int_equal(entities_history(e, tidings_str(id), TIMELINE_NEVER, count, &n, &err), 0);
    return n;
}

/* ---- keys ------------------------------------------------------------------------------------ */

#define REUSED "the key 'key' was used for another request; repeat that one, or take another key"

static int upsert(const char *id, const char *value, const char *key)
{
    struct entity_write w = write_to(id);
    w.value = parse(value);
    return transact(&w, 1, key);
}

static void repeated_key_returns_the_first_result(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 0);
    assert_int_equal(upsert("u1", "{\"name\":\"b\"}", ""), 0);
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 1);
    assert_int_equal(done[0].version.from, 1000);
    assert_string_equal(done[0].version.value.ptr, "{\"name\":\"a\"}");
    assert_int_equal(versions_of("u1"), 2);
    /* A refused request may be retried. */
    assert_true(upsert("u1", "{\"name\":7}", "other") < 0);
    assert_int_equal(upsert("u1", "{\"name\":\"c\"}", "other"), 0);
}

static void key_is_valid_for_one_request(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 0);
    assert_refused(upsert("u1", "{\"name\":\"b\"}", "key"), ENTITY_KEY_REUSED, REUSED);
    assert_refused(upsert("u2", "{\"name\":\"a\"}", "key"), ENTITY_KEY_REUSED, REUSED);
    struct entity_write w = write_to("u1");
    w.value = parse("{\"name\":\"a\"}");
    w.must_be_new = true;
    assert_refused(transact(&w, 1, "key"), ENTITY_KEY_REUSED, REUSED);
    struct entity_write two[2] = {write_to("u1"), write_to("u2")};
    two[0].op = two[1].op = ENTITY_DELETE;
    assert_refused(transact(two, 2, "key"), ENTITY_KEY_REUSED, REUSED);
    assert_int_equal(versions_of("u1"), 1);
}

static void key_belongs_to_its_principal(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 0);
    principal = "q";
    assert_int_equal(upsert("u2", "{\"name\":\"b\"}", "key"), 0);
    /* stored, although another principal used the key before */
    assert_int_equal(versions_of("u2"), 1);
    principal = "p";
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 1);
}

static void stored_result_is_withheld_if_access_was_revoked(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 0);
    hidden_id = "u1";
    assert_refused(upsert("u1", "{\"name\":\"a\"}", "key"), ENTITY_UNKNOWN,
                   "there is no entity 'u1'");
    hidden_id = "u2";
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 1);
}

static void key_expires_after_a_day(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 0);
    now += ENTITY_KEY_AGE_MS - 1;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", "key"), 1);
    now++;
    assert_int_equal(upsert("u1", "{\"name\":\"b\"}", "key"), 0);
    assert_int_equal(upsert("u1", "{\"name\":\"b\"}", "key"), 1);
}

/* ---- authors ------------------------------------------------------------------------------- */

static void version_records_the_principal_beside_the_claimed_author(void **state)
{
    (void)state;
    struct entity_type_spec spec = {.name = STR("Log"),
                                    .version = STR("1"),
                                    .description = STR(""),
                                    .schema = parse("{}"),
                                    .options = parse("{\"debounceMs\":1000}")};
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(entities_add_type(e, &spec, &err), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    jv_unref(spec.schema);
    jv_unref(spec.options);
    /* Writes of the same principal become one version, but not those of a writer who only claims
     * its name. */
    static const char *const writers[] = {"p", "p", "q", "q", "p"};
    for (size_t i = 0; i < 5; i++) {
        struct entity_write w = write_to("x");
        char value[16];
        (void)snprintf(value, sizeof value, "{\"n\":%zu}", i);
        w.type = STR("Log");
        w.value = parse(value);
        principal = writers[i];
        now += 10;
        assert_int_equal(transact(&w, 1, ""), 0);
        assert_true(str_eq(done[0].version.principal, tidings_str(writers[i])));
    }
    assert_int_equal(versions_of("x"), 3);
    struct entity_version v;
    assert_int_equal(entities_find(e, STR("x"), now - 10, &arena, &v, &err), 1);
    assert_true(str_eq(v.principal, STR("q")) && str_eq(v.changed_by, STR("[]")));
}

/* ---- hidden entities ------------------------------------------------------------------------- */

static void hidden_entity_is_absent_but_its_id_is_taken(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", ""), 0);
    hidden_id = "u1";
    assert_refused(upsert("u1", "{\"name\":\"a\"}", ""), ENTITY_TAKEN,
                   "the id 'u1' cannot be used");
    assert_int_equal(problem.current, TIMELINE_NEVER);
    assert_int_equal(problem.type.len, 0);
    struct entity_write w = write_to("u1");
    w.op = ENTITY_DELETE;
    assert_refused(transact(&w, 1, ""), ENTITY_UNKNOWN, "there is no entity 'u1'");
    /* Errors come first, wherever they are. */
    struct entity_write two[2] = {write_to("u1"), write_to("u2")};
    two[0].value = parse("{}");
    two[1].value = parse("{\"name\":1}");
    assert_true(transact(two, 2, "") < 0);
    assert_int_equal(problem.reason, ENTITY_BAD_VALUE);
    assert_int_equal(problem.index, 1);
    hidden_id = NULL;
    assert_int_equal(versions_of("u1"), 1);
}

static void write_uses_the_newest_type_version_the_writer_may_write(void **state)
{
    (void)state;
    assert_int_equal(upsert("u1", "{\"name\":\"a\"}", ""), 0);
    add_type("User", "2");
    add_type("User", "3");
    hidden_label = "User@3";
    assert_int_equal(upsert("u1", "{\"name\":\"b\"}", ""), 0);
    assert_true(str_eq(done[0].version.type_version, STR("2")));
    /* A writer without access to the old type version cannot move the entity away from it. */
    hidden_label = NULL;
    assert_int_equal(upsert("u2", "{\"name\":\"a\"}", ""), 0);
    assert_true(str_eq(done[0].version.type_version, STR("1")));
    hidden_label = "User@1";
    struct entity_write w = write_to("u2");
    w.type_version = STR("3");
    w.value = parse("{}");
    assert_refused(transact(&w, 1, ""), ENTITY_TAKEN, "the id 'u2' cannot be used");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(repeated_key_returns_the_first_result),
        CASE(key_is_valid_for_one_request),
        CASE(key_belongs_to_its_principal),
        CASE(stored_result_is_withheld_if_access_was_revoked),
        CASE(key_expires_after_a_day),
        CASE(version_records_the_principal_beside_the_claimed_author),
        CASE(hidden_entity_is_absent_but_its_id_is_taken),
        CASE(write_uses_the_newest_type_version_the_writer_may_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
