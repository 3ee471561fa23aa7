/* SPDX-License-Identifier: MIT
 *
 * Patch schemas: the patches that a type accepts and rejects, by table; a schema without a possible
 * patch schema is rejected with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/schema_patch.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

#define USER                                                                                       \
    "{\"type\":\"object\",\"required\":[\"name\"],\"minProperties\":1,\"properties\":{"            \
    "\"name\":{\"type\":\"string\",\"minLength\":1},"                                              \
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"                               \
    "\"home\":{\"type\":\"object\",\"required\":[\"city\"],\"properties\":"                        \
    "{\"city\":{\"type\":\"string\"},\"zip\":{\"type\":\"integer\"}}}}}"
#define TREE                                                                                       \
    "{\"$ref\":\"#/$defs/node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":"          \
    "{\"v\":{\"type\":\"number\"},\"next\":{\"$ref\":\"#/$defs/node\"}}}}}"
#define SPREAD                                                                                     \
    "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"string\"}}},"                                  \
    "{\"properties\":{\"b\":{\"type\":\"string\"}}}],"                                             \
    "\"oneOf\":[{\"properties\":{\"c\":{\"type\":\"string\"}}},"                                   \
    "{\"properties\":{\"c\":{\"type\":\"integer\"}}}],"                                            \
    "\"if\":{\"properties\":{\"d\":true}},\"dependentSchemas\":{\"a\":{\"properties\":"            \
    "{\"e/~% é\":{\"type\":\"boolean\"}}}}}"
#define OPEN                                                                                       \
    "{\"properties\":{\"a\":{\"type\":\"string\"}},\"additionalProperties\":{\"type\":"            \
    "\"integer\"}}"
#define PATTERNS "{\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}}}"

#define ROWS                                                                                       \
    "{\"properties\":{\"rows\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":["  \
    "\"a\"],"                                                                                      \
    "\"properties\":{\"a\":{\"type\":\"integer\"},\"in\":{\"properties\":{\"b\":true}},"           \
    "\"of\":{\"items\":{\"items\":{\"properties\":{\"c\":true}}}}}}},"                             \
    "\"free\":{\"type\":\"array\"},\"any\":{\"items\":{\"type\":\"object\"}},"                     \
    "\"pair\":{\"prefixItems\":[{\"properties\":{\"p\":true}},{\"properties\":{\"q\":true}}]},"    \
    "\"open\":{\"items\":{\"properties\":{\"a\":true},\"additionalProperties\":{\"type\":"         \
    "\"integer\"}}},\"either\":{\"anyOf\":[{\"items\":{\"properties\":{\"x\":true}}},{\"items\":"  \
    "{\"properties\":{\"y\":true}}}]},\"self\":{\"items\":{\"$ref\":\"#\"}}}}"

static const struct {
    const char *schema, *patch;
    bool valid;
} rows[] = {
    {USER, "{}", true},
    {USER, "{\"name\":\"x\"}", true},
    {USER, "{\"name\":null}", true}, /* the full schema checks the result */
    {USER, "{\"name\":\"\"}", false},
    {USER, "{\"name\":{\"a\":1}}", false},
    {USER, "{\"other\":1}", false},
    {USER, "{\"other\":null}", false},
    {USER, "{\"home\":{\"zip\":1}}", true},
    {USER, "{\"home\":{\"zip\":null,\"city\":null}}", true},
    {USER, "{\"home\":{\"zip\":\"x\"}}", false},
    {USER, "{\"home\":{\"street\":\"x\"}}", false},
    {USER, "{\"home\":null}", true},
    {USER, "{\"home\":7}", false},
    {USER, "{\"tags\":[\"a\"]}", true},
    {USER, "{\"tags\":[null]}", false},
    {USER, "{\"tags\":{\"0\":\"a\"}}", false},
    {USER, "null", false},
    {USER, "[]", false},
    {TREE, "{\"next\":{\"next\":{\"v\":1,\"next\":null}}}", true},
    {TREE, "{\"next\":{\"next\":{\"w\":1}}}", false},
    {SPREAD, "{\"a\":\"x\",\"b\":null,\"c\":1}", true},
    {SPREAD, "{\"c\":\"x\",\"d\":[{\"q\":null}]}", true},
    {SPREAD, "{\"c\":true}", false},
    {SPREAD, "{\"f\":1}", false},
    {SPREAD, "{\"e/~% é\":true}", true},
    {SPREAD, "{\"e/~% é\":1}", false},
    {OPEN, "{\"z\":1}", true},
    {OPEN, "{\"z\":null}", true},
    {OPEN, "{\"z\":\"x\"}", false},
    {PATTERNS, "{\"x-a\":1}", true},
    {PATTERNS, "{\"x-a\":\"x\"}", false},
    {PATTERNS, "{\"y\":1}", false},
    {"true", "{\"any\":{\"thing\":1}}", true},
    {"{\"type\":\"object\"}", "{\"any\":1}", true},
    {"{\"additionalProperties\":false}", "{\"any\":1}", false},
    {"{\"properties\":{\"n\":{\"type\":[\"object\",\"null\"]}}}", "{\"n\":{\"x\":1}}", true},
    {"{\"properties\":{\"n\":false}}", "{\"n\":{}}", false},
    {"{\"properties\":{\"n\":false}}", "{\"n\":null}", true},
    {ROWS, "{\"rows\":[{\"a\":1},{\"a\":2,\"in\":{\"b\":null}}]}", true},
    {ROWS, "{\"rows\":[{\"a\":1},{\"a\":2,\"z\":3}]}", false},
    {ROWS, "{\"rows\":[{\"a\":1,\"in\":{\"z\":3}}]}", false},
    {ROWS, "{\"rows\":[{\"a\":1,\"of\":[[{\"c\":3}],[]]}]}", true},
    {ROWS, "{\"rows\":[{\"a\":1,\"of\":[[{\"z\":3}]]}]}", false},
    {ROWS, "{\"rows\":[{}]}", false},           /* an item is replaced whole … */
    {ROWS, "{\"rows\":[{\"a\":null}]}", false}, /* … so that null removes nothing */
    {ROWS, "{\"rows\":null}", true},
    {ROWS, "{\"free\":[{\"z\":1}],\"any\":[{\"z\":1}]}", true},
    {ROWS, "{\"pair\":[{\"p\":1},{\"q\":1},{\"z\":1}]}", true},
    {ROWS, "{\"pair\":[{\"q\":1}]}", false},
    {ROWS, "{\"open\":[{\"z\":1}]}", true},
    {ROWS, "{\"either\":[{\"x\":1},{\"y\":1}]}", true},
    {ROWS, "{\"either\":[{\"z\":1}]}", false},
    {ROWS, "{\"self\":[{\"rows\":[{\"a\":1}],\"self\":[{}]}]}", true},
    {ROWS, "{\"self\":[{\"self\":[{\"self\":[{\"z\":1}]}]}]}", false},
};

