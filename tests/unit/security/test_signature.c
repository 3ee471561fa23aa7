/* SPDX-License-Identifier: MIT
 *
 * Signatures: the examples of the RFCs, every algorithm with its own key, and invalid keys. */
#include "security/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/encode.h"
#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/jose.h"

#define N_RFC7515                                                                                  \
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4" \
    "d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5re" \
    "xMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxX" \
    "FvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
#define CLAIMS_RFC7515                                                                             \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVl" \
    "fQ"
#define SIGNATURE_RS256_RFC7515                                                                    \
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5" \
    "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb" \
    "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO" \
    "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"

struct decoded {
    struct buf buf;
};

static struct tidings_str decode(struct decoded *d, const char *text)
{
    buf_init(&d->buf, 4096);
    assert_int_equal(base64url_decode(&d->buf, tidings_str(text)), 0);
    return buf_str(&d->buf);
}

static void check(const struct public_key *key, enum signature_algorithm algorithm,
                  const char *bytes, const char *signature)
{
    struct decoded d;
    struct tidings_str sig = decode(&d, signature);
    assert_true(signature_is_good(key, algorithm, tidings_str(bytes), sig));
    assert_false(signature_is_good(key, algorithm, str_skip(tidings_str(bytes), 1), sig));
    d.buf.ptr[d.buf.len / 2] ^= 1;
    assert_false(signature_is_good(key, algorithm, tidings_str(bytes), sig));
    buf_deinit(&d.buf);
}

static void rfc_examples_verify(void **state)
{
    (void)state;
    struct public_key *key = NULL;
    struct tidings_error err = {0, ""};
    struct decoded a, b;
    assert_int_equal(public_key_rsa(&key, decode(&a, N_RFC7515), decode(&b, "AQAB"), &err), 0);
    check(key, SIGNATURE_RS256, "eyJhbGciOiJSUzI1NiJ9." CLAIMS_RFC7515, SIGNATURE_RS256_RFC7515);
    public_key_destroy(key);
    buf_deinit(&a.buf);
    buf_deinit(&b.buf);
    assert_int_equal(public_key_ec(&key, STR("P-256"),
                                   decode(&a, "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
                                   decode(&b, "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"), &err),
                     0);
    check(key, SIGNATURE_ES256, "eyJhbGciOiJFUzI1NiJ9." CLAIMS_RFC7515,
          "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q");
    public_key_destroy(key);
    buf_deinit(&a.buf);
    buf_deinit(&b.buf);
    assert_int_equal(
        public_key_ec(&key, STR("P-521"),
                      decode(&a, "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLF"
                                 "V1jSfS9tsz4qUxcWceqwQGk"),
                      decode(&b, "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kk"
                                 "d0AZMaZmh9ubmf63e3kyMj2"),
                      &err),
        0);
    check(key, SIGNATURE_ES512, "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA",
          "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7Xdt"
          "AG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_"
          "Jn");
    public_key_destroy(key);
    buf_deinit(&a.buf);
    buf_deinit(&b.buf);
    assert_int_equal(
        public_key_ed25519(&key, decode(&a, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), &err),
        0);
    check(key, SIGNATURE_EDDSA, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
          "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg");
    public_key_destroy(key);
    buf_deinit(&a.buf);
}

static struct public_key *make(const char *algorithm, struct jose_key **ret_private)
{
    struct public_key *key = NULL;
    struct tidings_error err = {0, ""};
    struct buf first, second;
    buf_init(&first, 2048);
    buf_init(&second, 2048);
    *ret_private = jose_key_create(algorithm);
    if (algorithm[0] == 'R' || algorithm[0] == 'P') {
        jose_put_rsa(&first, &second, *ret_private);
        assert_int_equal(public_key_rsa(&key, buf_str(&first), buf_str(&second), &err), 0);
    } else {
        jose_put_point(&first, &second, *ret_private);
        struct tidings_str curve = first.len == 48   ? STR("P-384")
                                   : first.len == 66 ? STR("P-521")
                                                     : STR("P-256");
        int rc = second.len == 0
                     ? public_key_ed25519(&key, buf_str(&first), &err)
                     : public_key_ec(&key, curve, buf_str(&first), buf_str(&second), &err);
        assert_int_equal(rc, 0);
    }
    buf_deinit(&first);
    buf_deinit(&second);
    return key;
}

static const char *const names[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                    "PS512", "ES256", "ES384", "ES512", "EdDSA"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void algorithms_verify_only_their_own_signatures(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        struct jose_key *private = NULL;
        struct public_key *key = make(names[i], &private);
        struct buf sig;
        enum signature_algorithm own;
        assert_true(signature_find_algorithm(tidings_str(names[i]), &own));
        assert_int_equal(own, i);
        buf_init(&sig, 1024);
        jose_sign(&sig, private, STR("some bytes"));
        for (size_t n = 0; n < NAMES; n++) {
            bool good = signature_is_good(key, (enum signature_algorithm)n, STR("some bytes"),
                                          buf_str(&sig));
            assert_int_equal(good, n == i);
        }
        for (size_t cut = 0; cut < sig.len; cut++) {
            assert_false(
                signature_is_good(key, own, STR("some bytes"), tidings_strn(sig.ptr, cut)));
        }
        buf_deinit(&sig);
        public_key_destroy(key);
        jose_key_destroy(private);
    }
}

static void unknown_algorithm_names_are_rejected(void **state)
{
    (void)state;
    static const char *const others[] = {"none",  "None",  "",       "HS256",  "HS512", "rs256",
                                         "es512", "ES521", "ES256K", "RS256 ", "RS1",   "Ed25519"};
    enum signature_algorithm algorithm;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(signature_find_algorithm(tidings_str(others[i]), &algorithm));
    }
}

