/* SPDX-License-Identifier: MIT
 *
 * Reads an entity: its current value, its value at an instant, or a patch. Also builds the metadata
 * of an announced change.
 */
#include "base/error.h"
#include "formats/json_write.h"
#include "sources/entity.h"
#include "store/entity_cache.h"

#define ANNOUNCED_MAX (64u << 10)
#define TOO_LARGE "serve it with a larger --max-read"

/* ---- in JSON --------------------------------------------------------------------------------- */

/* Writes the claimed and the authenticated writer. */
static void put_writer(struct jw *w, const struct entity_version *v)
{
    jw_put_raw(w, STR("changedBy"), v->changed_by);
    if (v->principal.len > 0) {
        jw_put_raw(w, STR("principal"), v->principal);
    }
}

void entity_put_version(struct jw *w, const struct entity_version *v)
{
    char from[TIMELINE_TEXT], to[TIMELINE_TEXT];
    jw_put_string(w, STR("entityId"), v->id);
    jw_put_string(w, STR("validFrom"), timeline_text(v->from, from));
    jw_put_string(w, STR("validTo"), timeline_text(v->to, to));
    put_writer(w, v);
    jw_put_bool(w, STR("deleted"), v->deleted);
    jw_key(w, STR("parentId"));
    if (v->parent.len > 0) {
        jw_string(w, v->parent);
    } else {
        jw_null(w);
    }
    jw_put_string(w, STR("entityTypeName"), v->type);
    jw_put_string(w, STR("entityTypeVersion"), v->type_version);
}

/* Writes the members of a type, as an object. */
static void entity_put_type(struct jw *w, const struct entity_type_row *row)
{
    jw_begin_object(w);
    jw_put_string(w, STR("name"), row->name);
    jw_put_string(w, STR("version"), row->version);
    if (row->description.len > 0) {
        jw_put_string(w, STR("description"), row->description);
    }
    jw_put_raw(w, STR("jsonSchema"), row->schema);
    if (row->options.len > 0) {
        jw_put_raw(w, STR("options"), row->options);
    }
    jw_end_object(w);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Returns true if the client may know of the entity as one of that type. For the entity in its URI
 * this was checked before. An entity that it may not know of is reported as missing. */
static bool entity_read_may_know(const struct entity_job *r, struct tidings_str type,
                                 struct tidings_str version)
{
    if (str_eq(r->uri.type, type) && str_eq(r->uri.version, version)) {
        return true;
    }
    struct entity_uri uri = {
        .kind = ENTITY_URI_CURRENT, .type = type, .version = version, .id = r->uri.id};
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    bool may =
        entity_uri_build(&uri, &text) == 0 && (r->stat ? tidings_stat_shows(r->stat, buf_str(&text))
                                                       : tidings_read_may(r->read, buf_str(&text)));
    buf_deinit(&text);
    return may;
}

static int entity_read_not_found(struct entity_job *r, struct tidings_error *err)
{
    r->reason = "unknownEntity";
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no entity '%.*s'", STR_ARG(r->uri.id));
}

static int entity_check_type(struct entity_job *r, const struct entity_version *v,
                             struct tidings_error *err)
{
    const struct entity_uri *uri = &r->uri;
    if (!entity_read_may_know(r, v->type, v->type_version)) {
        return entity_read_not_found(r, err);
    }
    r->stored = *v;
    bool is_short = uri->type.len == 0;
    if (!is_short && (!str_eq(uri->type, v->type) || !str_eq(uri->version, v->type_version))) {
        r->reason = "otherType";
        /* A resuming client still receives the notice that the entity was upgraded. */
        bool was_there = r->stat && str_eq(uri->type, v->type);
        return tidings_fail(err, was_there ? TIDINGS_E_GONE : TIDINGS_E_NOTFOUND,
                            "entity '%.*s' is no '%.*s@%.*s': it is stored as '%.*s@%.*s'; its "
                            "URI is " ENTITY_URI_PREFIX "%.*s@%.*s/%.*s",
                            STR_ARG(uri->id), STR_ARG(uri->type), STR_ARG(uri->version),
                            STR_ARG(v->type), STR_ARG(v->type_version), STR_ARG(v->type),
                            STR_ARG(v->type_version), STR_ARG(v->id));
    }
    return 0;
}

/* Checks that the entity matches the URI. */
static int entity_check(struct entity_job *r, const struct entity_version *v,
                        struct tidings_error *err)
{
    int rc = entity_check_type(r, v, err);
    if (rc == 0 && v->deleted) {
        r->reason = "deleted";
        rc = tidings_fail(err, TIDINGS_E_GONE, "Entity has been deleted");
    }
    return rc;
}

void entity_explain(const struct entity_job *r)
{
    const struct entity_version *v = &r->stored;
    char current[TIMELINE_TEXT];
    struct buf text;
    struct jw w;
    if (!r->reason) {
        return;
    }
    buf_init(&text, ENTITY_URI_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("reason"), tidings_str(r->reason));
    if (v->id.len > 0) {
        jw_put_string(&w, STR("entityTypeName"), v->type);
        jw_put_string(&w, STR("entityTypeVersion"), v->type_version);
    }
    if (v->id.len > 0 && v->to == TIMELINE_FOREVER) {
        jw_put_string(&w, STR("current"), timeline_text(v->from, current));
    }
    jw_end_object(&w);
    if (r->read) {
        tidings_read_explain(r->read, buf_str(&text));
    } else if (r->stat) {
        tidings_stat_explain(r->stat, buf_str(&text));
    }
    buf_deinit(&text);
}

/* It exists, but did not at that time. */
static int too_early(struct entity_job *r, int64_t at, struct tidings_error *err)
{
    char text[TIMELINE_TEXT];
    r->reason = "unknownVersion";
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "entity '%.*s' has no version at %s",
                        STR_ARG(r->uri.id), timeline_text(at, text).ptr);
}

