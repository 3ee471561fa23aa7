/* SPDX-License-Identifier: MIT
 *
 * JSON Schema compilation in three passes: index the document; resolve its references, which index
 * their targets; drop data needed only for compiling. Validation is in schema_eval.c.
 */
#include "formats/schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "formats/schema_eval.h"
#include "formats/schema_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Locations in a schema: JSON pointers (RFC 6901) in strings of fixed size, and errors that start
 * with one.
 */

void location_text_init(struct location_text *p, char *out, size_t size)
{
    *p = (struct location_text){.out = out, .size = size};
    out[0] = '\0';
}

void location_text_put(struct location_text *p, struct tidings_str s)
{
    size_t room = p->size - 1 - p->len;
    size_t len = s.len;
    if (p->is_full) {
        return;
    }
    if (len > room) {
        p->is_full = true;
        len = room;
        while (len > 0 && ((unsigned char)s.ptr[len] & 0xc0u) == 0x80u) {
            len--;
        }
    }
    if (len > 0) {
        memcpy(p->out + p->len, s.ptr, len);
    }
    p->len += len;
    p->out[p->len] = '\0';
}

void location_text_put_token(struct location_text *p, struct tidings_str key)
{
    size_t from = 0;
    location_text_put(p, STR("/"));
    for (size_t i = 0; i < key.len && !p->is_full; i++) {
        if (key.ptr[i] == '~' || key.ptr[i] == '/') {
            location_text_put(p, tidings_strn(key.ptr + from, i - from));
            location_text_put(p, key.ptr[i] == '~' ? STR("~0") : STR("~1"));
            from = i + 1;
        }
    }
    location_text_put(p, str_skip(key, from));
}

static void put_edges(struct location_text *p, const struct node *n)
{
    if (n->parent) { /* recursion is bounded by the nesting limit */
        put_edges(p, n->parent);
        location_text_put(p, n->edge);
    } else if (n->document->uri.len > 0) {
        location_text_put(p, n->document->uri);
        location_text_put(p, STR("#"));
    }
}

void schema_locate(const struct node *n, const char *keyword, char *out, size_t size)
{
    struct location_text p;
    location_text_init(&p, out, size);
    put_edges(&p, n);
    if (keyword) {
        location_text_put_token(&p, tidings_str(keyword));
    }
}

static int schema_refuse(const struct compiler *c, int code, const struct node *n,
                         const char *keyword, const char *text)
{
    char location[120];
    schema_locate(n, keyword, location, sizeof(location));
    return tidings_fail(c->err, code, "schema%s%s: %s", location[0] ? " at " : "", location, text);
}

/* Charges steps for compiling. */
static int schema_charge(const struct compiler *c, const struct node *n, uint64_t steps)
{
    c->s->cost += steps;
    return c->s->cost <= c->s->limits.max_cost
               ? 0
               : schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "the schema takes too long to compile");
}

/* Fails with the location as prefix: "schema at /items/minLength: …". */
static int schema_no_memory(const struct compiler *c)
{
    return tidings_fail(c->err, TIDINGS_E_NOMEM, "schema: out of memory");
}

/* "/keyword" or "/keyword/key" as a pointer; ptr NULL: out of memory. */
static struct tidings_str schema_edge(struct arena *arena, const char *keyword,
                                      const struct tidings_str *key)
{
    size_t size = strlen(keyword) + 3 + (key ? 2 * key->len : 0);
    char *out = arena_alloc(arena, size);
    if (!out) {
        return tidings_strn(NULL, 0);
    }
    struct location_text p;
    location_text_init(&p, out, size);
    location_text_put_token(&p, tidings_str(keyword));
    if (key) {
        location_text_put_token(&p, *key);
    }
    return tidings_strn(out, p.len);
}

/* -------------------------------------------------------------------------------------------------
 * The table of JSON Schema keywords: the values they allow, the vocabulary they belong to, and
 * their check. A keyword that is not in the table is an annotation and is ignored, whatever its
 * value.
 */

#define ALWAYS SIZE_MAX
#define APPLICATOR offsetof(struct vocabularies, applicator)
#define UNEVALUATED offsetof(struct vocabularies, unevaluated)
#define VALIDATION offsetof(struct vocabularies, validation)

