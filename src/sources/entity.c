/* SPDX-License-Identifier: MIT
 *
 * The operations of the entity provider. It checks a request on arrival, submits it to the commit
 * thread as a job, and answers there.
 */
#include "sources/entity.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/entities.h"

/* -------------------------------------------------------------------------------------------------
 * Parses and builds the URIs of entities.
 *
 * All characters that a component may have are unreserved, so they are decoded in canonical URIs. A
 * remaining percent sign stands for an invalid character, and slices need no memory.
 */

#define QUOTED_MAX 64 /* bytes of untrusted text in a message */

static int parse_type(struct tidings_str text, struct entity_uri *ret, struct tidings_error *err)
{
    bool has_version = false;
    ret->type = str_cut(text, '@', &ret->version, &has_version);
    if (!has_version || !entity_type_name_is_valid(ret->type) ||
        !entity_type_version_is_valid(ret->version)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is not an entity type; write {type}@{version} with letters, "
                            "digits, '-', '_' and, in the version, '.'",
                            STR_ARG_MAX(text, QUOTED_MAX));
    }
    ret->kind = ENTITY_URI_TYPE;
    return 0;
}

/* Parses the part after the id: nothing, patch, patch/{time} or at/{time}. */
static int parse_suffix(struct tidings_str text, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str time;
    bool has_time = false;
    struct tidings_str word = str_cut(text, '/', &time, &has_time);
    bool is_patch = str_eq(word, STR("patch"));
    if (is_patch && !has_time) {
        ret->kind = ENTITY_URI_PATCH;
        return 0;
    }
    if (!is_patch && !str_eq(word, STR("at"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' may not follow an entity; accepted: patch, patch/{baseline}, "
                            "at/{timestamp}%s",
                            STR_ARG_MAX(text, QUOTED_MAX),
                            ret->type.len == 0 ? "; before its id {type}@{version}" : "");
    }
    ret->kind = is_patch ? ENTITY_URI_PATCH_FROM : ENTITY_URI_AT;
    return timeline_parse(time, &ret->time, err);
}

static int parse_path(struct tidings_str path, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str rest;
    bool more = false;
    if (path.len == 0) {
        ret->kind = ENTITY_URI_ROOT;
        return 0;
    }
    if (str_eq(path, STR("types"))) {
        ret->kind = ENTITY_URI_TYPES;
        return 0;
    }
    struct tidings_str first = str_cut(path, '/', &rest, NULL);
    bool is_short = str_find(first, '@') < 0 && entity_id_is_valid(first);
    int rc = is_short ? 0 : parse_type(first, ret, err);
    if (rc < 0 || (!is_short && rest.len == 0)) {
        return rc;
    }
    rest = is_short ? path : rest;
    ret->id = str_cut(rest, '/', &rest, &more);
    if (!entity_id_is_valid(ret->id)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is not a valid entity id; ids are letters, digits, '.', '-' "
                            "and '_', at most %u",
                            STR_ARG_MAX(ret->id, QUOTED_MAX), ENTITY_ID_MAX);
    }
    ret->kind = ENTITY_URI_CURRENT;
    return more ? parse_suffix(rest, ret, err) : 0;
}

static int parse_query(struct tidings_str query, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str key = str_cut(query, '=', &ret->parent, NULL);
    if (str_eq(key, STR("at")) || str_eq(key, STR("patchFrom"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "?%.*s is not accepted; write %s after the entity id", STR_ARG(key),
                            key.ptr[0] == 'a' ? "/at/{timestamp}" : "/patch/{baseline}");
    }
    bool is_container = ret->kind == ENTITY_URI_ROOT || ret->kind == ENTITY_URI_TYPE;
    if (!is_container || !str_eq(key, STR("parent"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'?%.*s' is not accepted; only ?parent={id} is, behind %s and "
                            "%s{type}@{version}/",
                            STR_ARG_MAX(query, QUOTED_MAX), ENTITY_URI_PREFIX, ENTITY_URI_PREFIX);
    }
    return entity_id_is_valid(ret->parent)
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is not a valid parent id",
                              STR_ARG_MAX(ret->parent, QUOTED_MAX));
}

int entity_uri_parse(struct tidings_str uri, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    memset(ret, 0, sizeof(*ret));
    if (!str_starts(uri, STR(ENTITY_URI_PREFIX))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "URIs of entities begin with %s",
                            ENTITY_URI_PREFIX);
    }
    struct tidings_str path =
        str_cut(str_skip(uri, sizeof(ENTITY_URI_PREFIX) - 1), '?', &query, &has_query);
    int rc = parse_path(path, ret, err);
    return rc == 0 && has_query ? parse_query(query, ret, err) : rc;
}

bool entity_uri_is_short(struct tidings_str text)
{
    struct entity_uri uri;
    return entity_uri_parse(text, &uri, NULL) == 0 && uri.id.len > 0 && uri.type.len == 0;
}

