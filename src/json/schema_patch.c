/* SPDX-License-Identifier: MIT
 *
 * Patch schemas. Each place of the full schema that a property's value may have becomes one entry
 * of `$defs`, numbered as it is first met: that makes recursive types finite.
 *
 *     {"if": {"type": "object"},
 *      "then": {"properties": {…}, "additionalProperties": false},
 *      "else": {"if": {"type": "null"}, "else": {"$ref": "tidings:full#/properties/name"}}}
 *
 * Invariant: `numbers` maps each place (a JSON pointer) to its number, `queue` holds the places in
 * the order of their numbers, and those below `done` have their entry.
 */
#include "json/schema_patch.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"

#define FULL "tidings:full" /* by this name the patch schema refers to the full one */
#define MAX_STEPS 20000u    /* some 10 ms */
#define MAX_POINTER 4096u
#define ENTRY_SUBSCHEMAS 6u
#define MAX_NESTING 384u /* what a schema may have by default */

struct maker {
    json_t *full;
    json_t *numbers, *queue, *defs;
    unsigned steps, depth;
    unsigned subschemas; /* that were made */
    int failed;
    struct tidings_error *err;
};

/* What the object at one place may hold, gathered from all schemas that speak of it. */
struct members {
    json_t *named, *patterns; /* name -> array of schemas, any of which will do */
    json_t *others;           /* array of schemas for what is not named */
    json_t *seen;             /* places visited */
    bool closed;              /* additionalProperties: false was said */
    bool never;               /* no object can be valid here */
};

static int no_memory(struct maker *m)
{
    if (m->failed == 0) {
        m->failed = tidings_fail(m->err, TIDINGS_E_NOMEM, "out of memory");
    }
    return m->failed;
}

/* Takes `value`. */
static int put(struct maker *m, json_t *object, const char *key, json_t *value)
{
    return json_object_set_new_nocheck(object, key, value) == 0 ? 0 : no_memory(m);
}