const struct keyword_row schema_keywords[KW_COUNT] = {
    [KW_TYPE] = {"type", SHAPE_TYPE, VALIDATION, check_type},
    [KW_CONST] = {"const", SHAPE_ANY, VALIDATION, check_const},
    [KW_ENUM] = {"enum", SHAPE_ARRAY, VALIDATION, check_enum},
    [KW_MULTIPLE_OF] = {"multipleOf", SHAPE_POSITIVE, VALIDATION, check_multiple_of},
    [KW_MAXIMUM] = {"maximum", SHAPE_NUMBER, VALIDATION, check_range},
    [KW_EXCLUSIVE_MAXIMUM] = {"exclusiveMaximum", SHAPE_NUMBER, VALIDATION, check_range},
    [KW_MINIMUM] = {"minimum", SHAPE_NUMBER, VALIDATION, check_range},
    [KW_EXCLUSIVE_MINIMUM] = {"exclusiveMinimum", SHAPE_NUMBER, VALIDATION, check_range},
    [KW_MAX_LENGTH] = {"maxLength", SHAPE_COUNT, VALIDATION, check_length},
    [KW_MIN_LENGTH] = {"minLength", SHAPE_COUNT, VALIDATION, check_length},
    [KW_PATTERN] = {"pattern", SHAPE_PATTERN, VALIDATION, check_pattern},
    [KW_FORMAT] = {"format", SHAPE_STRING, ALWAYS, check_format},
    [KW_MAX_ITEMS] = {"maxItems", SHAPE_COUNT, VALIDATION, check_items_count},
    [KW_MIN_ITEMS] = {"minItems", SHAPE_COUNT, VALIDATION, check_items_count},
    [KW_MAX_PROPERTIES] = {"maxProperties", SHAPE_COUNT, VALIDATION, check_properties_count},
    [KW_MIN_PROPERTIES] = {"minProperties", SHAPE_COUNT, VALIDATION, check_properties_count},
    [KW_REQUIRED] = {"required", SHAPE_STRINGS, VALIDATION, check_required},
    [KW_DEPENDENT_REQUIRED] = {"dependentRequired", SHAPE_STRINGS_MAP, VALIDATION,
                               check_dependent_required},
    [KW_PREFIX_ITEMS] = {"prefixItems", SHAPE_SCHEMAS, APPLICATOR, check_prefix_items},
    [KW_ITEMS] = {"items", SHAPE_SCHEMA, APPLICATOR, check_items},
    [KW_CONTAINS] = {"contains", SHAPE_SCHEMA, APPLICATOR, check_contains},
    [KW_MIN_CONTAINS] = {"minContains", SHAPE_COUNT, VALIDATION, NULL},
    [KW_MAX_CONTAINS] = {"maxContains", SHAPE_COUNT, VALIDATION, NULL},
    [KW_PROPERTIES] = {"properties", SHAPE_SCHEMA_MAP, APPLICATOR, check_properties},
    [KW_PATTERN_PROPERTIES] = {"patternProperties", SHAPE_PATTERN_MAP, APPLICATOR,
                               check_pattern_properties},
    [KW_ADDITIONAL_PROPERTIES] = {"additionalProperties", SHAPE_SCHEMA, APPLICATOR,
                                  check_additional_properties},
    [KW_PROPERTY_NAMES] = {"propertyNames", SHAPE_SCHEMA, APPLICATOR, check_property_names},
    [KW_REF] = {"$ref", SHAPE_REF, ALWAYS, check_ref},
    [KW_DYNAMIC_REF] = {"$dynamicRef", SHAPE_REF, ALWAYS, check_dynamic_ref},
    [KW_ALL_OF] = {"allOf", SHAPE_SCHEMAS, APPLICATOR, check_all_of},
    [KW_ANY_OF] = {"anyOf", SHAPE_SCHEMAS, APPLICATOR, check_any_of},
    [KW_ONE_OF] = {"oneOf", SHAPE_SCHEMAS, APPLICATOR, check_one_of},
    [KW_NOT] = {"not", SHAPE_SCHEMA, APPLICATOR, check_not},
    [KW_IF] = {"if", SHAPE_SCHEMA, APPLICATOR, check_if},
    [KW_THEN] = {"then", SHAPE_SCHEMA, APPLICATOR, NULL},
    [KW_ELSE] = {"else", SHAPE_SCHEMA, APPLICATOR, NULL},
    [KW_DEPENDENT_SCHEMAS] = {"dependentSchemas", SHAPE_SCHEMA_MAP, APPLICATOR,
                              check_dependent_schemas},
    [KW_UNIQUE_ITEMS] = {"uniqueItems", SHAPE_BOOL, VALIDATION, check_unique_items},
    [KW_UNEVALUATED_ITEMS] = {"unevaluatedItems", SHAPE_SCHEMA, UNEVALUATED,
                              check_unevaluated_items},
    [KW_UNEVALUATED_PROPERTIES] = {"unevaluatedProperties", SHAPE_SCHEMA, UNEVALUATED,
                                   check_unevaluated_properties},
    [KW_DEFS] = {"$defs", SHAPE_SCHEMA_MAP, ALWAYS, NULL},
    [KW_CONTENT_SCHEMA] = {"contentSchema", SHAPE_SCHEMA, ALWAYS, NULL},
};

static const char *const expected[] = {
    [SHAPE_ANY] = NULL,
    [SHAPE_ARRAY] = "an array expected",
    [SHAPE_BOOL] = "true or false expected",
    [SHAPE_NUMBER] = "a number expected",
    [SHAPE_POSITIVE] = "a number above 0 expected",
    [SHAPE_COUNT] = "an integer from 0 expected",
    [SHAPE_STRING] = "a string expected",
    [SHAPE_STRINGS] = "an array of strings expected",
    [SHAPE_STRINGS_MAP] = "an object of arrays of strings expected",
    [SHAPE_TYPE] = "a type or an array of types expected (null, boolean, integer, number, string, "
                   "array, object)",
    [SHAPE_PATTERN] = "a regex expected",
    [SHAPE_REF] = "a URI reference expected",
    [SHAPE_SCHEMA] = "a schema expected (an object, true or false)",
    [SHAPE_SCHEMAS] = "a non-empty array of schemas expected",
    [SHAPE_SCHEMA_MAP] = "an object of schemas expected",
    [SHAPE_PATTERN_MAP] = "an object of regexes and schemas expected",
};

static bool is_strings(const struct json *v)
{
    bool ok = jv_is(v, JV_ARRAY);
    for (size_t i = 0; ok && i < value_elements(v); i++) {
        ok = jv_is(jv_at(v, i), JV_STRING);
    }
    return ok;
}

static bool is_strings_map(struct json *v)
{
    bool ok = jv_is(v, JV_OBJECT);
    for (struct json *i = value_first(v); ok && i; i = value_next(v, i)) {
        ok = is_strings(i + 1);
    }
    return ok;
}

/* As a set of bits by enum jv_type. */
static bool read_type(const struct json *v, uint64_t *ret)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } types[] = {
        {"null", 1u << JV_NULL},     {"boolean", 1u << JV_TRUE | 1u << JV_FALSE},
        {"integer", 1u << JV_INT},   {"number", 1u << JV_INT | 1u << JV_REAL},
        {"string", 1u << JV_STRING}, {"array", 1u << JV_ARRAY},
        {"object", 1u << JV_OBJECT},
    };
    for (size_t i = 0; jv_is(v, JV_STRING) && i < sizeof(types) / sizeof(types[0]); i++) {
        if (str_eq(jv_str(v), tidings_str(types[i].name))) {
            *ret |= types[i].bits;
            return true;
        }
    }
    return false;
}

static bool read_types(const struct json *v, uint64_t *ret)
{
    if (!jv_is(v, JV_ARRAY)) {
        return read_type(v, ret);
    }
    bool ok = value_elements(v) > 0;
    for (size_t i = 0; ok && i < value_elements(v); i++) {
        ok = read_type(jv_at(v, i), ret);
    }
    return ok;
}

static bool keyword_read_count(const struct json *v, uint64_t *ret)
{
    if (jv_is(v, JV_INT)) {
        *ret = (uint64_t)jv_int(v);
        return jv_int(v) >= 0;
    }
    double d = jv_real(v);
    if (!jv_is(v, JV_REAL) || d < 0 || !value_is_whole(d)) {
        return false;
    }
    *ret = d < 9e18 ? (uint64_t)d : UINT64_MAX;
    return true;
}

