/* SPDX-License-Identifier: MIT
 *
 * Follows a store that other nodes also write. Their commits are applied and announced here like
 * local ones. All functions but cluster_follow_open run on the commit thread.
 */
#include "cluster/apply.h"

#include "base/log.h"
#include "base/str.h"
#include "base/time.h"
#include "cluster/cluster_internal.h"
#include "cluster/owned_mounts.h"
#include "engine/catalog/resource.h"
#include "formats/uri.h"
#include "security/access.h"
#include "sources/entity.h"
#include "sources/published.h"
#include "store/change.h"
#include "store/commit_thread.h"
#include "store/entities.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Converts rows of the store to changes, to rebuild the log after a start and to announce commits
 * of other nodes. Other programs may have written to the tables, so invalid rows are rejected.
 */

#define RESOURCE_TEXT_MAX (1u << 20) /* of a name, a description */
#define SHORT_TEXT_MAX 1024u         /* of an etag, a checksum, an origin */

/* ---- checking -------------------------------------------------------------------------------- */

static bool log_entry_is_uri(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    bool is = uri_canonical(uri, &canonical, NULL) == 0 && str_eq(buf_str(&canonical), uri);
    buf_deinit(&canonical);
    return is;
}

static bool log_entry_is_text(struct tidings_str text)
{
    return text.len <= SHORT_TEXT_MAX && str_is_utf8(text);
}

bool log_entry_is_resource(const struct tidings_resource *about)
{
    const struct tidings_str texts[] = {about->etag, about->name, about->title, about->description,
                                        about->mime_type};
    bool is = log_entry_is_uri(about->uri) && resource_check(about, NULL) == 0;
    for (size_t i = 0; is && i < sizeof texts / sizeof *texts; i++) {
        is = texts[i].len <= RESOURCE_TEXT_MAX && str_is_utf8(texts[i]);
    }
    return is;
}

static int log_entry_check_announced(const struct tidings_change *c, struct tidings_error *err)
{
    bool is_known = (unsigned)c->kind <= TIDINGS_CHANGE_MOVED &&
                    (c->kind != TIDINGS_CHANGE_MOVED || c->from.len > 0);
    if (!is_known) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no such kind of change");
    }
    if (!log_entry_is_uri(c->uri) || (c->from.len > 0 && !log_entry_is_uri(c->from)) ||
        (c->target.len > 0 && !log_entry_is_uri(c->target))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its URI is invalid");
    }
    if (!log_entry_is_text(c->etag) || !log_entry_is_text(c->checksum) ||
        !log_entry_is_text(c->origin)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a string in it is too long or not UTF-8");
    }
    return change_check_metadata(c->metadata, err);
}

static int log_entry_check_entity(const struct log_entry *k, struct tidings_error *err)
{
    const struct entity_version *v = &k->version;
    bool is_whole =
        entity_id_is_valid(v->id) && entity_type_name_is_valid(v->type) &&
        entity_type_version_is_valid(v->type_version) &&
        (k->old_type_version.len == 0 || entity_type_version_is_valid(k->old_type_version)) &&
        (v->parent.len == 0 || entity_id_is_valid(v->parent)) &&
        (v->old_parent.len == 0 || entity_id_is_valid(v->old_parent));
    return is_whole
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "no entity has such an id or such a type");
}

int log_entry_check(const struct log_entry *k, struct tidings_error *err)
{
    switch (k->kind) {
    case LOG_ENTRY_PUBLISHED: {
        struct tidings_change change = {.uri = k->uri, .etag = k->etag, .metadata = k->metadata};
        return log_entry_check_announced(&change, err);
    }
    case LOG_ENTRY_ANNOUNCED:
        return log_entry_check_announced(k->announced, err);
    case LOG_ENTRY_MOUNTED: {
        struct tidings_change change = *k->announced;
        change.uri = change_is_missed_uri(change.uri) ? str_skip(change.uri, 1) : change.uri;
        return log_entry_check_announced(&change, err);
    }
    case LOG_ENTRY_ENTITY:
    case LOG_ENTRY_MOVED:
        return log_entry_check_entity(k, err);
    case LOG_ENTRY_TYPES:
    case LOG_ENTRY_FILE:
    case LOG_ENTRY_SESSION:
    case LOG_ENTRY_INCARNATION:
    case LOG_ENTRY_DATA_LOSS:
        break;
    }
    return 0;
}

