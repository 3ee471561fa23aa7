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

bool value_is_integer(const json_t *v)
{
    return json_is_integer(v) || (json_is_real(v) && value_is_whole(json_real_value(v)));
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

int value_compare(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        return order(json_integer_value(a) < json_integer_value(b),
                     json_integer_value(a) > json_integer_value(b));
    }
    if (json_is_integer(a)) {
        return compare_mixed(json_integer_value(a), json_real_value(b));
    }
    if (json_is_integer(b)) {
        return -compare_mixed(json_integer_value(b), json_real_value(a));
    }
    return order(json_real_value(a) < json_real_value(b), json_real_value(a) > json_real_value(b));
}

/* |value| = digits * 10^exponent. */
struct decimal {
    uint64_t digits;
    int exponent;
};

static struct decimal decimal_of(const json_t *v)
{
    struct decimal d = {0, 0};
    if (json_is_integer(v)) {
        int64_t i = json_integer_value(v);
        d.digits = i < 0 ? (uint64_t)0 - (uint64_t)i : (uint64_t)i;
        return d;
    }
    char text[40] = "";
    double real = json_real_value(v);
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

bool value_is_multiple(const json_t *v, const json_t *of)
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

static size_t length_of(const json_t *v)
{
    return json_is_string(v) ? json_string_length(v) : 0;
}

static bool equal_objects(json_t *a, json_t *b, uint64_t *steps)
{
    if (json_object_size(a) != json_object_size(b)) {
        return false;
    }
    for (void *i = json_object_iter(a); i; i = json_object_iter_next(a, i)) {
        json_t *other = json_object_getn(b, json_object_iter_key(i), json_object_iter_key_len(i));
        if (!spend(steps, json_object_iter_key_len(i)) || !other ||
            !value_equal(json_object_iter_value(i), other, steps)) {
            return false;
        }
    }
    return true;
}

bool value_equal(json_t *a, json_t *b, uint64_t *steps)
{
    if (!spend(steps, length_of(a))) {
        return false;
    }
    if (json_is_number(a) && json_is_number(b)) {
        return value_compare(a, b) == 0;
    }
    if (json_typeof(a) != json_typeof(b)) {
        return false;
    }
    if (json_is_string(a)) {
        return str_eq(value_str(a), value_str(b));
    }
    if (json_is_object(a)) {
        return equal_objects(a, b, steps);
    }
    if (!json_is_array(a)) {
        return true;
    }
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++) {
        same = value_equal(json_array_get(a, i), json_array_get(b, i), steps);
    }
    return same;
}

static uint64_t mix(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_number(const json_t *v)
{
    /* Integers beyond 2^53 may share a hash with a neighbour, never differ from an equal double. */
    double d = json_number_value(v) + 0.0;
    uint64_t bits = 0;
    if (d != 0) {
        memcpy(&bits, &d, sizeof(bits));
    }
    return mix(1, bits);
}

uint64_t value_hash(json_t *v, uint64_t *steps)
{
    uint64_t hash = 0;
    if (!spend(steps, length_of(v))) {
        return 0;
    }
    if (json_is_number(v)) {
        return hash_number(v);
    }
    if (json_is_string(v)) {
        return str_hash(value_str(v), 2);
    }
    if (json_is_array(v)) {
        hash = 3;
        for (size_t i = 0; i < json_array_size(v); i++) {
            hash = mix(hash, value_hash(json_array_get(v, i), steps));
        }
        return hash;
    }
    if (json_is_object(v)) {
        /* A sum, because the order of members does not count. */
        for (void *i = json_object_iter(v); i; i = json_object_iter_next(v, i)) {
            struct tidings_str key = {json_object_iter_key(i), json_object_iter_key_len(i)};
            if (!spend(steps, key.len)) {
                return 0;
            }
            hash += mix(str_hash(key, 4), value_hash(json_object_iter_value(i), steps));
        }
        return mix(hash, 5);
    }
    return mix(6, (uint64_t)json_typeof(v));
}
