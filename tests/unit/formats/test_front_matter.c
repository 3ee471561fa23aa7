/* SPDX-License-Identifier: MIT
 *
 * Front matter: its start and end, and the comparison of two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/yaml.h"

static struct json *parsed(const char *file)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (front_matter_parse(tidings_str(file), &root, &err) < 0) {
        fail_msg("%s: %s", file, err.text);
    }
    return root;
}

static void refused(const char *file, const char *why)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    int rc = front_matter_parse(tidings_str(file), &root, &err);
    if (rc >= 0 || !strstr(err.text, why)) {
        fail_msg("%s: %s", file, rc < 0 ? err.text : "was read");
    }
}

static void front_matter_lies_between_the_first_two_lines_of_dashes(void **state)
{
    (void)state;
    static const char *const files[] = {
        "---\nname: a\n---\nbody\n---\nname: b\n",
        "---\r\nname: a\r\n---\r\n",
        "\xef\xbb\xbf---  \nname: a\n--- ",
        "---\nname: a\n---",
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct json *root = parsed(files[i]);
        assert_true(str_eq(jv_str(jv_get(root, "name")), STR("a")));
        assert_int_equal(jv_count(root), 1);
        jv_unref(root);
    }
}

static void missing_front_matter_is_rejected_with_the_line(void **state)
{
    (void)state;
    refused("# Title\n", "line 1: there is no front matter");
    refused("", "line 1: there is no front matter");
    refused("---", "line 1: there is no front matter");
    refused("---\nname: a\n", "no end");
    refused("---\n---\n", "no 'key: value'");
    refused("---\n- a\n---\n", "no 'key: value'");
    refused("---\nname: a\nb: *c\n---\n", "line 3: anchors");
    char *large = mem_alloc(70001);
    assert_non_null(large);
    memset(large, 'x', 70000);
    memcpy(large, "---\na: ", 7);
    large[70000] = '\0';
    refused(large, "more than 64 KiB");
    mem_free(large);
}

static void front_matter_is_compared_by_value(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *json;
        bool same;
    } rows[] = {
        {"---\na: 1.0\nb: x\n---\n", "{\"b\":\"x\",\"a\":1}", true},
        {"---\na: 1\n---\n", "{\"a\":\"1\"}", false},
        {"---\na: 1\n---\n", "{\"a\":1,\"b\":null}", false},
        {"---\na: 1\nb:\n---\n", "{\"a\":1}", false},
        {"---\na: [1, {b: c}]\n---\n", "{\"a\":[1,{\"b\":\"c\"}]}", true},
        {"---\na: [1, 2]\n---\n", "{\"a\":[2,1]}", false},
        {"---\na: {b: {c: d}}\n---\n", "{\"a\":{\"b\":{\"c\":\"e\"}}}", false},
        {"---\na: 9007199254740993\n---\n", "{\"a\":9007199254740992}", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json *a = parsed(rows[i].yaml), *b = NULL;
        assert_int_equal(jv_parse(tidings_str(rows[i].json), 16, &b, NULL), 0);
        assert_int_equal(front_matter_equal(a, b), rows[i].same);
        assert_int_equal(front_matter_equal(b, a), rows[i].same);
        jv_unref(a);
        jv_unref(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front_matter_lies_between_the_first_two_lines_of_dashes),
        cmocka_unit_test(missing_front_matter_is_rejected_with_the_line),
        cmocka_unit_test(front_matter_is_compared_by_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
