/* SPDX-License-Identifier: MIT
 *
 * The registry of the hub: everything the server serves. Resources, templates and mounted providers
 * are in the catalog; tools, prompts and completions are features. Each change makes a new
 * snapshot, which every worker gets, and a list_changed notification.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub_internal.h"
#include "engine/delivery/list_changed.h"
#include "engine/protocol/feature.h"
#include "engine/worker.h"

/* One list. Clients get at most one notification of its changes per period, and the last change
 * always causes one. */
struct hub_list {
    struct hub *hub;
    struct loop_timer *timer;
    enum list_event notice;
    bool is_pending;
};

struct hub_registry {
    struct hub *hub;
    struct pool *pool;
    struct provider_host host; /* of the mounted providers */
    struct catalog *catalog;
    struct feature_list *features[FEATURE_KINDS]; /* NULL: none yet */
    struct hub_list lists[LIST_COUNT];            /* by enum list_event */
};

#define POOL_THREADS 2u
#define POOL_WAITING 1024u

/* ---- list_changed ---------------------------------------------------------------------------- */

static void hub_features_send(struct hub_list *list)
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
        hub_features_send(list);
    }
}

/* CHANGE_LIST, CHANGE_TOOLS or CHANGE_PROMPTS happened. */
void hub_list_changed(struct hub *hub, enum list_event notice)
{
    struct hub_list *list = &hub->registry->lists[notice];
    if (!hub->options.list_changed || !__atomic_load_n(&hub->running, __ATOMIC_ACQUIRE)) {
        return;
    }
    if (loop_timer_is_running(list->timer)) {
        list->is_pending = true;
    } else {
        hub_features_send(list);
    }
}

/* ---- features -------------------------------------------------------------------------------- */

struct features_message {
    struct thread_message message;
    enum feature_kind kind;
    struct feature_list *list;
};

static void features_deliver(struct thread_message *message, void *owner)
{
    struct features_message *l = list_entry(message, struct features_message, message);
    handlers_set_features(owner, l->kind, l->list);
    mem_free(l);
}

static void features_drop(struct thread_message *message)
{
    struct features_message *l = list_entry(message, struct features_message, message);
    feature_list_unref(l->list);
    mem_free(l);
}

/* Takes ownership of `next`, even on failure; then nothing changes. */
static int swap_features(struct hub *hub, enum feature_kind kind, struct feature_list *next,
                         struct tidings_error *err)
{
    struct list messages;
    list_init(&messages);
    bool good = next != NULL;
    for (size_t i = 0; i < hub->worker_count && good; i++) {
        struct features_message *l = mem_zalloc(sizeof(*l));
        good = l != NULL;
        if (l) {
            l->message.deliver = features_deliver;
            l->message.drop = features_drop;
            l->kind = kind;
            l->list = feature_list_ref(next);
            list_append(&messages, &l->message.link);
        }
    }
    size_t i = 0;
    list_each (it, after, &messages) {
        struct thread_message *message = list_entry(it, struct thread_message, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub->workers[i++]->mailbox, message);
        } else {
            features_drop(message);
        }
    }
    if (!good) {
        feature_list_unref(next);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    feature_list_unref(hub->registry->features[kind]);
    hub->registry->features[kind] = next;
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
    const struct feature_list *old = hub->registry->features[f->kind];
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
    const struct feature_list *old = hub->registry->features[r->kind];
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
    return feature_list_ref(hub->registry->features[kind]);
}

uint64_t hub_list_period(const struct hub *hub)
{
    return hub->options.list_changed_ms;
}

/* ---- catalog --------------------------------------------------------------------------------- */

struct catalog_message {
    struct thread_message message;
    struct catalog *catalog;
    size_t len;
    char uri[]; /* the added or removed URI; empty: not listed */
};

static void catalog_deliver(struct thread_message *message, void *owner)
{
    struct catalog_message *l = list_entry(message, struct catalog_message, message);
    catalog_set_current(owner, l->catalog);
    if (l->len > 0) {
        list_changed_touch(owner, tidings_strn(l->uri, l->len), STR_EMPTY);
    }
    mem_free(l);
}

static void catalog_drop(struct thread_message *message)
{
    struct catalog_message *l = list_entry(message, struct catalog_message, message);
    catalog_unref(l->catalog);
    mem_free(l);
}

