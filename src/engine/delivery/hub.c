/* SPDX-License-Identifier: MIT
 *
 * The hub begins and ends; hands rates and rules to all workers; and reads from the log what
 * changed since a cursor, for those who come back.
 */
#include "engine/delivery/hub.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub_internal.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/options.h"
#include "engine/protocol/feature.h"
#include "engine/worker.h"
#include "store/change.h"
#include "store/sqlite_files.h"

/* -------------------------------------------------------------------------------------------------
 * Runs functions on the hub on behalf of any thread, before the hub's own thread runs, while it
 * does, and after.
 *
 * While the hub runs, its thread does them. While it does not, whoever holds the hub's mutex
 * (recursive) may act in its stead. A letter to a running hub is sent while holding it, and the hub
 * stops while holding it, so that none is sent to a hub that has emptied its mailbox for the last
 * time.
 */

/* ---- holding --------------------------------------------------------------------------------- */

static int hub_hold_init(struct hub *hub, struct tidings_error *err)
{
    pthread_mutexattr_t attr;
    bool good = pthread_mutexattr_init(&attr) == 0;
    if (good) {
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
        good = pthread_mutex_init(&hub->mutex, &attr) == 0;
        pthread_mutexattr_destroy(&attr);
    }
    hub->has_mutex = good;
    return good ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void hub_hold_deinit(struct hub *hub)
{
    if (hub->has_mutex) {
        pthread_mutex_destroy(&hub->mutex);
    }
}

void hub_hold(struct hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
}

void hub_release(struct hub *hub)
{
    pthread_mutex_unlock(&hub->mutex);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool is_running(struct hub *hub)
{
    return __atomic_load_n(&hub->running, __ATOMIC_ACQUIRE);
}

void hub_set_running(struct hub *hub, bool running)
{
    hub_hold(hub);
    if (running) {
        __atomic_store_n(&hub->thread, pthread_self(), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&hub->running, running, __ATOMIC_RELEASE);
    if (!running) {
        mailbox_drain(hub->mailbox); /* somebody may wait for the answer */
        hub_announce_unpark(hub, true);
        hub_newest_end(hub);
    }
    hub_release(hub);
}

bool hub_send(struct hub *hub, struct letter *letter)
{
    hub_hold(hub);
    bool running = is_running(hub);
    if (running) {
        mailbox_send(hub->mailbox, letter);
    }
    hub_release(hub);
    return running;
}

/* The hub whose worker runs on this thread. */
static _Thread_local const struct hub *worker_of;

void hub_adopt_thread(struct hub *hub)
{
    worker_of = hub;
}

bool hub_is_ours(struct hub *hub)
{
    return worker_of == hub || hub_is_here(hub);
}

bool hub_is_here(struct hub *hub)
{
    return is_running(hub) &&
           pthread_equal(__atomic_load_n(&hub->thread, __ATOMIC_RELAXED), pthread_self());
}

/* Something to do for another thread, which waits in a blocking mailbox for the outcome. */
struct hub_task {
    struct letter letter;
    struct letter answer;
    struct mailbox *waiter;
    hub_fn fn;
    void *arg;
    int code;
    struct tidings_error err;
};

static void answer_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    *(bool *)owner = true;
}

static void answer_drop(struct letter *letter)
{
    (void)letter; /* lies with whoever waits */
}

static void hub_task_deliver(struct letter *letter, void *owner)
{
    struct hub_task *task = list_entry(letter, struct hub_task, letter);
    task->code = task->fn(owner, task->arg, &task->err);
    mailbox_send(task->waiter, &task->answer);
}

static void hub_task_drop(struct letter *letter)
{
    struct hub_task *task = list_entry(letter, struct hub_task, letter);
    task->code = tidings_fail(&task->err, TIDINGS_E_CLOSED, "the server is stopping");
    mailbox_send(task->waiter, &task->answer);
}

static int wait_for(struct hub_task *task, bool *answered, struct tidings_error *err)
{
    while (!*answered) {
        mailbox_wait(task->waiter, -1);
    }
    if (task->code < 0 && err) {
        *err = task->err;
    }
    return task->code;
}

int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err)
{
    if (hub_is_here(hub)) {
        return fn(hub, arg, err);
    }
    bool answered = false;
    struct hub_task task = {.fn = fn, .arg = arg};
    task.letter.deliver = hub_task_deliver;
    task.letter.drop = hub_task_drop;
    task.answer.deliver = answer_deliver;
    task.answer.drop = answer_drop;
    task.waiter = mailbox_create_blocking(&answered, err);
    if (!task.waiter) {
        return TIDINGS_E_NOMEM;
    }
    int rc = 0;
    hub_hold(hub);
    if (!is_running(hub)) {
        rc = fn(hub, arg, err);
        hub_release(hub);
    } else {
        mailbox_send(hub->mailbox, &task.letter);
        hub_release(hub);
        rc = wait_for(&task, &answered, err);
    }
    mailbox_close(task.waiter);
    mailbox_unref(task.waiter);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Tools and prompts of the hub (features), and its list_changed notifications: which lists changed,
 * coalesced to at most one notification per period.
 */

/* ---- told at most once per period ------------------------------------------------------------ */

static void hub_features_tell(struct hub_list *list)
{
    hub_publish(list->hub, list->notice);
    loop_timer_start(list->timer, list->hub->options.list_changed_ms, 0);
}

static void on_period(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct hub_list *list = user;
    if (list->is_pending) {
        list->is_pending = false;
        hub_features_tell(list);
    }
}

/* CHANGE_LIST, CHANGE_TOOLS or CHANGE_PROMPTS happened. */
static bool hub_lists_open(struct hub *hub)
{
    bool good = true;
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        struct hub_list *list = &hub->lists[i];
        list->hub = hub;
        list->notice = (enum change_notice)i;
        list->timer = loop_timer_open(hub->loop, on_period, list);
        good = good && list->timer;
    }
    return good;
}

static void hub_lists_close(struct hub *hub)
{
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        loop_timer_close(hub->lists[i].timer);
    }
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(hub->features[i]);
    }
}

