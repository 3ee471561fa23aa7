/* SPDX-License-Identifier: MIT
 *
 * Opens and closes the store of a server. After a start the change log is made again from the
 * store: each change that it knows becomes a row of the log with its position as number. So nothing
 * is written twice.
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
 * Saves what file watchers know of their trees in the store, and with it the changes that they
 * announced: parts of a tree come through the hub, in the order of the announcements before them,
 * and take along what the log has since the last that was written. At the end of the server
 * everything that is left is saved.
 *
 * Owned by the hub's thread, but for `saved_to`.
 */

#define SCOPES_MAX 100000u /* whose history is kept; who comes back to others must look again */

struct server_files {
    struct file_keeping keeping;
    struct hub *hub;
    struct file_history *history;
    struct catalog *catalog; /* a reference */
    size_t max_changes;
    uint64_t saved_to;  /* atomic: changes of files up to this number are in the store */
    struct map scopes;  /* struct known_scope of this run, by URI … */
    struct list known;  /* … and those of them that have yet to go with a part */
    size_t scope_count; /* of this run and of those before, each once */
};

struct known_scope {
    struct letter letter; /* on its way to the hub */
    struct list link;     /* in `known` */
    struct server_files *files;
    uint64_t number;
    struct tidings_str prefix, uri;
    /* the texts follow */
};

static struct server_files *files_of(struct file_keeping *k)
{
    return list_entry(k, struct server_files, keeping);
}

static bool has_history(const struct tidings_provider *p)
{
    return p && p->has_history;
}

/* ---- scopes that are known ------------------------------------------------------------------- */

static void known_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct known_scope, letter));
}

static void known_deliver(struct letter *letter, void *owner)
{
    struct known_scope *known = list_entry(letter, struct known_scope, letter);
    struct server_files *f = known->files;
    struct known_scope *before = map_find(&f->scopes, known->uri);
    bool is_new = !before && !file_history_has_scope(f->history, known->uri);
    bool has_room = before || !is_new || f->scope_count < SCOPES_MAX;
    if (before || !has_room || map_put(&f->scopes, known->uri, known, NULL) < 0) {
        known_drop(letter);
        known = before;
    } else {
        list_init(&known->link);
        f->scope_count += is_new;
    }
    if (known) { /* since now, though it was known before: what was saved may have been forgotten */
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
        return; /* who comes back to it must look again */
    }
    char *at = (char *)(known + 1);
    known->files = f;
    known->prefix = str_pack(&at, prefix);
    known->uri = str_pack(&at, uri);
    known->letter.deliver = known_deliver;
    known->letter.drop = known_drop;
    mailbox_send(hub_mailbox(f->hub), &known->letter);
}

