/* SPDX-License-Identifier: MIT
 *
 * Listing, describing and completing entities: everything flat, the types below the root, the
 * entities of a type; one of them described; values of template variables. Rows come in ascending
 * order of URI, so types are taken in the order of their URIs, which is not that of their versions.
 */
#include <stdlib.h>

#include "base/error.h"
#include "provider/entity_private.h"

#define TYPES_URI STR(ENTITY_URI_PREFIX "types")

/* ---- the types ------------------------------------------------------------------------------- */

/* One type and the URI of all its entities; texts in the arena. The registry itself has no name. */
struct listed_type {
    struct tidings_str uri, type, version, description;
};

struct listed_types {
    struct arena *arena;
    struct listed_type *at;
    size_t count;
    bool failed;
};

static bool count_type(void *user, const struct entity_type_row *row)
{
    (void)row;
    ((struct listed_types *)user)->count++;
    return true;
}

static bool entity_list_take_type(void *user, const struct entity_type_row *row)
{
    struct listed_types *p = user;
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    struct entity_uri uri = {.kind = ENTITY_URI_TYPE, .type = row->name, .version = row->version};
    bool built = entity_uri_build(&uri, &text) == 0;
    struct listed_type *type = &p->at[p->count];
    /* The texts of types live as long as the store, on whose thread this is used up. */
    *type = (struct listed_type){.uri = arena_dup(p->arena, buf_str(&text)),
                                 .type = row->name,
                                 .version = row->version,
                                 .description = row->description};
    p->failed = !built || !type->uri.ptr;
    p->count += !p->failed;
    buf_deinit(&text);
    return !p->failed;
}

static int by_uri(const void *a, const void *b)
{
    return str_cmp(((const struct listed_type *)a)->uri, ((const struct listed_type *)b)->uri);
}

static int find_types(struct entity_job *r, struct entities *e, struct listed_types *p,
                      struct tidings_error *err)
{
    *p = (struct listed_types){.arena = &r->arena};
    entities_each_type(e, count_type, p);
    p->at = arena_alloc(&r->arena, (p->count + 1) * sizeof(*p->at));
    p->count = 0;
    if (p->at) {
        entities_each_type(e, entity_list_take_type, p);
        p->at[p->count++] = (struct listed_type){.uri = TYPES_URI};
        qsort(p->at, p->count, sizeof(*p->at), by_uri);
    }
    return p->at && !p->failed ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void describe_type(const struct listed_type *p, struct tidings_resource *row)
{
    *row = (struct tidings_resource){0};
    row->uri = p->uri;
    row->mime_type = STR("application/json");
    if (p->type.len == 0) {
        row->name = STR("types");
        row->title = STR("Entity Type Registry");
        row->description = STR("All types of entities, with their schemas");
        return;
    }
    size_t prefix = sizeof(ENTITY_URI_PREFIX) - 1;
    row->name = tidings_strn(p->uri.ptr + prefix, p->uri.len - prefix - 1);
    row->description = p->description;
    row->mime_type = STR("inode/directory");
    row->listable = true;
}

/* `uri` gets the text of row->uri, `etag` that of row->etag. */
static void describe_entity(const struct entity_version *v, struct buf *uri,
                            char etag[TIMELINE_TEXT], struct tidings_resource *row)
{
    struct entity_uri parts = {
        .kind = ENTITY_URI_CURRENT, .type = v->type, .version = v->type_version, .id = v->id};
    (void)entity_uri_build(&parts, uri);
    *row = (struct tidings_resource){0};
    row->uri = buf_str(uri);
    row->name = v->id;
    row->mime_type = STR("application/json");
    row->etag = timeline_text(v->from, etag);
    row->modified_ms = v->from;
}

struct listing {
    struct tidings_list *list;
    int rc; /* 1: more are wanted */
    struct tidings_error *err;
};

static bool add_entity(void *user, const struct entity_version *v)
{
    struct listing *l = user;
    struct tidings_resource row;
    char etag[TIMELINE_TEXT];
    struct buf uri;
    buf_init(&uri, ENTITY_URI_MAX);
    describe_entity(v, &uri, etag, &row);
    l->rc = uri.failed ? tidings_fail(l->err, uri.failed, "out of memory")
                       : tidings_list_add(l->list, &row, l->err);
    buf_deinit(&uri);
    return l->rc > 0;
}

/* The entities of one type that come after `after`, a URI. */
static void list_type(struct listing *l, struct entities *e, const struct listed_type *p,
                      struct tidings_str parent)
{
    struct tidings_str after = tidings_list_after(l->list);
    struct entity_scope scope = {
        .type = p->type, .type_version = p->version, .parent = parent, .by_parent = parent.len > 0};
    bool inside = str_starts(after, p->uri);
    if (!inside && str_cmp(after, p->uri) > 0) {
        return;
    }
    int rc = entities_list(e, &scope, inside ? str_skip(after, p->uri.len) : STR_EMPTY, add_entity,
                           l, l->err);
    l->rc = rc < 0 ? rc : l->rc;
}

static void list_type_row(struct listing *l, const struct listed_type *p)
{
    struct tidings_resource row;
    if (str_cmp(p->uri, tidings_list_after(l->list)) > 0) {
        describe_type(p, &row);
        l->rc = tidings_list_add(l->list, &row, l->err);
    }
}

static const struct listed_type *find_listed(const struct listed_types *all,
                                             const struct entity_uri *uri)
{
    for (size_t i = 0; i < all->count; i++) {
        if (str_eq(all->at[i].type, uri->type) && str_eq(all->at[i].version, uri->version)) {
            return &all->at[i];
        }
    }
    return NULL;
}

static int no_type(struct entity_job *r, struct tidings_error *err)
{
    const struct entity_uri *uri = &r->uri;
    r->reason = "unknownType";
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no entity type '%.*s@%.*s'",
                        STR_ARG(uri->type), STR_ARG(uri->version));
}

