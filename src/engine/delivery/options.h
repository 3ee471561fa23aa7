/* SPDX-License-Identifier: MIT
 *
 * Subscription options, as requested by a client: how it matches, how often the client is notified,
 * and what its notifications contain. They are in `_meta["dev.tidings/options"]` of
 * resources/subscribe and subscriptions/listen (there for all URIs, and per URI under `uris`).
 *
 * The params of resources/subscribe may also contain `baseline` (or `initialBaseline`).
 *
 * Options that the client leaves out come from the server: general defaults and ceilings, and rules
 * for a URI prefix. An unknown or ill-typed field is rejected with its name and the accepted
 * values; nothing is ignored without an error.
 *
 *     options_init -> options_read (any number of times, the later wins) -> options_resolve
 */
#ifndef ENGINE_DELIVERY_OPTIONS_H
#define ENGINE_DELIVERY_OPTIONS_H

#include "engine/match/match.h"
#include "engine/protocol/cursor.h"
#include "formats/json.h"

enum option_match {
    OPTION_MATCH_AUTO, /* resolved by the kind of URI */
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
    OPTION_INCLUDE_PATCH, /* reveals no more than the value does */
};

/* A bit for each field, in the order of the table in options.c. */
enum option_bit {
    OPTION_MATCH = 1u << 0,
    OPTION_WINDOW = 1u << 1,
    OPTION_RATE = 1u << 2,
    OPTION_INCLUDE = 1u << 3,
    OPTION_INITIAL = 1u << 4,
    OPTION_SINCE = 1u << 5,
    OPTION_ORIGIN = 1u << 6,
    OPTION_ECHO = 1u << 7,
    OPTION_FILTER = 1u << 8,
    OPTION_BASELINE = 1u << 9,
    OPTION_ORDER = 1u << 10,
    OPTION_BOOKMARKS = 1u << 11,
    OPTION_DETAIL = 1u << 12,
    OPTION_GATHER = 1u << 13,
};

struct options {
    unsigned given; /* OPTION_… bits: set by the client or a rule; the rest are defaults */
    enum option_match match;
    enum option_include include;
    uint64_t window_ms, rate_ms;
    bool initial;
    bool echo;
    bool is_strict;          /* ordered by number, whatever merges */
    bool bookmarks;          /* periodically send the newest cursor */
    bool gather;             /* the first change also waits for the end of the window */
    bool is_slim;            /* of updates: struct dialect_updated */
    struct log_cursor since; /* with OPTION_SINCE; or … */
    struct tidings_str
        sealed; /* … as the client sent it, borrowed from the message: engine/delivery/delivery.h */
    struct tidings_str origin;   /* borrowed from the message, or from a rule */
    struct json *filter;         /* a schema, borrowed likewise; NULL: no filter */
    struct tidings_str baseline; /* the etag that patches start from; borrowed likewise */
};

/* The maximum that clients may request; the fields in `given` are limited. */
struct option_ceiling {
    unsigned given;
    unsigned matches; /* 1u << enum option_match: allowed kinds, however requested */
    enum option_include include;
    uint64_t window_ms, rate_ms;
    unsigned refused; /* OPTION_… bits that may not be requested at all */
};

/* The rule for one URI prefix. */
struct option_rule {
    struct tidings_str prefix; /* canonical; empty: everywhere */
    struct options defaults;   /* the fields in its `given` */
    struct option_ceiling ceiling;
};

/* Rules that can be set while threads use them: a set is immutable and counted. */
struct option_rules {
    const struct option_rule *at; /* shortest prefix first; a longer one wins */
    size_t count;
    void (*destroy)(struct option_rules *rules); /* called when the last reference is released */
    unsigned refs;
};

struct option_rules *option_rules_ref(struct option_rules *rules); /* accepts NULL */
void option_rules_unref(struct option_rules *rules);

struct dialect_defaults;

struct option_limits {
    uint64_t window_ms, rate_ms;         /* defaults */
    bool is_slim, gather;                /* likewise */
    uint64_t max_window_ms, max_rate_ms; /* ceilings: higher values are rejected */
    const struct option_rule *rules;     /* shortest prefix first; a longer one wins */
    size_t rule_count;
};

/* Returns the options in `_meta` of a request's params; NULL: none. */
struct json *options_find(struct json *params);
/* Sets no options. */
void options_init(struct options *o);
/* Sets the defaults that apply unless a rule overrides them. */
void options_default(struct options *o, struct option_limits *limits,
                     const struct dialect_defaults *defaults);
/* Reads the fields of `value` into `o`; missing fields keep their value. `value` NULL: does
 * nothing. `uris` allows a member of that name, which is not read. TIDINGS_E_INVALID: `o` is
 * unchanged. */
int options_read(struct options *o, struct json *value, bool uris, struct tidings_error *err);
/* Reads `baseline` or `initialBaseline` from the params of a request, if present. */
int options_read_params(struct options *o, struct json *params, struct tidings_error *err);
/* Fills in missing options and rejects (TIDINGS_E_INVALID) forbidden ones. `uri` is a prefix of
 * everything that the subscription covers; empty: it may cover anything. Defaults come from rules
 * whose prefix contains it; ceilings come from these and from rules that it overlaps. *ret_matches:
 * 1u << enum option_match of the kinds it may turn out to be. */
int options_resolve(struct options *o, const struct option_limits *limits, struct tidings_str uri,
                    unsigned *ret_matches, struct tidings_error *err);
/* Writes the kinds in a set as "literal, glob", for an error message. */
void options_put_matches(struct buf *out, unsigned set);

/* Reads a rule from its two objects (each may be NULL): `options` as a client would send it,
 * without `since` and `baseline`; `limits` with the largest windowMs and rateMs, the most include,
 * an array of kinds as match, and false to forbid any of the others (except bookmarks, detail and
 * gather). `rule->prefix` is not changed; the defaults borrow from `options`. TIDINGS_E_INVALID. */
int option_rule_read(struct option_rule *rule, struct json *options, struct json *limits,
                     struct tidings_error *err);

#endif
