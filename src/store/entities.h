/* SPDX-License-Identifier: MIT
 *
 * Entities: typed JSON values with their whole history. This module defines valid writes and their
 * effects; store/store.h stores them.
 *
 * An entity has an id, a type (name and version), a value, an optional parent, and versions that
 * tile time. Its id is unique across types. Deleting an entity writes a final version that marks it
 * as deleted; undeleting writes another version. Values are validated by the schema of their type,
 * patches by the patch schema derived from it, and patched values again by the full schema.
 *
 * One owner, one thread. Writes happen in batches: entities_begin, any number of transactions, then
 * entities_commit, and no change may be announced before that. A refused transaction leaves no
 * trace in its batch; after one that fails because of the medium (ENTITY_MEDIUM: TIDINGS_E_IO,
 * TIDINGS_E_FULL, TIDINGS_E_NOMEM, TIDINGS_E_BUSY of an unreachable database) only
 * entities_rollback is possible.
 */
#ifndef STORE_ENTITIES_H
#define STORE_ENTITIES_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "formats/json.h"
#include "formats/schema.h"
#include "store/entity_cache.h"
#include "store/store.h"

#define ENTITY_ID_MAX 256u
#define ENTITY_NAME_MAX 128u           /* of a type or a version */
#define ENTITY_VALUE_MAX (1u << 20)    /* bytes of JSON */
#define ENTITY_SCHEMA_MAX (256u << 10) /* bytes of JSON */
#define ENTITY_TYPES_MAX 1000u         /* counting each name and version */
#define ENTITY_KEY_MAX 512u
#define ENTITY_TRANSACTION_MAX 1000u /* writes */

struct entities;

/* Takes ownership of `store`, even on failure. Reads the types. */
int entities_open(struct store *store, struct entities **ret, struct tidings_error *err);
void entities_close(struct entities *e); /* NULL is fine */
/* For other data that is written in the same batches. */
struct store *entities_store(struct entities *e);
/* Unix time by the authoritative clock: the store's if several nodes share it. */
int64_t entities_now(struct entities *e);
/* The position of the newest change of a type or an entity; 0: nothing survives a restart. */
uint64_t entities_position(struct entities *e);

/* ---- names ----------------------------------------------------------------------------------- */

/* Letters, digits, '-', '_' and, in ids and versions, '.'; not empty, not too long. */
bool entity_id_is_valid(struct tidings_str id);
bool entity_type_name_is_valid(struct tidings_str name);
bool entity_type_version_is_valid(struct tidings_str version);

/* ---- types ----------------------------------------------------------------------------------- */

/* How the versions of a type's entities are kept. Held versions (entities_hold) are kept until the
 * first write after their release. */
struct entity_keeping {
    bool history;         /* false: only the current version */
    int64_t debounce_ms;  /* writes of the same actor within this time become one version */
    int64_t max_age_ms;   /* versions that ended longer ago are removed; 0: never */
    int64_t max_versions; /* per entity; 0: all */
};

struct entity_type_spec {
    struct tidings_str name, version, description;
    struct json *schema;
    struct json *options; /* NULL, or {"history", "debounceMs", "maxAgeMs", "maxVersions"} */
    uint64_t *steps;      /* for compiling, as in a transaction */
};

/* Steps (formats/schema.h, about 2 ns each) for validating all writes of a transaction, or for
 * compiling both schemas of a type. */
#define ENTITY_STEPS 7000000u

/* Call it inside a batch. TIDINGS_E_EXISTS, TIDINGS_E_INVALID (a name, an option, a limit), and the
 * errors of compiling the schema and its patch schema. TIDINGS_E_IO, TIDINGS_E_FULL,
 * TIDINGS_E_NOMEM: the batch is lost. */
int entities_add_type(struct entities *e, const struct entity_type_spec *spec,
                      struct tidings_error *err);
