/* SPDX-License-Identifier: MIT
 *
 * The table of subscription options, one row per field: its name, how it is read from a client, how
 * a ceiling of it is read.
 */
#include "engine/delivery/options.h"

#include <limits.h>
#include <stdio.h>

#include "base/str.h"
#include "engine/delivery/filters.h"
#include "engine/protocol/dialect.h"
#include "formats/uri.h"
#include "security/principal.h"

#define BASELINE_MAX 256u
#define OTHER_BASELINE "initialBaseline" /* another name of the same option */
#define MS_MAX 86400000                  /* a day; the longest --max-rate */

static const char *const matches[] = {"auto", "literal", "container", "template",
                                      "glob", "regex",   NULL};
static const char *const orders[] = {"merged", "strict", NULL};
static const char *const details[] = {"full", "slim", NULL};
static const char *const includes[] = {"none", "metadata", "value", "patch", NULL};

struct json *options_find(struct json *params)
{
    return jv_get(jv_get(params, "_meta"), "dev.tidings/options");
}

void options_init(struct options *o)
{
    memset(o, 0, sizeof(*o));
    o->echo = true;
}

/* ---- the fields ------------------------------------------------------------------------------ */

static int options_refuse_value(const char *name, const char *accepted, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID, "option '%s' must be %s", name, accepted);
}

static int read_choice(struct json *v, const char *name, const char *const *choices, unsigned *ret,
                       struct tidings_error *err)
{
    char accepted[128] = "one of";
    size_t len = strlen(accepted);
    for (unsigned i = 0; choices[i]; i++) {
        if (jv_is(v, JV_STRING) && str_eq(jv_str(v), tidings_str(choices[i]))) {
            *ret = i;
            return 0;
        }
        size_t n = strlen(choices[i]);
        if (len + n + 3 < sizeof(accepted)) {
            accepted[len++] = i == 0 ? ' ' : ',';
            if (i > 0) {
                accepted[len++] = ' ';
            }
            memcpy(accepted + len, choices[i], n + 1);
            len += n;
        }
    }
    return options_refuse_value(name, accepted, err);
}

static int read_bool(struct json *v, const char *name, bool *ret, struct tidings_error *err)
{
    if (!jv_is(v, JV_TRUE) && !jv_is(v, JV_FALSE)) {
        return options_refuse_value(name, "true or false", err);
    }
    *ret = jv_is_true(v);
    return 0;
}

static int options_refuse_ms(const char *name, uint64_t max, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "option '%s' must be an integer from 0 to %llu (milliseconds)", name,
                        (unsigned long long)max);
}

static int read_ms(struct json *v, const char *name, uint64_t *ret, struct tidings_error *err)
{
    if (!jv_is(v, JV_INT) || jv_int(v) < 0 || jv_int(v) > MS_MAX) {
        return options_refuse_value(name, "an integer of milliseconds, 0 to 86400000", err);
    }
    *ret = (uint64_t)jv_int(v);
    return 0;
}

static int read_match(struct options *o, struct json *v, struct tidings_error *err)
{
    unsigned choice = 0;
    int rc = read_choice(v, "match", matches, &choice, err);
    o->match = (enum option_match)choice;
    return rc;
}

static int read_window(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_ms(v, "windowMs", &o->window_ms, err);
}

static int read_rate(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_ms(v, "rateMs", &o->rate_ms, err);
}

static int read_include(struct options *o, struct json *v, struct tidings_error *err)
{
    unsigned choice = 0;
    int rc = read_choice(v, "include", includes, &choice, err);
    o->include = (enum option_include)choice;
    return rc;
}

static int read_initial(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_bool(v, "initial", &o->initial, err);
}

static int read_since(struct options *o, struct json *v, struct tidings_error *err)
{
    o->sealed = cursor_is_sealed(jv_str(v)) ? jv_str(v) : STR_EMPTY;
    if (!jv_is(v, JV_STRING) || (o->sealed.len == 0 && !cursor_parse(jv_str(v), &o->since))) {
        return options_refuse_value("since", "a cursor from this server", err);
    }
    return 0;
}

static int read_origin(struct options *o, struct json *v, struct tidings_error *err)
{
    if (!jv_is(v, JV_STRING) || jv_str(v).len == 0 || jv_str(v).len > ORIGIN_MAX) {
        return options_refuse_value("origin", "a string of 1 to 256 bytes", err);
    }
    o->origin = jv_str(v);
    return 0;
}

static int read_echo(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_bool(v, "echo", &o->echo, err);
}

