/* SPDX-License-Identifier: MIT
 *
 * Signed tokens with every possible defect, for each algorithm: the kinds of cases of Wycheproof's
 * json_web_signature vectors, under its names, with keys created here and JSON claims. Wycheproof's
 * claims are not JSON, so none of its cases reaches the signature check here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/encode.h"
#include "security/jwt.h"
#include "support/jose.h"

#define CLAIMS "{\"sub\":\"a\"}"
#define RSA_BYTES 256u
#define CASES 1566u

static const char *const algorithms[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                         "PS512", "ES256", "ES384", "ES512", "EdDSA"};
static unsigned cases;

/* A key, its other attributes in the set, and a valid token in its three parts. */
struct subject {
    const char *algorithm;
    struct jose_key *key;
    char header[128];
    struct buf set, token, signature; /* the last part as bytes */
    struct tidings_str head, claims, sig;
};

static bool is_taken(struct tidings_str set_text, struct tidings_str token)
{
    struct jwks *set = NULL;
    struct jwt t;
    uint64_t proof = 0;
    bool is_good = false;
    if (jwks_parse(&set, STR("x"), set_text, NULL) < 0) {
        return false;
    }
    if (jwt_parse(&t, token) == NULL) {
        is_good = jwks_verify(set, t.kid, t.algorithm, t.bytes, buf_str(&t.signature), &proof) ==
                  JWKS_GOOD;
        jwt_deinit(&t);
    }
    shared_value_unref(jwks_value(set));
    return is_good;
}

static void check(const struct subject *s, const char *name, struct tidings_str token, bool wanted)
{
    cases++;
    if (is_taken(buf_str(&s->set), token) != wanted) {
        fail_msg("%s %s is %s: %.*s", s->algorithm, name, wanted ? "refused" : "taken",
                 STR_ARG(token));
    }
}

static void set_up(struct subject *s, const char *algorithm)
{
    char about[64];
    struct tidings_str rest;
    *s = (struct subject){.algorithm = algorithm, .key = jose_key_create(algorithm)};
    buf_init(&s->set, 8192);
    buf_init(&s->token, 8192);
    buf_init(&s->signature, 2048);
    (void)snprintf(about, sizeof(about), "\"kid\":\"k\",\"use\":\"sig\",\"alg\":\"%s\"", algorithm);
    (void)snprintf(s->header, sizeof(s->header), "{\"alg\":\"%s\",\"kid\":\"k\"}", algorithm);
    jose_put_set(&s->set, s->key, about);
    jose_put_token(&s->token, s->key, s->header, CLAIMS);
    s->head = str_cut(buf_str(&s->token), '.', &rest, NULL);
    s->claims = str_cut(rest, '.', &s->sig, NULL);
    assert_int_equal(base64url_decode(&s->signature, s->sig), 0);
}

static void tear_down(struct subject *s)
{
    jose_key_destroy(s->key);
    buf_deinit(&s->set);
    buf_deinit(&s->token);
    buf_deinit(&s->signature);
}

/* ---- the text -------------------------------------------------------------------------------- */

static void judge_text(const struct subject *s)
{
    static const struct {
        const char *name;
        const char *form; /* H, C, S: the parts; h, c, s: with another first character */
        bool is_good;
    } rows[] = {
        {"acceptsValid", "H.C.S", true},
        {"rejectsModifiedSignature", "H.C.s", false},
        {"rejectsMissingSignature", "H.C.", false},
        {"rejectsMissingSignatureAndSeparator", "H.C", false},
        {"rejectsModifiedPayload", "H.c.S", false},
        {"rejectsMissingPayload", "H..S", false},
        {"rejectsMissingPayloadAndSeparator", "H.S", false},
        {"rejectsModifiedHeader", "h.C.S", false},
        {"rejectsMissingHeader", ".C.S", false},
        {"rejectsMissingHeaderAndSeparator", "C.S", false},
        {"rejectsMissingHeaderAndSignature", ".C.", false},
        {"rejectsMissingHeaderSignatureAndSeparators", "C", false},
        {"rejectsEmptyString", "", false},
        {"rejectsExtraEmptyComponent", "H.C.S.", false},
        {"rejectsExtraComponent", "H.C.S.foo", false},
        {"rejectsValidJsonSerialization",
         "{\"payload\":\"C\",\"protected\":\"H\",\"signature\":\"S\"}", false},
        {"rejectsSpacesInSignature", "H.C.  S", false},
        {"rejectsSpacesBehindSignature", "H.C.S ", false},
        {"rejectsInvalidCharacterInsertedInSignature", "H.C.?S", false},
        {"rejectsInvalidCharacterBehindSignature", "H.C.S?", false},
        {"spacesInHeader", "H  .C.S", false},
        {"invalidCharactersInHeader", "H####.C.S", false},
        {"invalidBase64PaddingInHeader", "H=.C.S", false},
        {"spacesInPayload", "H.  C.S", false},
        {"invalidCharactersInPayload", "H.####C.S", false},
        {"invalidBase64PaddingInPayload", "H.C=.S", false},
        {"invalidBase64Padding", "H.C.S==", false},
        {"InvalidCharacterInsertedInHeader", "H?.C.S", false},
        {"InvalidCharacterInsertedInPayload", "H.C?.S", false},
        {"rejectsLineFeedBehind", "H.C.S\n", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf text;
        buf_init(&text, 8192);
        for (const char *at = rows[i].form; *at; at++) {
            static const char letters[] = "HCShcs";
            const char *letter = strchr(letters, *at);
            const struct tidings_str parts[] = {s->head, s->claims, s->sig};
            bool is_json =
                rows[i].form[0] == '{' && (at == rows[i].form || at[-1] != '"' || at[1] != '"');
            if (!letter || (at > rows[i].form && is_json) || (*at == 's' && is_json)) {
                buf_putc(&text, *at);
                continue;
            }
            struct tidings_str part = parts[(letter - letters) % 3];
            bool is_other = letter - letters >= 3;
            if (is_other) {
                buf_putc(&text, part.ptr[0] == 'X' ? 'Y' : 'X');
            }
            buf_puts(&text, str_skip(part, is_other));
        }
        check(s, rows[i].name, buf_str(&text), rows[i].is_good);
        buf_deinit(&text);
    }
}

/* The last character of a part may have unused bits, which are 0. */
static void judge_unused_bits(const struct subject *s)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (s->sig.len % 4 != 0) {
        char *last = s->token.ptr + s->token.len - 1, was = *last;
        *last = alphabet[strchr(alphabet, was) - alphabet + 1];
        check(s, "ModifiedUnusedBitsInSignature", buf_str(&s->token), false);
        *last = was;
    }
}

