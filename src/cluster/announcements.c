/* SPDX-License-Identifier: MIT
 *
 * Announcements of a server that shares its store with other nodes. Changes that a program or a
 * client reports go through the store, so every node announces them at the same position. This node
 * announces them after the commit, like written changes.
 *
 * Changes in a mount that only this node has (files, commands, metrics) are announced only here.
 * Changes that the provider of an owned mount reports go the same way; they are dropped if the node
 * has lost the mount when they are due (cluster/owned_mounts.h).
 *
 * If the store is unreachable, changes from the program wait in order until it is reachable again.
 * They are written before any later change. `max-announced` bounds their total size. Changes from a
 * client are tried once: the client receives the outcome after the commit (struct hub_receipt).
 * Until then they count towards the client's share of `max-announced`, as local announcements do
 * until they have a number.
 */
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/cluster_internal.h"
#include "engine/catalog/catalog.h"
#include "security/limits.h"
#include "store/change.h"
#include "store/commit_thread.h"
#include "store/store.h"

#define TRIES_MAX 8u /* if the commit fails although the store is reachable */

/* An announcement under way. Its strings follow the struct. */
struct announcing {
    struct store_job job;
    struct list link;  /* in `announcing` while it waits, or in another `taken` */
    struct list taken; /* waiting announcements that are written first */
    struct cluster *cluster;
    struct owned_mount *mount;   /* whose provider reported it; NULL: the program or a client did */
    struct hub_receipt *receipt; /* of a client that waits for the outcome, or NULL */
    bool is_clients;             /* counts towards the share of … */
    struct client_account *account; /* … its client, in the share; NULL: only to the total */
    enum log_entry_kind kind;
    bool is_dropped;
    size_t bytes;
    unsigned tries;
    uint64_t left_at, position; /* a move has both: deletion, then creation */
    struct tidings_change change;
};

/* A move is announced as two changes: a deletion and a creation. */
static struct tidings_change change_at_old_uri(const struct tidings_change *move)
{
    return (struct tidings_change){
        .uri = move->from,
        .kind = TIDINGS_CHANGE_DELETED,
        .metadata = move->metadata,
        .origin = move->origin,
        .not_subscribable = move->not_subscribable,
    };
}

static struct tidings_change change_at_new_uri(const struct tidings_change *change)
{
    struct tidings_change copy = *change;
    copy.kind = change->kind == TIDINGS_CHANGE_MOVED ? TIDINGS_CHANGE_CREATED : change->kind;
    return copy;
}

static int announce_write(struct announcing *a, struct store *store, struct tidings_error *err)
{
    struct tidings_change left = change_at_old_uri(&a->change),
                          came = change_at_new_uri(&a->change);
    a->is_dropped = a->mount && !cluster_owned_may_announce(a->mount);
    if (a->is_dropped) {
        return 0;
    }
    int rc = a->change.kind == TIDINGS_CHANGE_MOVED
                 ? store->ops->announce(store, a->kind, &left, &a->left_at, err)
                 : 0;
    return rc == 0 ? store->ops->announce(store, a->kind, &came, &a->position, err) : rc;
}

/* Waiting announcements are older than any new one, so the next job takes them. */
static int announce_waiting(struct cluster *c, struct list *taken, struct store *store,
                            struct tidings_error *err)
{
    int rc = 0;
    while (rc == 0 && !list_empty(&c->announcing)) {
        struct announcing *a = list_entry(c->announcing.next, struct announcing, link);
        list_remove(&a->link);
        list_append(taken, &a->link);
        rc = announce_write(a, store, err);
    }
    return rc;
}

static int run_announce(struct store_job *job, struct entities *e)
{
    struct announcing *a = list_entry(job, struct announcing, job);
    struct store *store = entities_store(e);
    int rc = announce_waiting(a->cluster, &a->taken, store, &job->err);
    rc = rc == 0 ? announce_write(a, store, &job->err) : rc;
    job->is_fatal = rc < 0;
    return rc;
}

/* Puts them back in front of all others. */
static void announce_wait_again(struct cluster *c, struct list *taken)
{
    list_splice(taken, &c->announcing);
    list_splice(&c->announcing, taken);
}

static void undo_announce(struct store_job *job)
{
    struct announcing *a = list_entry(job, struct announcing, job);
    announce_wait_again(a->cluster, &a->taken);
}

/* Reserves space. `who` NULL: the program. Returns false if there is none and sets `err`, for a
 * client also `why`. */