/* Those of its mount go with the part. What there is no memory for stays. */
static void take_known(struct server_files *f, struct file_part *part)
{
    list_each (it, next, &f->known) {
        struct known_scope *known = list_entry(it, struct known_scope, link);
        if (!str_eq(known->prefix, part->prefix)) {
            continue;
        }
        size_t count = part->scope_count;
        if ((count & (count - 1)) == 0) { /* the array doubles */
            struct file_scope_mark *more =
                mem_realloc(part->scopes, (count ? 2 * count : 1) * sizeof *more);
            if (!more) {
                return;
            }
            part->scopes = more;
        }
        char *uri = str_dup(known->uri);
        if (!uri) {
            return;
        }
        part->scopes[part->scope_count++] = (struct file_scope_mark){
            .uri = tidings_strn(uri, known->uri.len), .number = known->number};
        list_remove(it);
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

struct gathering {
    struct server_files *files;
    struct file_part *part;
    uint64_t saved_to;
    size_t room;
    bool has_failed;
};

/* Takes the reference; NULL: out of memory. */
static bool server_files_gather(struct gathering *g, struct change *c,
                                enum tidings_change_kind kind)
{
    struct file_part *part = g->part;
    if (c && part->change_count == g->room) {
        size_t room = g->room ? 2 * g->room : 64;
        struct file_part_change *more = mem_realloc(part->changes, room * sizeof *more);
        g->has_failed = !more;
        part->changes = more ? more : part->changes;
        g->room = more ? room : g->room;
    }
    g->has_failed = g->has_failed || !c;
    if (g->has_failed) {
        change_unref(c);
        return false;
    }
    part->changes[part->change_count++] = (struct file_part_change){c, kind};
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

/* The log does not reach back to what was last saved: of no file is it known what happened. */
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

/* What was announced since the last time goes with the part. */
static int take_changes(struct server_files *f, struct file_part *part)
{
    const struct changelog *log = hub_log(f->hub);
    uint64_t saved_to = __atomic_load_n(&f->saved_to, __ATOMIC_ACQUIRE);
    struct gathering g = {.files = f, .part = part, .saved_to = saved_to};
    for (size_t i = 0; i < part->change_count; i++) { /* from before, when it is sent again */
        change_unref(part->changes[i].change);
    }
    mem_free(part->changes);
    part->changes = NULL;
    part->change_count = 0;
    part->epoch = log->ops->epoch(log);
    part->number = log->ops->last(log);
    part->change_max = f->max_changes;
    if (log->ops->floor(log) > saved_to) {
        gather_missed(&g, part->epoch, log->ops->floor(log));
    }
    if (!g.has_failed) {
        (void)log->ops->each(log, saved_to, gather_row, &g);
    }
    return g.has_failed ? TIDINGS_E_NOMEM : 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int part_run(struct keeper_job *job, struct entities *e)
{
    struct file_part *part = list_entry(job, struct file_part, job);
    int rc = sqlite_files_write(entities_store(e), part, &job->err);
    job->is_lost = rc < 0;
    return rc < 0 ? error_wrap(&job->err, rc, "the store cannot be written") : 0;
}

/* On the keeper's thread. */
static void part_done(struct keeper_job *job, int code)
{
    struct file_part *part = list_entry(job, struct file_part, job);
    struct server_files *f = part->owner;
    uint64_t saved_to = __atomic_load_n(&f->saved_to, __ATOMIC_RELAXED); /* only this thread */
    if (code == 0 && part->number > saved_to) {
        __atomic_store_n(&f->saved_to, part->number, __ATOMIC_RELEASE);
    }
    if (code == 0 && part->is_whole) {
        log_debug(LOG_STORE, "files saved", KV("mount", part->prefix), KV("number", part->number));
    }
    part->done(part, code);
}

static void part_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct file_part *part = list_entry(letter, struct file_part, letter);
    struct server_files *f = part->owner;
    int rc = take_changes(f, part);
    if (rc < 0) {
        part->done(part, rc);
        return;
    }
    if (part->is_whole) {
        take_known(f, part);
    }
    part->job = (struct keeper_job){.is_write = true, .run = part_run, .done = part_done};
    keeper_submit(f->keeping.keeper, &part->job);
}

static void part_drop(struct letter *letter)
{
    struct file_part *part = list_entry(letter, struct file_part, letter);
    part->done(part, TIDINGS_E_CLOSED);
}

static void files_save(struct file_keeping *k, struct file_part *part)
{
    struct server_files *f = files_of(k);
    part->owner = f;
    part->letter = (struct letter){.deliver = part_deliver, .drop = part_drop};
    list_init(&part->letter.link);
    mailbox_send(hub_mailbox(f->hub), &part->letter);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct files_opening {
    struct keeper_job job;
    struct server_files *files;
    struct file_mount_row *rows;
    size_t count;
};

static int run_set_mounts(struct keeper_job *job, struct entities *e)
{
    struct files_opening *o = list_entry(job, struct files_opening, job);
    int rc = sqlite_files_set_mounts(entities_store(e), o->rows, o->count, &job->err);
    job->is_lost = rc < 0;
    return rc;
}

static int run_read_history(struct keeper_job *job, struct entities *e)
{
    struct files_opening *o = list_entry(job, struct files_opening, job);
    return file_history_read(entities_store(e), hub_epoch(o->files->hub), &o->files->history,
                             &job->err);
}

/* What decides which files a mount has; `texts` is the memory it lies in. */
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
    o->job = (struct keeper_job){.is_write = true, .run = run_set_mounts};
    rc = keeper_run(f->keeping.keeper, &o->job);
    if (rc == 0) {
        o->job = (struct keeper_job){.run = run_read_history};
        rc = keeper_run(f->keeping.keeper, &o->job);
    }
    return rc < 0 ? tidings_fail(err, rc, "store: %s", o->job.err.text) : 0;
}

int server_files_open(struct server_store *s, size_t max_changes, struct tidings_error *err)
{
    if (!s->keeper || !s->has_file || keeper_is_shared(s->keeper)) {
        return 0; /* what a node knows of its files is of no use to others */
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
        f->keeping =
            (struct file_keeping){.known = files_known, .save = files_save, .keeper = s->keeper};
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

static int run_nothing(struct keeper_job *job, struct entities *e)
{
    (void)job;
    (void)e;
    return 0;
}

/* All that is known and not saved, in as many parts as it takes. */
static void save_rest(struct server_files *f, struct tidings_provider *p)
{
    struct file_part *part;
    while ((part = provider_file_unsaved(p)) != NULL) {
        part->owner = f;
        int rc = take_changes(f, part);
        if (rc == 0 && part->is_whole) {
            take_known(f, part);
        }
        part->job = (struct keeper_job){.is_write = true, .run = part_run, .done = part_done};
        rc = rc == 0 ? keeper_run(f->keeping.keeper, &part->job) : rc;
        if (rc < 0) {
            log_warn(LOG_STORE,
                     "what is known of files is not saved: who comes back must look again",
                     KV("mount", p->prefix));
            return;
        }
    }
}

/* Nobody watches any more; what was announced is numbered, and what was on its way is written. */
static void files_drain(struct server_files *f)
{
    struct keeper_job job = {.run = run_nothing};
    for (size_t i = 0; i < f->catalog->mount_count; i++) {
        if (has_history(f->catalog->mounts[i])) {
            provider_file_drain(f->catalog->mounts[i]);
        }
    }
    hub_hold(f->hub);
    while (mailbox_drain(hub_mailbox(f->hub)) > 0) {
        /* announcements, and parts behind them */
    }
    hub_release(f->hub);
    (void)keeper_run(f->keeping.keeper, &job);
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
    struct keeper_job job;
    struct server_store *store;
    struct catalog *catalog;
    const struct changelog_limits *limits;
    int64_t now_ms;
    struct changelog *log;
    struct seal_key seal; /* of a store that others have as well */
    bool has_entities;
    uint64_t position; /* of the change at hand */
    bool is_leaving;   /* … which is that an entity left its URI */
};

static void server_store_append(void *user, const struct tidings_change *told)
{
    struct rebuilding *r = user;
    const struct changelog_ops *ops = r->log->ops;
    struct tidings_change change = *told;
    bool is_move = change.kind == TIDINGS_CHANGE_MOVED, is_leaving = is_move && r->is_leaving;
    if (is_move && !is_leaving) { /* that it left has a row of its own */
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
        ops->lost(r->log, r->position);
    }
    change_unref(c);
}

static void append_missed(struct rebuilding *r, const struct kept_change *k)
{
    const struct changelog_ops *ops = r->log->ops;
    struct change *c = change_create_missed(str_skip(k->uri, 1), ops->epoch(r->log), r->position);
    if (c) {
        c->position = k->kind == KEPT_MOUNTED ? r->position : 0;
        (void)ops->append(r->log, c);
    } else {
        ops->lost(r->log, r->position);
    }
    change_unref(c);
}

static void append_file(struct rebuilding *r, const struct kept_change *k)
{
    struct tidings_change change = kept_row_change(k);
    change.has_size = k->size >= 0;
    change.from = k->came_from;
    change.target = k->target;
    server_store_append(r, &change);
}

static bool server_store_is_too_old(const struct rebuilding *r, const struct kept_change *k)
{
    int64_t age = (int64_t)r->limits->max_age_ms;
    return age > 0 && k->at_ms > 0 && k->at_ms + age < r->now_ms;
}

static bool add_kept(void *user, const struct kept_change *k)
{
    struct rebuilding *r = user;
    r->position = k->position;
    r->is_leaving = k->kind == KEPT_MOVED;
    if (kept_check(k, NULL) < 0) {
        return true; /* it was said when it came, or is when it is read */
    }
    if (server_store_is_too_old(r, k)) {
        r->log->ops->lost(r->log, k->position);
    } else if (k->kind == KEPT_MOUNTED && !cluster_owned_has(r->store->cluster, k->uri)) {
        return true; /* not here */
    } else if ((k->kind == KEPT_FILE || k->kind == KEPT_MOUNTED) && change_is_missed_uri(k->uri)) {
        append_missed(r, k);
    } else if (k->kind == KEPT_FILE) {
        append_file(r, k);
    } else if (!kept_describe(k, r->has_entities, server_store_append, r)) {
        r->log->ops->lost(r->log, k->position);
    }
    return true;
}

static int server_store_rebuild(struct keeper_job *job, struct entities *e)
{
    struct rebuilding *r = list_entry(job, struct rebuilding, job);
    struct store *store = entities_store(e);
    uint64_t floor = 0;
    r->now_ms = entities_now(e);
    /* The log begins with what was followed. */
    int rc = keeper_follow_now(r->store->keeper, &job->err);
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
    r->log->ops->lost(r->log, floor);
    if (store_is_shared(store)) {
        cluster_log_is_there(r->store->cluster);
    }
    log_info(LOG_STORE, "store", KV("changes", r->log->ops->count(r->log)),
             KV("position", r->log->ops->last(r->log)));
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int server_store_tell(void *user, const struct tidings_change *change, uint64_t position)
{
    if (!change) {
        hub_lose(user);
        return 0;
    }
    return hub_announce_kept(user, change, position, NULL);
}

static int server_store_open_file(struct server_store *s, const struct changelog_limits *limits,
                                  struct changelog **ret, struct tidings_error *err)
{
    size_t unseen = 0;
    int rc = published_keep(s->publishing->published, s->keeper, server_publish_may_keep,
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
    rc = keeper_run(s->keeper, &r.job);
    catalog_unref(r.catalog);
    if (rc == 0 && keeper_is_shared(s->keeper)) {
        s->shared->seal = r.seal; /* what one node sealed the others open */
    }
    explicit_bzero(&r.seal, sizeof(r.seal));
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", r.job.err.text);
    }
    *ret = r.log;
    return 0;
}

/* Whoever starts it may accept that something is lost; it is said either way. */
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
        .keeper = s->keeper,
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
    rc = rc == 0 ? keeper_open(store, &s->keeper, err) : rc;
    rc = rc == 0 && keeper_is_shared(s->keeper) ? server_store_open_cluster(s, has_nodes, err) : rc;
    rc = rc == 0 && s->has_file ? server_store_open_file(s, limits, ret, err) : rc;
    rc = rc == 0 && keeper_is_shared(s->keeper) ? cluster_join(s->cluster, err) : rc;
    if (rc < 0) {
        if (*ret) {
            (*ret)->ops->destroy(*ret);
            *ret = NULL;
        }
        server_store_close(s, true);
        return error_wrap(err, rc, "store");
    }
    keeper_on_change(s->keeper, server_store_tell, s->hub);
    return 0;
}

bool server_store_is_shared(const struct server_store *s)
{
    return s->keeper && keeper_is_shared(s->keeper);
}

void server_store_bind(const struct server_store *s, struct tidings_provider *p)
{
    p->is_durable = s->keeper && s->has_file;
}

void server_store_close(struct server_store *s, bool is_undone)
{
    server_files_close(s, is_undone);
    cluster_leave(s->cluster);
    keeper_close(s->keeper);
    server_tasks_close(&s->tasks);
    cluster_close(s->cluster);
    if (s->keeper) {
        published_unkeep(s->publishing->published, is_undone);
    }
    s->keeper = NULL;
}
