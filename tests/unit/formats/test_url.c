/* SPDX-License-Identifier: MIT
 *
 * Untrusted URLs: valid ones, the servers that may get a secret, the URLs that a resource covers,
 * document addresses; and forms. */
#include "formats/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void only_plain_urls_are_read(void **state)
{
    static const char *const bad[] = {
        "",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://a/",
        "//a/b",
        "https://",
        "https:///path",
        "https://user@host/",
        "https://user:pass@host/",
        "https://host/#fragment",
        "https://host:0/",
        "https://host:65536/",
        "https://host:8x/",
        "https://ho st/",
        "https://host/\x1b[2J",
        "https://host/\n",
        "https://h\xc3\xb6st/",
        "https://[::1/",
        "https://[::1]x/",
        "https://host\\@evil/",
        "https://host/\"><script>",
        "https://host/a/../b",
        "https://host/..",
        "https://host/a/./b",
        "https://host/a/%2e%2E/b",
        "https://host/a/.%2e",
    };
    struct url u;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (url_read(tidings_str(bad[i]), &u)) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    assert_true(url_read(STR("https://host:8443/a/b?c=d"), &u));
    assert_true(str_eq(u.origin, STR("https://host:8443")));
    assert_true(str_eq(u.host, STR("host")) && u.port == 8443 && u.is_https);
    assert_true(str_eq(u.path, STR("/a/b")) && str_eq(u.query, STR("c=d")));
    assert_true(url_read(STR("http://[::1]:7/"), &u) && u.port == 7 && !u.is_https);
    assert_true(url_read(STR("https://host/.well-known/a..b/..."), &u));
    assert_true(url_read(STR("https://host?q"), &u) && u.path.len == 0 && u.port == 443);
}

static void secrets_are_sent_only_by_https_or_to_this_machine(void **state)
{
    static const struct {
        const char *url;
        bool is_safe;
    } cases[] = {
        {"https://anywhere.test/", true},
        {"http://anywhere.test/", false},
        {"http://localhost:1/", true},
        {"http://LOCALHOST/", true},
        {"http://127.0.0.1/", true},
        {"http://127.1.2.3:5/", true},
        {"http://[::1]/", true},
        {"http://127.evil.test/", false},
        {"http://127.0.0.1.evil.test/", false},
        {"http://localhost.evil.test/", false},
        {"http://10.0.0.1/", false},
        {"http://127./", false},
        {"http://127.1/", false},
        {"http://127.0.0.1.5/", false},
        {"http://127.0.0.256/", false},
    };
    struct url u;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(url_read(tidings_str(cases[i].url), &u));
        if (url_is_safe(&u) != cases[i].is_safe) {
            fail_msg("wrong: %s", cases[i].url);
        }
    }
}

static void remote_server_cannot_redirect_to_this_machine(void **state)
{
    static const struct {
        const char *server, *next;
        bool may;
    } cases[] = {
        {"https://a.test/mcp", "https://as.test/x", true},
        {"https://a.test/mcp", "http://as.test/x", false},
        {"https://a.test/mcp", "http://localhost:8080/x", false},
        {"https://a.test/mcp", "https://127.0.0.1/x", false},
        {"https://a.test/mcp", "https://[::1]/x", false},
        {"https://a.test/mcp", "https://[0:0::1]/x", false},
        {"https://a.test/mcp", "https://[::]/x", false},
        {"https://a.test/mcp", "https://[::ffff:127.0.0.1]/x", false},
        {"https://a.test/mcp", "https://[2001:db8::1]/x", true},
        {"https://a.test/mcp", "https://127.1/x", false},
        {"https://a.test/mcp", "https://2130706433/x", false},
        {"https://a.test/mcp", "https://0x7f000001/x", false},
        {"https://a.test/mcp", "https://0/x", false},
        {"https://a.test/mcp", "https://0.0.0.0/x", false},
        {"https://a.test/mcp", "https://x.localhost/x", false},
        {"https://a.test/mcp", "https://LOCALHOST./x", false},
        {"https://a.test/mcp", "https://10.0.0.1/x", true},
        {"http://localhost:1/mcp", "http://127.0.0.1:2/x", true},
        {"http://127.0.0.1/mcp", "https://as.test/x", true},
        {"http://127.0.0.1/mcp", "http://as.test/x", false},
    };
    struct url a, b;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(url_read(tidings_str(cases[i].server), &a));
        assert_true(url_read(tidings_str(cases[i].next), &b));
        if (url_may_lead(&a, &b) != cases[i].may) {
            fail_msg("wrong: %s to %s", cases[i].server, cases[i].next);
        }
    }
}

