/* SPDX-License-Identifier: MIT
 *
 * Hostile schemas and instances: compile refusals, the limits that end a check, failed allocations,
 * and one schema in several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/schema.h"
#include "support/fail_alloc.h"

#define MANY_DEPTH 500u

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), MANY_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

static struct json_schema *compile(const char *text, const struct schema_options *options)
{
    struct json *schema = parse(text);
    struct json_schema *s = NULL;
    struct tidings_error err = {0};
    if (schema_compile(schema, options, &s, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    jv_unref(schema);
    return s;
}

static void expect_refusal(const char *text, const struct schema_options *options, int code,
                           const char *sentence)
{
    struct json *schema = parse(text);
    struct json_schema *s = NULL;
    struct tidings_error err = {0};
    assert_int_equal(schema_compile(schema, options, &s, &err), code);
    assert_null(s);
    assert_string_equal(err.text, sentence);
    assert_int_equal(schema_compile(schema, options, &s, NULL), code);
    jv_unref(schema);
}

static void malformed_schemas_are_rejected_with_place_and_reason(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        int code;
        const char *sentence;
    } rows[] = {
        {"1", TIDINGS_E_INVALID, "schema: a schema expected (an object, true or false)"},
        {"{\"items\":{\"minLength\":-1}}", TIDINGS_E_INVALID,
         "schema at /items/minLength: an integer from 0 expected"},
        {"{\"maxItems\":1.5}", TIDINGS_E_INVALID,
         "schema at /maxItems: an integer from 0 expected"},
        {"{\"type\":\"text\"}", TIDINGS_E_INVALID,
         "schema at /type: a type or an array of types expected (null, boolean, integer, number, "
         "string, array, object)"},
        {"{\"type\":[]}", TIDINGS_E_INVALID,
         "schema at /type: a type or an array of types expected (null, boolean, integer, number, "
         "string, array, object)"},
        {"{\"multipleOf\":0}", TIDINGS_E_INVALID,
         "schema at /multipleOf: a number above 0 expected"},
        {"{\"maximum\":\"1\"}", TIDINGS_E_INVALID, "schema at /maximum: a number expected"},
        {"{\"enum\":1}", TIDINGS_E_INVALID, "schema at /enum: an array expected"},
        {"{\"required\":[1]}", TIDINGS_E_INVALID,
         "schema at /required: an array of strings expected"},
        {"{\"dependentRequired\":{\"a\":1}}", TIDINGS_E_INVALID,
         "schema at /dependentRequired: an object of arrays of strings expected"},
        {"{\"uniqueItems\":1}", TIDINGS_E_INVALID,
         "schema at /uniqueItems: true or false expected"},
        {"{\"allOf\":[]}", TIDINGS_E_INVALID,
         "schema at /allOf: a non-empty array of schemas expected"},
        {"{\"anyOf\":[1]}", TIDINGS_E_INVALID,
         "schema at /anyOf/0: a schema expected (an object, true or false)"},
        {"{\"properties\":[]}", TIDINGS_E_INVALID,
         "schema at /properties: an object of schemas expected"},
        {"{\"not\":3}", TIDINGS_E_INVALID,
         "schema at /not: a schema expected (an object, true or false)"},
        {"{\"pattern\":\"(\"}", TIDINGS_E_INVALID,
         "schema at /pattern: regex '(' refused: missing closing parenthesis at byte 1"},
        {"{\"patternProperties\":{\"[\":true}}", TIDINGS_E_INVALID,
         "schema at /patternProperties: regex '[' refused: missing closing bracket at byte 1"},
        {"{\"$ref\":7}", TIDINGS_E_INVALID, "schema at /$ref: a URI reference expected"},
        {"{\"$id\":7}", TIDINGS_E_INVALID, "schema at /$id: a URI reference expected"},
        {"{\"$id\":\"a#b\"}", TIDINGS_E_INVALID, "schema at /$id: a URI without fragment expected"},
        {"{\"$anchor\":\"\"}", TIDINGS_E_INVALID, "schema at /$anchor: a name expected"},
        {"{\"$anchor\":\"a\",\"not\":{\"$dynamicAnchor\":\"a\"}}", TIDINGS_E_INVALID,
         "schema at /not/$dynamicAnchor: another anchor of this schema has the same name"},
        {"{\"$id\":\"u:a\",\"allOf\":[{\"$id\":\"u:b\"},{\"$id\":\"u:b\"}]}", TIDINGS_E_INVALID,
         "schema at /allOf/1/$id: another schema has the same $id"},
        {"{\"$ref\":\"#/nowhere\"}", TIDINGS_E_NOTFOUND,
         "schema at /$ref: the reference leads to no schema in its document"},
        {"{\"$ref\":\"#/enum/0\",\"enum\":[3]}", TIDINGS_E_NOTFOUND,
         "schema at /$ref: the reference leads to no schema in its document"},
        {"{\"$dynamicRef\":\"#nobody\"}", TIDINGS_E_NOTFOUND,
         "schema at /$dynamicRef: the reference leads to no schema in its document"},
        {"{\"$ref\":\"http://elsewhere/x\"}", TIDINGS_E_NOTFOUND,
         "schema at /$ref: the reference leads to a document that was not given"},
        {"{\"$ref\":\"#\"}", TIDINGS_E_LIMIT,
         "schema at /$ref: a chain of references without end, or too long a one"},
        {"{\"items\":{\"$ref\":\"#/$defs/a\"},\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},"
         "\"b\":{\"$ref\":\"#/$defs/a\"}}}",
         TIDINGS_E_LIMIT,
         "schema at /items/$ref: a chain of references without end, or too long a one"},
        {"{\"$ref\":\"#/x/x\",\"x\":{\"x\":{\"$ref\":\"#/x/x\"}}}", TIDINGS_E_LIMIT,
         "schema at /$ref: a chain of references without end, or too long a one"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_refusal(rows[i].schema, NULL, rows[i].code, rows[i].sentence);
    }
    struct json_schema *s = NULL;
    assert_int_equal(schema_compile(NULL, NULL, &s, NULL), TIDINGS_E_INVALID);
    schema_destroy(NULL);
}

static void schema_above_a_limit_is_rejected(void **state)
{
    (void)state;
    expect_refusal("{\"not\":{\"not\":{\"not\":true}}}", &(struct schema_options){.max_depth = 3},
                   TIDINGS_E_LIMIT, "schema at /not/not/not: nested too deep");
    expect_refusal("{\"allOf\":[true,true]}", &(struct schema_options){.max_subschemas = 2},
                   TIDINGS_E_LIMIT, "schema at /allOf/1: too many subschemas");
    expect_refusal("{\"allOf\":[true,true,true]}", &(struct schema_options){.max_subschemas = 2},
                   TIDINGS_E_LIMIT, "schema at /allOf: too many subschemas");
    expect_refusal("{\"pattern\":\"abcd\"}", &(struct schema_options){.max_regex_bytes = 3},
                   TIDINGS_E_LIMIT,
                   "schema at /pattern: regex of 4 bytes refused: at most 3 accepted");
    expect_refusal("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":true}}",
                   &(struct schema_options){.max_ref_chain = 1}, TIDINGS_E_LIMIT,
                   "schema at /$ref: a chain of references without end, or too long a one");
}

static void expect_end(const char *schema, struct json *instance, const char *sentence)
{
    struct json_schema *s = compile(schema, NULL);
    struct schema_error why;
    assert_false(schema_validate(s, instance, &why));
    assert_string_equal(why.text, sentence);
    assert_false(schema_validate(s, instance, NULL));
    schema_destroy(s);
}

static void endless_or_costly_check_ends_without_success(void **state)
{
    (void)state;
    static const char endless[] = "schema and value nest too deep, or the schema is endless";
    static const char costly[] = "the schema takes too many steps to judge this value";
    struct json *one = parse("1");
    expect_end("{\"allOf\":[{\"$ref\":\"#\"}]}", one, endless);
    expect_end("{\"not\":{\"$ref\":\"#\"}}", one, endless);
    expect_end("{\"anyOf\":[{\"$ref\":\"#\"},true]}", one, endless);
    expect_end("{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}", one, endless);
    expect_end("{\"if\":{\"$ref\":\"#\"},\"then\":true}", one, endless);
    expect_end("{\"$dynamicAnchor\":\"a\",\"$dynamicRef\":\"#a\"}", one, endless);

    /* Each definition applies the next one twice: 2^40 paths. */
    char doubling[8192] = "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d40\":true";
    for (int i = 0; i < 40; i++) {
        size_t len = strlen(doubling);
        (void)snprintf(doubling + len, sizeof(doubling) - len,
                       ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},"
                       "{\"$ref\":\"#/$defs/d%d\"}]}",
                       i, i + 1, i + 1);
    }
    (void)snprintf(doubling + strlen(doubling), sizeof(doubling) - strlen(doubling), "}}");
    expect_end(doubling, one, costly);
    jv_unref(one);
}

