/* SPDX-License-Identifier: MIT
 *
 * Which byte may stand where in HTTP: one table, by which heads, trailers and whatever else is
 * written into a header are judged.
 */
#ifndef WIRE_HTTP_CHARS_H
#define WIRE_HTTP_CHARS_H

#include <tidings/types.h>

enum http_char {
    HTTP_IS_TOKEN = 1, /* RFC 9110 §5.6.2 */
    HTTP_IS_PATH = 2,  /* of a target; wider than RFC 3986 by what browsers send raw: [ ] | */
    HTTP_IS_QUERY = 4, /* likewise: any visible ASCII but " # < > */
    HTTP_IS_HOST = 8,  /* letters, digits and - . _ ~ % */
    HTTP_IS_HEX = 16,
};

extern const unsigned char http_chars[256]; /* bits of enum http_char */

static inline bool http_is(char c, enum http_char kind)
{
    return http_chars[(unsigned char)c] & (unsigned)kind;
}

static inline bool http_all_are(struct tidings_str s, enum http_char kind)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!http_is(s.ptr[i], kind)) {
            return false;
        }
    }
    return true;
}

/* May `c` stand in a field value (visible, blank, tab, obs-text: RFC 9110 §5.5)? */
static inline bool http_is_text(char c)
{
    unsigned char u = (unsigned char)c;
    return (u >= ' ' && u != 0x7F) || u == '\t';
}

#endif