static bool announce_take(struct cluster *c, size_t bytes, const struct share_taker *who,
                          struct refusal *why, struct tidings_error *err)
{
    struct limit_counters *counters = c->with.limits;
    uint64_t most = c->with.max_announced;
    size_t *waiting = who ? &counters->in_use[LIMIT_ANNOUNCED] : &c->announced_bytes;
    bool fits = who ? share_take(counters, LIMIT_ANNOUNCED, most, bytes, who, why)
                    : __atomic_add_fetch(waiting, bytes, __ATOMIC_RELAXED) <= most;
    if (!fits && !who) {
        __atomic_sub_fetch(waiting, bytes, __ATOMIC_RELAXED);
        limit_hit(counters, LIMIT_ANNOUNCED);
    }
    if (!fits) {
        tidings_fail(err, TIDINGS_E_BUSY,
                     "change queue is full: %zu bytes pending; try again later",
                     __atomic_load_n(waiting, __ATOMIC_RELAXED));
    }
    return fits;
}

static void announce_give(struct cluster *c, size_t bytes, bool is_clients,
                          struct client_account *account)
{
    if (is_clients) {
        share_give(c->with.limits, LIMIT_ANNOUNCED, bytes, account);
    } else {
        __atomic_sub_fetch(&c->announced_bytes, bytes, __ATOMIC_RELAXED);
    }
}

static void announcing_free(struct announcing *a)
{
    announce_give(a->cluster, a->bytes, a->is_clients, a->account);
    list_remove(&a->link);
    mem_free(a);
}

static void announce_report(struct announcing *a)
{
    struct hub *hub = a->cluster->hub;
    struct tidings_change left = change_at_old_uri(&a->change),
                          came = change_at_new_uri(&a->change);
    if (a->change.kind == TIDINGS_CHANGE_MOVED) {
        (void)hub_announce_durable(hub, &left, a->left_at, NULL);
    }
    (void)hub_announce_durable(hub, &came, a->position, NULL);
}

/* The client decides whether to retry. If an unknown outcome was a commit, following finds it. */
static void announcing_answer(struct announcing *a, int code, const struct tidings_error *err)
{
    struct hub_receipt *receipt = a->receipt;
    if (code >= 0) {
        announce_report(a);
    }
    announcing_free(a);
    receipt->done(receipt, code < 0 ? code : 0, err);
}

/* Ends an announcement. If it was not committed, it waits after older ones. */
static void announcing_end(struct announcing *a, int code, const struct tidings_error *err)
{
    struct cluster *c = a->cluster;
    bool is_over = code == TIDINGS_E_CLOSED;
    if (a->receipt) {
        announcing_answer(a, code, err);
        return;
    }
    if (code < 0 && !is_over && (hub_is_store_unreachable(c->hub) || ++a->tries < TRIES_MAX)) {
        list_append(&c->announcing, &a->link); /* a possible duplicate is better than a loss */
        return;
    }
    if (code >= 0 && !a->is_dropped) {
        announce_report(a);
    } else if (code < 0 && !is_over && a->mount) {
        cluster_owned_overflow(a->mount);
    } else if (code < 0 && !is_over) {
        log_warn(LOG_NODES, "announced on this node only", KV("uri", a->change.uri),
                 KV("reason", err->text));
        (void)hub_announce(c->hub, &a->change, NULL);
    } else if (is_over && !a->mount) { /* the next owner of the mount sends `truncated` */
        c->announced_lost++;
    }
    announcing_free(a);
}

static void announcings_end(struct list *taken, int code, const struct tidings_error *err)
{
    while (!list_empty(taken)) {
        struct announcing *a = list_entry(taken->next, struct announcing, link);
        list_remove(&a->link);
        announcing_end(a, code, err);
    }
}

static void cluster_announce_on_done(struct store_job *job, int code)
{
    struct announcing *a = list_entry(job, struct announcing, job);
    struct cluster *c = a->cluster;
    struct tidings_error err = job->err;
    announcings_end(&a->taken, code, &err);
    announcing_end(a, code, &err);
    if (code < 0 && code != TIDINGS_E_CLOSED && !hub_is_store_unreachable(c->hub)) {
        cluster_announce_again(c);
    }
}

static void announcing_submit(struct announcing *a)
{
    a->job = (struct store_job){.is_write = true,
                                .run = run_announce,
                                .undo = undo_announce,
                                .done = cluster_announce_on_done};
    list_init(&a->job.message.link);
    commit_thread_submit(a->cluster->commit_thread, &a->job);
}

/* ---- those that wait ------------------------------------------------------------------------- */

static int run_again(struct store_job *job, struct entities *e)
{
    struct cluster *c = list_entry(job, struct cluster, announce_again);
    int rc = announce_waiting(c, &c->announce_taken, entities_store(e), &job->err);
    job->is_fatal = rc < 0;
    return rc;
}

static void undo_again(struct store_job *job)
{
    struct cluster *c = list_entry(job, struct cluster, announce_again);
    announce_wait_again(c, &c->announce_taken);
}

