/* SPDX-License-Identifier: MIT
 *
 * Seals: a sealed string opens intact only for its purpose, with its key and without a changed bit.
 * No nonce repeats, and other implementations produce the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/encode.h"
#include "security/seal.h"
#include "support/fail_alloc.h"

static struct seal_key key;
static struct sealer sealer;
static struct buf sealed, raw, opened;

static int setup(void **state)
{
    (void)state;
    buf_init(&sealed, 1 << 20);
    buf_init(&raw, 1 << 20);
    buf_init(&opened, 1 << 20);
    sealer_init(&sealer, &key);
    return seal_key_init(&key);
}

static int teardown(void **state)
{
    (void)state;
    sealer_deinit(&sealer);
    buf_deinit(&sealed);
    buf_deinit(&raw);
    buf_deinit(&opened);
    return 0;
}

static struct tidings_str seal(struct sealer *s, struct tidings_str text)
{
    buf_clear(&sealed);
    assert_int_equal(seal_put(s, &sealed, STR("p"), text), 0);
    return buf_str(&sealed);
}

static void check_opens(struct sealer *s, struct tidings_str what, struct tidings_str text)
{
    buf_clear(&opened);
    assert_int_equal(seal_open(s, &opened, STR("p"), what), 0);
    assert_true(str_eq(buf_str(&opened), text));
}

static void check_refused(struct sealer *s, struct tidings_str purpose, struct tidings_str what)
{
    buf_clear(&opened);
    assert_int_equal(seal_open(s, &opened, purpose, what), TIDINGS_E_INVALID);
    assert_int_equal(opened.len, 0);
}

static void sealed_text_opens_and_cannot_be_read(void **state)
{
    (void)state;
    static char text[100000];
    static const size_t lengths[] = {0, 1, 15, 16, 17, 68, 219, 220, 221, 4096, sizeof(text)};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(text, 'x', sizeof(text));
        struct tidings_str plain = {text, lengths[i]};
        struct buf first;
        buf_init(&first, 1 << 20);
        buf_puts(&first, seal(&sealer, plain));
        assert_false(str_eq(buf_str(&first), seal(&sealer, plain)));
        check_opens(&sealer, buf_str(&first), plain);
        check_opens(&sealer, buf_str(&sealed), plain);
        buf_deinit(&first);
    }
}

/* Made with Node's crypto: HMAC-SHA-256 of the salt, then AES-256-GCM with the purpose as AAD. */
static void seal_matches_other_implementations(void **state)
{
    (void)state;
    struct seal_key known;
    struct sealer s;
    for (unsigned i = 0; i < sizeof(known.secret); i++) {
        known.secret[i] = (unsigned char)i;
    }
    sealer_init(&s, &known);
    buf_clear(&opened);
    struct tidings_str text =
        STR("oKGio6SlpqfK_rq--s7brd7K-IiBjIYxPc99kvQU_03u4qKEPP38izS1zdnsljG9CA");
    assert_int_equal(seal_open(&s, &opened, STR("cursor"), text), 0);
    assert_true(str_eq(buf_str(&opened), STR("12.345.678/90")));
    check_refused(&s, STR("p"), text);
    sealer_deinit(&s);
}

static void seal_of_another_purpose_or_key_does_not_open(void **state)
{
    (void)state;
    struct seal_key other;
    struct sealer stranger;
    assert_int_equal(seal_key_init(&other), 0);
    sealer_init(&stranger, &other);
    struct tidings_str text = seal(&sealer, STR("text"));
    check_refused(&sealer, STR("q"), text);
    check_refused(&sealer, STR_EMPTY, text);
    check_refused(&stranger, STR("p"), text);
    sealer_deinit(&stranger);
}

static void seals_open_with_another_sealer_of_the_same_key(void **state)
{
    (void)state;
    struct sealer second;
    sealer_init(&second, &key);
    for (unsigned i = 0; i < 4; i++) {
        check_opens(&second, seal(&sealer, STR("of the first")), STR("of the first"));
        check_opens(&second, seal(&second, STR("its own")), STR("its own"));
        check_opens(&sealer, seal(&second, STR("of the second")), STR("of the second"));
    }
    assert_memory_not_equal(sealer.salt, second.salt, SEAL_SALT);
    sealer_deinit(&second);
}

