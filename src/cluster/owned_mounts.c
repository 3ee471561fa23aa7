/* SPDX-License-Identifier: MIT
 *
 * Ownership of mounts. `struct owner` decides. Then this code asks for the lease, makes the
 * provider watch the whole mount, and writes a resync of the mount into the database.
 *
 * The commit thread owns the decisions. A timer of the server's thread triggers the checks. The hub
 * owns the watch: it receives a message and answers with a job. Changes from providers come through
 * the hub, too, and are dropped while this node does not own the mount.
 */
#include "cluster/owned_mounts.h"

#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "cluster/cluster_internal.h"
#include "cluster/postgres_nodes.h"
#include "engine/catalog/catalog.h"
#include "formats/json_write.h"
#include "store/change.h"
#include "store/commit_thread.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * When a lease may be granted, and when its holder stops acting on it.
 */

#define MARGIN(for_ms) ((for_ms) / 8) /* clocks run at slightly different rates */

bool lease_may_be_given(bool is_holder, int64_t until_ms, int64_t broke_ms, int64_t for_ms,
                        int64_t now_ms)
{
    bool is_calm = broke_ms == INT64_MIN || now_ms - broke_ms >= LEASE_MAX_MS;
    return is_calm && for_ms > 0 && for_ms <= LEASE_MAX_MS && (is_holder || until_ms <= now_ms);
}

void lease_answered(struct lease *l, bool is_given, uint64_t asked_ms, int64_t for_ms)
{
    *l = (struct lease){0};
    if (is_given) {
        l->until_ms = asked_ms + (uint64_t)(for_ms - MARGIN(for_ms));
        l->renew_ms = asked_ms + (uint64_t)for_ms / 3;
    }
}

bool lease_is_held(const struct lease *l, uint64_t now_ms)
{
    return now_ms < l->until_ms;
}

/* ---------------------------------------------------------------------------------------------- */

static void owner_lose(struct owner *o)
{
    o->lease = (struct lease){0};
    o->stage = OWNER_WAITING;
}

bool owner_must_ask(const struct owner *o, uint64_t now_ms)
{
    return now_ms >= o->ask_ms;
}

void owner_check_lease(struct owner *o, uint64_t now_ms)
{
    if (o->stage != OWNER_WAITING && !lease_is_held(&o->lease, now_ms)) {
        owner_lose(o);
    }
}

void owner_answered(struct owner *o, bool is_given, int64_t left_ms, uint64_t asked_ms,
                    uint64_t now_ms)
{
    owner_check_lease(o, now_ms); /* the previous term may have ended: then this is another one */
    if (asked_ms <= o->void_ms) {
        return; /* it may have been released since, and granted to another node */
    }
    lease_answered(&o->lease, is_given, asked_ms, OWNER_LEASE_MS);
    if (!is_given) {
        bool is_soon = left_ms >= 0 && left_ms < (int64_t)OWNER_ASK_MS;
        o->ask_ms = now_ms + (is_soon ? (uint64_t)left_ms : OWNER_ASK_MS);
        owner_lose(o);
        return;
    }
    o->ask_ms = o->lease.renew_ms;
    if (!lease_is_held(&o->lease, now_ms)) { /* the answer took too long */
        owner_lose(o);
    } else if (o->stage == OWNER_WAITING) {
        o->stage = OWNER_STARTING;
        o->term++;
    }
}

void owner_unanswered(struct owner *o, uint64_t now_ms)
{
    owner_check_lease(o, now_ms);
    o->ask_ms = now_ms + OWNER_ASK_MS;
}

static bool owner_is_at(const struct owner *o, enum owner_stage stage, uint64_t term,
                        uint64_t now_ms)
{
    return o->stage == stage && o->term == term && lease_is_held(&o->lease, now_ms);
}

void owner_started(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (owner_is_at(o, OWNER_STARTING, term, now_ms)) {
        o->stage = OWNER_ENTERING;
    }
}

void owner_entered(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (owner_is_at(o, OWNER_ENTERING, term, now_ms)) {
        o->stage = OWNER_OWNING;
    }
}

void owner_give_up(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (o->stage != OWNER_WAITING && o->term == term) {
        owner_lose(o);
        o->ask_ms = now_ms + OWNER_GIVEN_UP_MS;
        o->void_ms = now_ms;
    }
}

