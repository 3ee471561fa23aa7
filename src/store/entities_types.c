/* SPDX-License-Identifier: MIT
 *
 * Types of entities: their names, their order, and their schemas, compiled once.
 *
 * Invariant: `types` holds the types in the rows (and those added by the current batch), by name
 * and version; `newest` maps a name to its last version.
 */
#include <assert.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "formats/json_write.h"
#include "formats/schema_patch.h"
#include "store/entities.h"

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_name(struct tidings_str s, size_t max, bool dots)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || (dots && c == '.');
        if (!ok) {
            return false;
        }
    }
    /* Path normalization would remove these segments. */
    return s.len > 0 && s.len <= max && !str_eq(s, STR(".")) && !str_eq(s, STR(".."));
}

bool entity_id_is_valid(struct tidings_str id)
{
    return is_name(id, ENTITY_ID_MAX, true);
}

bool entity_type_name_is_valid(struct tidings_str name)
{
    return is_name(name, ENTITY_NAME_MAX, false);
}

bool entity_type_version_is_valid(struct tidings_str version)
{
    return is_name(version, ENTITY_NAME_MAX, true);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void type_free(struct entity_type *t)
{
    if (t) {
        schema_destroy(t->full);
        schema_destroy(t->patch);
        jv_unref(t->patch_pointers);
        mem_free(t->unusable);
        mem_free(t);
    }
}

static int read_duration(const struct json *options, const char *name, int64_t *ret,
                         struct tidings_error *err)
{
    const struct json *v = jv_get(options, name);
    if (v && (!jv_is(v, JV_INT) || jv_int(v) < 0)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "option '%s' must be a number, 0 or more",
                            name);
    }
    *ret = v ? jv_int(v) : 0;
    return 0;
}

static int read_keeping(struct json *options, struct entity_keeping *ret, struct tidings_error *err)
{
    static const struct tidings_str known[] = {
        {"history", 7}, {"debounceMs", 10}, {"maxAgeMs", 8}, {"maxVersions", 11}};
    *ret = (struct entity_keeping){.history = true};
    if (!options) {
        return 0;
    }
    if (!jv_is(options, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "options must be an object");
    }
    struct tidings_str key;
    struct json *value;
    for (void *at = jv_next(options, NULL, &key, &value); at;
         at = jv_next(options, at, &key, &value)) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            found = found || str_eq(known[i], key);
        }
        if (!found) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "option '%.*s' is not known; history, debounceMs, maxAgeMs and "
                                "maxVersions are",
                                STR_ARG(key));
        }
    }
    const struct json *history = jv_get(options, "history");
    if (history && !jv_is(history, JV_TRUE) && !jv_is(history, JV_FALSE)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "option 'history' must be true or false");
    }
    ret->history = !history || jv_is_true(history);
    int rc = read_duration(options, "debounceMs", &ret->debounce_ms, err);
    rc = rc == 0 ? read_duration(options, "maxAgeMs", &ret->max_age_ms, err) : rc;
    return rc == 0 ? read_duration(options, "maxVersions", &ret->max_versions, err) : rc;
}

