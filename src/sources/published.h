/* SPDX-License-Identifier: MIT
 *
 * Published resources: content that is pushed instead of fetched. The newest version is kept in
 * memory, served, listed and announced; with a commit thread, its file has it, too, so that it
 * survives a restart.
 *
 * One store holds everything that is published in a server. Each prefix that permits publishing is
 * a mount of provider_published_ops, bound to the store. Putting and removing works on any thread,
 * even before anything is mounted; then no notification is necessary, because there are no clients
 * yet.
 *
 *   - A put replaces the resource at that URI. The same content with the same description is not a
 *     change: it is not announced, whatever its metadata. Other changes are announced in order, as
 *     created, updated or deleted.
 *   - A URI names one resource. A URI that the program registered is *reserved* and cannot be
 *     published, and vice versa: the second attempt fails with TIDINGS_E_EXISTS.
 *   - The store is bounded in number and bytes (content and descriptions). A put that does not fit
 *     fails with TIDINGS_E_LIMIT; no resource is evicted for it.
 *   - With a commit thread a change is first committed, then visible, announced and answered, in
 *     that order. If it cannot be written (a full disk), it fails and has no effect.
 *   - Segments make containers: `x:///a/` exists while there are resources below it (the prefix
 *     itself always exists), has children, and reads as their names and the first of them. So no
 *     published URI ends in '/'.
 */
#ifndef SOURCES_PUBLISHED_H
#define SOURCES_PUBLISHED_H

#include <tidings/provider.h>

#include "base/list.h"
#include "base/map.h"

#define PUBLISHED_ETAG_SIZE 56u

extern const struct tidings_provider_ops provider_published_ops;

struct store;
struct commit_thread;
struct log_entry;
struct published;

/* The limits are read at each put; they must outlive the store. */
struct published *published_create(const uint64_t *max_count, const uint64_t *max_bytes,
                                   struct tidings_error *err);
/* After the mounts were closed. NULL is fine. */
void published_destroy(struct published *store);
/* Binds the prefix of `provider` to `store`. Call it before the first request. */
void published_bind(struct tidings_provider *provider, struct published *store);

/* Accounting for publications of clients. An owner is a client; NULL: the program, or a client of
 * an earlier run or another node. */
struct published_shares {
    void *user;
    /* Returns the borrowed owner of a write, and whether it is an operator. */
    void *(*owner_of)(const struct tidings_write *write, bool *ret_is_operator);
    void (*hold)(void *owner);
    void (*release)(void *owner);
    /* Accounts for one more resource of this size. With `err` it may be rejected. */
    bool (*take)(void *user, void *owner, bool is_operator, size_t bytes,
                 struct tidings_error *err);
    void (*give)(void *user, void *owner, size_t bytes);
};
/* Call before anything is published; `shares` outlives the store. NULL: owners no longer count,
 * after publishing has ended. */
void published_set_shares(struct published *store, const struct published_shares *shares);

/* A resource to publish. */
struct publication {
    struct tidings_resource about; /* `uri` canonical; etag, size and listable are ignored */
    struct tidings_str content;
    struct tidings_str metadata;    /* of the change: a validated JSON object, or empty */
    struct tidings_str traceparent; /* likewise: of its cause, or empty */
    struct tidings_str if_match; /* only if this is the current etag, or "*": only if it exists */
    bool if_absent;              /* only if it does not exist */
    void *owner;                 /* borrowed; NULL: no owner */
    bool is_operator;            /* … and the owner is one */
};

/* Any thread but the commit thread. Copies. `mount` (NULL: none yet) contains `about.uri`. Returns
 * 1 if created, 0 if it existed before. TIDINGS_E_CONFLICT: a condition does not hold. `etag` (may
 * be NULL) gets the current one. With a commit thread it waits for the commit. */
int published_put(struct published *store, struct tidings_provider *mount,
                  const struct publication *p, char etag[PUBLISHED_ETAG_SIZE],
                  struct tidings_error *err);
/* Any thread but the commit thread. Only the URI, the metadata and `if_match` of `p` count. */
int published_remove(struct published *store, struct tidings_provider *mount,
                     const struct publication *p, struct tidings_error *err);

/* The same without waiting: `done` gets the return value of the others, with a commit thread on its
 * thread, otherwise before this returns. `err` has the message of a failure. */
typedef void (*published_done_fn)(void *user, int rc, const char *etag,
                                  const struct tidings_error *err);
void published_put_then(struct published *store, struct tidings_provider *mount,
                        const struct publication *p, published_done_fn done, void *user);
void published_remove_then(struct published *store, struct tidings_provider *mount,
                           const struct publication *p, published_done_fn done, void *user);

/* From now on `commit_thread` keeps published resources as rows of a file. The resources in the
 * file are published, and earlier publications replace them there. `may_be` decides for each
 * resource of the file whether it may be published (then nothing else has its URI, and its row is
 * valid; a removed one has only its URI). Rejected resources stay in the file, invisible, and are
 * counted in *ret_unseen. Call before any other use of the store. */
