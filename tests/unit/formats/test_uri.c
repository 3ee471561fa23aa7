/* SPDX-License-Identifier: MIT
 *
 * Canonical URIs: the accepted URIs and their canonical form, every refusal with its message, and
 * the equivalence of a file name and its URI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/uri.h"
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_str(struct tidings_str got, const char *expected)
{
    if (!str_eq(got, tidings_str(expected))) {
        fail_msg("got '%.*s', expected '%s'", STR_ARG(got), expected);
    }
}

static void accepted_uris_have_one_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"file:///a/b.txt", "file:///a/b.txt"},
        {"file:///", "file:///"},
        {"file://", "file://"},
        {"file://data/users.json", "file://data/users.json"},
        {"urn:x:y", "urn:x:y"},
        {"test://static-text", "test://static-text"},
        {"system://metrics", "system://metrics"},
        {"a:b", "a:b"},
        {"a+b-c.1:/x", "a+b-c.1:/x"},
        {"x:?q", "x:?q"},
        /* case */
        {"FILE:///A/B", "file:///A/B"},
        {"HTTP://Example.COM:80/Path?Q=R", "http://example.com:80/Path?Q=R"},
        {"x://%41%7A/", "x://az/"},
        /* ports and addresses */
        {"http://h:8080/x", "http://h:8080/x"},
        {"http://h:/x", "http://h:/x"},
        {"http://h:65535", "http://h:65535"},
        {"http://127.0.0.1:1?q", "http://127.0.0.1:1?q"},
        {"http://[::1]/x", "http://[::1]/x"},
        {"http://[FE80::A]:443/x", "http://[fe80::a]:443/x"},
        {"http://[::ffff:1.2.3.4]", "http://[::ffff:1.2.3.4]"},
        {"x://b\xc3\xbc"
         "cher/y",
         "x://b%C3%BCcher/y"},
        {"x://b%c3%bc"
         "cher/y",
         "x://b%C3%BCcher/y"},
        /* percent-encoding */
        {"file:///%61%2D%2e%5F%7e", "file:///a-._~"},
        {"file:///a%20b%c3%a9", "file:///a%20b%C3%A9"},
        {"file:///caf\xc3\xa9", "file:///caf%C3%A9"},
        {"file:///%ff%FE", "file:///%FF%FE"},
        {"file:///a%5cb", "file:///a%5Cb"},
        {"file:///a%0Ab%7f", "file:///a%0Ab%7F"},
        {"file:///%2541", "file:///%2541"},
        {"file:///a%2Ab%3F%23%2B", "file:///a%2Ab%3F%23+"},
        {"file:///report%20%281%29%2Cfinal%3D%40%3A.txt", "file:///report%20(1),final=@:.txt"},
        {"api:///events?type=a%2Bb%26c", "api:///events?type=a%2Bb%26c"},
        {"file:///a\"<>^`{|}[]b", "file:///a%22%3C%3E%5E%60%7B%7C%7D%5B%5Db"},
        {"file:///a!$&'()*+,;=:@b", "file:///a!$&'()*+,;=:@b"},
        /* dots that are not dot segments */
        {"file:///.hidden/..x/x../...", "file:///.hidden/..x/x../..."},
        {"file:///%2e%2e%2e/a", "file:///.../a"},
        {"x:///a?../..", "x:///a?../.."},
        {"x:///a?p=/../b", "x:///a?p=/../b"},
        /* the query */
        {"file:///logs?pattern=*.log", "file:///logs?pattern=*.log"},
        {"x:///a?b?c/d", "x:///a?b?c/d"},
        {"x:///a?", "x:///a?"},
        {"x:///a?u=http%3a%2f%2Fh", "x:///a?u=http%3A%2F%2Fh"},
        {"x://h?q=@", "x://h?q=@"},
        {"x:///a?[k]={v}", "x:///a?%5Bk%5D=%7Bv%7D"},
        /* empty segments are segments */
        {"x:///a//b/", "x:///a//b/"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_error err = {0};
        struct buf once, twice;
        buf_init(&once, 8192);
        buf_init(&twice, 8192);
        if (uri_canonical(tidings_str(rows[i].in), &once, &err) < 0) {
            fail_msg("'%s': %s", rows[i].in, err.text);
        }
        assert_str(buf_str(&once), rows[i].out);
        assert_int_equal(uri_canonical(buf_str(&once), &twice, &err), 0);
        assert_str(buf_str(&twice), rows[i].out);
        assert_int_equal(err.code, 0);
        buf_deinit(&once);
        buf_deinit(&twice);
    }
}

