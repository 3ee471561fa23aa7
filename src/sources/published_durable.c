/* SPDX-License-Identifier: MIT
 *
 * Publishing through the commit thread. A change is checked and written when its job runs, in a
 * batch with others. It is put into the shared map and announced after the commit, so only
 * committed data is visible.
 *
 * In between it is in `pending`, and decides later changes in the same batch. A new URI gets an
 * empty place in the shared map immediately, so that it cannot be reserved in between.
 */
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "sources/published.h"
#include "store/commit_thread.h"
#include "store/store.h"

/* A change under way; the strings of the step follow it. */
struct publishing {
    struct store_job job;
    struct list link; /* in `pending`, after it was written */
    struct published_step step;
    struct published_item *old; /* the replaced item: a reference, or NULL */
    uint64_t position;
    bool is_change; /* written, and counted */
    published_done_fn done;
    void *user;
};

/* ---- the shared map -------------------------------------------------------------------------- */

static int hold_uri(void *user, const struct shared_value *value)
{
    const struct published_step *s = user;
    if (value && published_item_of(value)->is_reserved) {
        return tidings_fail(s->err, TIDINGS_E_EXISTS, "'%.*s' is registered by the program",
                            STR_ARG(s->uri));
    }
    return value ? SHARED_MAP_KEEP : SHARED_MAP_REPLACE;
}

