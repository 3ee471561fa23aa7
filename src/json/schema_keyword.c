/* SPDX-License-Identifier: MIT
 *
 * The table of JSON Schema keywords: what each may hold, which vocabulary it belongs to, and who
 * judges it. A keyword that is not in the table is an annotation and is ignored, whatever it holds.
 */
#include "json/schema_eval.h"

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

int keyword_read(struct compiler *c, const struct node *n, struct rule *rule, enum shape shape)
{
    return keyword_fits(rule, shape)
               ? 0
               : schema_refuse(c, TIDINGS_E_INVALID, n, rule->name, expected[shape]);
}
