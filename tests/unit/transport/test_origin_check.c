/* SPDX-License-Identifier: MIT
 *
 * Host and Origin: one case for each trick that a page on another site has used to reach servers on
 * the loopback. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "transport/http_check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const listed_hosts[] = {"notes.example", "box.local"};
static const char *const listed_origins[] = {"https://app.example:8443", "http://other.example"};

static const struct origin_check unlisted;
static const struct origin_check listed = {
    .hosts = listed_hosts, .host_count = 2, .origins = listed_origins, .origin_count = 2};

/* Over loopback, over a Unix socket, and from other machines. */
static const struct arrival near = {.address = "127.0.0.1", .is_local = true};
static const struct arrival by_path = {.address = "", .is_local = true};
static const struct arrival far = {.address = "192.0.2.1", .is_local = false};
static const struct arrival *const arrivals[] = {&near, &by_path, &far};

static bool is_let_in(const struct origin_check *g, const struct arrival *at,
                      struct tidings_str host)
{
    return origin_check_knows_host(g, host) || origin_check_own_host(at, NULL, host);
}

static void refuse_host_text(struct tidings_str host)
{
    for (size_t i = 0; i < COUNT(arrivals); i++) {
        if (is_let_in(&unlisted, arrivals[i], host) || is_let_in(&listed, arrivals[i], host)) {
            fail_msg("host '%.*s' was let in", (int)host.len, host.ptr);
        }
    }
}

static void refuse_host(const char *host)
{
    refuse_host_text(tidings_str(host));
}

static void refuse_origin_text(struct tidings_str origin)
{
    for (size_t i = 0; i < COUNT(arrivals); i++) {
        if (origin_check_allows(&unlisted, arrivals[i], origin) ||
            origin_check_allows(&listed, arrivals[i], origin)) {
            fail_msg("origin '%.*s' was let in", (int)origin.len, origin.ptr);
        }
    }
}

