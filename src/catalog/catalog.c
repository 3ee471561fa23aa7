/* SPDX-License-Identifier: MIT
 *
 * Snapshots of the catalog: what is registered is shared as far as it did not change
 * (catalog/entries); mounts and hooks are few and copied.
 */
#include "catalog/catalog.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/resource.h"
#include "uri/uri.h"
#include "worker/worker.h"

struct worker;

static int by_mount_prefix(const void *a, const void *b)
{
    const struct tidings_provider *const *x = a;
    const struct tidings_provider *const *y = b;
    return str_cmp((*x)->prefix, (*y)->prefix);
}

static int copy_mounts(const struct catalog *old, struct tidings_provider *mount, struct catalog *c)
{
    size_t count = old ? old->mount_count : 0;
    c->mounts = mem_alloc((count + 1) * sizeof(struct tidings_provider *));
    if (!c->mounts) {
        return TIDINGS_E_NOMEM;
    }
    if (count > 0) {
        memcpy(c->mounts, old->mounts, count * sizeof(struct tidings_provider *));
    }
    if (mount) {
        c->mounts[count++] = mount;
        qsort(c->mounts, count, sizeof(struct tidings_provider *), by_mount_prefix);
    }
    c->mount_count = count;
    return 0;
}

static int check_bound(const struct catalog_entry *resource, const struct catalog_entry *bound,
                       struct tidings_error *err)
{
    bool list = resource->about->listable && !bound->about->listable;
    bool subscribe = !resource->about->not_subscribable && bound->about->not_subscribable;
    if ((!list && !subscribe) ||
        !template_match(bound->uri_template, resource->about->uri, NULL, NULL)) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_CONFLICT,
                        "'%.*s' says it can be %s, its template '%.*s' says that none of its "
                        "resources can",
                        STR_ARG_MAX(resource->about->uri, 80), list ? "listed" : "subscribed to",
                        STR_ARG_MAX(bound->about->uri, 80));
}

int catalog_check(const struct catalog *c, const struct catalog_entry *add,
                  struct tidings_error *err)
{
    struct tidings_str uri = add->about->uri;
    if (entries_find(&c->resources, uri) || catalog_find_template(c, uri)) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "'%.*s' is registered already", STR_ARG(uri));
    }
    int rc = 0;
    struct entries_position at = {0};
    struct catalog_entry *e;
    const struct entries *others = add->uri_template ? &c->resources : &c->templates;
    while (rc == 0 && (e = entries_next(others, &at)) != NULL) {
        rc = add->uri_template ? check_bound(e, add, err) : check_bound(add, e, err);
    }
    return rc;
}

struct catalog *catalog_derive(const struct catalog *old, struct catalog_entry *add,
                               struct tidings_provider *mount, struct tidings_str remove)
{
    static const struct catalog none;
    const struct catalog *from = old ? old : &none;
    struct catalog *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->refs = 1;
    bool is_template = add && add->uri_template;
    const struct catalog_entry *gone = entries_find(&from->templates, remove);
    c->mute_templates = from->mute_templates + (is_template && add->about->not_subscribable) -
                        (gone && gone->about->not_subscribable);
    if (entries_derive(&c->resources, &from->resources, is_template ? NULL : add, remove) < 0 ||
        entries_derive(&c->templates, &from->templates, is_template ? add : NULL, remove) < 0 ||
        copy_mounts(old, mount, c) < 0 ||
        watch_hooks_copy(&c->hooks, &from->hooks, NULL, remove) < 0) {
        catalog_unref(c);
        return NULL;
    }
    return c;
}

struct catalog *catalog_derive_hook(const struct catalog *old, struct watch_hook *hook,
                                    struct tidings_str text)
{
    struct catalog *c = catalog_derive(old, NULL, NULL, STR_EMPTY);
    if (c) {
        watch_hooks_deinit(&c->hooks);
        if (watch_hooks_copy(&c->hooks, &old->hooks, hook, text) < 0) {
            catalog_unref(c);
            return NULL;
        }
    }
    return c;
}