/* ---- describing ------------------------------------------------------------------------------ */

struct tidings_change log_entry_to_change(const struct log_entry *k)
{
    return (struct tidings_change){
        .uri = k->uri,
        .kind = k->removed   ? TIDINGS_CHANGE_DELETED
                : k->created ? TIDINGS_CHANGE_CREATED
                             : TIDINGS_CHANGE_UPDATED,
        .etag = k->etag,
        .size = k->size,
        .modified_ms = k->modified_ms,
        .not_subscribable = k->not_subscribable,
    };
}

static bool log_entry_describe_entity(const struct log_entry *k, log_entry_described_fn fn,
                                      void *user)
{
    struct entity_done done = {
        .version = k->version,
        .old_type_version = k->old_type_version,
        .old_parent = k->version.old_parent,
        .changed = true,
        .created = k->created,
    };
    return entity_describe_change(&done, STR_EMPTY, fn, user);
}

bool log_entry_describe(const struct log_entry *k, bool has_entities, log_entry_described_fn fn,
                        void *user)
{
    struct tidings_change change = log_entry_to_change(k);
    switch (k->kind) {
    case LOG_ENTRY_PUBLISHED:
        change.has_size = !k->removed;
        change.metadata = k->metadata;
        fn(user, &change);
        return true;
    case LOG_ENTRY_ANNOUNCED:
    case LOG_ENTRY_MOUNTED:
        fn(user, k->announced);
        return true;
    case LOG_ENTRY_TYPES:
        if (has_entities) {
            fn(user, &(struct tidings_change){.uri = STR(ENTITY_URI_PREFIX "types")});
        }
        return true;
    case LOG_ENTRY_ENTITY:
    case LOG_ENTRY_MOVED:
        return !has_entities || log_entry_describe_entity(k, fn, user);
    case LOG_ENTRY_FILE: /* each node has its own */
    case LOG_ENTRY_SESSION:
    case LOG_ENTRY_INCARNATION:
    case LOG_ENTRY_DATA_LOSS:
        break;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

#define SAY_AGAIN_MS 1000

/* The current change. */
struct following {
    struct hub *hub;
    struct published *published;
    uint64_t position;
    bool was_mute; /* the publication that another node removed was not subscribable */
};

static void follow_announce(void *user, const struct tidings_change *change)
{
    const struct following *f = user;
    struct tidings_change reported = *change;
    reported.not_subscribable =
        reported.not_subscribable || f->was_mute || published_is_mute(f->published, change->uri);
    (void)hub_announce_durable(f->hub, &reported, f->position,
                               NULL); /* rejected: all clients resync */
}

/* A resource that is not served here is not announced. Each reason is logged at most once per
 * interval, because the number of such rows is not bounded. */
static int follow_published(struct cluster *c, const struct log_entry *k)
{
    struct tidings_error why = {0};
    int rc = published_follow(c->with.published, k, c->with.ops->may_serve, c->with.user, &why);
    if (rc < 0 && rc != c->follow_refused) {
        log_warn(LOG_NODES, "published by another node and not served here", KV("uri", k->uri),
                 KV("reason", why.text));
    }
    c->follow_refused = rc;
    return rc;
}

/* Skips a row that no node wrote, and logs that at most once per interval. */
static bool follow_is_whole(struct cluster *c, const struct log_entry *k)
{
    struct tidings_error why = {0};
    if (log_entry_check(k, &why) == 0) {
        return true;
    }
    uint64_t now = clock_monotonic_ms();
    if (now >= c->follow_say_ms) {
        c->follow_say_ms = now + SAY_AGAIN_MS;
        log_warn(LOG_NODES, "skipped a corrupt row in the store", KV("position", k->position),
                 KV("reason", why.text));
    }
    return false;
}

/* Logged at most once per interval, like the above. */
static bool follow_mounted(struct cluster *c, const struct log_entry *k)
{
    bool is_here = cluster_owned_has(c, k->uri);
    if (!is_here && !c->follow_unmounted) {
        log_warn(LOG_NODES, "changed in a mount that this node does not share", KV("uri", k->uri));
    }
    c->follow_unmounted = !is_here;
    return is_here;
}

/* Returns false if memory runs out. The node would otherwise keep a stale version as current and
 * decide other writes by it. */
static bool cluster_follow_change(void *user, const struct log_entry *k)
{
    struct cluster *c = user;
    struct following f = {.hub = c->hub, .published = c->with.published, .position = k->position};
    if (k->kind == LOG_ENTRY_DATA_LOSS && c->follow_announces) {
        log_warn(LOG_NODES, "store lost changes", KV("position", k->position));
        hub_announce_data_loss(c->hub, k->position);
        cluster_sessions_on_data_loss(c);
        c->with.ops->data_lost(c->with.user);
        return true;
    }
    if (!follow_is_whole(c, k)) {
        return true;
    }
    if (k->kind == LOG_ENTRY_SESSION) {
        cluster_sessions_migrated(c, k->uri);
        return true;
    }
    if (k->kind == LOG_ENTRY_ANNOUNCED && owned_uri_is(k->uri)) {
        c->with.ops->task_changed(c->with.user, k->uri);
    }
    f.was_mute = k->kind == LOG_ENTRY_PUBLISHED && k->removed &&
                 published_is_mute(c->with.published, k->uri);
    int rc = k->kind == LOG_ENTRY_PUBLISHED ? follow_published(c, k) : 0;
    if (rc < 0 || (k->kind == LOG_ENTRY_MOUNTED && !follow_mounted(c, k))) {
        return rc != TIDINGS_E_NOMEM;
    }
    if (!c->follow_announces) {
        return true; /* it is in the rebuilt log */
    }
    if (k->kind == LOG_ENTRY_ENTITY && k->position == c->follow_moved) {
        return true; /* announced when it left */
    }
    if (k->kind == LOG_ENTRY_MOVED) {
        f.position = c->follow_moved = k->position + 1; /* both halves */
    }
    if (!log_entry_describe(k, c->with.has_entities, follow_announce, &f)) {
        hub_overflow(c->hub);
    }
    return true;
}

/* Runs before any client can read the data again: following the data loss sent them `truncated`. */
static int cluster_follow_reread(void *user, struct store *store, struct tidings_error *err)
{
    struct cluster *c = user;
    return published_reread(c->with.published, store, c->with.ops->may_serve, c->with.user, err);
}

static void cluster_follow_applied(void *user, uint64_t position)
{
    struct cluster *c = user;
    hub_announce_applied(c->hub, position);
}

static void cluster_follow_unreachable(void *user, bool is_unreachable)
{
    struct cluster *c = user;
    hub_set_store_unreachable(c->hub, is_unreachable);
    c->with.ops->reach_changed(c->with.user, is_unreachable);
    if (!is_unreachable) {
        cluster_announce_again(c);
    }
}

static int follow_run_newest(struct store_job *job, struct entities *e)
{
    struct cluster *c = list_entry(job, struct cluster, newest_job);
    struct store *store = entities_store(e);
    int rc = store->ops->newest(store, &c->newest, &job->err);
    return rc == 0 && c->newest > store->ops->followed(store)
               ? commit_thread_follow_now(c->commit_thread, &job->err)
               : rc;
}

static void follow_on_newest(struct store_job *job, int code)
{
    struct cluster *c = list_entry(job, struct cluster, newest_job);
    hub_newest(c->hub, code, c->newest, &job->err);
}

/* On the hub's thread. */
static void cluster_follow_ask_newest(void *user)
{
    struct cluster *c = user;
    c->newest_job = (struct store_job){.run = follow_run_newest, .done = follow_on_newest};
    list_init(&c->newest_job.message.link);
    commit_thread_submit(c->commit_thread, &c->newest_job);
}

int cluster_follow_open(struct cluster *c, struct tidings_error *err)
{
    const struct commit_thread_follower follower = {
        .user = c,
        .max_cached = c->with.stale_cache,
        .change = cluster_follow_change,
        .reread = cluster_follow_reread,
        .applied = cluster_follow_applied,
        .unreachable = cluster_follow_unreachable,
    };
    hub_on_shared(c->hub, cluster_announce, c);
    hub_on_ask_newest(c->hub, cluster_follow_ask_newest, c);
    return commit_thread_on_follow(c->commit_thread, &follower, err);
}