static void refuse_origin(const char *origin)
{
    refuse_origin_text(tidings_str(origin));
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

TRICK(host_is_refused_if_a_foreign_name_resolves_to_this_server, "evil.example",
      "evil.example:7777", "rebind.network")
TRICK(host_is_refused_if_localhost_is_only_a_prefix, "localhost.evil.example",
      "localhost.evil.example:80", "localhostevil.example", "localhost-evil.example",
      "127.0.0.1.evil.example", "127.0.0.1.nip.io", "notes.example.evil.example")
TRICK(host_is_refused_if_localhost_is_only_a_suffix, "evil.localhost", "evil-localhost",
      "xlocalhost", "x127.0.0.1", "evil.notes.example", "xnotes.example")
TRICK(host_is_refused_if_it_contains_user_info, "localhost@evil.example",
      "localhost:80@evil.example", "evil.example@localhost", "evil.example:80@localhost",
      "user:pw@localhost:80")
TRICK(host_is_refused_in_other_spellings_of_the_address, "127.1", "127.0.1", "2130706433",
      "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.", "127.000.000.001",
      "127.0.0.2")
TRICK(host_is_refused_if_unspecified_address, "0.0.0.0", "0", "[::]", "0.0.0.0:80", "[::]:80")
TRICK(host_is_refused_in_other_spellings_of_ipv6, "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]", "[::1%25lo]", "[::0001]", "[0::1]")
TRICK(host_is_refused_if_brackets_do_not_match, "[::1", "::1", "::1]", "[::1]evil.example",
      "[[::1]]", "[::1]]", "[127.0.0.1]", "[localhost]", "[]")
TRICK(host_is_refused_with_a_trailing_dot, "localhost.", "localhost.:80", "127.0.0.1.:80",
      "notes.example.")
TRICK(host_is_refused_with_an_invalid_port, "localhost:", "localhost:0", "localhost:65536",
      "localhost:99999", "localhost:080000", "localhost:+80", "localhost:-1", "localhost: 80",
      "localhost:80x", "localhost:80:80", "127.0.0.1:80/", "[::1]:", "[::1]:x",
      "localhost:18446744073709551697")
TRICK(host_is_refused_with_a_path_query_or_fragment, "localhost/evil.example",
      "localhost?evil.example", "localhost#evil.example", "localhost\\evil.example",
      "localhost;evil.example")
TRICK(host_is_refused_if_it_contains_two_names, "localhost,evil.example", "evil.example,localhost",
      "localhost evil.example", "evil.example localhost")
TRICK(host_is_refused_with_surrounding_blanks, " localhost", "localhost ", "\tlocalhost",
      "localhost\t", "\nlocalhost")
TRICK(host_is_refused_with_lookalike_letters, "lоcalhost" /* Cyrillic */, "ｌocalhost", "localhoſt",
      "ⓛocalhost")
TRICK(host_is_refused_if_percent_encoded, "%6cocalhost", "localhost%00.evil.example",
      "127.0.0.1%2eevil.example")

static void host_is_refused_if_its_name_contains_a_nul(void **state)
{
    (void)state;
    static const char host[] = "localhost\0.evil.example";
    refuse_host_text(tidings_strn(host, sizeof(host) - 1));
    static const char origin[] = "http://localhost\0.evil.example";
    refuse_origin_text(tidings_strn(origin, sizeof(origin) - 1));
    static const char longer[] = "https://app.example:8443\0x";
    refuse_origin_text(tidings_strn(longer, sizeof(longer) - 1));
}

static void host_is_refused_if_empty(void **state)
{
    (void)state;
    refuse_host("");
    refuse_host(":80");
}

static void origins_are_refused_if_opaque_or_of_other_schemes(void **state)
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

static void listed_origins_are_compared_in_full(void **state)
{
    (void)state;
    static const char *const alike[] = {
        "http://app.example:8443",    "https://app.example",       "https://app.example:844",
        "https://app.example:84430",  "https://app.example:8443/", "https://APP.example:8443",
        "https://x.app.example:8443", "http://other.example:80",
    };
    for (size_t i = 0; i < COUNT(alike); i++) {
        refuse_origin(alike[i]);
    }
    assert_true(origin_check_allows(&listed, &far, STR("https://app.example:8443")));
    assert_true(origin_check_allows(&listed, &near, STR("http://other.example")));
    assert_false(origin_check_allows(&unlisted, &near, STR("http://other.example")));
}

static void loopback_is_accepted_by_its_three_names_at_any_port(void **state)
{
    (void)state;
    static const char *const names[] = {"localhost", "LocalHost", "127.0.0.1", "[::1]"};
    static const char *const ports[] = {"", ":1", ":80", ":7777", ":65535"};
    for (size_t i = 0; i < COUNT(names) * COUNT(ports); i++) {
        char host[64], origin[80];
        snprintf(host, sizeof(host), "%s%s", names[i % COUNT(names)], ports[i / COUNT(names)]);
        assert_true(origin_check_knows_host(&unlisted, tidings_str(host)));
        assert_true(origin_check_knows_host(&listed, tidings_str(host)));
        snprintf(origin, sizeof(origin), "%s://%s", i % 2 ? "http" : "https", host);
        assert_true(origin_check_allows(&unlisted, &near, tidings_str(origin)));
        assert_true(origin_check_allows(&unlisted, &by_path, tidings_str(origin)));
        /* For another machine, a page on that machine is not trusted. */
        assert_false(origin_check_allows(&unlisted, &far, tidings_str(origin)));
        assert_false(origin_check_allows(&listed, &far, tidings_str(origin)));
    }
}

static void listed_hosts_are_accepted_at_any_port(void **state)
{
    (void)state;
    static const char *const hosts[] = {"notes.example", "Notes.Example:443", "box.local:7777"};
    for (size_t i = 0; i < COUNT(hosts); i++) {
        assert_true(origin_check_knows_host(&listed, tidings_str(hosts[i])));
        assert_false(origin_check_knows_host(&unlisted, tidings_str(hosts[i])));
    }
    assert_false(origin_check_knows_host(&listed, STR("else.example")));
}

static void only_the_local_address_of_the_connection_is_a_valid_host(void **state)
{
    (void)state;
    static const struct arrival six = {.address = "[2001:db8::1]"};
    assert_true(origin_check_own_host(&far, NULL, STR("192.0.2.1")));
    assert_true(origin_check_own_host(&far, NULL, STR("192.0.2.1:7777")));
    assert_true(origin_check_own_host(&six, NULL, STR("[2001:DB8::1]:80")));
    static const char *const others[] = {
        "192.0.2.10",     "192.0.2.1.",      "192.0.2.1.evil.example",
        "192.0.2",        "[192.0.2.1]",     "[2001:db8::1",
        "2001:db8::1",    "[2001:db8:0::1]", "evil.example",
        "192.0.2.1@evil", "192.0.2.1:x",     ""};
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_false(origin_check_own_host(&far, NULL, tidings_str(others[i])));
        assert_false(origin_check_own_host(&six, NULL, tidings_str(others[i])));
        assert_false(origin_check_own_host(&by_path, NULL, tidings_str(others[i])));
    }
}