/* Reads the types again after another node added some. After a failure they are unchanged. */
int entities_reload_types(struct entities *e, struct tidings_error *err);
/* By name, then by version, oldest first. */
void entities_each_type(struct entities *e, entity_type_fn fn, void *user);

/* ---- writing --------------------------------------------------------------------------------- */

enum entity_op {
    ENTITY_UPSERT,
    ENTITY_DELETE,
    ENTITY_UNDELETE,
};

struct entity_write {
    enum entity_op op;
    struct tidings_str id;
    /* Upserts: required. Others: empty, or equal to those of the entity. */
    struct tidings_str type, type_version;
    struct json *value, *patch; /* exactly one, for upserts */
    struct tidings_str parent;
    bool has_parent;               /* false: the parent is unchanged */
    struct tidings_str changed_by; /* JSON text */
    /* The version this write starts from; TIMELINE_NEVER: not given. Required with a patch, unless
     * it is to be rebased. */
    int64_t baseline;
    bool must_be_new;   /* fail if the entity exists */
    bool must_exist;    /* fail if it does not */
    bool is_careful;    /* fail if it exists and neither of these nor a baseline is given */
    bool rebase;        /* apply a patch to the current value, whatever its baseline, if any */
    int64_t valid_from; /* start time; TIMELINE_NEVER: now */
};

enum entity_reason {
    ENTITY_OK,
    ENTITY_INVALID, /* the request itself is invalid */
    ENTITY_UNKNOWN_TYPE,
    ENTITY_UNKNOWN,    /* no such entity */
    ENTITY_OTHER_TYPE, /* it has another type or version: `type`, `version` */
    ENTITY_DELETED,
    ENTITY_EXISTS, /* must_be_new */
    ENTITY_UNKNOWN_BASELINE,
    ENTITY_CONFLICT,    /* the baseline is not current: `current`, `patch` */
    ENTITY_BAD_VALUE,   /* rejected by the schema: `where`, `rule` */
    ENTITY_CARELESS,    /* is_careful */
    ENTITY_KEY_REUSED,  /* for different writes */
    ENTITY_TAKEN,       /* the id belongs to an entity that the caller may not know of */
    ENTITY_DAMAGED,     /* stored data is damaged */
    ENTITY_UNSUPPORTED, /* the stored schema of its type is unusable */
    ENTITY_MEDIUM,      /* the batch is lost */
};

/* Why a transaction was refused. Strings are in the arena passed with it. */
struct entity_problem {
    enum entity_reason reason;
    size_t index;    /* of the write */
    int64_t current; /* start time of the current version */
    /* from the caller's baseline to the current value; or empty */
    struct tidings_str patch;
    struct tidings_str type, version; /* as stored */
    struct tidings_str where, rule;   /* JSON pointers into the value and the schema */
    bool is_out_of_steps;             /* with ENTITY_BAD_VALUE: validity is unknown */
};

struct entity_done {
    struct entity_version version; /* the current version after the write; strings in the arena */
    int64_t before;                /* start time of the version before it; TIMELINE_NEVER: none */
    struct tidings_str old_type_version; /* its type version then; empty: none */
    struct tidings_str old_parent;       /* its parent then; or empty */
    /* false: the value was already the same, nothing was written */
    bool changed;
    bool created;      /* the first version, or undeleted */
    uint64_t position; /* of the change; 0: nothing survives a restart */
};

/* Whether the caller may know of this entity as one of that type and version, or write it as such.
 */
enum entity_right {
    ENTITY_MAY_KNOW,
    ENTITY_MAY_WRITE,
};
typedef bool (*entity_may_fn)(void *user, enum entity_right right,
                              const struct entity_type_row *type, struct tidings_str id);

