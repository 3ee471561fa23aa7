/* SPDX-License-Identifier: MIT
 *
 * Failed requests: one row for each method and code, a limited number of rows and log lines, and no
 * forged log lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/str.h"
#include "formats/json_write.h"
#include "security/failures.h"
#include "security/principal.h"

static struct failures f;
static char said[LOG_MAX_LINE + 1];
static enum tidings_log_level said_level;
static unsigned lines;

static void on_line(void *user, enum tidings_log_level level, struct tidings_str line)
{
    (void)user;
    snprintf(said, sizeof(said), "%.*s", STR_ARG(line));
    said_level = level;
    lines++;
}

static int begin(void **state)
{
    (void)state;
    f = (struct failures){0};
    said[0] = '\0';
    lines = 0;
    log_set_sink(on_line, NULL);
    log_set_level(TIDINGS_LOG_INFO);
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_set_level(TIDINGS_LOG_OFF);
    log_set_sink(NULL, NULL);
    return 0;
}

static bool note(const struct failure *x, uint64_t now_ms)
{
    struct failure_row *row = failures_count(&f, x, now_ms);
    if (row) {
        failures_log(row, x, STR("192.0.2.1"));
    }
    return row != NULL;
}

static void log_line_names_the_failure_its_client_and_reason(void **state)
{
    (void)state;
    const struct principal ann = {.kind = PRINCIPAL_TOKEN, .name = STR("ann")};
    const struct failure rpc = {.kind = FAILURE_RPC,
                                .method = "resources/read",
                                .code = -32002,
                                .reason = STR("resource not found"),
                                .principal = &ann};
    assert_true(note(&rpc, 1000));
    assert_non_null(strstr(said, " info request: request failed method=resources/read code=-32002 "
                                 "reason=\"resource not found\" principal=ann by=token "
                                 "address=192.0.2.1 others=0"));
    const struct principal nobody = {.kind = PRINCIPAL_ANONYMOUS, .name = STR("")};
    const struct failure http = {.kind = FAILURE_HTTP,
                                 .cause = FAILURE_ORIGIN,
                                 .method = "/mcp",
                                 .code = 403,
                                 .reason = STR("this Origin is not allowed"),
                                 .principal = &nobody};
    assert_true(note(&http, 1000));
    assert_non_null(strstr(said, " warn access: request refused cause=origin "
                                 "method=/mcp status=403 reason=\"this Origin is not allowed\" "
                                 "by=anonymous address="));
    const struct failure result = {.kind = FAILURE_RESULT, .method = "tools/call"};
    assert_true(note(&result, 1000));
    assert_non_null(strstr(said, "method=tools/call isError=true by=program"));
}

static void internal_error_is_logged_as_a_warning(void **state)
{
    (void)state;
    const struct failure ours = {.kind = FAILURE_HTTP, .code = 500, .is_ours = true};
    const struct failure theirs = {.kind = FAILURE_HTTP, .code = 404};
    assert_true(note(&ours, 1000));
    assert_int_equal(said_level, TIDINGS_LOG_WARNING);
    assert_true(note(&theirs, 1000));
    assert_int_equal(said_level, TIDINGS_LOG_INFO);
    log_set_level(TIDINGS_LOG_WARNING); /* lines below the log level do not count as suppressed */
    assert_false(note(&theirs, 99000));
    assert_int_equal(f.rows[1].left_out, 0);
    assert_int_equal(f.rows[1].count, 2);
}

static void each_cause_gets_a_line_a_second_with_the_suppressed_count(void **state)
{
    (void)state;
    const struct failure x = {.kind = FAILURE_HTTP, .method = "/resource", .code = 404};
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(note(&x, 5000 + i % 1000), i == 0);
    }
    assert_int_equal(lines, 1);
    assert_true(note(&x, 6000));
    assert_non_null(strstr(said, " others=999"));
    assert_true(note(&x, 7000));
    assert_non_null(strstr(said, " others=0"));
    assert_int_equal(f.rows[0].count, 1002);
}

