/* SPDX-License-Identifier: MIT
 *
 * Dates and times as RFC 3339 writes them, read from text. Strict and bounded: a date that does not
 * exist is refused, a leap second too (our instants count none).
 */
#ifndef BASE_INSTANT_H
#define BASE_INSTANT_H

#include <tidings/types.h>

struct instant {
    int64_t second; /* since 1970-01-01T00:00:00Z; a date: when it begins. No offset counts as Z */
    uint32_t nanosecond;
    bool has_time, has_seconds, has_offset; /* else it is a date alone; ends with the minute; … */
    bool has_space;                         /* between date and time, instead of T */
};

/* "2024-01-01", "2024-01-01T10:00", "2024-01-01 10:00:00.123456789+01:00": years of four digits, at
 * most nine decimals. false: it is none. */
bool instant_parse(struct tidings_str text, struct instant *ret);

#endif