/* A string of `len` bytes. */
static struct json *long_text(size_t len)
{
    char *text = malloc(len + 3);
    struct json *v = NULL;
    assert_non_null(text);
    memset(text, 'a', len + 2);
    text[0] = text[len + 1] = '"';
    assert_int_equal(jv_parse(tidings_strn(text, len + 2), 2, &v, NULL), 0);
    free(text);
    return v;
}

/* The number of steps of a check, and its result. */
static uint64_t steps_of(const char *schema, struct json *instance, enum schema_verdict expected)
{
    struct json_schema *s = compile(schema, NULL);
    uint64_t steps = UINT64_MAX;
    assert_int_equal(schema_check_within(s, instance, NULL, &steps), expected);
    schema_destroy(s);
    return UINT64_MAX - steps;
}

/* Patterns that make backtracking quadratic or worse cost steps in proportion to the text. */
static void pattern_steps_are_proportional_to_the_text(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"pattern\":\"^(([a-z])+.)+[A-Z]([a-z])+$\"}",
        "{\"pattern\":\"(a|aa|a+)+b\"}",
        "{\"pattern\":\"[a-z]*[0-9]!\"}",
        "{\"pattern\":\"(?:a?){12}a{12}[bc]\"}",
        "{\"pattern\":\"(?=(a+)+b)a\"}",
    };
    struct json *text = long_text(160000), *half = long_text(80000);
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        uint64_t whole = steps_of(schemas[i], text, SCHEMA_NOT_VALID);
        assert_true(whole < SCHEMA_DEFAULT_STEPS);
        assert_true(whole <= 2 * steps_of(schemas[i], half, SCHEMA_NOT_VALID) + 1000);
    }
    jv_unref(text);
    jv_unref(half);
}

