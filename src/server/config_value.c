/* SPDX-License-Identifier: MIT
 *
 * One value of the configuration as text: parse it, judge it, write it back. What is written here
 * is read back to the same value. Nothing is stored and nothing is allocated but the buffers'
 * growth.
 */
#include "server/access_loader.h"
#include "server/config_private.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/error.h"
#include "base/units.h"
#include "server/option_rules.h"
#include "uri/pattern.h"
#include "uri/uri.h"
#include "wire/bearer.h"

#define SOCKET_PATH_MAX 107u /* what the kernel takes */

int config_put_accepted(struct buf *out, const struct config_row *row)
{
    switch (row->type) {
    case CONFIG_BOOL:
        return buf_puts(out, STR("true or false"));
    case CONFIG_NUMBER:
        return buf_putf(out, "%" PRIu64 " to %" PRIu64, row->min, row->max);
    case CONFIG_SIZE:
        units_put_size(out, row->min);
        buf_puts(out, STR(" to "));
        units_put_size(out, row->max);
        return buf_puts(out, STR(", in bytes or with k, m, g"));
    case CONFIG_DURATION:
        units_put_duration(out, row->min);
        buf_puts(out, STR(" to "));
        units_put_duration(out, row->max);
        return buf_puts(out, STR(", in seconds or with ms, s, m, h"));
    case CONFIG_CHOICE:
        for (size_t i = 0; row->choices[i]; i++) {
            buf_putf(out, "%s%s", i > 0 ? ", " : "", row->choices[i]);
        }
        return out->failed;
    case CONFIG_LEVELS:
        return buf_puts(out, STR("off, error, warn, info, debug; also info,store=debug"));
    case CONFIG_TEXT:
        return buf_puts(out, STR("text"));
    case CONFIG_PATH:
    case CONFIG_FILES:
        return buf_puts(out, STR("paths of files"));
    case CONFIG_MODE:
        return buf_puts(out, STR("permissions in octal such as 0660"));
    case CONFIG_ADDRESS:
    case CONFIG_ADDRESSES:
        return buf_puts(out, STR("ADDR:PORT such as 127.0.0.1:7777 or [::1]:7777"));
    case CONFIG_GLOBS:
        return buf_puts(out, STR("globs such as *.tmp"));
    case CONFIG_ORIGINS:
        return buf_puts(out, STR("origins such as https://app.example:8443"));
    case CONFIG_HOSTS:
        return buf_puts(out, STR("host names, with a port or without"));
    case CONFIG_RULES:
        return buf_puts(out, STR("objects with uri, options and limits"));
    case CONFIG_ACCESS:
        return buf_puts(out, STR("objects with principal, by, scope, uri, match and allow"));
    case CONFIG_PREFIXES:
        return buf_puts(out, STR("URI prefixes that end in '/' such as app:///notes/"));
    case CONFIG_PATHS:
        return buf_puts(out, STR("paths such as /run/tidings/mcp.sock"));
    case CONFIG_WORDS:
        return buf_puts(out, STR("words of visible ASCII without quotes"));
    case CONFIG_MOUNTS:
        return buf_puts(out, STR("URI=DIR such as file://data/=./data"));
    }
    return 0;
}

/* The failure of a row: the value and what would have done. */
static int reject(const struct config_row *row, struct tidings_str s, const char *why,
                  struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct buf accepted;
    buf_init(&accepted, 160);
    config_put_accepted(&accepted, row);
    tidings_fail(err, TIDINGS_E_INVALID, "'%s' %s (accepted: %s)", config_quote(s, shown), why,
                 accepted.ptr ? accepted.ptr : "");
    buf_deinit(&accepted);
    return TIDINGS_E_INVALID;
}

int config_parse_bool(struct tidings_str s, bool *out, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_BOOL};
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_eq_nocase(s, tidings_str(words[i]))) {
            *out = i % 2 == 1;
            return 0;
        }
    }
    return reject(&row, s, "is neither true nor false", err);
}

int config_parse_number(const struct config_row *row, struct tidings_str s, uint64_t *out,
                        struct tidings_error *err)
{
    uint64_t n;
    bool ok;
    const char *noun;
    if (row->type == CONFIG_SIZE) {
        ok = units_parse_size(s, &n);
        noun = "is not a size";
    } else if (row->type == CONFIG_DURATION) {
        ok = units_parse_duration(s, &n);
        noun = "is not a duration";
    } else {
        ok = str_to_u64(s, &n);
        noun = "is not a number";
    }
    if (!ok) {
        return reject(row, s, noun, err);
    }
    if (n < row->min || n > row->max) {
        return reject(row, s, "is out of range", err);
    }
    *out = n;
    return 0;
}

int config_parse_choice(const struct config_row *row, struct tidings_str s, unsigned *out,
                        struct tidings_error *err)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (str_eq(s, tidings_str(row->choices[i]))) {
            *out = i;
            return 0;
        }
    }
    return reject(row, s, "is none of the choices", err);
}