void hub_list_changed(struct hub *hub, enum change_notice notice)
{
    struct hub_list *list = &hub->lists[notice];
    if (!hub->options.list_changed || !__atomic_load_n(&hub->running, __ATOMIC_ACQUIRE)) {
        return;
    }
    if (loop_timer_is_running(list->timer)) {
        list->is_pending = true;
    } else {
        hub_features_tell(list);
    }
}

/* ---- features -------------------------------------------------------------------------------- */

struct features_letter {
    struct letter letter;
    enum feature_kind kind;
    struct feature_list *list;
};

static void features_deliver(struct letter *letter, void *owner)
{
    struct features_letter *l = list_entry(letter, struct features_letter, letter);
    handlers_set_features(owner, l->kind, l->list);
    mem_free(l);
}

static void features_drop(struct letter *letter)
{
    struct features_letter *l = list_entry(letter, struct features_letter, letter);
    feature_list_unref(l->list);
    mem_free(l);
}

/* Takes `next`, also on failure: then nothing has changed. */
static int swap_features(struct hub *hub, enum feature_kind kind, struct feature_list *next,
                         struct tidings_error *err)
{
    struct list letters;
    list_init(&letters);
    bool good = next != NULL;
    for (size_t i = 0; i < hub->worker_count && good; i++) {
        struct features_letter *l = mem_zalloc(sizeof(*l));
        good = l != NULL;
        if (l) {
            l->letter.deliver = features_deliver;
            l->letter.drop = features_drop;
            l->kind = kind;
            l->list = feature_list_ref(next);
            list_append(&letters, &l->letter.link);
        }
    }
    size_t i = 0;
    list_each (it, after, &letters) {
        struct letter *letter = list_entry(it, struct letter, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub->workers[i++]->mailbox, letter);
        } else {
            features_drop(letter);
        }
    }
    if (!good) {
        feature_list_unref(next);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    feature_list_unref(hub->features[kind]);
    hub->features[kind] = next;
    if (kind == FEATURE_TOOL || kind == FEATURE_PROMPT) {
        hub_list_changed(hub, kind == FEATURE_TOOL ? CHANGE_TOOLS : CHANGE_PROMPTS);
    }
    return 0;
}