/* The schemas are not compiled yet. */
static int type_create(const struct entity_type_row *row, struct json *options,
                       struct entity_type **ret, struct tidings_error *err)
{
    struct entity_type *t = mem_zalloc(sizeof(*t) + row->name.len + 1 + row->version.len +
                                       row->schema.len + row->description.len + row->options.len);
    if (!t) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *at = t->text;
    t->row.name = str_pack(&at, row->name);
    *at++ = '@';
    t->row.version = str_pack(&at, row->version);
    t->label = tidings_strn(t->text, (size_t)(at - t->text));
    t->row.schema = str_pack(&at, row->schema);
    t->row.description = str_pack(&at, row->description);
    t->row.options = str_pack(&at, row->options);
    int rc = read_keeping(options, &t->keeping, err);
    if (rc < 0) {
        rc = error_wrap(err, rc, "entity type '%.*s'", STR_ARG(t->label));
        type_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

/* Compiles both schemas with at most *steps, and subtracts those used. */
static int type_compile(struct entity_type *t, struct json *schema, uint64_t *steps,
                        struct tidings_error *err)
{
    uint64_t cost = 0;
    struct schema_options options = {.ret_cost = &cost, .max_cost = *steps > 0 ? *steps : 1};
    int rc = schema_compile(schema, &options, &t->full, err);
    *steps -= cost < *steps ? cost : *steps;
    cost = 0;
    options.max_cost = *steps > 0 ? *steps : 1;
    rc = rc == 0 ? schema_patch_compile(schema, &options, &t->patch, &t->patch_pointers, err) : rc;
    *steps -= cost < *steps ? cost : *steps;
    return rc < 0 ? error_wrap(err, rc, "entity type '%.*s'", STR_ARG(t->label)) : 0;
}

/* The same for a stored type. Another version of the program may have accepted a schema that this
 * one rejects: entities of such a type remain readable. */
static int type_compile_stored(struct entity_type *t, struct json *schema,
                               struct tidings_error *err)
{
    struct tidings_error why = {0};
    uint64_t steps = ENTITY_STEPS;
    int rc = type_compile(t, schema, &steps, &why);
    if (rc < 0 && rc != TIDINGS_E_NOMEM) {
        t->unusable = str_dup(tidings_str(why.text));
        rc = t->unusable ? 0 : TIDINGS_E_NOMEM;
    }
    return rc < 0 ? tidings_fail(err, rc, "out of memory") : 0;
}

static struct list *entities_types_position(struct entities *e, const struct entity_type *t)
{
    struct list *before = &e->types;
    list_each (it, next, &e->types) {
        const struct entity_type *other = list_entry(it, struct entity_type, link);
        int order = str_cmp(other->row.name, t->row.name);
        order = order != 0 ? order : version_sort(other->row.version, t->row.version);
        if (order > 0) {
            break;
        }
        before = it;
    }
    return before;
}

/* Takes ownership of `t`, even on failure. */
static int type_enter(struct entities *e, struct entity_type *t, struct tidings_error *err)
{
    assert(t);
    const struct entity_type *last = map_find(&e->newest, t->row.name);
    bool is_newest = !last || version_sort(last->row.version, t->row.version) < 0;
    if (map_put(&e->by_label, t->label, t, NULL) < 0) {
        type_free(t);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (is_newest && map_put(&e->newest, t->row.name, t, NULL) < 0) {
        map_remove(&e->by_label, t->label);
        type_free(t);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct list *before = entities_types_position(e, t);
    list_insert_between(&t->link, before, before->next);
    return 0;
}

/* ---- the registry ---------------------------------------------------------------------------- */

struct loading {
    struct entities *e;
    struct tidings_error *err;
    int rc;
};

/* For a stored type: this program may not know its keeping options. */
static int type_create_stored(const struct entity_type_row *row, struct json *options,
                              struct entity_type **ret, struct tidings_error *err)
{
    struct tidings_error why = {0};
    int rc = type_create(row, options, ret, &why);
    if (rc == 0 || rc == TIDINGS_E_NOMEM) {
        return rc < 0 ? tidings_fail(err, rc, "out of memory") : 0;
    }
    rc = type_create(row, NULL, ret, err);
    if (rc == 0) {
        (*ret)->unusable = str_dup(tidings_str(why.text));
        rc = (*ret)->unusable ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        type_free(*ret);
        *ret = NULL;
    }
    return rc;
}

/* Stored data must have the form that this program writes; otherwise another program changed it. */
static int type_check_stored(const struct entity_type_row *row, struct json **ret_schema,
                             struct json **ret_options, struct tidings_error *err)
{
    if (!entity_type_name_is_valid(row->name) || !entity_type_version_is_valid(row->version)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "no type has such a name or version");
    }
    if (!str_is_utf8(row->description)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its description is not UTF-8");
    }
    int rc = jv_parse(row->schema, JSON_MAX_DEPTH, ret_schema, err);
    return rc == 0 && row->options.len > 0
               ? jv_parse(row->options, JSON_MAX_DEPTH, ret_options, err)
               : rc;
}

/* Skips a damaged type; the others remain usable. */
static bool load_one(void *user, const struct entity_type_row *row)
{
    struct loading *l = user;
    struct json *schema = NULL, *options = NULL;
    struct entity_type *t = NULL;
    struct tidings_error why = {0};
    int rc = type_check_stored(row, &schema, &options, &why);
    if (rc < 0 && rc != TIDINGS_E_NOMEM) {
        log_warn(LOG_STORE, "skipped a corrupt entity type", KV("type", row->name),
                 KV("version", row->version), KV("reason", why.text));
    }
    if (rc == TIDINGS_E_NOMEM) {
        l->rc = tidings_fail(l->err, rc, "out of memory");
    }
    if (rc == 0) {
        l->rc = type_create_stored(row, options, &t, l->err);
    }
    if (rc == 0 && l->rc == 0) {
        l->rc = t->unusable ? 0 : type_compile_stored(t, schema, l->err);
        if (l->rc == 0) {
            l->rc = type_enter(l->e, t, l->err);
        } else {
            type_free(t);
        }
    }
    jv_unref(schema);
    jv_unref(options);
    return l->rc == 0;
}

int entity_types_load(struct entities *e, struct tidings_error *err)
{
    struct loading l = {e, err, 0};
    int rc = e->store->ops->types(e->store, load_one, &l, err);
    return rc < 0 ? rc : l.rc;
}

void entity_types_warn(struct entities *e)
{
    list_each (it, next, &e->types) {
        const struct entity_type *t = list_entry(it, struct entity_type, link);
        if (t->unusable) {
            log_warn(LOG_STORE, "entities of a type are read, not written", KV("type", t->label),
                     KV("reason", t->unusable));
        }
    }
}

void entity_types_clear(struct entities *e)
{
    list_each (it, next, &e->types) {
        struct entity_type *t = list_entry(it, struct entity_type, link);
        list_remove(it);
        type_free(t);
    }
    map_deinit(&e->by_label);
    map_deinit(&e->newest);
}

/* The previous one in the list becomes the newest, if it has the same name. */
static void type_leave(struct entities *e, struct entity_type *t)
{
    struct list *prev = t->link.prev;
    struct entity_type *before =
        prev != &e->types ? list_entry(prev, struct entity_type, link) : NULL;
    (void)map_remove(&e->by_label, t->label);
    if (map_find(&e->newest, t->row.name) == t) {
        if (before && str_eq(before->row.name, t->row.name)) {
            (void)map_put(&e->newest, before->row.name, before, NULL); /* replaces the entry */
        } else {
            (void)map_remove(&e->newest, t->row.name);
        }
    }
    list_remove(&t->link);
    type_free(t);
}

void entity_types_end_batch(struct entities *e, bool is_committed)
{
    list_each (it, next, &e->types) {
        struct entity_type *t = list_entry(it, struct entity_type, link);
        if (t->is_added && !is_committed) {
            type_leave(e, t);
        } else {
            t->is_added = false;
        }
    }
}

int entities_reload_types(struct entities *e, struct tidings_error *err)
{
    struct entities before = {.by_label = e->by_label, .newest = e->newest};
    list_init(&before.types);
    list_splice(&before.types, &e->types);
    map_init(&e->by_label);
    map_init(&e->newest);
    int rc = entity_types_load(e, err);
    if (rc < 0) {
        entity_types_clear(e);
        list_splice(&e->types, &before.types);
        e->by_label = before.by_label;
        e->newest = before.newest;
        return rc;
    }
    entity_types_clear(&before);
    return 0;
}

struct entity_type *entity_types_find(struct entities *e, struct tidings_str name,
                                      struct tidings_str version)
{
    char label[2 * ENTITY_NAME_MAX + 1];
    if (name.len > ENTITY_NAME_MAX || version.len > ENTITY_NAME_MAX) {
        return NULL;
    }
    char *at = label;
    str_pack(&at, name);
    *at++ = '@';
    str_pack(&at, version);
    return map_find(&e->by_label, tidings_strn(label, (size_t)(at - label)));
}

struct entity_type *entity_types_newest(struct entities *e, struct tidings_str name)
{
    return map_find(&e->newest, name);
}

static int check_spec(struct entities *e, const struct entity_type_spec *spec,
                      struct tidings_error *err)
{
    if (!entity_type_name_is_valid(spec->name)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the name of a type has 1 to %u letters, digits, '-' and '_'",
                            ENTITY_NAME_MAX);
    }
    if (!entity_type_version_is_valid(spec->version)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the version of a type has 1 to %u letters, digits, '-', '_' and '.'",
                            ENTITY_NAME_MAX);
    }
    if (e->by_label.count >= ENTITY_TYPES_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "there are %u types already", ENTITY_TYPES_MAX);
    }
    if (entity_types_find(e, spec->name, spec->version)) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "entity type '%.*s@%.*s' already exists",
                            STR_ARG(spec->name), STR_ARG(spec->version));
    }
    return 0;
}

