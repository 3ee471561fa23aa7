/* SPDX-License-Identifier: MIT
 *
 * Published resources: content that is pushed instead of fetched. The newest is kept in memory,
 * served, listed and announced; with a commit thread in its file too, so that it is there after a
 * restart.
 *
 * One store holds everything that is published in a server; each prefix below which something may
 * be published is a mount of provider_published_ops, bound to the store. Putting and removing works
 * on any thread, also before anything is mounted; then nobody is told, since nobody can listen yet.
 *
 *   - What is put under a URI replaces what was there. The same content with the same description
 *     is no change: nobody is told, whatever metadata comes with it. Otherwise the change is
 *     announced in the order in which it happened, created, updated or deleted.
 *   - A URI names one thing. One that the program registered is *reserved* and cannot be published,
 *     and the other way round: who comes second is refused with TIDINGS_E_EXISTS.
 *   - The store is bounded in number and bytes (content and descriptions). What does not fit is
 *     refused with TIDINGS_E_LIMIT; nothing is thrown out for it.
 *   - With a commit thread a change is first committed, then seen, announced and answered, in that
 *     order. What cannot be written (a full disk) is refused and has not happened.
 *   - Segments make containers: `x:///a/` exists as long as something below it does (the prefix
 *     itself always), has children, and reads as their names and the first of them. So no URI
 *     published ends in '/'.
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
/* What is published below the prefix of `provider` lies in `store`. Before it is asked anything. */
void published_bind(struct tidings_provider *provider, struct published *store);

/* How what clients publish counts for them. An owner is one of them; NULL: the program, or somebody
 * of an earlier run or another node. */
struct published_shares {
    void *user;
    /* Whose a write is, borrowed, and whether it is an operator. */
    void *(*owner_of)(const struct tidings_write *write, bool *ret_is_operator);
    void (*hold)(void *owner);
    void (*release)(void *owner);
    /* One resource of so many bytes more. With `err` it may be refused. */
    bool (*take)(void *user, void *owner, bool is_operator, size_t bytes,
                 struct tidings_error *err);
    void (*give)(void *user, void *owner, size_t bytes);
};
/* Before anything is published; `shares` outlives the store. NULL: owners count no longer, when
 * nothing is published any more. */
void published_set_shares(struct published *store, const struct published_shares *shares);

/* One thing to publish. */
struct publication {
    struct tidings_resource about; /* `uri` canonical; etag, size and listable are not looked at */
    struct tidings_str content;
    struct tidings_str metadata;    /* of the change: a JSON object that was checked, or empty */
    struct tidings_str traceparent; /* likewise: of what caused it, or empty */
    struct tidings_str if_match;    /* only over this etag, or "*": only over something */
    bool if_absent;                 /* only where nothing is */
    void *owner;                    /* borrowed; NULL: nobody's */
    bool is_operator;               /* … and it is one */
};

/* Any thread but the commit thread's. Copies. `mount` (NULL: none yet) is where `about.uri` lies.
 * 1: created, 0: there before. TIDINGS_E_CONFLICT: a condition does not hold. `etag` (may be NULL)
 * gets the one of what is there now. With a commit thread it waits for the commit. */
int published_put(struct published *store, struct tidings_provider *mount,
                  const struct publication *p, char etag[PUBLISHED_ETAG_SIZE],
                  struct tidings_error *err);
/* Any thread but the commit thread's. Of `p` only the URI, the metadata and `if_match` count. */
int published_remove(struct published *store, struct tidings_provider *mount,
                     const struct publication *p, struct tidings_error *err);

/* The same without waiting: `done` gets what the others return, with a commit thread on its thread,
 * else before this returns. The sentence of a failure is in `err`. */
typedef void (*published_done_fn)(void *user, int rc, const char *etag,
                                  const struct tidings_error *err);
void published_put_then(struct published *store, struct tidings_provider *mount,
                        const struct publication *p, published_done_fn done, void *user);
void published_remove_then(struct published *store, struct tidings_provider *mount,
                           const struct publication *p, published_done_fn done, void *user);

/* From now on what is published is kept by `commit_thread`, whose rows are in a file. What the file
 * has is published; what was published before takes its place there. `may_be` says for each
 * resource of the file whether it may be (then nothing else has its URI, and it is one as we write
 * them; of what was removed only the URI is known): others stay in the file, unseen, and are
 * counted in *ret_unseen. Before anybody else uses the store. */
typedef bool (*published_may_fn)(void *user, const struct tidings_resource *about);
int published_keep(struct published *store, struct commit_thread *commit_thread,
                   published_may_fn may_be, void *user, size_t *ret_unseen,
                   struct tidings_error *err);
