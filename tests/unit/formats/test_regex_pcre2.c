/* SPDX-License-Identifier: MIT
 *
 * Our regexes compared with PCRE2: random regexes of the common syntax, on random texts, with and
 * without a table; and every character in every general category. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/str.h"
#include "formats/regex.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OPTIONS PCRE2_DOLLAR_ENDONLY
#define ECMA (OPTIONS | PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS)

static uint64_t random_state = 88172645463325252u;

static size_t pick(size_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 20) % n;
}

#define PICK(array) (array)[pick(COUNT(array))]

static void put_sequence(struct buf *out, int depth);

static void put_piece(struct buf *out, int depth)
{
    static const char *const atoms[] = {
        "a",     "b",        "c",     "ab",       "[ab]",     "[^a]",   ".",      "\\d",
        "\\w",   "\\W",      "(?:)",  "1",        "[a-c]",    "\\n",    "[^\\d]", "(?i:a)",
        "\\x61", "\xc3\xa9", "x",     "\\Qa.\\E", "(?s:.)",   "\\s",    "-",      "[\\w-]",
        "\\pL",  "{",        "a{,2}", "\\S",      "[\\s\\S]", "(?m:^)", "(?m:$)",
    };
    static const char *const places[] = {"^", "$", "\\b", "\\B", "(?i)", "\\A", "\\z"};
    static const char *const counts[] = {"",    "",      "",       "*",  "+",   "?",
                                         "{2}", "{1,3}", "{0,2}?", "*?", "{2,}"};
    static const char *const opening[] = {"(", "(?:", "(", "(?:", "(?=", "(?!"};
    size_t what = pick(10);
    if (what == 0) {
        buf_puts(out, tidings_str(PICK(places)));
        return;
    }
    if (what < 7 || depth == 0) {
        buf_puts(out, tidings_str(PICK(atoms)));
    } else {
        buf_puts(out, tidings_str(PICK(opening)));
        put_sequence(out, depth - 1);
        if (pick(3) == 0) {
            buf_putc(out, '|');
            put_sequence(out, depth - 1);
        }
        buf_putc(out, ')');
    }
    buf_puts(out, tidings_str(PICK(counts)));
}

static void put_sequence(struct buf *out, int depth)
{
    for (size_t n = 1 + pick(4); n > 0; n--) {
        put_piece(out, depth);
    }
}

static void put_text(struct buf *out)
{
    static const char *const pieces[] = {"a", "b",  "c", "1", "A",        "-",
                                         "_", "\n", "x", ".", "\xc3\xa9", " "};
    for (size_t n = pick(12); n > 0; n--) {
        buf_puts(out, tidings_str(PICK(pieces)));
    }
}

static void compare(const pcre2_code *code, const struct regex *r, struct tidings_str source)
{
    struct regex_table *table = regex_table_create(r);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    struct buf text;
    buf_init(&text, 100);
    for (int i = 0; i < 8; i++) {
        buf_clear(&text);
        put_text(&text);
        struct tidings_str t = text.len > 0 ? buf_str(&text) : STR_EMPTY;
        int rc = pcre2_match(code, (PCRE2_SPTR)t.ptr, t.len, 0, 0, data, NULL);
        if (rc < PCRE2_ERROR_NOMATCH) {
            continue; /* it hit its limit and gives no result */
        }
        enum regex_result expected = rc >= 0 ? REGEX_FOUND : REGEX_ABSENT;
        uint64_t steps = UINT64_MAX;
        if (regex_search(r, NULL, t, &steps) != expected ||
            regex_search(r, table, t, &steps) != expected) {
            fail_msg("'%.*s' on '%.*s': expected %d", STR_ARG(source), STR_ARG(t), expected);
        }
    }
    buf_deinit(&text);
    pcre2_match_data_free(data);
    regex_table_destroy(table);
}

static void random_regexes_match_where_pcre2_matches(void **state)
{
    (void)state;
    struct buf source;
    buf_init(&source, 16384);
    for (int i = 0; i < 6000; i++) {
        bool is_ecma = i % 2;
        struct regex *r = NULL;
        struct tidings_error err = {0};
        int number;
        size_t at;
        buf_clear(&source);
        put_sequence(&source, 3);
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)source.ptr, source.len,
                                         is_ecma ? ECMA : OPTIONS, &number, &at, NULL);
        int rc = regex_create(buf_str(&source), is_ecma ? REGEX_CHARACTERS : REGEX_BYTES, 16384, &r,
                              &err);
        if (!code || rc < 0) {
            fail_msg("'%s': %s, PCRE2 says %d", source.ptr, err.text, code ? 0 : number);
        }
        compare(code, r, buf_str(&source));
        pcre2_code_free(code);
        regex_destroy(r);
    }
    buf_deinit(&source);
}

static size_t put_utf8(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1; c >>= 6) {
        out[i] = (char)(0x80 | (c & 0x3f));
    }
    out[0] = (char)((0xf00u >> len & 0xf0u) | c);
    return len;
}

static void categories_match_pcre2_for_every_character(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc",
        "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp",
        "Cc", "Cf", "Co", "L&", "L",  "M",  "N",  "P",  "S",  "Z",  "C",
    };
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    for (size_t i = 0; i < COUNT(names); i++) {
        struct buf source;
        struct regex *r = NULL;
        int number;
        size_t at;
        buf_init(&source, 40);
        buf_putf(&source, "^\\p{%s}", names[i]);
        assert_int_equal(regex_create(buf_str(&source), REGEX_CHARACTERS, 40, &r, NULL), 0);
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)source.ptr, source.len, ECMA, &number, &at, NULL);
        assert_non_null(code);
        (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
        struct regex_table *table = regex_table_create(r);
        /* Each character up to the last plane with assigned ones, and one of every 17 beyond. */
        for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x32000 ? 1 : 17) {
            char text[4];
            size_t len = put_utf8(text, c);
            if (c >= 0xd800 && c <= 0xdfff) {
                continue;
            }
            uint64_t steps = 10000;
            bool theirs =
                pcre2_match(code, (PCRE2_SPTR)text, len, 0, PCRE2_NO_UTF_CHECK, data, NULL) >= 0;
            bool ours = regex_search(r, table, tidings_strn(text, len), &steps) == REGEX_FOUND;
            if (ours != theirs) {
                fail_msg("U+%04X and \\p{%s}: PCRE2 says %d", c, names[i], theirs);
            }
        }
        regex_table_destroy(table);
        pcre2_code_free(code);
        regex_destroy(r);
        buf_deinit(&source);
    }
    pcre2_match_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_regexes_match_where_pcre2_matches),
        cmocka_unit_test(categories_match_pcre2_for_every_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
