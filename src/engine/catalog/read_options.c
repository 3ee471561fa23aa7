/* SPDX-License-Identifier: MIT
 *
 * Parsing the options of a read from `_meta`. The input is untrusted: every member is checked, and
 * no tidings option is ignored.
 */
#include "engine/catalog/read_options.h"

#include "base/str.h"
#include "formats/http_fields.h"

/* -------------------------------------------------------------------------------------------------
 * Checking the contents of a read: counts elements and records the first broken rule.
 */

static void read_rules_breach(struct read_rules *r, const char *what, struct tidings_str which)
{
    if (r->breach.code == 0) {
        tidings_fail(&r->breach, TIDINGS_E_INTERNAL, "%s ('%.*s')", what, STR_ARG_MAX(which, 100));
    }
}

static void add_format(struct read_rules *r, struct tidings_str mime_type)
{
    uint64_t hash = str_hash(mime_type, 0);
    for (unsigned i = 0; i < r->own; i++) {
        if (r->formats[i] == hash) {
            read_rules_breach(
                r,
                "the elements of a resource without children are alternatives and need a "
                "mimeType each, all different",
                mime_type);
        }
    }
    if (r->own < READ_ALTERNATIVES_MAX) {
        r->formats[r->own++] = hash;
    } else {
        read_rules_breach(r, "a resource without children has at most 16 alternatives", mime_type);
    }
}

int read_rules_add(struct read_rules *r, bool own, const struct tidings_resource *about,
                   struct tidings_error *err)
{
    if (++r->total > READ_ELEMENTS_MAX) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a read gives at most %u elements",
                            READ_ELEMENTS_MAX);
    }
    if (own) {
        r->listable = r->listable || about->listable;
        add_format(r, about->mime_type);
    } else {
        read_rules_breach(r, "a resource without children must not give content under another URI",
                          about->uri);
    }
    return 0;
}

int read_rules_end(const struct read_rules *r, struct tidings_error *err)
{
    if (r->listable) {
        return 0;
    }
    if (r->breach.code < 0) {
        if (err) {
            *err = r->breach;
        }
        return r->breach.code;
    }
    if (r->total == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "a resource without children must give at least one element");
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------- */

#define RANGE "dev.tidings/range"
#define IF_NONE_MATCH "dev.tidings/ifNoneMatch"
#define ACCEPT "dev.tidings/accept"
#define AT_LEAST "dev.tidings/atLeast"
#define TEXT_MAX 256u /* of an etag or a format */

static int read_options_read_count(const struct json *v, const char *name, int64_t min,
                                   int64_t *ret, struct tidings_error *err)
{
    if (!jv_is(v, JV_INT) || jv_int(v) < min) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' of '" RANGE "' must be a whole number from %lld on", name,
                            (long long)min);
    }
    *ret = jv_int(v);
    return 0;
}

static int read_unit(const struct json *v, enum tidings_unit *ret, struct tidings_error *err)
{
    bool is_bytes = str_eq(jv_str(v), STR("bytes"));
    if (!jv_is(v, JV_STRING) || (!is_bytes && !str_eq(jv_str(v), STR("lines")))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'unit' of '" RANGE "' must be \"bytes\" or \"lines\"");
    }
    *ret = is_bytes ? TIDINGS_UNIT_BYTES : TIDINGS_UNIT_LINES;
    return 0;
}

static int read_options_read_range(struct read_options *o, struct json *v,
                                   struct tidings_error *err)
{
    if (!jv_is(v, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'" RANGE "' must be an object such as {\"unit\": \"lines\", "
                            "\"last\": 100}");
    }
    struct tidings_range range = {.to = -1};
    struct tidings_str key;
    struct json *member = NULL;
    int rc = 0;
    for (void *at = jv_next(v, NULL, &key, &member); at && rc == 0;
         at = jv_next(v, at, &key, &member)) {
        if (str_eq(key, STR("unit"))) {
            rc = read_unit(member, &range.unit, err);
        } else if (str_eq(key, STR("from"))) {
            rc = read_options_read_count(member, "from", 0, &range.from, err);
        } else if (str_eq(key, STR("to"))) {
            rc = read_options_read_count(member, "to", 0, &range.to, err);
        } else if (str_eq(key, STR("last"))) {
            rc = read_options_read_count(member, "last", 1, &range.last, err);
        } else {
            rc =
                tidings_fail(err, TIDINGS_E_INVALID,
                             "unknown member '%.*s' of '" RANGE "'; known are unit, from, to, last",
                             STR_ARG_MAX(key, 64));
        }
    }
    if (rc == 0) {
        rc = byte_range_check(&range, err);
    }
    if (rc == 0 && jv_get(v, "last") && jv_get(v, "from")) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "'" RANGE "' is either 'last' or 'from' and 'to', not both");
    }
    o->range = range;
    o->has_range = rc == 0;
    return rc;
}

