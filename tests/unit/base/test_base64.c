/* SPDX-License-Identifier: MIT
 *
 * Base64: the vectors of RFC 4648 §10, both alphabets, strictness.
 */
#include "base/encode.h"
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct {
    const char *plain, *standard, *url;
} vectors[] = {
    {"", "", ""},
    {"f", "Zg==", "Zg"},
    {"fo", "Zm8=", "Zm8"},
    {"foo", "Zm9v", "Zm9v"},
    {"foob", "Zm9vYg==", "Zm9vYg"},
    {"fooba", "Zm9vYmE=", "Zm9vYmE"},
    {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
    {"\xFB\xEF\xBE", "++++", "----"},
    {"\xFF\xFF\xFF\xFF", "/////w==", "_____w"},
};

static void rfc_vectors_encode_and_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(vectors); i++) {
        struct buf b;
        buf_init(&b, 100);
        assert_int_equal(buf_putc(&b, '>'), 0); /* appends */
        assert_int_equal(base64_put(&b, tidings_str(vectors[i].plain)), 0);
        assert_string_equal(b.ptr + 1, vectors[i].standard);
        buf_clear(&b);
        assert_int_equal(base64url_put(&b, tidings_str(vectors[i].plain)), 0);
        assert_string_equal(b.ptr, vectors[i].url);
        buf_clear(&b);
        assert_int_equal(base64_decode(&b, tidings_str(vectors[i].standard)), 0);
        assert_string_equal(b.ptr, vectors[i].plain);
        buf_clear(&b);
        assert_int_equal(base64url_decode(&b, tidings_str(vectors[i].url)), 0);
        assert_string_equal(b.ptr, vectors[i].plain);
        buf_deinit(&b);
    }
}

static void inputs_of_every_length_and_byte_round_trip(void **state)
{
    (void)state;
    char bytes[300];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (char)(i < 256 ? i : x >> 24);
    }
    struct buf text, back;
    buf_init(&text, 1000);
    buf_init(&back, 1000);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        for (int url = 0; url < 2; url++) {
            struct tidings_str in = tidings_strn(bytes + sizeof bytes - len, len);
            buf_clear(&text);
            buf_clear(&back);
            assert_int_equal(url ? base64url_put(&text, in) : base64_put(&text, in), 0);
            struct tidings_str t = buf_str(&text);
            assert_int_equal(url ? base64url_decode(&back, t) : base64_decode(&back, t), 0);
            assert_true(str_eq(buf_str(&back), in));
        }
    }
    buf_deinit(&text);
    buf_deinit(&back);
}

static void other_spellings_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool url;
    } rows[] = {
        {"Z", false},      {"Zg", false},       {"Zg=", false},     {"Zg===", false},
        {"Z===", false},   {"=", false},        {"====", false},    {"Zh==", false},
        {"Zm9=", false},   {"Zg==Zg==", false}, {"Zm9v ", false},   {"Zm 9", false},
        {"Zm9v\n", false}, {"----", false},     {"Zm\x80v", false}, {"Z=g=", false},
        {"Zm9vZ", false},  {"Zg==", true},      {"Zh", true},       {"Zm9", true},
        {"Z", true},       {"++++", true},      {"Zm9v=", true},    {"Zm9vYg==", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf b;
        buf_init(&b, 100);
        assert_int_equal(buf_puts(&b, STR("kept")), 0);
        struct tidings_str in = tidings_str(rows[i].text);
        int rc = rows[i].url ? base64url_decode(&b, in) : base64_decode(&b, in);
        assert_int_equal(rc, TIDINGS_E_PARSE);
        assert_string_equal(b.ptr, "kept");
        assert_int_equal(b.failed, 0);
        buf_deinit(&b);
    }
}

static void output_maximum_is_enforced(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 8);
    assert_int_equal(base64_put(&b, STR("foobar")), 0);
    assert_int_equal(base64_put(&b, STR("f")), TIDINGS_E_LIMIT);
    assert_string_equal(b.ptr, "Zm9vYmFy");
    buf_clear(&b);
    assert_int_equal(base64_put(&b, tidings_strn("", SIZE_MAX)), TIDINGS_E_LIMIT);
    buf_clear(&b);
    assert_int_equal(base64_decode(&b, STR("Zm9vYmFyZm9v")), TIDINGS_E_LIMIT);
    buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_vectors_encode_and_decode),
        cmocka_unit_test(inputs_of_every_length_and_byte_round_trip),
        cmocka_unit_test(other_spellings_are_rejected),
        cmocka_unit_test(output_maximum_is_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
