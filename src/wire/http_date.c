/* SPDX-License-Identifier: MIT
 *
 * Dates of HTTP: a cursor over the text, and the calendar in days since 1970.
 */
#include "wire/http_date.h"

#define DAY_S 86400
#define FIRST_S (-62167219200) /* 0000-01-01 */
#define LAST_S 253402300799    /* 9999-12-31 23:59:59 */

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

struct http_date {
    int64_t year;
    unsigned month, day; /* from 1 */
    unsigned hour, minute, second;
    unsigned weekday; /* 0: Sunday */
};

/* Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that a leap day is the
 * last of one. */
static int64_t http_date_days(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void http_date_of_days(int64_t count, struct http_date *d)
{
    count += 719468;
    int64_t era = (count >= 0 ? count : count - 146096) / 146097;
    int64_t of_era = count - era * 146097;
    int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
    int64_t month = (5 * of_year + 2) / 153;
    d->day = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    d->month = (unsigned)(month < 10 ? month + 3 : month - 9);
    d->year = years + era * 400 + (d->month <= 2);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool date_take_text(struct tidings_str *s, struct tidings_str text)
{
    bool found = str_starts(*s, text);
    *s = found ? str_skip(*s, text.len) : *s;
    return found;
}

/* Exactly so many digits. */
static bool take_digits(struct tidings_str *s, unsigned count, unsigned *ret)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i >= s->len || s->ptr[i] < '0' || s->ptr[i] > '9') {
            return false;
        }
        n = n * 10 + (unsigned)(s->ptr[i] - '0');
    }
    *ret = n;
    *s = str_skip(*s, count);
    return true;
}

static bool take_month(struct tidings_str *s, unsigned *ret)
{
    for (unsigned i = 0; i < 12; i++) {
        if (date_take_text(s, tidings_strn(months + (size_t)i * 3, 3))) {
            *ret = i + 1;
            return true;
        }
    }
    return false;
}

static bool take_time(struct tidings_str *s, struct http_date *d)
{
    return take_digits(s, 2, &d->hour) && date_take_text(s, STR(":")) &&
           take_digits(s, 2, &d->minute) && date_take_text(s, STR(":")) &&
           take_digits(s, 2, &d->second);
}

/* Its full name or the first three letters. */
static bool take_weekday(struct tidings_str *s, struct http_date *d, bool *ret_full)
{
    for (unsigned i = 0; i < 7; i++) {
        d->weekday = i;
        *ret_full = date_take_text(s, tidings_str(days[i]));
        if (*ret_full || date_take_text(s, tidings_strn(days[i], 3))) {
            return true;
        }
    }
    return false;
}

/* What follows "Sun, ". */
static bool take_fixdate(struct tidings_str *s, struct http_date *d)
{
    unsigned year = 0;
    bool good = take_digits(s, 2, &d->day) && date_take_text(s, STR(" ")) &&
                take_month(s, &d->month) && date_take_text(s, STR(" ")) &&
                take_digits(s, 4, &year) && date_take_text(s, STR(" ")) && take_time(s, d) &&
                date_take_text(s, STR(" GMT"));
    d->year = year;
    return good;
}

/* What follows "Sunday, ". */
static bool take_rfc850(struct tidings_str *s, int64_t now, struct http_date *d)
{
    unsigned year = 0;
    bool good = take_digits(s, 2, &d->day) && date_take_text(s, STR("-")) &&
                take_month(s, &d->month) && date_take_text(s, STR("-")) &&
                take_digits(s, 2, &year) && date_take_text(s, STR(" ")) && take_time(s, d) &&
                date_take_text(s, STR(" GMT"));
    struct http_date today;
    http_date_of_days(now / DAY_S, &today);
    d->year = today.year - today.year % 100 + year;
    d->year -= d->year > today.year + 50 ? 100 : 0;
    return good;
}

/* What follows "Sun ". */
static bool take_asctime(struct tidings_str *s, struct http_date *d)
{
    unsigned year = 0;
    bool good =
        take_month(s, &d->month) && date_take_text(s, STR(" ")) &&
        (date_take_text(s, STR(" ")) ? take_digits(s, 1, &d->day) : take_digits(s, 2, &d->day)) &&
        date_take_text(s, STR(" ")) && take_time(s, d) && date_take_text(s, STR(" ")) &&
        take_digits(s, 4, &year);
    d->year = year;
    return good;
}

bool http_parse_date(struct tidings_str text, int64_t now, int64_t *ret)
{
    struct http_date d = {0}, back;
    struct tidings_str s = text;
    bool is_full = false;
    bool good = take_weekday(&s, &d, &is_full);
    if (good && date_take_text(&s, STR(", "))) {
        good = is_full ? take_rfc850(&s, now, &d) : take_fixdate(&s, &d);
    } else {
        good = good && !is_full && date_take_text(&s, STR(" ")) && take_asctime(&s, &d);
    }
    /* A leap second is the one that follows. */
    if (!good || s.len > 0 || d.day == 0 || d.day > 31 || d.hour > 23 || d.minute > 59 ||
        d.second > 60) {
        return false;
    }
    int64_t count = http_date_days(d.year, d.month, d.day);
    http_date_of_days(count, &back);
    unsigned weekday = (unsigned)(((count + 4) % 7 + 7) % 7);
    if (back.day != d.day || back.month != d.month || weekday != d.weekday) {
        return false;
    }
    *ret = count * DAY_S + (int64_t)d.hour * 3600 + (int64_t)d.minute * 60 + d.second;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

void http_put_date(struct buf *out, int64_t seconds)
{
    int64_t at = seconds < FIRST_S ? FIRST_S : seconds > LAST_S ? LAST_S : seconds;
    int64_t count = at >= 0 ? at / DAY_S : -((DAY_S - 1 - at) / DAY_S);
    int64_t rest = at - count * DAY_S;
    struct http_date d;
    http_date_of_days(count, &d);
    buf_putf(out, "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT", days[((count + 4) % 7 + 7) % 7], d.day,
             months + (size_t)(d.month - 1) * 3, (int)d.year, (int)(rest / 3600),
             (int)(rest / 60 % 60), (int)(rest % 60));
}
