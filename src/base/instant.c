/* SPDX-License-Identifier: MIT
 *
 * Reading dates and times, character by character.
 */
#include "base/instant.h"

struct reader {
    const char *at, *end;
    bool ok;
};

static int64_t digits(struct reader *r, unsigned count)
{
    int64_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (r->at == r->end || *r->at < '0' || *r->at > '9') {
            r->ok = false;
            return 0;
        }
        n = n * 10 + (*r->at++ - '0');
    }
    return n;
}

/* Is one of these next? It is passed over then, and returned; else NUL. */
static char instant_one_of(struct reader *r, const char *these)
{
    for (; r->ok && r->at < r->end && *these; these++) {
        if (*r->at == *these) {
            r->at++;
            return *these;
        }
    }
    return '\0';
}

static void instant_expect(struct reader *r, const char *these)
{
    r->ok = instant_one_of(r, these) != '\0' && r->ok;
}

static uint32_t fraction(struct reader *r)
{
    uint32_t ns = 0;
    unsigned n = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && n < 9; r->at++, n++) {
        ns = ns * 10 + (uint32_t)(*r->at - '0');
    }
    r->ok = r->ok && n > 0;
    for (; n < 9; n++) {
        ns *= 10;
    }
    return ns;
}

/* Seconds to take away. */
static int64_t offset(struct reader *r, bool *ret_given)
{
    char sign = instant_one_of(r, "Zz+-");
    *ret_given = sign != '\0';
    if (sign != '+' && sign != '-') {
        return 0;
    }
    int64_t hours = digits(r, 2);
    instant_expect(r, ":");
    int64_t minutes = digits(r, 2);
    r->ok = r->ok && hours < 24 && minutes < 60;
    return (sign == '-' ? -60 : 60) * (hours * 60 + minutes);
}

static bool date_exists(int64_t year, int64_t month, int64_t day)
{
    static const int64_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 &&
           day <= lengths[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days since 1970-01-01 in the Gregorian calendar: years begin in March, in eras of 400. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool instant_parse(struct tidings_str text, struct instant *ret)
{
    struct reader r = {text.ptr, text.ptr + text.len, true};
    *ret = (struct instant){0};
    int64_t year = digits(&r, 4);
    instant_expect(&r, "-");
    int64_t month = digits(&r, 2);
    instant_expect(&r, "-");
    int64_t day = digits(&r, 2);
    if (!r.ok || !date_exists(year, month, day)) {
        return false;
    }
    ret->second = days_of(year, month, day) * 86400;
    if (r.at == r.end) {
        return true;
    }
    char between = instant_one_of(&r, "Tt ");
    r.ok = r.ok && between != '\0';
    int64_t hour = digits(&r, 2);
    instant_expect(&r, ":");
    int64_t minute = digits(&r, 2), second = 0;
    ret->has_time = true;
    ret->has_space = between == ' ';
    ret->has_seconds = instant_one_of(&r, ":") != '\0';
    if (ret->has_seconds) {
        second = digits(&r, 2);
        ret->nanosecond = instant_one_of(&r, ".") ? fraction(&r) : 0;
    }
    int64_t away = offset(&r, &ret->has_offset);
    ret->second += (hour * 60 + minute) * 60 + second - away;
    return r.ok && r.at == r.end && hour < 24 && minute < 60 && second < 60;
}
