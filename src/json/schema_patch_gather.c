/* SPDX-License-Identifier: MIT
 *
 * What an object or array may hold at one JSON pointer of a schema, gathered from all schemas that
 * speak of it: its own keywords, and those of the parts and references that concern the same value.
 */
#include "json/schema_patch_private.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define MAX_STEPS 20000u /* some 10 ms */
#define ENTRY_SUBSCHEMAS 7u
#define MAX_NESTING 384u /* what a schema may have by default */

int patch_no_memory(struct maker *m)
{
    if (m->failed == 0) {
        m->failed = tidings_fail(m->err, TIDINGS_E_NOMEM, "out of memory");
    }
    return m->failed;
}

/* ---- JSON pointers --------------------------------------------------------------------------- */

/* `at`/keyword[/token] as a JSON pointer; NULL: said. mem_free it. */
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

int patch_refer(struct maker *m, const char *at, unsigned *ret)
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

/* ---- gathering ------------------------------------------------------------------------------- */

static void table_init(struct table *t)
{
    t->members = NULL;
    t->members_end = &t->members;
    map_init(&t->by_name);
}

/* The member called `name`, which is added when it is new. NULL: out of memory. */
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

/* The schema at `at` is one for the member; `member` may be NULL: out of memory. */
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

/* Schemas of array items. `contains` speaks of some of them. */
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

/* Schemas about the same value: one (token.ptr NULL), or the one called `token` of several. */
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

int members_gather(struct maker *m, struct members *into, const char *at, bool certain)
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

void members_init(struct members *into)
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

void members_deinit(struct members *into)
{
    map_deinit(&into->seen);
    map_deinit(&into->places.by_name);
    map_deinit(&into->patterns.by_name);
    map_deinit(&into->named.by_name);
    arena_deinit(&into->arena);
}
