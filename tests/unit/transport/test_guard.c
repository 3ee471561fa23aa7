/* SPDX-License-Identifier: MIT
 *
 * Host and Origin: one case named after each trick by which a page on another site has reached
 * servers on the loopback.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "transport/guard.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const listed_hosts[] = {"notes.example", "box.local"};
static const char *const listed_origins[] = {"https://app.example:8443", "http://other.example"};

static const struct guard loopback = {.is_loopback = true};
static const struct guard loopback_listed = {.is_loopback = true,
                                             .hosts = listed_hosts,
                                             .host_count = 2,
                                             .origins = listed_origins,
                                             .origin_count = 2};
static const struct guard open_unlisted = {.is_loopback = false};
static const struct guard open_listed = {.is_loopback = false,
                                         .hosts = listed_hosts,
                                         .host_count = 2,
                                         .origins = listed_origins,
                                         .origin_count = 2};

static void refuse_host(const char *host)
{
    if (guard_host(&loopback, tidings_str(host)) ||
        guard_host(&loopback_listed, tidings_str(host)) ||
        guard_host(&open_listed, tidings_str(host))) {
        fail_msg("host '%s' was let in", host);
    }
}

static void refuse_origin(const char *origin)
{
    if (guard_origin(&loopback, tidings_str(origin)) ||
        guard_origin(&loopback_listed, tidings_str(origin)) ||
        guard_origin(&open_unlisted, tidings_str(origin)) ||
        guard_origin(&open_listed, tidings_str(origin))) {
        fail_msg("origin '%s' was let in", origin);
    }
}

static void refuse_hosts(const char *const *hosts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char origin[300];
        refuse_host(hosts[i]);
        snprintf(origin, sizeof(origin), "http://%s", hosts[i]);
        refuse_origin(origin);
        snprintf(origin, sizeof(origin), "https://%s", hosts[i]);
        refuse_origin(origin);
    }
}

#define TRICK(name, ...)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        static const char *const hosts[] = {__VA_ARGS__};                                          \
        refuse_hosts(hosts, COUNT(hosts));                                                         \
    }

TRICK(a_name_of_its_own_that_resolves_to_us, "evil.example", "evil.example:7777", "rebind.network")
TRICK(localhost_as_a_prefix, "localhost.evil.example", "localhost.evil.example:80",
      "localhostevil.example", "localhost-evil.example", "127.0.0.1.evil.example",
      "127.0.0.1.nip.io", "notes.example.evil.example")
TRICK(localhost_as_a_suffix, "evil.localhost", "evil-localhost", "xlocalhost", "x127.0.0.1",
      "evil.notes.example", "xnotes.example")
TRICK(user_info_before_the_name, "localhost@evil.example", "localhost:80@evil.example",
      "evil.example@localhost", "evil.example:80@localhost", "user:pw@localhost:80")
TRICK(other_spellings_of_the_address, "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1",
      "0177.0.0.1", "017700000001", "127.0.0.1.", "127.000.000.001", "127.0.0.2")
TRICK(the_unspecified_address, "0.0.0.0", "0", "[::]", "0.0.0.0:80", "[::]:80")
TRICK(ipv6_in_other_spellings, "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
      "[::1%25lo]", "[::0001]", "[0::1]")
TRICK(brackets_that_do_not_fit, "[::1", "::1", "::1]", "[::1]evil.example", "[[::1]]", "[::1]]",
      "[127.0.0.1]", "[localhost]", "[]")
TRICK(a_dot_at_the_end, "localhost.", "localhost.:80", "127.0.0.1.:80", "notes.example.")
TRICK(ports_that_are_none, "localhost:", "localhost:0", "localhost:65536", "localhost:99999",
      "localhost:080000", "localhost:+80", "localhost:-1", "localhost: 80", "localhost:80x",
      "localhost:80:80", "127.0.0.1:80/", "[::1]:", "[::1]:x", "localhost:18446744073709551697")
TRICK(a_path_query_or_fragment_behind, "localhost/evil.example", "localhost?evil.example",
      "localhost#evil.example", "localhost\\evil.example", "localhost;evil.example")
TRICK(two_names_in_one, "localhost,evil.example", "evil.example,localhost",
      "localhost evil.example", "evil.example localhost")
TRICK(blanks_around, " localhost", "localhost ", "\tlocalhost", "localhost\t", "\nlocalhost")
TRICK(letters_that_look_alike, "lоcalhost" /* Cyrillic */, "ｌocalhost", "localhoſt", "ⓛocalhost")
TRICK(percent_encoding, "%6cocalhost", "localhost%00.evil.example", "127.0.0.1%2eevil.example")

static void a_nul_inside_the_name(void **state)
{
    (void)state;
    static const char host[] = "localhost\0.evil.example";
    struct tidings_str s = {host, sizeof(host) - 1};
    assert_false(guard_host(&loopback, s));
    assert_false(guard_host(&loopback_listed, s));
    static const char origin[] = "http://localhost\0.evil.example";
    struct tidings_str o = {origin, sizeof(origin) - 1};
    assert_false(guard_origin(&loopback, o));
    static const char listed[] = "https://app.example:8443\0x";
    struct tidings_str l = {listed, sizeof(listed) - 1};
    assert_false(guard_origin(&loopback_listed, l));
}