static bool keyword_fits(struct rule *rule, enum shape shape)
{
    struct json *v = rule->value;
    switch (shape) {
    case SHAPE_ANY:
        return true;
    case SHAPE_ARRAY:
        return jv_is(v, JV_ARRAY);
    case SHAPE_BOOL:
        return jv_is_bool(v);
    case SHAPE_NUMBER:
        return jv_is_number(v);
    case SHAPE_POSITIVE:
        return jv_is_number(v) && jv_real(v) > 0;
    case SHAPE_COUNT:
        return keyword_read_count(v, &rule->bound);
    case SHAPE_STRING:
    case SHAPE_PATTERN:
    case SHAPE_REF:
        return jv_is(v, JV_STRING);
    case SHAPE_STRINGS:
        return is_strings(v);
    case SHAPE_STRINGS_MAP:
        return is_strings_map(v);
    case SHAPE_TYPE:
        return read_types(v, &rule->bound);
    case SHAPE_SCHEMA:
        return jv_is(v, JV_OBJECT) || jv_is_bool(v);
    case SHAPE_SCHEMAS:
        return jv_is(v, JV_ARRAY) && value_elements(v) > 0;
    case SHAPE_SCHEMA_MAP:
    case SHAPE_PATTERN_MAP:
        return jv_is(v, JV_OBJECT);
    }
    return false;
}

/* Reads the rule's own value: shape, bound, pattern; not its subschemas. */
static int keyword_read(struct compiler *c, const struct node *n, struct rule *rule,
                        enum shape shape)
{
    return keyword_fits(rule, shape)
               ? 0
               : schema_refuse(c, TIDINGS_E_INVALID, n, rule->name, expected[shape]);
}

/* -------------------------------------------------------------------------------------------------
 * The standard metaschema of draft 2020-12 and its vocabularies, reduced to their assertions: no
 * titles, defaults or comments. Parsed only if a schema refers to them.
 */

#define BASE "https://json-schema.org/draft/2020-12/"
#define META(name)                                                                                 \
    "{\"$id\":\"" BASE "meta/" name "\",\"$dynamicAnchor\":\"meta\","                              \
    "\"type\":[\"object\",\"boolean\"],"
#define ANY "{\"$dynamicRef\":\"#meta\"}"
#define LIST "{\"type\":\"array\",\"minItems\":1,\"items\":" ANY "}"
#define MAP "{\"type\":\"object\",\"additionalProperties\":" ANY "}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}"
#define TEXT "{\"type\":\"string\"}"
#define FLAG "{\"type\":\"boolean\"}"
#define NUMBER "{\"type\":\"number\"}"
#define SIMPLE_TYPE                                                                                \
    "{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]}"
#define ANCHOR "{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][-A-Za-z0-9._]*$\"}"

static const struct {
    const char *uri, *text;
} documents[] = {
    {BASE "schema",
     "{\"$id\":\"" BASE "schema\",\"$dynamicAnchor\":\"meta\","
     "\"$vocabulary\":{\"" BASE "vocab/core\":true,\"" BASE "vocab/applicator\":true,"
     "\"" BASE "vocab/unevaluated\":true,\"" BASE "vocab/validation\":true,"
     "\"" BASE "vocab/meta-data\":true,\"" BASE "vocab/format-annotation\":true,"
     "\"" BASE "vocab/content\":true},"
     "\"allOf\":[{\"$ref\":\"meta/core\"},{\"$ref\":\"meta/applicator\"},"
     "{\"$ref\":\"meta/unevaluated\"},{\"$ref\":\"meta/validation\"},"
     "{\"$ref\":\"meta/meta-data\"},{\"$ref\":\"meta/format-annotation\"},"
     "{\"$ref\":\"meta/content\"}],"
     "\"type\":[\"object\",\"boolean\"],"
     "\"properties\":{\"definitions\":" MAP ",\"dependencies\":{\"type\":\"object\","
     "\"additionalProperties\":{\"anyOf\":[" ANY "," NAMES "]}},"
     "\"$recursiveAnchor\":" ANCHOR ",\"$recursiveRef\":" TEXT "}}"},
    {BASE "meta/core",
     META("core") "\"properties\":{\"$id\":{\"type\":\"string\",\"pattern\":\"^[^#]*#?$\"},"
                  "\"$schema\":" TEXT ",\"$ref\":" TEXT ",\"$anchor\":" ANCHOR ","
                  "\"$dynamicRef\":" TEXT ",\"$dynamicAnchor\":" ANCHOR ","
                  "\"$vocabulary\":{\"type\":\"object\",\"additionalProperties\":" FLAG "},"
                  "\"$comment\":" TEXT ",\"$defs\":" MAP "}}"},
    {BASE "meta/applicator",
     META("applicator") "\"properties\":{\"prefixItems\":" LIST ",\"items\":" ANY ","
                        "\"contains\":" ANY ",\"additionalProperties\":" ANY ","
                        "\"properties\":" MAP ",\"patternProperties\":" MAP ","
                        "\"dependentSchemas\":" MAP ",\"propertyNames\":" ANY ",\"if\":" ANY ","
                        "\"then\":" ANY ",\"else\":" ANY ",\"allOf\":" LIST ",\"anyOf\":" LIST ","
                        "\"oneOf\":" LIST ",\"not\":" ANY "}}"},
    {BASE "meta/unevaluated", META("unevaluated") "\"properties\":{\"unevaluatedItems\":" ANY ","
                                                  "\"unevaluatedProperties\":" ANY "}}"},
    {BASE "meta/validation",
     META("validation") "\"properties\":{\"type\":{\"anyOf\":[" SIMPLE_TYPE ",{\"type\":\"array\","
                        "\"items\":" SIMPLE_TYPE ",\"minItems\":1,\"uniqueItems\":true}]},"
                        "\"const\":true,\"enum\":{\"type\":\"array\"},"
                        "\"multipleOf\":{\"type\":\"number\",\"exclusiveMinimum\":0},"
                        "\"maximum\":" NUMBER ",\"exclusiveMaximum\":" NUMBER ","
                        "\"minimum\":" NUMBER ",\"exclusiveMinimum\":" NUMBER ","
                        "\"maxLength\":" COUNT ",\"minLength\":" COUNT ",\"pattern\":" TEXT ","
                        "\"maxItems\":" COUNT ",\"minItems\":" COUNT ",\"uniqueItems\":" FLAG ","
                        "\"maxContains\":" COUNT ",\"minContains\":" COUNT ","
                        "\"maxProperties\":" COUNT ",\"minProperties\":" COUNT ","
                        "\"required\":" NAMES ",\"dependentRequired\":{\"type\":\"object\","
                        "\"additionalProperties\":" NAMES "}}}"},
    {BASE "meta/meta-data",
     META("meta-data") "\"properties\":{\"title\":" TEXT ",\"description\":" TEXT ","
                       "\"deprecated\":" FLAG ",\"readOnly\":" FLAG ",\"writeOnly\":" FLAG ","
                       "\"examples\":{\"type\":\"array\"}}}"},
    {BASE "meta/format-annotation",
     META("format-annotation") "\"properties\":{\"format\":" TEXT "}}"},
    {BASE "meta/format-assertion",
     META("format-assertion") "\"properties\":{\"format\":" TEXT "}}"},
    {BASE "meta/content",
     META("content") "\"properties\":{\"contentEncoding\":" TEXT ",\"contentMediaType\":" TEXT ","
                     "\"contentSchema\":" ANY "}}"},
};