int entity_list(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    struct listing l = {.list = r->list, .rc = 1, .err = err};
    struct listed_types all;
    int rc = find_types(r, e, &all, err);
    if (rc < 0) {
        return rc;
    }
    if (r->children && r->uri.kind != ENTITY_URI_ROOT) {
        const struct listed_type *one =
            r->uri.kind == ENTITY_URI_TYPE ? find_listed(&all, &r->uri) : NULL;
        if (!one) {
            return r->uri.kind == ENTITY_URI_TYPE
                       ? no_type(r, err)
                       : tidings_fail(err, TIDINGS_E_NOTFOUND, "this has no children");
        }
        list_type(&l, e, one, r->uri.parent);
        return l.rc < 0 ? l.rc : 0;
    }
    bool only_containers = r->children && r->uri.parent.len == 0;
    for (size_t i = 0; i < all.count && l.rc > 0; i++) {
        bool is_registry = all.at[i].type.len == 0;
        if (only_containers || (is_registry && r->uri.parent.len == 0)) {
            list_type_row(&l, &all.at[i]);
        } else if (!is_registry) {
            list_type(&l, e, &all.at[i], r->uri.parent);
        }
    }
    return l.rc < 0 ? l.rc : 0;
}

/* ---- one of them ----------------------------------------------------------------------------- */

static int stat_entity(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    struct entity_version v;
    struct tidings_resource *row = &r->about;
    struct buf uri;
    char etag[TIMELINE_TEXT];
    bool past = r->uri.kind == ENTITY_URI_AT;
    int rc = entity_look_up(r, e, past ? r->uri.time : TIMELINE_FOREVER, &v, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&uri, ENTITY_URI_MAX);
    describe_entity(&v, &uri, etag, row);
    if (r->uri.kind != ENTITY_URI_CURRENT) {
        r->uri.type = v.type; /* it may be short */
        r->uri.version = v.type_version;
        buf_clear(&uri);
        (void)entity_uri_build(&r->uri, &uri);
        row->not_subscribable = r->uri.kind != ENTITY_URI_PATCH;
        row->etag = STR_EMPTY;
    }
    row->uri = arena_dup(&r->arena, buf_str(&uri));
    row->etag = arena_dup(&r->arena, row->etag);
    rc = row->uri.ptr && row->etag.ptr && !uri.failed
             ? 0
             : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    buf_deinit(&uri);
    return rc;
}

int entity_stat(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    if (r->uri.kind >= ENTITY_URI_CURRENT) {
        return stat_entity(r, e, err);
    }
    struct listed_types all;
    int rc = find_types(r, e, &all, err);
    if (rc < 0) {
        return rc;
    }
    struct listed_type root = {.uri = r->text, .type = STR("entities")};
    const struct listed_type *p =
        r->uri.kind == ENTITY_URI_ROOT ? &root : find_listed(&all, &r->uri);
    if (!p) {
        return no_type(r, err);
    }
    describe_type(p, &r->about);
    if (p == &root) {
        r->about.name = STR("entities");
        r->about.title = STR("Entities");
    }
    if (r->uri.parent.len > 0) {
        r->about.uri = r->text;
    }
    return 0;
}

/* ---- completion ------------------------------------------------------------------------------ */