struct entity_transaction {
    const struct entity_write *writes;
    size_t count;
    struct tidings_str key;   /* idempotency key; empty: none */
    int64_t now;              /* Unix time, milliseconds */
    struct tidings_str owner; /* of the key: unique per client */
    /* the authenticated principal, JSON text; empty: not authenticated */
    struct tidings_str principal;
    struct tidings_str digest; /* with a key: entity_digest of the writes */
    /* NULL: everything is allowed. For types named in the writes, access was checked before.
     * Entities that the caller may not know of look missing to it, except that their ids are taken.
     */
    entity_may_fn may;
    void *may_user;
    /* In: the available steps, at most ENTITY_STEPS; out: the remaining ones. NULL: ENTITY_STEPS.
     */
    uint64_t *steps;
};

/* The digest of everything the writes request, as hexadecimal digits. TIDINGS_E_NOMEM. */
#define ENTITY_DIGEST_TEXT (2 * 32 + 1)
int entity_digest(const struct entity_write *writes, size_t count, char out[ENTITY_DIGEST_TEXT]);

int entities_begin(struct entities *e, struct tidings_error *err);
/* The same without the lock of a shared store, if this is possible now (begin_unlocked,
 * store/store.h). */
bool entities_begin_unlocked(struct entities *e);
int entities_commit(struct entities *e, struct tidings_error *err);
void entities_rollback(struct entities *e);

/* All writes or none. Each entity at most once. 0: `done[0, count)` is filled. 1: the same
 * principal used the same key before for the same writes; `done` is their result (none `changed`).
 * On failure *problem has the reason, and the error message describes it to a person. */
int entities_transact(struct entities *e, const struct entity_transaction *t, struct arena *arena,
                      struct entity_done *done, struct entity_problem *problem,
                      struct tidings_error *err);

/* ---- reading: outside of batches ------------------------------------------------------------- */

/* Finds the version valid at `at` (TIMELINE_FOREVER: the current one). 1: found, strings in the
 * arena; 0: none. */
int entities_find(struct entities *e, struct tidings_str id, int64_t at, struct arena *arena,
                  struct entity_version *ret, struct tidings_error *err);

/* For a shared store: caches up to this many bytes of current versions that were read, for use
 * while the store is unreachable (entities_set_unreachable). */
void entities_set_read_cache(struct entities *e, size_t max_bytes);
void entities_set_unreachable(struct entities *e, bool is_unreachable);
/* Another node wrote this version; `v` without value: the value is unknown. */
void entities_note_followed(struct entities *e, const struct entity_version *v);
/* Drops all cached versions, because they may be stale. */
void entities_drop_cached(struct entities *e);
/* Any thread. A version that another node wrote recently and that is current as far as this node
 * has followed; or NULL (store/entity_cache.h). */
struct recent_version;
const struct recent_version *entities_recent(const struct entities *e, struct tidings_str id);

/* A patch from the version that begins at `baseline` to the current one. */
struct entity_patch {
    struct entity_version version;         /* the current one; strings in the arena */
    struct tidings_str type, type_version; /* of the baseline */
    struct tidings_str patch; /* JSON text; empty: not expressible as a patch, use the value */
};
/* Returns 1; 0: no entity, or no version begins there (`ret->version.id` is empty if there is no
 * entity). */
int entities_patch_from(struct entities *e, struct tidings_str id, int64_t baseline,
                        struct arena *arena, struct entity_patch *ret, struct tidings_error *err);

int entities_history(struct entities *e, struct tidings_str id, int64_t first, entity_version_fn fn,
                     void *user, struct tidings_error *err);
int entities_list(struct entities *e, const struct entity_scope *scope, struct tidings_str after,
                  entity_version_fn fn, void *user, struct tidings_error *err);

/* Holds the version of `id` that begins at `from`, whether it exists or not: until it is released
 * as often, compaction keeps it and all later ones. TIDINGS_E_NOMEM. */
int entities_hold(struct entities *e, struct tidings_str id, int64_t from);
void entities_release(struct entities *e, struct tidings_str id, int64_t from);