static const char *const kind_names[FEATURE_KINDS] = {"tool", "prompt", "completion",
                                                      "list of children"};

static int hub_features_add_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    struct feature *f = arg;
    const struct feature_list *old = hub->features[f->kind];
    if (feature_find(old, f->name)) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "there is a %s '%.*s' already",
                            kind_names[f->kind], STR_ARG(f->name));
    }
    if (old && old->count >= HUB_MAX_FEATURES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "at most %u %ss can be offered", HUB_MAX_FEATURES,
                            kind_names[f->kind]);
    }
    return swap_features(hub, f->kind, feature_list_derive(old, f, STR_EMPTY), err);
}

struct removal {
    enum feature_kind kind;
    struct tidings_str name;
};

static int hub_features_remove_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    const struct removal *r = arg;
    const struct feature_list *old = hub->features[r->kind];
    if (!feature_find(old, r->name)) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no %s '%.*s'", kind_names[r->kind],
                            STR_ARG_MAX(r->name, 128));
    }
    return swap_features(hub, r->kind, feature_list_derive(old, NULL, r->name), err);
}

int hub_add_feature(struct hub *hub, struct feature *feature, struct tidings_error *err)
{
    int rc = hub_run_on(hub, hub_features_add_now, feature, err);
    feature_unref(feature);
    return rc;
}

int hub_remove_feature(struct hub *hub, enum feature_kind kind, struct tidings_str name,
                       struct tidings_error *err)
{
    struct removal r = {kind, name};
    return hub_run_on(hub, hub_features_remove_now, &r, err);
}

struct feature_list *hub_features(struct hub *hub, enum feature_kind kind)
{
    return feature_list_ref(hub->features[kind]);
}

uint64_t hub_list_period(const struct hub *hub)
{
    return hub->options.list_changed_ms;
}

/* -------------------------------------------------------------------------------------------------
 * What the hub serves: resources and templates that are registered, providers that are mounted.
 * Each change of it is a new snapshot, which every worker gets.
 */

struct catalog_letter {
    struct letter letter;
    struct catalog *catalog;
    size_t len;
    char uri[]; /* that came or went; empty: of no list */
};

static void catalog_deliver(struct letter *letter, void *owner)
{
    struct catalog_letter *l = list_entry(letter, struct catalog_letter, letter);
    catalog_set_current(owner, l->catalog);
    if (l->len > 0) {
        list_changed_touch(owner, tidings_strn(l->uri, l->len), STR_EMPTY);
    }
    mem_free(l);
}

static void catalog_drop(struct letter *letter)
{
    struct catalog_letter *l = list_entry(letter, struct catalog_letter, letter);
    catalog_unref(l->catalog);
    mem_free(l);
}

/* `uri`: what came or went, a resource or template; empty: neither. */
static void swap_catalog(struct hub *hub, struct catalog *next, struct tidings_str uri)
{
    catalog_unref(hub->catalog);
    hub->catalog = next;
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct catalog_letter *l = mem_zalloc(sizeof(*l) + uri.len);
        if (!l) {
            continue; /* the worker keeps the older snapshot until the next one */
        }
        l->letter.deliver = catalog_deliver;
        l->letter.drop = catalog_drop;
        l->catalog = catalog_ref(next);
        l->len = uri.len;
        if (uri.len > 0) {
            memcpy(l->uri, uri.ptr, uri.len);
        }
        mailbox_send(hub->workers[i]->mailbox, &l->letter);
    }
}

static int hub_catalog_add_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    struct catalog_entry *entry = arg;
    int rc = catalog_check(hub->catalog, entry, err);
    if (rc < 0) {
        return rc;
    }
    struct catalog *next = catalog_derive(hub->catalog, entry, NULL, STR_EMPTY);
    if (!next) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    swap_catalog(hub, next, entry->about->uri);
    hub_list_changed(hub, CHANGE_LIST);
    return 0;
}