/* {"allOf": […]} with that number of subschemas, each with its own number. */
static char *list_of(const char *before, const char *after, unsigned count)
{
    size_t size = (size_t)count * 80 + 32, len = 0;
    char *text = malloc(size);
    assert_non_null(text);
    for (unsigned i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, size - len, "%s%s%u%s", i ? "," : "{\"allOf\":[",
                                before, i, after);
    }
    (void)snprintf(text + len, size - len, "]}");
    return text;
}

static void compiling_costs_steps(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"{\"pattern\":\"\\\\p{L}\\\\P{N}", "\"}"},
        {"{\"$id\":\"http://h/", "\"}"},
        {"{\"$anchor\":\"a", "\"}"},
        {"{\"$ref\":\"#/allOf/", "/not\",\"not\":true}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int is_many = 0; is_many < 2; is_many++) {
            char *text = list_of(rows[i].before, rows[i].after, is_many ? 4000 : 20);
            struct json *schema = parse(text);
            struct json_schema *s = NULL;
            struct tidings_error err = {0};
            uint64_t cost = 0;
            struct schema_options options = {.ret_cost = &cost};
            int rc = schema_compile(schema, &options, &s, &err);
            if (rc != (is_many ? TIDINGS_E_LIMIT : 0)) {
                fail_msg("%s: %d %s", rows[i].before, rc, err.text);
            }
            assert_true(!is_many || strstr(err.text, "takes too long to compile"));
            assert_true(is_many ? cost > SCHEMA_DEFAULT_STEPS : cost < SCHEMA_DEFAULT_STEPS / 4);
            options.max_cost = 1;
            s = is_many ? s : (schema_destroy(s), NULL);
            assert_int_equal(schema_compile(schema, &options, &s, &err), TIDINGS_E_LIMIT);
            schema_destroy(s);
            jv_unref(schema);
            free(text);
        }
    }
}