int entity_uri_build(const struct entity_uri *uri, struct buf *out)
{
    char time[TIMELINE_TEXT];
    buf_puts(out, STR(ENTITY_URI_PREFIX));
    if (uri->kind == ENTITY_URI_TYPES) {
        buf_puts(out, STR("types"));
    } else if (uri->kind != ENTITY_URI_ROOT && uri->type.len > 0) {
        buf_puts(out, uri->type);
        buf_putc(out, '@');
        buf_puts(out, uri->version);
        buf_putc(out, '/');
    }
    buf_puts(out, uri->id);
    if (uri->kind >= ENTITY_URI_PATCH) {
        buf_puts(out, uri->kind == ENTITY_URI_AT ? STR("/at") : STR("/patch"));
    }
    if (uri->kind >= ENTITY_URI_PATCH_FROM) {
        buf_putc(out, '/');
        buf_puts(out, timeline_text(uri->time, time));
    }
    if (uri->parent.len > 0) {
        buf_puts(out, STR("?parent="));
        buf_puts(out, uri->parent);
    }
    return out->failed;
}

/* -------------------------------------------------------------------------------------------------
 * Lists, describes and completes entities: all of them, the types below the root, or the entities
 * of a type; a single description; values of template variables. Rows come in ascending order of
 * URI, so types are taken in the order of their URIs, which differs from the order of their
 * versions.
 */

#define TYPES_URI STR(ENTITY_URI_PREFIX "types")

/* ---- the types ------------------------------------------------------------------------------- */

/* One type and the URI of all its entities; strings in the arena. The registry itself has no
 * name. */
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
    /* Strings of types live as long as the store, and this runs on its thread. */
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
    int rc; /* 1: the caller wants more */
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

static int entity_list(struct entity_job *r, struct entities *e, struct tidings_error *err)
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
        r->uri.type = v.type; /* the short form */
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
    struct tidings_str last; /* each type name occurs once */
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

/* Returns true if the client may know of entities with such URIs. It may complete a template only
 * if it may see the resources that the values stand for, whatever their content. */
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

/* Values are in byte order: no value follows after the last one with the prefix. */
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

/* Returns the first instant whose text begins with `value`, to skip the start of a long history.
 * TIMELINE_NEVER: there is none, or the prefix is not that simple. */
static int64_t first_time(struct tidings_str value)
{
    char text[TIMELINE_TEXT] = "0000-01-01T00:00:00.000Z";
    int64_t ms;
    if (value.len == 0 || value.len >= TIMELINE_TEXT) {
        return TIMELINE_NEVER;
    }
    memcpy(text, value.ptr, value.len);
    if ((value.len == 6 || value.len == 9) && text[value.len - 1] != '0') {
        text[value.len] = '0'; /* the month after "2024-1" starts with October */
    }
    int rc = timeline_parse(tidings_strn(text, TIMELINE_TEXT - 1), &ms, NULL);
    return rc < 0 ? TIMELINE_NEVER : ms;
}

static int entity_complete(struct entity_job *r, struct entities *e, struct tidings_error *err)
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

/* ---------------------------------------------------------------------------------------------- */

/* ---- to the commit thread and back ----------------------------------------------------------- */

static void entity_finish(struct entity_job *r, int code, const struct tidings_error *err)
{
    if (code < 0) {
        entity_explain(r);
    }
    if (r->read) {
        tidings_read_done(r->read, code, err);
    } else if (r->list) {
        tidings_list_done(r->list, code, err);
    } else if (r->stat) {
        tidings_stat_done(r->stat, code, &r->about, err);
    } else {
        tidings_complete_done(r->complete, code, err);
    }
}

static int entity_run(struct store_job *job, struct entities *entities)
{
    struct entity_job *r = list_entry(job, struct entity_job, job);
    return r->is_patch ? entity_patch(r, entities, &job->err)
           : r->read   ? entity_read(r, entities, &job->err)
           : r->list   ? entity_list(r, entities, &job->err)
           : r->stat   ? entity_stat(r, entities, &job->err)
                       : entity_complete(r, entities, &job->err);
}

static void entity_job_on_done(struct store_job *job, int code)
{
    struct entity_job *r = list_entry(job, struct entity_job, job);
    entity_finish(r, code < 0 ? code : 0, &job->err);
    arena_deinit(&r->arena);
    mem_free(r);
}

