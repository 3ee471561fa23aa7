/* SPDX-License-Identifier: MIT
 *
 * The accepted and rejected instances of a schema, keyword by keyword, with the messages. The
 * official suite (test_schema_suite.c) covers more, if it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/schema.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

static bool check(const char *schema, const char *instance, const struct schema_options *options,
                  struct schema_error *ret)
{
    struct json *s = parse(schema), *v = parse(instance);
    struct json_schema *compiled = NULL;
    struct tidings_error err = {0};
    if (schema_compile(s, options, &compiled, &err) < 0) {
        fail_msg("%s: %s", schema, err.text);
    }
    jv_unref(s); /* the compiled schema has its own reference */
    bool valid = schema_validate(compiled, v, ret);
    schema_destroy(compiled);
    jv_unref(v);
    return valid;
}

/* Each row: a schema, valid instances, and invalid ones (arrays of instances). */
struct row {
    const char *schema, *good, *bad;
};

static void run_rows(const struct row *rows, size_t count, const struct schema_options *options)
{
    for (size_t i = 0; i < count; i++) {
        struct json *schema = parse(rows[i].schema);
        struct json_schema *s = NULL;
        struct tidings_error err = {0};
        if (schema_compile(schema, options, &s, &err) < 0) {
            fail_msg("%s: %s", rows[i].schema, err.text);
        }
        for (int is_good = 0; is_good < 2; is_good++) {
            struct json *all = parse(is_good ? rows[i].good : rows[i].bad);
            for (size_t k = 0; k < jv_count(all); k++) {
                struct schema_error why = {"", "", ""};
                if (schema_validate(s, jv_at(all, k), &why) != (is_good == 1) ||
                    schema_validate(s, jv_at(all, k), NULL) != (is_good == 1)) {
                    fail_msg("%s: %s instance %zu: %s", rows[i].schema, is_good ? "good" : "bad", k,
                             why.text);
                }
                assert_true((why.text[0] == '\0') == (is_good == 1));
            }
            jv_unref(all);
        }
        schema_destroy(s);
        jv_unref(schema);
    }
}
#define RUN(rows, options) run_rows(rows, sizeof(rows) / sizeof((rows)[0]), options)

