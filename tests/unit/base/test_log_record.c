/* SPDX-License-Identifier: MIT
 *
 * Log lines: the escapes of untrusted bytes in each format, and the places where lines are cut. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <cmocka.h>

#include "base/str.h"

static struct log_line line;

static struct tidings_str put(enum log_format format, const struct log_field *fields)
{
    const struct log_record record = {.time_ms = 1785232800000,
                                      .level = TIDINGS_LOG_WARNING,
                                      .area = LOG_ACCESS,
                                      .event = "request refused",
                                      .fields = fields};
    log_record_line(&record, format, &line);
    assert_in_range(line.len, 1, LOG_MAX_LINE);
    line.bytes[line.len] = '\0';
    return tidings_strn(line.bytes, line.len);
}

#define PUT(format, ...) put((format), (const struct log_field[]){__VA_ARGS__, NO_FIELDS})

static void records_are_written_in_each_format(void **state)
{
    (void)state;
#define FIELDS                                                                                     \
    KV("method", "tools/call"), KV("code", -32602), KV("bytes", (uint64_t)18446744073709551615u),  \
        KV("is_cut", (bool)true), KV("who", tidings_strn(NULL, 0)), KV("reason", "not \"that\""),  \
        KV("empty", "")
    PUT(LOG_FORMAT_TEXT, FIELDS);
    assert_string_equal(line.bytes,
                        "2026-07-28T10:00:00.000Z warn access: request refused method=tools/call "
                        "code=-32602 bytes=18446744073709551615 is_cut=true "
                        "reason=\"not \\\"that\\\"\" empty=\"\"");
    PUT(LOG_FORMAT_LOGFMT, FIELDS);
    assert_string_equal(line.bytes, "time=2026-07-28T10:00:00.000Z level=warn area=access "
                                    "message=\"request refused\" method=tools/call "
                                    "code=-32602 bytes=18446744073709551615 is_cut=true "
                                    "reason=\"not \\\"that\\\"\" empty=\"\"");
    PUT(LOG_FORMAT_JSON, FIELDS);
    assert_string_equal(line.bytes,
                        "{\"time\":\"2026-07-28T10:00:00.000Z\",\"level\":\"warn\",\"area\":"
                        "\"access\",\"message\":\"request refused\",\"method\":\"tools/call\","
                        "\"code\":-32602,\"bytes\":18446744073709551615,\"is_cut\":true,"
                        "\"reason\":\"not \\\"that\\\"\",\"empty\":\"\"}");
}

static void clients_cannot_forge_lines_or_fields(void **state)
{
    (void)state;
    static const struct {
        const char *value, *text, *logfmt;
    } rows[] = {
        {"a\nb", "\"a\\x0ab\"", "\"a\\u000ab\""},
        {"a b=c", "\"a b=c\"", "\"a b=c\""},
        {"a=b", "\"a=b\"", "\"a=b\""},
        {"\" principal=\"root", "\"\\\" principal=\\\"root\"", "\"\\\" principal=\\\"root\""},
        {"\x1b[31m", "\"\\x1b[31m\"", "\"\\u001b[31m\""},
        {"\x7f\t", "\"\\x7f\\x09\"", "\"\\u007f\\u0009\""},
        {"caf\xC3\xA9", "\"caf\xC3\xA9\"", "\"caf\xC3\xA9\""},
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\"", "\"\xF0\x9F\x98\x80\""},
        {"\xC2\x9B", "\"\\xc2\\x9b\"", "\"\\u009b\""},          /* CSI as one character */
        {"\xE2\x80\xAE", "\"\\xe2\\x80\\xae\"", "\"\\u202e\""}, /* right to left */
        {"\xE2\x81\xA7", "\"\\xe2\\x81\\xa7\"", "\"\\u2067\""},
        {"\xE2\x80\xA8", "\"\\xe2\\x80\\xa8\"", "\"\\u2028\""}, /* a line separator */
        {"\xFF\xC3", "\"\\xff\\xc3\"", "\"\\ufffd\\ufffd\""},
        {"\xED\xA0\x80", "\"\\xed\\xa0\\x80\"", "\"\\ufffd\\ufffd\\ufffd\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        PUT(LOG_FORMAT_TEXT, KV("v", rows[i].value));
        assert_string_equal(strstr(line.bytes, " v=") + 3, rows[i].text);
        PUT(LOG_FORMAT_LOGFMT, KV("v", rows[i].value));
        assert_string_equal(strstr(line.bytes, " v=") + 3, rows[i].logfmt);
    }
}