/* schema.c: text of a standard document, or NULL. */
static const char *schema_meta_text(struct tidings_str uri)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        if (str_eq(uri, tidings_str(documents[i].uri))) {
            return documents[i].text;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------
 * References between schemas: RFC 3986 §5.2, with only as much of URIs as it needs. Results are
 * compared byte by byte, without further normalization (§6.2.1).
 */

struct parts {
    struct tidings_str scheme, authority, path, query; /* ptr NULL: absent (never the path) */
};

static struct tidings_str cut_fragment(struct tidings_str ref, struct tidings_str *ret_fragment)
{
    bool found;
    struct tidings_str rest;
    struct tidings_str before = str_cut(ref, '#', &rest, &found);
    *ret_fragment =
        found ? tidings_strn(rest.len > 0 ? rest.ptr : "", rest.len) : tidings_strn(NULL, 0);
    return before;
}

static bool is_scheme(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_more = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_alpha && !(i > 0 && is_more)) {
            return false;
        }
    }
    return s.len > 0;
}

/* Appendix B; `s` has no fragment. */
static struct parts schema_uri_split(struct tidings_str s)
{
    struct parts p = {{NULL, 0}, {NULL, 0}, {"", 0}, {NULL, 0}};
    ptrdiff_t colon = str_find(s, ':');
    if (colon > 0 && is_scheme(tidings_strn(s.ptr, (size_t)colon))) {
        p.scheme = tidings_strn(s.ptr, (size_t)colon);
        s = str_skip(s, (size_t)colon + 1);
    }
    ptrdiff_t question = str_find(s, '?');
    if (question >= 0) {
        p.query = tidings_strn(s.ptr + question + 1, s.len - (size_t)question - 1);
        s.len = (size_t)question;
    }
    if (str_starts(s, STR("//"))) {
        s = str_skip(s, 2);
        ptrdiff_t slash = str_find(s, '/');
        size_t len = slash < 0 ? s.len : (size_t)slash;
        p.authority = tidings_strn(len > 0 ? s.ptr : "", len);
        s = str_skip(s, len);
    }
    p.path = s;
    return p;
}

/* §5.2.4, in place. */
static void remove_dots(char *path, size_t *len)
{
    size_t in = 0, out = 0, end = *len;
    while (in < end) {
        size_t stop = in + 1; /* the end of this segment, including its leading slash */
        while (stop < end && path[stop] != '/') {
            stop++;
        }
        size_t skip = path[in] == '/' ? 1 : 0;
        struct tidings_str name = {path + in + skip, stop - in - skip};
        bool is_up = str_eq(name, STR(".."));
        if (is_up || str_eq(name, STR("."))) {
            while (is_up && out > 0 && path[--out] != '/') {
            }
            if (stop == end && skip) {
                path[out++] = '/';
            }
        } else {
            memmove(path + out, path + in, stop - in);
            out += stop - in;
        }
        in = stop;
    }
    *len = out;
}

static struct tidings_str uri_put(char **at, struct tidings_str s)
{
    char *start = *at;
    if (s.len > 0) {
        memcpy(start, s.ptr, s.len);
    }
    *at += s.len;
    return tidings_strn(start, s.len);
}

/* §5.2.3, then dot segments. */
static void put_merged(char **at, const struct parts *base, struct tidings_str path)
{
    char *start = *at;
    if (path.len == 0 || path.ptr[0] != '/') {
        struct tidings_str folder = base->path;
        while (folder.len > 0 && folder.ptr[folder.len - 1] != '/') {
            folder.len--;
        }
        uri_put(at, base->authority.ptr && base->path.len == 0 ? STR("/") : folder);
    }
    uri_put(at, path);
    size_t len = (size_t)(*at - start);
    remove_dots(start, &len);
    *at = start + len;
}

static void uri_put_query(char **at, struct tidings_str query)
{
    if (query.ptr) {
        uri_put(at, STR("?"));
        uri_put(at, query);
    }
}

/* schema.c: RFC 3986 §5.2. The target without its fragment; *ret_fragment is the fragment as a
 * slice of `ref` (ptr NULL without one). TIDINGS_E_NOMEM. */
static int schema_uri_resolve(struct arena *arena, struct tidings_str base, struct tidings_str ref,
                              struct tidings_str *ret, struct tidings_str *ret_fragment)
{
    struct tidings_str target = cut_fragment(ref, ret_fragment);
    if (target.len == 0) {
        *ret = base;
        return 0;
    }
    struct parts r = schema_uri_split(target);
    struct parts b = schema_uri_split(base);
    char *start = arena_alloc(arena, base.len + target.len + 8);
    if (!start) {
        return TIDINGS_E_NOMEM;
    }
    char *at = start;
    if (r.scheme.ptr) {
        uri_put(&at, target); /* an absolute one is a name; its dots are kept */
        *ret = tidings_strn(start, (size_t)(at - start));
        return 0;
    }
    if (b.scheme.ptr) {
        uri_put(&at, b.scheme);
        uri_put(&at, STR(":"));
    }
    struct tidings_str authority = r.authority.ptr ? r.authority : b.authority;
    if (authority.ptr) {
        uri_put(&at, STR("//"));
        uri_put(&at, authority);
    }
    if (r.authority.ptr) {
        uri_put(&at, r.path);
        uri_put_query(&at, r.query);
    } else if (r.path.len == 0) {
        uri_put(&at, b.path);
        uri_put_query(&at, r.query);
    } else {
        put_merged(&at, &b, r.path);
        uri_put_query(&at, r.query);
    }
    *ret = tidings_strn(start, (size_t)(at - start));
    return 0;
}

