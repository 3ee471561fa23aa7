/* SPDX-License-Identifier: MIT
 *
 * What a client may ask of a subscription: how it matches, how often it is told, and what rides
 * along. They travel in `_meta["dev.tidings/options"]` of resources/subscribe and
 * subscriptions/listen (there for all URIs, and per URI under `uris`).
 *
 * Every field has a server-side default, and times a ceiling. An unknown or ill-typed field is
 * refused with its name and what is accepted; nothing is ignored in silence.
 */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include "core/match.h"
#include "json/json.h"

enum option_match {
    OPTION_MATCH_AUTO, /* settled by what the URI is */
    OPTION_MATCH_LITERAL,
    OPTION_MATCH_CONTAINER,
    OPTION_MATCH_TEMPLATE,
    OPTION_MATCH_GLOB,
    OPTION_MATCH_REGEX,
};

enum option_include {
    OPTION_INCLUDE_NONE, /* metadata in _meta only */
    OPTION_INCLUDE_METADATA,
    OPTION_INCLUDE_VALUE,
};

struct options {
    enum option_match match;
    enum option_include include;
    uint64_t window_ms, rate_ms;
    bool has_window, has_rate; /* the client asked; else the mount's own apply */
    bool initial;
    bool echo;
    bool has_since;
    uint64_t since_epoch, since;
    struct tidings_str origin; /* borrowed from the message */
};

struct option_limits {
    uint64_t window_ms, rate_ms;         /* defaults */
    uint64_t max_window_ms, max_rate_ms; /* ceilings: more is refused */
};

/* The defaults of the server. */
void options_init(struct options *o, const struct option_limits *limits);
/* Take what the object says; fields it lacks stay. `value` NULL: nothing happens. `uris` says
 * whether a member of that name may be there (it is not looked at). TIDINGS_E_INVALID. */
int options_read(struct options *o, struct json *value, const struct option_limits *limits,
                 bool uris, struct tidings_error *err);
/* "epoch.seq" as cursors are written. */
bool cursor_parse(struct tidings_str text, uint64_t *epoch, uint64_t *seq);

#endif
