/* SPDX-License-Identifier: MIT
 *
 * Numbers and equality as in JSON Schema: by mathematical value, not by notation.
 *
 * A double represents the shortest decimal that reads back as it (0.0001, not the nearest binary
 * fraction): that is the number as written, and it makes `multipleOf` exact.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/schema_eval.h"
#include "formats/schema_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The formats that a schema can assert, in ASCII. Meaning beyond the grammar is checked where it is
 * cheap (days of a month); whether a name or an address exists is not. For URIs only scheme,
 * characters and escapes are checked; e-mail addresses with a quoted local part are rejected, and
 * names in Punycode are not decoded.
 */

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
    /* A leap second is at the end of a UTC day. */
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

/* RFC 3986: valid characters, complete escapes, one fragment. */
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

/* ---------------------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

#define TWO_63 9223372036854775808.0

bool value_is_whole(double d)
{
    /* Doubles of this size have no fraction; smaller ones fit an integer. */
    return d >= TWO_63 || d < -TWO_63 || (double)(int64_t)d == d;
}

bool value_is_integer(const struct json *v)
{
    return jv_is(v, JV_INT) || (jv_is(v, JV_REAL) && value_is_whole(jv_real(v)));
}

static int order(bool is_less, bool is_more)
{
    return is_less ? -1 : is_more ? 1 : 0;
}

/* Compares an integer and a double, without rounding the integer. */
static int compare_mixed(int64_t i, double d)
{
    if (d >= TWO_63) {
        return -1;
    }
    if (d < -TWO_63) {
        return 1;
    }
    int64_t whole = (int64_t)d;
    double rest = d - (double)whole; /* exact: `whole` came from `d` */
    return i != whole ? order(i < whole, true) : order(rest > 0, rest < 0);
}

int value_compare(const struct json *a, const struct json *b)
{
    if (jv_is(a, JV_INT) && jv_is(b, JV_INT)) {
        return order(jv_int(a) < jv_int(b), jv_int(a) > jv_int(b));
    }
    if (jv_is(a, JV_INT)) {
        return compare_mixed(jv_int(a), jv_real(b));
    }
    if (jv_is(b, JV_INT)) {
        return -compare_mixed(jv_int(b), jv_real(a));
    }
    return order(jv_real(a) < jv_real(b), jv_real(a) > jv_real(b));
}

/* |value| = digits * 10^exponent. */
struct decimal {
    uint64_t digits;
    int exponent;
};

static struct decimal decimal_of(const struct json *v)
{
    struct decimal d = {0, 0};
    if (jv_is(v, JV_INT)) {
        int64_t i = jv_int(v);
        d.digits = i < 0 ? (uint64_t)0 - (uint64_t)i : (uint64_t)i;
        return d;
    }
    char text[40] = "";
    double real = jv_real(v);
    real = real < 0 ? -real : real;
    for (int precision = 0; precision <= 16; precision++) {
        (void)snprintf(text, sizeof(text), "%.*e", precision, real);
        if (strtod(text, NULL) == real) {
            break;
        }
    }
    int fraction = 0;
    bool is_fraction = false;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') {
            d.digits = d.digits * 10 + (uint64_t)(*p - '0');
            fraction += is_fraction;
        } else {
            is_fraction = true; /* the decimal point of any locale */
        }
    }
    d.exponent = (*p == 'e' ? (int)strtol(p + 1, NULL, 10) : 0) - fraction;
    return d;
}

/* 10^n modulo m; n is at most about 700, the range of a double. */
static uint64_t power_mod(int n, uint64_t m)
{
    wide r = 1 % m;
    for (int i = 0; i < n; i++) {
        r = r * 10 % m;
    }
    return (uint64_t)r;
}