static int uri_hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decodes a fragment. */
static int schema_uri_decode(struct arena *arena, struct tidings_str fragment,
                             struct tidings_str *ret)
{
    char *out = arena_alloc(arena, fragment.len + 1);
    if (!out) {
        return TIDINGS_E_NOMEM;
    }
    size_t len = 0;
    for (size_t i = 0; i < fragment.len; i++) {
        char c = fragment.ptr[i];
        if (c == '%' && i + 2 < fragment.len && uri_hex(fragment.ptr[i + 1]) >= 0 &&
            uri_hex(fragment.ptr[i + 2]) >= 0) {
            c = (char)(uri_hex(fragment.ptr[i + 1]) * 16 + uri_hex(fragment.ptr[i + 2]));
            i += 2;
        }
        out[len++] = c;
    }
    *ret = tidings_strn(out, len);
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * The documents that a JSON Schema can refer to, by URI: those given with the options, and the
 * built-in standard ones. A document is indexed when a reference first leads to it. Nothing is
 * fetched.
 */

#define DRAFT "https://json-schema.org/draft/2020-12/"

static int schema_index(struct compiler *c, struct document *d, struct node **ret);

/* The vocabularies of the metaschema that a resource names. */
static int document_add(struct compiler *c, struct tidings_str uri, struct json *value,
                        struct node **ret)
{
    struct document *d = arena_alloc(&c->s->arena, sizeof(*d));
    struct tidings_str name = arena_dup(&c->s->arena, uri);
    if (!d || !name.ptr) {
        return schema_no_memory(c);
    }
    *d = (struct document){.next = c->s->documents, .uri = name, .value = jv_ref(value)};
    c->s->documents = d;
    return schema_index(c, d, ret);
}

/* The value of a document that is not part of the schema yet, with a reference; NULL and 0 if there
 * is none. */
static int read_document(struct compiler *c, struct tidings_str uri, struct json **ret)
{
    const struct schema_options *o = c->options;
    for (size_t i = 0; o && i < o->n_documents; i++) {
        if (str_eq(o->documents[i].uri, uri)) {
            *ret = jv_ref((struct json *)o->documents[i].root);
            return 0;
        }
    }
    const char *text = schema_meta_text(uri);
    struct json *v = NULL;
    int rc = text ? jv_parse(tidings_str(text), JSON_MAX_DEPTH, &v, c->err) : 0;
    *ret = (struct json *)v;
    return rc;
}

/* Finds the node of a URI (without fragment), and indexes its document if necessary. NULL and 0:
 * unknown. */
static int document_find(struct compiler *c, struct tidings_str uri, struct node **ret)
{
    *ret = NULL;
    for (struct resource *r = c->s->resources; r; r = r->next) {
        if (str_eq(r->uri, uri)) {
            *ret = r->root;
            return 0;
        }
    }
    for (struct document *d = c->s->documents; d; d = d->next) {
        if (str_eq(d->uri, uri)) {
            *ret = d->root;
            return 0;
        }
    }
    struct json *value = NULL;
    int rc = read_document(c, uri, &value);
    if (rc == 0 && value) {
        rc = document_add(c, uri, value, ret);
        jv_unref(value); /* the schema has its own */
    }
    return rc;
}

static int read_vocabularies(struct compiler *c, const struct node *n, struct json *vocabulary,
                             struct vocabularies *ret)
{
    static const struct {
        const char *uri;
        struct vocabularies has;
    } known[] = {
        {DRAFT "vocab/core", {0}},
        {DRAFT "vocab/applicator", {.applicator = true}},
        {DRAFT "vocab/unevaluated", {.unevaluated = true}},
        {DRAFT "vocab/validation", {.validation = true}},
        {DRAFT "vocab/meta-data", {0}},
        {DRAFT "vocab/format-annotation", {0}},
        {DRAFT "vocab/format-assertion", {.format_assertion = true}},
        {DRAFT "vocab/content", {0}},
    };
    *ret = (struct vocabularies){0};
    for (struct json *i = value_first(vocabulary); i; i = value_next(vocabulary, i)) {
        size_t k = 0;
        while (k < sizeof(known) / sizeof(known[0]) &&
               !str_eq(value_text(i), tidings_str(known[k].uri))) {
            k++;
        }
        if (k < sizeof(known) / sizeof(known[0])) {
            ret->applicator |= known[k].has.applicator;
            ret->unevaluated |= known[k].has.unevaluated;
            ret->validation |= known[k].has.validation;
            ret->format_assertion |= known[k].has.format_assertion;
        } else if (jv_is_true(i + 1)) {
            return schema_refuse(c, TIDINGS_E_UNSUPPORTED, n, "$schema",
                                 "its metaschema requires a vocabulary that is not known here");
        }
    }
    return 0;
}

static int document_vocabularies(struct compiler *c, const struct node *n, struct vocabularies *ret)
{
    struct json *name = jv_get(n->value, "$schema");
    struct tidings_str uri, fragment;
    if (!jv_is(name, JV_STRING)) {
        return 0;
    }
    if (schema_uri_resolve(&c->s->arena, STR_EMPTY, jv_str(name), &uri, &fragment) < 0) {
        return schema_no_memory(c);
    }
    if (str_eq(uri, STR(DRAFT "schema"))) {
        *ret = (struct vocabularies){true, true, true, false};
        return 0;
    }
    struct json *meta = NULL;
    int rc = read_document(c, uri, &meta); /* an unknown metaschema changes nothing */
    struct json *vocabulary = jv_get(meta, "$vocabulary");
    if (rc == 0 && jv_is(vocabulary, JV_OBJECT)) {
        rc = read_vocabularies(c, n, vocabulary, ret);
    }
    jv_unref(meta);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

/* More than any bounded schema needs, unless its names are extremely long. */
#define ARENA_MAX ((size_t)64 << 20)

static unsigned limit_or_default(unsigned value, unsigned otherwise)
{
    return value > 0 ? value : otherwise;
}

static struct schema_options with_defaults(const struct schema_options *options)
{
    struct schema_options o = options ? *options : (struct schema_options){0};
    o.documents = NULL;
    o.n_documents = 0;
    o.max_depth = limit_or_default(o.max_depth, SCHEMA_DEFAULT_DEPTH);
    o.max_subschemas = limit_or_default(o.max_subschemas, SCHEMA_DEFAULT_SUBSCHEMAS);
    o.max_ref_chain = limit_or_default(o.max_ref_chain, SCHEMA_DEFAULT_REF_CHAIN);
    o.max_regex_bytes = limit_or_default(o.max_regex_bytes, SCHEMA_DEFAULT_REGEX_BYTES);
    o.max_steps = o.max_steps > 0 ? o.max_steps : SCHEMA_DEFAULT_STEPS;
    o.max_cost = o.max_cost > 0 ? o.max_cost : SCHEMA_DEFAULT_STEPS;
    return o;
}

static int schema_resolve(struct compiler *c);

int schema_compile(struct json *schema, const struct schema_options *options,
                   struct json_schema **ret, struct tidings_error *err)
{
    if (!schema) {
        return tidings_fail(err, TIDINGS_E_INVALID, "schema: none given");
    }
    struct json_schema *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "schema: out of memory");
    }
    arena_init(&s->arena, ARENA_MAX);
    s->nodes_end = &s->nodes;
    s->limits = with_defaults(options);
    struct compiler c = {.s = s, .options = options, .err = err};
    int rc = document_add(&c, STR_EMPTY, (struct json *)schema, &s->root);
    if (rc == 0) {
        rc = schema_resolve(&c);
    }
    if (s->limits.ret_cost) {
        *s->limits.ret_cost = s->cost + (uint64_t)s->n_nodes * 100;
        s->limits.ret_cost = NULL;
    }
    if (rc < 0) {
        schema_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void schema_destroy(struct json_schema *s)
{
    if (!s) {
        return;
    }
    for (struct pattern *p = s->patterns; p; p = p->next) {
        regex_destroy(p->regex);
    }
    for (struct document *d = s->documents; d; d = d->next) {
        jv_unref(d->value);
    }
    arena_deinit(&s->arena);
    mem_free(s);
}

/* -------------------------------------------------------------------------------------------------
 * Indexes a JSON Schema: every value of a document where a keyword expects a schema becomes a node
 * and gets its rules; $id opens a resource, anchors are recorded. References are resolved in the
 * next pass.
 */

/* Total size of all compiled regexes of a schema. */
#define REGEX_BYTES_MAX ((size_t)8 << 20)

static int add_node(struct compiler *c, struct node *n, struct node **ret);

static struct resource *find_resource(const struct json_schema *s, struct tidings_str uri)
{
    struct resource *r = s->resources;
    while (r && !str_eq(r->uri, uri)) {
        r = r->next;
    }
    return r;
}

static int open_resource(struct compiler *c, struct node *n, struct tidings_str uri,
                         struct vocabularies has)
{
    struct resource *r = arena_alloc(&c->s->arena, sizeof(*r));
    if (!r) {
        return schema_no_memory(c);
    }
    int rc = schema_charge(c, n, 4 * c->s->n_resources++);
    if (rc < 0) {
        return rc;
    }
    if (uri.len > 0 && find_resource(c->s, uri)) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "another schema has the same $id");
    }
    *r = (struct resource){.next = c->s->resources, .uri = uri, .root = n, .has = has};
    c->s->resources = r;
    n->resource = r;
    return 0;
}

