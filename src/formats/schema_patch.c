/* SPDX-License-Identifier: MIT
 *
 * Patch schemas: generates the schema of merge patches from a full schema. Each subschema of the
 * full schema for a property's value becomes one entry of `$defs`, numbered when it is first found:
 * that makes recursive types finite.
 *
 *     {"if": {"type": "object"},
 *      "then": {"properties": {…}, "additionalProperties": false},
 *      "else": {"if": {"type": "null"},
 *               "else": {"$ref": "tidings:full#/properties/name", "items": {…}}}}
 *
 * Values in arrays have separate entries, which check only that objects have no other properties.
 * The full schema validates the rest together with the array.
 *
 * Invariant: `pointers` has the JSON pointer of each subschema found so far, in the order of their
 * numbers, and those before the current one have their entry in `out`.
 */
#include "formats/schema_patch.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * State of the generation of a patch schema. Private to formats/schema_patch*.c.
 */

#define PATCH_MAX_POINTER 4096u
#define PATCH_MAX_BYTES ((size_t)64 << 20)

struct pointer_row {
    struct pointer_row *next;
    const char *at;
    unsigned number;
    bool is_whole; /* a value in an array: replaced as a whole, not patched */
};

/* Alternative schemas for one member. */
struct choice {
    struct choice *next;
    unsigned number; /* of its pointer */
};

struct member {
    struct member *next;
    struct tidings_str name;
    struct choice *choices, **choices_end;
};

struct table {
    struct member *members, **members_end;
    struct map by_name;
};

struct maker {
    struct json *full;
    struct arena arena;
    struct map by_pointer; /* of struct pointer_row */
    struct pointer_row *pointers, **pointers_end;
    struct buf out; /* the text of the patch schema */
    struct jw w;
    unsigned n_pointers, steps, depth;
    bool is_whole;       /* references are now for values in arrays */
    unsigned subschemas; /* number generated */
    int failed;
    struct tidings_error *err;
};

/* The possible contents of the object or array at one JSON pointer, collected from all schemas that
 * describe it. */
struct members {
    struct arena arena;
    struct table named, patterns;
    struct member others; /* members without a name */
    struct table places;  /* for an array: its first items, by number */
    struct member items;  /* … and all items */
    struct map seen;      /* pointers visited */
    bool closed;          /* additionalProperties: false was found */
    bool never;           /* no object can be valid here */
};

/* -------------------------------------------------------------------------------------------------
 * Collects the possible contents of an object or array at one JSON pointer of a schema: its own
 * keywords, and those of the subschemas and references that apply to the same value.
 */

#define MAX_STEPS 20000u /* about 10 ms */
#define ENTRY_SUBSCHEMAS 7u
#define MAX_NESTING 384u /* the default limit of a schema */

static int patch_no_memory(struct maker *m)
{
    if (m->failed == 0) {
        m->failed = tidings_fail(m->err, TIDINGS_E_NOMEM, "out of memory");
    }
    return m->failed;
}

/* ---- JSON pointers --------------------------------------------------------------------------- */