static int free_uri(void *user, const struct shared_value *value)
{
    (void)user;
    return value && published_item_of(value)->is_coming ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

static int put_there(void *user, const struct shared_value *value)
{
    (void)value;
    return user ? SHARED_MAP_REPLACE : SHARED_MAP_REMOVE;
}

/* Claims the place of an unpublished URI. */
static int claim_uri(struct publishing *p)
{
    struct published_item *place = published_item_empty(p->step.uri);
    int rc = TIDINGS_E_NOMEM;
    if (place) {
        place->is_coming = true;
        rc = shared_map_update(p->step.store->shared, p->step.uri, &place->value, hold_uri,
                               &p->step);
        shared_value_unref(&place->value);
    }
    if (rc == TIDINGS_E_NOMEM) {
        tidings_fail(p->step.err, rc, "out of memory");
    }
    return rc < 0 ? rc : 0;
}

/* Returns the newest of `pending` for a URI, or NULL. */
static struct publishing *find_pending(const struct published *store, struct tidings_str uri)
{
    for (struct list *it = store->pending.prev; it != &store->pending; it = it->prev) {
        struct publishing *p = list_entry(it, struct publishing, link);
        if (str_eq(p->step.uri, uri)) {
            return p;
        }
    }
    return NULL;
}

/* Returns a reference to the item after all earlier commits, or NULL. */
static struct published_item *find_old(const struct published_step *s)
{
    struct publishing *earlier = find_pending(s->store, s->uri);
    if (earlier) {
        struct published_item *item = earlier->step.fresh;
        return item ? published_item_of(shared_value_ref(&item->value)) : NULL;
    }
    struct shared_value *value = shared_map_find(s->store->shared, s->uri);
    if (value && published_item_of(value)->is_coming) {
        shared_value_unref(value);
        value = NULL;
    }
    return value ? published_item_of(value) : NULL;
}

/* ---- the job --------------------------------------------------------------------------------- */

static int write_row(struct publishing *p, struct store *store, struct tidings_error *err)
{
    const struct published_item *fresh = p->step.fresh;
    if (!fresh) {
        const struct published_row gone = {
            .about = {.uri = p->step.uri, .not_subscribable = p->old->about.not_subscribable},
            .metadata = p->step.metadata,
        };
        return store->ops->unpublish(store, &gone, &p->position, err);
    }
    const struct published_row row = {
        .about = fresh->about,
        .content = fresh->content,
        .metadata = p->step.metadata,
        .created = !p->old,
    };
    return store->ops->publish(store, &row, &p->position, err);
}

static int published_keep_run(struct store_job *job, struct entities *e)
{
    struct publishing *p = list_entry(job, struct publishing, job);
    p->step.err = &job->err;
    p->old = find_old(&p->step);
    int rc = published_check(&p->step, p->old);
    if (rc <= 0) {
        return rc;
    }
    if (p->step.fresh && p->step.fresh->content.len > PUBLISHED_MAX_CONTENT) {
        return tidings_fail(&job->err, TIDINGS_E_LIMIT, "at most %u bytes can be kept",
                            PUBLISHED_MAX_CONTENT);
    }
    rc = p->old ? 0 : claim_uri(p);
    if (rc < 0) {
        return rc;
    }
    rc = write_row(p, entities_store(e), &job->err);
    if (rc < 0) {
        job->is_fatal = true;
        return error_wrap(&job->err, rc, "the store cannot be written");
    }
    p->is_change = true;
    published_count(&p->step, p->old, false);
    list_append(&p->step.store->pending, &p->link);
    return 0;
}

static void published_keep_committed(struct publishing *p)
{
    struct published *store = p->step.store;
    struct published_item *fresh = p->step.fresh;
    list_remove(&p->link);
    /* Removed and immediately published again: the place stays, which cannot fail. */
    if (fresh || !find_pending(store, p->step.uri)) {
        (void)shared_map_update(store->shared, p->step.uri, fresh ? &fresh->value : NULL, put_there,
                                fresh);
    }
    struct tidings_change change = published_change(&p->step, p->old);
    (void)commit_thread_announce(store->commit_thread, &change, p->position);
}

static void publishing_undo(struct publishing *p)
{
    if (p->is_change) {
        list_remove(&p->link);
        published_count(&p->step, p->old, true);
        p->step.created = false;
    }
    (void)shared_map_update(p->step.store->shared, p->step.uri, NULL, free_uri, NULL);
}

static void publishing_drop_old(struct publishing *p)
{
    shared_value_unref(p->old ? &p->old->value : NULL);
    p->old = NULL;
}

static void publishing_undo_run(struct store_job *job)
{
    struct publishing *p = list_entry(job, struct publishing, job);
    publishing_undo(p);
    publishing_drop_old(p);
    p->is_change = false;
}

static void job_done(struct store_job *job, int code)
{
    struct publishing *p = list_entry(job, struct publishing, job);
    if (code >= 0 && p->is_change) {
        published_keep_committed(p);
    } else if (job->is_fatal) {
        publishing_undo(p);
    }
    publishing_drop_old(p);
    if (!p->done) {
        return; /* the waiting caller has it */
    }
    struct published_item *fresh = p->step.fresh;
    p->done(p->user, code < 0 ? code : p->step.created, code >= 0 && fresh ? fresh->etag : "",
            &job->err);
    shared_value_unref(fresh ? &fresh->value : NULL);
    mem_free(p);
}

/* ---- from the outside ------------------------------------------------------------------------ */

static void publishing_init(struct publishing *p, const struct published_step *s)
{
    p->step = *s;
    p->job.is_write = true;
    p->job.run = published_keep_run;
    p->job.undo = publishing_undo_run;
    p->job.done = job_done;
    list_init(&p->job.message.link);
    list_init(&p->link);
}

static int published_keep_wait_for(const struct published_step *s, char etag[PUBLISHED_ETAG_SIZE])
{
    struct publishing p = {.position = 0};
    publishing_init(&p, s);
    int rc = commit_thread_run(s->store->commit_thread, &p.job);
    if (rc < 0 && s->err) {
        *s->err = p.job.err;
    }
    if (rc >= 0 && etag) {
        memcpy(etag, s->fresh->etag, sizeof(s->fresh->etag));
    }
    shared_value_unref(s->fresh ? &s->fresh->value : NULL);
    return rc < 0 ? rc : p.step.created;
}

int published_submit(const struct published_step *s, char etag[PUBLISHED_ETAG_SIZE],
                     published_done_fn done, void *user)
{
    if (!done) {
        return published_keep_wait_for(s, etag);
    }
    struct publishing *p = mem_zalloc(sizeof(*p) + s->uri.len + s->if_match.len + s->metadata.len +
                                      s->traceparent.len);
    if (!p) {
        int rc = tidings_fail(s->err, TIDINGS_E_NOMEM, "out of memory");
        done(user, rc, "", s->err);
        shared_value_unref(s->fresh ? &s->fresh->value : NULL);
        return rc;
    }
    char *at = (char *)(p + 1);
    publishing_init(p, s);
    p->step.uri = str_pack(&at, s->uri);
    p->step.if_match = str_pack(&at, s->if_match);
    p->step.metadata = str_pack(&at, s->metadata);
    p->step.traceparent = str_pack(&at, s->traceparent);
    p->done = done;
    p->user = user;
    commit_thread_submit(s->store->commit_thread, &p->job);
    return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct loading {
    struct store_job job;
    struct published *store;
    published_may_fn may_be;
    void *user;
    size_t unseen;
};

static int load_there(void *user, const struct shared_value *value)
{
    struct published_step *s = user;
    struct published_item *there = value ? published_item_of(value) : NULL;
    if (!there) {
        published_count(s, NULL, false);
        return SHARED_MAP_REPLACE;
    }
    /* The program's registration has priority; no other thread reads yet. */
    there->is_in_file = true;
    there->is_durable =
        published_is_there(there) && !s->fresh->is_damaged && published_is_same(there, s->fresh);
    return SHARED_MAP_KEEP;
}

/* One reference; NULL: out of memory. */
static struct published_item *item_of_row(const struct published *store,
                                          const struct published_row *row)
{
    const struct publication p = {.about = row->about, .content = row->content};
    struct published_item *item = published_item_create(store, &p);
    if (!item) {
        return NULL;
    }
    /* The etag is made from the content. */
    item->is_damaged = !str_eq(row->about.etag, tidings_str(item->etag));
    if (row->about.etag.len > 0 && row->about.etag.len < sizeof(item->etag)) {
        memcpy(item->etag, row->about.etag.ptr, row->about.etag.len);
        item->etag[row->about.etag.len] = '\0';
        item->about.etag = tidings_str(item->etag);
    }
    item->is_in_file = item->is_durable = item->is_loaded = true;
    return item;
}

static int load_row(void *user, const struct published_row *row, struct tidings_error *err)
{
    struct loading *l = user;
    if (!l->may_be(l->user, &row->about)) {
        l->unseen++;
        return 0;
    }
    struct published_item *item = item_of_row(l->store, row);
    if (!item) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct published_step s = {
        .store = l->store, .fresh = item, .uri = item->about.uri, .err = err};
    int rc = shared_map_update(l->store->shared, s.uri, &item->value, load_there, &s);
    shared_value_unref(&item->value);
    return rc == TIDINGS_E_NOMEM ? tidings_fail(err, rc, "out of memory") : 0;
}

static int run_load(struct store_job *job, struct entities *e)
{
    struct loading *l = list_entry(job, struct loading, job);
    struct store *store = entities_store(e);
    return store->ops->each_published(store, load_row, l, &job->err);
}

/* Stores the program's publications from before the start. */
static int run_add(struct store_job *job, struct entities *e)
{
    struct loading *l = list_entry(job, struct loading, job);
    struct store *store = entities_store(e);
    struct shared_value *value = shared_map_next(l->store->shared, STR_EMPTY);
    int rc = 0;
    while (value) {
        struct published_item *item = published_item_of(value);
        uint64_t position;
        if (rc == 0 && published_is_there(item) && !item->is_durable) {
            const struct published_row row = {
                .about = item->about, .content = item->content, .created = !item->is_in_file};
            rc = store->ops->publish(store, &row, &position, &job->err);
            item->is_durable = rc == 0;
        }
        struct shared_value *next = rc == 0 ? shared_map_next(l->store->shared, value->key) : NULL;
        shared_value_unref(value);
        value = next;
    }
    job->is_fatal = rc < 0;
    return rc;
}

int published_keep(struct published *store, struct commit_thread *commit_thread,
                   published_may_fn may_be, void *user, size_t *ret_unseen,
                   struct tidings_error *err)
{
    struct loading l = {.store = store, .may_be = may_be, .user = user};
    l.job.run = run_load;
    int rc = commit_thread_run(commit_thread, &l.job);
    *ret_unseen = l.unseen;
    if (rc >= 0) {
        l.job = (struct store_job){.is_write = true, .run = run_add};
        rc = commit_thread_run(commit_thread, &l.job);
    }
    if (rc < 0) {
        published_unkeep(store, true);
        return tidings_fail(err, rc, "published resources: %s", l.job.err.text);
    }
    store->commit_thread = commit_thread;
    return 0;
}

/* ---- what others published ------------------------------------------------------------------- */

/* The item becomes that of the store, or none: never an earlier state of the store. */
static int follow_there(void *user, const struct shared_value *value)
{
    struct published_step *s = user;
    const struct published_item *old = value ? published_item_of(value) : NULL;
    int rc = s->fresh || old ? published_check(s, old) : 0;
    if (rc >= 0 && s->fresh) {
        published_count(s, old, false);
        return SHARED_MAP_REPLACE;
    }
    if (!old || old->is_reserved) {
        return rc;
    }
    s->fresh = NULL;
    published_count(s, old, false);
    return SHARED_MAP_REMOVE;
}

int published_follow(struct published *store, const struct log_entry *change,
                     published_may_fn may_be, void *user, struct tidings_error *err)
{
    const struct published_row *row = change->removed ? NULL : change->published;
    struct published_item *item = row ? item_of_row(store, row) : NULL;
    if (row && !item) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct tidings_error why = {0};
    struct published_step s = {.store = store, .fresh = item, .uri = change->uri, .err = &why};
    const struct tidings_resource removed = {.uri = change->uri};
    int rc = !may_be(user, row ? &row->about : &removed)
                 ? tidings_fail(&why, TIDINGS_E_DENIED,
                                "it is not below a prefix of --publish here, or damaged")
                 : shared_map_update(store->shared, change->uri, item ? &item->value : NULL,
                                     follow_there, &s);
    shared_value_unref(item ? &item->value : NULL);
    if (rc == TIDINGS_E_NOMEM) {
        return tidings_fail(err, rc, "out of memory");
    }
    if (why.code < 0 && err) {
        *err = why;
    }
    return why.code < 0 ? why.code : 0;
}

/* Reads everything again: items that the store does not have are removed. */
struct rereading {
    struct published *store;
    struct map seen; /* URIs of the store, copied */
    published_may_fn may_be;
    void *user;
};

static int reread_row(void *user, const struct published_row *row, struct tidings_error *err)
{
    struct rereading *r = user;
    const struct log_entry change = {
        .kind = LOG_ENTRY_PUBLISHED, .uri = row->about.uri, .published = row};
    char *uri = str_dup(row->about.uri);
    int rc = uri ? map_put(&r->seen, tidings_strn(uri, row->about.uri.len), uri, NULL) : -1;
    if (rc < 0) {
        mem_free(uri);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    rc = published_follow(r->store, &change, r->may_be, r->user, err);
    return rc == TIDINGS_E_NOMEM ? rc : 0;
}

int published_reread(struct published *store, struct store *from, published_may_fn may_be,
                     void *user, struct tidings_error *err)
{
    struct rereading r = {.store = store, .may_be = may_be, .user = user};
    map_init(&r.seen);
    int rc = from->ops->each_published(from, reread_row, &r, err);
    struct shared_value *value = rc == 0 ? shared_map_next(store->shared, STR_EMPTY) : NULL;
    while (value) {
        const struct log_entry gone = {.uri = value->key, .removed = true};
        if (published_is_there(published_item_of(value)) && !map_find(&r.seen, value->key)) {
            (void)published_follow(store, &gone, may_be, user, NULL);
        }
        struct shared_value *next = shared_map_next(store->shared, value->key);
        shared_value_unref(value);
        value = next;
    }
    size_t at = 0;
    for (char *uri; (uri = map_next(&r.seen, &at)) != NULL;) {
        mem_free(uri);
    }
    map_deinit(&r.seen);
    return rc;
}

static int forget_loaded(void *user, const struct shared_value *value)
{
    struct published_step *s = user;
    struct published_item *item = value ? published_item_of(value) : NULL;
    if (item && item->is_loaded) {
        published_count(s, item, false);
        return SHARED_MAP_REMOVE;
    }
    if (item) {
        item->is_durable = item->is_in_file = false;
    }
    return SHARED_MAP_KEEP;
}

void published_unkeep(struct published *store, bool forget)
{
    store->commit_thread = NULL;
    struct shared_value *value = forget ? shared_map_next(store->shared, STR_EMPTY) : NULL;
    while (value) {
        struct published_step s = {.store = store, .uri = value->key};
        (void)shared_map_update(store->shared, value->key, NULL, forget_loaded, &s);
        struct shared_value *next = shared_map_next(store->shared, value->key);
        shared_value_unref(value);
        value = next;
    }
}