int entity_look_up(struct entity_job *r, struct entities *e, int64_t at, struct entity_version *ret,
                   struct tidings_error *err)
{
    int rc = entities_find(e, r->uri.id, at, &r->arena, ret, err);
    bool is_there = rc == 1 && entity_read_may_know(r, ret->type, ret->type_version);
    if (rc >= 0 && !is_there && at != TIMELINE_FOREVER) {
        rc = entities_find(e, r->uri.id, TIMELINE_FOREVER, &r->arena, ret, err);
        bool is_known = rc == 1 && entity_read_may_know(r, ret->type, ret->type_version);
        rc = is_known ? too_early(r, at, err) : rc;
    }
    if (rc == TIDINGS_E_INTERNAL) {
        r->reason = "damaged";
        is_there = entity_read_may_know(r, ret->type, ret->type_version);
        rc = is_there ? rc : 0;
    }
    if (rc >= 0 && !is_there) {
        rc = entity_read_not_found(r, err);
    }
    return rc < 0 ? rc : entity_check(r, ret, err);
}

/* For the result of entities_patch_from: returns true if there is a base version that this client
 * may know of. */
static bool has_base(const struct entity_job *r, int found, const struct entity_patch *p)
{
    return found == 1 && entity_read_may_know(r, p->type, p->type_version);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool put_type(void *user, const struct entity_type_row *row)
{
    entity_put_type(user, row);
    return true;
}

/* Writes the patch, or the whole value if no patch can express it. */
static void put_difference(struct jw *w, const struct entity_patch *p)
{
    if (p->patch.len > 0) {
        jw_put_raw(w, STR("patch"), p->patch);
    } else {
        jw_put_bool(w, STR("full"), true);
        jw_put_raw(w, STR("value"), p->version.value);
    }
}

static int write_patch(struct entity_job *r, struct entities *e, struct jw *w,
                       struct entity_version *v, struct tidings_error *err)
{
    struct entity_patch p;
    char text[TIMELINE_TEXT];
    int rc = entities_patch_from(e, r->uri.id, r->uri.time, &r->arena, &p, err);
    if (rc < 0) {
        return rc;
    }
    if (p.version.id.len == 0) {
        return entity_read_not_found(r, err);
    }
    int bad = entity_check(r, &p.version, err);
    if (bad < 0) {
        return bad;
    }
    if (!has_base(r, rc, &p)) {
        r->reason = "unknownBaseline";
        return tidings_fail(err, TIDINGS_E_INVALID, "no version of entity '%.*s' begins at %s",
                            STR_ARG(r->uri.id), timeline_text(r->uri.time, text).ptr);
    }
    *v = p.version;
    entity_put_version(w, v);
    jw_put_string(w, STR("baseline"), timeline_text(r->uri.time, text));
    put_difference(w, &p);
    return 0;
}

static int write_value(struct entity_job *r, struct entities *e, struct jw *w,
                       struct entity_version *v, struct tidings_error *err)
{
    char text[TIMELINE_TEXT];
    bool past = r->uri.kind == ENTITY_URI_AT;
    int rc = entity_look_up(r, e, past ? r->uri.time : TIMELINE_FOREVER, v, err);
    if (rc < 0) {
        return rc;
    }
    entity_put_version(w, v);
    if (past) {
        jw_put_string(w, STR("at"), timeline_text(r->uri.time, text));
    }
    jw_put_raw(w, STR("value"), v->value);
    return 0;
}

/* Describes the content made from `v` and the URI. A past version gets different content when it
 * gets an end, and is immutable from then on. */
static int entity_read_describe(struct entity_job *r, const struct entity_version *v,
                                struct tidings_resource *about, struct tidings_error *err)
{
    char from[TIMELINE_TEXT], to[TIMELINE_TEXT];
    struct buf etag;
    buf_init(&etag, 2 * TIMELINE_TEXT);
    buf_puts(&etag, timeline_text(v->from, from));
    if (v->to != TIMELINE_FOREVER) {
        buf_putc(&etag, '/');
        buf_puts(&etag, timeline_text(v->to, to));
        tidings_read_final(r->read);
    }
    about->etag = arena_dup(&r->arena, buf_str(&etag));
    about->modified_ms = v->from;
    int rc =
        etag.failed || !about->etag.ptr ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
    buf_deinit(&etag);
    return rc;
}

/* Writes the content as compact JSON, and its description. */
static int write_content(struct entity_job *r, struct entities *e, struct buf *out,
                         struct tidings_resource *about, struct tidings_error *err)
{
    struct jw w;
    struct entity_version v;
    int rc;
    jw_init(&w, out);
    if (r->uri.kind == ENTITY_URI_TYPES) {
        jw_begin_array(&w);
        entities_each_type(e, put_type, &w);
        jw_end_array(&w);
        return 0;
    }
    jw_begin_object(&w);
    if (r->uri.kind == ENTITY_URI_PATCH_FROM) {
        rc = write_patch(r, e, &w, &v, err);
    } else {
        rc = write_value(r, e, &w, &v, err);
    }
    jw_end_object(&w);
    return rc == 0 ? entity_read_describe(r, &v, about, err) : rc;
}

/* Returns the content, from its compact form, unless the client already has it. */
static int give_content(struct entity_job *r, const struct buf *compact,
                        const struct tidings_resource *about, struct tidings_error *err)
{
    struct buf pretty;
    if (about->etag.len > 0 && tidings_read_unchanged(r->read, about->etag)) {
        return 0;
    }
    buf_init(&pretty, tidings_read_max_bytes(r->read));
    (void)json_pretty(&pretty, buf_str(compact));
    int rc = buf_check(compact->failed ? compact : &pretty, "the entity", TOO_LARGE, err);
    rc = rc < 0 ? rc : tidings_read_text(r->read, about, buf_str(&pretty), err);
    buf_deinit(&pretty);
    return rc;
}

int entity_read(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    struct buf compact;
    if (r->uri.kind == ENTITY_URI_ROOT || r->uri.kind == ENTITY_URI_TYPE) {
        return entity_stat(r, e, err); /* an existing container has no other content */
    }
    about.mime_type = STR("application/json");
    buf_init(&compact, tidings_read_max_bytes(r->read));
    int rc = write_content(r, e, &compact, &about, err);
    rc = rc == 0 ? give_content(r, &compact, &about, err) : rc;
    buf_deinit(&compact);
    return rc;
}

static int read_known(struct entity_job *r, const struct entity_version *v,
                      struct tidings_error *err)
{
    struct tidings_resource about = {.mime_type = STR("application/json")};
    struct buf compact;
    struct jw w;
    buf_init(&compact, tidings_read_max_bytes(r->read));
    jw_init(&w, &compact);
    jw_begin_object(&w);
    entity_put_version(&w, v);
    jw_put_raw(&w, STR("value"), v->value);
    jw_end_object(&w);
    int rc = entity_read_describe(r, v, &about, err);
    rc = rc == 0 ? give_content(r, &compact, &about, err) : rc;
    buf_deinit(&compact);
    return rc;
}

/* For another type, the commit thread finds the stored one. */
bool entity_read_recent(struct entity_job *r, const struct commit_thread *commit_thread,
                        int *ret_code, struct tidings_error *err)
{
    bool is_plain = r->read && !r->is_patch && r->uri.kind == ENTITY_URI_CURRENT;
    const struct recent_version *known =
        is_plain ? commit_thread_recent(commit_thread, r->uri.id) : NULL;
    bool is_it = known && str_eq(r->uri.type, known->v.type) &&
                 str_eq(r->uri.version, known->v.type_version);
    *ret_code = is_it ? read_known(r, &known->v, err) : 0;
    recent_version_unref(known);
    return is_it;
}

/* ---- patches for subscriptions --------------------------------------------------------------- */

/* Writes the members of the changes since `baseline`; *etag: where the next patch begins. */
static int write_since(struct entity_job *r, struct entities *e, int64_t baseline, struct jw *w,
                       struct tidings_str *etag, struct tidings_error *err)
{
    struct entity_patch p;
    char text[TIMELINE_TEXT];
    int rc = entities_patch_from(e, r->uri.id, baseline, &r->arena, &p, err);
    if (rc < 0 || p.version.id.len == 0) {
        return rc < 0 ? rc : entity_read_not_found(r, err);
    }
    int bad = entity_check_type(r, &p.version, err);
    if (bad < 0) {
        return bad;
    }
    if (!has_base(r, rc, &p)) {
        r->reason = "unknownBaseline";
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "No snapshot found with validFrom timestamp: %s; accepted is the "
                            "validFrom of a version of '%.*s' that is kept (get-entity-history)",
                            timeline_text(baseline, text).ptr, STR_ARG(r->uri.id));
    }
    entity_put_version(w, &p.version);
    jw_put_string(w, STR("etag"), timeline_text(p.version.from, text));
    *etag =
        arena_dup(&r->arena, timeline_text(p.version.deleted ? baseline : p.version.from, text));
    jw_put_string(w, STR("baseline"), timeline_text(baseline, text));
    if (p.version.deleted) {
        return 0; /* the next patch begins at the client's version */
    }
    put_difference(w, &p);
    return 0;
}