static void suppressed_lines_are_counted_in_a_final_line(void **state)
{
    (void)state;
    const struct failure x = {.kind = FAILURE_HTTP, .method = "/resource", .code = 404};
    const struct failure y = {.kind = FAILURE_RESULT, .method = "tools/call"};
    for (unsigned i = 0; i < 10; i++) {
        (void)note(&x, 5000);
    }
    (void)note(&y, 5500);
    (void)note(&y, 5600);
    assert_int_equal(f.due_ms, 6000);
    failures_say_left_out(&f, 6000);
    assert_int_equal(lines, 3);
    assert_non_null(
        strstr(said, " info request: requests failed method=/resource status=404 others=9"));
    assert_int_equal(f.due_ms, 7000); /* the other arrived later */
    failures_say_left_out(&f, 7000);
    assert_int_equal(lines, 4);
    assert_non_null(strstr(said, "method=tools/call isError=true others=1"));
    assert_int_equal(f.due_ms, 0);
    failures_say_left_out(&f, 8000);
    assert_int_equal(lines, 4);
}

static void all_causes_together_have_a_burst_and_a_line_a_second(void **state)
{
    (void)state;
    for (int second = 0; second < 10; second++) {
        for (int code = 400; code < 500; code++) {
            const struct failure x = {.kind = FAILURE_HTTP, .method = "/mcp", .code = code};
            (void)note(&x, 1000 + (uint64_t)second * 1000);
        }
    }
    assert_int_equal(lines, FAILURES_BURST + 9 * FAILURES_LINES);
}

static void failures_beyond_the_row_limit_share_a_row(void **state)
{
    (void)state;
    for (int code = 0; code < 1000; code++) {
        const struct failure x = {.kind = FAILURE_RPC, .method = "ping", .code = code};
        (void)note(&x, 1000);
    }
    assert_int_equal(f.row_count, FAILURES_ROWS);
    assert_int_equal(f.rows[FAILURES_ROWS].count, 1000 - FAILURES_ROWS);
    struct buf text;
    struct jw w;
    buf_init(&text, 1u << 20);
    jw_init(&w, &text);
    jw_begin_array(&w);
    failures_write(&f, 3, &w);
    jw_end_array(&w);
    struct json *rows = NULL;
    assert_int_equal(jv_parse(buf_str(&text), JSON_MAX_DEPTH, &rows, NULL), 0);
    assert_int_equal(jv_count(rows), FAILURES_ROWS + 1);
    struct json *first = jv_at(rows, 0), *last = jv_at(rows, FAILURES_ROWS);
    assert_true(str_eq(jv_str(jv_get(first, "method")), STR("ping")));
    assert_int_equal(jv_int(jv_get(first, "worker")), 3);
    assert_int_equal(jv_int(jv_get(first, "count")), 1);
    assert_true(str_eq(jv_str(jv_get(last, "method")), STR("others")));
    assert_null(jv_get(last, "code"));
    assert_int_equal(jv_int(jv_get(last, "count")), 1000 - FAILURES_ROWS);
    jv_unref(rows);
    buf_deinit(&text);
}

static void unknown_methods_share_a_row(void **state)
{
    (void)state;
    const struct failure x = {.kind = FAILURE_RPC, .code = -32601};
    (void)note(&x, 1000);
    (void)note(&x, 1001);
    assert_int_equal(f.row_count, 1);
    assert_int_equal(f.rows[0].count, 2);
    assert_non_null(strstr(said, "method=unknown code=-32601"));
}

