/* SPDX-License-Identifier: MIT
 *
 * Merge patches: the cases of RFC 7396 appendix A, differences that no patch can express, and
 * random values for which applying the difference must give the second value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

static void assert_text(const struct json *v, const char *expected)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    struct jw w;
    jw_init(&w, &out);
    jw_value(&w, v);
    assert_string_equal(out.ptr, expected);
    buf_deinit(&out);
}

/* Assert equality except for member order. Both values become object members, where nothing else is
 * left out. */
static void assert_same(struct json *a, struct json *b)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    struct json *wrapped[2];
    for (unsigned i = 0; i < 2; i++) {
        struct jw w;
        buf_clear(&out);
        jw_init(&w, &out);
        jw_begin_object(&w);
        jw_key(&w, STR("v"));
        jw_value(&w, i == 0 ? a : b);
        jw_end_object(&w);
        wrapped[i] = parse(out.ptr);
    }
    struct json *patch = NULL;
    assert_int_equal(merge_diff(wrapped[0], wrapped[1], &patch), 1);
    assert_text(patch, "{}");
    jv_unref(patch);
    jv_unref(wrapped[0]);
    jv_unref(wrapped[1]);
    buf_deinit(&out);
}

static void rfc_7396_examples_give_their_results(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *target = parse(rows[i][0]), *patch = parse(rows[i][1]);
        struct json *result = merge_apply(target, patch);
        assert_text(result, rows[i][2]);
        assert_text(target, rows[i][0]);
        jv_unref(result);
        jv_unref(patch);
        jv_unref(target);
    }
}

static void difference_is_the_smallest_patch(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":3}", "{\"b\":3}"},
        {"{\"a\":1}", "{}", "{\"a\":null}"},
        {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1}}", "{\"a\":{\"c\":null}}"},
        {"{\"a\":{\"b\":1}}", "{\"a\":7}", "{\"a\":7}"},
        {"{\"a\":[1]}", "{\"a\":[]}", "{\"a\":[]}"},
        {"{\"a\":[1]}", "{\"a\":\"\"}", "{\"a\":\"\"}"},
        {"{\"a\":7}", "{\"a\":{}}", "{\"a\":{}}"},
        {"{\"a\":null}", "{\"a\":null,\"b\":1}", "{\"b\":1}"},
        {"{\"a\":1}", "{\"a\":[{\"b\":null}]}", "{\"a\":[{\"b\":null}]}"},
        {"{\"__proto__\":1}", "{\"__proto__\":2}", "{\"__proto__\":2}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *from = parse(rows[i][0]), *to = parse(rows[i][1]), *patch = NULL;
        assert_int_equal(merge_diff(from, to, &patch), 1);
        assert_text(patch, rows[i][2]);
        jv_unref(patch);
        jv_unref(to);
        jv_unref(from);
    }
}

static void inexpressible_null_is_reported(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{}", "{\"a\":null}"},
        {"{\"a\":1}", "{\"a\":null}"},
        {"{\"a\":1}", "{\"a\":{\"b\":{\"c\":null}}}"},
        {"7", "{\"a\":null}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *from = parse(rows[i][0]), *to = parse(rows[i][1]), *patch = NULL;
        assert_int_equal(merge_diff(from, to, &patch), 0);
        assert_null(patch);
        jv_unref(to);
        jv_unref(from);
    }
}

/* ---- random values --------------------------------------------------------------------------- */

static uint64_t seed;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static void write_random(struct jw *w, unsigned depth)
{
    static const struct tidings_str keys[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
    unsigned what = draw(depth > 3 ? 4 : 8);
    if (what == 0) {
        jw_integer(w, draw(3));
    } else if (what == 1) {
        jw_string(w, keys[draw(4)]);
    } else if (what == 2) {
        jw_bool(w, draw(2));
    } else if (what == 3) {
        draw(8) == 0 ? jw_null(w) : jw_number(w, 0.5);
    } else if (what == 4) {
        jw_begin_array(w);
        for (unsigned n = draw(3); n > 0; n--) {
            write_random(w, depth + 1);
        }
        jw_end_array(w);
    } else {
        jw_begin_object(w);
        for (unsigned i = 0; i < 4; i++) {
            if (draw(2)) {
                jw_key(w, keys[i]);
                write_random(w, depth + 1);
            }
        }
        jw_end_object(w);
    }
}

static struct json *random_value(void)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    struct jw w;
    jw_init(&w, &out);
    write_random(&w, 0);
    struct json *v = parse(out.ptr);
    buf_deinit(&out);
    return v;
}

static void difference_applied_to_the_first_value_gives_the_second(void **state)
{
    (void)state;
    unsigned unsayable = 0;
    for (seed = 1; seed < 20001; seed++) {
        uint64_t round = seed;
        struct json *a = random_value(), *b = random_value(), *patch = NULL;
        int rc = merge_diff(a, b, &patch);
        if (rc == 1) {
            struct json *result = merge_apply(a, patch);
            assert_same(result, b);
            assert_same(b, result);
            jv_unref(result);
            jv_unref(patch);
        } else {
            assert_int_equal(rc, 0);
            unsayable++;
        }
        jv_unref(b);
        jv_unref(a);
        seed = round;
    }
    assert_in_range(unsayable, 1, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_7396_examples_give_their_results),
        cmocka_unit_test(difference_is_the_smallest_patch),
        cmocka_unit_test(inexpressible_null_is_reported),
        cmocka_unit_test(difference_applied_to_the_first_value_gives_the_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
