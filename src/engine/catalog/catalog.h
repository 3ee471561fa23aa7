/* SPDX-License-Identifier: MIT
 *
 * The catalog: which URI belongs to which source. A *source* is a registered resource, a registered
 * template, or a mounted provider.
 *
 * A catalog is an immutable, reference-counted snapshot. The hub owns the master and makes a new
 * one when something is registered or removed; workers hold a reference and swap it. Entries and
 * provider instances are shared between snapshots.
 */
#ifndef ENGINE_CATALOG_CATALOG_H
#define ENGINE_CATALOG_CATALOG_H

#include <tidings/server.h>

#include "engine/catalog/provider.h"
#include "formats/uri_template.h"
#include "security/access.h"

/* -------------------------------------------------------------------------------------------------
 * The resources and templates registered in one snapshot of the catalog, by URI, ascending (bytes).
 * Immutable, and cut into leaves that snapshots share: a snapshot with one entry more or less costs
 * a leaf and the list of leaves, not everything, so that tens of thousands can be registered one by
 * one while the server runs.
 */

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

/* `from` with `add` (may be NULL; its URI must be new) and without the entry called `remove`
 * (empty, or not an entry: nothing is removed). Takes a reference to every entry. TIDINGS_E_NOMEM:
 * *to is all zero. */
int entries_derive(struct entries *to, const struct entries *from, struct catalog_entry *add,
                   struct tidings_str remove);
void entries_deinit(struct entries *e); /* all zero afterwards */

struct catalog_entry *entries_find(const struct entries *e, struct tidings_str uri); /* or NULL */

/* Iterates in order: starts with the first entry whose URI comes after `after` (empty: the first of
 * all). */
struct entries_position {
    size_t leaf, index;
};
struct entries_position entries_after(const struct entries *e, struct tidings_str after);
/* Returns the entry at the position and advances; NULL at the end. */
struct catalog_entry *entries_next(const struct entries *e, struct entries_position *at);

struct worker;

struct catalog {
    struct entries resources;
    struct entries templates;         /* by text */
    struct tidings_provider **mounts; /* by prefix, ascending */
    size_t mount_count;
    size_t mute_templates; /* number of templates whose resources cannot be subscribed to */
    struct watch_hooks hooks;
    unsigned refs;
};

/* Checks `add` against the registered entries. TIDINGS_E_EXISTS: its URI is taken.
 * TIDINGS_E_CONFLICT: a resource claims a capability (list, subscribe) that a template which
 * produces its URI denies, whichever of the two came first; a template's capabilities are an upper
 * bound (SEP-2093). */
int catalog_check(const struct catalog *c, const struct catalog_entry *add,
                  struct tidings_error *err);
/* A new snapshot: `old` (may be NULL) with one thing added, or without the thing named `remove`.
 * The caller keeps its reference to `add`. */
struct catalog *catalog_derive(const struct catalog *old, struct catalog_entry *add,
                               struct tidings_provider *mount, struct tidings_str remove);
/* Likewise with a hook for `text`, which replaces any previous one; NULL: without. Removing an
 * entry removes its hook. */
struct catalog *catalog_derive_hook(const struct catalog *old, struct watch_hook *hook,
                                    struct tidings_str text);
struct catalog *catalog_ref(struct catalog *c);
void catalog_unref(struct catalog *c);

struct catalog_hit {
    struct catalog_entry *entry;       /* a resource or template … */
    struct tidings_provider *provider; /* … or a mount the URI lies in (it may not exist there) */
    struct template_match variables;
};
/* Finds the source of the canonical `uri`. Registered URIs first, then the mount with the longest
 * prefix, then templates. `arena` holds variable values. */
bool catalog_find(const struct catalog *c, struct tidings_str uri, struct arena *arena,
                  struct catalog_hit *hit);
/* The canonical form of a client's URI or pattern (uri_canonical, or uri_canonical_pattern). The
 * alias of a mount at its start is replaced by the mount's prefix. */
int catalog_canonical(const struct catalog *c, struct tidings_str in, bool is_pattern,
                      struct buf *out, struct tidings_error *err);
/* Returns true if `in` begins with the alias of a mount … */
bool catalog_is_alias(const struct catalog *c, struct tidings_str in);
/* … whose prefix is a URI. `in` may be any spelling of that, or a pattern. */
bool catalog_is_absolute(const struct catalog *c, struct tidings_str in);
/* Returns true if `principal` may ask for `uri`. For a short name this is not final: its provider
 * knows the full URI and checks access to that. */
bool catalog_may_ask(const struct catalog *c, const struct principal *principal, enum access_op op,
                     struct tidings_str uri);
/* Returns true for a registered resource, or one of a template, that is not subscribable. */
bool catalog_is_mute(const struct catalog *c, struct tidings_str uri);
/* The mount with the longest prefix that `uri` lies in, or NULL. */
struct tidings_provider *catalog_mount(const struct catalog *c, struct tidings_str uri);
/* The registered template with exactly that text; NULL: there is none. */
struct catalog_entry *catalog_find_template(const struct catalog *c, struct tidings_str text);
/* Returns true if any source serves that scheme. */
bool catalog_has_scheme(const struct catalog *c, struct tidings_str scheme);

/* Sets the worker's snapshot; takes the reference. */
void catalog_set_current(struct worker *worker, struct catalog *catalog);

#endif