struct completing {
    struct tidings_complete *complete;
    struct tidings_str value;
    struct tidings_str last; /* a type's name comes once */
    struct tidings_str type; /* of versions */
    bool versions;
    int rc;
};

static bool entity_list_offer(struct completing *c, struct tidings_str text)
{
    if (str_starts(text, c->value)) {
        c->rc = tidings_complete_add(c->complete, text);
    }
    return c->rc > 0;
}

/* May whoever asks know of what has such URIs? A template may ask for values where it may see what
 * they would stand for, and not what they are. */
static bool entity_list_may_know(const struct completing *c, const struct entity_uri *uri)
{
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    (void)entity_uri_build(uri, &text);
    buf_puts(&text, uri->kind == ENTITY_URI_TYPE ? STR("{+below}") : STR_EMPTY);
    bool may = !text.failed && tidings_complete_shows(c->complete, buf_str(&text));
    buf_deinit(&text);
    return may;
}

static bool may_know_version(const struct completing *c, const struct entity_version *v)
{
    return entity_list_may_know(c, &(struct entity_uri){.kind = ENTITY_URI_CURRENT,
                                                        .type = v->type,
                                                        .version = v->type_version,
                                                        .id = v->id});
}

static bool offer_type(void *user, const struct entity_type_row *row)
{
    struct completing *c = user;
    if (!entity_list_may_know(c, &(struct entity_uri){.kind = ENTITY_URI_TYPE,
                                                      .type = row->name,
                                                      .version = row->version})) {
        return true;
    }
    if (c->versions) {
        bool is = c->type.len == 0 || str_eq(c->type, row->name);
        return is ? entity_list_offer(c, row->version) : true;
    }
    bool again = str_eq(c->last, row->name);
    c->last = row->name;
    return again ? true : entity_list_offer(c, row->name);
}

/* Texts come by bytes: behind the last that begins so there is nothing more. */
static bool offer_next(struct completing *c, struct tidings_str text)
{
    bool beyond = str_cmp(text, c->value) > 0 && !str_starts(text, c->value);
    return beyond ? false : entity_list_offer(c, text);
}

static bool offer_id(void *user, const struct entity_version *v)
{
    return may_know_version(user, v) ? offer_next(user, v->id) : true;
}

static bool offer_time(void *user, const struct entity_version *v)
{
    char text[TIMELINE_TEXT];
    return may_know_version(user, v) ? offer_next(user, timeline_text(v->from, text)) : true;
}

/* The first instant whose text begins with `value`, so that a long history is not looked through
 * from its beginning. TIMELINE_NEVER: there is none, or it cannot be said so simply. */
static int64_t first_time(struct tidings_str value)
{
    char text[TIMELINE_TEXT] = "0000-01-01T00:00:00.000Z";
    int64_t ms;
    if (value.len == 0 || value.len >= TIMELINE_TEXT) {
        return TIMELINE_NEVER;
    }
    memcpy(text, value.ptr, value.len);
    if ((value.len == 6 || value.len == 9) && text[value.len - 1] != '0') {
        text[value.len] = '0'; /* behind "2024-1" it goes on with October */
    }
    int rc = timeline_parse(tidings_strn(text, TIMELINE_TEXT - 1), &ms, NULL);
    return rc < 0 ? TIMELINE_NEVER : ms;
}

int entity_complete(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    struct tidings_str name = tidings_complete_name(r->complete);
    struct completing c = {.complete = r->complete,
                           .value = tidings_complete_value(r->complete),
                           .last = STR_EMPTY,
                           .type = tidings_complete_argument(r->complete, "entityType"),
                           .versions = str_eq(name, STR("entityTypeVersion")),
                           .rc = 1};
    struct entity_scope scope = {.type = c.type,
                                 .type_version =
                                     tidings_complete_argument(r->complete, "entityTypeVersion")};
    int rc = 0;
    if (c.versions || str_eq(name, STR("entityType"))) {
        entities_each_type(e, offer_type, &c);
    } else if (str_eq(name, STR("entityId"))) {
        rc = entities_list(e, &scope, STR_EMPTY, offer_id, &c, err);
    } else if (str_eq(name, STR("baselineTimestamp")) || str_eq(name, STR("timestamp"))) {
        struct tidings_str id = tidings_complete_argument(r->complete, "entityId");
        rc = id.len > 0 ? entities_history(e, id, first_time(c.value), offer_time, &c, err) : 0;
    } else {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "templates of entities have no variable '%.*s'",
                          STR_ARG_MAX(name, 64));
    }
    return rc < 0 ? rc : c.rc < 0 ? c.rc : 0;
}