/* Another node published or removed something in the same store: so it is here. On the commit
 * thread, outside of batches. A failure says why it is not served here, though it is there:
 * TIDINGS_E_DENIED (`may_be` says no), TIDINGS_E_EXISTS (the program has it), TIDINGS_E_LIMIT,
 * TIDINGS_E_NOMEM (as it was before). */
int published_follow(struct published *store, const struct log_entry *change,
                     published_may_fn may_be, void *user, struct tidings_error *err);
/* The same of everything there is: the store may have lost some, and got back others. */
int published_reread(struct published *store, struct store *from, published_may_fn may_be,
                     void *user, struct tidings_error *err);
/* The commit thread goes, nothing is published any more. `forget`: so does what came from its file.
 */
void published_unkeep(struct published *store, bool forget);

/* Returns true if the publication of `uri` says that it is not subscribable. Any thread. */
bool published_is_mute(struct published *store, struct tidings_str uri);

/* Keep a URI for the program (any thread; again is fine), and give it back. TIDINGS_E_EXISTS:
 * it is published; TIDINGS_E_BUSY: the store has not committed its publication yet. */
int published_reserve(struct published *store, struct tidings_str uri, struct tidings_error *err);
void published_release(struct published *store, struct tidings_str uri);

/* Call for everything published, in ascending order, until it returns other than 0; gives that. */
typedef int (*published_each_fn)(void *user, struct tidings_str uri);
int published_each(struct published *store, published_each_fn fn, void *user);

/* The etag of a content: what is kept of it is compared with it when it is read. */
void published_make_etag(struct tidings_str content, struct tidings_str mime_type,
                         char out[PUBLISHED_ETAG_SIZE]);

/* -------------------------------------------------------------------------------------------------
 * The store of published resources: published.c serves them, and puts them where nothing is
 * durable; published_durable.c puts them by way of the commit thread.
 */

struct mime_table;

struct published {
    struct shared_map *shared; /* of struct published_item */
    struct mime_table *mime;
    const uint64_t *max_count, *max_bytes;
    uint64_t count,
        bytes; /* touched only inside shared_map_update, or on the commit thread alone */
    const struct published_shares *shares; /* NULL: owners do not count */
    struct commit_thread *commit_thread;   /* NULL: nothing outlives the program */
    struct list
        pending; /* the commit thread's: struct publishing that wait for their commit, in order */
};

/* One block: the description's texts and the content follow the struct. Immutable. */
struct published_item {
    struct shared_value value;
    struct tidings_resource about;
    struct tidings_str content;
    size_t memory; /* bytes that count */
    const struct published_shares *shares;
    void *owner; /* held */
    bool is_operators;
    bool is_text;
    bool is_reserved; /* registered by the program: not ours to serve */
    bool is_coming;   /* nothing yet: holds the place until the first commit */
    bool is_in_file;  /* something of that URI is there … */
    bool is_durable;  /* … and this is what */
    bool is_loaded;   /* … from where it came */
    bool is_damaged;  /* … and is not what was put there */
    char etag[PUBLISHED_ETAG_SIZE];
};

static inline struct published_item *published_item_of(const struct shared_value *value)
{
    return (struct published_item *)(uintptr_t)value; /* its first member */
}

/* Is there something to serve? */
static inline bool published_is_there(const struct published_item *item)
{
    return !item->is_reserved && !item->is_coming;
}

/* One change on its way: conditions, limits and what is told of it. */
struct published_step {
    struct published *store;
    struct tidings_provider *mount;
    struct published_item *fresh; /* NULL: remove */
    struct tidings_str uri, if_match, metadata, traceparent;
    bool if_absent, created;
    struct tidings_error *err;
};

/* May it be done over `old` (NULL: nothing)? 1: yes, and it makes a difference; 0: it does not. */
int published_check(const struct published_step *s, const struct published_item *old);
/* It counts from now on, or not any more after all. */
void published_count(struct published_step *s, const struct published_item *old, bool is_undone);
/* What is told of it, over something or nothing. */
struct tidings_change published_change(const struct published_step *s,
                                       const struct published_item *old);

/* NULL: out of memory. */
struct published_item *published_item_create(const struct published *store,
                                             const struct publication *p);
/* The same content with the same description? */
bool published_is_same(const struct published_item *a, const struct published_item *b);
/* published_durable.c: by way of the commit thread. `done` NULL: wait, and return the outcome.
 * Takes the reference to `s->fresh`. */
int published_submit(const struct published_step *s, char etag[PUBLISHED_ETAG_SIZE],
                     published_done_fn done, void *user);
/* A place for `uri` without anything in it; one reference. NULL: out of memory. */
struct published_item *published_item_empty(struct tidings_str uri);

#endif