static int hub_catalog_remove_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    struct tidings_str uri = *(struct tidings_str *)arg;
    struct catalog *next = catalog_derive(hub->catalog, NULL, NULL, uri);
    if (!next) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (next->resources.count == hub->catalog->resources.count &&
        next->templates.count == hub->catalog->templates.count) {
        catalog_unref(next);
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "nothing is registered as '%.*s'",
                            STR_ARG(uri));
    }
    swap_catalog(hub, next, uri);
    hub_list_changed(hub, CHANGE_LIST);
    return 0;
}

int hub_add_entry(struct hub *hub, struct catalog_entry *entry, struct tidings_error *err)
{
    int rc = hub_run_on(hub, hub_catalog_add_now, entry, err);
    catalog_entry_unref(entry);
    return rc;
}

int hub_remove_entry(struct hub *hub, struct tidings_str uri, struct tidings_error *err)
{
    return hub_run_on(hub, hub_catalog_remove_now, &uri, err);
}

struct watch_hook_change {
    struct tidings_str text;
    struct watch_hook *hook;
};

static int set_hook_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    const struct watch_hook_change *change = arg;
    if (change->hook && hub->catalog->hooks.count >= WATCH_HOOKS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "at most %u watch hooks are allowed",
                            WATCH_HOOKS_MAX);
    }
    struct catalog *next = catalog_derive_hook(hub->catalog, change->hook, change->text);
    if (!next) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    swap_catalog(hub, next, STR_EMPTY);
    return 0;
}

int hub_set_hook(struct hub *hub, struct tidings_str text, struct watch_hook *hook,
                 struct tidings_error *err)
{
    struct watch_hook_change change = {text, hook};
    int rc = hub_run_on(hub, set_hook_now, &change, err);
    watch_hook_unref(hook);
    return rc;
}

int hub_mount(struct hub *hub, const struct tidings_provider_ops *ops, struct tidings_str prefix,
              struct tidings_str config, struct tidings_provider **ret, struct tidings_error *err)
{
    if (__atomic_load_n(&hub->running, __ATOMIC_ACQUIRE) && !hub_is_here(hub)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "mount '%.*s' before the server runs",
                            STR_ARG(prefix));
    }
    for (size_t i = 0; i < hub->catalog->mount_count; i++) {
        if (str_eq(hub->catalog->mounts[i]->prefix, prefix)) {
            return tidings_fail(err, TIDINGS_E_EXISTS, "'%.*s' is mounted twice", STR_ARG(prefix));
        }
    }
    struct tidings_provider *p = NULL;
    int rc = provider_create(ops, &hub->host, prefix, config, &p, err);
    if (rc < 0) {
        return rc;
    }
    struct catalog *next = catalog_derive(hub->catalog, NULL, p, STR_EMPTY);
    if (!next) {
        provider_destroy(p);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    swap_catalog(hub, next, STR_EMPTY);
    if (ret) {
        *ret = p;
    }
    return 0;
}

static bool is_mounted(const struct catalog *c, const struct tidings_provider *p)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        if (c->mounts[i] == p) {
            return true;
        }
    }
    return false;
}

void hub_unmount_new(struct hub *hub, const struct catalog *before)
{
    struct catalog *now = catalog_ref(hub->catalog);
    struct catalog *next = catalog_derive(now, NULL, NULL, STR_EMPTY);
    if (next) { /* without memory they stay until the hub goes */
        size_t kept = 0;
        for (size_t i = 0; i < next->mount_count; i++) {
            if (is_mounted(before, next->mounts[i])) {
                next->mounts[kept++] = next->mounts[i];
            }
        }
        next->mount_count = kept;
        swap_catalog(hub, next, STR_EMPTY);
        for (size_t i = 0; i < now->mount_count; i++) {
            if (!is_mounted(before, now->mounts[i])) {
                provider_destroy(now->mounts[i]);
            }
        }
    }
    catalog_unref(now);
}

/* ---------------------------------------------------------------------------------------------- */

#define POOL_THREADS 2u
#define POOL_WAITING 1024u