static int append(struct maker *m, json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0 ? 0 : no_memory(m);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* `at`/keyword[/token] as a JSON pointer; NULL: said. mem_free it. */
static char *below(struct maker *m, const char *at, const char *keyword, struct tidings_str token)
{
    struct buf out;
    buf_init(&out, MAX_POINTER);
    buf_puts(&out, tidings_str(at));
    buf_putc(&out, '/');
    buf_puts(&out, tidings_str(keyword));
    if (token.ptr) {
        buf_putc(&out, '/');
    }
    for (size_t i = 0; token.ptr && i < token.len; i++) {
        char c = token.ptr[i];
        if (c == '~' || c == '/') {
            buf_puts(&out, c == '~' ? STR("~0") : STR("~1"));
        } else {
            buf_putc(&out, c);
        }
    }
    if (out.failed) {
        m->failed = tidings_fail(m->err, out.failed, "the schema is nested too deeply at '%s'", at);
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

static json_t *step_into(json_t *v, struct tidings_str token)
{
    char key[MAX_POINTER];
    size_t n = 0;
    for (size_t i = 0; i < token.len && n < sizeof key; i++) {
        bool escaped = token.ptr[i] == '~' && i + 1 < token.len;
        key[n++] = !escaped ? token.ptr[i] : token.ptr[i + 1] == '1' ? '/' : '~';
        i += escaped;
    }
    uint64_t index = 0;
    if (json_is_array(v)) {
        return str_to_u64(tidings_strn(key, n), &index) ? json_array_get(v, (size_t)index) : NULL;
    }
    return json_object_getn(v, key, n);
}

static json_t *look_up(const struct maker *m, struct tidings_str pointer)
{
    json_t *v = m->full;
    while (v && pointer.len > 0) {
        struct tidings_str rest = {0};
        struct tidings_str token = str_cut(str_skip(pointer, 1), '/', &rest, NULL);
        pointer = str_skip(pointer, 1 + token.len);
        v = step_into(v, token);
    }
    return v;
}

/* More than would be compiled are not made. */
static int count(struct maker *m, unsigned subschemas)
{
    m->subschemas += subschemas;
    if (m->subschemas > SCHEMA_DEFAULT_SUBSCHEMAS) {
        m->failed = tidings_fail(m->err, TIDINGS_E_LIMIT,
                                 "no patch schema can be made: too many properties");
    }
    return m->failed;
}

/* A reference to the entry of a place, which is queued when it is new. NULL: said. */
static json_t *refer(struct maker *m, const char *at)
{
    json_t *number = json_object_get(m->numbers, at);
    json_int_t n = number ? json_integer_value(number) : (json_int_t)json_array_size(m->queue);
    if (count(m, number ? 1 : 1 + ENTRY_SUBSCHEMAS) < 0) {
        return NULL;
    }
    if (!number && (append(m, m->queue, json_string_nocheck(at)) < 0 ||
                    put(m, m->numbers, at, json_integer(n)) < 0)) {
        return NULL;
    }
    char ref[32];
    (void)snprintf(ref, sizeof ref, "#/$defs/%lld", (long long)n);
    json_t *schema = json_pack("{s:s}", "$ref", ref);
    if (!schema) {
        no_memory(m);
    }
    return schema;
}

/* ---- gathering ------------------------------------------------------------------------------- */

static int gather(struct maker *m, struct members *into, const char *at, bool certain);

/* The schema at `at` for members called `name` (NULL: for all others). */
static int add_member(struct maker *m, json_t *table, const char *name, const char *at)
{
    json_t *ref = refer(m, at);
    if (!ref) {
        return m->failed;
    }
    json_t *list = name ? json_object_get(table, name) : table;
    if (!list) {
        list = json_array();
        if (put(m, table, name, list) < 0) {
            json_decref(ref);
            return m->failed;
        }
    }
    return append(m, list, ref);
}

static int gather_named(struct maker *m, json_t *table, const char *at, const char *keyword,
                        json_t *schemas)
{
    const char *name;
    json_t *schema;
    json_object_foreach(schemas, name, schema)
    {
        char *place = below(m, at, keyword, tidings_str(name));
        int rc = place ? add_member(m, table, name, place) : m->failed;
        mem_free(place);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int gather_others(struct maker *m, struct members *into, const char *at, const char *keyword,
                         const json_t *schema)
{
    if (!schema) {
        return 0;
    }
    if (json_is_false(schema)) {
        into->closed = true;
        return 0;
    }
    char *place = below(m, at, keyword, (struct tidings_str){0});
    int rc = place ? add_member(m, into->others, NULL, place) : m->failed;
    mem_free(place);
    return rc;
}

/* Schemas about the same value: one (token.ptr NULL), or the one called `token` of several. */
static int gather_part(struct maker *m, struct members *into, const char *at, const char *keyword,
                       struct tidings_str token)
{
    char *place = below(m, at, keyword, token);
    m->depth++;
    int rc = place ? gather(m, into, place, strcmp(keyword, "allOf") == 0) : m->failed;
    m->depth--;
    mem_free(place);
    return rc;
}

static int gather_parts(struct maker *m, struct members *into, const char *at, json_t *schema)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = json_array_size(json_object_get(schema, lists[i]));
        for (size_t k = 0; k < n; k++) {
            char index[24];
            (void)snprintf(index, sizeof index, "%zu", k);
            if (gather_part(m, into, at, lists[i], tidings_str(index)) < 0) {
                return m->failed;
            }
        }
    }
    static const char *const single[] = {"if", "then", "else"};
    for (size_t i = 0; i < 3; i++) {
        if (json_object_get(schema, single[i]) &&
            gather_part(m, into, at, single[i], (struct tidings_str){0}) < 0) {
            return m->failed;
        }
    }
    const char *name;
    json_t *dependent;
    json_object_foreach(json_object_get(schema, "dependentSchemas"), name, dependent)
    {
        if (gather_part(m, into, at, "dependentSchemas", tidings_str(name)) < 0) {
            return m->failed;
        }
    }
    return 0;
}

static int gather_reference(struct maker *m, struct members *into, const char *at,
                            const json_t *schema, bool certain)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    bool local = ref && ref[0] == '#' && (ref[1] == '/' || ref[1] == '\0') && !strchr(ref, '%');
    if (json_object_get(schema, "$dynamicRef") || (ref && !local)) {
        m->failed = tidings_fail(m->err, TIDINGS_E_UNSUPPORTED,
                                 "'%s/%s': no patch schema can be made: only references of the "
                                 "form \"#/$defs/name\" are understood there",
                                 at, ref ? "$ref" : "$dynamicRef");
        return m->failed;
    }
    m->depth++;
    int rc = ref ? gather(m, into, ref + 1, certain) : 0;
    m->depth--;
    return rc;
}

static bool allows_object(const json_t *type)
{
    if (!json_is_array(type)) {
        return !type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0);
    }
    size_t i;
    json_t *one;
    json_array_foreach(type, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), "object") == 0) {
            return true;
        }
    }
    return false;
}