static void patches_are_checked_by_patch_schema(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *full = parse(rows[i].schema), *patch = parse(rows[i].patch), *pointers = NULL;
        struct json_schema *schema = NULL;
        struct tidings_error err = {0};
        struct schema_error why = {0};
        if (schema_patch_compile(full, NULL, &schema, &pointers, &err) < 0) {
            fail_msg("%s: %s", rows[i].schema, err.text);
        }
        if (schema_validate(schema, patch, &why) != rows[i].valid) {
            fail_msg("%s for %s: expected %s; %s %s", rows[i].patch, rows[i].schema,
                     rows[i].valid ? "valid" : "not valid", why.instance_path, why.text);
        }
        schema_destroy(schema);
        jv_unref(pointers);
        jv_unref(patch);
        jv_unref(full);
    }
}

static void refusal_names_the_rule_of_the_full_schema(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *patch, *at, *rule, *text;
    } refusals[] = {
        {USER, "{\"name\":1}", "/name", "/properties/name/type", "type 'string' expected"},
        {USER, "{\"name\":\"\"}", "/name", "/properties/name/minLength", ""},
        {USER, "{\"home\":7}", "/home", "/properties/home/type", "type 'object' expected"},
        {USER, "{\"home\":{\"zip\":\"x\"}}", "/home/zip", "/properties/home/properties/zip/type",
         "type 'integer' expected"},
        {USER, "{\"other\":1}", "", "/additionalProperties", "'other' is not allowed"},
        {USER, "{\"home\":{\"a\":1}}", "/home", "/properties/home/additionalProperties",
         "'a' is not allowed"},
        {USER, "{\"tags\":[1]}", "/tags/0", "/properties/tags/items/type", "'string' expected"},
        {ROWS, "{\"rows\":[{\"a\":1},{\"a\":2,\"z\":3}]}", "/rows/1",
         "/properties/rows/items/additionalProperties", "'z' is not allowed"},
        {TREE, "{\"next\":{\"v\":\"x\"}}", "/next/v", "/$defs/node/properties/v/type", "'number'"},
        {USER, "[]", "", "/type", "type 'object' expected"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct json *full = parse(refusals[i].schema), *patch = parse(refusals[i].patch);
        struct json *pointers = NULL;
        struct json_schema *schema = NULL;
        struct schema_error why = {0};
        assert_int_equal(schema_patch_compile(full, NULL, &schema, &pointers, NULL), 0);
        assert_false(schema_validate(schema, patch, &why));
        schema_patch_explain(pointers, &why);
        assert_string_equal(why.instance_path, refusals[i].at);
        assert_string_equal(why.schema_path, refusals[i].rule);
        assert_non_null(strstr(why.text, refusals[i].text));
        schema_destroy(schema);
        jv_unref(pointers);
        jv_unref(patch);
        jv_unref(full);
    }
}

