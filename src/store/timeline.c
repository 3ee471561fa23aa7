/* SPDX-License-Identifier: MIT
 *
 * Instants and versions. The reader of instants is strict and bounded: a date that does not exist
 * is refused, a leap second too (our instants count none).
 */
#include "store/timeline.h"

#include "base/clock.h"
#include "base/str.h"

#define DAY_MS INT64_C(86400000)

struct cursor {
    const char *at, *end;
    bool ok;
};

static int64_t digits(struct cursor *c, unsigned count)
{
    int64_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (c->at == c->end || *c->at < '0' || *c->at > '9') {
            c->ok = false;
            return 0;
        }
        n = n * 10 + (*c->at++ - '0');
    }
    return n;
}

/* One of two characters; returns it, or NUL. */
static char timeline_either(struct cursor *c, char a, char b)
{
    if (c->at == c->end || (*c->at != a && *c->at != b)) {
        c->ok = false;
        return '\0';
    }
    return *c->at++;
}

static int64_t fraction_ms(struct cursor *c)
{
    if (c->at == c->end || *c->at != '.') {
        return 0;
    }
    c->at++;
    int64_t ms = 0;
    unsigned n = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, n++) {
        if (n < 3) {
            ms = ms * 10 + (*c->at - '0');
        } else if (*c->at != '0') {
            c->ok = false; /* cutting it off would name another instant */
        }
    }
    c->ok = c->ok && n > 0 && n <= 9;
    for (; n < 3; n++) {
        ms *= 10;
    }
    return ms;
}

/* Minutes to take away. */
static int64_t offset_minutes(struct cursor *c)
{
    if (c->at < c->end && (*c->at == 'Z' || *c->at == 'z')) {
        c->at++;
        return 0;
    }
    char sign = timeline_either(c, '+', '-');
    int64_t hours = digits(c, 2);
    timeline_either(c, ':', ':');
    int64_t minutes = digits(c, 2);
    c->ok = c->ok && hours < 24 && minutes < 60;
    return (sign == '-' ? -1 : 1) * (hours * 60 + minutes);
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

int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err)
{
    struct cursor c = {text.ptr, text.ptr + text.len, true};
    int64_t year = digits(&c, 4);
    timeline_either(&c, '-', '-');
    int64_t month = digits(&c, 2);
    timeline_either(&c, '-', '-');
    int64_t day = digits(&c, 2);
    timeline_either(&c, 'T', 't');
    int64_t hour = digits(&c, 2);
    timeline_either(&c, ':', ':');
    int64_t minute = digits(&c, 2);
    timeline_either(&c, ':', ':');
    int64_t second = digits(&c, 2);
    int64_t ms = fraction_ms(&c);
    int64_t offset = offset_minutes(&c);
    if (!c.ok || c.at != c.end || !date_exists(year, month, day) || hour > 23 || minute > 59 ||
        second > 59) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is not a time like 2024-01-01T10:00:00.000Z (milliseconds at "
                            "most, with Z or an offset)",
                            (int)(text.len > 64 ? 64 : text.len), text.ptr);
    }
    int64_t at = days_of(year, month, day) * DAY_MS +
                 ((hour * 60 + minute - offset) * 60 + second) * 1000 + ms;
    if (at >= TIMELINE_FOREVER || at < -INT64_C(62167219200000)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' lies outside the years 0000 to 9998 in UTC", STR_ARG(text));
    }
    *ret_ms = at;
    return 0;
}

struct tidings_str timeline_text(int64_t ms, char out[TIMELINE_TEXT])
{
    clock_format_iso(ms, out);
    return tidings_strn(out, TIMELINE_TEXT - 1);
}

int timeline_next(int64_t newest, int64_t wanted, int64_t *ret_ms, struct tidings_error *err)
{
    int64_t next = newest != TIMELINE_NEVER && newest >= wanted ? newest + 1 : wanted;
    if (next >= TIMELINE_FOREVER) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "no version can begin after the year 9998");
    }
    *ret_ms = next;
    return 0;
}
