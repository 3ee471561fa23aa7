/* SPDX-License-Identifier: MIT
 *
 * The operations of the entity provider. A request is checked where it comes in, carried to the
 * thread of the keeper as a job, and answered there.
 */
#include "provider/entity.h"

#include "base/error.h"
#include "base/mem.h"
#include "provider/entity_private.h"

/* ---- to the keeper and back ------------------------------------------------------------------ */

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

static int entity_run(struct keeper_job *job, struct entities *entities)
{
    struct entity_job *r = list_entry(job, struct entity_job, job);
    return r->is_patch ? entity_patch(r, entities, &job->err)
           : r->read   ? entity_read(r, entities, &job->err)
           : r->list   ? entity_list(r, entities, &job->err)
           : r->stat   ? entity_stat(r, entities, &job->err)
                       : entity_complete(r, entities, &job->err);
}

static void entity_job_on_done(struct keeper_job *job, int code)
{
    struct entity_job *r = list_entry(job, struct entity_job, job);
    entity_finish(r, code < 0 ? code : 0, &job->err);
    arena_deinit(&r->arena);
    mem_free(r);
}

/* Takes what was asked over, or answers it with a failure. */
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
    list_init(&r->job.letter.link);
    arena_init(&r->arena, ENTITY_ARENA_MAX);
    int rc = r->complete || r->text.len == 0 ? 0 : entity_uri_parse(r->text, &r->uri, &err);
    if (rc < 0) {
        r->reason = r->uri.kind > ENTITY_URI_PATCH ? "invalidTimestamp" : "invalidUri";
        entity_finish(r, rc, &err);
        arena_deinit(&r->arena);
        mem_free(r);
        return;
    }
    if (entity_read_recent(r, m->keeper, &rc, &err)) {
        entity_finish(r, rc, &err);
        arena_deinit(&r->arena);
        mem_free(r);
        return;
    }
    keeper_submit(m->keeper, &r->job);
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
    (void)p; /* the keeper is the server's */
}

void entity_bind(struct tidings_provider *p, struct keeper *keeper)
{
    ((struct entity_mount *)tidings_provider_state(p))->keeper = keeper;
}

struct keeper *entity_keeper(struct tidings_provider *p)
{
    return ((struct entity_mount *)tidings_provider_state(p))->keeper;
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
    TEMPLATE(ENTITY "/patch", "Entity Patch Update and Subscribe",
             "An entity, for those who write merge patches (tool upsert-entity) and hear them",
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