static void announced_again(struct store_job *job, int code)
{
    struct cluster *c = list_entry(job, struct cluster, announce_again);
    struct tidings_error err = job->err;
    c->is_announcing_again = false;
    announcings_end(&c->announce_taken, code, &err);
    if (code < 0 && code != TIDINGS_E_CLOSED && !hub_is_store_unreachable(c->hub)) {
        cluster_announce_again(c);
    }
}

void cluster_announce_open(struct cluster *c)
{
    list_init(&c->announcing);
    list_init(&c->announce_taken);
}

void cluster_announce_again(struct cluster *c)
{
    if (c->is_announcing_again || list_empty(&c->announcing)) {
        return;
    }
    c->is_announcing_again = true;
    c->announce_again = (struct store_job){
        .is_write = true, .run = run_again, .undo = undo_again, .done = announced_again};
    list_init(&c->announce_again.message.link);
    commit_thread_submit(c->commit_thread, &c->announce_again);
}

void cluster_announce_close(struct cluster *c)
{
    while (!list_empty(&c->announcing)) {
        struct announcing *a = list_entry(c->announcing.next, struct announcing, link);
        c->announced_lost += a->mount == NULL;
        announcing_free(a);
    }
    if (c->announced_lost > 0) {
        log_warn(LOG_NODES, "announcements lost", KV("count", c->announced_lost),
                 KV("reason", "the server ended before the store could be reached again"));
    }
}

/* Returns the kind of the mount that contains the URI. `is_local`: each node has its own mount
 * there. */
static enum log_entry_kind announce_kind(struct cluster *c, struct tidings_str uri, bool *ret_local)
{
    const struct catalog *mounts = __atomic_load_n(&c->mounted, __ATOMIC_ACQUIRE);
    const struct tidings_provider *p = mounts ? catalog_mount(mounts, uri) : NULL;
    *ret_local = !mounts || (p && !p->is_durable && p->nodes == MOUNT_LOCAL);
    return p && p->nodes != MOUNT_LOCAL ? LOG_ENTRY_MOUNTED : LOG_ENTRY_ANNOUNCED;
}

static struct announcing *announcing_create(struct cluster *c, const struct tidings_change *change,
                                            size_t bytes)
{
    struct announcing *a = mem_zalloc(bytes);
    if (!a) {
        return NULL;
    }
    a->cluster = c;
    a->bytes = bytes;
    a->change = *change;
    list_init(&a->link);
    list_init(&a->taken);
    change_pack(&a->change, (char *)(a + 1));
    return a;
}

/* Returns NULL if there is no space, like announce_take. */
static struct announcing *announcing_begin(struct cluster *c, const struct tidings_change *change,
                                           const struct share_taker *who, struct refusal *why,
                                           struct tidings_error *err)
{
    size_t bytes = sizeof(struct announcing) + change_texts_len(change);
    struct client_account *account = who ? who->account : NULL;
    if (!announce_take(c, bytes, who, why, err)) {
        return NULL;
    }
    struct announcing *a = announcing_create(c, change, bytes);
    if (!a) {
        announce_give(c, bytes, who != NULL, account);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    a->is_clients = who != NULL;
    a->account = account;
    return a;
}

int cluster_announce(void *user, const struct tidings_change *change, const struct share_taker *who,
                     struct hub_receipt *receipt, struct refusal *why, struct tidings_error *err)
{
    struct cluster *c = user;
    struct tidings_error reason = {0};
    struct refusal limit = {0};
    bool is_local = false;
    enum log_entry_kind kind = announce_kind(c, change->uri, &is_local);
    if (is_local) {
        return hub_announce_here(c->hub, change, who, why, err);
    }
    if (receipt && hub_is_store_unreachable(c->hub)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the store cannot be reached; try again later");
    }
    struct announcing *a = announcing_begin(c, change, who, &limit, &reason);
    if (!a) {
        if (!limit.is_own) { /* otherwise its client receives the error, and no resync is necessary
                              */
            hub_overflow(c->hub);
        }
        if (why) {
            *why = limit;
        }
        return tidings_fail(err, reason.code, "%s", reason.text);
    }
    a->kind = kind;
    a->receipt = receipt;
    announcing_submit(a);
    return receipt ? 1 : 0;
}

int cluster_announce_owned(struct cluster *c, struct owned_mount *mount,
                           const struct tidings_change *change, struct tidings_error *err)
{
    struct tidings_error why = {0};
    struct announcing *a = announcing_begin(c, change, NULL, NULL, &why);
    if (!a) {
        cluster_owned_overflow(mount);
        return tidings_fail(err, why.code, "%s", why.text);
    }
    a->mount = mount;
    a->kind = LOG_ENTRY_MOUNTED;
    announcing_submit(a);
    return 0;
}