/* Takes over the request, or fails it. */
static void entity_job_submit(const struct entity_job *asked)
{
    const struct entity_mount *m = tidings_provider_state(asked->provider);
    struct tidings_error err = {0};
    struct entity_job *r = mem_zalloc(sizeof(*r));
    if (!r) {
        struct entity_job copy = *asked;
        entity_finish(&copy, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return;
    }
    *r = *asked;
    r->job.run = entity_run;
    r->job.done = entity_job_on_done;
    list_init(&r->job.message.link);
    arena_init(&r->arena, ENTITY_ARENA_MAX);
    int rc = r->complete || r->text.len == 0 ? 0 : entity_uri_parse(r->text, &r->uri, &err);
    if (rc < 0) {
        r->reason = r->uri.kind > ENTITY_URI_PATCH ? "invalidTimestamp" : "invalidUri";
        entity_finish(r, rc, &err);
        arena_deinit(&r->arena);
        mem_free(r);
        return;
    }
    if (entity_read_recent(r, m->commit_thread, &rc, &err)) {
        entity_finish(r, rc, &err);
        arena_deinit(&r->arena);
        mem_free(r);
        return;
    }
    commit_thread_submit(m->commit_thread, &r->job);
}

static void mount_read(struct tidings_provider *p, struct tidings_read *read,
                       struct tidings_str uri)
{
    entity_job_submit(&(struct entity_job){.provider = p, .read = read, .text = uri});
}

static void mount_patch(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri, struct tidings_str baseline)
{
    entity_job_submit(&(struct entity_job){
        .provider = p, .read = read, .is_patch = true, .text = uri, .from = baseline});
}

static void mount_list(struct tidings_provider *p, struct tidings_list *list)
{
    entity_job_submit(&(struct entity_job){.provider = p, .list = list});
}

static void mount_children(struct tidings_provider *p, struct tidings_list *list,
                           struct tidings_str uri)
{
    entity_job_submit(
        &(struct entity_job){.provider = p, .list = list, .children = true, .text = uri});
}

static void mount_stat(struct tidings_provider *p, struct tidings_stat *stat,
                       struct tidings_str uri)
{
    entity_job_submit(&(struct entity_job){.provider = p, .stat = stat, .text = uri});
}

static void mount_complete(struct tidings_provider *p, struct tidings_complete *complete,
                           struct tidings_str uri_template)
{
    entity_job_submit(
        &(struct entity_job){.provider = p, .complete = complete, .text = uri_template});
}

static void mount_write(struct tidings_provider *p, struct tidings_write *write,
                        struct tidings_str uri)
{
    const struct entity_mount *m = tidings_provider_state(p);
    if (m->writer) {
        m->writer(p, write, uri);
    } else {
        tidings_write_done(write, TIDINGS_E_UNSUPPORTED, STR_EMPTY, NULL);
    }
}

void entity_set_writer(struct tidings_provider *p, entity_writer_fn writer)
{
    ((struct entity_mount *)tidings_provider_state(p))->writer = writer;
}

/* ---- which URIs are told patches ------------------------------------------------------------- */

static int mount_patches_of(struct tidings_provider *p, struct tidings_str text, char *of,
                            size_t *len, struct tidings_error *err)
{
    (void)p;
    struct entity_uri uri;
    bool is_one = entity_uri_parse(text, &uri, NULL) == 0 && uri.kind > ENTITY_URI_CURRENT;
    if (!is_one) {
        return 0;
    }
    enum entity_uri_kind kind = uri.kind;
    struct buf out;
    buf_init(&out, *len);
    uri.kind = kind == ENTITY_URI_PATCH_FROM ? ENTITY_URI_PATCH : ENTITY_URI_CURRENT;
    int rc = entity_uri_build(&uri, &out);
    if (rc < 0) {
        tidings_fail(err, rc, "out of memory");
    } else if (kind != ENTITY_URI_PATCH) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                          "Subscriptions not supported for URI type: %s; subscribe to %.*s%s",
                          kind == ENTITY_URI_AT ? "historical" : "patch_read",
                          STR_ARG(buf_str(&out)), kind == ENTITY_URI_AT ? "" : " with a baseline");
    } else {
        memcpy(of, out.ptr, out.len);
        *len = out.len;
        rc = 1;
    }
    buf_deinit(&out);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int mount_open(struct tidings_provider *p, struct tidings_str config,
                      struct tidings_error *err)
{
    (void)config;
    return str_eq(tidings_provider_prefix(p), STR(ENTITY_URI_PREFIX))
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "entities are served at %s only",
                              ENTITY_URI_PREFIX);
}

static void mount_close(struct tidings_provider *p)
{
    (void)p; /* the server owns the commit thread */
}

void entity_bind(struct tidings_provider *p, struct commit_thread *commit_thread)
{
    ((struct entity_mount *)tidings_provider_state(p))->commit_thread = commit_thread;
}