bool owner_may_enter(const struct owner *o, uint64_t term, uint64_t now_ms)
{
    return owner_is_at(o, OWNER_ENTERING, term, now_ms) ||
           owner_is_at(o, OWNER_OWNING, term, now_ms); /* the resync may have to be written again */
}

bool owner_may_announce(const struct owner *o, uint64_t now_ms)
{
    return o->stage == OWNER_OWNING && lease_is_held(&o->lease, now_ms);
}

/* -------------------------------------------------------------------------------------------------
 * Declarations of nodes about the mounts that several of them have, `shared` or `owned`, in their
 * rows. All nodes should declare a mount alike. Nodes that read the rows find differences here.
 */

#define DECLARED_MAX 1024u /* bytes of prefixes in a node's row; further ones are not compared */

static const enum mount_nodes declared_kinds[] = {MOUNT_OWNED, MOUNT_SHARED};

static const struct catalog *declared_mounts(struct cluster *c)
{
    return __atomic_load_n(&c->mounted, __ATOMIC_ACQUIRE);
}

static void declared_write(const struct catalog *mounts, enum mount_nodes kind, size_t *bytes,
                           struct jw *w)
{
    bool is_begun = false;
    for (size_t i = 0; i < mounts->mount_count; i++) {
        const struct tidings_provider *p = mounts->mounts[i];
        if (provider_nodes(p) != kind || *bytes + p->prefix.len > DECLARED_MAX) {
            continue;
        }
        if (!is_begun) {
            is_begun = true;
            jw_key(w, tidings_str(mount_nodes_name(kind)));
            jw_begin_array(w);
        }
        *bytes += p->prefix.len;
        jw_string(w, p->prefix);
    }
    if (is_begun) {
        jw_end_array(w);
    }
}

void cluster_declared_write(struct cluster *c, struct jw *w)
{
    const struct catalog *mounts = declared_mounts(c);
    size_t bytes = 0;
    for (size_t k = 0; mounts && k < sizeof declared_kinds / sizeof *declared_kinds; k++) {
        declared_write(mounts, declared_kinds[k], &bytes, w);
    }
}

bool cluster_declared_differs(struct cluster *c, struct tidings_str state,
                              struct mount_difference *ret)
{
    const struct catalog *mounts = declared_mounts(c);
    struct json *said = NULL;
    bool differs = false;
    if (!mounts || mounts->mount_count == 0 || jv_parse(state, 8, &said, NULL) < 0) {
        return false;
    }
    for (size_t k = 0; k < sizeof declared_kinds / sizeof *declared_kinds; k++) {
        const struct json *prefixes = jv_get(said, mount_nodes_name(declared_kinds[k]));
        for (size_t i = 0; !differs && i < jv_count(prefixes); i++) {
            struct tidings_str prefix = jv_str(jv_at(prefixes, i));
            const struct tidings_provider *p = catalog_mount(mounts, prefix);
            differs = p && str_eq(p->prefix, prefix) && provider_nodes(p) != declared_kinds[k];
            if (differs) {
                *ret = (struct mount_difference){p->prefix, provider_nodes(p), declared_kinds[k]};
            }
        }
    }
    jv_unref(said);
    return differs;
}

/* ---------------------------------------------------------------------------------------------- */

#define LOOK_MS 500u
#define TOLD_MAX 2048u /* bytes of prefixes in a node's row */
#define LEASE_NAME_MAX 80u

enum watch_state { WATCH_NONE, WATCH_STARTING, WATCH_STARTED };

struct owned_mount {
    struct cluster_owned *all;
    const struct tidings_provider *provider;
    char *scope; /* in the form that reports lost changes below the prefix */
    char lease[LEASE_NAME_MAX];
    /* commit thread */
    struct owner owner;
    enum watch_state watch;
    uint64_t started_ms;    /* WATCH_STARTING: time of the request */
    struct store_job enter; /* writes the resync; under way while is_busy */
    bool is_busy, is_void;
    uint64_t enter_term, position;
    bool has_failed; /* to watch, and that was logged */
    /* atomic */
    bool is_watched; /* changes from its provider count */
    bool is_owned;   /* for queries */
    bool has_missed; /* a change could not be announced */
};

struct cluster_owned {
    struct cluster *cluster;
    struct loop_timer *timer;
    struct store_job check; /* under way while is_busy, atomic */
    bool is_busy;
    char holder[17];
    bool is_open; /* changes only while the hub does not run */
    size_t count;
    struct owned_mount mounts[];
};