/* `uri`: the added or removed resource or template; empty: neither. */
static void swap_catalog(struct hub *hub, struct catalog *next, struct tidings_str uri)
{
    catalog_unref(hub->registry->catalog);
    hub->registry->catalog = next;
    for (size_t i = 0; i < hub->worker_count; i++) {
        struct catalog_message *l = mem_zalloc(sizeof(*l) + uri.len);
        if (!l) {
            continue; /* the worker keeps the older snapshot until the next one */
        }
        l->message.deliver = catalog_deliver;
        l->message.drop = catalog_drop;
        l->catalog = catalog_ref(next);
        l->len = uri.len;
        if (uri.len > 0) {
            memcpy(l->uri, uri.ptr, uri.len);
        }
        mailbox_send(hub->workers[i]->mailbox, &l->message);
    }
}

static int hub_catalog_add_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    struct catalog_entry *entry = arg;
    int rc = catalog_check(hub->registry->catalog, entry, err);
    if (rc < 0) {
        return rc;
    }
    struct catalog *next = catalog_derive(hub->registry->catalog, entry, NULL, STR_EMPTY);
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
    struct catalog *next = catalog_derive(hub->registry->catalog, NULL, NULL, uri);
    if (!next) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (next->resources.count == hub->registry->catalog->resources.count &&
        next->templates.count == hub->registry->catalog->templates.count) {
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
    if (change->hook && hub->registry->catalog->hooks.count >= WATCH_HOOKS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "at most %u watch hooks are allowed",
                            WATCH_HOOKS_MAX);
    }
    struct catalog *next = catalog_derive_hook(hub->registry->catalog, change->hook, change->text);
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
    for (size_t i = 0; i < hub->registry->catalog->mount_count; i++) {
        if (str_eq(hub->registry->catalog->mounts[i]->prefix, prefix)) {
            return tidings_fail(err, TIDINGS_E_EXISTS, "'%.*s' is mounted twice", STR_ARG(prefix));
        }
    }
    struct tidings_provider *p = NULL;
    int rc = provider_create(ops, &hub->registry->host, prefix, config, &p, err);
    if (rc < 0) {
        return rc;
    }
    struct catalog *next = catalog_derive(hub->registry->catalog, NULL, p, STR_EMPTY);
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
    struct catalog *now = catalog_ref(hub->registry->catalog);
    struct catalog *next = catalog_derive(now, NULL, NULL, STR_EMPTY);
    if (next) { /* without memory they stay until the hub is destroyed */
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

struct catalog *hub_catalog(struct hub *hub)
{
    return catalog_ref(hub->registry->catalog);
}

const struct catalog *hub_current_catalog(const struct hub *hub)
{
    return hub->registry->catalog;
}

/* ---- announcements of providers ----------------------------------------------------------------
 */

static struct hub *host_hub(const struct provider_host *host)
{
    const struct hub_registry *registry =
        (const struct hub_registry *)((uintptr_t)host - offsetof(struct hub_registry, host));
    return registry->hub;
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

/* ---- create and destroy ---------------------------------------------------------------------- */

static bool lists_open(struct hub_registry *registry)
{
    bool is_open = true;
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        struct hub_list *list = &registry->lists[i];
        list->hub = registry->hub;
        list->notice = (enum list_event)i;
        list->timer = loop_timer_open(registry->hub->loop, on_period, list);
        is_open = is_open && list->timer;
    }
    return is_open;
}

int hub_registry_open(struct hub *hub, struct tidings_error *err)
{
    struct hub_registry *registry = mem_zalloc(sizeof(*registry));
    if (!registry) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    hub->registry = registry;
    registry->hub = hub;
    registry->pool = pool_create(POOL_THREADS, POOL_WAITING, err);
    registry->host = (struct provider_host){host_changed, host_missed, hub->loop, registry->pool};
    registry->catalog = catalog_derive(NULL, NULL, NULL, STR_EMPTY);
    return lists_open(registry) && registry->pool && registry->catalog
               ? 0
               : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void hub_registry_close_providers(struct hub *hub)
{
    struct hub_registry *registry = hub->registry;
    if (!registry) {
        return;
    }
    if (registry->pool) {
        pool_destroy(registry->pool);
    }
    for (size_t i = 0; registry->catalog && i < registry->catalog->mount_count; i++) {
        provider_destroy(registry->catalog->mounts[i]);
    }
}

void hub_registry_close(struct hub *hub)
{
    struct hub_registry *registry = hub->registry;
    if (!registry) {
        return;
    }
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        loop_timer_close(registry->lists[i].timer);
    }
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(registry->features[i]);
    }
    catalog_unref(registry->catalog);
    mem_free(registry);
}
