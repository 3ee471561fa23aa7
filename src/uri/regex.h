/* SPDX-License-Identifier: MIT
 *
 * Regular expressions of strangers: PCRE2, searched anywhere in a canonical URI, byte by byte (no
 * UTF), with every bound it offers.
 *
 * An engine holds what searching needs and serves one thread; regexes are compiled with an engine
 * and searched with the same or another one. A regex is translated to machine code when it has been
 * searched a few times, so that one that is never looked at costs little.
 */
#ifndef URI_REGEX_H
#define URI_REGEX_H

#include "base/str.h"

#define REGEX_MAX_BYTES 1024u     /* of source */
#define REGEX_MAX_COMPILED 16384u /* bytes of what it compiles to */
#define REGEX_MATCH_LIMIT 10000u  /* steps of one search */

struct regex_engine;

struct regex {
    void *code;       /* private */
    uint8_t searches; /* private: before the translation to machine code */
    bool is_settled;  /* regex_bytes will not change any more */
    bool has_jit;     /* private */
};

enum regex_result {
    REGEX_ABSENT,
    REGEX_FOUND,
    REGEX_GAVE_UP, /* more than REGEX_MATCH_LIMIT steps, or out of memory */
};

/* TIDINGS_E_NOMEM. */
int regex_engine_create(struct regex_engine **ret, struct tidings_error *err);
void regex_engine_destroy(struct regex_engine *engine); /* NULL is fine */

/* TIDINGS_E_INVALID with position and reason; TIDINGS_E_LIMIT: longer than REGEX_MAX_BYTES, or more
 * than REGEX_MAX_COMPILED once compiled; TIDINGS_E_NOMEM. Nothing is kept of `source`. */
int regex_init(struct regex *r, struct regex_engine *engine, struct tidings_str source,
               struct tidings_error *err);
void regex_deinit(struct regex *r);
enum regex_result regex_search(struct regex *r, struct regex_engine *engine,
                               struct tidings_str text);
size_t regex_bytes(const struct regex *r); /* held by this regex, machine code included */

#endif