static void rejected_uris_give_reason_and_place(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str in;
        const char *sentence;
    } rows[] = {
        {{"", 0}, "URI refused: empty"},
        {{"a", 1}, "no scheme (expected 'scheme:…', as in 'file:///a')"},
        {{"/a/b", 4}, "no scheme"},
        {{"1a:b", 4}, "no scheme"},
        {{":b", 2}, "no scheme"},
        {{"a b:c", 5}, "no scheme"},
        {{"\xc3\xa9:c", 4}, "no scheme"},
        {{"file:", 5}, "nothing after the scheme at byte 5"},
        {{"x:///a b", 8}, "blank (encode it as '%20') at byte 7"},
        {{"x:///a\tb", 8}, "control character at byte 7"},
        {{"x:///a\0b", 8}, "control character at byte 7"},
        {{"x:///a\x7f", 7}, "control character at byte 7"},
        {{"x://h\n/", 7}, "control character at byte 6"},
        {{"x:///a?b c", 10}, "blank (encode it as '%20') at byte 9"},
        {{"x:///a\\b", 8}, "backslash (encode it as '%5C') at byte 7"},
        {{"x:\\\\h", 5}, "backslash (encode it as '%5C') at byte 3"},
        {{"x:///a#b", 8}, "fragment ('#'; encode it as '%23') at byte 7"},
        {{"x:///a?b#c", 10}, "fragment ('#'; encode it as '%23') at byte 9"},
        {{"x://h#c", 7}, "fragment ('#'; encode it as '%23') at byte 6"},
        {{"x:///%", 6}, "'%' not followed by two hexadecimal digits at byte 6"},
        {{"x:///%4", 7}, "'%' not followed by two hexadecimal digits at byte 6"},
        {{"x:///%4g", 8}, "'%' not followed by two hexadecimal digits at byte 6"},
        {{"x:///a?%zz", 10}, "'%' not followed by two hexadecimal digits at byte 8"},
        {{"x:///%00", 8}, "encoded NUL ('%00') at byte 6"},
        {{"x:///a?%00", 10}, "encoded NUL ('%00') at byte 8"},
        {{"x:///a%2Fb", 10}, "encoded slash ('%2F') at byte 7"},
        {{"x:///..%2fb", 11}, "encoded slash ('%2F') at byte 8"},
        {{"x://h%2f", 8}, "encoded slash ('%2F') at byte 6"},
        {{"x:///.", 6}, "dot segment ('.' or '..') at byte 6"},
        {{"x:///..", 7}, "dot segment ('.' or '..') at byte 7"},
        {{"x:///a/./b", 10}, "dot segment ('.' or '..') at byte 8"},
        {{"x:///a/../b", 11}, "dot segment ('.' or '..') at byte 9"},
        {{"x:///a/%2e", 10}, "dot segment ('.' or '..')"},
        {{"x:///a/%2E%2e/b", 15}, "dot segment ('.' or '..')"},
        {{"x:///a/.%2e", 11}, "dot segment ('.' or '..')"},
        {{"x:///a/..?q", 11}, "dot segment ('.' or '..')"},
        {{"x:..", 4}, "dot segment ('.' or '..')"},
        {{"x:../a", 6}, "dot segment ('.' or '..')"},
        {{"x://../a", 8}, "dot segment ('.' or '..') at byte 5"},
        {{"x://%2e/a", 9}, "dot segment ('.' or '..') at byte 5"},
        {{"http://u@h/", 11}, "user information ('user@host') at byte 9"},
        {{"http://u:p@h/", 13}, "user information ('user@host') at byte 11"},
        {{"http://h:x/", 11}, "port that is not a number up to 65535 at byte 8"},
        {{"http://h:65536/", 15}, "port that is not a number up to 65535"},
        {{"http://h:000080/", 16}, "port that is not a number up to 65535"},
        {{"http://h:1:2/", 13}, "port that is not a number up to 65535"},
        {{"http://[::1/", 12}, "malformed IPv6 address at byte 8"},
        {{"http://[::g]/", 13}, "malformed IPv6 address"},
        {{"http://[]/", 10}, "malformed IPv6 address"},
        {{"http://[fe80::1%25eth0]/", 24}, "malformed IPv6 address"},
        {{"http://[1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8]/", 62},
         "malformed IPv6 address"},
        {{"http://[::1]x/", 14}, "text after an IPv6 address"},
        {{"http://[::1]:x/", 15}, "port that is not a number"},
        {{"http://h[1]/", 12}, "bracket in a host that is not an IPv6 address"},
        {{"x:///\xff", 6}, "not valid UTF-8"},
        {{"x:///\xc3", 6}, "not valid UTF-8"},
        {{"x:///\xc0\xaf", 7}, "not valid UTF-8"},
        {{"x:///\xed\xa0\x80", 8}, "not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_error err = {0};
        struct buf out;
        buf_init(&out, 8192);
        buf_puts(&out, STR("kept"));
        int rc = uri_canonical(rows[i].in, &out, &err);
        if (rc != TIDINGS_E_INVALID || !strstr(err.text, rows[i].sentence)) {
            fail_msg("'%.*s': %d '%s', expected '%s'", STR_ARG(rows[i].in), rc, err.text,
                     rows[i].sentence);
        }
        assert_str(buf_str(&out), "kept");
        assert_int_equal(uri_canonical(rows[i].in, &out, NULL), TIDINGS_E_INVALID);
        buf_deinit(&out);
    }
}