/* Deterministic, with every byte value. */
static uint32_t random_state = 1;

static unsigned char random_byte(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned char)(random_state >> 24);
}

static void json_is_valid_for_any_bytes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        static char value[700];
        size_t len = random_byte() * 2u + random_byte() % 150u;
        for (size_t i = 0; i < len; i++) {
            value[i] = (char)random_byte();
        }
        PUT(LOG_FORMAT_JSON, KV("v", tidings_strn(value, len)), KV("last", round));
        for (size_t i = 0; i < line.len; i++) {
            assert_in_range((unsigned char)line.bytes[i], 0x20, 0xFF);
        }
        json_error_t err;
        json_t *doc =
            json_loadb(line.bytes, line.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &err);
        assert_non_null(doc);
        assert_int_equal(json_integer_value(json_object_get(doc, "last")), round);
        assert_non_null(json_object_get(doc, "v"));
        json_decref(doc);
    }
}

static void json_keeps_valid_text(void **state)
{
    static const char value[] = "a\"\\\n\t\x1b \xE2\x80\xAE \xC2\x9B \xF0\x9F\x98\x80 /";
    (void)state;
    PUT(LOG_FORMAT_JSON, KV("v", value));
    json_t *doc = json_loadb(line.bytes, line.len, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "v")), value);
    json_decref(doc);
}

static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    static char value[10000];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(value, 'x', sizeof value - 1);
        for (size_t i = shift; i + 4 < sizeof value; i += 4) {
            memcpy(value + i, "\xF0\x9F\x98\x80", 4);
        }
        PUT(LOG_FORMAT_TEXT, KV("v", value), KV("w", 1));
        assert_true(str_is_utf8(tidings_strn(line.bytes, line.len)));
        assert_non_null(strstr(line.bytes, "\xE2\x80\xA6\" w=1"));
        assert_in_range(line.len, LOG_SHOWN, LOG_SHOWN + 100);
    }
}

static void overlong_lines_drop_complete_fields_and_mark_it(void **state)
{
    static const enum log_format formats[] = {LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_LOGFMT};
    static char value[600];
    (void)state;
    memset(value, '\x01', sizeof value - 1); /* becomes six bytes each */
    for (size_t i = 0; i < 3; i++) {
        PUT(formats[i], KV("a", value), KV("b", value), KV("c", value), KV("last", 7));
        assert_non_null(
            strstr(line.bytes, formats[i] == LOG_FORMAT_JSON ? "\"cut\":true}" : " cut=true"));
        assert_non_null(strstr(line.bytes, "last")); /* a short field fits again */
        json_t *doc = json_loadb(line.bytes, line.len, 0, NULL);
        assert_int_equal(doc != NULL, formats[i] == LOG_FORMAT_JSON);
        json_decref(doc);
    }
}

static void journal_datagram_has_its_maximum(void **state)
{
    static char value[600], out[LOG_JOURNAL_MAX];
    (void)state;
    memset(value, '\n', sizeof value - 1);
    struct log_field fields[64];
    for (size_t i = 0; i < 63; i++) {
        fields[i] = KV("v", value);
    }
    fields[63] = NO_FIELDS;
    const struct log_record record = {
        .level = TIDINGS_LOG_DEBUG, .area = LOG_STORE, .event = "e", .fields = fields};
    size_t len = log_record_journal(&record, out);
    assert_in_range(len, LOG_JOURNAL_MAX - 600, LOG_JOURNAL_MAX);
    assert_int_equal(out[len - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_written_in_each_format),
        cmocka_unit_test(clients_cannot_forge_lines_or_fields),
        cmocka_unit_test(json_is_valid_for_any_bytes),
        cmocka_unit_test(json_keeps_valid_text),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(overlong_lines_drop_complete_fields_and_mark_it),
        cmocka_unit_test(journal_datagram_has_its_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