static struct tidings_str owned_prefix(const struct owned_mount *m)
{
    return m->provider->prefix;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* The hub has answered. */
struct owned_answer {
    struct store_job job;
    struct owned_mount *mount;
    int code;
    struct tidings_error err;
};

static void owned_go_on(struct owned_mount *m);

static void owned_release(struct owned_mount *m, struct store *store)
{
    (void)postgres_release_lease(store, tidings_str(m->lease), tidings_str(m->all->holder), NULL);
}

/* It cannot be watched here: other nodes may try. */
static void owned_fail(struct owned_mount *m, struct store *store, const char *why)
{
    if (!m->has_failed) {
        log_warn(LOG_SERVER, "mount cannot be watched: left to other nodes",
                 KV("mount", owned_prefix(m)), KV("reason", why));
    }
    m->has_failed = true;
    if (m->owner.stage != OWNER_WAITING) {
        owner_give_up(&m->owner, m->owner.term, clock_boot_ms());
        owned_release(m, store);
    }
}

/* On the commit thread. */
static int run_watching(struct store_job *job, struct entities *e)
{
    struct owned_answer *a = list_entry(job, struct owned_answer, job);
    struct owned_mount *m = a->mount;
    m->watch = a->code < 0 ? WATCH_NONE : WATCH_STARTED;
    if (a->code < 0) {
        owned_fail(m, entities_store(e), a->err.text);
    } else {
        m->has_failed = false;
    }
    owned_go_on(m);
    return 0;
}

/* The provider has the same time limit as for a subscription. It continues after that, and may be
 * done at the next check. */
static void owned_check_watch(struct owned_mount *m, struct store *store)
{
    uint64_t limit = m->all->cluster->with.watch_timeout_ms;
    if (m->watch == WATCH_STARTING && m->owner.stage == OWNER_STARTING && limit > 0 &&
        clock_boot_ms() - m->started_ms > limit) {
        owned_fail(m, store, "its provider did not start within watch-timeout");
    }
}

static void run_watching_done(struct store_job *job, int code)
{
    (void)code;
    mem_free(list_entry(job, struct owned_answer, job));
}

/* On the hub's thread. */
static void owned_on_watched(struct hub_watch_request *request, struct worker *worker)
{
    struct owned_answer *a = request->user;
    (void)worker;
    a->code = request->items[0].code;
    a->err = request->items[0].err;
    a->job = (struct store_job){.run = run_watching, .done = run_watching_done};
    list_init(&a->job.message.link);
    struct cluster_owned *all = a->mount->all;
    hub_watch_request_free(request);
    if (all->is_open) {
        commit_thread_submit(all->cluster->commit_thread, &a->job);
    } else { /* its start failed, and the provider may have been destroyed */
        if (a->code == 0) {
            hub_unwatch_owners(all->cluster->hub, tidings_str(a->mount->scope + 1));
        }
        mem_free(a);
    }
}

static void owned_watch_dropped(struct hub_watch_request *request)
{
    mem_free(request->user);
}

/* Without memory the next check tries again. */
static void owned_watch(struct owned_mount *m)
{
    struct owned_answer *a = mem_zalloc(sizeof(*a));
    struct hub_watch_request *request =
        a ? hub_watch_request_create_owners(m->all->cluster->hub, owned_prefix(m)) : NULL;
    if (!request) {
        mem_free(a);
        return;
    }
    a->mount = m;
    request->user = a;
    request->done = owned_on_watched;
    request->dropped = owned_watch_dropped;
    m->watch = WATCH_STARTING;
    m->started_ms = clock_boot_ms();
    hub_watch_request_send(request);
}

/* ---- everybody has to look again ------------------------------------------------------------- */

static int run_enter(struct store_job *job, struct entities *e)
{
    struct owned_mount *m = list_entry(job, struct owned_mount, enter);
    struct store *store = entities_store(e);
    const struct tidings_change change = {.uri = tidings_str(m->scope)};
    m->is_void = !owner_may_enter(&m->owner, m->enter_term, clock_boot_ms());
    int rc = m->is_void
                 ? 0
                 : store->ops->announce(store, LOG_ENTRY_MOUNTED, &change, &m->position, &job->err);
    job->is_fatal = rc < 0;
    return rc;
}

static void owned_on_entered(struct store_job *job, int code)
{
    struct owned_mount *m = list_entry(job, struct owned_mount, enter);
    bool was_owned = m->owner.stage == OWNER_OWNING;
    m->is_busy = false;
    if (code < 0) {
        cluster_owned_overflow(m); /* the next check tries again */
        return;
    }
    if (m->is_void) {
        return;
    }
    const struct tidings_change change = {.uri = tidings_str(m->scope)};
    (void)hub_announce_durable(m->all->cluster->hub, &change, m->position, NULL);
    owner_entered(&m->owner, m->enter_term, clock_boot_ms());
    if (!was_owned && m->owner.stage == OWNER_OWNING) {
        log_info(LOG_SERVER, "this node owns a mount", KV("mount", owned_prefix(m)));
    }
    __atomic_store_n(&m->is_owned, m->owner.stage == OWNER_OWNING, __ATOMIC_RELEASE);
}

static void owned_enter(struct owned_mount *m)
{
    if (m->is_busy) {
        return;
    }
    m->is_busy = true;
    __atomic_store_n(&m->has_missed, false, __ATOMIC_RELEASE);
    m->enter_term = m->owner.term;
    m->enter = (struct store_job){.is_write = true, .run = run_enter, .done = owned_on_entered};
    list_init(&m->enter.message.link);
    commit_thread_submit(m->all->cluster->commit_thread, &m->enter);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void owned_rest(struct owned_mount *m)
{
    __atomic_store_n(&m->is_watched, false, __ATOMIC_RELEASE);
    if (__atomic_exchange_n(&m->is_owned, false, __ATOMIC_ACQ_REL)) {
        log_info(LOG_SERVER, "this node no longer owns a mount", KV("mount", owned_prefix(m)));
    }
    if (m->watch == WATCH_STARTED) {
        hub_unwatch_owners(m->all->cluster->hub, owned_prefix(m));
        m->watch = WATCH_NONE;
    }
}

/* Performs the action of the current stage. */
static void owned_go_on(struct owned_mount *m)
{
    if (m->owner.stage == OWNER_WAITING) {
        owned_rest(m);
        return;
    }
    if (m->owner.stage == OWNER_STARTING && m->watch == WATCH_NONE) {
        owned_watch(m);
    } else if (m->owner.stage == OWNER_STARTING && m->watch == WATCH_STARTED) {
        owner_started(&m->owner, m->owner.term, clock_boot_ms());
    }
    if (m->owner.stage == OWNER_ENTERING) {
        /* Before the commit, because later changes must count. */
        __atomic_store_n(&m->is_watched, true, __ATOMIC_RELEASE);
        owned_enter(m);
    } else if (m->owner.stage == OWNER_OWNING &&
               __atomic_load_n(&m->has_missed, __ATOMIC_ACQUIRE)) {
        owned_enter(m);
    }
}

static int owned_ask(struct owned_mount *m, struct store *store, struct tidings_error *err)
{
    int64_t left = 0;
    uint64_t asked = clock_boot_ms();
    int rc = postgres_take_lease(store, tidings_str(m->lease), tidings_str(m->all->holder),
                                 OWNER_LEASE_MS, &left, err);
    if (rc >= 0) {
        owner_answered(&m->owner, rc == 1, left, asked, clock_boot_ms());
    }
    return rc < 0 ? rc : 0;
}

/* Sends no further requests after one has failed. */
static int owned_run_check(struct store_job *job, struct entities *e)
{
    struct cluster_owned *all = list_entry(job, struct cluster_owned, check);
    int rc = 0;
    for (size_t i = 0; i < all->count; i++) { /* first, because asking may take long */
        owner_check_lease(&all->mounts[i].owner, clock_boot_ms());
        owned_check_watch(&all->mounts[i], entities_store(e));
        owned_go_on(&all->mounts[i]);
    }
    for (size_t i = 0; i < all->count; i++) {
        struct owned_mount *m = &all->mounts[i];
        if (!owner_must_ask(&m->owner, clock_boot_ms())) {
            continue;
        }
        rc = rc == 0 ? owned_ask(m, entities_store(e), &job->err) : rc;
        if (rc < 0) {
            owner_unanswered(&m->owner, clock_boot_ms());
        }
        owned_go_on(m);
    }
    return rc;
}

static void owned_on_checked(struct store_job *job, int code)
{
    struct cluster_owned *all = list_entry(job, struct cluster_owned, check);
    (void)code;
    __atomic_store_n(&all->is_busy, false, __ATOMIC_RELEASE);
}

static void owned_on_timer(struct loop_timer *timer, void *user)
{
    struct cluster_owned *all = user;
    (void)timer;
    if (!__atomic_exchange_n(&all->is_busy, true, __ATOMIC_ACQ_REL)) {
        all->check = (struct store_job){.run = owned_run_check, .done = owned_on_checked};
        list_init(&all->check.message.link);
        commit_thread_submit(all->cluster->commit_thread, &all->check);
    }
}

/* ---- what providers say ---------------------------------------------------------------------- */

bool cluster_owned_may_announce(const struct owned_mount *m)
{
    return owner_may_announce(&m->owner, clock_boot_ms());
}

void cluster_owned_overflow(struct owned_mount *m)
{
    __atomic_store_n(&m->has_missed, true, __ATOMIC_RELEASE);
}

static struct owned_mount *owned_find(struct cluster_owned *all, const struct tidings_provider *p)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->mounts[i].provider == p) {
            return &all->mounts[i];
        }
    }
    return NULL;
}