static void seal_is_rejected_if_any_bit_changed(void **state)
{
    (void)state;
    struct buf again;
    buf_init(&again, 4096);
    buf_clear(&raw);
    assert_int_equal(base64url_decode(&raw, seal(&sealer, STR("some text"))), 0);
    assert_int_equal(raw.len, SEAL_SALT + SEAL_NONCE + 9 + SEAL_TAG);
    for (size_t bit = 0; bit < raw.len * 8; bit++) {
        raw.ptr[bit / 8] ^= (char)(1 << bit % 8);
        buf_clear(&again);
        base64url_put(&again, buf_str(&raw));
        check_refused(&sealer, STR("p"), buf_str(&again));
        raw.ptr[bit / 8] ^= (char)(1 << bit % 8);
    }
    check_opens(&sealer, buf_str(&sealed), STR("some text"));
    buf_deinit(&again);
}

static void seal_is_rejected_if_any_character_changed(void **state)
{
    (void)state;
    seal(&sealer, STR("some text"));
    for (size_t i = 0; i < sealed.len; i++) {
        char was = sealed.ptr[i];
        sealed.ptr[i] = was == 'A' ? 'B' : 'A';
        check_refused(&sealer, STR("p"), buf_str(&sealed));
        sealed.ptr[i] = was;
    }
    for (size_t len = 0; len < sealed.len; len++) {
        check_refused(&sealer, STR("p"), tidings_strn(sealed.ptr, len));
    }
    check_opens(&sealer, buf_str(&sealed), STR("some text"));
}

/* ---- nonces ---------------------------------------------------------------------------------- */

enum { MANY = 20000 };

static int compare_nonces(const void *a, const void *b)
{
    return memcmp(a, b, SEAL_NONCE);
}

static void nonces_never_repeat(void **state)
{
    (void)state;
    static unsigned char nonces[MANY][SEAL_NONCE];
    for (size_t i = 0; i < MANY; i++) {
        buf_clear(&raw);
        assert_int_equal(base64url_decode(&raw, seal(&sealer, STR("x"))), 0);
        assert_memory_equal(raw.ptr, sealer.salt, SEAL_SALT);
        memcpy(nonces[i], raw.ptr + SEAL_SALT, SEAL_NONCE);
    }
    qsort(nonces, MANY, SEAL_NONCE, compare_nonces);
    for (size_t i = 1; i < MANY; i++) {
        assert_memory_not_equal(nonces[i - 1], nonces[i], SEAL_NONCE);
    }
}

static void exhausted_salt_is_replaced(void **state)
{
    (void)state;
    unsigned char salt[SEAL_SALT];
    struct buf last;
    buf_init(&last, 4096);
    seal(&sealer, STR("x"));
    memcpy(salt, sealer.salt, sizeof(salt));
    assert_in_range(sealer.left, 1, SEALS_PER_SALT - 1);
    sealer.left = 1;
    buf_puts(&last, seal(&sealer, STR("last")));
    assert_memory_equal(sealer.salt, salt, sizeof(salt));
    seal(&sealer, STR("first"));
    assert_memory_not_equal(sealer.salt, salt, sizeof(salt));
    assert_int_equal(sealer.left, SEALS_PER_SALT - 1);
    check_opens(&sealer, buf_str(&sealed), STR("first"));
    check_opens(&sealer, buf_str(&last), STR("last"));
    buf_deinit(&last);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void sealing_a_short_text_allocates_nothing(void **state)
{
    (void)state;
    static char text[68];
    memset(text, 'x', sizeof(text));
    seal(&sealer, tidings_strn(text, sizeof(text))); /* contexts, and space in `sealed` */
    fail_alloc_start(1);
    seal(&sealer, tidings_strn(text, sizeof(text)));
    assert_false(fail_alloc_stop());
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_text_opens_and_cannot_be_read),
        cmocka_unit_test(seal_matches_other_implementations),
        cmocka_unit_test(seal_of_another_purpose_or_key_does_not_open),
        cmocka_unit_test(seals_open_with_another_sealer_of_the_same_key),
        cmocka_unit_test(seal_is_rejected_if_any_bit_changed),
        cmocka_unit_test(seal_is_rejected_if_any_character_changed),
        cmocka_unit_test(nonces_never_repeat),
        cmocka_unit_test(exhausted_salt_is_replaced),
        cmocka_unit_test(sealing_a_short_text_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
