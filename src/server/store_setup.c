/* SPDX-License-Identifier: MIT
 *
 * Opens and closes the store of a server. After a start, the change log is rebuilt from the store:
 * each stored change becomes a row of the log, numbered by its position. So no data is stored
 * twice.
 */
#include "server/store_setup.h"

#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "cluster/apply.h"
#include "cluster/cluster.h"
#include "cluster/owned_mounts.h"
#include "cluster/postgres_store.h"
#include "engine/catalog/catalog.h"
#include "engine/delivery/hub.h"
#include "engine/shared.h"
#include "security/seal.h"
#include "server/publish.h"
#include "sources/entity.h"
#include "sources/file.h"
#include "store/change.h"
#include "store/commit_thread.h"
#include "store/memory_store.h"
#include "store/sqlite_damage.h"
#include "store/sqlite_files.h"
#include "store/sqlite_store.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Saves the state of file watchers in the store, together with the changes that they announced.
 * Chunks of a tree pass through the hub, after the announcements before them, and include the new
 * changes of the log since the last saved chunk. When the server ends, the remaining state is
 * saved.
 *
 * Owned by the hub's thread, except `saved_to`.
 */

#define SCOPES_MAX 100000u /* scopes with history; for others, resuming clients must reread */

struct server_files {
    struct file_keeping keeping;
    struct hub *hub;
    struct file_history *history;
    struct catalog *catalog; /* a reference */
    size_t max_changes;
    uint64_t saved_to;  /* atomic: file changes up to this number are in the store */
    struct map scopes;  /* struct known_scope of this run, by URI … */
    struct list known;  /* … and those of them that still need to be saved with a chunk */
    size_t scope_count; /* of this and earlier runs, without duplicates */
};

struct known_scope {
    struct thread_message message; /* in transit to the hub */
    struct list link;              /* in `known` */
    struct server_files *files;
    uint64_t number;
    struct tidings_str prefix, uri;
    /* the strings follow */
};

static struct server_files *files_of(struct file_keeping *k)
{
    return list_entry(k, struct server_files, keeping);
}

static bool has_history(const struct tidings_provider *p)
{
    return p && p->has_history;
}

/* ---- known scopes ---------------------------------------------------------------------------- */

static void known_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct known_scope, message));
}

static void known_deliver(struct thread_message *message, void *owner)
{
    struct known_scope *known = list_entry(message, struct known_scope, message);
    struct server_files *f = known->files;
    struct known_scope *before = map_find(&f->scopes, known->uri);
    bool is_new = !before && !file_history_has_scope(f->history, known->uri);
    bool has_room = before || !is_new || f->scope_count < SCOPES_MAX;
    if (before || !has_room || map_put(&f->scopes, known->uri, known, NULL) < 0) {
        known_drop(message);
        known = before;
    } else {
        list_init(&known->link);
        f->scope_count += is_new;
    }
    if (known) { /* starts now even for an old scope, whose history may be lost */
        known->number = hub_log(owner)->ops->last(hub_log(owner));
        list_remove(&known->link);
        list_append(&f->known, &known->link);
    }
}

static void files_known(struct file_keeping *k, struct tidings_str prefix, struct tidings_str uri)
{
    struct server_files *f = files_of(k);
    struct known_scope *known = mem_zalloc(sizeof *known + prefix.len + uri.len);
    if (!known) {
        return; /* clients that resume there must reread */
    }
    char *at = (char *)(known + 1);
    known->files = f;
    known->prefix = str_pack(&at, prefix);
    known->uri = str_pack(&at, uri);
    known->message.deliver = known_deliver;
    known->message.drop = known_drop;
    mailbox_send(hub_mailbox(f->hub), &known->message);
}