int entities_add_type(struct entities *e, const struct entity_type_spec *spec,
                      struct tidings_error *err)
{
    struct entity_type *t = NULL;
    uint64_t own = ENTITY_STEPS;
    struct buf schema, options;
    struct jw w;
    buf_init(&schema, ENTITY_SCHEMA_MAX);
    buf_init(&options, ENTITY_SCHEMA_MAX);
    int rc = check_spec(e, spec, err);
    if (rc == 0) {
        jw_init(&w, &schema);
        jw_value(&w, spec->schema);
        jw_init(&w, &options);
        if (spec->options) {
            jw_value(&w, spec->options);
        }
        int failed = schema.failed ? schema.failed : options.failed;
        rc = failed == TIDINGS_E_NOMEM ? tidings_fail(err, failed, "out of memory")
             : failed
                 ? tidings_fail(err, failed, "the schema has more than %u bytes", ENTITY_SCHEMA_MAX)
                 : 0;
    }
    const struct entity_type_row row = {spec->name, spec->version, buf_str(&schema),
                                        spec->description, buf_str(&options)};
    rc = rc == 0 ? type_create(&row, spec->options, &t, err) : rc;
    rc = rc == 0 ? type_compile(t, spec->schema, spec->steps ? spec->steps : &own, err) : rc;
    if (rc == TIDINGS_E_LIMIT && err) {
        err->code = TIDINGS_E_INVALID;
    }
    /* the caller's mistake, not the medium's */
    rc = rc == TIDINGS_E_LIMIT ? TIDINGS_E_INVALID : rc;
    rc = rc == 0 ? e->store->ops->put_type(e->store, &row, err) : rc;
    if (rc == 0) {
        e->has_added_types = t->is_added = true;
        rc = type_enter(e, t, err);
    } else {
        type_free(t);
    }
    buf_deinit(&schema);
    buf_deinit(&options);
    return rc;
}
