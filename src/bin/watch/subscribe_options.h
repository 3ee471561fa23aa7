/* SPDX-License-Identifier: MIT
 *
 * The options of a subscription (docs/subscriptions.md) from those of the command line, for
 * `tidings watch`. Servers of ours know them; others pass over them.
 */
#ifndef BIN_SUBSCRIBE_OPTIONS_H
#define BIN_SUBSCRIBE_OPTIONS_H

#include <tidings/types.h>

enum include {
    INCLUDE_NONE = 0,
    INCLUDE_METADATA = 1,
    INCLUDE_VALUE = 2,
    INCLUDE_PATCH = 3,
};
enum match {
    MATCH_AUTO = 0,
    MATCH_LITERAL = 1,
    MATCH_CONTAINER = 2,
    MATCH_TEMPLATE = 3,
    MATCH_GLOB = 4,
    MATCH_REGEX = 5,
};
/* As they are spelled, NULL at the end. */
extern const char *const include_names[], *const match_names[], *const detail_names[];

struct subscribe_options {
    const char *options; /* a JSON object; what follows wins over its members */
    const char *since, *filter;
    unsigned include, match, detail;
    bool is_initial, has_window, has_rate, has_detail;
    uint64_t window_ms, rate_ms;
};

/* JSON text, to be released with tidings_free, in `*ret`; NULL: none. `match` takes the place of
 * theirs when that is MATCH_AUTO. */
int subscribe_options_make(const struct subscribe_options *o, enum match match, char **ret,
                           struct tidings_error *err);

/* The names of those that were given and that a server must know, as "--filter, --window"; "":
 * none.
 */
const char *subscribe_options_given(const struct subscribe_options *o, char out[128]);

#endif
