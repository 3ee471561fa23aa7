/* SPDX-License-Identifier: MIT
 *
 * The formats a schema may assert, in ASCII. Meaning beyond the grammar is checked where it is
 * cheap (days of a month); whether a name or an address exists is not. Of URIs only scheme,
 * characters and escapes are checked, of e-mail addresses those with a quoted local part are
 * refused, and names in Punycode are not decoded.
 */
#include <arpa/inet.h>

#include "json/schema_private.h"

#define HEX "0123456789abcdefABCDEF"
#define ALNUM "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static bool all_of(struct tidings_str s, const char *set)
{
    bool ok = true;
    for (size_t i = 0; ok && i < s.len; i++) {
        ok = is_of(s.ptr[i], set);
    }
    return ok;
}

static bool is_char(struct tidings_str s, size_t at, const char *set)
{
    return at < s.len && is_of(s.ptr[at], set);
}

/* Exactly `digits` digits at `at`. */
static bool format_read_number(struct tidings_str s, size_t at, size_t digits, unsigned *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + digits; i++) {
        if (!is_char(s, i, "0123456789")) {
            return false;
        }
        *ret = *ret * 10 + (unsigned)(s.ptr[i] - '0');
    }
    return true;
}

/* RFC 3339 §5.6 */
static bool is_date(struct tidings_str s)
{
    static const unsigned days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year, month, day;
    if (s.len != 10 || !format_read_number(s, 0, 4, &year) ||
        !format_read_number(s, 5, 2, &month) || !format_read_number(s, 8, 2, &day) ||
        s.ptr[4] != '-' || s.ptr[7] != '-') {
        return false;
    }
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] &&
           (month != 2 || day < 29 || is_leap);
}

static bool is_time(struct tidings_str s)
{
    unsigned hour, minute, second, away_hour = 0, away_minute = 0;
    if (!format_read_number(s, 0, 2, &hour) || !is_char(s, 2, ":") ||
        !format_read_number(s, 3, 2, &minute) || !is_char(s, 5, ":") ||
        !format_read_number(s, 6, 2, &second)) {
        return false;
    }
    size_t at = 8;
    if (is_char(s, at, ".")) {
        size_t first = ++at;
        while (is_char(s, at, "0123456789")) {
            at++;
        }
        if (at == first) {
            return false;
        }
    }
    int away = 0; /* minutes ahead of UTC */
    if (is_char(s, at, "zZ")) {
        at++;
    } else {
        if (!is_char(s, at, "+-") || !format_read_number(s, at + 1, 2, &away_hour) ||
            !is_char(s, at + 3, ":") || !format_read_number(s, at + 4, 2, &away_minute)) {
            return false;
        }
        away = (int)(away_hour * 60 + away_minute) * (s.ptr[at] == '-' ? -1 : 1);
        at += 6;
    }
    /* A leap second comes at the end of a day of UTC. */
    int utc = ((int)(hour * 60 + minute) - away + 2880) % 1440;
    return at == s.len && hour <= 23 && minute <= 59 && away_hour <= 23 && away_minute <= 59 &&
           (second <= 59 || (second == 60 && utc == 1439));
}

static bool is_date_time(struct tidings_str s)
{
    return is_char(s, 10, "tT") && is_date(tidings_strn(s.ptr, 10)) && is_time(str_skip(s, 11));
}

/* RFC 1123 §2.1 */
static bool is_hostname(struct tidings_str s)
{
    if (s.len == 0 || s.len > 253) {
        return false;
    }
    for (bool more = true; more;) {
        struct tidings_str label = str_cut(s, '.', &s, &more);
        if (label.len == 0 || label.len > 63 || !all_of(label, ALNUM "-") || label.ptr[0] == '-' ||
            label.ptr[label.len - 1] == '-') {
            return false;
        }
    }
    return true;
}