/* ---- rates: to the hub first, which knows all workers ---------------------------------------- */

struct rate_letter {
    struct letter letter;
    uint64_t ms;
    struct tidings_str uri;
};

static void rate_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct rate_letter, letter));
}

static struct rate_letter *rate_create(struct tidings_str uri, uint64_t ms,
                                       void (*deliver)(struct letter *, void *))
{
    struct rate_letter *l = mem_zalloc(sizeof(*l) + uri.len);
    if (l) {
        char *at = (char *)(l + 1);
        l->letter.deliver = deliver;
        l->letter.drop = rate_drop;
        l->ms = ms;
        l->uri = str_pack(&at, uri);
    }
    return l;
}

static void rate_on_worker(struct letter *letter, void *owner)
{
    struct rate_letter *l = list_entry(letter, struct rate_letter, letter);
    delivery_set_rate(owner, l->uri, l->ms);
    mem_free(l);
}

static void rate_on_hub(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct rate_letter *l = list_entry(letter, struct rate_letter, letter);
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rate_letter *copy = rate_create(l->uri, l->ms, rate_on_worker);
        if (copy) {
            mailbox_send(hub->workers[i]->mailbox, &copy->letter);
        }
    }
    mem_free(l);
}

int hub_set_rate(struct hub *hub, struct tidings_str uri, uint64_t ms, struct tidings_error *err)
{
    struct rate_letter *l = rate_create(uri, ms, rate_on_hub);
    if (!l) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mailbox_send(hub->mailbox, &l->letter);
    return 0;
}

/* ---- rules of subscriptions ------------------------------------------------------------------ */

struct rules_letter {
    struct letter letter;
    struct option_rules *rules;
};

static void rules_drop(struct letter *letter)
{
    struct rules_letter *l = list_entry(letter, struct rules_letter, letter);
    option_rules_unref(l->rules);
    mem_free(l);
}

static void rules_deliver(struct letter *letter, void *owner)
{
    struct rules_letter *l = list_entry(letter, struct rules_letter, letter);
    delivery_set_rules(owner, option_rules_ref(l->rules));
    rules_drop(letter);
}

int hub_set_rules(struct hub *hub, struct option_rules *rules, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct rules_letter *l = mem_zalloc(sizeof(*l));
        if (!l) {
            rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
            continue;
        }
        l->letter.deliver = rules_deliver;
        l->letter.drop = rules_drop;
        l->rules = option_rules_ref(rules);
        mailbox_send(hub->workers[i]->mailbox, &l->letter);
    }
    return rc;
}

/* ---- catching up ----------------------------------------------------------------------------- */

static bool hub_collect(void *user, const struct changelog_row *row)
{
    struct hub_catchup *c = user;
    c->changes[c->count] = *row;
    c->changes[c->count++].change = change_ref(row->change);
    return true;
}

static bool count_one(void *user, const struct changelog_row *row)
{
    (void)row;
    ++*(size_t *)user;
    return true;
}

static void catchup_returned(struct letter *letter, void *owner)
{
    struct hub_catchup *c = list_entry(letter, struct hub_catchup, letter);
    c->done(c, owner);
}

static void catchup_drop(struct letter *letter)
{
    hub_catchup_free(list_entry(letter, struct hub_catchup, letter));
}

static void catchup_deliver(struct letter *letter, void *owner)
{
    struct hub_catchup *c = list_entry(letter, struct hub_catchup, letter);
    struct hub *hub = owner;
    struct changelog *log = hub->log;
    c->seq = log->ops->last(log);
    c->truncated = c->since < log->ops->floor(log) || c->since > c->seq;
    size_t found = 0;
    if (!c->truncated) {
        log->ops->each(log, c->since, count_one, &found);
    }
    if (found > 0) {
        c->changes = mem_alloc(found * sizeof(*c->changes));
        if (c->changes) {
            log->ops->each(log, c->since, hub_collect, c);
        } else {
            c->truncated = true;
        }
    }
    c->letter.deliver = catchup_returned;
    mailbox_send(c->worker_mailbox, &c->letter);
}