bool value_is_multiple(const struct json *v, const struct json *of)
{
    struct decimal a = decimal_of(v), b = decimal_of(of);
    if (a.digits == 0) {
        return true;
    }
    if (b.digits == 0) {
        return false;
    }
    if (a.exponent >= b.exponent) {
        wide r = (wide)(a.digits % b.digits) * power_mod(a.exponent - b.exponent, b.digits);
        return r % b.digits == 0;
    }
    wide divisor = b.digits;
    for (int i = a.exponent; i < b.exponent; i++) {
        divisor *= 10;
        if (divisor > a.digits) {
            return false;
        }
    }
    return a.digits % (uint64_t)divisor == 0;
}

size_t value_code_points(struct tidings_str utf8)
{
    size_t n = 0;
    for (size_t i = 0; i < utf8.len; i++) {
        n += ((unsigned char)utf8.ptr[i] & 0xc0u) != 0x80u;
    }
    return n;
}

/* Charges for a value of this many bytes. */
static bool spend(uint64_t *steps, size_t len)
{
    uint64_t cost = COST_VALUE + COST_BYTES(len);
    bool ok = *steps >= cost;
    *steps = ok ? *steps - cost : 0;
    return ok;
}

static size_t length_of(const struct json *v)
{
    return jv_is(v, JV_STRING) ? jv_str(v).len : 0;
}

static bool equal_objects(struct json *a, struct json *b, uint64_t *steps)
{
    if (value_members(a) != value_members(b)) {
        return false;
    }
    for (struct json *i = value_first(a); i; i = value_next(a, i)) {
        struct json *other = jv_get_str(b, value_text(i));
        if (!spend(steps, value_text(i).len) || !other || !value_equal(i + 1, other, steps)) {
            return false;
        }
    }
    return true;
}

bool value_equal(struct json *a, struct json *b, uint64_t *steps)
{
    if (!spend(steps, length_of(a))) {
        return false;
    }
    if (jv_is_number(a) && jv_is_number(b)) {
        return value_compare(a, b) == 0;
    }
    if (jv_type(a) != jv_type(b)) {
        return false;
    }
    if (jv_is(a, JV_STRING)) {
        return str_eq(jv_str(a), jv_str(b));
    }
    if (jv_is(a, JV_OBJECT)) {
        return equal_objects(a, b, steps);
    }
    if (!jv_is(a, JV_ARRAY)) {
        return true;
    }
    bool same = value_elements(a) == value_elements(b);
    for (size_t i = 0; same && i < value_elements(a); i++) {
        same = value_equal(jv_at(a, i), jv_at(b, i), steps);
    }
    return same;
}

static uint64_t value_hash_mix(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_number(const struct json *v)
{
    /* Integers beyond 2^53 can share a hash with a neighbour, but never differ from an equal
     * double. */
    double d = jv_real(v) + 0.0;
    uint64_t bits = 0;
    if (d != 0) {
        memcpy(&bits, &d, sizeof(bits));
    }
    return value_hash_mix(1, bits);
}

uint64_t value_hash(struct json *v, uint64_t *steps)
{
    uint64_t hash = 0;
    if (!spend(steps, length_of(v))) {
        return 0;
    }
    if (jv_is_number(v)) {
        return hash_number(v);
    }
    if (jv_is(v, JV_STRING)) {
        return str_hash(jv_str(v), 2);
    }
    if (jv_is(v, JV_ARRAY)) {
        hash = 3;
        for (size_t i = 0; i < value_elements(v); i++) {
            hash = value_hash_mix(hash, value_hash(jv_at(v, i), steps));
        }
        return hash;
    }
    if (jv_is(v, JV_OBJECT)) {
        /* A sum, because the order of members is irrelevant. */
        for (struct json *i = value_first(v); i; i = value_next(v, i)) {
            struct tidings_str key = value_text(i);
            if (!spend(steps, key.len)) {
                return 0;
            }
            hash += value_hash_mix(str_hash(key, 4), value_hash(i + 1, steps));
        }
        return value_hash_mix(hash, 5);
    }
    return value_hash_mix(6, (uint64_t)jv_type(v));
}
