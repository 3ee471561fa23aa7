/* SPDX-License-Identifier: MIT
 *
 * What the hub serves: resources and templates that are registered, providers that are mounted.
 * Each change of it is a new snapshot, which every worker gets.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub_private.h"
#include "delivery/list_changed.h"
#include "worker/worker.h"

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