/* ---- the header, the key --------------------------------------------------------------------- */

static void judge_header(const struct subject *s, const char *name, const struct jose_key *by,
                         const char *header, bool wanted)
{
    struct buf token;
    buf_init(&token, 8192);
    jose_put_token(&token, by, header, CLAIMS);
    check(s, name, buf_str(&token), wanted);
    buf_deinit(&token);
}

static void judge_headers(const struct subject *s)
{
    char header[2048];
    struct buf jwk;
    struct jose_key *other = jose_key_create(s->algorithm);
    buf_init(&jwk, 2048);
    jose_put_jwk(&jwk, other, "\"kid\":\"k\"");
    (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"k\",\"jwk\":%s}",
                   s->algorithm, jwk.ptr);
    judge_header(s, "rejectsAttackerProvidedEmbeddedJwk", other, header, false);
    judge_header(s, "rejectsOtherKey", other, s->header, false);
    judge_header(s, "rejectsAlgIsNone", s->key, "{\"alg\":\"none\",\"kid\":\"k\"}", false);
    judge_header(s, "rejectsAlgMissing", s->key, "{\"kid\":\"k\"}", false);
    judge_header(s, "rejectsAlgTwice", s->key, "{\"alg\":\"none\",\"alg\":\"ES256\"}", false);
    judge_header(s, "rejectsUnknownKid", s->key, "{\"alg\":\"ES256\",\"kid\":\"other\"}", false);
    (void)snprintf(header, sizeof(header),
                   "{\"alg\":\"%s\",\"kid\":\"k\",\"crit\":[\"b64\"],"
                   "\"b64\":true}",
                   s->algorithm);
    judge_header(s, "rejectsCrit", s->key, header, false);
    (void)snprintf(header, sizeof(header), "{ \"kid\" : \"k\",\n\t\"alg\" : \"%s\" }",
                   s->algorithm);
    judge_header(s, "ValidWhiteSpaceInJsonHeader", s->key, header, true);
    static const char *const claimed[] = {"HS256", "HS384", "HS512", "RS256", "RS384",
                                          "RS512", "PS256", "PS384", "PS512", "ES256",
                                          "ES384", "ES512", "EdDSA", "ES256K"};
    for (size_t i = 0; i < sizeof(claimed) / sizeof(claimed[0]); i++) {
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"k\"}", claimed[i]);
        judge_header(s, "WrongPrimitive", s->key, header, strcmp(claimed[i], s->algorithm) == 0);
    }
    buf_deinit(&jwk);
    jose_key_destroy(other);
}

/* The purpose that the key declares. */
static void judge_purpose(struct subject *s)
{
    static const struct {
        const char *name, *about;
        bool is_good;
    } rows[] = {
        {"acceptsNothingSaid", "\"kid\":\"k\"", true},
        {"acceptsVerify", "\"kid\":\"k\",\"key_ops\":[\"verify\"]", true},
        {"rejectWrongUse", "\"kid\":\"k\",\"use\":\"enc\"", false},
        {"rejectWrongKeyOps", "\"kid\":\"k\",\"key_ops\":[\"encrypt\"]", false},
        {"rejectNoKeyOps", "\"kid\":\"k\",\"key_ops\":[]", false},
        {"rejectWrongAlg", "\"kid\":\"k\",\"alg\":\"HS256\"", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&s->set);
        jose_put_set(&s->set, s->key, rows[i].about);
        check(s, rows[i].name, buf_str(&s->token), rows[i].is_good);
    }
}