static void length_is_bounded_before_and_after_encoding(void **state)
{
    (void)state;
    static char text[URI_MAX + 2];
    struct tidings_error err = {0};
    struct buf out;
    buf_init(&out, 3 * URI_MAX);
    memset(text, 'a', sizeof(text));
    memcpy(text, "x:///", 5);
    assert_int_equal(uri_canonical(tidings_strn(text, URI_MAX), &out, &err), 0);
    assert_int_equal(out.len, URI_MAX);
    buf_clear(&out);
    assert_int_equal(uri_canonical(tidings_strn(text, URI_MAX + 1), &out, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "4097 bytes, at most 4096 accepted"));
    text[URI_MAX - 1] = '<';
    assert_int_equal(uri_canonical(tidings_strn(text, URI_MAX), &out, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "4098 bytes once encoded"));
    assert_int_equal(out.len, 0);
    buf_deinit(&out);
}

static void small_buffer_and_failed_allocation_are_reported(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct buf out;
    buf_init(&out, 6);
    assert_int_equal(uri_canonical(STR("x:///abc"), &out, &err), TIDINGS_E_LIMIT);
    buf_clear(&out);
    assert_int_equal(uri_canonical(STR("x:/<>"), &out, &err), TIDINGS_E_LIMIT);
    assert_int_equal(out.len, 0);
    buf_deinit(&out);
    for (long n = 1;; n++) {
        fail_alloc_start(n);
        buf_init(&out, 8192);
        int rc = uri_canonical(STR("x:/<><><><><><><><><><><><><><><><><><><><><><>"), &out, &err);
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        buf_deinit(&out);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

static void patterns_keep_their_wildcards(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out; /* out NULL: rejected */
    } rows[] = {
        {"FILE://Logs/*.LOG", "file://logs/*.LOG"},
        {"file:///app-[0-9].log", "file:///app-[0-9].log"},
        {"file:///a/**", "file:///a/**"},
        {"file:///%2A\xc3\xa9*", "file:///%2A%C3%A9*"},
        {"weather://City/{Location}", "weather://city/{Location}"},
        {"user://{UserName}", "user://{UserName}"},
        {"https://{Domain}.Example.com{/Path*}X{?Q,r:3}", /* after "{/": the path, case kept */
         "https://{Domain}.example.com{/Path*}X{?Q,r:3}"},
        {"https://{Domain}.Example.com{/Path*}/X{?Q,r:3}",
         "https://{Domain}.example.com{/Path*}/X{?Q,r:3}"},
        {"x:///a{#Frag}", "x:///a{#Frag}"},
        {"x:///{+path}", "x:///{+path}"},
        {"x:///{a%20b}", "x:///{a%20b}"},
        {"x:///a}", "x:///a}"},
        {"http://[::1]:{port}/", "http://[::1]:{port}/"},
        {"x:///a/../{b}", NULL},
        {"x:///{b}/%2e%2E", NULL},
        {"x:///{b", NULL},
        {"x:///{/../b}", NULL},
        {"x:///{{a}}", NULL},
        {"x:///{a b}", NULL},
        {"x:///*#a", NULL},
        {"x:///a%2f*", NULL},
        {"*://a", NULL},
        {"{scheme}://a", NULL},
        {"http://u@{h}/", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_error err = {0};
        struct buf once, twice;
        buf_init(&once, 8192);
        buf_init(&twice, 8192);
        int rc = uri_canonical_pattern(tidings_str(rows[i].in), &once, &err);
        if (!rows[i].out) {
            if (rc != TIDINGS_E_INVALID) {
                fail_msg("'%s' was accepted", rows[i].in);
            }
        } else {
            if (rc < 0) {
                fail_msg("'%s': %s", rows[i].in, err.text);
            }
            assert_str(buf_str(&once), rows[i].out);
            assert_int_equal(uri_canonical_pattern(buf_str(&once), &twice, NULL), 0);
            assert_str(buf_str(&twice), rows[i].out);
        }
        buf_deinit(&once);
        buf_deinit(&twice);
    }
}

static void assert_part(struct tidings_str got, const char *expected)
{
    if (!expected) {
        assert_null(got.ptr);
        return;
    }
    assert_non_null(got.ptr);
    assert_str(got, expected);
}

static void canonical_uri_splits_into_its_parts(void **state)
{
    (void)state;
    static const struct {
        const char *in, *scheme, *authority, *path, *query;
    } rows[] = {
        {"file:///a/b", "file", "", "/a/b", NULL},
        {"file://", "file", "", "", NULL},
        {"file:///", "file", "", "/", NULL},
        {"test://static-text", "test", "static-text", "", NULL},
        {"http://h:80/p?q=1?2", "http", "h:80", "/p", "q=1?2"},
        {"http://h?q/r", "http", "h", "", "q/r"},
        {"http://h/?", "http", "h", "/", ""},
        {"urn:x:y", "urn", NULL, "x:y", NULL},
        {"a:/b", "a", NULL, "/b", NULL},
        {"a:?b", "a", NULL, "", "b"},
        {"a:b?//c", "a", NULL, "b", "//c"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct uri_parts parts;
        uri_split(tidings_str(rows[i].in), &parts);
        assert_part(parts.scheme, rows[i].scheme);
        assert_part(parts.authority, rows[i].authority);
        assert_part(parts.path, rows[i].path);
        assert_part(parts.query, rows[i].query);
    }
}

static void names_become_harmless_segments(void **state)
{
    (void)state;
    static const struct {
        const char *name, *segment;
    } rows[] = {
        {"plain-name_1.txt~", "plain-name_1.txt~"},
        {"%41", "%2541"},
        {"a b", "a%20b"},
        {"{x}", "%7Bx%7D"},
        {"*[?#]", "%2A%5B%3F%23%5D"},
        {"caf\xc3\xa9", "caf%C3%A9"},
        {"\xff\x01", "%FF%01"},
        {"a\\b\n", "a%5Cb%0A"},
        {"a/b", "a%2Fb"},
        {"a+b,c;d=e:f@g&h$i!(j)'", "a+b,c;d=e:f@g&h$i!(j)'"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        buf_init(&out, 1024);
        assert_int_equal(uri_encode_segment(&out, tidings_str(rows[i].name)), 0);
        assert_str(buf_str(&out), rows[i].segment);
        buf_deinit(&out);
    }
    struct buf path;
    buf_init(&path, 1024);
    assert_int_equal(uri_encode_path(&path, STR("a b/c%/*")), 0);
    assert_str(buf_str(&path), "a%20b/c%25/%2A");
    buf_deinit(&path);
    buf_init(&path, 4);
    buf_puts(&path, STR("x"));
    assert_int_equal(uri_encode_path(&path, STR("a bc")), TIDINGS_E_LIMIT);
    assert_str(buf_str(&path), "x");
    buf_deinit(&path);
}

/* name -> segment -> URI -> canonical (the same) -> decoded (the name) */
static void round_trip(struct tidings_str name)
{
    struct buf uri, canonical, back;
    buf_init(&uri, 8192);
    buf_init(&canonical, 8192);
    buf_init(&back, 8192);
    buf_puts(&uri, STR("file:///"));
    assert_int_equal(uri_encode_segment(&uri, name), 0);
    struct tidings_error err = {0};
    if (uri_canonical(buf_str(&uri), &canonical, &err) < 0) {
        fail_msg("'%.*s': %s", STR_ARG(buf_str(&uri)), err.text);
    }
    assert_true(str_eq(buf_str(&canonical), buf_str(&uri)));
    struct uri_parts parts;
    uri_split(buf_str(&uri), &parts);
    assert_int_equal(uri_decode(&back, parts.path, &err), 0);
    assert_true(str_eq(str_skip(buf_str(&back), 1), name));
    char into[1024];
    size_t len = uri_decode_into(into, parts.path);
    assert_true(str_eq(tidings_strn(into, len), buf_str(&back)));
    buf_deinit(&uri);
    buf_deinit(&canonical);
    buf_deinit(&back);
}

static void every_name_survives_the_round_trip_through_a_uri(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (int byte = 1; byte < 256; byte++) {
        char name = (char)byte;
        if (byte != '/' && byte != '.') {
            round_trip(tidings_strn(&name, 1));
            tried++;
        }
    }
    assert_int_equal(tried, 253);
    round_trip(STR("a.")); /* the byte missing above, which would be a dot segment by itself */
    uint64_t random = 88172645463325252ull;
    for (int i = 0; i < 2000; i++) {
        char name[40];
        size_t len = 3 + (size_t)i % 37;
        for (size_t k = 0; k < len; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            char c = (char)(random >> 32);
            name[k] = c == 0 || c == '/' ? '%' : c;
        }
        round_trip(tidings_strn(name, len));
    }
}

static void decoding_rejects_impossible_names(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct buf out;
    buf_init(&out, 64);
    buf_puts(&out, STR("kept"));
    assert_int_equal(uri_decode(&out, STR("a%00"), &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "encoded NUL ('%00') at byte 2 of 'a%00'");
    assert_int_equal(uri_decode(&out, STR("a%4"), &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "malformed percent-encoding at byte 2 of 'a%4'");
    assert_str(buf_str(&out), "kept");
    assert_int_equal(uri_decode(&out, STR("%2F%2e"), &err), 0);
    assert_str(buf_str(&out), "kept/.");
    buf_deinit(&out);
}

static void within_ends_on_segment_boundaries(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *prefix;
        bool within;
    } rows[] = {
        {"file:///docs", "file:///docs", true},
        {"file:///docs/", "file:///docs", true},
        {"file:///docs/a", "file:///docs", true},
        {"file:///docs?q", "file:///docs", true},
        {"file:///docs_backup", "file:///docs", false},
        {"file:///doc", "file:///docs", false},
        {"file:///docs/a", "file:///docs/", true},
        {"file:///docs/", "file:///docs/", true},
        {"file:///docs", "file:///docs/", true},
        {"file:///docs?q", "file:///docs/", true},
        {"file:///docs_backup", "file:///docs/", false},
        {"file:///docsx/", "file:///docs/", false},
        {"file:///a", "file:///", true},
        {"file://a", "file:///", false},
        {"file://", "file:///", false},
        {"test://static-text", "test://", true},
        {"test:x", "test://", false},
        {"a:?q", "a:/", false},
        {"urn:x:y", "urn:x", false},
        {"urn:x", "urn:x", true},
        {"file:///a", "", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool within = uri_is_within(tidings_str(rows[i].uri), tidings_str(rows[i].prefix));
        if (within != rows[i].within) {
            fail_msg("'%s' within '%s': %d", rows[i].uri, rows[i].prefix, within);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_uris_have_one_spelling),
        cmocka_unit_test(rejected_uris_give_reason_and_place),
        cmocka_unit_test(length_is_bounded_before_and_after_encoding),
        cmocka_unit_test(small_buffer_and_failed_allocation_are_reported),
        cmocka_unit_test(patterns_keep_their_wildcards),
        cmocka_unit_test(canonical_uri_splits_into_its_parts),
        cmocka_unit_test(names_become_harmless_segments),
        cmocka_unit_test(every_name_survives_the_round_trip_through_a_uri),
        cmocka_unit_test(decoding_rejects_impossible_names),
        cmocka_unit_test(within_ends_on_segment_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
