/* SPDX-License-Identifier: MIT
 *
 * Makes the options of a subscription out of flags of `tidings watch`.
 */
#include "bin/watch/subscribe_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/remote/given.h"
#include "bin/remote/tool.h"

const char *const include_names[] = {"none", "metadata", "value", "patch", NULL};
const char *const match_names[] = {"auto", "literal", "container", "template",
                                   "glob", "regex",   NULL};
const char *const detail_names[] = {"full", "slim", NULL};

/* What is put together: the members that are said by options of their own, then the others. */
struct making_options {
    FILE *out;
    size_t count;
    const char *said[9];
};

static void subscribe_options_begin(struct making_options *m, const char *name)
{
    fprintf(m->out, "%s\"%s\":", m->count > 0 ? "," : "", name);
    m->said[m->count++] = name;
}

static void subscribe_options_put_name(struct making_options *m, const char *name, const char *text)
{
    subscribe_options_begin(m, name);
    put_quoted(m->out, tidings_str(text));
}

static void subscribe_options_put_time(struct making_options *m, const char *name, uint64_t ms)
{
    subscribe_options_begin(m, name);
    fprintf(m->out, "%" PRIu64, ms);
}

static void subscribe_options_put(struct making_options *m, const struct subscribe_options *o,
                                  enum match match, const char *filter)
{
    if (o->since) {
        subscribe_options_put_name(m, "since", o->since);
    }
    if (o->include != INCLUDE_NONE) {
        subscribe_options_put_name(m, "include", include_names[o->include]);
    }
    if (match != MATCH_AUTO) {
        subscribe_options_put_name(m, "match", match_names[match]);
    }
    if (o->has_window) {
        subscribe_options_put_time(m, "windowMs", o->window_ms);
    }
    if (o->has_rate) {
        subscribe_options_put_time(m, "rateMs", o->rate_ms);
    }
    if (o->has_detail) {
        subscribe_options_put_name(m, "detail", detail_names[o->detail]);
    }
    if (o->is_initial) {
        subscribe_options_begin(m, "initial");
        fputs("true", m->out);
    }
    if (filter) {
        subscribe_options_begin(m, "filter");
        fputs(filter, m->out);
    }
}

/* Unknown keywords of a JSON Schema are ignored: with none that is known it lets everything pass.
 */
static int subscribe_options_on_keyword(void *user, struct tidings_str key,
                                        struct tidings_str value)
{
    static const char *const known[] = {
        "$ref",
        "$schema",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "dependentRequired",
        "enum",
        "if",
        "items",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "properties",
        "propertyNames",
        "required",
        "type",
    };
    bool *is_known = user;
    (void)value;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *is_known = *is_known || tidings_str_eq(key, tidings_str(known[i]));
    }
    return 0;
}

static int subscribe_options_check_filter(const char *filter, struct tidings_error *err)
{
    bool is_known = filter[0] != '{' || strcmp(filter, "{}") == 0;
    tidings_json_each(tidings_str(filter), "", subscribe_options_on_keyword, &is_known);
    return is_known ? 0
                    : tidings_fail(err, TIDINGS_E_INVALID,
                                   "--filter: no keyword of JSON Schema is in it, so it would let "
                                   "everything pass; changes whose metadata has a value are "
                                   "subscribed to as 'URI?name=value'");
}

/* One of --options, unless an option of its own says it. */
static int subscribe_options_on_member(void *user, struct tidings_str key, struct tidings_str value)
{
    struct making_options *m = user;
    for (size_t i = 0; i < m->count && m->said[i]; i++) {
        if (tidings_str_eq(key, tidings_str(m->said[i]))) {
            return 0;
        }
    }
    fputs(ftell(m->out) > 1 ? "," : "", m->out);
    put_quoted(m->out, key);
    fprintf(m->out, ":%.*s", (int)value.len, value.ptr);
    return 0;
}

static int subscribe_options_check(const char *options, struct tidings_error *err)
{
    char *whole = options ? tidings_json_get(tidings_str(options), "") : NULL;
    bool is_object = !options || (whole && whole[0] == '{');
    tidings_free(whole);
    return is_object
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "--options takes a JSON object, such as '%s'",
                              "{\"windowMs\": 0}");
}

int subscribe_options_make(const struct subscribe_options *o, enum match match, char **ret,
                           struct tidings_error *err)
{
    struct json_text t;
    struct making_options m = {0};
    *ret = NULL;
    int rc = subscribe_options_check(o->options, err);
    char *filter = rc == 0 && o->filter ? given_json(o->filter, err) : NULL;
    rc = filter ? subscribe_options_check_filter(filter, err) : rc;
    if (rc < 0 || (o->filter && !filter)) {
        tidings_free(filter);
        return err->code;
    }
    match = o->match != MATCH_AUTO ? (enum match)o->match : match;
    if (!json_text_begin(&t)) {
        tidings_free(filter);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m.out = t.out;
    fputc('{', t.out);
    subscribe_options_put(&m, o, match, filter);
    if (o->options) {
        (void)tidings_json_each(tidings_str(o->options), "", subscribe_options_on_member, &m);
    }
    fputc('}', t.out);
    tidings_free(filter);
    char *text = json_text_take(&t);
    if (text && strcmp(text, "{}") != 0) {
        *ret = tidings_json_get(tidings_str(text), "");
    }
    bool is_none = text && strcmp(text, "{}") == 0;
    free(text);
    return *ret || is_none ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

const char *subscribe_options_given(const struct subscribe_options *o, char out[128])
{
    const struct {
        bool is_given;
        const char *name;
    } all[] = {
        {o->since, "--since"},
        {o->include == INCLUDE_METADATA || o->include == INCLUDE_PATCH, "--include"},
        {o->filter, "--filter"},
        {o->has_window, "--window"},
        {o->has_rate, "--rate"},
        {o->has_detail, "--detail"},
        {o->match != MATCH_AUTO, "--match"},
        {o->options, "--options"},
    };
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].is_given) {
            len += (size_t)snprintf(out + len, 128 - len, "%s%s", len > 0 ? ", " : "", all[i].name);
        }
    }
    return out;
}