/* ---- the signature --------------------------------------------------------------------------- */

static void judge_bytes(const struct subject *s, const char *name, struct tidings_str bytes)
{
    struct buf token;
    buf_init(&token, 8192);
    buf_puts(&token, tidings_strn(s->token.ptr, s->token.len - s->sig.len));
    base64url_put(&token, bytes);
    check(s, name, buf_str(&token), false);
    buf_deinit(&token);
}

/* Lengths, and bytes that are 0 or all ones, of the whole or either half (r and s of ECDSA). */
static void judge_signatures(const struct subject *s)
{
    unsigned char bytes[2 + RSA_BYTES];
    size_t len = s->signature.len, half = len / 2;
    memcpy(bytes + 1, s->signature.ptr, len);
    bytes[0] = bytes[len + 1] = 0;
    judge_bytes(s, "LeadingZero", tidings_strn((char *)bytes, len + 1));
    judge_bytes(s, "TrailingZeros", tidings_strn((char *)bytes + 1, len + 1));
    judge_bytes(s, "SignatureTooLong", tidings_strn((char *)bytes, len + 2));
    judge_bytes(s, "SignatureTooShort", tidings_strn((char *)bytes + 1, len - 1));
    judge_bytes(s, "OnlyR", tidings_strn((char *)bytes + 1, half));
    static const struct {
        const char *name;
        int fill;
        bool first, second;
    } rows[] = {
        {"RIsZero", 0, true, false},      {"SIsZero", 0, false, true},
        {"AllZero", 0, true, true},       {"RIsTooBig", 0xff, true, false},
        {"SIsTooBig", 0xff, false, true}, {"AllTooBig", 0xff, true, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memcpy(bytes, s->signature.ptr, len);
        memset(bytes, rows[i].fill, rows[i].first ? half : 0);
        memset(bytes + half, rows[i].fill, rows[i].second ? len - half : 0);
        judge_bytes(s, rows[i].name, tidings_strn((char *)bytes, len));
    }
    if (strncmp(s->algorithm, "ES", 2) == 0) { /* DER, as in other protocols */
        unsigned char der[8 + 132] = {0x30, (unsigned char)(2 * half + 4), 2, (unsigned char)half};
        memcpy(der + 4, s->signature.ptr, half);
        der[4 + half] = 2;
        der[5 + half] = (unsigned char)half;
        memcpy(der + 6 + half, s->signature.ptr + half, half);
        judge_bytes(s, "DerEncoded", tidings_strn((char *)der, 6 + 2 * half));
    }
    for (size_t i = 0; i < len; i += 1 + len / 16) {
        memcpy(bytes, s->signature.ptr, len);
        bytes[i] ^= 1;
        judge_bytes(s, "ModifiedSignature", tidings_strn((char *)bytes, len));
    }
}

/* The block below an RSA signature, changed in one place and signed like that. */
static void judge_padding(const struct subject *s)
{
    unsigned char block[RSA_BYTES];
    struct buf signed_block;
    buf_init(&signed_block, 1024);
    jose_rsa_public(s->key, buf_str(&s->signature), block);
    assert_true(block[0] == 0 && block[1] == 1 && block[2] == 0xff);
    jose_rsa_private(s->key, block, &signed_block);
    assert_true(str_eq(buf_str(&signed_block), buf_str(&s->signature))); /* and back again */
    const unsigned char *zero = memchr(block + 2, 0, sizeof(block) - 2);
    size_t begin = (size_t)(zero - block);
    for (size_t i = 1; i < RSA_BYTES; i += i < 12 || i >= begin - 2 ? 1 : 17) {
        static const unsigned char flips[] = {0x01, 0x80, 0xff};
        for (size_t n = 0; n < sizeof(flips); n++) {
            block[i] ^= flips[n];
            buf_clear(&signed_block);
            if (jose_rsa_private(s->key, block, &signed_block)) {
                judge_bytes(s, "ModifiedPadding", buf_str(&signed_block));
            }
            block[i] ^= flips[n];
        }
    }
    /* Less padding, and extra bytes after the digest. */
    unsigned char shifted[RSA_BYTES] = {0};
    memcpy(shifted, block, 10);
    memcpy(shifted + 10, block + begin, RSA_BYTES - begin);
    buf_clear(&signed_block);
    assert_true(jose_rsa_private(s->key, shifted, &signed_block));
    judge_bytes(s, "GarbageBehindDigest", buf_str(&signed_block));
    buf_deinit(&signed_block);
}

static void every_case_passes_for_every_algorithm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        struct subject s;
        set_up(&s, algorithms[i]);
        judge_text(&s);
        judge_unused_bits(&s);
        judge_headers(&s);
        judge_signatures(&s);
        if (algorithms[i][0] == 'R') {
            judge_padding(&s);
        }
        judge_purpose(&s); /* it changes the set */
        tear_down(&s);
    }
    assert_int_equal(cases, CASES);
    print_message("JWS, in the form of Wycheproof: %u cases\n", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_passes_for_every_algorithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