typedef bool (*published_may_fn)(void *user, const struct tidings_resource *about);
int published_keep(struct published *store, struct commit_thread *commit_thread,
                   published_may_fn may_be, void *user, size_t *ret_unseen,
                   struct tidings_error *err);
/* Applies a publication or removal of another node in the same store. On the commit thread, outside
 * of batches. A failure explains why an existing resource is not served here: TIDINGS_E_DENIED
 * (`may_be` rejects it), TIDINGS_E_EXISTS (the program has it), TIDINGS_E_LIMIT, TIDINGS_E_NOMEM
 * (nothing changed). */
int published_follow(struct published *store, const struct log_entry *change,
                     published_may_fn may_be, void *user, struct tidings_error *err);
/* The same for all resources: the store may have lost some, and restored others. */
int published_reread(struct published *store, struct store *from, published_may_fn may_be,
                     void *user, struct tidings_error *err);
/* The commit thread ends, and publishing with it. `forget`: also drops everything from its file. */
void published_unkeep(struct published *store, bool forget);

/* Returns true if the publication of `uri` says that it is not subscribable. Any thread. */
bool published_is_mute(struct published *store, struct tidings_str uri);

/* Reserves a URI for the program (any thread; repeating it is fine), and releases it.
 * TIDINGS_E_EXISTS: it is published; TIDINGS_E_BUSY: the store has not committed its publication
 * yet. */
int published_reserve(struct published *store, struct tidings_str uri, struct tidings_error *err);
void published_release(struct published *store, struct tidings_str uri);

/* Calls for everything published, in ascending order, until it returns other than 0; returns
 * that. */
typedef int (*published_each_fn)(void *user, struct tidings_str uri);
int published_each(struct published *store, published_each_fn fn, void *user);

/* Computes the etag of a content: stored content is compared with it when it is read. */
void published_make_etag(struct tidings_str content, struct tidings_str mime_type,
                         char out[PUBLISHED_ETAG_SIZE]);

/* -------------------------------------------------------------------------------------------------
 * The store of published resources: published.c serves them and performs volatile puts;
 * published_durable.c performs puts through the commit thread.
 */

struct mime_table;

struct published {
    struct shared_map *shared; /* of struct published_item */
    struct mime_table *mime;
    const uint64_t *max_count, *max_bytes;
    uint64_t count,
        bytes; /* modified only inside shared_map_update, or only on the commit thread */
    const struct published_shares *shares; /* NULL: owners do not count */
    struct commit_thread *commit_thread;   /* NULL: nothing outlives the program */
    struct list pending; /* the commit thread's: struct publishing before their commit, in order */
};

/* One block: the description's strings and the content follow the struct. Immutable. */
struct published_item {
    struct shared_value value;
    struct tidings_resource about;
    struct tidings_str content;
    size_t memory; /* bytes that count */
    const struct published_shares *shares;
    void *owner; /* referenced */
    bool is_operators;
    bool is_text;
    bool is_reserved; /* registered by the program: not served here */
    bool is_coming;   /* empty: holds the place until the first commit */
    bool is_in_file;  /* the file has something for that URI … */
    bool is_durable;  /* … namely this */
    bool is_loaded;   /* … which was loaded from it */
    bool is_damaged;  /* … and differs from what was put there */
    char etag[PUBLISHED_ETAG_SIZE];
};

static inline struct published_item *published_item_of(const struct shared_value *value)
{
    return (struct published_item *)(uintptr_t)value; /* its first member */
}

/* Returns true if there is a resource to serve. */
static inline bool published_is_there(const struct published_item *item)
{
    return !item->is_reserved && !item->is_coming;
}

/* One change under way: conditions, limits and the announcement. */
struct published_step {
    struct published *store;
    struct tidings_provider *mount;
    struct published_item *fresh; /* NULL: remove */
    struct tidings_str uri, if_match, metadata, traceparent;
    bool if_absent, created;
    struct tidings_error *err;
};

/* Checks whether it may replace `old` (NULL: nothing). 1: yes, with an effect; 0: without an
 * effect. */
int published_check(const struct published_step *s, const struct published_item *old);
/* It counts from now on, or no longer. */
void published_count(struct published_step *s, const struct published_item *old, bool is_undone);
/* Returns its announcement, for a replacement or a creation. */
struct tidings_change published_change(const struct published_step *s,
                                       const struct published_item *old);

/* NULL: out of memory. */
struct published_item *published_item_create(const struct published *store,
                                             const struct publication *p);
/* Returns true for the same content with the same description. */
bool published_is_same(const struct published_item *a, const struct published_item *b);
/* published_durable.c: through the commit thread. `done` NULL: waits, and returns the outcome.
 * Takes the reference to `s->fresh`. */
int published_submit(const struct published_step *s, char etag[PUBLISHED_ETAG_SIZE],
                     published_done_fn done, void *user);
/* Returns an empty place for `uri`; one reference. NULL: out of memory. */
struct published_item *published_item_empty(struct tidings_str uri);

#endif