static void an_empty_host(void **state)
{
    (void)state;
    refuse_host("");
    refuse_host(":80");
    assert_false(guard_host(&open_unlisted, STR_EMPTY));
    assert_false(guard_host(&open_unlisted, STR(":80")));
}

static void origins_of_opaque_or_other_schemes(void **state)
{
    (void)state;
    static const char *const origins[] = {
        "null",
        "",
        "file://",
        "file://localhost",
        "ftp://localhost",
        "ws://localhost",
        "chrome-extension://abcdef",
        "localhost",
        "//localhost",
        "http:localhost",
        "http:/localhost",
        "http:///localhost",
        "http://",
        "https://",
        "HTTP://localhost", /* browsers send it in lower case */
        "javascript:http://localhost",
        "http://localhost/",
        "http://localhost:80/",
        "http://localhost http://evil.example",
        "http://evil.example http://localhost",
        "http://http://localhost",
    };
    for (size_t i = 0; i < COUNT(origins); i++) {
        refuse_origin(origins[i]);
    }
}

static void listed_origins_are_compared_whole(void **state)
{
    (void)state;
    static const char *const near[] = {
        "http://app.example:8443",    "https://app.example",       "https://app.example:844",
        "https://app.example:84430",  "https://app.example:8443/", "https://APP.example:8443",
        "https://x.app.example:8443", "http://other.example:80",
    };
    for (size_t i = 0; i < COUNT(near); i++) {
        refuse_origin(near[i]);
    }
    assert_true(guard_origin(&open_listed, STR("https://app.example:8443")));
    assert_true(guard_origin(&loopback_listed, STR("http://other.example")));
    assert_false(guard_origin(&loopback, STR("http://other.example")));
}

static void the_loopback_is_let_in_by_its_three_names_at_any_port(void **state)
{
    (void)state;
    static const char *const names[] = {"localhost", "LocalHost", "127.0.0.1", "[::1]"};
    static const char *const ports[] = {"", ":1", ":80", ":7777", ":65535"};
    const struct guard *guards[] = {&loopback, &loopback_listed, &open_listed, &open_unlisted};
    for (size_t i = 0; i < COUNT(names) * COUNT(ports); i++) {
        char host[64], origin[80];
        snprintf(host, sizeof(host), "%s%s", names[i % COUNT(names)], ports[i / COUNT(names)]);
        for (size_t g = 0; g < COUNT(guards); g++) {
            assert_true(guard_host(guards[g], tidings_str(host)));
        }
        snprintf(origin, sizeof(origin), "%s://%s", i % 2 ? "http" : "https", host);
        assert_true(guard_origin(&loopback, tidings_str(origin)));
        assert_true(guard_origin(&loopback_listed, tidings_str(origin)));
        /* Beyond the loopback, a page on the client's own machine is a stranger. */
        assert_false(guard_origin(&open_unlisted, tidings_str(origin)));
    }
}

static void listed_hosts_are_let_in_at_any_port(void **state)
{
    (void)state;
    static const char *const hosts[] = {"notes.example", "Notes.Example:443", "box.local:7777"};
    for (size_t i = 0; i < COUNT(hosts); i++) {
        assert_true(guard_host(&open_listed, tidings_str(hosts[i])));
        assert_true(guard_host(&loopback_listed, tidings_str(hosts[i])));
        assert_false(guard_host(&loopback, tidings_str(hosts[i])));
    }
    assert_false(guard_host(&open_listed, STR("else.example")));
}

static void without_a_list_an_open_server_takes_any_well_formed_host(void **state)
{
    (void)state;
    static const char *const good[] = {"a.example", "a.example:80", "10.0.0.1:7777", "[fe80::1]:80",
                                       "my_box-1"};
    static const char *const bad[] = {"a b", "a/b",  "a@b", "[fe80::1",
                                      "a:b", "a\nb", "a,b", "\xff"};
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(guard_host(&open_unlisted, tidings_str(good[i])));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(guard_host(&open_unlisted, tidings_str(bad[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_of_its_own_that_resolves_to_us),
        cmocka_unit_test(localhost_as_a_prefix),
        cmocka_unit_test(localhost_as_a_suffix),
        cmocka_unit_test(user_info_before_the_name),
        cmocka_unit_test(other_spellings_of_the_address),
        cmocka_unit_test(the_unspecified_address),
        cmocka_unit_test(ipv6_in_other_spellings),
        cmocka_unit_test(brackets_that_do_not_fit),
        cmocka_unit_test(a_dot_at_the_end),
        cmocka_unit_test(ports_that_are_none),
        cmocka_unit_test(a_path_query_or_fragment_behind),
        cmocka_unit_test(two_names_in_one),
        cmocka_unit_test(blanks_around),
        cmocka_unit_test(letters_that_look_alike),
        cmocka_unit_test(percent_encoding),
        cmocka_unit_test(a_nul_inside_the_name),
        cmocka_unit_test(an_empty_host),
        cmocka_unit_test(origins_of_opaque_or_other_schemes),
        cmocka_unit_test(listed_origins_are_compared_whole),
        cmocka_unit_test(the_loopback_is_let_in_by_its_three_names_at_any_port),
        cmocka_unit_test(listed_hosts_are_let_in_at_any_port),
        cmocka_unit_test(without_a_list_an_open_server_takes_any_well_formed_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