static int write_whole(struct entity_job *r, struct entities *e, struct jw *w,
                       struct tidings_str *etag, struct tidings_error *err)
{
    struct entity_version v;
    char text[TIMELINE_TEXT];
    int rc = entity_look_up(r, e, TIMELINE_FOREVER, &v, err);
    if (rc < 0) {
        return rc;
    }
    *etag = arena_dup(&r->arena, timeline_text(v.from, text));
    entity_put_version(w, &v);
    jw_put_string(w, STR("etag"), *etag);
    jw_put_bool(w, STR("full"), true);
    jw_put_raw(w, STR("value"), v.value);
    return 0;
}

static int write_types(struct entities *e, struct jw *w)
{
    jw_put_bool(w, STR("full"), true);
    jw_key(w, STR("value"));
    jw_begin_array(w);
    entities_each_type(e, put_type, w);
    jw_end_array(w);
    return 0;
}

int entity_patch(struct entity_job *r, struct entities *e, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    struct buf text;
    struct jw w;
    int64_t baseline = TIMELINE_NEVER;
    bool is_types = r->uri.kind == ENTITY_URI_TYPES; /* an array: patches replace it */
    if (!is_types && r->uri.kind != ENTITY_URI_CURRENT) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "only entities have patches");
    }
    int rc = r->from.len > 0 && !is_types ? timeline_parse(r->from, &baseline, err) : 0;
    if (rc < 0) {
        r->reason = "invalidTimestamp";
        return error_wrap(err, TIDINGS_E_INVALID, "baseline");
    }
    about.mime_type = STR("application/json");
    buf_init(&text, tidings_read_max_bytes(r->read));
    jw_init(&w, &text);
    jw_begin_object(&w);
    rc = is_types          ? write_types(e, &w)
         : r->from.len > 0 ? write_since(r, e, baseline, &w, &about.etag, err)
                           : write_whole(r, e, &w, &about.etag, err);
    jw_end_object(&w);
    if (rc == 0) {
        rc = buf_check(&text, "the entity", TOO_LARGE, err);
        rc = rc < 0 ? rc : tidings_read_text(r->read, &about, buf_str(&text), err);
    }
    buf_deinit(&text);
    return rc;
}