static void unresolvable_reference_is_rejected_with_its_place(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"properties\":{\"a\":{\"$ref\":\"#x\"}},\"$defs\":{\"x\":{\"$anchor\":\"x\"}}}",
        "{\"properties\":{\"a\":{\"$dynamicRef\":\"#x\"}},\"$defs\":{\"x\":{\"$dynamicAnchor\":"
        "\"x\"}}}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct json *full = parse(schemas[i]), *pointers = NULL;
        struct json_schema *patch = NULL;
        struct tidings_error err = {0};
        assert_int_equal(schema_patch_compile(full, NULL, &patch, &pointers, &err),
                         TIDINGS_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "/properties/a"));
        assert_null(patch);
        assert_null(pointers);
        jv_unref(full);
    }
}

/* Each of n parts refers to all n parts: every entry would collect all of them. */
static void excessive_cross_references_hit_a_limit(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 8u << 20);
    buf_puts(&out, STR("{\"$defs\":{"));
    const unsigned n = 600;
    for (unsigned i = 0; i < n; i++) {
        buf_putf(&out,
                 "%s\"p%u\":{\"properties\":{\"x%u\":{\"$ref\":\"#/$defs/p%u\"}},\"$ref\":"
                 "\"#/$defs/p%u\"}",
                 i > 0 ? "," : "", i, i, (i * 7 + 1) % n, (i + 1) % n);
    }
    buf_puts(&out, STR("},\"$ref\":\"#/$defs/p0\"}"));
    struct json *full = parse(out.ptr), *pointers = NULL;
    struct json_schema *patch = NULL;
    struct tidings_error err = {0};
    assert_int_equal(schema_patch_compile(full, NULL, &patch, &pointers, &err), TIDINGS_E_LIMIT);
    jv_unref(full);
    buf_deinit(&out);
}

static void excessive_properties_hit_a_limit(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1u << 20);
    buf_puts(&out, STR("{\"properties\":{"));
    for (unsigned i = 0; i < 7000; i++) {
        buf_putf(&out, "%s\"p%u\":{\"type\":\"string\"}", i > 0 ? "," : "", i);
    }
    buf_puts(&out, STR("}}"));
    struct json *full = parse(out.ptr), *pointers = NULL;
    struct json_schema *patch = NULL;
    struct tidings_error err = {0};
    assert_int_equal(schema_patch_compile(full, NULL, &patch, &pointers, &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "no patch schema can be made: too many properties");
    jv_unref(full);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_are_checked_by_patch_schema),
        cmocka_unit_test(refusal_names_the_rule_of_the_full_schema),
        cmocka_unit_test(unresolvable_reference_is_rejected_with_its_place),
        cmocka_unit_test(excessive_cross_references_hit_a_limit),
        cmocka_unit_test(excessive_properties_hit_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
