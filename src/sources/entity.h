/* SPDX-License-Identifier: MIT
 *
 * Entities as resources: typed JSON values with their history, kept in a file or in memory.
 *
 * One mount of provider_entity_ops at ENTITY_URI_PREFIX serves the entities of a commit thread. It
 * has no configuration. All requests go to the thread of the store (store/commit_thread.h), which
 * also answers them. Writers submit jobs to entity_commit_thread and announce the changes after the
 * commit.
 */
#ifndef SOURCES_ENTITY_H
#define SOURCES_ENTITY_H

#include <tidings/provider.h>

#include "base/str.h"
#include "formats/json_write.h"
#include "store/commit_thread.h"

/* -------------------------------------------------------------------------------------------------
 * The URIs of entities, parsed and built.
 *
 *     entity:///                                     everything
 *     entity:///types                                the registry of types
 *     entity:///{type}@{version}/                    all of one type
 *     entity:///{type}@{version}/{id}                the current value of an entity
 *     entity:///{type}@{version}/{id}/patch          the same, with patches for writes and updates
 *     entity:///{type}@{version}/{id}/patch/{time}   from that version to the current one
 *     entity:///{type}@{version}/{id}/at/{time}      the value at that instant
 *
 * `{type}@{version}/` can be omitted before an id (a short URI for an entity of any type; an entity
 * with the id `types` has none). `?parent={id}` can follow the two URIs that end in '/', to select
 * entities with that parent. No other query is supported. Pure functions.
 */

#define ENTITY_URI_PREFIX "entity:///"
#define ENTITY_URI_MAX 1024u /* no longer URI is built */

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
    struct tidings_str parent;            /* empty: any */
    int64_t time;                         /* Unix milliseconds: the baseline, or the instant */
};

/* Slices of `uri`, which is canonical. An instant can be any RFC 3339 form of the same moment.
 * The '/' at the end of a type can be missing. TIDINGS_E_INVALID with the error and the correct
 * form. */
int entity_uri_parse(struct tidings_str uri, struct entity_uri *ret, struct tidings_error *err);
/* Returns true for a short URI. */
bool entity_uri_is_short(struct tidings_str uri);
/* Appends the canonical spelling, which parses to the same parts. */
int entity_uri_build(const struct entity_uri *uri, struct buf *out);

#define ENTITY_ALIAS "/entity/" /* can replace the prefix */

extern const struct tidings_provider_ops provider_entity_ops;

/* Sets the function that performs HTTP PUT, PATCH and DELETE requests: `write` of the table. Call
 * it before requests arrive. Without it all entities are read-only there. */
typedef void (*entity_writer_fn)(struct tidings_provider *provider, struct tidings_write *write,
                                 struct tidings_str uri);
void entity_set_writer(struct tidings_provider *provider, entity_writer_fn writer);

/* Makes it serve the entities of `commit_thread`, which outlives it. Call it before any request. */
void entity_bind(struct tidings_provider *provider, struct commit_thread *commit_thread);
struct commit_thread *entity_commit_thread(struct tidings_provider *provider);

/* Writes the members that describe a version, without its value, inside an object. */
void entity_put_version(struct jw *w, const struct entity_version *version);

/* Announces a committed write, unless it changed nothing. From `done` of the job. */
struct entity_cause {
    struct tidings_str origin, traceparent; /* of struct tidings_change; or empty */
};
void entity_announce(struct tidings_provider *provider, const struct entity_done *done,
                     const struct entity_cause *cause);
/* Announces a change of the registry of types. */
void entity_announce_types(struct tidings_provider *provider, uint64_t position,
                           const struct entity_cause *cause);
/* Passes the announcement of a write to `fn`; its slices live until `fn` returns. Returns false if
 * memory runs out. */
typedef void (*entity_change_fn)(void *user, const struct tidings_change *change);
bool entity_describe_change(const struct entity_done *done, struct tidings_str origin,
                            entity_change_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * Shared by the files of the provider: a job on its way to the commit thread and back.
 */

#define ENTITY_ARENA_MAX (16u << 20)

struct entity_mount {
    struct commit_thread *commit_thread;
    entity_writer_fn writer;
};

/* Exactly one of the requests is set. */
struct entity_job {
    struct store_job job;
    struct tidings_provider *provider;
    struct tidings_read *read;
    struct tidings_list *list;
    struct tidings_stat *stat;
    struct tidings_complete *complete;
    bool children;
    bool is_patch;           /* of a read: the difference … */
    struct tidings_str from; /* … since this version; empty: everything */
    struct tidings_str text; /* the requested URI, or the template */
    struct entity_uri uri;
    struct tidings_resource about; /* the result of a stat; strings in the arena */
    const char *reason;            /* of a failure, a keyword; NULL: none */
    struct entity_version stored;  /* the stored version instead; its id is empty: none */
    struct arena arena;
};

/* Reports a failure to the client, with its reason and the stored version. */
void entity_explain(const struct entity_job *r);

/* On the commit thread: writes the answer without its end. Returns 0, or a failure with its
 * message. */
int entity_read(struct entity_job *r, struct entities *entities, struct tidings_error *err);
/* On any thread: the same for a current value in the cache. Returns false if it is not cached. */
bool entity_read_recent(struct entity_job *r, const struct commit_thread *commit_thread,
                        int *ret_code, struct tidings_error *err);
int entity_patch(struct entity_job *r, struct entities *entities, struct tidings_error *err);
int entity_stat(struct entity_job *r, struct entities *entities, struct tidings_error *err);

/* Finds the version that a URI names; it must exist, have that type and not be deleted. */
int entity_look_up(struct entity_job *r, struct entities *entities, int64_t at,
                   struct entity_version *ret, struct tidings_error *err);

#endif
