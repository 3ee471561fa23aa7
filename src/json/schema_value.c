/* SPDX-License-Identifier: MIT
 *
 * Numbers and equality as JSON Schema means them: by mathematical value, whatever the spelling.
 *
 * A double stands for the shortest decimal that reads back as it (0.0001, not the binary fraction
 * next to it): that is what its author wrote, and it makes `multipleOf` exact.
 */
#include <stdio.h>
#include <stdlib.h>

#include "json/schema_eval.h"

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

/* An integer and a double, without rounding the integer. */
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
            is_fraction = true; /* the decimal point, however the locale writes it */
        }
    }
    d.exponent = (*p == 'e' ? (int)strtol(p + 1, NULL, 10) : 0) - fraction;
    return d;
}

/* 10^n modulo m; n is at most some 700, the span of a double. */
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

/* A value, and so many bytes. */
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
    /* Integers beyond 2^53 may share a hash with a neighbour, never differ from an equal double. */
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
        /* A sum, because the order of members does not count. */
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