/* `certain`: every valid value satisfies this schema, so that what it forbids is forbidden. */
static int gather(struct maker *m, struct members *into, const char *at, bool certain)
{
    if (++m->steps > MAX_STEPS || m->depth > MAX_NESTING) {
        m->failed =
            tidings_fail(m->err, TIDINGS_E_LIMIT,
                         "no patch schema can be made: too many parts refer to one another");
        return m->failed;
    }
    json_t *schema = look_up(m, tidings_str(at));
    if (!json_is_object(schema)) {
        into->never |= certain && json_is_false(schema);
        return 0;
    }
    if (json_object_get(into->seen, at)) {
        return 0;
    }
    into->never |= certain && !allows_object(json_object_get(schema, "type"));
    if (put(m, into->seen, at, json_true()) < 0 ||
        gather_reference(m, into, at, schema, certain) < 0 ||
        gather_named(m, into->named, at, "properties", json_object_get(schema, "properties")) < 0 ||
        gather_named(m, into->patterns, at, "patternProperties",
                     json_object_get(schema, "patternProperties")) < 0 ||
        gather_others(m, into, at, "additionalProperties",
                      json_object_get(schema, "additionalProperties")) < 0 ||
        gather_others(m, into, at, "unevaluatedProperties",
                      json_object_get(schema, "unevaluatedProperties")) < 0) {
        return m->failed;
    }
    return gather_parts(m, into, at, schema);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A pointer as the fragment of a URI. */
static json_t *full_reference(struct maker *m, const char *at)
{
    struct buf out;
    buf_init(&out, 4 * MAX_POINTER);
    buf_puts(&out, STR(FULL "#"));
    for (const char *p = at; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                     strchr("-._~/$", c) != NULL;
        if (plain) {
            buf_putc(&out, (char)c);
        } else {
            buf_putf(&out, "%%%02X", c);
        }
    }
    json_t *schema = out.failed ? NULL : json_pack("{s:s}", "$ref", out.ptr);
    buf_deinit(&out);
    if (!schema) {
        no_memory(m);
    }
    return schema;
}

/* Each list of schemas becomes one: any of them will do. */
static int any_of_each(struct maker *m, json_t *table)
{
    const char *name;
    json_t *list;
    void *next;
    json_object_foreach_safe(table, next, name, list)
    {
        json_t *any = json_array_size(list) == 1 ? json_incref(json_array_get(list, 0))
                                                 : json_pack("{s:O}", "anyOf", list);
        if (put(m, table, name, any) < 0) {
            return m->failed;
        }
    }
    return 0;
}

static json_t *object_schema(struct maker *m, const struct members *from)
{
    if (from->never) {
        return json_false();
    }
    bool names_some = json_object_size(from->named) + json_object_size(from->patterns) > 0;
    json_t *others = json_array_size(from->others) > 0 ? json_pack("{s:O}", "anyOf", from->others)
                     : names_some || from->closed      ? json_false()
                                                       : json_true();
    json_t *schema =
        others ? json_pack("{s:O, s:O, s:o}", "properties", from->named, "patternProperties",
                           from->patterns, "additionalProperties", others)
               : NULL;
    if (!schema) {
        no_memory(m);
    }
    return schema;
}

/* The entry for one place. */
static int write_entry(struct maker *m, const char *at, const char *number)
{
    struct members found = {json_object(), json_object(), json_array(),
                            json_object(), false,         false};
    int rc = found.named && found.patterns && found.others && found.seen ? 0 : no_memory(m);
    if (rc == 0) {
        rc = gather(m, &found, at, true);
    }
    if (rc == 0 && (any_of_each(m, found.named) < 0 || any_of_each(m, found.patterns) < 0)) {
        rc = m->failed;
    }
    json_t *objects = rc == 0 ? object_schema(m, &found) : NULL;
    json_t *rest = objects ? full_reference(m, at) : NULL;
    if (rest) {
        rc = put(m, m->defs, number,
                 json_pack("{s:{s:s}, s:o, s:{s:{s:s}, s:o}}", "if", "type", "object", "then",
                           objects, "else", "if", "type", "null", "else", rest));
    } else {
        json_decref(objects);
    }
    json_decref(found.named);
    json_decref(found.patterns);
    json_decref(found.others);
    json_decref(found.seen);
    return rc < 0 ? rc : m->failed;
}

static int write_entries(struct maker *m)
{
    json_decref(refer(m, ""));
    for (size_t i = 0; m->failed == 0 && i < json_array_size(m->queue); i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i);
        /* The queue may move while it grows; the string does not. */
        (void)write_entry(m, json_string_value(json_array_get(m->queue, i)), number);
    }
    return m->failed;
}