static void content_keywords_are_checked_separately(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"true", "[1,null,{}]", "[]"},
        {"false", "[]", "[1,null,{}]"},
        {"{}", "[1,null,{}]", "[]"},
        {"{\"type\":\"integer\"}", "[1,1.0,-3,1e300]", "[1.5,\"1\",null,true,[],{}]"},
        {"{\"type\":\"number\"}", "[1,1.5]", "[\"1\",null]"},
        {"{\"type\":\"boolean\"}", "[true,false]", "[0,null]"},
        {"{\"type\":[\"null\",\"string\"]}", "[null,\"\"]", "[0,[],{}]"},
        {"{\"type\":[\"array\",\"object\"]}", "[[],{}]", "[0,null]"},
        {"{\"const\":{\"a\":[1,2.0]}}", "[{\"a\":[1.0,2]}]", "[{\"a\":[2,1]},{},{\"a\":[1]},1]"},
        {"{\"const\":false}", "[false]", "[0,null,[],\"\"]"},
        {"{\"const\":9007199254740993}", "[9007199254740993]",
         "[9007199254740992,9007199254740992.0]"},
        {"{\"enum\":[1,\"a\",null,{\"b\":1}]}", "[1,1.0,\"a\",null,{\"b\":1.0}]",
         "[2,\"b\",false,{\"b\":2},{}]"},
        {"{\"multipleOf\":3}", "[0,3,-9,9.0,\"x\"]", "[1,3.5]"},
        {"{\"multipleOf\":0.01}", "[0.07,19.99,4.35,1,1e10]", "[0.075,1e-3]"},
        {"{\"multipleOf\":1.5e3}", "[1500,3e3,0]", "[1,150,2000,1500.5]"},
        {"{\"maximum\":9223372036854775806}", "[9223372036854775806,1.5,\"x\"]",
         "[9223372036854775807,9223372036854775808.0]"},
        {"{\"exclusiveMaximum\":3}", "[2,2.9]", "[3,3.0,4]"},
        {"{\"minimum\":-1.5}", "[-1.5,-1,0]", "[-2,-1.6,-1e300]"},
        {"{\"exclusiveMinimum\":-9223372036854775808}", "[-9223372036854775807]",
         "[-9223372036854775808,-9223372036854775808.0,-1e19]"},
        {"{\"maxLength\":2}", "[\"\",\"\\ud83d\\ude00\\u00e9\",123]", "[\"abc\"]"},
        {"{\"minLength\":2.0}", "[\"ab\",\"\\u0000\\u0000\",1]", "[\"\",\"\\ud83d\\ude00\"]"},
        {"{\"pattern\":\"^a+$\"}", "[\"a\",\"aaa\",1]", "[\"\",\"ab\",\"a\\n\"]"},
        {"{\"pattern\":\"b\"}", "[\"abc\"]", "[\"ac\"]"},
        {"{\"pattern\":\"^\\\\p{Letter}+\\\\d$\"}", "[\"\\u00e9A1\"]", "[\"1\",\"a\\u0661\"]"},
        {"{\"pattern\":\"^\\\\p{gc=Lu}\\\\P{Script=Greek}\\\\u0041.$\"}", "[\"AbA\\ud83d\\ude00\"]",
         "[\"abAc\",\"A\\u03b1Ac\"]"},
        {"{\"maxItems\":1}", "[[],[1],{}]", "[[1,2]]"},
        {"{\"minItems\":1}", "[[1],\"\"]", "[[]]"},
        {"{\"uniqueItems\":true}", "[[],[1,2],[1,true],[0,false],[\"a\",[\"a\"]],{}]",
         "[[1,1.0],[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}],[3,2,1,2],[0.0,-0.0]]"},
        {"{\"uniqueItems\":false}", "[[1,1]]", "[]"},
        {"{\"maxProperties\":1}", "[{},{\"a\":1},[]]", "[{\"a\":1,\"b\":1}]"},
        {"{\"minProperties\":1}", "[{\"a\":1},[]]", "[{}]"},
        {"{\"required\":[\"a\",\"b\"]}", "[{\"a\":null,\"b\":1},[]]", "[{},{\"a\":1}]"},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "[{},{\"b\":1},{\"a\":1,\"b\":1},1]",
         "[{\"a\":1}]"},
        {"{\"format\":\"date\",\"title\":7,\"unknown\":{\"$ref\":1}}", "[\"nonsense\"]", "[]"},
    };
    RUN(rows, NULL);
}