/* Sets the resource of a node: its parent's, or a new one that it opens. */
static int join_resource(struct compiler *c, struct node *n)
{
    struct json *id = jv_get(n->value, "$id");
    struct tidings_str base = n->parent ? n->parent->resource->uri : n->document->uri;
    struct tidings_str uri = base, fragment;
    struct vocabularies has = {true, true, true, false};
    if (n->parent) {
        has = n->parent->resource->has;
        n->resource = n->parent->resource;
        if (!id) {
            return 0;
        }
    }
    if (id) {
        if (!jv_is(id, JV_STRING)) {
            return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "a URI reference expected");
        }
        if (schema_uri_resolve(&c->s->arena, base, jv_str(id), &uri, &fragment) < 0) {
            return schema_no_memory(c);
        }
        if (fragment.len > 0) {
            return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "a URI without fragment expected");
        }
    }
    int rc = document_vocabularies(c, n, &has);
    if (rc == 0 && !(n->parent && str_eq(uri, base))) {
        rc = open_resource(c, n, uri, has);
    }
    return rc;
}

static int add_anchor(struct compiler *c, struct node *n, const char *keyword, bool is_dynamic)
{
    struct json *v = jv_get(n->value, keyword);
    if (!v) {
        return 0;
    }
    if (!jv_is(v, JV_STRING) || jv_str(v).len == 0) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, keyword, "a name expected");
    }
    struct anchor *a = arena_alloc(&c->s->arena, sizeof(*a));
    if (!a) {
        return schema_no_memory(c);
    }
    int rc = schema_charge(c, n, 4 * n->resource->n_anchors);
    if (rc < 0) {
        return rc;
    }
    struct node *other = schema_anchor(n->resource, jv_str(v), false);
    if (other && other != n) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, keyword,
                             "another anchor of this schema has the same name");
    }
    *a = (struct anchor){n->resource->anchors, jv_str(v), n, is_dynamic};
    n->resource->anchors = a;
    n->resource->n_anchors++;
    return 0;
}

static int add_regex(struct compiler *c, const struct node *n, const char *keyword,
                     struct tidings_str source, struct regex **ret)
{
    struct tidings_error why = {0};
    struct pattern *p = arena_alloc(&c->s->arena, sizeof(*p));
    if (!p) {
        return schema_no_memory(c);
    }
    int rc = regex_create_counted(source, REGEX_CHARACTERS, c->s->limits.max_regex_bytes,
                                  &c->s->cost, &p->regex, &why);
    if (rc < 0) {
        return schema_refuse(c, rc, n, keyword, why.text);
    }
    p->next = c->s->patterns;
    c->s->patterns = p;
    c->s->regex_bytes += regex_bytes(p->regex);
    *ret = p->regex;
    rc = schema_charge(c, n, 0);
    if (rc < 0) {
        return rc;
    }
    return c->s->regex_bytes <= REGEX_BYTES_MAX
               ? 0
               : schema_refuse(c, TIDINGS_E_LIMIT, n, keyword, "too many regexes, or too large");
}

/* Adds one subschema of a rule. `key` is NULL if the keyword has only one. */
static int add_branch(struct compiler *c, struct node *n, struct rule *rule,
                      const struct tidings_str *key, struct json *value)
{
    struct branch *b = &rule->branches[rule->n_branches];
    struct node *child = arena_alloc(&c->s->arena, sizeof(*child));
    struct tidings_str edge = schema_edge(&c->s->arena, rule->name, key);
    if (!child || !edge.ptr) {
        return schema_no_memory(c);
    }
    *child = (struct node){.parent = n, .document = n->document, .value = value, .edge = edge};
    b->key = key ? *key : STR_EMPTY;
    rule->n_branches++;
    return add_node(c, child, &b->node);
}