/* The scopes of its mount go with the chunk. If memory runs out, the rest stays. */
static void take_known(struct server_files *f, struct file_chunk *chunk)
{
    list_each (it, next, &f->known) {
        struct known_scope *known = list_entry(it, struct known_scope, link);
        if (!str_eq(known->prefix, chunk->prefix)) {
            continue;
        }
        size_t count = chunk->scope_count;
        if ((count & (count - 1)) == 0) { /* the array doubles */
            struct file_scope_mark *more =
                mem_realloc(chunk->scopes, (count ? 2 * count : 1) * sizeof *more);
            if (!more) {
                return;
            }
            chunk->scopes = more;
        }
        char *uri = str_dup(known->uri);
        if (!uri) {
            return;
        }
        chunk->scopes[chunk->scope_count++] = (struct file_scope_mark){
            .uri = tidings_strn(uri, known->uri.len), .number = known->number};
        list_remove(it);
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

struct gathering {
    struct server_files *files;
    struct file_chunk *chunk;
    uint64_t saved_to;
    size_t room;
    bool has_failed;
};

/* Takes the reference; NULL: out of memory. */
static bool server_files_gather(struct gathering *g, struct change *c,
                                enum tidings_change_kind kind)
{
    struct file_chunk *chunk = g->chunk;
    if (c && chunk->change_count == g->room) {
        size_t room = g->room ? 2 * g->room : 64;
        struct file_chunk_change *more = mem_realloc(chunk->changes, room * sizeof *more);
        g->has_failed = !more;
        chunk->changes = more ? more : chunk->changes;
        g->room = more ? room : g->room;
    }
    g->has_failed = g->has_failed || !c;
    if (g->has_failed) {
        change_unref(c);
        return false;
    }
    chunk->changes[chunk->change_count++] = (struct file_chunk_change){c, kind};
    return true;
}

static bool gather_row(void *user, const struct changelog_row *row)
{
    struct gathering *g = user;
    const struct change *c = row->change;
    bool is_ours = c->everything || (c->lists == 0 && c->position == 0 &&
                                     has_history(catalog_mount(g->files->catalog, c->uri)));
    bool is_new = c->kind == TIDINGS_CHANGE_UPDATED && row->created_seq > g->saved_to;
    return !is_ours ||
           server_files_gather(g, change_ref(c), is_new ? TIDINGS_CHANGE_CREATED : c->kind);
}

/* The log does not reach back to the last saved change: the changes of all files are unknown. */
static void gather_missed(struct gathering *g, uint64_t epoch, uint64_t floor)
{
    const struct catalog *c = g->files->catalog;
    for (size_t i = 0; i < c->mount_count; i++) {
        if (has_history(c->mounts[i]) &&
            !server_files_gather(g, change_create_missed(c->mounts[i]->prefix, epoch, floor),
                                 TIDINGS_CHANGE_UPDATED)) {
            return;
        }
    }
}

/* Add the changes announced since the last chunk. */
static int take_changes(struct server_files *f, struct file_chunk *chunk)
{
    const struct changelog *log = hub_log(f->hub);
    uint64_t saved_to = __atomic_load_n(&f->saved_to, __ATOMIC_ACQUIRE);
    struct gathering g = {.files = f, .chunk = chunk, .saved_to = saved_to};
    for (size_t i = 0; i < chunk->change_count; i++) { /* from an earlier attempt */
        change_unref(chunk->changes[i].change);
    }
    mem_free(chunk->changes);
    chunk->changes = NULL;
    chunk->change_count = 0;
    chunk->epoch = log->ops->epoch(log);
    chunk->number = log->ops->last(log);
    chunk->change_max = f->max_changes;
    if (log->ops->floor(log) > saved_to) {
        gather_missed(&g, chunk->epoch, log->ops->floor(log));
    }
    if (!g.has_failed) {
        (void)log->ops->each(log, saved_to, gather_row, &g);
    }
    return g.has_failed ? TIDINGS_E_NOMEM : 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int chunk_run(struct store_job *job, struct entities *e)
{
    struct file_chunk *chunk = list_entry(job, struct file_chunk, job);
    int rc = sqlite_files_write(entities_store(e), chunk, &job->err);
    job->is_fatal = rc < 0;
    return rc < 0 ? error_wrap(&job->err, rc, "the store cannot be written") : 0;
}

/* On the commit thread. */
static void chunk_done(struct store_job *job, int code)
{
    struct file_chunk *chunk = list_entry(job, struct file_chunk, job);
    struct server_files *f = chunk->owner;
    uint64_t saved_to = __atomic_load_n(&f->saved_to, __ATOMIC_RELAXED); /* only this thread */
    if (code == 0 && chunk->number > saved_to) {
        __atomic_store_n(&f->saved_to, chunk->number, __ATOMIC_RELEASE);
    }
    if (code == 0 && chunk->is_whole) {
        log_debug(LOG_STORE, "files saved", KV("mount", chunk->prefix),
                  KV("number", chunk->number));
    }
    chunk->done(chunk, code);
}

static void chunk_deliver(struct thread_message *message, void *owner)
{
    (void)owner;
    struct file_chunk *chunk = list_entry(message, struct file_chunk, message);
    struct server_files *f = chunk->owner;
    int rc = take_changes(f, chunk);
    if (rc < 0) {
        chunk->done(chunk, rc);
        return;
    }
    if (chunk->is_whole) {
        take_known(f, chunk);
    }
    chunk->job = (struct store_job){.is_write = true, .run = chunk_run, .done = chunk_done};
    commit_thread_submit(f->keeping.commit_thread, &chunk->job);
}

static void chunk_drop(struct thread_message *message)
{
    struct file_chunk *chunk = list_entry(message, struct file_chunk, message);
    chunk->done(chunk, TIDINGS_E_CLOSED);
}

static void files_save(struct file_keeping *k, struct file_chunk *chunk)
{
    struct server_files *f = files_of(k);
    chunk->owner = f;
    chunk->message = (struct thread_message){.deliver = chunk_deliver, .drop = chunk_drop};
    list_init(&chunk->message.link);
    mailbox_send(hub_mailbox(f->hub), &chunk->message);
}

/* ---- opening and closing --------------------------------------------------------------------- */

struct files_opening {
    struct store_job job;
    struct server_files *files;
    struct file_mount_row *rows;
    size_t count;
};

static int run_set_mounts(struct store_job *job, struct entities *e)
{
    struct files_opening *o = list_entry(job, struct files_opening, job);
    int rc = sqlite_files_set_mounts(entities_store(e), o->rows, o->count, &job->err);
    job->is_fatal = rc < 0;
    return rc;
}

static int run_read_history(struct store_job *job, struct entities *e)
{
    struct files_opening *o = list_entry(job, struct files_opening, job);
    return file_history_read(entities_store(e), hub_epoch(o->files->hub), &o->files->history,
                             &job->err);
}

/* The settings that decide which files a mount has; `texts` is their memory. */
static int describe_mount(struct tidings_provider *p, struct file_mount_row *row, char **text,
                          struct tidings_error *err)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    provider_file_identify(p, &out);
    size_t len = 0;
    int rc = out.failed ? tidings_fail(err, out.failed, "out of memory") : 0;
    *text = rc == 0 ? buf_detach(&out, &len) : NULL;
    *row = (struct file_mount_row){.prefix = p->prefix, .settings = tidings_strn(*text, len)};
    buf_deinit(&out);
    return rc;
}

static int files_read(struct server_files *f, struct files_opening *o, char **texts,
                      struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->catalog->mount_count; i++) {
        struct tidings_provider *p = f->catalog->mounts[i];
        if (p->ops == &provider_file_ops) {
            rc = describe_mount(p, &o->rows[o->count], &texts[o->count], err);
            o->count += rc == 0;
        }
    }
    if (rc < 0) {
        return rc;
    }
    o->job = (struct store_job){.is_write = true, .run = run_set_mounts};
    rc = commit_thread_run(f->keeping.commit_thread, &o->job);
    if (rc == 0) {
        o->job = (struct store_job){.run = run_read_history};
        rc = commit_thread_run(f->keeping.commit_thread, &o->job);
    }
    return rc < 0 ? tidings_fail(err, rc, "store: %s", o->job.err.text) : 0;
}

int server_files_open(struct server_store *s, size_t max_changes, struct tidings_error *err)
{
    if (!s->commit_thread || !s->has_file || commit_thread_is_shared(s->commit_thread)) {
        return 0; /* a node's file state is useless to other nodes */
    }
    struct server_files *f = mem_zalloc(sizeof *f);
    struct catalog *c = hub_catalog(s->hub);
    char **texts = mem_zalloc((c->mount_count + 1) * sizeof(char *));
    struct files_opening o = {.files = f};
    o.rows = mem_zalloc((c->mount_count + 1) * sizeof *o.rows);
    s->files = f;
    int rc = TIDINGS_E_NOMEM;
    if (f) {
        list_init(&f->known);
        map_init(&f->scopes);
    }
    if (f && texts && o.rows) {
        f->keeping = (struct file_keeping){
            .known = files_known, .save = files_save, .commit_thread = s->commit_thread};
        f->hub = s->hub;
        f->catalog = catalog_ref(c);
        f->max_changes = max_changes;
        f->saved_to = hub_first(s->hub);
        rc = files_read(f, &o, texts, err);
    } else {
        tidings_fail(err, rc, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        if (c->mounts[i]->ops == &provider_file_ops) {
            c->mounts[i]->has_history = true;
            provider_file_keep(c->mounts[i], &f->keeping);
        }
    }
    if (rc == 0) {
        f->scope_count = file_history_scopes(f->history);
        hub_set_file_history(s->hub, f->history);
    }
    for (size_t i = 0; texts && i < o.count; i++) {
        mem_free(texts[i]);
    }
    mem_free(texts);
    mem_free(o.rows);
    catalog_unref(c);
    return rc;
}

static int run_nothing(struct store_job *job, struct entities *e)
{
    (void)job;
    (void)e;
    return 0;
}

/* Save the remaining state, in as many chunks as needed. */
static void save_rest(struct server_files *f, struct tidings_provider *p)
{
    struct file_chunk *chunk;
    while ((chunk = provider_file_unsaved(p)) != NULL) {
        chunk->owner = f;
        int rc = take_changes(f, chunk);
        if (rc == 0 && chunk->is_whole) {
            take_known(f, chunk);
        }
        chunk->job = (struct store_job){.is_write = true, .run = chunk_run, .done = chunk_done};
        rc = rc == 0 ? commit_thread_run(f->keeping.commit_thread, &chunk->job) : rc;
        if (rc < 0) {
            log_warn(LOG_STORE, "cannot save file state; resuming clients must re-read",
                     KV("mount", p->prefix));
            return;
        }
    }
}

/* All watches have stopped: number the pending announcements, and write the pending chunks. */
static void files_drain(struct server_files *f)
{
    struct store_job job = {.run = run_nothing};
    for (size_t i = 0; i < f->catalog->mount_count; i++) {
        if (has_history(f->catalog->mounts[i])) {
            provider_file_drain(f->catalog->mounts[i]);
        }
    }
    hub_hold(f->hub);
    while (mailbox_drain(hub_mailbox(f->hub)) > 0) {
        /* announcements, and the chunks after them */
    }
    hub_release(f->hub);
    (void)commit_thread_run(f->keeping.commit_thread, &job);
}

void server_files_close(struct server_store *s, bool is_undone)
{
    struct server_files *f = s->files;
    if (!f) {
        return;
    }
    if (f->catalog && f->history && !is_undone) {
        files_drain(f);
        for (size_t i = 0; i < f->catalog->mount_count; i++) {
            if (has_history(f->catalog->mounts[i])) {
                save_rest(f, f->catalog->mounts[i]);
            }
        }
    }
    hub_set_file_history(s->hub, NULL);
    size_t position = 0;
    struct known_scope *known;
    while ((known = map_next(&f->scopes, &position)) != NULL) {
        mem_free(known);
    }
    map_deinit(&f->scopes);
    file_history_destroy(f->history);
    catalog_unref(f->catalog);
    mem_free(f);
    s->files = NULL;
}

/* ---------------------------------------------------------------------------------------------- */

#define IN_MEMORY ":memory:"

/* ---- the log --------------------------------------------------------------------------------- */

struct rebuilding {
    struct store_job job;
    struct server_store *store;
    struct catalog *catalog;
    const struct changelog_limits *limits;
    int64_t now_ms;
    struct changelog *log;
    struct seal_key seal; /* of a store shared with other nodes */
    bool has_entities;
    uint64_t position; /* of the current change */
    bool is_leaving;   /* … the change is a move away from a URI */
};

static void server_store_append(void *user, const struct tidings_change *told)
{
    struct rebuilding *r = user;
    const struct changelog_ops *ops = r->log->ops;
    struct tidings_change change = *told;
    bool is_move = change.kind == TIDINGS_CHANGE_MOVED, is_leaving = is_move && r->is_leaving;
    if (is_move && !is_leaving) { /* the departure has its own row */
        change.kind = TIDINGS_CHANGE_CREATED;
    }
    change.not_subscribable = told->not_subscribable || catalog_is_mute(r->catalog, change.uri) ||
                              published_is_mute(r->store->publishing->published, change.uri);
    uint64_t epoch = ops->epoch(r->log);
    struct change *c = is_leaving ? change_create_departure(&change, epoch, r->position)
                                  : change_create(&change, epoch, r->position);
    if (c) {
        c->is_arrival = is_move && !is_leaving;
        c->position = r->position;
        (void)ops->append(r->log, c);
    } else {
        ops->note_gap(r->log, r->position);
    }
    change_unref(c);
}

static void append_missed(struct rebuilding *r, const struct log_entry *k)
{
    const struct changelog_ops *ops = r->log->ops;
    struct change *c = change_create_missed(str_skip(k->uri, 1), ops->epoch(r->log), r->position);
    if (c) {
        c->position = k->kind == LOG_ENTRY_MOUNTED ? r->position : 0;
        (void)ops->append(r->log, c);
    } else {
        ops->note_gap(r->log, r->position);
    }
    change_unref(c);
}

static void append_file(struct rebuilding *r, const struct log_entry *k)
{
    struct tidings_change change = log_entry_to_change(k);
    change.has_size = k->size >= 0;
    change.from = k->came_from;
    change.target = k->target;
    server_store_append(r, &change);
}

static bool server_store_is_too_old(const struct rebuilding *r, const struct log_entry *k)
{
    int64_t age = (int64_t)r->limits->max_age_ms;
    return age > 0 && k->at_ms > 0 && k->at_ms + age < r->now_ms;
}

static bool add_kept(void *user, const struct log_entry *k)
{
    struct rebuilding *r = user;
    r->position = k->position;
    r->is_leaving = k->kind == LOG_ENTRY_MOVED;
    if (log_entry_check(k, NULL) < 0) {
        return true; /* it was announced on arrival, or will be when it is read */
    }
    if (server_store_is_too_old(r, k)) {
        r->log->ops->note_gap(r->log, k->position);
    } else if (k->kind == LOG_ENTRY_MOUNTED && !cluster_owned_has(r->store->cluster, k->uri)) {
        return true; /* this node does not have it */
    } else if ((k->kind == LOG_ENTRY_FILE || k->kind == LOG_ENTRY_MOUNTED) &&
               change_is_missed_uri(k->uri)) {
        append_missed(r, k);
    } else if (k->kind == LOG_ENTRY_FILE) {
        append_file(r, k);
    } else if (!log_entry_describe(k, r->has_entities, server_store_append, r)) {
        r->log->ops->note_gap(r->log, k->position);
    }
    return true;
}

static int server_store_rebuild(struct store_job *job, struct entities *e)
{
    struct rebuilding *r = list_entry(job, struct rebuilding, job);
    struct store *store = entities_store(e);
    uint64_t floor = 0;
    r->now_ms = entities_now(e);
    /* The log starts with the followed changes. */
    int rc = commit_thread_follow_now(r->store->commit_thread, &job->err);
    rc = rc == 0 ? store->ops->create_changelog(store, r->limits, &r->log, &job->err) : rc;
    rc = rc == 0 ? store->ops->each_change(store, r->limits->max_entries, &floor, add_kept, r,
                                           &job->err)
                 : rc;
    rc = rc == 0 && store_is_shared(store) ? store->ops->secret(store, r->seal.secret, &job->err)
                                           : rc;
    if (rc < 0) {
        if (r->log) {
            r->log->ops->destroy(r->log);
        }
        return rc;
    }
    r->log->ops->note_gap(r->log, floor);
    if (store_is_shared(store)) {
        cluster_log_is_there(r->store->cluster);
    }
    log_info(LOG_STORE, "store", KV("changes", r->log->ops->count(r->log)),
             KV("position", r->log->ops->last(r->log)));
    return 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int server_store_announce(void *user, const struct tidings_change *change, uint64_t position)
{
    if (!change) {
        hub_overflow(user);
        return 0;
    }
    return hub_announce_durable(user, change, position, NULL);
}

static int server_store_open_file(struct server_store *s, const struct changelog_limits *limits,
                                  struct changelog **ret, struct tidings_error *err)
{
    size_t unseen = 0;
    int rc = published_keep(s->publishing->published, s->commit_thread, server_publish_may_keep,
                            s->publishing, &unseen, err);
    if (rc < 0) {
        return rc;
    }
    if (unseen > 0) {
        log_warn(LOG_STORE, "published resources not served", KV("count", unseen),
                 KV("reason", "not below a prefix of --publish, or registered by the program"));
    }
    struct rebuilding r = {
        .store = s, .limits = limits, .has_entities = s->config->entities[0] != '\0'};
    r.job.run = server_store_rebuild;
    r.catalog = hub_catalog(s->hub);
    rc = commit_thread_run(s->commit_thread, &r.job);
    catalog_unref(r.catalog);
    if (rc == 0 && commit_thread_is_shared(s->commit_thread)) {
        s->shared->seal = r.seal; /* other nodes open cursors that this node sealed */
    }
    explicit_bzero(&r.seal, sizeof(r.seal));
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", r.job.err.text);
    }
    *ret = r.log;
    return 0;
}

/* Operators may accept data loss at startup; the loss is logged in any case. */
static int server_store_open_sqlite(struct server_store *s, const char *path, struct store **ret,
                                    struct tidings_error *err)
{
    struct tidings_error loss = {0};
    bool accepts = s->config->accept_data_loss;
    int rc = accepts ? sqlite_store_open_lossy(path, &loss, ret, err)
                     : sqlite_store_open(path, ret, err);
    s->has_lost_data = loss.code < 0;
    if (s->has_lost_data) {
        log_error(LOG_STORE, "data loss accepted", KV("lost", loss.text), KV("store", path));
    } else if (rc < 0 && sqlite_loss_check(path, &loss) < 0) {
        log_error(LOG_STORE, "data loss", KV("lost", loss.text), KV("store", path));
        return tidings_fail(err, rc,
                            "'%.50s': %s; put a backup in its place or accept it with "
                            "--accept-data-loss",
                            path, loss.text);
    }
    return rc;
}

static int server_store_connect(struct server_store *s, const char *path, struct store **ret,
                                struct tidings_error *err)
{
    if (s->given_store) {
        *ret = s->given_store;
        s->given_store = NULL;
        return 0;
    }
    if (config_store_is_shared(s->config)) {
        return postgres_store_open(path, tidings_str(s->config->cluster), ret, err);
    }
    if (strcmp(path, IN_MEMORY) != 0) {
        return server_store_open_sqlite(s, path, ret, err);
    }
    *ret = memory_store_create(err);
    return *ret ? 0 : TIDINGS_E_NOMEM;
}

/* ---- with other nodes ------------------------------------------------------------------------ */

static int server_store_open_cluster(struct server_store *s, bool has_nodes,
                                     struct tidings_error *err)
{
    const struct config *c = s->config;
    const struct cluster_options options = {
        .hub = s->hub,
        .limits = &s->shared->limits,
        .commit_thread = s->commit_thread,
        .loop = s->loop,
        .published = s->publishing->published,
        .ops = s->cluster_ops,
        .user = s->cluster_user,
        .node = c->node,
        .shared = {(const char *const *)c->shared.items, c->shared.count},
        .owned = {(const char *const *)c->owned.items, c->owned.count},
        .max_announced = c->max_announced,
        .stale_cache = c->stale_cache,
        .watch_timeout_ms = c->watch_timeout_ms,
        .session_timeout_ms = c->session_timeout_ms,
        .has_entities = c->entities[0] != '\0',
        .has_nodes = has_nodes,
    };
    return cluster_open(&s->cluster, &options, err);
}

int server_store_open(struct server_store *s, const struct changelog_limits *limits,
                      struct changelog **ret, struct tidings_error *err)
{
    const char *path = config_store(s->config);
    struct store *store = NULL;
    *ret = NULL;
    if (!path) {
        return 0;
    }
    int rc = server_store_connect(s, path, &store, err);
    s->has_file = rc == 0 && store_is_durable(store);
    bool has_nodes = rc == 0 && postgres_store_is(store);
    rc = rc == 0 ? commit_thread_open(store, &s->commit_thread, err) : rc;
    rc = rc == 0 && commit_thread_is_shared(s->commit_thread)
             ? server_store_open_cluster(s, has_nodes, err)
             : rc;
    rc = rc == 0 && s->has_file ? server_store_open_file(s, limits, ret, err) : rc;
    rc = rc == 0 && commit_thread_is_shared(s->commit_thread) ? cluster_join(s->cluster, err) : rc;
    if (rc < 0) {
        if (*ret) {
            (*ret)->ops->destroy(*ret);
            *ret = NULL;
        }
        server_store_close(s, true);
        return error_wrap(err, rc, "store");
    }
    commit_thread_on_change(s->commit_thread, server_store_announce, s->hub);
    return 0;
}

bool server_store_is_shared(const struct server_store *s)
{
    return s->commit_thread && commit_thread_is_shared(s->commit_thread);
}

void server_store_bind(const struct server_store *s, struct tidings_provider *p)
{
    p->is_durable = s->commit_thread && s->has_file;
}

void server_store_close(struct server_store *s, bool is_undone)
{
    server_files_close(s, is_undone);
    cluster_leave(s->cluster);
    commit_thread_close(s->commit_thread);
    server_tasks_close(&s->tasks);
    cluster_close(s->cluster);
    if (s->commit_thread) {
        published_unkeep(s->publishing->published, is_undone);
    }
    s->commit_thread = NULL;
}