static void arrive(int family, const char *address, const char *expected, bool is_local)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {0};
    int one = 1, fd = socket(family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    at.any.sa_family = (sa_family_t)family;
    assert_int_equal(
        inet_pton(family, address,
                  family == AF_INET ? (void *)&at.v4.sin_addr : (void *)&at.v6.sin6_addr),
        1);
    setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)); /* it need not be local */
    socklen_t len = family == AF_INET ? sizeof(at.v4) : sizeof(at.v6);
    if (bind(fd, &at.any, len) < 0) { /* no IPv6 here */
        assert_int_equal(family, AF_INET6);
    } else {
        struct arrival got;
        origin_check_arrival(fd, &got);
        assert_string_equal(got.address, expected);
        assert_int_equal(got.is_local, is_local);
    }
    close(fd);
}

static void local_address_comes_from_the_kernel(void **state)
{
    (void)state;
    arrive(AF_INET, "127.0.0.1", "127.0.0.1", true);
    arrive(AF_INET, "127.9.8.7", "127.9.8.7", true);
    arrive(AF_INET, "192.0.2.1", "192.0.2.1", false);
    arrive(AF_INET6, "::1", "[::1]", true);
    arrive(AF_INET6, "::ffff:127.0.0.1", "127.0.0.1", true);
    arrive(AF_INET6, "::ffff:192.0.2.1", "192.0.2.1", false);
    arrive(AF_INET6, "2001:db8::1", "[2001:db8::1]", false);
    int pair[2];
    struct arrival got;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    origin_check_arrival(pair[0], &got);
    assert_string_equal(got.address, "");
    assert_true(got.is_local);
    close(pair[0]);
    close(pair[1]);
    origin_check_arrival(-1, &got);
    assert_string_equal(got.address, "");
    assert_false(got.is_local);
}

static void own_page_is_recognized_by_its_host(void **state)
{
    (void)state;
    struct tidings_str host = tidings_str("files.example:8443");
    assert_true(origin_check_is_own(tidings_str("https://files.example:8443"), host, true));
    assert_true(origin_check_is_own(tidings_str("https://FILES.example:8443"), host, true));
    assert_true(origin_check_is_own(tidings_str("http://files.example:8443"), host, false));
    assert_true(origin_check_is_own(tidings_str("https://files.example:8443"), host, false));
    static const char *const others[] = {"https://files.example",
                                         "https://files.example:8444",
                                         "https://files.example:84430",
                                         "https://evil.example:8443",
                                         "files.example:8443",
                                         "null",
                                         "https://files.example:8443/",
                                         "ftp://files.example:8443",
                                         "",
                                         "https://",
                                         "https://x.files.example:8443"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(origin_check_is_own(tidings_str(others[i]), host, false));
    }
    assert_false(origin_check_is_own(tidings_str("http://files.example:8443"), host, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_refused_if_a_foreign_name_resolves_to_this_server),
        cmocka_unit_test(host_is_refused_if_localhost_is_only_a_prefix),
        cmocka_unit_test(host_is_refused_if_localhost_is_only_a_suffix),
        cmocka_unit_test(host_is_refused_if_it_contains_user_info),
        cmocka_unit_test(host_is_refused_in_other_spellings_of_the_address),
        cmocka_unit_test(host_is_refused_if_unspecified_address),
        cmocka_unit_test(host_is_refused_in_other_spellings_of_ipv6),
        cmocka_unit_test(host_is_refused_if_brackets_do_not_match),
        cmocka_unit_test(host_is_refused_with_a_trailing_dot),
        cmocka_unit_test(host_is_refused_with_an_invalid_port),
        cmocka_unit_test(host_is_refused_with_a_path_query_or_fragment),
        cmocka_unit_test(host_is_refused_if_it_contains_two_names),
        cmocka_unit_test(host_is_refused_with_surrounding_blanks),
        cmocka_unit_test(host_is_refused_with_lookalike_letters),
        cmocka_unit_test(host_is_refused_if_percent_encoded),
        cmocka_unit_test(host_is_refused_if_its_name_contains_a_nul),
        cmocka_unit_test(host_is_refused_if_empty),
        cmocka_unit_test(origins_are_refused_if_opaque_or_of_other_schemes),
        cmocka_unit_test(listed_origins_are_compared_in_full),
        cmocka_unit_test(loopback_is_accepted_by_its_three_names_at_any_port),
        cmocka_unit_test(listed_hosts_are_accepted_at_any_port),
        cmocka_unit_test(only_the_local_address_of_the_connection_is_a_valid_host),
        cmocka_unit_test(local_address_comes_from_the_kernel),
        cmocka_unit_test(own_page_is_recognized_by_its_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
