/* SPDX-License-Identifier: MIT
 *
 * Seals: what is sealed comes back whole, for its own purpose, under its own key, and not with a
 * single character changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/seal.h"

static struct seal_key key;

static int setup(void **state)
{
    (void)state;
    return seal_key_init(&key);
}

static void what_is_sealed_comes_back_and_cannot_be_read(void **state)
{
    (void)state;
    char text[200];
    for (size_t len = 0; len <= sizeof(text); len += 13) {
        memset(text, 'x', sizeof(text));
        struct buf sealed, again, opened;
        buf_init(&sealed, 4096);
        buf_init(&again, 4096);
        buf_init(&opened, 4096);
        struct tidings_str plain = {text, len};
        assert_int_equal(seal_put(&sealed, &key, STR("p"), plain), 0);
        assert_int_equal(seal_put(&again, &key, STR("p"), plain), 0);
        assert_false(str_eq(buf_str(&sealed), buf_str(&again)));
        assert_int_equal(seal_open(&opened, &key, STR("p"), buf_str(&sealed)), 0);
        assert_true(str_eq(buf_str(&opened), plain));
        buf_deinit(&sealed);
        buf_deinit(&again);
        buf_deinit(&opened);
    }
}

static void a_seal_for_another_purpose_or_key_does_not_open(void **state)
{
    (void)state;
    struct seal_key other;
    assert_int_equal(seal_key_init(&other), 0);
    struct buf sealed, opened;
    buf_init(&sealed, 4096);
    buf_init(&opened, 4096);
    assert_int_equal(seal_put(&sealed, &key, STR("p"), STR("text")), 0);
    assert_int_equal(seal_open(&opened, &key, STR("q"), buf_str(&sealed)), TIDINGS_E_INVALID);
    assert_int_equal(seal_open(&opened, &other, STR("p"), buf_str(&sealed)), TIDINGS_E_INVALID);
    assert_int_equal(opened.len, 0);
    buf_deinit(&sealed);
    buf_deinit(&opened);
}

static void no_character_may_change(void **state)
{
    (void)state;
    struct buf sealed, opened;
    buf_init(&sealed, 4096);
    buf_init(&opened, 4096);
    assert_int_equal(seal_put(&sealed, &key, STR("p"), STR("some text")), 0);
    for (size_t i = 0; i < sealed.len; i++) {
        char was = sealed.ptr[i];
        sealed.ptr[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(seal_open(&opened, &key, STR("p"), buf_str(&sealed)), TIDINGS_E_INVALID);
        sealed.ptr[i] = was;
    }
    for (size_t len = 0; len < sealed.len; len++) {
        struct tidings_str cut = {sealed.ptr, len};
        assert_int_equal(seal_open(&opened, &key, STR("p"), cut), TIDINGS_E_INVALID);
    }
    assert_int_equal(seal_open(&opened, &key, STR("p"), buf_str(&sealed)), 0);
    buf_deinit(&sealed);
    buf_deinit(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_comes_back_and_cannot_be_read),
        cmocka_unit_test(a_seal_for_another_purpose_or_key_does_not_open),
        cmocka_unit_test(no_character_may_change),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
