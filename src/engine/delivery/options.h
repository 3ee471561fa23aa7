/* SPDX-License-Identifier: MIT
 *
 * Options of a subscription, as a client asks for them: how it matches, how often it is told, and
 * what its notifications carry. They travel in `_meta["dev.tidings/options"]` of
 * resources/subscribe and subscriptions/listen (there for all URIs, and per URI under `uris`).
 *
 * `baseline` (also `initialBaseline`) of resources/subscribe may stand in its params as well.
 *
 * What is not asked for is the server's: general defaults and ceilings, and rules that hold below a
 * URI prefix. An unknown or ill-typed field is refused with its name and what is accepted; nothing
 * is ignored in silence.
 *
 *     options_init -> options_read (any number of times, the later wins) -> options_resolve
 */
#ifndef ENGINE_DELIVERY_OPTIONS_H
#define ENGINE_DELIVERY_OPTIONS_H

#include "engine/match/match.h"
#include "engine/protocol/cursor.h"
#include "formats/json.h"

enum option_match {
    OPTION_MATCH_AUTO, /* resolved by what the URI is */
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
    OPTION_INCLUDE_PATCH, /* what it reveals is no more than the value */
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
    unsigned given; /* OPTION_… bits: said by whoever was read; the others are filled in */
    enum option_match match;
    enum option_include include;
    uint64_t window_ms, rate_ms;
    bool initial;
    bool echo;
    bool is_strict;          /* told in the order of numbers, whatever merges */
    bool bookmarks;          /* the newest cursor from time to time */
    bool gather;             /* the first change waits for the end of the window, too */
    bool is_slim;            /* of updates: struct dialect_updated */
    struct log_cursor since; /* with OPTION_SINCE; or … */
    struct tidings_str
        sealed; /* … as it was given, borrowed from the message: engine/delivery/delivery.h */
    struct tidings_str origin;   /* borrowed from the message, or from a rule */
    struct json *filter;         /* a schema, borrowed likewise; NULL: everything passes */
    struct tidings_str baseline; /* the etag patches begin at; borrowed likewise */
};

/* What clients may ask for; the fields in `given` are limited. */
struct option_ceiling {
    unsigned given;
    unsigned matches; /* 1u << enum option_match: the kinds that may be, however asked for */
    enum option_include include;
    uint64_t window_ms, rate_ms;
    unsigned refused; /* OPTION_… bits of what may not be asked for at all */
};

/* What holds below one URI prefix. */
struct option_rule {
    struct tidings_str prefix; /* canonical; empty: everywhere */
    struct options defaults;   /* those in its `given` */
    struct option_ceiling ceiling;
};

/* Rules that are set while threads use them: a set is immutable and counted. */
struct option_rules {
    const struct option_rule *at; /* shortest prefix first; a longer one wins */
    size_t count;
    void (*destroy)(struct option_rules *rules); /* nobody uses them any more */
    unsigned refs;
};

struct option_rules *option_rules_ref(struct option_rules *rules); /* NULL is fine */
void option_rules_unref(struct option_rules *rules);

struct dialect_defaults;

struct option_limits {
    uint64_t window_ms, rate_ms;         /* defaults */
    bool is_slim, gather;                /* likewise */
    uint64_t max_window_ms, max_rate_ms; /* ceilings: more is refused */
    const struct option_rule *rules;     /* shortest prefix first; a longer one wins */
    size_t rule_count;
};

/* Those that the params of a request carry, in `_meta`; NULL: none. */
struct json *options_find(struct json *params);
/* Nothing asked for. */
void options_init(struct options *o);
/* What is not asked for is this, where no rule says otherwise. */
void options_default(struct options *o, struct option_limits *limits,
                     const struct dialect_defaults *defaults);
/* Take what the object says; fields it lacks stay. `value` NULL: nothing happens. `uris` says
 * whether a member of that name may be there (it is not looked at). TIDINGS_E_INVALID; `o` is as it
 * was then. */
int options_read(struct options *o, struct json *value, bool uris, struct tidings_error *err);
/* Take `baseline` or `initialBaseline` of the params of a request, if one is there. */
int options_read_params(struct options *o, struct json *params, struct tidings_error *err);
/* Fill in what was not asked for, and refuse (TIDINGS_E_INVALID) what may not be. `uri` is what all
 * that the subscription covers begins with; empty: it may cover anything. Defaults come from rules
 * it lies within; ceilings also from those it reaches into. *ret_matches: 1u << enum option_match
 * of the kinds it may turn out to be. */
int options_resolve(struct options *o, const struct option_limits *limits, struct tidings_str uri,
                    unsigned *ret_matches, struct tidings_error *err);
/* "literal, glob": the kinds in a set, for a sentence. */
void options_put_matches(struct buf *out, unsigned set);

/* A rule from its two objects (each may be NULL): `options` as a client would send it, without
 * `since` and `baseline`; `limits` with the largest windowMs and rateMs, the most include, an array
 * of kinds as match, and false for the others (but bookmarks, detail and gather) to have them
 * refused.
 * `rule->prefix` is not touched; the defaults borrow from `options`. TIDINGS_E_INVALID. */
int option_rule_read(struct option_rule *rule, struct json *options, struct json *limits,
                     struct tidings_error *err);

#endif