/* Split "host:port", "[host]:port" or "port". False: not of these forms. */
static bool split_address(struct tidings_str s, struct tidings_str *host, struct tidings_str *port)
{
    if (s.len > 0 && s.ptr[0] == '[') {
        ptrdiff_t close = str_find(s, ']');
        if (close < 0 || (size_t)close + 1 >= s.len || s.ptr[close + 1] != ':') {
            return false;
        }
        *host = tidings_strn(s.ptr + 1, (size_t)close - 1);
        *port = str_skip(s, (size_t)close + 2);
        return true;
    }
    bool found;
    struct tidings_str rest;
    struct tidings_str first = str_cut(s, ':', &rest, &found);
    *host = found ? first : STR("127.0.0.1");
    *port = found ? rest : first;
    return host->len > 0;
}

int config_parse_address(struct tidings_str s, struct config_address *out,
                         struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_ADDRESS};
    struct tidings_str host, port;
    struct config_address a = {0};
    uint64_t number;
    if (!split_address(s, &host, &port)) {
        return reject(&row, s, "is not an address", err);
    }
    if (!str_to_u64(port, &number) || number > 65535) {
        return reject(&row, s, "has no port from 0 to 65535", err);
    }
    if (str_eq_nocase(host, STR("localhost"))) {
        host = STR("127.0.0.1");
    }
    if (host.len >= sizeof(a.host)) {
        return reject(&row, s, "has no numeric address", err);
    }
    memcpy(a.host, host.ptr, host.len);
    struct in6_addr bits;
    bool bracketed = s.ptr[0] == '[';
    if (memchr(host.ptr, '\0', host.len) ||
        inet_pton(bracketed ? AF_INET6 : AF_INET, a.host, &bits) != 1) {
        return reject(&row, s, "has no numeric address", err);
    }
    a.port = (uint16_t)number;
    *out = a;
    return 0;
}

int config_parse_mode(struct tidings_str s, unsigned *out, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_MODE};
    unsigned mode = 0;
    bool ok = s.len > 0 && s.len <= 4;
    for (size_t i = 0; ok && i < s.len; i++) {
        ok = s.ptr[i] >= '0' && s.ptr[i] <= '7';
        mode = mode * 8 + (unsigned)(s.ptr[i] - '0');
    }
    if (!ok || mode > 0777) {
        return reject(&row, s, "is not a mode", err);
    }
    *out = mode;
    return 0;
}

bool config_address_is_loopback(const struct config_address *a)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, a->host, &four) == 1) {
        return (ntohl(four.s_addr) >> 24) == 127;
    }
    return inet_pton(AF_INET6, a->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~') {
            return false;
        }
    }
    return s.len > 0;
}

/* "host" or "host:port" or "[v6]:port": nothing that belongs to a path or a user. */
static bool config_value_is_host(struct tidings_str s)
{
    static const char banned[] = "/\\@?#,*";
    for (size_t i = 0; i < s.len; i++) {
        if (strchr(banned, s.ptr[i])) {
            return false;
        }
    }
    return is_visible(s);
}

static bool is_origin(struct tidings_str s)
{
    for (size_t i = 0; i + 3 < s.len; i++) {
        if (memcmp(s.ptr + i, "://", 3) == 0) {
            return i > 0 && is_visible(tidings_strn(s.ptr, i)) &&
                   config_value_is_host(str_skip(s, i + 3));
        }
    }
    return false;
}

/* Spelled canonically, so that it can be compared with what lies below it. */
static int check_prefix(struct tidings_str s, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_PREFIXES};
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri_canonical(s, &canonical, err);
    if (rc == 0 && !str_ends(buf_str(&canonical), STR("/"))) {
        rc = reject(&row, s, "is not a prefix", err);
    } else if (rc == 0 && !str_eq(s, buf_str(&canonical))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' must be written '%.*s'", STR_ARG(s),
                          STR_ARG(buf_str(&canonical)));
    }
    buf_deinit(&canonical);
    return rc;
}

int config_check_item(enum config_type type, struct tidings_str s, struct tidings_error *err)
{
    const struct config_row row = {.type = type};
    if (type == CONFIG_HOSTS && !config_value_is_host(s)) {
        return reject(&row, s, "is not a host", err);
    }
    if (type == CONFIG_ORIGINS && !is_origin(s)) {
        return reject(&row, s, "is not an origin", err);
    }
    if (type == CONFIG_RULES) {
        return rule_check(s, err);
    }
    if (type == CONFIG_WORDS && !bearer_is_scope(s)) {
        return reject(&row, s, "is not a word", err);
    }
    if (type == CONFIG_ACCESS) {
        return access_rule_check(s, err);
    }
    if (type == CONFIG_ADDRESSES) {
        struct config_address address;
        return config_parse_address(s, &address, err);
    }
    if (type == CONFIG_PATHS && (memchr(s.ptr, '\0', s.len) || s.len > SOCKET_PATH_MAX)) {
        return reject(&row, s, "is longer than the path of a socket may be", err);
    }
    if (type == CONFIG_FILES && memchr(s.ptr, '\0', s.len)) {
        return reject(&row, s, "is not a path", err);
    }
    if (type == CONFIG_PREFIXES) {
        return check_prefix(s, err);
    }
    if (type == CONFIG_GLOBS) {
        char shown[CONFIG_QUOTE_MAX];
        int rc = glob_check(s, err);
        return rc < 0 ? error_wrap(err, rc, "'%s'", config_quote(s, shown)) : 0;
    }
    return 0;
}
