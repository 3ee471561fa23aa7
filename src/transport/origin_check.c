/* SPDX-License-Identifier: MIT
 *
 * Compares Host and Origin with the names that a server answers to: split strictly, compared
 * exactly, without prefixes, suffixes or other spellings of an address.
 */
#include "transport/origin_check.h"

#include <stdio.h>

#include "base/str.h"
#include "transport/socket_address.h"

/* "name", "name:80", "[::1]", "[::1]:80" -> the name; false when it is anything else. */
static bool split_port(struct tidings_str s, struct tidings_str *name)
{
    size_t end = 0;
    if (s.len > 0 && s.ptr[0] == '[') {
        ptrdiff_t close = str_find(s, ']');
        if (close < 0) {
            return false;
        }
        end = (size_t)close + 1;
    } else {
        ptrdiff_t colon = str_find(s, ':');
        end = colon < 0 ? s.len : (size_t)colon;
    }
    *name = tidings_strn(s.ptr, end);
    struct tidings_str rest = str_skip(s, end);
    if (end == 0) {
        return false;
    }
    if (rest.len == 0) {
        return true;
    }
    uint64_t port = 0;
    return rest.ptr[0] == ':' && rest.len <= 6 && str_to_u64(str_skip(rest, 1), &port) &&
           port > 0 && port <= 65535;
}

static bool is_loopback_name(struct tidings_str name)
{
    return str_eq_nocase(name, STR("localhost")) || str_eq(name, STR("127.0.0.1")) ||
           str_eq(name, STR("[::1]"));
}

bool origin_check_knows_host(const struct origin_check *g, struct tidings_str host)
{
    struct tidings_str name;
    if (!split_port(host, &name)) {
        return false;
    }
    if (is_loopback_name(name)) {
        return true;
    }
    for (size_t i = 0; i < g->host_count; i++) {
        if (str_eq_nocase(name, tidings_str(g->hosts[i])) ||
            str_eq_nocase(host, tidings_str(g->hosts[i]))) {
            return true;
        }
    }
    return false;
}

static void put_v6(const struct in6_addr *a, struct arrival *ret)
{
    char text[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(a)) { /* it came by IPv4, and is called so */
        inet_ntop(AF_INET, &a->s6_addr[12], ret->address, sizeof(ret->address));
        return;
    }
    inet_ntop(AF_INET6, a, text, sizeof(text));
    snprintf(ret->address, sizeof(ret->address), "[%s]", text);
}

void origin_check_arrival(int fd, struct arrival *ret)
{
    union socket_address to = {0};
    socklen_t len = sizeof(to);
    *ret = (struct arrival){.address = ""};
    if (getsockname(fd, &to.any, &len) < 0) {
        return;
    }
    ret->is_local = socket_address_is_local(&to);
    if (to.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &to.v4.sin_addr, ret->address, sizeof(ret->address));
    } else if (to.any.sa_family == AF_INET6) {
        put_v6(&to.v6.sin6_addr, ret);
    }
}

bool origin_check_own_host(const struct arrival *at, const struct tls_session *tls,
                           struct tidings_str host)
{
    struct tidings_str name;
    if (!split_port(host, &name)) {
        return false;
    }
    return str_eq_nocase(name, tidings_str(at->address)) || (tls && tls_session_is_for(tls, name));
}

bool origin_check_allows(const struct origin_check *g, const struct arrival *at,
                         struct tidings_str origin)
{
    for (size_t i = 0; i < g->origin_count; i++) {
        if (str_eq(origin, tidings_str(g->origins[i]))) {
            return true;
        }
    }
    if (!at->is_local) {
        return false;
    }
    static const struct tidings_str schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2; i++) {
        struct tidings_str name;
        if (str_starts(origin, schemes[i]) && split_port(str_skip(origin, schemes[i].len), &name)) {
            return is_loopback_name(name);
        }
    }
    return false;
}

bool origin_check_is_own(struct tidings_str origin, struct tidings_str host, bool is_tls)
{
    /* Without TLS here there may be a proxy in front that has it: what a page was fetched by. */
    static const struct tidings_str schemes[] = {{"https://", 8}, {"http://", 7}};
    for (size_t i = 0; i < (is_tls ? 1u : 2u); i++) {
        if (str_starts(origin, schemes[i])) {
            return str_eq_nocase(str_skip(origin, schemes[i].len), host);
        }
    }
    return false;
}
