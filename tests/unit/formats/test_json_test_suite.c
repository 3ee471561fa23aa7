/* SPDX-License-Identifier: MIT
 *
 * JSONTestSuite's cases (tests/data/json_test_suite.tsv), read in both modes of our parser: strict,
 * for clients, and lenient, for peers. A peer may send every valid case (y_) but
 * no invalid one (n_). For the other cases (i_ and those about parser results), and for valid text
 * that we reject, the table gives our result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"

#define PARSING 321u
#define TRANSFORMING 22u
#define LINE_MAX_BYTES 4096

static void put_piece(struct buf *out, struct tidings_str piece)
{
    for (size_t i = 0; i < piece.len; i++) {
        if (piece.ptr[i] != '\\') {
            buf_putc(out, piece.ptr[i]);
        } else if (piece.ptr[i + 1] == '\\') {
            buf_putc(out, '\\');
            i++;
        } else {
            char digits[3] = {piece.ptr[i + 2], piece.ptr[i + 3], '\0'};
            buf_putc(out, (char)strtoul(digits, NULL, 16));
            i += 3;
        }
    }
}

/* Pieces, each followed by its repeat count. */
static void put_text(struct buf *out, struct tidings_str columns)
{
    bool has_more = true;
    while (has_more) {
        struct tidings_str piece = str_cut(columns, '\t', &columns, NULL);
        struct tidings_str count = str_cut(columns, '\t', &columns, &has_more);
        uint64_t n = 0;
        assert_true(str_to_u64(count, &n));
        for (uint64_t i = 0; i < n; i++) {
            put_piece(out, piece);
        }
    }
    assert_int_equal(out->failed, 0);
}

/* Accepted text is written and reads back as the same value. */
static void check_written(struct json *value)
{
    struct buf text;
    struct jw w;
    struct json *again = NULL;
    buf_init(&text, 1u << 20);
    jw_init(&w, &text);
    jw_value(&w, value);
    assert_int_equal(json_parse_lenient(buf_str(&text), &again, NULL, NULL), 0);
    assert_true(jv_equal(value, again));
    jv_unref(again);
    buf_deinit(&text);
}

static void check_case(struct tidings_str line)
{
    struct tidings_str rest;
    struct tidings_str name = str_cut(line, '\t', &rest, NULL);
    struct tidings_str strict = str_cut(rest, '\t', &rest, NULL);
    struct tidings_str peer = str_cut(rest, '\t', &rest, NULL);
    struct buf text;
    struct json *value = NULL;
    struct tidings_error err = {0};
    buf_init(&text, 1u << 20);
    put_text(&text, rest);
    assert_true(!str_starts(name, STR("y_")) || str_eq(peer, STR("yes")));
    assert_true(!str_starts(name, STR("n_")) ||
                (str_eq(peer, STR("no")) && str_eq(strict, STR("no"))));
    bool ok = jv_parse(buf_str(&text), JSON_MAX_DEPTH, &value, &err) == 0;
    if (ok != str_eq(strict, STR("yes"))) {
        fail_msg("%.*s, strictly: %s", STR_ARG(name), ok ? "is taken" : err.text);
    }
    assert_true(ok || str_starts(tidings_str(err.text), STR("line ")));
    jv_unref(value);
    value = NULL;
    ok = json_parse_lenient(buf_str(&text), &value, NULL, &err) == 0;
    if (ok != str_eq(peer, STR("yes"))) {
        fail_msg("%.*s, of a peer: %s", STR_ARG(name), ok ? "is taken" : err.text);
    }
    if (ok) {
        check_written(value);
    }
    jv_unref(value);
    buf_deinit(&text);
}

static void every_case_matches_table(void **state)
{
    (void)state;
    char line[LINE_MAX_BYTES];
    unsigned parsing = 0, transforming = 0;
    FILE *file = fopen(TEST_DATA "json_test_suite.tsv", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct tidings_str text = tidings_strn(line, strcspn(line, "\n"));
        assert_true(line[text.len] == '\n');
        if (text.len > 0 && line[0] != '#') {
            check_case(text);
            if (line[1] == '_') {
                parsing++;
            } else {
                transforming++;
            }
        }
    }
    fclose(file);
    assert_int_equal(parsing, PARSING);
    assert_int_equal(transforming, TRANSFORMING);
    print_message("JSONTestSuite: %u parsing and %u transforming cases\n", parsing, transforming);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_matches_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