static bool is_address(int family, struct tidings_str s)
{
    char text[INET6_ADDRSTRLEN], binary[16];
    if (s.len == 0 || s.len >= sizeof(text) || memchr(s.ptr, '\0', s.len)) {
        return false;
    }
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    return inet_pton(family, text, binary) == 1;
}

static bool is_ipv4(struct tidings_str s)
{
    return is_address(AF_INET, s);
}

static bool is_ipv6(struct tidings_str s)
{
    return is_address(AF_INET6, s);
}

/* RFC 5321 §4.1.2 without quoted local parts. */
static bool is_email(struct tidings_str s)
{
    bool found;
    struct tidings_str host;
    struct tidings_str local = str_cut(s, '@', &host, &found);
    if (!found || local.len == 0 || local.len > 64 || host.len == 0) {
        return false;
    }
    if (host.ptr[0] == '[' && host.ptr[host.len - 1] == ']') {
        host = tidings_strn(host.ptr + 1, host.len > 2 ? host.len - 2 : 0);
        if (!is_ipv4(host) && !(str_starts(host, STR("IPv6:")) && is_ipv6(str_skip(host, 5)))) {
            return false;
        }
    } else if (!is_hostname(host)) {
        return false;
    }
    for (bool more = true; more;) {
        struct tidings_str atom = str_cut(local, '.', &local, &more);
        if (atom.len == 0 || !all_of(atom, ALNUM "!#$%&'*+-/=?^_`{|}~")) {
            return false;
        }
    }
    return true;
}

/* RFC 3986: its characters, whole escapes, one fragment. */
static bool is_uri_reference(struct tidings_str s)
{
    bool in_fragment = false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_escape = c == '%' && is_char(s, i + 1, HEX) && is_char(s, i + 2, HEX);
        if (!is_escape && !is_of(c, ALNUM "-._~:/?#[]@!$&'()*+,;=")) {
            return false;
        }
        if (c == '#' && in_fragment) {
            return false;
        }
        in_fragment = in_fragment || c == '#';
    }
    return true;
}

static bool is_uri(struct tidings_str s)
{
    struct tidings_str rest;
    bool found;
    struct tidings_str scheme = str_cut(s, ':', &rest, &found);
    return found && scheme.len > 0 && all_of(scheme, ALNUM "+-.") &&
           !is_of(scheme.ptr[0], "0123456789+-.") && is_uri_reference(s);
}

static bool is_uuid(struct tidings_str s)
{
    bool ok = s.len == 36;
    for (size_t i = 0; ok && i < s.len; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        ok = is_of(s.ptr[i], is_dash ? "-" : HEX);
    }
    return ok;
}

/* RFC 6901 §3 */
static bool is_json_pointer(struct tidings_str s)
{
    bool ok = s.len == 0 || s.ptr[0] == '/';
    for (size_t i = 0; ok && i < s.len; i++) {
        ok = s.ptr[i] != '~' || is_char(s, i + 1, "01");
    }
    return ok;
}

static bool is_regex(struct tidings_str s)
{
    struct regex *r = NULL;
    bool ok = regex_create(s, REGEX_CHARACTERS, SCHEMA_DEFAULT_REGEX_BYTES, &r, NULL) == 0;
    regex_destroy(r);
    return ok;
}

bool schema_format_check(struct tidings_str format, struct tidings_str text)
{
    static const struct {
        const char *name;
        bool (*is)(struct tidings_str s);
    } formats[] = {
        {"date-time", is_date_time},
        {"date", is_date},
        {"time", is_time},
        {"email", is_email},
        {"hostname", is_hostname},
        {"ipv4", is_ipv4},
        {"ipv6", is_ipv6},
        {"uri", is_uri},
        {"uri-reference", is_uri_reference},
        {"uuid", is_uuid},
        {"json-pointer", is_json_pointer},
        {"regex", is_regex},
    };
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (str_eq(format, tidings_str(formats[i].name))) {
            return formats[i].is(text);
        }
    }
    return true;
}
