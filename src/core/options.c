/* SPDX-License-Identifier: MIT
 *
 * One row per field: name, what is accepted, how it is read.
 */
#include "core/options.h"

#include "base/str.h"

#define ORIGIN_MAX 256u

void options_init(struct options *o, const struct option_limits *limits)
{
    memset(o, 0, sizeof(*o));
    o->window_ms = limits->window_ms;
    o->rate_ms = limits->rate_ms;
    o->echo = true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool cursor_parse(struct tidings_str text, uint64_t *epoch, uint64_t *seq)
{
    struct tidings_str rest;
    bool dotted = false;
    struct tidings_str head = str_cut(text, '.', &rest, &dotted);
    uint64_t e = 0;
    if (!dotted || head.len == 0 || head.len > 16) {
        return false;
    }
    for (size_t i = 0; i < head.len; i++) {
        int digit = hex_digit(head.ptr[i]);
        if (digit < 0) {
            return false;
        }
        e = e * 16 + (uint64_t)digit;
    }
    *epoch = e;
    return str_to_u64(rest, seq);
}

/* ---- the fields ------------------------------------------------------------------------------ */

static int wrong(const char *name, const char *accepted, struct tidings_error *err)
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
    return wrong(name, accepted, err);
}

static int read_bool(struct json *v, const char *name, bool *ret, struct tidings_error *err)
{
    if (!jv_is(v, JV_TRUE) && !jv_is(v, JV_FALSE)) {
        return wrong(name, "true or false", err);
    }
    *ret = jv_is_true(v);
    return 0;
}

static int read_ms(struct json *v, const char *name, uint64_t max, uint64_t *ret,
                   struct tidings_error *err)
{
    if (!jv_is(v, JV_INT) || jv_int(v) < 0 || (uint64_t)jv_int(v) > max) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "option '%s' must be an integer from 0 to %llu (milliseconds)", name,
                            (unsigned long long)max);
    }
    *ret = (uint64_t)jv_int(v);
    return 0;
}

static int read_field(struct options *o, struct tidings_str key, struct json *v,
                      const struct option_limits *limits, struct tidings_error *err)
{
    static const char *const matches[] = {"auto", "literal", "container", "template",
                                          "glob", "regex",   NULL};
    static const char *const includes[] = {"none", "metadata", "value", NULL};
    unsigned choice = 0;
    int rc = 0;
    if (str_eq(key, STR("match"))) {
        rc = read_choice(v, "match", matches, &choice, err);
        o->match = rc < 0 ? o->match : (enum option_match)choice;
    } else if (str_eq(key, STR("include"))) {
        rc = read_choice(v, "include", includes, &choice, err);
        o->include = rc < 0 ? o->include : (enum option_include)choice;
    } else if (str_eq(key, STR("windowMs"))) {
        rc = read_ms(v, "windowMs", limits->max_window_ms, &o->window_ms, err);
        o->has_window = true;
    } else if (str_eq(key, STR("rateMs"))) {
        rc = read_ms(v, "rateMs", limits->max_rate_ms, &o->rate_ms, err);
        o->has_rate = true;
    } else if (str_eq(key, STR("initial"))) {
        rc = read_bool(v, "initial", &o->initial, err);
    } else if (str_eq(key, STR("echo"))) {
        rc = read_bool(v, "echo", &o->echo, err);
    } else if (str_eq(key, STR("origin"))) {
        if (!jv_is(v, JV_STRING) || jv_str(v).len == 0 || jv_str(v).len > ORIGIN_MAX) {
            return wrong("origin", "a string of 1 to 256 bytes", err);
        }
        o->origin = jv_str(v);
    } else if (str_eq(key, STR("since"))) {
        if (!jv_is(v, JV_STRING) || !cursor_parse(jv_str(v), &o->since_epoch, &o->since)) {
            return wrong("since", "a cursor this server gave out", err);
        }
        o->has_since = true;
    } else {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "unknown option '%.*s'; known are match, windowMs, rateMs, include, "
                          "initial, since, origin, echo",
                          (int)(key.len < 64 ? key.len : 64), key.ptr);
    }
    return rc;
}

int options_read(struct options *o, struct json *value, const struct option_limits *limits,
                 bool uris, struct tidings_error *err)
{
    if (!value) {
        return 0;
    }
    if (!jv_is(value, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'dev.tidings/options' must be an object");
    }
    struct options next = *o;
    struct tidings_str key;
    struct json *member = NULL;
    for (void *at = jv_next(value, NULL, &key, &member); at;
         at = jv_next(value, at, &key, &member)) {
        if (uris && str_eq(key, STR("uris"))) {
            continue;
        }
        int rc = read_field(&next, key, member, limits, err);
        if (rc < 0) {
            return rc;
        }
    }
    *o = next;
    return 0;
}
