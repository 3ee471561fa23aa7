/* SPDX-License-Identifier: MIT
 *
 * Entities as resources: typed JSON values with their history, kept in a file or in memory.
 *
 * One mount of provider_entity_ops at ENTITY_URI_PREFIX serves what a commit thread has. It takes
 * no configuration. Everything is asked of the thread that keeps the store (store/commit_thread.h),
 * which is also the one that answers. Writing goes there too: whoever writes submits jobs to
 * entity_commit_thread and, once they are committed, announces what they did.
 */
#ifndef SOURCES_ENTITY_H
#define SOURCES_ENTITY_H

#include <tidings/provider.h>

#include "base/str.h"
#include "formats/json_write.h"
#include "store/commit_thread.h"

/* -------------------------------------------------------------------------------------------------
 * The URIs of entities, taken apart and put together.
 *
 *     entity:///                                     everything
 *     entity:///types                                the registry of types
 *     entity:///{type}@{version}/                    all of one type
 *     entity:///{type}@{version}/{id}                the current value of an entity
 *     entity:///{type}@{version}/{id}/patch          the same, for those who write and hear patches
 *     entity:///{type}@{version}/{id}/patch/{time}   from the version that begins then to what is
 *     entity:///{type}@{version}/{id}/at/{time}      what was at that instant
 *
 * `{type}@{version}/` before an id may be left out: whatever type it has (a short URI; an entity
 * that is called `types` has none). `?parent={id}` may follow the two that end in '/': only what
 * has that parent. No other query is known. Pure functions.
 */

#define ENTITY_URI_PREFIX "entity:///"
#define ENTITY_URI_MAX 1024u /* no longer one is built */

enum entity_uri_kind {
    ENTITY_URI_ROOT,
    ENTITY_URI_TYPES,
    ENTITY_URI_TYPE,
    ENTITY_URI_CURRENT,
    ENTITY_URI_PATCH,
    ENTITY_URI_PATCH_FROM,
    ENTITY_URI_AT,
};

struct entity_uri {
    enum entity_uri_kind kind;
    struct tidings_str type, version, id; /* short: without type and version */
    struct tidings_str parent;            /* empty: it does not matter */
    int64_t time;                         /* Unix milliseconds: the baseline, or the instant */
};

/* Slices of `uri`, which is canonical. An instant may be any RFC 3339 text of the same moment. The
 * '/' at the end of a type may be missing. TIDINGS_E_INVALID with what was wrong and the form. */
int entity_uri_parse(struct tidings_str uri, struct entity_uri *ret, struct tidings_error *err);
/* Is it a short one? */
bool entity_uri_is_short(struct tidings_str uri);
/* Append the one canonical spelling: what was built is parsed to the same parts. */
int entity_uri_build(const struct entity_uri *uri, struct buf *out);

#define ENTITY_ALIAS "/entity/" /* may be written instead of the prefix */

extern const struct tidings_provider_ops provider_entity_ops;

/* Who carries out what is put, patched or removed over HTTP: `write` of the table. Before requests
 * come; without one everything is read-only there. */
typedef void (*entity_writer_fn)(struct tidings_provider *provider, struct tidings_write *write,
                                 struct tidings_str uri);
void entity_set_writer(struct tidings_provider *provider, entity_writer_fn writer);

/* It serves what `commit_thread` has, which outlives it. Before it is asked anything. */
void entity_bind(struct tidings_provider *provider, struct commit_thread *commit_thread);
struct commit_thread *entity_commit_thread(struct tidings_provider *provider);

/* The members that describe a version, without its value, inside an object. */
void entity_put_version(struct jw *w, const struct entity_version *version);

/* Tell that a write was committed: nothing when it changed nothing. From `done` of the job.
 */
struct entity_cause {
    struct tidings_str origin, traceparent; /* of struct tidings_change; or empty */
};
void entity_announce(struct tidings_provider *provider, const struct entity_done *done,
                     const struct entity_cause *cause);
/* The registry of types changed. */
void entity_announce_types(struct tidings_provider *provider, uint64_t position,
                           const struct entity_cause *cause);
/* What would be told of a write; its slices live until `fn` returns. false: out of memory. */
typedef void (*entity_change_fn)(void *user, const struct tidings_change *change);
bool entity_describe_change(const struct entity_done *done, struct tidings_str origin,
                            entity_change_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * What the files of sources/entity.h share: a job on its way to the commit thread and back.
 */

#define ENTITY_ARENA_MAX (16u << 20)

struct entity_mount {
    struct commit_thread *commit_thread;
    entity_writer_fn writer;
};

/* One of the requests is there. */
struct entity_job {
    struct store_job job;
    struct tidings_provider *provider;
    struct tidings_read *read;
    struct tidings_list *list;
    struct tidings_stat *stat;
    struct tidings_complete *complete;
    bool children;
    bool is_patch;           /* of a read: what became of it … */
    struct tidings_str from; /* … since then; empty: everything */
    struct tidings_str text; /* the URI asked for, or the template */
    struct entity_uri uri;
    struct tidings_resource about; /* what a stat found; texts in the arena */
    const char *reason;            /* of a failure, a word; NULL: none */
    struct entity_version stored;  /* what there is instead; its id is empty: nothing */
    struct arena arena;
};

/* Tell whoever asked, of a failure, its reason and what there is instead. */
void entity_explain(const struct entity_job *r);

/* On the commit thread: the answer but for its end. 0, or a failure with its sentence. */
int entity_read(struct entity_job *r, struct entities *entities, struct tidings_error *err);
/* On any thread: the same of what is current and known without asking. false: it is not. */
bool entity_read_recent(struct entity_job *r, const struct commit_thread *commit_thread,
                        int *ret_code, struct tidings_error *err);
int entity_patch(struct entity_job *r, struct entities *entities, struct tidings_error *err);
int entity_stat(struct entity_job *r, struct entities *entities, struct tidings_error *err);

/* The version a URI means, which exists, is of that type and not deleted. */
int entity_look_up(struct entity_job *r, struct entities *entities, int64_t at,
                   struct entity_version *ret, struct tidings_error *err);

#endif