struct hub_catchup *hub_catchup(struct worker *worker, uint64_t since,
                                void (*done)(struct hub_catchup *, struct worker *), void *user)
{
    struct hub_catchup *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->letter.deliver = catchup_deliver;
    c->letter.drop = catchup_drop;
    c->hub = worker->hub;
    c->worker_mailbox = mailbox_ref(worker->mailbox);
    c->done = done;
    c->user = user;
    c->since = since;
    mailbox_send(worker->hub->mailbox, &c->letter);
    return c;
}

void hub_catchup_free(struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        change_unref(c->changes[i].change);
    }
    mem_free(c->changes);
    mailbox_unref(c->worker_mailbox);
    mem_free(c);
}

/* ---- what providers announce ----------------------------------------------------------------- */

static struct hub *host_hub(const struct provider_host *host)
{
    return (struct hub *)((uintptr_t)host - offsetof(struct hub, host));
}

static int host_changed(const struct provider_host *host, const struct tidings_provider *p,
                        const struct tidings_change *change, struct tidings_error *err)
{
    struct hub *hub = host_hub(host);
    return provider_nodes(p) == MOUNT_OWNED ? hub_announce_owned(hub, p, change, err)
                                            : hub_announce(hub, change, err);
}

static void host_missed(const struct provider_host *host, const struct tidings_provider *p)
{
    struct hub *hub = host_hub(host);
    if (provider_nodes(p) == MOUNT_OWNED) {
        (void)hub_announce_owned(hub, p, NULL, NULL);
    } else {
        hub_announce_missed(hub, p->prefix);
    }
}

/* ---- begin and end --------------------------------------------------------------------------- */

struct hub *hub_create(struct loop *loop, struct shared *shared, struct tidings_error *err)
{
    struct hub *hub = mem_zalloc(sizeof(*hub));
    if (!hub) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hub->loop = loop;
    hub->shared = shared;
    hub->max_announced = HUB_MAX_ANNOUNCED;
    map_init(&hub->watches);
    hub->mailbox = mailbox_create(loop, hub, err);
    hub->pool = pool_create(POOL_THREADS, POOL_WAITING, err);
    hub->host = (struct provider_host){host_changed, host_missed, loop, hub->pool};
    bool has_lists = hub_lists_open(hub);
    hub->watch_timer = loop_timer_open(loop, hub_watch_timer, hub);
    hub->parked_timer = loop_timer_open(loop, hub_announce_timer, hub);
    hub->await_timer = loop_timer_open(loop, hub_watch_await_timer, hub);
    list_init(&hub->awaiting);
    list_init(&hub->asking);
    list_init(&hub->asked);
    list_init(&hub->parked);
    bool merges = hub_merge_init(&hub->merge) == 0;
    list_init(&hub->arming);
    hub->catalog = catalog_derive(NULL, NULL, NULL, STR_EMPTY);
    if (!hub->mailbox || !hub->pool || !has_lists || !hub->watch_timer || !hub->parked_timer ||
        !hub->await_timer || !merges || !hub->catalog || hub_hold_init(hub, err) < 0) {
        hub_destroy(hub);
        return NULL;
    }
    return hub;
}

int hub_start(struct hub *hub, const struct hub_options *options, struct tidings_error *err)
{
    hub->options = *options;
    if (options->max_announced > 0) {
        __atomic_store_n(&hub->max_announced, options->max_announced, __ATOMIC_RELAXED);
    }
    hub->log = options->durable ? options->durable : changelog_memory_create(&options->log, err);
    return hub->log ? 0 : TIDINGS_E_NOMEM;
}

void hub_undo_start(struct hub *hub)
{
    __atomic_fetch_add(&hub->undone, 1, __ATOMIC_RELAXED);
    if (hub->log) {
        hub->log->ops->destroy(hub->log);
        hub->log = NULL;
    }
    __atomic_store_n(&hub->reached, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&hub->lost_upto, 0, __ATOMIC_SEQ_CST);
    hub_set_store_unreachable(hub, false);
}