static void client_cannot_forge_lines_or_fields(void **state)
{
    (void)state;
    const struct failure x = {
        .kind = FAILURE_RPC,
        .code = -32601,
        .reason = STR("unknown method 'a\" principal=\"root\n2026 error \x1b[2J\\\xff'")};
    assert_true(note(&x, 1000));
    assert_null(strchr(said, '\n'));
    assert_null(strchr(said, '\x1b'));
    assert_non_null(strstr(said, "'a\\\" principal=\\\"root\\x0a2026 error \\x1b[2J\\\\\\xff'\""));
    char longer[4096];
    memset(longer, 'x', sizeof(longer));
    memcpy(longer + LOG_SHOWN - 1, "\xc3\xa4", 2); /* is not split */
    const struct failure y = {
        .kind = FAILURE_RPC, .code = 1, .reason = tidings_strn(longer, sizeof(longer))};
    assert_true(note(&y, 1000));
    assert_non_null(strstr(said, "xxx…\""));
    assert_null(strstr(said, "\\xc3"));
    assert_true(strlen(said) < 2 * LOG_SHOWN);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

static void refusals_are_warnings_with_their_own_line_budget(void **state)
{
    (void)state;
    struct failure x = {.kind = FAILURE_HTTP, .method = "/mcp", .code = 404};
    for (int i = 0; i < 100; i++) { /* requests for unknown paths use up their lines */
        x.code = 404 + i;
        (void)note(&x, 5000);
    }
    int before = lines;
    static const enum failure_cause causes[] = {FAILURE_AUTHENTICATION, FAILURE_ACCESS,
                                                FAILURE_LIMIT,          FAILURE_HOST,
                                                FAILURE_ORIGIN,         FAILURE_MALFORMED};
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        const struct failure y = {
            .kind = FAILURE_HTTP, .cause = causes[i], .method = "/mcp", .code = 403};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(note(&y, 5000), k == 0);
            assert_int_equal(said_level, TIDINGS_LOG_WARNING);
        }
    }
    assert_int_equal(lines, before + 6);
    failures_say_left_out(&f, 6000);
    assert_non_null(strstr(said, " warn access: requests refused cause=malformed method=/mcp "
                                 "status=403 others=2"));
}

static void newest_failure_keeps_its_reason_and_address_cut_between_characters(void **state)
{
    (void)state;
    char long_reason[400], text[1024];
    for (size_t i = 0; i + 2 < sizeof(long_reason); i += 2) {
        memcpy(long_reason + i, "\xc3\xa9", 3);
    }
    const struct failure x = {.kind = FAILURE_HTTP,
                              .cause = FAILURE_HOST,
                              .method = "/mcp",
                              .code = 403,
                              .reason = tidings_str(long_reason)};
    assert_int_equal(f.last.at_ms, 0);
    failures_note(&f, &x, STR("192.0.2.1"), 1000);
    assert_int_equal(strlen(f.last.reason), sizeof(f.last.reason) - 2); /* not half of an é */
    const struct failure odd = {.path = STR("/a\xff\xc3\xa9"), .uri = STR("no")};
    failures_note(&f, &odd, STR("x"), 1500);
    assert_true(f.last.has_path);
    assert_string_equal(f.last.about, "/a???");
    const struct failure y = {.kind = FAILURE_RPC, .code = -32602, .reason = STR("a \"b\"")};
    failures_note(&f, &y, STR("uid:1000"), 2000);
    struct buf out;
    struct jw w;
    buf_init(&out, sizeof(text));
    jw_init(&w, &out);
    failure_last_write(&f.last, &w);
    snprintf(text, sizeof(text), "%.*s", STR_ARG(buf_str(&out)));
    buf_deinit(&out);
    assert_string_equal(text, "{\"atMs\":2000,\"method\":\"unknown\",\"code\":-32602,"
                              "\"reason\":\"a \\\"b\\\"\",\"address\":\"uid:1000\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            newest_failure_keeps_its_reason_and_address_cut_between_characters, begin, end),
        TEST(log_line_names_the_failure_its_client_and_reason),
        TEST(internal_error_is_logged_as_a_warning),
        TEST(refusals_are_warnings_with_their_own_line_budget),
        TEST(each_cause_gets_a_line_a_second_with_the_suppressed_count),
        TEST(suppressed_lines_are_counted_in_a_final_line),
        TEST(all_causes_together_have_a_burst_and_a_line_a_second),
        TEST(failures_beyond_the_row_limit_share_a_row),
        TEST(unknown_methods_share_a_row),
        TEST(client_cannot_forge_lines_or_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