static int read_filter(struct options *o, struct json *v, struct tidings_error *err)
{
    if (!jv_is(v, JV_OBJECT)) {
        return options_refuse_value("filter", "an object: a JSON Schema for {uri, metadata}", err);
    }
    o->filter = v;
    return 0;
}

static int read_baseline(struct options *o, struct json *v, struct tidings_error *err)
{
    if (!jv_is(v, JV_STRING) || jv_str(v).len == 0 || jv_str(v).len > BASELINE_MAX) {
        return options_refuse_value(
            "baseline", "the etag of what you have (of an entity: its validFrom), a string", err);
    }
    o->baseline = jv_str(v);
    return 0;
}

static int read_order(struct options *o, struct json *v, struct tidings_error *err)
{
    unsigned choice = 0;
    int rc = read_choice(v, "order", orders, &choice, err);
    o->is_strict = choice > 0;
    return rc;
}

static int read_bookmarks(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_bool(v, "bookmarks", &o->bookmarks, err);
}

static int read_gather(struct options *o, struct json *v, struct tidings_error *err)
{
    return read_bool(v, "gather", &o->gather, err);
}

static int read_detail(struct options *o, struct json *v, struct tidings_error *err)
{
    unsigned choice = 0;
    int rc = read_choice(v, "detail", details, &choice, err);
    o->is_slim = choice > 0;
    return rc;
}

/* It has two names; both may be present. */
static int check_baselines(const struct json *a, const struct json *b, struct tidings_error *err)
{
    if (a && b && !jv_equal(a, b)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "two different baselines are given");
    }
    return 0;
}

/* ---- ceilings -------------------------------------------------------------------------------- */

static int limit_match(struct option_ceiling *c, struct json *v, struct tidings_error *err)
{
    c->matches = 0;
    for (size_t i = 0; i < jv_count(v); i++) {
        unsigned choice = 0;
        int rc = read_choice(jv_at(v, i), "match", matches + 1, &choice, err);
        if (rc < 0) {
            return rc;
        }
        c->matches |= 1u << (choice + 1);
    }
    return c->matches
               ? 0
               : options_refuse_value("match", "an array of the kinds that may be asked for", err);
}

static int limit_window(struct option_ceiling *c, struct json *v, struct tidings_error *err)
{
    return read_ms(v, "windowMs", &c->window_ms, err);
}

static int limit_rate(struct option_ceiling *c, struct json *v, struct tidings_error *err)
{
    return read_ms(v, "rateMs", &c->rate_ms, err);
}

static int limit_include(struct option_ceiling *c, struct json *v, struct tidings_error *err)
{
    unsigned choice = 0;
    int rc = read_choice(v, "include", includes, &choice, err);
    c->include = (enum option_include)choice;
    return rc;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct field {
    const char *name;
    int (*read)(struct options *o, struct json *v, struct tidings_error *err);
    /* NULL: a boolean that may be allowed or not. */
    int (*limit)(struct option_ceiling *c, struct json *v, struct tidings_error *err);
    bool has_no_limit; /* without cost to the server */
} fields[] = {
    /* in the order of enum option_bit */
    {.name = "match", .read = read_match, .limit = limit_match},
    {.name = "windowMs", .read = read_window, .limit = limit_window},
    {.name = "rateMs", .read = read_rate, .limit = limit_rate},
    {.name = "include", .read = read_include, .limit = limit_include},
    {.name = "initial", .read = read_initial},
    {.name = "since", .read = read_since},
    {.name = "origin", .read = read_origin},
    {.name = "echo", .read = read_echo},
    {.name = "filter", .read = read_filter},
    {.name = "baseline", .read = read_baseline},
    {.name = "order", .read = read_order},
    {.name = "bookmarks", .read = read_bookmarks, .has_no_limit = true},
    {.name = "detail", .read = read_detail, .has_no_limit = true},
    {.name = "gather", .read = read_gather, .has_no_limit = true},
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static int options_refuse_unknown(struct tidings_str key, struct tidings_error *err)
{
    char known[160] = "";
    size_t len = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i > 0 ? ", " : "",
                                fields[i].name);
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "unknown option '%.*s'; known are %s, %s",
                        STR_ARG_MAX(key, 64), known, OTHER_BASELINE);
}

/* The row of that name; FIELDS: none. */
static size_t find_field(struct tidings_str key)
{
    size_t i = 0;
    if (str_eq(key, STR(OTHER_BASELINE))) {
        key = STR("baseline");
    }
    while (i < FIELDS && !str_eq(key, tidings_str(fields[i].name))) {
        i++;
    }
    return i;
}

