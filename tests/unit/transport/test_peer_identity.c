/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/peer_identity.h"

static bool came_from(const char *address, char out[QUOTA_NAME_MAX])
{
    union socket_address from = {0};
    if (strchr(address, ':')) {
        from.v6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, address, &from.v6.sin6_addr), 1);
    } else {
        from.v4.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, address, &from.v4.sin_addr), 1);
    }
    return peer_identity_quota_name(-1, &from, out);
}

static void ipv4_addresses_count_singly_and_ipv6_by_network(void **state)
{
    (void)state;
    static const struct {
        const char *address, *name;
        bool is_local;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.255.0.9", "127.255.0.9", true},
        {"128.0.0.1", "128.0.0.1", false},
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", false},
        {"2001:db8:1:2::", "2001:db8:1:2::/64", false},
        {"2001:db8:1:3::1", "2001:db8:1:3::/64", false},
        {"::1", "::/64", true},
        {"::ffff:192.0.2.1", "192.0.2.1", false},
        {"::ffff:127.0.0.1", "127.0.0.1", true},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff::/64", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[QUOTA_NAME_MAX];
        assert_int_equal(came_from(rows[i].address, name), rows[i].is_local);
        assert_string_equal(name, rows[i].name);
    }
}

static void unix_socket_counts_by_its_user(void **state)
{
    (void)state;
    int pair[2];
    char name[QUOTA_NAME_MAX], expected[QUOTA_NAME_MAX];
    union socket_address from = {.any.sa_family = AF_UNIX};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_true(peer_identity_quota_name(pair[0], &from, name));
    snprintf(expected, sizeof(expected), "uid:%lu", (unsigned long)getuid());
    assert_string_equal(name, expected);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_addresses_count_singly_and_ipv6_by_network),
        cmocka_unit_test(unix_socket_counts_by_its_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