static void subschemas_apply_to_the_value_and_its_parts(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", "[1,3]", "[0,4]"},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]}", "[\"\",3]", "[2]"},
        {"{\"anyOf\":[{\"type\":\"string\"}]}", "[\"\"]", "[2]"},
        {"{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}", "[2,3]", "[1,6]"},
        {"{\"not\":{\"type\":\"string\"}}", "[1]", "[\"\"]"},
        {"{\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":1},\"else\":{\"minimum\":1}}",
         "[\"a\",1]", "[\"\",0]"},
        {"{\"if\":false,\"then\":false}", "[1]", "[]"},
        {"{\"then\":false,\"else\":false}", "[1]", "[]"},
        {"{\"dependentSchemas\":{\"a\":{\"required\":[\"b\"]}}}", "[{},{\"a\":1,\"b\":1},1]",
         "[{\"a\":1}]"},
        {"{\"properties\":{\"b\":{\"type\":\"string\"},\"a\":{\"type\":\"integer\"},\"c\":false}}",
         "[{\"a\":1,\"b\":\"\"},{\"d\":1},1,[]]", "[{\"a\":\"\"},{\"b\":1},{\"c\":1}]"},
        {"{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":3}}}",
         "[{\"x\":1},{\"xy\":3},{\"z\":\"\"}]", "[{\"x\":\"\"},{\"xy\":2},{\"y\":1}]"},
        {"{\"properties\":{\"a\":true},\"patternProperties\":{\"^x\":true},"
         "\"additionalProperties\":false}",
         "[{\"a\":1,\"x1\":2},{}]", "[{\"b\":1}]"},
        {"{\"additionalProperties\":{\"type\":\"integer\"}}", "[{\"a\":1}]", "[{\"a\":\"\"}]"},
        {"{\"propertyNames\":{\"maxLength\":2}}", "[{\"ab\":1},{},[]]", "[{\"abc\":1}]"},
        {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
         "[[],[1],[1,\"\"],1]", "[[\"\"],[1,1],[1,\"\",1]]"},
        {"{\"items\":{\"type\":\"integer\"}}", "[[],[1,2],{}]", "[[1,\"\"]]"},
        {"{\"contains\":{\"type\":\"integer\"}}", "[[1],[\"\",1],{}]", "[[],[\"\"]]"},
        {"{\"contains\":{\"type\":\"integer\"},\"minContains\":2,\"maxContains\":3}",
         "[[1,2],[1,\"\",2,3]]", "[[1],[],[1,2,3,4]]"},
        {"{\"contains\":false,\"minContains\":0}", "[[],[1]]", "[]"},
        {"{\"minContains\":5,\"maxContains\":0}", "[[],[1]]", "[]"},
    };
    RUN(rows, NULL);
}

static void unevaluated_keywords_get_the_remaining_members(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"allOf\":[{\"properties\":{\"a\":true}}],\"unevaluatedProperties\":false}",
         "[{},{\"a\":1},1]", "[{\"b\":1}]"},
        {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
         "{\"properties\":{\"b\":true}}],\"unevaluatedProperties\":false}",
         "[{\"a\":1},{\"a\":1,\"b\":2},{\"b\":2}]", "[{\"a\":2},{\"a\":2,\"b\":1},{\"c\":1}]"},
        {"{\"oneOf\":[{\"properties\":{\"a\":true},\"required\":[\"a\"]},"
         "{\"properties\":{\"b\":true},\"required\":[\"b\"]}],\"unevaluatedProperties\":false}",
         "[{\"a\":1},{\"b\":1}]", "[{\"a\":1,\"b\":1},{\"a\":1,\"c\":1}]"},
        {"{\"not\":{\"not\":{\"properties\":{\"a\":true}}},\"unevaluatedProperties\":false}",
         "[{}]", "[{\"a\":1}]"},
        {"{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
         "\"then\":{\"properties\":{\"b\":true}},\"else\":{\"properties\":{\"c\":true}},"
         "\"unevaluatedProperties\":false}",
         "[{\"a\":1,\"b\":1},{\"c\":1}]", "[{\"a\":1,\"c\":1},{\"a\":2,\"c\":1}]"},
        {"{\"dependentSchemas\":{\"a\":{\"properties\":{\"a\":true,\"b\":true}}},"
         "\"unevaluatedProperties\":{\"type\":\"string\"}}",
         "[{\"a\":1,\"b\":1},{\"b\":\"\"}]", "[{\"b\":1}]"},
        {"{\"properties\":{\"a\":{\"unevaluatedProperties\":false}}}", "[{\"a\":{}}]",
         "[{\"a\":{\"b\":1}}]"},
        {"{\"$ref\":\"#/$defs/x\",\"unevaluatedProperties\":false,"
         "\"$defs\":{\"x\":{\"patternProperties\":{\"^a\":true}}}}",
         "[{\"ab\":1}]", "[{\"b\":1}]"},
        {"{\"allOf\":[{\"additionalProperties\":true}],\"unevaluatedProperties\":false}",
         "[{\"a\":1}]", "[]"},
        {"{\"allOf\":[{\"unevaluatedProperties\":true}],\"unevaluatedProperties\":false}",
         "[{\"a\":1}]", "[]"},
        {"{\"allOf\":[{\"properties\":{\"a\":true}},{\"unevaluatedProperties\":false}]}", "[{}]",
         "[{\"a\":1}]"},
        {"{\"allOf\":[{\"prefixItems\":[true]}],\"unevaluatedItems\":false}", "[[],[1],1]",
         "[[1,2]]"},
        {"{\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":\"integer\"}}",
         "[[\"\",1],[1,\"\"]]", "[[\"\",null]]"},
        {"{\"allOf\":[{\"items\":{\"type\":\"integer\"}}],\"unevaluatedItems\":false}", "[[1,2]]",
         "[[\"\"]]"},
        {"{\"anyOf\":[{\"prefixItems\":[true,{\"const\":2}]},{\"prefixItems\":[true]}],"
         "\"unevaluatedItems\":false}",
         "[[1,2],[1]]", "[[1,3],[1,2,3]]"},
    };
    RUN(rows, NULL);
}