/* ---- announcing ------------------------------------------------------------------------------ */

/* Writes the parents that ?parent= matches: the current one, and after a move also the previous
 * one, whose subscriptions receive the change. */
static void put_parents(struct jw *w, struct tidings_str now, struct tidings_str before)
{
    bool has_moved = before.len > 0 && !str_eq(now, before);
    if (now.len > 0) {
        jw_put_string(w, STR("parentId"), now);
    }
    if (now.len > 0 || has_moved) {
        jw_key(w, STR("parent"));
    }
    if (has_moved) {
        jw_begin_array(w);
    }
    if (now.len > 0) {
        jw_string(w, now);
    }
    if (has_moved) {
        jw_string(w, before);
        jw_end_array(w);
    }
}

static void entity_read_put_metadata(struct buf *out, const struct entity_done *done)
{
    const struct entity_version *v = &done->version;
    char from[TIMELINE_TEXT];
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("entityTypeName"), v->type);
    jw_put_string(&w, STR("entityTypeVersion"), v->type_version);
    jw_put_string(&w, STR("validFrom"), timeline_text(v->from, from));
    put_parents(&w, v->parent, done->old_parent);
    put_writer(&w, v);
    jw_end_object(&w);
}

bool entity_describe_change(const struct entity_done *done, struct tidings_str origin,
                            entity_change_fn fn, void *user)
{
    const struct entity_version *v = &done->version;
    struct entity_uri uri = {
        .kind = ENTITY_URI_CURRENT, .type = v->type, .version = v->type_version, .id = v->id};
    char etag[TIMELINE_TEXT];
    struct buf text, from, metadata;
    buf_init(&text, ENTITY_URI_MAX);
    buf_init(&from, ENTITY_URI_MAX);
    buf_init(&metadata, ANNOUNCED_MAX);
    (void)entity_uri_build(&uri, &text);
    entity_read_put_metadata(&metadata, done);
    struct tidings_change change = {
        .uri = buf_str(&text),
        .kind = v->deleted      ? TIDINGS_CHANGE_DELETED
                : done->created ? TIDINGS_CHANGE_CREATED
                                : TIDINGS_CHANGE_UPDATED,
        .etag = timeline_text(v->from, etag),
        .metadata = buf_str(&metadata),
        .origin = origin,
        .modified_ms = v->from,
    };
    if (done->old_type_version.len > 0 && !str_eq(done->old_type_version, v->type_version)) {
        uri.version = done->old_type_version; /* it has a different URI from now on */
        (void)entity_uri_build(&uri, &from);
        change.kind = TIDINGS_CHANGE_MOVED;
        change.from = buf_str(&from);
    }
    /* Without metadata, subscriptions to a parent would miss the change. */
    bool fits = !text.failed && !from.failed && !metadata.failed;
    if (fits) {
        fn(user, &change);
    }
    buf_deinit(&text);
    buf_deinit(&from);
    buf_deinit(&metadata);
    return fits;
}

