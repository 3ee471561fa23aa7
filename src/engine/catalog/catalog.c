/* SPDX-License-Identifier: MIT
 *
 * Snapshots of the catalog: unchanged entries are shared (engine/catalog/catalog); mounts and hooks
 * are few and copied.
 */
#include "engine/catalog/catalog.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/resource.h"
#include "engine/worker.h"
#include "formats/uri.h"

/* -------------------------------------------------------------------------------------------------
 * Registered resources and templates, in leaves of at most ENTRIES_LEAF entries. A leaf that would
 * become larger is cut into halves; an empty leaf goes. Small neighbours are not joined, because
 * programs rarely remove many entries one by one.
 */

struct catalog_entry *catalog_entry_create(const struct tidings_resource *about, bool is_template,
                                           tidings_read_fn read, void *user,
                                           struct tidings_error *err)
{
    if (resource_check(about, err) < 0) {
        return NULL;
    }
    struct catalog_entry *e = mem_zalloc(sizeof(*e));
    if (!e) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    e->refs = 1;
    e->read = read;
    e->user = user;
    e->about = resource_dup(about);
    if (!e->about) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        goto fail;
    }
    if (is_template && template_create(about->uri, &e->uri_template, err) < 0) {
        goto fail;
    }
    return e;
fail:
    catalog_entry_unref(e);
    return NULL;
}

void catalog_entry_unref(struct catalog_entry *e)
{
    if (e && __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        template_destroy(e->uri_template);
        mem_free(e->about);
        mem_free(e);
    }
}

static struct tidings_str entries_uri_of(const struct catalog_entry *e)
{
    return e->about->uri;
}

static struct entries_leaf *leaf_create(struct catalog_entry *const *entries, size_t count)
{
    struct entries_leaf *l = mem_alloc(sizeof(*l) + count * sizeof(struct catalog_entry *));
    if (l) {
        l->refs = 1;
        l->count = (unsigned)count;
        for (size_t i = 0; i < count; i++) {
            l->at[i] = entries[i];
            __atomic_add_fetch(&entries[i]->refs, 1, __ATOMIC_RELAXED);
        }
    }
    return l;
}

static struct entries_leaf *leaf_ref(struct entries_leaf *l)
{
    __atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
    return l;
}

static void leaf_unref(struct entries_leaf *l)
{
    if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        for (unsigned i = 0; i < l->count; i++) {
            catalog_entry_unref(l->at[i]);
        }
        mem_free(l);
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The first entry of a leaf whose URI comes after `uri`. */
static size_t upper_bound(const struct entries_leaf *l, struct tidings_str uri)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(entries_uri_of(l->at[middle]), uri) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The last leaf that begins at or before `uri`; the first, when none does. */
static size_t leaf_of(const struct entries *e, struct tidings_str uri)
{
    size_t low = 0, high = e->leaf_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(entries_uri_of(e->leaves[middle]->at[0]), uri) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? low - 1 : 0;
}

struct entries_position entries_after(const struct entries *e, struct tidings_str after)
{
    if (e->leaf_count == 0 || after.len == 0) {
        return (struct entries_position){0, 0};
    }
    size_t leaf = leaf_of(e, after);
    return (struct entries_position){leaf, upper_bound(e->leaves[leaf], after)};
}

struct catalog_entry *entries_next(const struct entries *e, struct entries_position *at)
{
    while (at->leaf < e->leaf_count && at->index >= e->leaves[at->leaf]->count) {
        *at = (struct entries_position){at->leaf + 1, 0};
    }
    return at->leaf < e->leaf_count ? e->leaves[at->leaf]->at[at->index++] : NULL;
}

struct catalog_entry *entries_find(const struct entries *e, struct tidings_str uri)
{
    if (e->leaf_count == 0) {
        return NULL;
    }
    const struct entries_leaf *l = e->leaves[leaf_of(e, uri)];
    size_t i = upper_bound(l, uri);
    return i > 0 && str_eq(entries_uri_of(l->at[i - 1]), uri) ? l->at[i - 1] : NULL;
}

/* ---- deriving -------------------------------------------------------------------------------- */

/* Appends the new form of one leaf to *to: 0, 1 or 2 leaves. */
static int put_changed(struct entries *to, const struct entries_leaf *from,
                       struct catalog_entry *add, struct tidings_str remove)
{
    struct catalog_entry *rows[ENTRIES_LEAF + 1];
    size_t n = 0, place = add && from ? upper_bound(from, entries_uri_of(add)) : 0;
    for (size_t i = 0; i <= (from ? from->count : 0); i++) {
        if (add && i == place) {
            rows[n++] = add;
        }
        if (from && i < from->count &&
            (remove.len == 0 || !str_eq(entries_uri_of(from->at[i]), remove))) {
            rows[n++] = from->at[i];
        }
    }
    to->count += n;
    size_t first = n > ENTRIES_LEAF ? n / 2 : n;
    for (size_t begin = 0; begin < n;) {
        size_t end = begin == 0 ? first : n;
        struct entries_leaf *l = leaf_create(rows + begin, end - begin);
        if (!l) {
            return TIDINGS_E_NOMEM;
        }
        to->leaves[to->leaf_count++] = l;
        begin = end;
    }
    return 0;
}

int entries_derive(struct entries *to, const struct entries *from, struct catalog_entry *add,
                   struct tidings_str remove)
{
    *to = (struct entries){0};
    if (from->leaf_count == 0 && !add) {
        return 0;
    }
    to->leaves = mem_alloc((from->leaf_count + 2) * sizeof(struct entries_leaf *));
    if (!to->leaves) {
        return TIDINGS_E_NOMEM;
    }
    size_t add_to = add ? leaf_of(from, entries_uri_of(add)) : SIZE_MAX;
    size_t remove_from = remove.len > 0 ? leaf_of(from, remove) : SIZE_MAX;
    int rc = from->leaf_count == 0 ? put_changed(to, NULL, add, STR_EMPTY) : 0;
    for (size_t i = 0; rc == 0 && i < from->leaf_count; i++) {
        if (i == add_to || i == remove_from) {
            rc = put_changed(to, from->leaves[i], i == add_to ? add : NULL, remove);
        } else {
            to->count += from->leaves[i]->count;
            to->leaves[to->leaf_count++] = leaf_ref(from->leaves[i]);
        }
    }
    if (rc < 0) {
        entries_deinit(to);
    }
    return rc;
}

void entries_deinit(struct entries *e)
{
    for (size_t i = 0; i < e->leaf_count; i++) {
        leaf_unref(e->leaves[i]);
    }
    mem_free(e->leaves);
    *e = (struct entries){0};
}

/* ---------------------------------------------------------------------------------------------- */

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
    buf_putc(&any, '{'); /* any text may follow */
    bool may = !any.failed && access_reaches(principal, op, buf_str(&any));
    buf_deinit(&any);
    return may;
}

/* Prefixes ascend, so the last match is the longest. */
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

/* Prefixes of one scheme are contiguous; others that begin like it may surround them. */
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
