/* SPDX-License-Identifier: MIT
 *
 * Whether a completion's suggestion leads to what somebody may list. With all variables known the
 * URI says so; else the part before the first unknown one does, if the suggestion is in it.
 */
#include "catalog/completion_access.h"

#include "base/str.h"
#include "uri/template.h"
#include "uri/uri.h"
#include "json/json.h"

/* The next name of an expression without its modifiers; `rest` is what is between the braces. */
static struct tidings_str next_name(struct tidings_str *rest)
{
    struct tidings_str name = str_cut(*rest, ',', rest, NULL), modifier;
    name = str_trim(str_cut(name, ':', &modifier, NULL), "+#./;?&");
    return str_trim(name, "*");
}

static bool is_known(const struct tidings_complete *c, struct tidings_str name)
{
    return str_eq(name, c->name) || jv_is(jv_get_str(c->context, name), JV_STRING);
}

/* How much of the template is before what is not known; `has_own`: the suggestion is in it. */
static size_t known_part(const struct tidings_complete *c, struct tidings_str text, bool *has_own)
{
    size_t at = 0;
    *has_own = false;
    while (at < text.len) {
        ptrdiff_t open = str_find(str_skip(text, at), '{');
        ptrdiff_t close = open < 0 ? -1 : str_find(str_skip(text, at + (size_t)open), '}');
        if (close < 0) {
            return text.len;
        }
        size_t begin = at + (size_t)open;
        struct tidings_str rest = tidings_strn(text.ptr + begin + 1, (size_t)close - 1);
        bool is_own = false;
        while (rest.len > 0) {
            struct tidings_str name = next_name(&rest);
            if (!is_known(c, name)) {
                return begin;
            }
            is_own = is_own || str_eq(name, c->name);
        }
        *has_own = *has_own || is_own;
        at = begin + (size_t)close + 1;
    }
    return text.len;
}

static int completion_access_expand(const struct tidings_complete *c, struct tidings_str text,
                                    struct tidings_str value, struct buf *out)
{
    struct template_variable known[TEMPLATE_MAX_VARIABLES];
    struct uri_template *t = NULL;
    size_t count = 0;
    int rc = template_create(text, &t, NULL);
    for (size_t i = 0; rc == 0 && i < template_variable_count(t); i++) {
        struct tidings_str name = template_variable(t, i);
        known[count++] = (struct template_variable){
            .name = name,
            .type = TEMPLATE_STRING,
            .string = str_eq(name, c->name) ? value : jv_str(jv_get_str(c->context, name)),
        };
    }
    rc = rc == 0 ? template_expand(t, known, count, out, NULL) : rc;
    template_destroy(t);
    return rc;
}

bool completion_access_allows(const struct tidings_complete *c, struct tidings_str value)
{
    struct tidings_str text = c->base.uri;
    if (text.len == 0) {
        return true; /* of a prompt */
    }
    bool has_own;
    size_t known = known_part(c, text, &has_own);
    bool is_whole = known == text.len;
    struct buf expanded, uri;
    buf_init(&expanded, URI_MAX * 3);
    buf_init(&uri, URI_MAX * 3);
    bool may = has_own &&
               completion_access_expand(c, tidings_strn(text.ptr, known), value, &expanded) == 0;
    if (may && is_whole) {
        may = uri_canonical(buf_str(&expanded), &uri, NULL) == 0 &&
              access_allows(c->principal, ACCESS_LIST, buf_str(&uri));
    } else if (may) {
        buf_putc(&expanded, '{'); /* and whatever follows */
        may = !expanded.failed && access_reaches(c->principal, ACCESS_LIST, buf_str(&expanded));
    }
    buf_deinit(&expanded);
    buf_deinit(&uri);
    return may;
}
