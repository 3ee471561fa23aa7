/* SPDX-License-Identifier: MIT
 *
 * Registered resources and templates, in leaves of at most ENTRIES_LEAF entries. One that would
 * become larger is cut in two halves; one that becomes empty goes; small neighbours are not joined,
 * since what is registered is rarely removed one by one in numbers that would matter.
 */
#include "catalog/entries.h"

#include "base/mem.h"
#include "base/str.h"
#include "catalog/resource.h"

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

/* What becomes of one leaf: 0, 1 or 2 new ones behind those *to has. */
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
