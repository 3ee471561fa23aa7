/* SPDX-License-Identifier: MIT
 *
 * Dates of HTTP (RFC 9110 §5.6.7), without I/O and without the locale: read in all three formats,
 * written in the first of them.
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT        IMF-fixdate
 *     Sunday, 06-Nov-94 08:49:37 GMT       RFC 850, obsolete
 *     Sun Nov  6 08:49:37 1994             asctime(), obsolete
 */
#ifndef WIRE_HTTP_DATE_H
#define WIRE_HTTP_DATE_H

#include "base/str.h"

/* Seconds of Unix time. A year of two digits that would be more than 50 years after `now` is of the
 * century before. false: anything else than the three, a date that does not exist, or on another
 * day of the week; such a field does not count (RFC 9110 §13.1). */
bool http_parse_date(struct tidings_str text, int64_t now, int64_t *ret);

/* The first format. From year 0 to 9999; what is beyond becomes the nearest of these. */
#define HTTP_DATE_LEN 29u
void http_put_date(struct buf *out, int64_t seconds);

#endif