void options_default(struct options *o, struct option_limits *limits,
                     const struct dialect_defaults *defaults)
{
    if (defaults->metadata && !(o->given & OPTION_INCLUDE)) {
        o->include = OPTION_INCLUDE_METADATA;
    }
    if (defaults->rate_ms > 0) {
        limits->rate_ms = defaults->rate_ms;
    }
    limits->gather = defaults->gather;
}

int options_read(struct options *o, struct json *value, bool uris, struct tidings_error *err)
{
    if (!value) {
        return 0;
    }
    if (!jv_is(value, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'dev.tidings/options' must be an object");
    }
    if (check_baselines(jv_get(value, "baseline"), jv_get(value, OTHER_BASELINE), err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct options next = *o;
    struct tidings_str key;
    struct json *member = NULL;
    for (void *at = jv_next(value, NULL, &key, &member); at;
         at = jv_next(value, at, &key, &member)) {
        if (uris && str_eq(key, STR("uris"))) {
            continue;
        }
        size_t i = find_field(key);
        int rc =
            i == FIELDS ? options_refuse_unknown(key, err) : fields[i].read(&next, member, err);
        if (rc < 0) {
            return rc;
        }
        next.given |= 1u << i;
    }
    *o = next;
    return 0;
}

int options_read_params(struct options *o, struct json *params, struct tidings_error *err)
{
    struct json *a = jv_get(params, "baseline"), *b = jv_get(params, OTHER_BASELINE);
    struct json *given = a ? a : b;
    struct options next = *o;
    int rc = check_baselines(a, b, err);
    if (rc < 0 || !given) {
        return rc;
    }
    rc = read_baseline(&next, given, err);
    if (rc == 0 && o->given & OPTION_BASELINE && !str_eq(o->baseline, next.baseline)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "two different baselines are given");
    }
    if (rc == 0) {
        o->baseline = next.baseline;
        o->given |= OPTION_BASELINE;
    }
    return rc;
}

static int read_ceiling(struct option_ceiling *c, struct json *value, struct tidings_error *err)
{
    struct tidings_str key;
    struct json *member = NULL;
    for (void *at = jv_next(value, NULL, &key, &member); at;
         at = jv_next(value, at, &key, &member)) {
        size_t i = find_field(key);
        bool allowed = false;
        int rc = i == FIELDS       ? options_refuse_unknown(key, err)
                 : fields[i].limit ? fields[i].limit(c, member, err)
                                   : read_bool(member, fields[i].name, &allowed, err);
        if (i < FIELDS && fields[i].has_no_limit) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "option '%s' has no limit", fields[i].name);
        }
        if (rc < 0) {
            return rc;
        }
        c->given |= 1u << i;
        c->refused |= fields[i].limit || allowed ? 0 : 1u << i;
    }
    return 0;
}

int option_rule_read(struct option_rule *rule, struct json *options, struct json *limits,
                     struct tidings_error *err)
{
    options_init(&rule->defaults);
    memset(&rule->ceiling, 0, sizeof(rule->ceiling));
    if ((options && !jv_is(options, JV_OBJECT)) || (limits && !jv_is(limits, JV_OBJECT))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'options' and 'limits' must be objects");
    }
    int rc = options_read(&rule->defaults, options, false, err);
    if (rc == 0 && (rule->defaults.given & (OPTION_SINCE | OPTION_BASELINE))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "option '%s' has no default",
                          rule->defaults.given & OPTION_SINCE ? "since" : "baseline");
    }
    if (rc == 0 && rule->defaults.filter) {
        rc = filter_check(rule->defaults.filter, err);
    }
    return rc == 0 && limits ? read_ceiling(&rule->ceiling, limits, err) : rc;
}

struct option_rules *option_rules_ref(struct option_rules *rules)
{
    if (rules) {
        __atomic_add_fetch(&rules->refs, 1, __ATOMIC_RELAXED);
    }
    return rules;
}

