/* SPDX-License-Identifier: MIT
 *
 * Split strictly, compare exactly: no prefixes, no suffixes, no other spellings of an address.
 */
#include "transport/guard.h"

#include "base/str.h"

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

static bool is_name(struct tidings_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && c != '-' && c != '.' && c != '_' && c != '[' && c != ']' && c != ':') {
            return false;
        }
    }
    return name.len > 0;
}

static bool is_loopback_name(struct tidings_str name)
{
    return str_eq_nocase(name, STR("localhost")) || str_eq(name, STR("127.0.0.1")) ||
           str_eq(name, STR("[::1]"));
}

bool guard_host(const struct guard *g, struct tidings_str host)
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
    return !g->is_loopback && g->host_count == 0 && is_name(name);
}

bool guard_origin(const struct guard *g, struct tidings_str origin)
{
    for (size_t i = 0; i < g->origin_count; i++) {
        if (str_eq(origin, tidings_str(g->origins[i]))) {
            return true;
        }
    }
    if (!g->is_loopback) {
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