struct change_target {
    struct tidings_provider *provider;
    uint64_t position;
    struct tidings_str traceparent;
};

static void entity_read_announce(void *user, const struct tidings_change *described)
{
    const struct change_target *t = user;
    struct tidings_change change = *described;
    change.traceparent = t->traceparent;
    if (!commit_thread_announce(entity_commit_thread(t->provider), &change, t->position)) {
        (void)tidings_provider_changed(t->provider, &change, NULL);
    }
}

void entity_announce(struct tidings_provider *p, const struct entity_done *done,
                     const struct entity_cause *cause)
{
    struct change_target t = {
        .provider = p, .position = done->position, .traceparent = cause->traceparent};
    if (done->changed && !entity_describe_change(done, cause->origin, entity_read_announce, &t)) {
        (void)commit_thread_announce(entity_commit_thread(p), NULL,
                                     0); /* it is committed: subscriptions get `truncated` */
    }
}

void entity_announce_types(struct tidings_provider *p, uint64_t position,
                           const struct entity_cause *cause)
{
    struct change_target t = {
        .provider = p, .position = position, .traceparent = cause->traceparent};
    struct tidings_change change = {.uri = STR(ENTITY_URI_PREFIX "types"), .origin = cause->origin};
    entity_read_announce(&t, &change);
}