/* Call it when idle, and periodically: runs deferred work, and removes versions that are too old.
 * 1: there is more to do. */
int entities_idle(struct entities *e, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Versions of entities that subscribers hold as baselines of future patches. Compaction keeps the
 * oldest held version of an entity, and all later ones. In memory: subscribers must hold their
 * versions again after a restart.
 */

struct entity_holds {
    struct map by_id;
};

void entity_holds_init(struct entity_holds *h);
void entity_holds_deinit(struct entity_holds *h);

/* Counts a hold of the version of `id` that begins at `from`. TIDINGS_E_NOMEM. */
int entity_holds_add(struct entity_holds *h, struct tidings_str id, int64_t from);
void entity_holds_remove(struct entity_holds *h, struct tidings_str id, int64_t from);
/* The start time of the oldest held version of `id`; TIMELINE_FOREVER: none is held. */
int64_t entity_holds_oldest(const struct entity_holds *h, struct tidings_str id);
/* Records that a patch to that version was sent to a subscriber, who will hold it before releasing
 * the patch's baseline. For each entity with holds, the last offered version counts as held. */
void entity_holds_offer(struct entity_holds *h, struct tidings_str id, int64_t from);
bool entity_holds_has(const struct entity_holds *h, struct tidings_str id, int64_t from);

/* -------------------------------------------------------------------------------------------------
 * Internal interface of the entity files: the registry of types (store/entities_types.c), writing
 * (store/entities_write.c), and the rest (store/entities.c).
 */

struct entity_type {
    struct list link;
    struct tidings_str label; /* "name@version" */
    struct entity_type_row row;
    struct json_schema *full, *patch;
    struct json *patch_pointers; /* for schema_patch_explain */
    char *unusable;              /* error in the schema, which is stored nevertheless; or NULL */
    struct entity_keeping keeping;
    bool is_added; /* by the current batch */
    char text[];
};

struct entities {
    struct store *store;
    struct list types; /* by name, then by version */
    struct map by_label;
    struct map newest;    /* name -> its newest version */
    bool has_added_types; /* by this batch */
    /* time of the next pass through all entities (store/entities.c) */
    int64_t aging_ms;
    char aged[ENTITY_ID_MAX + 1]; /* the last entity visited in the current pass; else empty */
    struct entity_holds holds;
    struct entity_read_cache read_cache; /* for a shared store … */
    struct entity_recent *recent;        /* … likewise; else NULL */
    bool in_batch;
    bool is_unreachable; /* the store is unreachable */
};

/* In a batch: removes the versions of `id` that ended at or before `end`, up to the first held one.
 */
int entity_forget(struct entities *e, struct tidings_str id, int64_t end,
                  struct tidings_error *err);

/* Reads the types from the rows. */
int entity_types_load(struct entities *e, struct tidings_error *err);
/* Logs the types with unusable schemas. */
void entity_types_warn(struct entities *e);
void entity_types_clear(struct entities *e);
/* Keeps or removes the types that the batch added. Reads no rows. */
void entity_types_end_batch(struct entities *e, bool is_committed);
struct entity_type *entity_types_find(struct entities *e, struct tidings_str name,
                                      struct tidings_str version);                    /* or NULL */
struct entity_type *entity_types_newest(struct entities *e, struct tidings_str name); /* or NULL */

/* Copies the strings into the arena; false: it is full. */
bool entity_version_keep(struct entity_version *v, struct arena *arena);
/* Writes a value as compact text into the arena. TIDINGS_E_LIMIT, TIDINGS_E_NOMEM. */
int entity_text(const struct json *v, struct arena *arena, struct tidings_str *ret,
                struct tidings_error *err);
/* The merge patch between two JSON texts; *ret empty if there is none. */
int entity_diff(struct tidings_str from, struct tidings_str to, struct arena *arena,
                struct tidings_str *ret, struct tidings_error *err);

#endif