static void resource_covers_the_urls_below_it(void **state)
{
    static const struct {
        const char *resource, *server;
        bool covers;
    } cases[] = {
        {"https://a.test", "https://a.test/mcp", true},
        {"https://a.test/", "https://a.test/mcp", true},
        {"https://A.test/mcp", "https://a.TEST:443/mcp", true},
        {"https://a.test/mcp", "https://a.test/mcp/x", true},
        {"https://a.test/mcp/", "https://a.test/mcp", true},
        {"https://a.test/mcp", "https://a.test/mcpx", false},
        {"https://a.test/mcp/x", "https://a.test/mcp", false},
        {"https://a.test/MCP", "https://a.test/mcp", false},
        {"http://a.test/mcp", "https://a.test/mcp", false},
        {"https://b.test/mcp", "https://a.test/mcp", false},
        {"https://a.test:444/mcp", "https://a.test/mcp", false},
        {"https://a.test/mcp?t=1", "https://a.test/mcp?t=2", false},
    };
    struct url a, b;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(url_read(tidings_str(cases[i].resource), &a));
        assert_true(url_read(tidings_str(cases[i].server), &b));
        if (url_covers(&a, &b) != cases[i].covers) {
            fail_msg("wrong: %s of %s", cases[i].resource, cases[i].server);
        }
    }
}

static void documents_have_their_addresses(void **state)
{
    struct buf out;
    struct url u;
    (void)state;
    buf_init(&out, 4096);
    assert_true(url_read(STR("https://a.test/tenant/"), &u));
    assert_int_equal(url_put_well_known(&out, &u, "x", false), 0);
    assert_string_equal(out.ptr, "https://a.test/.well-known/x/tenant");
    buf_clear(&out);
    assert_int_equal(url_put_well_known(&out, &u, "x", true), 0);
    assert_string_equal(out.ptr, "https://a.test/tenant/.well-known/x");
    buf_clear(&out);
    assert_true(url_read(STR("https://a.test?q=1"), &u));
    assert_int_equal(url_put_well_known(&out, &u, "x", false), 0);
    assert_string_equal(out.ptr, "https://a.test/.well-known/x?q=1");
    buf_deinit(&out);
}

static void forms_are_written_and_read(void **state)
{
    struct buf out, value;
    (void)state;
    buf_init(&out, 4096);
    buf_init(&value, 64);
    encoded_form_put(&out, "a", "x y&z=\xc3\xa4%+");
    encoded_form_put(&out, "none", NULL);
    encoded_form_put(&out, "b", "");
    assert_string_equal(out.ptr, "a=x%20y%26z%3D%C3%A4%25%2B&b=");
    assert_int_equal(encoded_form_find(buf_str(&out), "a", &value), 1);
    assert_string_equal(value.ptr, "x y&z=\xc3\xa4%+");
    buf_clear(&value);
    assert_int_equal(encoded_form_find(STR("c=1&a=x+y"), "a", &value), 1);
    assert_string_equal(value.ptr, "x y");
    assert_int_equal(encoded_form_find(STR("c=1"), "a", &value), 0);
    assert_int_equal(encoded_form_find(STR("a=1&a=2"), "a", &value), TIDINGS_E_PARSE);
    assert_int_equal(encoded_form_find(STR("a=%4"), "a", &value), TIDINGS_E_PARSE);
    assert_int_equal(encoded_form_find(STR("a=%zz"), "a", &value), TIDINGS_E_PARSE);
    assert_int_equal(encoded_form_find(STR("a=%00"), "a", &value), TIDINGS_E_PARSE);
    buf_clear(&value);
    assert_int_equal(encoded_form_find(STR("a=0123456789012345678901234567890123456789012345678901"
                                           "23456789012345"),
                                       "a", &value),
                     TIDINGS_E_LIMIT);
    buf_deinit(&out);
    buf_deinit(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_urls_are_read),
        cmocka_unit_test(secrets_are_sent_only_by_https_or_to_this_machine),
        cmocka_unit_test(remote_server_cannot_redirect_to_this_machine),
        cmocka_unit_test(resource_covers_the_urls_below_it),
        cmocka_unit_test(documents_have_their_addresses),
        cmocka_unit_test(forms_are_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