/* `at`/keyword[/token] as a JSON pointer; NULL: the error is set. Free it with mem_free. */
static char *pointer_below(struct maker *m, const char *at, const char *keyword,
                           struct tidings_str token)
{
    struct buf out;
    buf_init(&out, PATCH_MAX_POINTER);
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

static struct json *step_into(struct json *v, struct tidings_str token)
{
    char key[PATCH_MAX_POINTER];
    size_t n = 0;
    for (size_t i = 0; i < token.len && n < sizeof key; i++) {
        bool escaped = token.ptr[i] == '~' && i + 1 < token.len;
        key[n++] = !escaped ? token.ptr[i] : token.ptr[i + 1] == '1' ? '/' : '~';
        i += escaped;
    }
    uint64_t index = 0;
    if (jv_is(v, JV_ARRAY)) {
        return str_to_u64(tidings_strn(key, n), &index) ? jv_at(v, (size_t)index) : NULL;
    }
    return jv_get_str(v, tidings_strn(key, n));
}

static struct json *look_up(const struct maker *m, struct tidings_str pointer)
{
    struct json *v = m->full;
    while (v && pointer.len > 0) {
        struct tidings_str rest = {0};
        struct tidings_str token = str_cut(str_skip(pointer, 1), '/', &rest, NULL);
        pointer = str_skip(pointer, 1 + token.len);
        v = step_into(v, token);
    }
    return v;
}

/* Fails beyond the number of subschemas that can be compiled. */
static int count(struct maker *m, unsigned subschemas)
{
    m->subschemas += subschemas;
    if (m->subschemas > SCHEMA_DEFAULT_SUBSCHEMAS) {
        m->failed = tidings_fail(m->err, TIDINGS_E_LIMIT,
                                 "no patch schema can be made: too many properties");
    }
    return m->failed;
}

static int patch_refer(struct maker *m, const char *at, unsigned *ret)
{
    char key[PATCH_MAX_POINTER + 2];
    (void)snprintf(key, sizeof key, "%c%s", m->is_whole ? '*' : ' ', at);
    struct pointer_row *row = map_find(&m->by_pointer, tidings_str(key));
    if (count(m, row ? 1 : 1 + ENTRY_SUBSCHEMAS) < 0) {
        return m->failed;
    }
    if (!row) {
        row = arena_alloc(&m->arena, sizeof(*row));
        struct tidings_str copy = arena_dup(&m->arena, tidings_str(key));
        if (!row || !copy.ptr || map_put(&m->by_pointer, copy, row, NULL) < 0) {
            return patch_no_memory(m);
        }
        row->at = copy.ptr + 1;
        row->is_whole = m->is_whole;
        row->number = m->n_pointers++;
        *m->pointers_end = row;
        m->pointers_end = &row->next;
    }
    *ret = row->number;
    return 0;
}

/* ---- collection ------------------------------------------------------------------------------ */

static void table_init(struct table *t)
{
    t->members = NULL;
    t->members_end = &t->members;
    map_init(&t->by_name);
}

/* Finds or adds the member called `name`. NULL: out of memory. */
static struct member *table_member(struct table *t, struct arena *arena, struct tidings_str name)
{
    struct member *member = map_find(&t->by_name, name);
    if (member) {
        return member;
    }
    member = arena_alloc(arena, sizeof(*member));
    if (!member || map_put(&t->by_name, name, member, NULL) < 0) {
        return NULL;
    }
    member->name = name;
    member->choices_end = &member->choices;
    *t->members_end = member;
    t->members_end = &member->next;
    return member;
}

/* Adds the schema at `at` to the member; `member` may be NULL: out of memory. */
static int add_choice(struct maker *m, struct members *into, struct member *member, const char *at)
{
    struct choice *choice = arena_alloc(&into->arena, sizeof(*choice));
    if (!member || !choice) {
        return patch_no_memory(m);
    }
    if (patch_refer(m, at, &choice->number) < 0) {
        return m->failed;
    }
    *member->choices_end = choice;
    member->choices_end = &choice->next;
    return 0;
}

static int gather_named(struct maker *m, struct members *into, struct table *table, const char *at,
                        const char *keyword, struct json *schemas)
{
    struct tidings_str name;
    struct json *schema;
    for (void *i = NULL; (i = jv_next(schemas, i, &name, &schema)) != NULL;) {
        char *pointer = pointer_below(m, at, keyword, name);
        int rc = pointer ? add_choice(m, into, table_member(table, &into->arena, name), pointer)
                         : m->failed;
        mem_free(pointer);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int gather_others(struct maker *m, struct members *into, const char *at, const char *keyword,
                         const struct json *schema)
{
    if (!schema) {
        return 0;
    }
    if (jv_is(schema, JV_FALSE)) {
        into->closed = true;
        return 0;
    }
    char *pointer = pointer_below(m, at, keyword, (struct tidings_str){0});
    int rc = pointer ? add_choice(m, into, &into->others, pointer) : m->failed;
    mem_free(pointer);
    return rc;
}

static int gather_places(struct maker *m, struct members *into, const char *at,
                         const struct json *schemas)
{
    size_t n = jv_is(schemas, JV_ARRAY) ? jv_count(schemas) : 0;
    for (size_t i = 0; i < n; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i);
        struct tidings_str name = arena_dup(&into->arena, tidings_str(number));
        struct member *place = name.ptr ? table_member(&into->places, &into->arena, name) : NULL;
        char *pointer = pointer_below(m, at, "prefixItems", tidings_str(number));
        int rc = pointer ? add_choice(m, into, place, pointer) : m->failed;
        mem_free(pointer);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Schemas of array items. `contains` applies to some of them. */
static int gather_items(struct maker *m, struct members *into, const char *at, struct json *schema)
{
    static const char *const keywords[] = {"items", "unevaluatedItems", "contains"};
    bool was_whole = m->is_whole;
    m->is_whole = true;
    int rc = gather_places(m, into, at, jv_get(schema, "prefixItems"));
    for (size_t i = 0; rc == 0 && i < 3; i++) {
        bool is_said = jv_get(schema, keywords[i]) != NULL;
        bool counts = is_said && (i < 2 || jv_get(schema, "items"));
        char *pointer = counts ? pointer_below(m, at, keywords[i], (struct tidings_str){0}) : NULL;
        rc = pointer ? add_choice(m, into, &into->items, pointer) : m->failed;
        mem_free(pointer);
    }
    m->is_whole = was_whole;
    return rc;
}

static int members_gather(struct maker *m, struct members *into, const char *at, bool certain);

/* Schemas of the same value: one (token.ptr NULL), or the one called `token` of several. */
static int gather_part(struct maker *m, struct members *into, const char *at, const char *keyword,
                       struct tidings_str token)
{
    char *pointer = pointer_below(m, at, keyword, token);
    m->depth++;
    int rc = pointer ? members_gather(m, into, pointer, strcmp(keyword, "allOf") == 0) : m->failed;
    m->depth--;
    mem_free(pointer);
    return rc;
}

static size_t array_count(const struct json *v)
{
    return jv_is(v, JV_ARRAY) ? jv_count(v) : 0;
}

static int gather_parts(struct maker *m, struct members *into, const char *at, struct json *schema)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = array_count(jv_get(schema, lists[i]));
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
        if (jv_get(schema, single[i]) &&
            gather_part(m, into, at, single[i], (struct tidings_str){0}) < 0) {
            return m->failed;
        }
    }
    struct tidings_str name;
    struct json *all = jv_get(schema, "dependentSchemas"), *dependent;
    for (void *i = NULL; (i = jv_next(all, i, &name, &dependent)) != NULL;) {
        if (gather_part(m, into, at, "dependentSchemas", name) < 0) {
            return m->failed;
        }
    }
    return 0;
}

static int gather_reference(struct maker *m, struct members *into, const char *at,
                            const struct json *schema, bool certain)
{
    const struct json *target = jv_get(schema, "$ref");
    const char *ref = jv_is(target, JV_STRING) ? jv_str(target).ptr : NULL; /* terminated */
    bool local = ref && ref[0] == '#' && (ref[1] == '/' || ref[1] == '\0') && !strchr(ref, '%');
    if (jv_get(schema, "$dynamicRef") || (ref && !local)) {
        m->failed = tidings_fail(m->err, TIDINGS_E_UNSUPPORTED,
                                 "'%s/%s': no patch schema can be made: only references of the "
                                 "form \"#/$defs/name\" are understood there",
                                 at, ref ? "$ref" : "$dynamicRef");
        return m->failed;
    }
    m->depth++;
    int rc = ref ? members_gather(m, into, ref + 1, certain) : 0;
    m->depth--;
    return rc;
}

static bool is_object_type(const struct json *type)
{
    return str_eq(jv_str(type), STR("object"));
}

static bool allows_object(const struct json *type)
{
    if (!jv_is(type, JV_ARRAY)) {
        return !type || is_object_type(type);
    }
    bool allows = false;
    for (size_t i = 0; !allows && i < jv_count(type); i++) {
        allows = is_object_type(jv_at(type, i));
    }
    return allows;
}

/* Collects the object's contents from the schema at `at` and its references. `certain`: every valid
 * value satisfies this schema, so whatever it forbids is forbidden. */
static int members_gather(struct maker *m, struct members *into, const char *at, bool certain)
{
    if (++m->steps > MAX_STEPS || m->depth > MAX_NESTING) {
        m->failed =
            tidings_fail(m->err, TIDINGS_E_LIMIT,
                         "no patch schema can be made: too many parts refer to one another");
        return m->failed;
    }
    struct json *schema = look_up(m, tidings_str(at));
    if (!jv_is(schema, JV_OBJECT)) {
        into->never |= certain && jv_is(schema, JV_FALSE);
        return 0;
    }
    if (map_find(&into->seen, tidings_str(at))) {
        return 0;
    }
    into->never |= certain && !allows_object(jv_get(schema, "type"));
    struct tidings_str copy = arena_dup(&into->arena, tidings_str(at));
    if (!copy.ptr || map_put(&into->seen, copy, schema, NULL) < 0) {
        return patch_no_memory(m);
    }
    if (gather_reference(m, into, at, schema, certain) < 0 ||
        gather_named(m, into, &into->named, at, "properties", jv_get(schema, "properties")) < 0 ||
        gather_named(m, into, &into->patterns, at, "patternProperties",
                     jv_get(schema, "patternProperties")) < 0 ||
        gather_others(m, into, at, "additionalProperties", jv_get(schema, "additionalProperties")) <
            0 ||
        gather_others(m, into, at, "unevaluatedProperties",
                      jv_get(schema, "unevaluatedProperties")) < 0 ||
        gather_items(m, into, at, schema) < 0) {
        return m->failed;
    }
    return gather_parts(m, into, at, schema);
}

static void members_init(struct members *into)
{
    *into = (struct members){.closed = false};
    into->others.choices_end = &into->others.choices;
    into->items.choices_end = &into->items.choices;
    arena_init(&into->arena, PATCH_MAX_BYTES);
    table_init(&into->named);
    table_init(&into->patterns);
    table_init(&into->places);
    map_init(&into->seen);
}

static void members_deinit(struct members *into)
{
    map_deinit(&into->seen);
    map_deinit(&into->places.by_name);
    map_deinit(&into->patterns.by_name);
    map_deinit(&into->named.by_name);
    arena_deinit(&into->arena);
}

/* ---------------------------------------------------------------------------------------------- */

#define FULL "tidings:full" /* the patch schema's name for the full schema */

/* Writes a reference into the full schema: the JSON pointer as the fragment of a URI. */
static void put_full_reference(struct maker *m, const char *at)
{
    struct buf uri;
    buf_init(&uri, 4 * PATCH_MAX_POINTER);
    buf_puts(&uri, STR(FULL "#"));
    for (const char *p = at; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                     strchr("-._~/$", c) != NULL;
        if (plain) {
            buf_putc(&uri, (char)c);
        } else {
            buf_putf(&uri, "%%%02X", c);
        }
    }
    if (uri.failed) {
        patch_no_memory(m);
    }
    jw_put_string(&m->w, STR("$ref"), buf_str(&uri));
    buf_deinit(&uri);
}

static void put_references(struct jw *w, const struct choice *choices)
{
    for (; choices; choices = choices->next) {
        char ref[32];
        (void)snprintf(ref, sizeof ref, "#/$defs/%u", choices->number);
        jw_begin_object(w);
        jw_put_string(w, STR("$ref"), tidings_str(ref));
        jw_end_object(w);
    }
}

/* Any of the schemas is accepted; `more` may be NULL. */
static void patch_put_choices(struct jw *w, const struct choice *choices, const struct choice *more,
                              bool is_list)
{
    is_list = is_list || choices->next || more;
    if (is_list) {
        jw_begin_object(w);
        jw_key(w, STR("anyOf"));
        jw_begin_array(w);
    }
    put_references(w, choices);
    put_references(w, more);
    if (is_list) {
        jw_end_array(w);
        jw_end_object(w);
    }
}

static void put_table(struct jw *w, const struct table *t)
{
    jw_begin_object(w);
    for (const struct member *member = t->members; member; member = member->next) {
        jw_key(w, member->name);
        patch_put_choices(w, member->choices, NULL, false);
    }
    jw_end_object(w);
}

/* The schema of objects. */
static void patch_put_members(struct jw *w, const struct members *from)
{
    if (from->never) {
        jw_bool(w, false);
        return;
    }
    jw_begin_object(w);
    jw_key(w, STR("properties"));
    put_table(w, &from->named);
    jw_key(w, STR("patternProperties"));
    put_table(w, &from->patterns);
    jw_key(w, STR("additionalProperties"));
    if (from->others.choices) {
        patch_put_choices(w, from->others.choices, NULL, true);
    } else {
        jw_bool(w, !from->named.members && !from->patterns.members && !from->closed);
    }
    jw_end_object(w);
}

static void patch_put_type(struct jw *w, struct tidings_str type)
{
    jw_key(w, STR("if"));
    jw_begin_object(w);
    jw_put_string(w, STR("type"), type);
    jw_end_object(w);
}

/* The schemas of array items, as members of a schema. */
static void patch_put_items(struct jw *w, const struct members *from)
{
    if (from->places.members) {
        jw_key(w, STR("prefixItems"));
        jw_begin_array(w);
        for (const struct member *place = from->places.members; place; place = place->next) {
            patch_put_choices(w, place->choices, from->items.choices, false);
        }
        jw_end_array(w);
    }
    if (from->items.choices) {
        jw_key(w, STR("items"));
        patch_put_choices(w, from->items.choices, NULL, false);
    }
}

/* The schema of values other than objects: null removes the property. */
static void patch_put_other(struct maker *m, const struct pointer_row *row,
                            const struct members *found)
{
    jw_begin_object(&m->w);
    if (row->is_whole) {
        patch_put_items(&m->w, found);
        jw_end_object(&m->w);
        return;
    }
    patch_put_type(&m->w, STR("null"));
    jw_key(&m->w, STR("else"));
    jw_begin_object(&m->w);
    put_full_reference(m, row->at);
    patch_put_items(&m->w, found);
    jw_end_object(&m->w);
    jw_end_object(&m->w);
}

/* The entry for one subschema. */
static void patch_put_entry(struct maker *m, const struct pointer_row *row)
{
    struct members found;
    members_init(&found);
    m->is_whole = row->is_whole;
    if (members_gather(m, &found, row->at, true) == 0) {
        char number[24];
        (void)snprintf(number, sizeof number, "%u", row->number);
        jw_key(&m->w, tidings_str(number));
        jw_begin_object(&m->w);
        patch_put_type(&m->w, STR("object"));
        jw_key(&m->w, STR("then"));
        patch_put_members(&m->w, &found);
        jw_key(&m->w, STR("else"));
        patch_put_other(m, row, &found);
        jw_end_object(&m->w);
    }
    members_deinit(&found);
}

/* The JSON pointers, in the order of their numbers, as an array of strings. */
static int list_pointers(const struct maker *m, struct json **ret, struct tidings_error *err)
{
    struct buf text;
    struct jw w;
    buf_init(&text, PATCH_MAX_BYTES);
    jw_init(&w, &text);
    jw_begin_array(&w);
    for (const struct pointer_row *row = m->pointers; row; row = row->next) {
        jw_string(&w, tidings_str(row->at));
    }
    jw_end_array(&w);
    int rc = text.failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                         : jv_parse(buf_str(&text), 1, ret, err);
    buf_deinit(&text);
    return rc;
}

static int patch_put_schema(struct maker *m)
{
    unsigned first;
    jw_begin_object(&m->w);
    jw_put_string(&m->w, STR("type"), STR("object"));
    jw_put_string(&m->w, STR("$ref"), STR("#/$defs/0"));
    jw_key(&m->w, STR("$defs"));
    jw_begin_object(&m->w);
    (void)patch_refer(m, "", &first);
    /* The list grows during the loop. */
    for (const struct pointer_row *row = m->pointers; m->failed == 0 && row; row = row->next) {
        patch_put_entry(m, row);
    }
    if (m->failed == 0) {
        jw_end_object(&m->w);
        jw_end_object(&m->w);
    }
    return m->failed == 0 && m->out.failed ? patch_no_memory(m) : m->failed;
}

static int patch_make(struct json *full, struct json **ret, struct json **ret_pointers,
                      struct tidings_error *err)
{
    struct maker m = {.full = full, .err = err};
    m.pointers_end = &m.pointers;
    arena_init(&m.arena, PATCH_MAX_BYTES);
    map_init(&m.by_pointer);
    buf_init(&m.out, PATCH_MAX_BYTES);
    jw_init(&m.w, &m.out);
    int rc = patch_put_schema(&m);
    rc = rc == 0 ? jv_parse(buf_str(&m.out), JSON_MAX_DEPTH, ret, err) : rc;
    rc = rc == 0 ? list_pointers(&m, ret_pointers, err) : rc;
    buf_deinit(&m.out);
    map_deinit(&m.by_pointer);
    arena_deinit(&m.arena);
    return rc;
}

int schema_patch_compile(struct json *full, const struct schema_options *options,
                         struct json_schema **ret, struct json **ret_pointers,
                         struct tidings_error *err)
{
    struct json *patch = NULL, *pointers = NULL;
    int rc = patch_make(full, &patch, &pointers, err);
    if (rc < 0) {
        jv_unref(patch);
        return rc;
    }
    struct schema_document document = {.uri = tidings_str(FULL), .root = full};
    struct schema_options with = options ? *options : (struct schema_options){0};
    with.documents = &document;
    with.n_documents = 1;
    rc = schema_compile(patch, &with, ret, err);
    jv_unref(patch);
    if (rc == 0) {
        *ret_pointers = pointers;
    } else {
        jv_unref(pointers);
    }
    return rc;
}

void schema_patch_explain(struct json *pointers, struct schema_error *why)
{
    struct tidings_str path = tidings_strn(why->schema_path, strlen(why->schema_path)), rest = {0};
    struct tidings_str pointer = STR_EMPTY;
    uint64_t number = 0;
    if (str_starts(path, STR(FULL "#"))) {
        rest = str_skip(path, sizeof(FULL));
    } else if (str_starts(path, STR("/$defs/"))) {
        struct tidings_str digits =
            str_cut(str_skip(path, sizeof("/$defs/") - 1), '/', &rest, NULL);
        if (!str_to_u64(digits, &number) || number >= jv_count(pointers)) {
            return;
        }
        pointer = jv_str(jv_at(pointers, (size_t)number));
        rest = str_starts(rest, STR("then")) ? str_skip(rest, 4) : STR_EMPTY;
    } else {
        return;
    }
    char whole[sizeof(why->schema_path)];
    int len = snprintf(whole, sizeof(whole), "%.*s%.*s", STR_ARG(pointer), STR_ARG(rest));
    if (len >= 0 && (size_t)len < sizeof(whole)) {
        memcpy(why->schema_path, whole, (size_t)len + 1);
    }
}
