/* SPDX-License-Identifier: MIT
 *
 * Making the schema of merge patches from a full schema. Each subschema of the full schema that a
 * property's value may have becomes one entry of `$defs`, numbered as it is first met: that makes
 * recursive types finite.
 *
 *     {"if": {"type": "object"},
 *      "then": {"properties": {…}, "additionalProperties": false},
 *      "else": {"if": {"type": "null"},
 *               "else": {"$ref": "tidings:full#/properties/name", "items": {…}}}}
 *
 * Values in arrays have separate entries, which only say what nothing else says of them: that
 * objects hold no other properties. They have been judged by the full schema with their array.
 *
 * Invariant: `pointers` has the JSON pointer of each subschema that was met, in the order of their
 * numbers, and those in front of the one that is being written have their entry in `out`.
 */
#include "json/schema_patch.h"

#include <stdio.h>
#include <string.h>

#include "json/schema_patch_private.h"

#define FULL "tidings:full" /* by this name the patch schema refers to the full one */

/* A reference into the full schema: the JSON pointer as the fragment of a URI. */
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

/* Any of the schemas will do; `more` may be NULL. */
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
    /* The list grows while it is walked. */
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