void hub_destroy(struct hub *hub)
{
    if (!hub) {
        return;
    }
    if (hub->pool) {
        pool_destroy(hub->pool);
    }
    for (size_t i = 0; hub->catalog && i < hub->catalog->mount_count; i++) {
        provider_destroy(hub->catalog->mounts[i]);
    }
    if (hub->mailbox) {
        mailbox_close(hub->mailbox);
        mailbox_unref(hub->mailbox);
    }
    hub_announce_drop_parked(hub);
    hub_merge_deinit(&hub->merge);
    hub_hold_deinit(hub);
    hub_watches_clear(hub);
    map_deinit(&hub->watches);
    hub_lists_close(hub);
    loop_timer_close(hub->watch_timer);
    loop_timer_close(hub->parked_timer);
    loop_timer_close(hub->await_timer);
    catalog_unref(hub->catalog);
    if (hub->log) {
        hub->log->ops->destroy(hub->log);
    }
    mem_free(hub->workers);
    mem_free(hub);
}

uint64_t hub_epoch(const struct hub *hub)
{
    return hub->log->ops->epoch(hub->log);
}

uint64_t hub_last(const struct hub *hub)
{
    return hub->log->ops->last(hub->log);
}

bool hub_is_durable(const struct hub *hub)
{
    return hub->log->is_durable;
}

uint64_t hub_first(const struct hub *hub)
{
    return hub->log->ops->first(hub->log);
}

bool hub_is_shared(const struct hub *hub)
{
    return hub->options.is_shared;
}

uint64_t hub_reached(const struct hub *hub)
{
    return __atomic_load_n(&hub->reached, __ATOMIC_ACQUIRE);
}

void hub_set_store_unreachable(struct hub *hub, bool is_unreachable)
{
    __atomic_store_n(&hub->is_store_unreachable, is_unreachable, __ATOMIC_RELEASE);
}

bool hub_is_store_unreachable(const struct hub *hub)
{
    return __atomic_load_n(&hub->is_store_unreachable, __ATOMIC_ACQUIRE);
}

bool hub_resume(const struct hub *hub, const struct log_cursor *c, bool is_durable, uint64_t *ret)
{
    return hub->log->ops->resume(hub->log, c->epoch, c->position, is_durable, ret);
}

bool hub_knows_epoch(const struct hub *hub, uint64_t epoch, uint64_t position)
{
    return epoch == 0 || !hub->log->ops->knows || hub->log->ops->knows(hub->log, epoch, position);
}

void hub_set_file_history(struct hub *hub, const struct file_history *history)
{
    hub->file_history = history;
}

bool hub_resume_files(const struct hub *hub, struct tidings_str scope, const struct log_cursor *c,
                      uint64_t *ret)
{
    const struct file_cursor at = {.epoch = c->epoch, .number = c->seq, .position = c->position};
    return hub->file_history && file_history_resume(hub->file_history, scope, &at, ret);
}

const struct changelog *hub_log(const struct hub *hub)
{
    return hub->log;
}

struct mailbox *hub_mailbox(struct hub *hub)
{
    return hub->mailbox;
}

struct catalog *hub_catalog(struct hub *hub)
{
    return catalog_ref(hub->catalog);
}

int hub_attach(struct hub *hub, struct worker *worker)
{
    struct worker **workers =
        mem_realloc(hub->workers, (hub->worker_count + 1) * sizeof(struct worker *));
    if (!workers) {
        return TIDINGS_E_NOMEM;
    }
    hub->workers = workers;
    hub->workers[hub->worker_count++] = worker;
    return 0;
}

size_t hub_worker_count(const struct hub *hub)
{
    return hub->worker_count;
}

struct worker *hub_worker(const struct hub *hub, size_t index)
{
    return hub->workers[index];
}

void hub_detach_all(struct hub *hub)
{
    hub->worker_count = 0;
}

void hub_forward(struct hub *hub, struct letter *letter)
{
    if (hub->worker_count > 0) {
        mailbox_send(hub->workers[0]->mailbox, letter);
    } else {
        letter->drop(letter);
    }
}