static int add_list(struct compiler *c, struct node *n, struct rule *rule)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < value_elements(rule->value); i++) {
        char number[24];
        (void)snprintf(number, sizeof(number), "%zu", i);
        struct tidings_str key = arena_dup(&c->s->arena, tidings_str(number));
        rc = key.ptr ? add_branch(c, n, rule, &key, jv_at(rule->value, i)) : schema_no_memory(c);
    }
    return rc;
}

static int by_key(const void *a, const void *b)
{
    return str_cmp(((const struct branch *)a)->key, ((const struct branch *)b)->key);
}

static int add_map(struct compiler *c, struct node *n, struct rule *rule, bool is_pattern)
{
    int rc = 0;
    for (struct json *i = value_first(rule->value); rc == 0 && i; i = value_next(rule->value, i)) {
        struct tidings_str key = value_text(i);
        if (is_pattern) {
            rc = add_regex(c, n, rule->name, key, &rule->branches[rule->n_branches].regex);
        }
        if (rc == 0) {
            rc = add_branch(c, n, rule, &key, i + 1);
        }
    }
    if (rc == 0 && rule->n_branches > 1 && !is_pattern) {
        qsort(rule->branches, rule->n_branches, sizeof(*rule->branches), by_key);
    }
    return rc;
}

/* Adds the subschemas of a rule and its regexes. */
static int index_add_parts(struct compiler *c, struct node *n, struct rule *rule, enum shape shape)
{
    bool is_list = shape == SHAPE_SCHEMAS;
    bool is_map = shape == SHAPE_SCHEMA_MAP || shape == SHAPE_PATTERN_MAP;
    size_t count = is_list  ? value_elements(rule->value)
                   : is_map ? value_members(rule->value)
                            : (size_t)(shape == SHAPE_SCHEMA || shape == SHAPE_REF);
    if (shape == SHAPE_PATTERN) {
        return add_regex(c, n, rule->name, jv_str(rule->value), &rule->regex);
    }
    if (count == 0) {
        return 0;
    }
    if (count > c->s->limits.max_subschemas) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, rule->name, "too many subschemas");
    }
    rule->branches = arena_alloc(&c->s->arena, count * sizeof(*rule->branches));
    if (!rule->branches) {
        return schema_no_memory(c);
    }
    if (shape == SHAPE_REF) {
        return 0;
    }
    return is_list  ? add_list(c, n, rule)
           : is_map ? add_map(c, n, rule, shape == SHAPE_PATTERN_MAP)
                    : add_branch(c, n, rule, NULL, rule->value);
}

static bool is_active(const struct compiler *c, const struct node *n, enum keyword keyword)
{
    const struct vocabularies *has = &n->resource->has;
    size_t vocabulary = schema_keywords[keyword].vocabulary;
    if (keyword == KW_FORMAT) {
        return has->format_assertion || c->s->limits.assert_format;
    }
    return vocabulary == SIZE_MAX || *(const bool *)((const char *)has + vocabulary);
}

static int add_rules(struct compiler *c, struct node *n)
{
    struct json *values[KW_COUNT];
    size_t count = 0;
    for (int k = 0; k < KW_COUNT; k++) {
        values[k] =
            is_active(c, n, (enum keyword)k) ? jv_get(n->value, schema_keywords[k].name) : NULL;
        count += values[k] != NULL;
    }
    n->rules = count > 0 ? arena_alloc(&c->s->arena, count * sizeof(*n->rules)) : NULL;
    if (count > 0 && !n->rules) {
        return schema_no_memory(c);
    }
    n->has_unevaluated = values[KW_UNEVALUATED_ITEMS] || values[KW_UNEVALUATED_PROPERTIES];
    for (int k = 0; k < KW_COUNT; k++) {
        if (values[k]) {
            n->rules[n->n_rules++] = (struct rule){.keyword = (enum keyword)k,
                                                   .name = schema_keywords[k].name,
                                                   .check = schema_keywords[k].check,
                                                   .value = values[k]};
        }
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n->n_rules; i++) {
        struct rule *rule = &n->rules[i];
        enum shape shape = schema_keywords[rule->keyword].shape;
        rc = keyword_read(c, n, rule, shape);
        if (rc == 0) {
            rc = index_add_parts(c, n, rule, shape);
        }
    }
    return rc;
}

/* Adds a node whose location and value are set. */
static int add_node(struct compiler *c, struct node *n, struct node **ret)
{
    struct json_schema *s = c->s;
    n->depth = n->parent ? n->parent->depth + 1 : 0;
    if (!jv_is(n->value, JV_OBJECT) && !jv_is_bool(n->value)) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, NULL,
                             "a schema expected (an object, true or false)");
    }
    if (n->depth >= s->limits.max_depth) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "nested too deep");
    }
    if (s->n_nodes >= s->limits.max_subschemas) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "too many subschemas");
    }
    s->n_nodes++;
    *s->nodes_end = n;
    s->nodes_end = &n->next;
    if (n->parent) {
        n->next_sibling = n->parent->first_child;
        n->parent->first_child = n;
    }
    *ret = n;
    int rc = join_resource(c, n);
    if (rc == 0 && jv_is(n->value, JV_OBJECT)) {
        rc = add_anchor(c, n, "$anchor", false);
        if (rc == 0) {
            rc = add_anchor(c, n, "$dynamicAnchor", true);
        }
        if (rc == 0) {
            rc = add_rules(c, n);
        }
    }
    return rc;
}

/* schema.c: indexes the nodes of a document, but not the targets of references. */
static int schema_index(struct compiler *c, struct document *d, struct node **ret)
{
    struct node *n = arena_alloc(&c->s->arena, sizeof(*n));
    if (!n) {
        return schema_no_memory(c);
    }
    *n = (struct node){.document = d, .value = d->value, .edge = STR_EMPTY};
    d->root = n;
    return add_node(c, n, ret);
}

/* Adds a schema where no keyword expects one, at `edge` below `parent`. */
static int schema_index_below(struct compiler *c, struct node *parent, struct tidings_str edge,
                              struct json *value, struct node **ret)
{
    struct node *n = arena_alloc(&c->s->arena, sizeof(*n));
    if (!n) {
        return schema_no_memory(c);
    }
    *n =
        (struct node){.parent = parent, .document = parent->document, .value = value, .edge = edge};
    return add_node(c, n, ret);
}