static void references_resolve_by_pointer_anchor_name_and_scope(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
         "[{\"a\":{\"a\":{}}}]", "[{\"a\":{\"b\":1}}]"},
        {"{\"$ref\":\"#/$defs/a~1b~0%25\",\"$defs\":{\"a/b~%\":{\"type\":\"string\"}}}", "[\"\"]",
         "[1]"},
        {"{\"$ref\":\"#x\",\"maximum\":3,\"$defs\":{\"q\":{\"$anchor\":\"x\",\"minimum\":1}}}",
         "[1,3]", "[0,4]"},
        {"{\"$id\":\"http://h/a/b\",\"$ref\":\"../c#/$defs/i\",\"$defs\":{\"q\":"
         "{\"$id\":\"/c\",\"$defs\":{\"i\":{\"$ref\":\"#y\"},\"y\":{\"$anchor\":\"y\","
         "\"type\":\"integer\"}}}}}",
         "[1]", "[\"\"]"},
        {"{\"$id\":\"urn:x:y\",\"$ref\":\"urn:x:y#/$defs/i\",\"$defs\":{\"i\":"
         "{\"type\":\"integer\"}}}",
         "[1]", "[\"\"]"},
        {"{\"$ref\":\"#/strange/0\",\"strange\":[{\"type\":\"integer\"}]}", "[1]", "[\"\"]"},
        {"{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}",
         "[true,{},{\"type\":\"string\",\"items\":{\"minLength\":1}},{\"$defs\":{\"a\":false}}]",
         "[1,{\"type\":\"x\"},{\"items\":{\"minLength\":-1}},{\"allOf\":[]},{\"$anchor\":\"#\"}]"},
        {"{\"$id\":\"http://h/strict\",\"$dynamicAnchor\":\"n\",\"$ref\":\"tree\","
         "\"unevaluatedProperties\":false,\"$defs\":{\"t\":{\"$id\":\"tree\","
         "\"$dynamicAnchor\":\"n\",\"properties\":{\"v\":true,\"k\":{\"items\":"
         "{\"$dynamicRef\":\"#n\"}}}}}}",
         "[{\"v\":1,\"k\":[{\"v\":2}]}]", "[{\"w\":1},{\"k\":[{\"w\":1}]}]"},
        {"{\"$dynamicRef\":\"#n\",\"$defs\":{\"a\":{\"$anchor\":\"n\",\"type\":\"null\"}}}",
         "[null]", "[1]"},
    };
    RUN(rows, NULL);
}