static void long_strings_cost_steps(void **state)
{
    (void)state;
    static char many[3000 * 32];
    size_t len = 0;
    struct json *text = long_text((size_t)3 << 20);
    for (unsigned i = 0; i < 3000; i++) {
        len += (size_t)snprintf(many + len, sizeof(many) - len, "%s{\"maxLength\":%u}",
                                i ? "," : "{\"allOf\":[", 2000000u + i);
    }
    (void)snprintf(many + len, sizeof(many) - len, "]}");
    /* The first one rejects it; neither string is scanned twice. */
    assert_true(steps_of(many, text, SCHEMA_NOT_VALID) > 100000);
    memcpy(many, "{\"anyOf\"", 8);
    expect_end(many, text, "the schema takes too many steps to judge this value");
    /* A string that is short enough in bytes is valid and costs nothing. */
    assert_true(steps_of("{\"maxLength\":4000000}", text, SCHEMA_VALID) < 100);
    assert_true(steps_of("{\"minLength\":700000}", text, SCHEMA_VALID) < 100);
    assert_true(steps_of("{\"minLength\":800000}", text, SCHEMA_VALID) > 100000);
    assert_true(steps_of("{\"const\":1}", text, SCHEMA_NOT_VALID) > 100000);
    jv_unref(text);
}

/* Every operation on an element costs steps. */
static void repeated_operations_cost_steps(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"items\":true}",
        "{\"items\":{\"multipleOf\":0.01}}",
        "{\"uniqueItems\":true}",
        "{\"unevaluatedItems\":{\"type\":\"number\"}}",
        "{\"contains\":{\"type\":\"null\"},\"minContains\":0,\"maxContains\":5}",
        "{\"items\":{\"enum\":[1,2,3,0.5]}}",
    };
    static char array[4 * 2000 + 2] = "[0.5";
    for (unsigned i = 0; i < 1000; i++) {
        memcpy(array + 4 + (size_t)i * 4, ",0.5", 4);
    }
    memcpy(array + 4 + (size_t)1000 * 4, "]", 2);
    struct json *values = parse(array);
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        bool is_unique = strstr(schemas[i], "unique") != NULL;
        uint64_t steps = steps_of(schemas[i], values, is_unique ? SCHEMA_NOT_VALID : SCHEMA_VALID);
        assert_true(steps > 1000 * 4);
    }
    jv_unref(values);
}

/* The hash that uniqueItems sorts by is not secret: integers beyond 2^53 with the same double
 * collide. Steps limit the cost of comparing them. */
static void colliding_elements_are_compared_within_the_steps(void **state)
{
    (void)state;
    enum { COLLIDING = 20000, GROUP = 1000 };
    struct buf text;
    buf_init(&text, (size_t)1 << 20);
    for (unsigned i = 0; i < COLLIDING; i++) {
        int64_t middle = (INT64_C(1) << 62) + (int64_t)(i / GROUP) * 1024;
        buf_putf(&text, "%s%lld", i ? "," : "[", (long long)(middle + i % GROUP - GROUP / 2));
    }
    buf_puts(&text, STR("]"));
    buf_putc(&text, '\0');
    assert_int_equal(text.failed, 0);
    struct json *values = parse(text.ptr);
    expect_end("{\"uniqueItems\":true}", values,
               "the schema takes too many steps to judge this value");
    jv_unref(values);
    buf_deinit(&text);
}

static void deep_instance_is_checked_up_to_depth_limit(void **state)
{
    (void)state;
    char nested[600];
    memset(nested, '[', 250);
    memset(nested + 250, ']', 250);
    nested[500] = '\0';
    struct json *deep = parse(nested);
    struct json_schema *s = compile("{\"items\":{\"$ref\":\"#\"},\"type\":\"array\"}", NULL);
    struct schema_error why;
    assert_false(schema_validate(s, deep, &why)); /* two schemas for each level */
    assert_int_equal(strlen(why.instance_path), sizeof(why.instance_path) - 1);
    schema_destroy(s);
    s = compile("{\"items\":{\"$ref\":\"#\"},\"type\":\"array\"}",
                &(struct schema_options){.max_depth = 500});
    assert_true(schema_validate(s, deep, &why));
    schema_destroy(s);
    jv_unref(deep);
}

static void paths_and_messages_are_cut_between_characters(void **state)
{
    (void)state;
    char key[400] = "", schema[1000], instance[1000];
    for (size_t i = 0; i + 3 < sizeof(key); i += 2) {
        memcpy(key + i, "\xc3\xa9", 3);
    }
    (void)snprintf(schema, sizeof(schema), "{\"properties\":{\"%s\":{\"required\":[\"%s\"]}}}", key,
                   key);
    (void)snprintf(instance, sizeof(instance), "{\"%s\":{}}", key);
    struct json_schema *s = compile(schema, NULL);
    struct json *v = parse(instance);
    struct schema_error why;
    assert_false(schema_validate(s, v, &why));
    assert_true(str_is_utf8(tidings_str(why.instance_path)) && strlen(why.instance_path) > 250);
    assert_true(str_is_utf8(tidings_str(why.schema_path)) && strlen(why.schema_path) > 250);
    assert_true(str_is_utf8(tidings_str(why.text)) && strlen(why.text) > 250);
    schema_destroy(s);
    jv_unref(v);
}

