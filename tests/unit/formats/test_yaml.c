/* SPDX-License-Identifier: MIT
 *
 * YAML in front matter: the meaning of each form (the same as in the npm package "yaml", which
 * tests/integration/skills.test.mjs compares), refusals with their reasons, and limits on the cost.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/json_write.h"
#include "formats/yaml.h"

static void expect(const char *yaml, const char *json)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    struct buf out;
    struct jw w;
    if (yaml_parse(tidings_str(yaml), &root, &err) < 0) {
        fail_msg("%s: %s", yaml, err.text);
    }
    buf_init(&out, 1u << 20);
    jw_init(&w, &out);
    jw_value(&w, root);
    assert_string_equal(out.ptr, json);
    buf_deinit(&out);
    jv_unref(root);
}

static void refused(const char *yaml, const char *why)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    int rc = yaml_parse(tidings_str(yaml), &root, &err);
    if (rc >= 0 || !strstr(err.text, why)) {
        fail_msg("%s: %s", yaml, rc < 0 ? err.text : "was read");
    }
}

static void mappings_and_sequences_nest_by_indentation(void **state)
{
    (void)state;
    expect("name: a\ndescription: b c\n", "{\"name\":\"a\",\"description\":\"b c\"}");
    expect("a:\n  b:\n    c: d\n  e: f\n", "{\"a\":{\"b\":{\"c\":\"d\"},\"e\":\"f\"}}");
    expect("a:\n- 1\n- 2\nb: 3\n", "{\"a\":[1,2],\"b\":3}");
    expect("a:\n  - x: 1\n    y: 2\n  - z\n", "{\"a\":[{\"x\":1,\"y\":2},\"z\"]}");
    expect("- - a\n  - b\n-\n  c: 1\n-\n", "[[\"a\",\"b\"],{\"c\":1},null]");
    expect("a:\n\n# c\n  b: 1 # d\r\nc:\n", "{\"a\":{\"b\":1},\"c\":null}");
    expect("\n# nothing\n", "null");
}

static void flow_collections_span_lines(void **state)
{
    (void)state;
    expect("a: [1, \"x\", 'y', b c]\n", "{\"a\":[1,\"x\",\"y\",\"b c\"]}");
    expect("a: {b: c, \"d\":[e,\n  f # g\n  ], h: }\n",
           "{\"a\":{\"b\":\"c\",\"d\":[\"e\",\"f\"],\"h\":null}}");
    expect("a: [1,]\nb: {}\n", "{\"a\":[1],\"b\":{}}");
}

static void scalars_fold_and_keep_lines(void **state)
{
    (void)state;
    expect("a: foo\n  bar\n\n  baz # c\n", "{\"a\":\"foo bar\\nbaz\"}");
    expect("a: \"x\\ty \\\n  z\\u00e9\n\n  q\"\n", "{\"a\":\"x\\ty z\303\251\\nq\"}");
    expect("a: 'it''s\n  so'\n", "{\"a\":\"it's so\"}");
    expect("a: |\n  x\n   y\n\n  z\nb: 1\n", "{\"a\":\"x\\n y\\n\\nz\\n\",\"b\":1}");
    expect("a: >-\n  x\n  y\n\n  z\n", "{\"a\":\"x y\\nz\"}");
    expect("a: |+\n  x\n\nb: >\n  p\n   q\n  r\n", "{\"a\":\"x\\n\\n\",\"b\":\"p\\n q\\nr\\n\"}");
    expect("a: |2\n    x\n", "{\"a\":\"  x\\n\"}");
    expect("a: b#c http://d/e\n", "{\"a\":\"b#c http://d/e\"}");
}

static void plain_scalars_follow_the_core_schema(void **state)
{
    (void)state;
    expect("a: ~\nb: True\nc: yes\nd: 2024-01-01\n",
           "{\"a\":null,\"b\":true,\"c\":\"yes\",\"d\":\"2024-01-01\"}");
    expect("a: 0x1F\nb: 0o17\nc: 017\nd: +5\n", "{\"a\":31,\"b\":15,\"c\":17,\"d\":5}");
    expect("a: .5\nb: -1.\nc: 1e3\nd: '1'\n", "{\"a\":0.5,\"b\":-1.0,\"c\":1000.0,\"d\":\"1\"}");
    expect("a: 1.2.3\nb: 1_000\n", "{\"a\":\"1.2.3\",\"b\":\"1_000\"}");
}

static void unsupported_yaml_is_rejected_with_its_line(void **state)
{
    (void)state;
    refused("a: 1\nb: &x [1]\n", "line 2: anchors and aliases");
    refused("a: *x\n", "line 1: anchors and aliases");
    refused("a: !!python/object:os.system x\n", "line 1: tags");
    refused("<<: {a: 1}\n", "the key is not a string");
    refused("? a\n: b\n", "line 1:");
    refused("a: 1\na: 2\n", "a key comes twice");
    refused("a: b: c\n", "line 1: ': ' inside a plain text");
    refused("a: 1\n  b: 2\n", "line 2:");
    refused("a:\n  b: 1\n c: 2\n", "line 3: indented");
    refused("\ta: 1\n", "line 1: a tab");
    refused("a: \"x\n", "line 1: a quote that does not end");
    refused("a: \"\\ud800\"\n", "invalid escape sequence");
    refused("a: [1\n", "a bracket that is not closed");
    refused("a: .inf\n", "JSON has no such number");
    refused("a: 1e999\n", "a number is too large");
    refused("a: 0xffffffffffffffff\n", "a number is too large");
    refused("a: 1\n...\nb: 2\n", "line 2: a second document");
    refused("a: x\x1b[2Jy\n", "control characters");
    refused("a: \xff\n", "not valid UTF-8");
    refused("just text\n", "neither");
}

/* A string of `piece`, repeated `count` times. */
static char *repeated(const char *piece, size_t count)
{
    size_t len = strlen(piece);
    char *text = mem_alloc(len * count + 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * len, piece, len + 1);
    }
    return text;
}

static void large_or_deep_yaml_is_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        size_t count;
        const char *why;
    } rows[] = {
        {"[", 60000, "line 1: neither"},
        {"- ", 30000, "line 1: nested more than 16"},
        {"- a\n", 10000, "more than 2048 values"},
        {"a: b\n", 20000, "more than 64 KiB"},
        {"{a: ", 10000, "line 1:"},
        {"\"", 60001, "line 1"},
        {"a: |\n", 13000, "more than 2048"},
        {"'' ", 20000, "line 1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = repeated(rows[i].piece, rows[i].count);
        refused(text, rows[i].why);
        mem_free(text);
    }
    char *deep = repeated("[", 60000);
    memcpy(deep, "a: ", 3);
    refused(deep, "nested more than 16");
    mem_free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_and_sequences_nest_by_indentation),
        cmocka_unit_test(flow_collections_span_lines),
        cmocka_unit_test(scalars_fold_and_keep_lines),
        cmocka_unit_test(plain_scalars_follow_the_core_schema),
        cmocka_unit_test(unsupported_yaml_is_rejected_with_its_line),
        cmocka_unit_test(large_or_deep_yaml_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