static void given_documents_are_found_by_uri_and_id(void **state)
{
    (void)state;
    struct schema_document documents[] = {
        {STR("http://h/int"), parse("{\"type\":\"integer\",\"$defs\":{\"s\":{\"$ref\":\"str\"}}}")},
        {STR("http://h/str"), parse("{\"$id\":\"http://other/name\",\"type\":\"string\","
                                    "\"$ref\":\"more\",\"$defs\":{\"m\":{\"$id\":\"more\","
                                    "\"minLength\":1}}}")},
        {STR("http://h/meta"), parse("{\"$vocabulary\":{\"https://json-schema.org/draft/2020-12/"
                                     "vocab/core\":true,\"https://json-schema.org/draft/2020-12/"
                                     "vocab/applicator\":true,\"http://h/vocab\":false}}")},
        {STR("http://h/strange"), parse("{\"$vocabulary\":{\"http://h/vocab\":true}}")},
    };
    const size_t count = sizeof(documents) / sizeof(documents[0]);
    const struct schema_options options = {.documents = documents, .n_documents = count};
    static const struct row rows[] = {
        {"{\"$ref\":\"http://h/int\"}", "[1]", "[\"\"]"},
        {"{\"$id\":\"http://h/x\",\"$ref\":\"int#/$defs/s\"}", "[\"a\"]", "[1,\"\"]"},
        {"{\"allOf\":[{\"$ref\":\"http://h/str\"},{\"$ref\":\"http://other/name\"}]}", "[\"a\"]",
         "[1,\"\"]"},
        {"{\"$schema\":\"http://h/meta\",\"type\":\"string\",\"properties\":{\"a\":false}}", "[1]",
         "[{\"a\":1}]"},
    };
    RUN(rows, &options);
    struct schema_error why;
    assert_false(check("{\"$ref\":\"http://h/int\"}", "\"\"", &options, &why));
    assert_string_equal(why.schema_path, "http://h/int#/type");
    struct json *strange = parse("{\"$schema\":\"http://h/strange\"}");
    struct json_schema *s = NULL;
    assert_int_equal(schema_compile(strange, &options, &s, NULL), TIDINGS_E_UNSUPPORTED);
    jv_unref(strange);
    for (size_t i = 0; i < count; i++) {
        jv_unref(documents[i].root);
    }
}

static void formats_are_checked_only_on_request(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"format\":\"date-time\"}",
         "[\"2024-02-29T12:00:00Z\",\"1998-12-31T15:59:60.123-08:00\",1]",
         "[\"2023-02-29T12:00:00Z\",\"2024-02-29 12:00:00Z\",\"2024-02-29T12:00:00\",\"\"]"},
        {"{\"format\":\"date\"}", "[\"2000-02-29\"]",
         "[\"1900-02-29\",\"2024-13-01\",\"2024-1-1\",\"2024-04-31\",\"2024-01-00\"]"},
        {"{\"format\":\"time\"}", "[\"23:59:59Z\",\"00:00:00.5+01:00\",\"23:59:60z\"]",
         "[\"24:00:00Z\",\"12:00Z\",\"12:00:60Z\",\"12:00:00.Z\",\"12:00:00+1:00\",\"12\"]"},
        {"{\"format\":\"email\"}", "[\"a.b+c@d.example\",\"a@[127.0.0.1]\",\"a@[IPv6:::1]\"]",
         "[\"\",\"a\",\"a@\",\"@b\",\"a..b@c\",\".a@c\",\"a b@c\",\"a@[x]\",\"a@[\"]"},
        {"{\"format\":\"hostname\"}", "[\"a.b-c.example\",\"1.2\"]",
         "[\"\",\"-a\",\"a-\",\"a..b\",\"a_b\",\".\"]"},
        {"{\"format\":\"ipv4\"}", "[\"192.0.2.1\"]",
         "[\"256.0.0.1\",\"1.2.3\",\"1.2.3.4\\u0000\"]"},
        {"{\"format\":\"ipv6\"}", "[\"::1\",\"2001:db8::1\"]", "[\"1::2::3\",\"12345::\",\"\"]"},
        {"{\"format\":\"uri\"}", "[\"http://h/p?q#f\",\"urn:a:b\"]",
         "[\"/p\",\"http://h/a b\",\"http://h/%zz\",\":x\",\"a:b#c#d\"]"},
        {"{\"format\":\"uri-reference\"}", "[\"/p\",\"#f\",\"\"]", "[\"\\\\\",\"a%\"]"},
        {"{\"format\":\"uuid\"}", "[\"2EB8AA08-aa98-11ea-b4aa-73b441d16380\"]",
         "[\"2eb8aa08aa9811eab4aa73b441d16380\",\"2eb8aa08-aa98-11ea-b4ga-73b441d16380\"]"},
        {"{\"format\":\"json-pointer\"}", "[\"\",\"/a/~0~1\"]", "[\"a\",\"/~2\",\"/~\"]"},
        {"{\"format\":\"regex\"}", "[\"^a\"]", "[\"(\",\"[\"]"},
        {"{\"format\":\"color\"}", "[\"anything\"]", "[]"},
    };
    RUN(rows, &(struct schema_options){.assert_format = true});
    assert_true(check("{\"format\":\"uuid\"}", "\"x\"", NULL, NULL));
}