/* On the hub's thread; if `change` is NULL, on any thread. */
static int owned_changed(void *user, const struct tidings_provider *p,
                         const struct tidings_change *change, struct tidings_error *err)
{
    struct cluster_owned *all = user;
    struct owned_mount *m = owned_find(all, p);
    if (!m || !__atomic_load_n(&m->is_watched, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    if (!change) {
        cluster_owned_overflow(m);
        return 0;
    }
    return all->is_open ? cluster_announce_owned(all->cluster, m, change, err) : 0;
}

/* ---- for others ------------------------------------------------------------------------------ */

bool cluster_owned_has(struct cluster *c, struct tidings_str uri)
{
    struct tidings_str at = change_is_missed_uri(uri) ? str_skip(uri, 1) : uri;
    const struct catalog *mounts = __atomic_load_n(&c->mounted, __ATOMIC_ACQUIRE);
    const struct tidings_provider *p = mounts ? catalog_mount(mounts, at) : NULL;
    return mounts ? p && p->nodes != MOUNT_LOCAL
                  : c->with.ops->nodes_of(c->with.user, at) != MOUNT_LOCAL;
}

void cluster_owned_write(struct cluster *c, struct jw *w)
{
    const struct cluster_owned *all = c->owned;
    size_t bytes = 0, others = 0;
    if (!all || all->count == 0) {
        return;
    }
    jw_key(w, STR("owns"));
    jw_begin_array(w);
    for (size_t i = 0; i < all->count; i++) {
        const struct owned_mount *m = &all->mounts[i];
        if (!__atomic_load_n(&m->is_owned, __ATOMIC_ACQUIRE)) {
            continue;
        }
        bytes += owned_prefix(m).len;
        if (bytes <= TOLD_MAX) {
            jw_string(w, owned_prefix(m));
        } else {
            others++;
        }
    }
    jw_end_array(w);
    if (others > 0) {
        jw_put_integer(w, STR("ownsMore"), (int64_t)others);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int owned_check_named(const struct catalog *mounts, const char *option,
                             const struct cluster_prefixes *list, struct tidings_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        struct tidings_str prefix = tidings_str(list->items[i]);
        const struct tidings_provider *p = catalog_mount(mounts, prefix);
        if (!p || !str_eq(p->prefix, prefix)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "--%s: nothing is mounted at '%s'", option,
                                list->items[i]);
        }
        if (p->is_durable) {
            return tidings_fail(
                err, TIDINGS_E_INVALID,
                "--%s: the database already stores '%s', and every node announces its changes",
                option, list->items[i]);
        }
    }
    return 0;
}

/* Among the nodes that name a mount alike. A hash, because a prefix may be longer than a lease
 * name. */
static int owned_init(struct owned_mount *m, struct cluster_owned *all,
                      const struct tidings_provider *p)
{
    struct sha256 version_checksum;
    unsigned char out[SHA256_BYTES];
    sha256_init(&version_checksum);
    sha256_put(&version_checksum, p->prefix.ptr, p->prefix.len);
    sha256_end(&version_checksum, out);
    int n = snprintf(m->lease, sizeof m->lease, "mount ");
    for (size_t i = 0; i < sizeof out; i++) {
        n += snprintf(m->lease + n, sizeof m->lease - (size_t)n, "%02x", out[i]);
    }
    m->all = all;
    m->provider = p;
    m->scope = mem_zalloc(p->prefix.len + 2);
    if (!m->scope) {
        return TIDINGS_E_NOMEM;
    }
    m->scope[0] = '*';
    memcpy(m->scope + 1, p->prefix.ptr, p->prefix.len);
    return 0;
}

static int owned_start(struct cluster_owned *all, struct tidings_error *err)
{
    unsigned char random[8];
    struct cluster *c = all->cluster;
    int rc = random_bytes(random, sizeof random);
    if (rc < 0) {
        return tidings_fail(err, rc, "there is no randomness");
    }
    for (size_t i = 0; i < sizeof random; i++) { /* names can be reused; this value cannot */
        (void)snprintf(all->holder + 2 * i, 3, "%02x", random[i]);
    }
    all->timer = loop_timer_open(c->with.loop, owned_on_timer, all);
    if (!all->timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    all->is_open = true;
    hub_on_owned(c->hub, owned_changed, all);
    loop_timer_start(all->timer, 0, LOOK_MS);
    return 0;
}

static int owned_open_all(struct cluster *c, const struct catalog *mounts,
                          struct tidings_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < mounts->mount_count; i++) {
        struct tidings_provider *p = mounts->mounts[i];
        enum mount_nodes nodes = c->with.ops->nodes_of(c->with.user, p->prefix);
        __atomic_store_n(&p->nodes, p->is_durable ? MOUNT_LOCAL : nodes, __ATOMIC_RELAXED);
        count += p->nodes == MOUNT_OWNED;
    }
    if (count == 0) {
        return 0;
    }
    struct cluster_owned *all = mem_zalloc(sizeof(*all) + count * sizeof(all->mounts[0]));
    if (!all) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    all->cluster = c;
    c->owned = all;
    for (size_t i = 0; i < mounts->mount_count; i++) {
        if (mounts->mounts[i]->nodes == MOUNT_OWNED &&
            owned_init(&all->mounts[all->count++], all, mounts->mounts[i]) < 0) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    return owned_start(all, err);
}

int cluster_owned_open(struct cluster *c, struct tidings_error *err)
{
    struct catalog *mounts = hub_catalog(c->hub);
    int rc = owned_check_named(mounts, "shared", &c->with.shared, err);
    rc = rc == 0 ? owned_check_named(mounts, "owned", &c->with.owned, err) : rc;
    rc = rc == 0 ? owned_open_all(c, mounts, err) : rc;
    catalog_unref(mounts);
    return rc;
}

static int run_wait(struct store_job *job, struct entities *e)
{
    (void)job;
    (void)e;
    return 0;
}

static int run_give_back(struct store_job *job, struct entities *e)
{
    struct cluster_owned *all = list_entry(job, struct cluster_owned, check);
    for (size_t i = 0; i < all->count; i++) {
        struct owned_mount *m = &all->mounts[i];
        if (m->owner.stage != OWNER_WAITING) {
            owner_give_up(&m->owner, m->owner.term, clock_boot_ms());
            owned_release(m, entities_store(e));
        }
        __atomic_store_n(&m->is_watched, false, __ATOMIC_RELEASE);
    }
    return 0;
}

/* Mounts of the program remain after a failed start, so their kind is reset. */
static void owned_undo(struct cluster *c)
{
    struct catalog *mounts = hub_catalog(c->hub);
    for (size_t i = 0; i < mounts->mount_count; i++) {
        __atomic_store_n(&mounts->mounts[i]->nodes, MOUNT_LOCAL, __ATOMIC_RELAXED);
    }
    catalog_unref(mounts);
}

void cluster_owned_close(struct cluster *c)
{
    if (!c->mounted) {
        owned_undo(c);
    }
    struct cluster_owned *all = c->owned;
    if (!all || !all->is_open) {
        return;
    }
    loop_timer_close(all->timer);
    all->timer = NULL;
    all->is_open = false;
    struct store_job nothing = {.run = run_wait};
    (void)commit_thread_run(c->commit_thread, &nothing); /* a check under way has ended */
    all->check = (struct store_job){.run = run_give_back};
    (void)commit_thread_run(c->commit_thread, &all->check);
}

void cluster_owned_destroy(struct cluster *c)
{
    struct cluster_owned *all = c->owned;
    for (size_t i = 0; all && i < all->count; i++) {
        mem_free(all->mounts[i].scope);
    }
    mem_free(all);
}