static int make(struct json *full, struct json **ret, struct json **ret_places,
                struct tidings_error *err)
{
    struct maker m = {.full = (json_t *)(void *)full, .err = err};
    m.numbers = json_object();
    m.queue = json_array();
    m.defs = json_object();
    int rc = m.numbers && m.queue && m.defs ? write_entries(&m) : no_memory(&m);
    if (rc == 0) {
        json_t *schema =
            json_pack("{s:s, s:s, s:O}", "type", "object", "$ref", "#/$defs/0", "$defs", m.defs);
        rc = schema ? 0 : no_memory(&m);
        *ret = schema ? (struct json *)(void *)schema : *ret;
    }
    if (rc == 0) {
        *ret_places = (struct json *)(void *)m.queue;
    } else {
        json_decref(m.queue);
    }
    json_decref(m.numbers);
    json_decref(m.defs);
    return rc;
}

int schema_patch_compile(struct json *full, const struct schema_options *options,
                         struct json_schema **ret, struct json **ret_places,
                         struct tidings_error *err)
{
    struct json *patch = NULL, *places = NULL;
    int rc = make(full, &patch, &places, err);
    if (rc < 0) {
        return rc;
    }
    struct schema_document document = {.uri = tidings_str(FULL), .root = full};
    struct schema_options with = options ? *options : (struct schema_options){0};
    with.documents = &document;
    with.n_documents = 1;
    rc = schema_compile(patch, &with, ret, err);
    jv_unref(patch);
    if (rc == 0) {
        *ret_places = places;
    } else {
        jv_unref(places);
    }
    return rc;
}

void schema_patch_explain(struct json *places, struct schema_error *why)
{
    struct tidings_str path = tidings_strn(why->schema_path, strlen(why->schema_path)), rest = {0};
    struct tidings_str place = STR_EMPTY;
    uint64_t number = 0;
    if (str_starts(path, STR(FULL "#"))) {
        rest = str_skip(path, sizeof(FULL));
    } else if (str_starts(path, STR("/$defs/"))) {
        struct tidings_str digits =
            str_cut(str_skip(path, sizeof("/$defs/") - 1), '/', &rest, NULL);
        if (!str_to_u64(digits, &number) || number >= jv_count(places)) {
            return;
        }
        place = jv_str(jv_at(places, (size_t)number));
        rest = str_starts(rest, STR("then")) ? str_skip(rest, 4) : STR_EMPTY;
    } else {
        return;
    }
    char whole[sizeof(why->schema_path)];
    int len = snprintf(whole, sizeof(whole), "%.*s%.*s", STR_ARG(place), STR_ARG(rest));
    if (len >= 0 && (size_t)len < sizeof(whole)) {
        memcpy(why->schema_path, whole, (size_t)len + 1);
    }
}
