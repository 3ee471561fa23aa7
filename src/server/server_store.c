/* SPDX-License-Identifier: MIT
 *
 * Opens and closes the store of a server. After a start the change log is made again from the
 * store: each change that it knows becomes a row of the log with its position as number. So nothing
 * is written twice.
 */
#include "server/server_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/seal.h"
#include "provider/entity.h"
#include "server/server_nodes.h"
#include "store/change.h"
#include "store/keeper.h"
#include "store/postgres_rows.h"
#include "store/shared.h"
#include "store/sqlite_entities.h"
#include "store/sqlite_loss.h"

#define IN_MEMORY ":memory:"

/* ---- the log --------------------------------------------------------------------------------- */

struct rebuilding {
    struct keeper_job job;
    struct tidings_server *server;
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
                              published_is_mute(r->server->published, change.uri);
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
    } else if (k->kind == KEPT_MOUNTED && !server_owned_has(r->server, k->uri)) {
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
    struct entity_rows *rows = entities_rows(e);
    uint64_t floor = 0;
    r->now_ms = entities_now(e);
    /* The log begins with what was followed. */
    int rc = keeper_follow_now(r->server->keeper, &job->err);
    rc = rc == 0 ? rows->kept->create_changelog(rows, r->limits, &r->log, &job->err) : rc;
    rc = rc == 0
             ? rows->kept->each_change(rows, r->limits->max_entries, &floor, add_kept, r, &job->err)
             : rc;
    rc = rc == 0 && rows->shared ? rows->shared->secret(rows, r->seal.secret, &job->err) : rc;
    if (rc < 0) {
        if (r->log) {
            r->log->ops->destroy(r->log);
        }
        return rc;
    }
    r->log->ops->lost(r->log, floor);
    r->server->follow_tells = true;
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

static int server_store_open_file(struct tidings_server *s, const struct changelog_limits *limits,
                                  struct changelog **ret, struct tidings_error *err)
{
    size_t unseen = 0;
    int rc = published_keep(s->published, s->keeper, server_publish_may_keep, s, &unseen, err);
    if (rc < 0) {
        return rc;
    }
    if (unseen > 0) {
        log_warn(LOG_STORE, "published resources not served", KV("count", unseen),
                 KV("reason", "not below a prefix of --publish, or registered by the program"));
    }
    struct rebuilding r = {
        .server = s, .limits = limits, .has_entities = s->config.entities[0] != '\0'};
    r.job.run = server_store_rebuild;
    r.catalog = hub_catalog(s->hub);
    rc = keeper_run(s->keeper, &r.job);
    catalog_unref(r.catalog);
    if (rc == 0 && keeper_is_shared(s->keeper)) {
        hub_set_seal(s->hub, &r.seal); /* what one node sealed the others open */
    }
    explicit_bzero(&r.seal, sizeof(r.seal));
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", r.job.err.text);
    }
    *ret = r.log;
    return 0;
}

/* Whoever starts it may accept that something is lost; it is said either way. */
static int server_store_open_sqlite(struct tidings_server *s, const char *path,
                                    struct entity_rows **ret, struct tidings_error *err)
{
    struct tidings_error loss = {0};
    bool accepts = s->config.accept_data_loss;
    int rc = accepts ? entity_sqlite_open_lossy(path, &loss, ret, err)
                     : entity_sqlite_open(path, ret, err);
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

static int server_store_connect(struct tidings_server *s, const char *path,
                                struct entity_rows **ret, struct tidings_error *err)
{
    if (s->given_rows) {
        *ret = s->given_rows;
        s->given_rows = NULL;
        return 0;
    }
    if (config_store_is_shared(&s->config)) {
        return entity_postgres_open(path, tidings_str(s->config.cluster), ret, err);
    }
    if (strcmp(path, IN_MEMORY) != 0) {
        return server_store_open_sqlite(s, path, ret, err);
    }
    *ret = entity_memory_create(err);
    return *ret ? 0 : TIDINGS_E_NOMEM;
}

int server_store_open(struct tidings_server *s, const struct changelog_limits *limits,
                      struct changelog **ret, struct tidings_error *err)
{
    const char *path = config_store(&s->config);
    struct entity_rows *rows = NULL;
    *ret = NULL;
    if (!path) {
        return 0;
    }
    int rc = server_store_connect(s, path, &rows, err);
    s->has_file = rc == 0 && rows->kept;
    rc = rc == 0 ? keeper_open(rows, &s->keeper, err) : rc;
    rc = rc == 0 && keeper_is_shared(s->keeper) ? server_follow_open(s, err) : rc;
    rc = rc == 0 && s->has_file ? server_store_open_file(s, limits, ret, err) : rc;
    rc = rc == 0 && keeper_is_shared(s->keeper) ? server_nodes_open(s, err) : rc;
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

void server_store_bind(struct tidings_server *s, struct tidings_provider *p)
{
    p->is_durable = s->keeper && s->has_file;
}

void server_store_close(struct tidings_server *s, bool is_undone)
{
    server_files_close(s, is_undone);
    server_owned_close(s);
    server_nodes_close(s);
    hub_on_shared(s->hub, NULL, NULL);
    hub_on_ask_newest(s->hub, NULL, NULL);
    keeper_close(s->keeper);
    server_tasks_close(s);
    if (s->announcing.next) {
        server_announce_close(s);
    }
    if (s->keeper) {
        published_unkeep(s->published, is_undone);
    }
    s->keeper = NULL;
}
