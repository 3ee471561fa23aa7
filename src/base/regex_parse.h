/* SPDX-License-Identifier: MIT
 *
 * The parser of regexes: its state, and how it reads escapes and classes. Private to
 * base/regex_parse.c and regex_parse_escape.c.
 */
#ifndef BASE_REGEX_PARSE_H
#define BASE_REGEX_PARSE_H

#include "base/regex_private.h"

enum regex_flag {
    FLAG_I, /* letters in both cases */
    FLAG_S, /* `.` is \n, too */
    FLAG_M, /* `^` and `$` at lines */
    FLAG_COUNT,
};

struct regex_parser {
    struct arena *arena;
    struct tidings_str source;
    size_t at;
    enum regex_units units;
    uint32_t last; /* character there is */
    bool has_flag[FLAG_COUNT];
    bool is_quoting;
    unsigned depth;
    struct regex_sets *sets;
    int code; /* < 0: it is refused, and said why */
    struct tidings_error *err;
};

/* Unless something was wrong before. */
int regex_refuse(struct regex_parser *p, size_t at, const char *reason);
int regex_refuse_size(struct regex_parser *p);

/* The character at p->at, which moves behind it. There is one. */
uint32_t regex_next(struct regex_parser *p);

enum regex_escape {
    REGEX_IS_CHARACTER,
    REGEX_IS_SET,
    REGEX_IS_ASSERTION, /* \b, \A … */
    REGEX_IS_NOTHING,
};

/* Behind the backslash, in a class or not. */
enum regex_escape regex_read_escape(struct regex_parser *p, bool in_class, struct regex_set *set,
                                    uint32_t *ret_character, enum regex_kind *ret_assertion);
/* Behind the bracket. */
void regex_read_class(struct regex_parser *p, struct regex_set *set);

#endif
