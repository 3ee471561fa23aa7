/* SPDX-License-Identifier: MIT
 *
 * The resources and templates registered in one snapshot of the catalog, by URI, ascending (bytes).
 * Immutable, and cut into leaves that snapshots share: a snapshot with one entry more or less costs
 * a leaf and the list of leaves, not everything, so that tens of thousands can be registered one by
 * one while the server runs.
 */
#ifndef CATALOG_ENTRIES_H
#define CATALOG_ENTRIES_H

#include <tidings/server.h>

#include "uri/template.h"

/* A registered resource or template. */
struct catalog_entry {
    struct tidings_resource *about;
    struct uri_template *uri_template; /* NULL: a fixed URI */
    tidings_read_fn read;
    void *user;
    unsigned refs;
};

/* `about->uri` must be canonical (or a template). NULL with err on failure. */
struct catalog_entry *catalog_entry_create(const struct tidings_resource *about, bool is_template,
                                           tidings_read_fn read, void *user,
                                           struct tidings_error *err);
void catalog_entry_unref(struct catalog_entry *e);

#define ENTRIES_LEAF 256u

struct entries_leaf {
    unsigned refs;
    unsigned count; /* at least 1 */
    struct catalog_entry *at[];
};

/* All zero: none. */
struct entries {
    struct entries_leaf **leaves;
    size_t leaf_count;
    size_t count;
};

/* `from` with `add` (may be NULL; its URI is not there yet) and without the entry called `remove`
 * (empty: all stay; one that is not there: likewise). Takes a reference to every entry.
 * TIDINGS_E_NOMEM: *to is all zero. */
int entries_derive(struct entries *to, const struct entries *from, struct catalog_entry *add,
                   struct tidings_str remove);
void entries_deinit(struct entries *e); /* all zero afterwards */

struct catalog_entry *entries_find(const struct entries *e, struct tidings_str uri); /* or NULL */

/* In order: begin with the first whose URI comes after `after` (empty: the first of all). */
struct entries_position {
    size_t leaf, index;
};
struct entries_position entries_after(const struct entries *e, struct tidings_str after);
/* The entry there, moving on behind it; NULL at the end. */
struct catalog_entry *entries_next(const struct entries *e, struct entries_position *at);

#endif