/* A string, or an array of 1 to `max` strings. */
static int read_texts(const struct json *v, const char *name, size_t max, struct tidings_str *texts,
                      size_t *count, struct tidings_error *err)
{
    bool is_array = jv_is(v, JV_ARRAY);
    size_t n = is_array ? jv_count(v) : 1;
    bool good = n > 0 && n <= max;
    for (size_t i = 0; i < n && good; i++) {
        const struct json *text = is_array ? jv_at(v, i) : v;
        texts[i] = jv_str(text);
        good = jv_is(text, JV_STRING) && texts[i].len > 0 && texts[i].len <= TEXT_MAX;
    }
    if (!good) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' must be a string of 1 to %u bytes, or an array of 1 to %zu", name,
                            TEXT_MAX, max);
    }
    *count = n;
    return 0;
}

int read_options_parse(struct read_options *o, const struct json *meta, struct tidings_error *err)
{
    memset(o, 0, sizeof(*o));
    struct json *range = jv_get(meta, RANGE);
    struct json *held = jv_get(meta, IF_NONE_MATCH);
    struct json *accept = jv_get(meta, ACCEPT);
    int rc = range ? read_options_read_range(o, range, err) : 0;
    if (rc == 0 && held) {
        rc = read_texts(held, IF_NONE_MATCH, READ_ETAGS_MAX, o->etags, &o->etag_count, err);
    }
    if (rc == 0 && accept) {
        rc = read_texts(accept, ACCEPT, READ_FORMATS_MAX, o->formats, &o->format_count, err);
    }
    const struct json *cursor = jv_get(meta, AT_LEAST);
    if (rc == 0 && cursor) {
        o->at_least = jv_str(cursor);
        rc = jv_is(cursor, JV_STRING) && o->at_least.len > 0 && o->at_least.len <= READ_CURSOR_MAX
                 ? 0
                 : tidings_fail(err, TIDINGS_E_INVALID,
                                "'" AT_LEAST "' must be a cursor, a string of 1 to %u bytes",
                                READ_CURSOR_MAX);
    }
    for (size_t i = 0; i < o->format_count && rc == 0; i++) {
        if (str_find(o->formats[i], '/') < 1) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "'" ACCEPT "' must hold media types such as \"text/html\" or "
                              "\"text/*\"");
        }
    }
    return rc;
}

bool read_options_holds(const struct read_options *o, struct tidings_str etag,
                        struct tidings_str *ret)
{
    if (etag.len == 0 || str_starts(etag, STR("W/"))) {
        return false;
    }
    for (size_t i = 0; i < o->etag_count; i++) {
        if (str_eq(o->etags[i], etag)) {
            if (ret) {
                *ret = o->etags[i];
            }
            return true;
        }
    }
    return false;
}

/* Without parameters. */
static struct tidings_str read_options_media_range(struct tidings_str mime_type)
{
    struct tidings_str rest;
    return str_trim(str_cut(mime_type, ';', &rest, NULL), " \t");
}

static bool is_accepted(struct tidings_str wanted, struct tidings_str mime_type)
{
    wanted = read_options_media_range(wanted);
    if (str_eq(wanted, STR("*/*"))) {
        return true;
    }
    if (str_ends(wanted, STR("/*")) && mime_type.len >= wanted.len) {
        wanted.len--;
        mime_type.len = wanted.len;
    }
    return str_eq_nocase(wanted, mime_type);
}

size_t read_options_rank(const struct read_options *o, struct tidings_str mime_type)
{
    mime_type = read_options_media_range(mime_type);
    size_t rank = 0;
    while (rank < o->format_count && !is_accepted(o->formats[rank], mime_type)) {
        rank++;
    }
    return rank;
}