static const char everything[] =
    "{\"$id\":\"http://h/a\",\"allOf\":[{\"$ref\":\"b#/$defs/x\"},{\"$ref\":\"#y\"},"
    "{\"$ref\":\"https://json-schema.org/draft/2020-12/meta/validation\"}],"
    "\"properties\":{\"p\":{\"pattern\":\"^\\\\p{Letter}\"}},"
    "\"patternProperties\":{\"^q\":{\"uniqueItems\":true}},"
    "\"anyOf\":[{\"minProperties\":1},true],\"unevaluatedProperties\":{\"maxItems\":999},"
    "\"strange\":{\"z\":{\"minLength\":1}},"
    "\"$defs\":{\"b\":{\"$id\":\"b\",\"$defs\":{\"x\":{\"type\":\"object\"}}},"
    "\"y\":{\"$anchor\":\"y\",\"properties\":{\"s\":{\"$ref\":\"#/strange/z\"}}}}}";

static void schema_compiler_reports_any_failed_allocation(void **state)
{
    (void)state;
    struct json *schema = parse(everything);
    char text[8192] = "{\"p\":\"a\",\"q\":[1,2,3],\"s\":\"x\"";
    for (int i = 0; i < 300; i++) { /* more than the marks hold without an allocation */
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",\"m%d\":[]", i);
    }
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "}");
    struct json *instance = parse(text);
    for (long n = 1;; n++) {
        struct json_schema *s = NULL;
        struct tidings_error err = {0};
        fail_alloc_start(n);
        int rc = schema_compile(schema, NULL, &s, &err);
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_true(reached == (err.text[0] != '\0'));
        schema_destroy(s);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_start(0);
    struct json_schema *s = NULL;
    assert_int_equal(schema_compile(schema, NULL, &s, NULL), 0);
    long live = fail_alloc_live();
    for (long n = 1;; n++) {
        struct schema_error why = {"", "", ""};
        fail_alloc_start(n);
        bool valid = schema_validate(s, instance, &why);
        bool reached = fail_alloc_stop();
        assert_true(valid != reached);
        assert_true(valid == (why.text[0] == '\0'));
        assert_int_equal(fail_alloc_live(), live);
        if (!reached) {
            assert_true(n > 3);
            break;
        }
    }
    schema_destroy(s);
    fail_alloc_end();
    jv_unref(schema);
    jv_unref(instance);
}

static struct {
    const struct json_schema *schema;
    struct json *good, *bad;
} shared;

static void *judge_often(void *unused)
{
    (void)unused;
    uintptr_t wrong = 0;
    for (int i = 0; i < 200; i++) {
        struct schema_error why;
        wrong += !schema_validate(shared.schema, shared.good, &why);
        wrong += schema_validate(shared.schema, shared.bad, &why);
    }
    return (void *)wrong;
}

static void schema_works_in_several_threads_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct json_schema *s = compile(everything, NULL);
    shared.schema = s;
    shared.good = parse("{\"p\":\"a\",\"q\":[1,2]}");
    shared.bad = parse("{\"p\":\"1\",\"q\":[1,1]}");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, judge_often, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    schema_destroy(s);
    jv_unref(shared.good);
    jv_unref(shared.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_schemas_are_rejected_with_place_and_reason),
        cmocka_unit_test(schema_above_a_limit_is_rejected),
        cmocka_unit_test(endless_or_costly_check_ends_without_success),
        cmocka_unit_test(pattern_steps_are_proportional_to_the_text),
        cmocka_unit_test(compiling_costs_steps),
        cmocka_unit_test(long_strings_cost_steps),
        cmocka_unit_test(repeated_operations_cost_steps),
        cmocka_unit_test(colliding_elements_are_compared_within_the_steps),
        cmocka_unit_test(deep_instance_is_checked_up_to_depth_limit),
        cmocka_unit_test(paths_and_messages_are_cut_between_characters),
        cmocka_unit_test(schema_compiler_reports_any_failed_allocation),
        cmocka_unit_test(schema_works_in_several_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