static void refusal_gives_place_and_reason(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *instance, *instance_path, *schema_path, *text;
    } rows[] = {
        {"{\"type\":\"string\"}", "1", "", "/type", "an integer given, type 'string' expected"},
        {"{\"properties\":{\"a/b\":{\"items\":{\"maximum\":3}}}}", "{\"a/b\":[1,4]}", "/a~1b/1",
         "/properties/a~1b/items/maximum", "the number must be at most 3"},
        {"{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"required\":[\"k\"]}}}", "{}", "",
         "/$defs/x/required", "property 'k' is missing"},
        {"{\"additionalProperties\":false}", "{\"z\":1}", "", "/additionalProperties",
         "property 'z' is not allowed"},
        {"{\"properties\":{\"z\":false}}", "{\"z\":1}", "/z", "/properties/z",
         "no value is allowed here"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"minimum\":9}]}", "1", "", "/anyOf",
         "the value fits none of the 2 schemas of anyOf"},
        {"{\"oneOf\":[false,true,true]}", "1", "", "/oneOf",
         "the value fits schemas 1 and 2 of oneOf"},
        {"{\"allOf\":[true,{\"uniqueItems\":true}]}", "[5,7,7.0]", "", "/allOf/1/uniqueItems",
         "elements 1 and 2 are equal"},
        {"{\"minLength\":3}", "\"ab\"", "", "/minLength",
         "2 characters given, at least 3 expected"},
        {"{\"contains\":{\"const\":1},\"maxContains\":1}", "[1,1]", "", "/maxContains",
         "2 elements fit the schema of contains, at most 1 allowed"},
        {"{\"pattern\":\"^x$\"}", "\"ab\"", "", "/pattern",
         "the string does not match the pattern '^x$'"},
        {"{\"exclusiveMinimum\":1.5}", "1.5", "", "/exclusiveMinimum",
         "the number must be more than 1.5"},
        {"{\"enum\":[\"pressure\",\"temperature\",\"door\"]}", "\"dor\"", "", "/enum",
         "'dor' is none of 'pressure', 'temperature', 'door'"},
        {"{\"enum\":[1,2.5,null,true]}", "{\"a\":1}", "", "/enum",
         "the value is none of 1, 2.5, null, true"},
        {"{\"enum\":[[],1]}", "false", "", "/enum", "false is none of the 2 allowed ones"},
        {"{\"enum\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\"]}",
         "\"a password that was put into the wrong field\"", "", "/enum",
         "the value is none of 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"},
        {"{\"enum\":[\"0123456789012345678901234567\\u00e9\\u00e9\\u00e9\\u00e9\"]}", "1", "",
         "/enum", "1 is none of '0123456789012345678901234567…'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct schema_error why;
        assert_false(check(rows[i].schema, rows[i].instance, NULL, &why));
        assert_string_equal(why.instance_path, rows[i].instance_path);
        assert_string_equal(why.schema_path, rows[i].schema_path);
        assert_string_equal(why.text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_keywords_are_checked_separately),
        cmocka_unit_test(subschemas_apply_to_the_value_and_its_parts),
        cmocka_unit_test(unevaluated_keywords_get_the_remaining_members),
        cmocka_unit_test(references_resolve_by_pointer_anchor_name_and_scope),
        cmocka_unit_test(given_documents_are_found_by_uri_and_id),
        cmocka_unit_test(formats_are_checked_only_on_request),
        cmocka_unit_test(refusal_gives_place_and_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