/* -------------------------------------------------------------------------------------------------
 * Resolves the $ref and $dynamicRef of a JSON Schema: a resource by URI, then a node in it by
 * pointer or anchor. Afterwards every reference has its node, and no chain of bare $ref is endless.
 * The limits of a validation end loops through other keywords.
 */

struct node *schema_anchor(const struct resource *r, struct tidings_str name, bool only_dynamic)
{
    for (const struct anchor *a = r->anchors; a; a = a->next) {
        if ((a->is_dynamic || !only_dynamic) && str_eq(a->name, name)) {
            return a->node;
        }
    }
    return NULL;
}

/* Returns true if `edge` is a prefix of `pointer`, by whole tokens. */
static bool leads(struct tidings_str edge, struct tidings_str pointer)
{
    return str_starts(pointer, edge) && (pointer.len == edge.len || pointer.ptr[edge.len] == '/');
}

/* Follows `pointer` from schema to schema as far as possible; *pointer is the rest. */
static struct node *descend(struct node *n, struct tidings_str *pointer, uint64_t *steps)
{
    struct node *best;
    do {
        best = NULL;
        for (struct node *child = n->first_child; child; child = child->next_sibling) {
            *steps += 4;
            if (leads(child->edge, *pointer) && (!best || child->edge.len > best->edge.len)) {
                best = child;
            }
        }
        if (best) {
            n = best;
            *pointer = str_skip(*pointer, best->edge.len);
        }
    } while (best && pointer->len > 0);
    return n;
}

/* The first token of `pointer`, unescaped into `out` (as long as the token). */
static struct tidings_str next_token(struct tidings_str *pointer, char *out)
{
    size_t len = 0, i = 1;
    for (; i < pointer->len && pointer->ptr[i] != '/'; i++) {
        char c = pointer->ptr[i];
        if (c == '~' && i + 1 < pointer->len && pointer->ptr[i + 1] == '0') {
            i++;
        } else if (c == '~' && i + 1 < pointer->len && pointer->ptr[i + 1] == '1') {
            c = '/';
            i++;
        }
        out[len++] = c;
    }
    *pointer = str_skip(*pointer, i);
    return tidings_strn(out, len);
}

static struct json *ref_member(struct json *v, struct tidings_str token)
{
    uint64_t index;
    if (jv_is(v, JV_OBJECT)) {
        return jv_get_str(v, token);
    }
    return jv_is(v, JV_ARRAY) && str_to_u64(token, &index) ? jv_at(v, (size_t)index) : NULL;
}

/* A pointer can lead into an unknown keyword: the value there becomes a schema. */
static int find_pointer(struct compiler *c, struct node *n, struct tidings_str pointer,
                        struct node **ret)
{
    uint64_t steps = 0;
    n = descend(n, &pointer, &steps);
    int rc = schema_charge(c, n, steps);
    if (rc < 0) {
        return rc;
    }
    if (pointer.len == 0) {
        *ret = n;
        return 0;
    }
    char *token = arena_alloc(&c->s->arena, pointer.len + 1);
    if (!token) {
        return schema_no_memory(c);
    }
    struct json *v = n->value;
    for (struct tidings_str rest = pointer; v && rest.len > 0;) {
        v = ref_member(v, next_token(&rest, token));
    }
    if (!jv_is(v, JV_OBJECT) && !jv_is_bool(v)) {
        *ret = NULL;
        return 0;
    }
    return schema_index_below(c, n, pointer, v, ret);
}

static int ref_resolve(struct compiler *c, struct node *n, struct rule *rule)
{
    struct tidings_str uri, fragment, name;
    struct node *root = NULL, *target = NULL;
    if (schema_uri_resolve(&c->s->arena, n->resource->uri, jv_str(rule->value), &uri, &fragment) <
            0 ||
        schema_uri_decode(&c->s->arena, fragment, &name) < 0) {
        return schema_no_memory(c);
    }
    /* A resource without a name can refer to itself only by an empty reference. */
    int rc = schema_charge(c, n, 4 * (c->s->n_resources + n->resource->n_anchors));
    if (rc < 0) {
        return rc;
    }
    if (uri.len == 0 && n->resource->uri.len == 0) {
        root = n->resource->root;
    } else {
        rc = document_find(c, uri, &root);
    }
    if (rc == 0 && root && name.len == 0) {
        target = root;
    } else if (rc == 0 && root && name.ptr[0] == '/') {
        rc = find_pointer(c, root, name, &target);
    } else if (rc == 0 && root) {
        target = schema_anchor(root->resource, name, false);
        if (rule->keyword == KW_DYNAMIC_REF && schema_anchor(root->resource, name, true)) {
            rule->anchor = name;
        }
    }
    if (rc < 0) {
        return rc;
    }
    if (!target) {
        return schema_refuse(c, TIDINGS_E_NOTFOUND, n, rule->name,
                             root ? "the reference leads to no schema in its document"
                                  : "the reference leads to a document that was not given");
    }
    rule->branches[0] = (struct branch){.key = STR_EMPTY, .node = target};
    rule->n_branches = 1;
    return 0;
}

static const struct rule *find_ref(const struct node *n)
{
    for (size_t i = 0; i < n->n_rules; i++) {
        if (n->rules[i].keyword == KW_REF) {
            return &n->rules[i];
        }
    }
    return NULL;
}

static int check_chain(struct compiler *c, const struct node *start)
{
    const struct node *n = start;
    const struct rule *ref;
    for (unsigned i = 0; (ref = find_ref(n)) != NULL; i++) {
        if (i >= c->s->limits.max_ref_chain) {
            return schema_refuse(c, TIDINGS_E_LIMIT, start, "$ref",
                                 "a chain of references without end, or too long a one");
        }
        n = ref->branches[0].node;
    }
    return 0;
}

static int schema_resolve(struct compiler *c)
{
    int rc = 0;
    /* The list grows during the loop: references can index further documents. */
    for (struct node *n = c->s->nodes; rc == 0 && n; n = n->next) {
        for (size_t i = 0; rc == 0 && i < n->n_rules; i++) {
            if (schema_keywords[n->rules[i].keyword].shape == SHAPE_REF) {
                rc = ref_resolve(c, n, &n->rules[i]);
            }
        }
    }
    for (struct node *n = c->s->nodes; rc == 0 && n; n = n->next) {
        rc = check_chain(c, n);
    }
    return rc;
}