struct commit_thread *entity_commit_thread(struct tidings_provider *p)
{
    return ((struct entity_mount *)tidings_provider_state(p))->commit_thread;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
#define ENTITY ENTITY_URI_PREFIX "{entityType}@{entityTypeVersion}/{entityId}"
#define TEMPLATE(text, n, about, sub)                                                              \
    {                                                                                              \
        .uri = TEXT(text), .name = TEXT(n), .description = TEXT(about),                            \
        .mime_type = TEXT("application/json"), .not_subscribable = !(sub)                          \
    }

static const struct tidings_resource templates[] = {
    TEMPLATE(ENTITY_URI_PREFIX "types", "Entity Type Registry",
             "All types of entities, with their schemas", true),
    TEMPLATE(ENTITY, "Current Entity", "An entity as it is", true),
    TEMPLATE(
        ENTITY "/patch", "Entity Patch Update and Subscribe",
        "An entity, for clients that write merge patches (tool upsert-entity) and receive them",
        true),
    TEMPLATE(ENTITY "/patch/{baselineTimestamp}", "Get Entity Patch from Baseline",
             "The merge patch from the version that begins then to the current one", false),
    TEMPLATE(ENTITY "/at/{timestamp}", "Historical Entity", "An entity as it was at that instant",
             false),
    {.uri = {NULL, 0}},
};

static const struct tidings_semantics semantics[] = {
    {TIDINGS_FORM_RESOURCE, ENTITY, "each version of that entity, its deletion and its return"},
    {TIDINGS_FORM_RESOURCE, ENTITY "/patch", "the same, as merge patches from a baseline"},
    {TIDINGS_FORM_CONTAINER, ENTITY_URI_PREFIX "{entityType}@{entityTypeVersion}/",
     "all entities of that type and version"},
    {TIDINGS_FORM_QUERY, ENTITY_URI_PREFIX "{entityType}@{entityTypeVersion}/{?parent}",
     "those of them that have that parent"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

static void entity_release(struct tidings_provider *p, void *held);

static void *entity_hold(struct tidings_provider *p, struct tidings_str text,
                         struct tidings_str etag);

const struct tidings_provider_ops provider_entity_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "entity",
    .size = sizeof(struct entity_mount),
    .flags = TIDINGS_PROVIDER_PATCHES,
    .open = mount_open,
    .read = mount_read,
    .list = mount_list,
    .stat = mount_stat,
    .children = mount_children,
    .complete = mount_complete,
    .write = mount_write,
    .close = mount_close,
    .semantics = semantics,
    .templates = templates,
    .alias = ENTITY_ALIAS,
    .patch = mount_patch,
    .patches_of = mount_patches_of,
    .hold = entity_hold,
    .release = entity_release,
};

/* -------------------------------------------------------------------------------------------------
 * Holds versions of entities: the baselines of subscriptions are protected from compaction. The
 * commit thread receives holds and releases in order, so the new baseline of a subscription is held
 * before the old one is released.
 */

struct entity_hold {
    struct store_job take, drop;
    int64_t from;
    bool is_taken; /* the commit thread's */
    size_t id_len;
    char id[];
};

static int run_take(struct store_job *job, struct entities *e)
{
    struct entity_hold *h = list_entry(job, struct entity_hold, take);
    h->is_taken = entities_hold(e, tidings_strn(h->id, h->id_len), h->from) == 0;
    return 0;
}

static void take_done(struct store_job *job, int code)
{
    (void)job;
    (void)code;
}

static int run_drop(struct store_job *job, struct entities *e)
{
    const struct entity_hold *h = list_entry(job, struct entity_hold, drop);
    if (h->is_taken) {
        entities_release(e, tidings_strn(h->id, h->id_len), h->from);
    }
    return 0;
}

static void drop_done(struct store_job *job, int code)
{
    (void)code;
    mem_free(list_entry(job, struct entity_hold, drop));
}

/* An operation of the table. */
static void *entity_hold(struct tidings_provider *p, struct tidings_str text,
                         struct tidings_str etag)
{
    struct entity_uri uri;
    int64_t from;
    if (entity_uri_parse(text, &uri, NULL) < 0 || uri.id.len == 0 ||
        timeline_parse(etag, &from, NULL) < 0) {
        return NULL;
    }
    struct entity_hold *h = mem_zalloc(sizeof(*h) + uri.id.len);
    if (!h) {
        return NULL; /* then the next update may be a whole value */
    }
    h->take = (struct store_job){.is_aside = true, .run = run_take, .done = take_done};
    h->drop = (struct store_job){.is_aside = true, .run = run_drop, .done = drop_done};
    list_init(&h->take.message.link);
    list_init(&h->drop.message.link);
    h->from = from;
    h->id_len = uri.id.len;
    memcpy(h->id, uri.id.ptr, uri.id.len);
    commit_thread_submit(entity_commit_thread(p), &h->take);
    return h;
}

static void entity_release(struct tidings_provider *p, void *held)
{
    commit_thread_submit(entity_commit_thread(p), &((struct entity_hold *)held)->drop);
}