struct catalog *catalog_ref(struct catalog *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void catalog_unref(struct catalog *c)
{
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    entries_deinit(&c->resources);
    entries_deinit(&c->templates);
    watch_hooks_deinit(&c->hooks);
    mem_free(c->mounts);
    mem_free(c);
}

static const struct uri_alias *find_alias(const void *user, struct tidings_str in)
{
    const struct catalog *c = user;
    const struct uri_alias *found = NULL;
    for (size_t i = 0; i < c->mount_count && !found; i++) {
        found = uri_alias_find(c->mounts[i]->aliases, c->mounts[i]->alias_count, in);
    }
    return found;
}

bool catalog_is_alias(const struct catalog *c, struct tidings_str in)
{
    return find_alias(c, in) != NULL;
}

int catalog_canonical(const struct catalog *c, struct tidings_str in, bool is_pattern,
                      struct buf *out, struct tidings_error *err)
{
    return uri_alias_canonical(in, is_pattern, find_alias, c, out, NULL, err);
}

bool catalog_is_absolute(const struct catalog *c, struct tidings_str in)
{
    const struct uri_alias *alias = NULL;
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    int rc = uri_alias_canonical(in, true, find_alias, c, &text, &alias, NULL);
    buf_deinit(&text);
    return rc == 0 && alias && alias->from.ptr[0] != '/';
}

bool catalog_may_ask(const struct catalog *c, const struct principal *principal, enum access_op op,
                     struct tidings_str uri)
{
    if (access_allows(principal, op, uri)) {
        return true;
    }
    const struct tidings_provider *p = catalog_mount(c, uri);
    if (!p || !p->is_short || !p->is_short(uri)) {
        return false;
    }
    struct buf any;
    buf_init(&any, URI_MAX);
    buf_puts(&any, p->prefix);
    buf_putc(&any, '{'); /* and whatever follows */
    bool may = !any.failed && access_reaches(principal, op, buf_str(&any));
    buf_deinit(&any);
    return may;
}

/* Prefixes ascend, so the last one that fits is the longest. */
struct tidings_provider *catalog_mount(const struct catalog *c, struct tidings_str uri)
{
    for (size_t i = c->mount_count; i-- > 0;) {
        if (uri_is_within(uri, c->mounts[i]->prefix)) {
            return c->mounts[i];
        }
    }
    return NULL;
}

bool catalog_find(const struct catalog *c, struct tidings_str uri, struct arena *arena,
                  struct catalog_hit *hit)
{
    memset(hit, 0, sizeof(*hit));
    hit->entry = entries_find(&c->resources, uri);
    if (hit->entry) {
        return true;
    }
    hit->provider = catalog_mount(c, uri);
    if (hit->provider) {
        return true;
    }
    struct entries_position at = {0};
    for (struct catalog_entry *e; (e = entries_next(&c->templates, &at)) != NULL;) {
        if (template_match(e->uri_template, uri, arena, &hit->variables)) {
            hit->entry = e;
            return true;
        }
    }
    return false;
}

bool catalog_is_mute(const struct catalog *c, struct tidings_str uri)
{
    const struct catalog_entry *found = entries_find(&c->resources, uri);
    if (found || c->mute_templates == 0 || catalog_mount(c, uri)) {
        return found && found->about->not_subscribable;
    }
    struct entries_position at = {0};
    for (struct catalog_entry *e; (e = entries_next(&c->templates, &at)) != NULL;) {
        if (e->about->not_subscribable && template_match(e->uri_template, uri, NULL, NULL)) {
            return true;
        }
    }
    return false;
}

struct catalog_entry *catalog_find_template(const struct catalog *c, struct tidings_str text)
{
    return entries_find(&c->templates, text);
}

static bool has_scheme(struct tidings_str uri, struct tidings_str scheme)
{
    return str_starts(uri, scheme) && uri.len > scheme.len && uri.ptr[scheme.len] == ':';
}

/* Those of one scheme lie together; others that begin like it may lie around them. */
static bool any_has_scheme(const struct entries *entries, struct tidings_str scheme)
{
    struct entries_position at = entries_after(entries, scheme);
    for (struct catalog_entry *e; (e = entries_next(entries, &at)) != NULL;) {
        if (has_scheme(e->about->uri, scheme)) {
            return true;
        }
        if (!str_starts(e->about->uri, scheme)) {
            break;
        }
    }
    return false;
}

bool catalog_has_scheme(const struct catalog *c, struct tidings_str scheme)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        if (has_scheme(c->mounts[i]->prefix, scheme)) {
            return true;
        }
    }
    return any_has_scheme(&c->resources, scheme) || any_has_scheme(&c->templates, scheme);
}

void catalog_set_current(struct worker *worker, struct catalog *catalog)
{
    catalog_unref(worker->catalog);
    worker->catalog = catalog;
}
