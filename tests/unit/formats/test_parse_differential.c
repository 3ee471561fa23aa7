/* SPDX-License-Identifier: MIT
 *
 * Our JSON parser compared with jansson's: every short input over the significant characters, and
 * seeded mutations of real documents. Both parsers must accept or both must reject. If they accept,
 * the values are the same, with their members in the same order.
 *
 * Documented exceptions, where only our parser rejects the input:
 *   - a raw NUL between tokens, which jansson treats as a blank;
 *   - nesting deeper than 512 levels; jansson allows 2048 levels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "formats/json.h"
#include "support/jansson_value.h"

/* cmocka redefines this when UNIT_TESTING is set; jansson's strings come from libc. */
#undef free

#define DEPTH_MAX 512u
#define ROUNDS 60000
#define SEED UINT64_C(20250211)
#define TEXT_MAX 1024u

static void check_same(const char *text, size_t len, struct json *value, json_t *theirs)
{
    json_t *ours = jansson_value(value);
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
    char *a = json_dumps(ours, flags);
    char *b = json_dumps(theirs, flags);
    if (!json_equal(ours, theirs) || !a || !b || strcmp(a, b) != 0) {
        fail_msg("'%.*s' is read as %s, not as %s", (int)len, text, a ? a : "?", b ? b : "?");
    }
    free(a);
    free(b);
    json_decref(ours);
}

/* Returns true if it was accepted. */
static bool compare(const char *text, size_t len)
{
    struct json *ours = NULL;
    json_error_t e;
    struct tidings_error err = {0};
    int rc = jv_parse(tidings_strn(text, len), DEPTH_MAX, &ours, &err);
    assert_true(rc == 0 || rc == TIDINGS_E_PARSE || rc == TIDINGS_E_LIMIT);
    assert_int_equal(rc, err.code);
    assert_true((rc == 0) == (ours != NULL));
    if (rc == TIDINGS_E_LIMIT || (len > 0 && memchr(text, '\0', len))) {
        assert_non_null(strstr(err.text, "column"));
        return false;
    }
    json_t *theirs =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    if ((ours != NULL) != (theirs != NULL)) {
        fail_msg("'%.*s': we say '%s', it says '%s'", (int)len, text, ours ? "fine" : err.text,
                 theirs ? "fine" : e.text);
    }
    if (ours) {
        check_same(text, len, ours, theirs);
    }
    jv_unref(ours);
    json_decref(theirs);
    return rc == 0;
}

/* All strings of up to `max` characters of the alphabet, within a frame. */
static size_t compare_all(const char *alphabet, size_t max, const char *before, const char *after)
{
    size_t n = strlen(alphabet), lead = strlen(before), accepted = 0;
    size_t digits[8] = {0};
    assert_true(max <= 8);
    for (size_t len = 0; len <= max; len++) {
        size_t all = 1;
        for (size_t i = 0; i < len; i++) {
            all *= n;
            digits[i] = 0;
        }
        for (size_t t = 0; t < all; t++) {
            char text[64];
            memcpy(text, before, lead);
            for (size_t i = 0; i < len; i++) {
                text[lead + i] = alphabet[digits[i]];
            }
            memcpy(text + lead + len, after, strlen(after));
            accepted += compare(text, lead + len + strlen(after));
            for (size_t i = 0; i < len && ++digits[i] == n; i++) {
                digits[i] = 0;
            }
        }
    }
    return accepted;
}

static void short_inputs_get_same_verdict(void **state)
{
    (void)state;
    static const struct {
        const char *alphabet, *before, *after;
        size_t max;
    } rows[] = {
        {"[]{}:,\"1a ", "", "", 5},
        {"[]{}:,\"1 ", "[{\"a\":", "", 4},
        {"-+.0129eEx", "", "", 4},
        {"-+.0129eEx", "[", "]", 4},
        {"truefalsn\n", "", "", 4},
        {"\\\"/bfnrtuxa\t\x7f", "\"", "\"", 4},
        {"08dDcCfFg\\u\"", "\"\\u", "\"", 4},
        {"08cDfu\\\"", "\"\\ud83d\\u", "\"", 4},
        {"\x7f\x80\xa0\xbf\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff", "\"", "\"", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = compare_all(rows[i].alphabet, rows[i].max, rows[i].before, rows[i].after);
        assert_true(n > 0);
    }
}

static const char *const seeds[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"_meta\":{\"io."
    "modelcontextprotocol/clientInfo\":{\"name\":\"x\",\"version\":\"0\"}},\"uri\":\"file:///a\"}}",
    "[1,-2,3.5,1e10,-0,0.0,-0.0,1E-7,9223372036854775807,-9223372036854775808,true,false,null]",
    "{\"a\":{\"b\":{\"c\":[[],[{}],{\"d\":[]}]}},\"e\":\"f\",\"\":\"\"}",
    "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9d\x84\x9e "
    "\\u00e9\\u20ac\\ud834\\udd1e\\n\\\\\\\"\\/\\u0000\"",
    " { \"k1\" : [ 1 , 2 ] ,\r\n\t\"k2\" : \"a long string without any escape in it at all\" } ",
    "[0.1,123456789012345678901234567890e-10,4.9e-324,2.2250738585072014e-308,1e-400,1.7e308]",
    "[\"1234567\",\"12345678\",\"123456789\",\"12345678901234567\\n12345678901234567\"]",
};

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Change, remove, duplicate or swap some bytes. */
static size_t mutate(char *text, size_t len, uint64_t *state)
{
    static const char matter[] = "[]{}:,\"\\u0dD8eE+-. \n\x01\x80\xc3\xe2\xed\xf0tfn";
    for (uint64_t n = draw(state) % 4; n > 0 && len > 1; n--) {
        size_t at = (size_t)(draw(state) % len);
        size_t other = (size_t)(draw(state) % len);
        size_t count = len - (at > other ? at : other);
        count = count > 12 ? 12 : count;
        switch (draw(state) % 5) {
        case 0:
            text[at] = (char)draw(state);
            break;
        case 1:
            memmove(text + at, text + at + 1, --len - at);
            break;
        case 2:
            memmove(text + at, text + other, count);
            break;
        case 3:
            if (len + count <= TEXT_MAX) {
                memmove(text + at + count, text + at, len - at);
                len += count;
            }
            break;
        default:
            text[at] = matter[draw(state) % (sizeof matter - 1)];
            break;
        }
    }
    return len;
}

static void mutated_inputs_get_same_verdict(void **state)
{
    (void)state;
    uint64_t random = SEED;
    size_t accepted = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        const char *seed = seeds[round % (sizeof seeds / sizeof *seeds)];
        char *text = test_malloc(TEXT_MAX);
        size_t len = strlen(seed);
        memcpy(text, seed, len);
        len = mutate(text, len, &random);
        char *exact = test_malloc(len); /* detects a read beyond the end */
        memcpy(exact, text, len);
        accepted += compare(exact, len);
        test_free(exact);
        test_free(text);
    }
    /* A comparison that contains only refusals would prove little. */
    assert_true(accepted > ROUNDS / 8 && accepted < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_inputs_get_same_verdict),
        cmocka_unit_test(mutated_inputs_get_same_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