static void invalid_keys_are_rejected(void **state)
{
    (void)state;
    struct public_key *key = NULL;
    struct tidings_error err = {0, ""};
    char zeros[2048] = {0}, ones[2048];
    memset(ones, 0xff, sizeof(ones));
    struct tidings_str e = STR("\1\0\1"), modulus = tidings_strn(ones, 256);
    assert_int_equal(public_key_rsa(&key, tidings_strn(ones, 255), e, &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "an RSA key has 2048 to 8192 bits");
    assert_int_equal(public_key_rsa(&key, tidings_strn(zeros, 256), e, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, tidings_strn(ones, 1025), e, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, tidings_strn(ones, 2048), e, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, STR(""), e, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, modulus, STR(""), &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, modulus, STR("\1"), &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, modulus, STR("\2"), &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_rsa(&key, modulus, tidings_strn(ones, 9), &err), TIDINGS_E_INVALID);
    struct tidings_str x = tidings_strn(ones, 32), zero = tidings_strn(zeros, 32);
    assert_int_equal(public_key_ec(&key, STR("P-256"), x, x, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_ec(&key, STR("P-256"), zero, zero, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_ec(&key, STR("P-384"), x, x, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_ec(&key, STR("P-521"), x, x, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_ec(&key, STR(""), x, x, &err), TIDINGS_E_INVALID);
    assert_int_equal(public_key_ed25519(&key, tidings_strn(ones, 31), &err), TIDINGS_E_INVALID);
    assert_null(key);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    struct decoded x;
    struct tidings_str point = decode(&x, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    struct public_key *key = NULL;
    fail_alloc_start(1);
    assert_int_equal(public_key_ed25519(&key, point, NULL), TIDINGS_E_NOMEM);
    assert_true(fail_alloc_stop());
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
    buf_deinit(&x.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_examples_verify),
        cmocka_unit_test(algorithms_verify_only_their_own_signatures),
        cmocka_unit_test(unknown_algorithm_names_are_rejected),
        cmocka_unit_test(invalid_keys_are_rejected),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