void option_rules_unref(struct option_rules *rules)
{
    if (rules && __atomic_sub_fetch(&rules->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        rules->destroy(rules);
    }
}

/* ---- applying rules and defaults ------------------------------------------------------------- */

static void take_defaults(struct options *o, const struct options *from, unsigned which)
{
    o->match = which & OPTION_MATCH ? from->match : o->match;
    o->window_ms = which & OPTION_WINDOW ? from->window_ms : o->window_ms;
    o->rate_ms = which & OPTION_RATE ? from->rate_ms : o->rate_ms;
    o->include = which & OPTION_INCLUDE ? from->include : o->include;
    o->initial = which & OPTION_INITIAL ? from->initial : o->initial;
    o->origin = which & OPTION_ORIGIN ? from->origin : o->origin;
    o->echo = which & OPTION_ECHO ? from->echo : o->echo;
    o->filter = which & OPTION_FILTER ? from->filter : o->filter;
    o->is_strict = which & OPTION_ORDER ? from->is_strict : o->is_strict;
    o->bookmarks = which & OPTION_BOOKMARKS ? from->bookmarks : o->bookmarks;
    o->is_slim = which & OPTION_DETAIL ? from->is_slim : o->is_slim;
    o->gather = which & OPTION_GATHER ? from->gather : o->gather;
}

/* If the subscription is inside the rule's prefix, the rule's ceiling applies; if it only overlaps
 * it, the stricter of both. */
static void take_ceiling(struct option_ceiling *to, const struct option_ceiling *c, bool inside)
{
    if (c->given & OPTION_WINDOW && (inside || c->window_ms < to->window_ms)) {
        to->window_ms = c->window_ms;
    }
    if (c->given & OPTION_RATE && (inside || c->rate_ms < to->rate_ms)) {
        to->rate_ms = c->rate_ms;
    }
    if (c->given & OPTION_INCLUDE && (inside || c->include < to->include)) {
        to->include = c->include;
    }
    if (c->given & OPTION_MATCH) {
        to->matches = inside ? c->matches : to->matches & c->matches;
    }
    to->refused = (inside ? to->refused & ~c->given : to->refused) | c->refused;
}

static int check_refused(const struct options *o, unsigned refused, struct tidings_error *err)
{
    /* Options without effect do not count as requested. */
    unsigned asked = o->given & (OPTION_SINCE | OPTION_ORIGIN | OPTION_FILTER | OPTION_BASELINE);
    asked |= o->initial ? o->given & OPTION_INITIAL : 0;
    asked |= o->echo ? 0 : o->given & OPTION_ECHO;
    asked |= o->is_strict ? o->given & OPTION_ORDER : 0;
    for (size_t i = 0; i < FIELDS; i++) {
        if (asked & refused & (1u << i)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "option '%s' may not be used here",
                                fields[i].name);
        }
    }
    return 0;
}

static int check_ceiling(const struct options *o, const struct option_ceiling *c,
                         struct tidings_error *err)
{
    if (o->given & OPTION_WINDOW && o->window_ms > c->window_ms) {
        return options_refuse_ms("windowMs", c->window_ms, err);
    }
    if (o->given & OPTION_RATE && o->rate_ms > c->rate_ms) {
        return options_refuse_ms("rateMs", c->rate_ms, err);
    }
    if (o->given & OPTION_INCLUDE && o->include > c->include && c->include < OPTION_INCLUDE_VALUE) {
        return tidings_fail(err, TIDINGS_E_INVALID, "option 'include' may be at most '%s' here",
                            includes[c->include]);
    }
    return check_refused(o, c->refused, err);
}

int options_resolve(struct options *o, const struct option_limits *limits, struct tidings_str uri,
                    unsigned *ret_matches, struct tidings_error *err)
{
    struct option_ceiling ceiling = {
        .window_ms = limits->max_window_ms,
        .rate_ms = limits->max_rate_ms,
        .include = OPTION_INCLUDE_PATCH,
        .matches = UINT_MAX,
    };
    struct options server = {
        .window_ms = limits->window_ms,
        .rate_ms = limits->rate_ms,
        .is_slim = limits->is_slim,
        .gather = limits->gather,
    };
    take_defaults(o, &server,
                  (OPTION_WINDOW | OPTION_RATE | OPTION_DETAIL | OPTION_GATHER) & ~o->given);
    for (size_t i = 0; i < limits->rule_count; i++) {
        const struct option_rule *rule = &limits->rules[i];
        bool inside = rule->prefix.len == 0 || uri_is_within(uri, rule->prefix);
        if (inside) {
            take_defaults(o, &rule->defaults, rule->defaults.given & ~o->given);
        }
        if (inside || uri.len == 0 || uri_is_within(rule->prefix, uri)) {
            take_ceiling(&ceiling, &rule->ceiling, inside);
        }
    }
    *ret_matches = ceiling.matches;
    return check_ceiling(o, &ceiling, err);
}

void options_put_matches(struct buf *out, unsigned set)
{
    const char *between = "";
    for (unsigned i = 1; matches[i]; i++) {
        if (set & (1u << i)) {
            buf_putf(out, "%s%s", between, matches[i]);
            between = ", ";
        }
    }
}
