/* SPDX-License-Identifier: MIT
 *
 * Entities: typed JSON values with their whole history. What may be written, and what a write does;
 * where it is kept is behind store/store.h.
 *
 * An entity has an id, a type (name and version), a value, perhaps a parent, and versions that tile
 * time. Its id is unique whatever its type. Deleting it writes one more version that says so;
 * undeleting another. A value is judged by the schema of its type, a patch by the schema made from
 * that, and the result of a patch again by the full one.
 *
 * One owner, one thread. Writes happen in batches: entities_begin, any number of transactions, then
 * entities_commit, and only then may anybody be told that they happened. A transaction that is
 * refused leaves no trace in its batch; one that fails for a reason of the medium (ENTITY_MEDIUM:
 * TIDINGS_E_IO, TIDINGS_E_FULL, TIDINGS_E_NOMEM, TIDINGS_E_BUSY of a database that cannot be
 * reached) leaves nothing but entities_rollback.
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
#define ENTITY_NAME_MAX 128u           /* of a type, of a version */
#define ENTITY_VALUE_MAX (1u << 20)    /* bytes of JSON */
#define ENTITY_SCHEMA_MAX (256u << 10) /* bytes of JSON */
#define ENTITY_TYPES_MAX 1000u         /* name and version */
#define ENTITY_KEY_MAX 512u
#define ENTITY_TRANSACTION_MAX 1000u /* writes */

struct entities;

/* Takes `store`, also on failure. Reads the types. */
int entities_open(struct store *store, struct entities **ret, struct tidings_error *err);
void entities_close(struct entities *e); /* NULL is fine */
/* For what is kept beside them, in the same batches. */
struct store *entities_store(struct entities *e);
/* Unix time by the clock that counts: the store's where several nodes have it in common. */
int64_t entities_now(struct entities *e);
/* Of the newest change of a type or an entity; 0: nothing outlives the program. */
uint64_t entities_position(struct entities *e);

/* ---- names ----------------------------------------------------------------------------------- */

/* Letters, digits, '-', '_' and, in ids and versions, '.'; not empty, not too long. */
bool entity_id_is_valid(struct tidings_str id);
bool entity_type_name_is_valid(struct tidings_str name);
bool entity_type_version_is_valid(struct tidings_str version);

/* ---- types ----------------------------------------------------------------------------------- */

/* How the versions of a type's entities are kept. What is held (entities_hold) stays, until the
 * first write after it was released. */
struct entity_keeping {
    bool history;         /* false: the current version alone */
    int64_t debounce_ms;  /* what the same actor writes within it is one version */
    int64_t max_age_ms;   /* versions that ended longer ago are forgotten; 0: never */
    int64_t max_versions; /* of one entity; 0: all */
};

struct entity_type_spec {
    struct tidings_str name, version, description;
    struct json *schema;
    struct json *options; /* NULL, or {"history", "debounceMs", "maxAgeMs", "maxVersions"} */
    uint64_t *steps;      /* for compiling, as in a transaction */
};

/* Steps (formats/schema.h, some 2 ns each) for judging all writes of a transaction by their
 * schemas; for compiling both schemas of a type. */
#define ENTITY_STEPS 7000000u

/* Inside a batch. TIDINGS_E_EXISTS, TIDINGS_E_INVALID (a name, an option, too much), and what
 * compiling the schema and its patch schema says. TIDINGS_E_IO, TIDINGS_E_FULL, TIDINGS_E_NOMEM:
 * the batch is lost. */
int entities_add_type(struct entities *e, const struct entity_type_spec *spec,
                      struct tidings_error *err);
/* Another node added some: read them again. After a failure they are as before. */
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
    /* Upserts: required. Others: empty, or they must be those of the entity. */
    struct tidings_str type, type_version;
    struct json *value, *patch; /* one of them, for upserts */
    struct tidings_str parent;
    bool has_parent;               /* else it stays as it is */
    struct tidings_str changed_by; /* JSON text */
    /* The version this write starts from; TIMELINE_NEVER: not said. Required with a patch, unless
     * that is to be rebased. */
    int64_t baseline;
    bool must_be_new;   /* refuse when the entity exists */
    bool must_exist;    /* refuse when it does not */
    bool is_careful;    /* refuse to change what exists with none of these and no baseline */
    bool rebase;        /* a patch is applied to what is current, whatever its baseline, if any */
    int64_t valid_from; /* when it begins; TIMELINE_NEVER: now */
};

enum entity_reason {
    ENTITY_OK,
    ENTITY_INVALID, /* the request itself */
    ENTITY_UNKNOWN_TYPE,
    ENTITY_UNKNOWN,    /* no such entity */
    ENTITY_OTHER_TYPE, /* it has another type or version: `type`, `version` */
    ENTITY_DELETED,
    ENTITY_EXISTS, /* must_be_new */
    ENTITY_UNKNOWN_BASELINE,
    ENTITY_CONFLICT,    /* the baseline is not current: `current`, `patch` */
    ENTITY_BAD_VALUE,   /* the schema says no: `where`, `rule` */
    ENTITY_CARELESS,    /* is_careful */
    ENTITY_KEY_REUSED,  /* for other writes */
    ENTITY_TAKEN,       /* its id is that of something whoever writes may not know of */
    ENTITY_DAMAGED,     /* what is stored is not what was written */
    ENTITY_UNSUPPORTED, /* the schema of its type is stored and cannot be used */
    ENTITY_MEDIUM,      /* the batch is lost */
};

/* Why a transaction was refused. Texts live in the arena given with it. */
struct entity_problem {
    enum entity_reason reason;
    size_t index;                     /* of the write */
    int64_t current;                  /* where the current version begins */
    struct tidings_str patch;         /* from the caller's baseline to what is; or empty */
    struct tidings_str type, version; /* stored */
    struct tidings_str where, rule;   /* JSON pointers into the value and the schema */
    bool is_out_of_steps;             /* with ENTITY_BAD_VALUE: nobody knows whether it is */
};

struct entity_done {
    struct entity_version version; /* what is there now; texts in the arena */
    int64_t before;                /* where the version before it begins; TIMELINE_NEVER: none */
    struct tidings_str old_type_version; /* of its type then; empty: none */
    struct tidings_str old_parent;       /* what it was below then; or empty */
    bool changed;                        /* false: it was so already, nothing was written */
    bool created;                        /* the first version, or undeleted */
    uint64_t position;                   /* of the change; 0: nothing outlives the program */
};

/* May whoever writes know of this entity as one of that type and version; write it as that? */
enum entity_right {
    ENTITY_MAY_KNOW,
    ENTITY_MAY_WRITE,
};
typedef bool (*entity_may_fn)(void *user, enum entity_right right,
                              const struct entity_type_row *type, struct tidings_str id);

struct entity_transaction {
    const struct entity_write *writes;
    size_t count;
    struct tidings_str key;       /* idempotency; empty: none */
    int64_t now;                  /* Unix time, milliseconds */
    struct tidings_str owner;     /* of the key: a text that is nobody else's */
    struct tidings_str principal; /* who it was proved to be, JSON text; empty: nobody asked */
    struct tidings_str digest;    /* with a key: entity_digest of the writes */
    /* NULL: everything. Of the types that the writes name it was asked before. What it may not know
     * of is not there for it, except that its id is taken. */
    entity_may_fn may;
    void *may_user;
    /* Those there are, at most ENTITY_STEPS; then those that are left. NULL: ENTITY_STEPS. */
    uint64_t *steps;
};

/* Of everything that the writes ask for, as hexadecimal text. TIDINGS_E_NOMEM. */
#define ENTITY_DIGEST_TEXT (2 * 32 + 1)
int entity_digest(const struct entity_write *writes, size_t count, char out[ENTITY_DIGEST_TEXT]);

int entities_begin(struct entities *e, struct tidings_error *err);
/* The same without the lock of a store that others write to, if that is possible now
 * (begin_unlocked, store/store.h). */
bool entities_begin_unlocked(struct entities *e);
int entities_commit(struct entities *e, struct tidings_error *err);
void entities_rollback(struct entities *e);

/* All writes or none. Each entity at most once. 0: `done[0, count)` is filled. 1: the same key was
 * used before by the same principal for the same writes; `done` is what they left (none `changed`).
 * A failure: *problem says why, the sentence says it to a person. */
int entities_transact(struct entities *e, const struct entity_transaction *t, struct arena *arena,
                      struct entity_done *done, struct entity_problem *problem,
                      struct tidings_error *err);

/* ---- reading: outside of batches ------------------------------------------------------------- */

/* The version valid at `at` (TIMELINE_FOREVER: the current one), texts in the arena, 1; 0: none. */
int entities_find(struct entities *e, struct tidings_str id, int64_t at, struct arena *arena,
                  struct entity_version *ret, struct tidings_error *err);

/* Of a store that others write to as well: so many bytes of current versions that were read are
 * kept, and found while it cannot be reached (entities_set_unreachable). */
void entities_set_read_cache(struct entities *e, size_t max_bytes);
void entities_set_unreachable(struct entities *e, bool is_unreachable);
/* Another node wrote it; `v` without its value: that is not known. */
void entities_note_followed(struct entities *e, const struct entity_version *v);
/* Nothing is certain any more. */
void entities_drop_cached(struct entities *e);
/* Any thread: what another node wrote a moment ago, and is current as far as this one has followed;
 * or NULL (store/entity_cache.h). */
struct recent_version;
const struct recent_version *entities_recent(const struct entities *e, struct tidings_str id);

/* From the version that begins at `baseline` to the current one. */
struct entity_patch {
    struct entity_version version;         /* the current one; texts in the arena */
    struct tidings_str type, type_version; /* of the version it begins at */
    struct tidings_str patch; /* JSON text; empty: no patch can say it, take the value */
};
/* 1; 0: no entity, or no version begins there (`ret->version.id` is empty when there is no entity).
 */
int entities_patch_from(struct entities *e, struct tidings_str id, int64_t baseline,
                        struct arena *arena, struct entity_patch *ret, struct tidings_error *err);

int entities_history(struct entities *e, struct tidings_str id, int64_t first, entity_version_fn fn,
                     void *user, struct tidings_error *err);
int entities_list(struct entities *e, const struct entity_scope *scope, struct tidings_str after,
                  entity_version_fn fn, void *user, struct tidings_error *err);

/* The version of `id` that begins at `from` is needed, whether it exists or not: until it is
 * released as often no compaction forgets it, or anything after it. TIDINGS_E_NOMEM. */
int entities_hold(struct entities *e, struct tidings_str id, int64_t from);
void entities_release(struct entities *e, struct tidings_str id, int64_t from);

/* When there is nothing else to do, and now and then: work that was put off, and versions that have
 * grown too old by the clock. 1: there is more of it. */
int entities_idle(struct entities *e, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Versions of entities that subscribers hold and that patches will be made from. Compaction keeps
 * the oldest one of an entity that is held, and everything after it. In memory: who needs a version
 * has to say so again after a restart.
 */

struct entity_holds {
    struct map by_id;
};

void entity_holds_init(struct entity_holds *h);
void entity_holds_deinit(struct entity_holds *h);

/* The version of `id` that begins at `from`, counted. TIDINGS_E_NOMEM. */
int entity_holds_add(struct entity_holds *h, struct tidings_str id, int64_t from);
void entity_holds_remove(struct entity_holds *h, struct tidings_str id, int64_t from);
/* Where the oldest held version of `id` begins; TIMELINE_FOREVER: none is. */
int64_t entity_holds_oldest(const struct entity_holds *h, struct tidings_str id);
/* A patch to that version is on its way to somebody, who will hold it before letting go of what the
 * patch begins at: of entities of which something is held, the last such version counts as held. */
void entity_holds_offer(struct entity_holds *h, struct tidings_str id, int64_t from);
bool entity_holds_has(const struct entity_holds *h, struct tidings_str id, int64_t from);

/* -------------------------------------------------------------------------------------------------
 * What the files of store/entities.h share: the registry of types (store/entities_types.c), writing
 * (store/entities_write.c), and the rest (store/entities.c).
 */

struct entity_type {
    struct list link;
    struct tidings_str label; /* "name@version" */
    struct entity_type_row row;
    struct json_schema *full, *patch;
    struct json *patch_pointers; /* for schema_patch_explain */
    char *unusable; /* what is wrong with the schema, which is stored all the same; or NULL */
    struct entity_keeping keeping;
    bool is_added; /* in the batch under way */
    char text[];
};

struct entities {
    struct store *store;
    struct list types; /* by name, then by version */
    struct map by_label;
    struct map newest;            /* name -> its newest version */
    bool has_added_types;         /* in this batch */
    int64_t aging_ms;             /* when all entities are looked at next (store/entities.c) */
    char aged[ENTITY_ID_MAX + 1]; /* the last that was, while that is going on; else empty */
    struct entity_holds holds;
    struct entity_read_cache read_cache; /* of a store that others share … */
    struct entity_recent *recent;        /* … too; else NULL */
    bool in_batch;
    bool is_unreachable; /* it cannot be reached */
};

/* In a batch: forget the versions of `id` that ended at or before `end`, up to the first that
 * somebody holds. */
int entity_forget(struct entities *e, struct tidings_str id, int64_t end,
                  struct tidings_error *err);

/* From the rows. */
int entity_types_load(struct entities *e, struct tidings_error *err);
/* Says which have a schema that cannot be used. */
void entity_types_warn(struct entities *e);
void entity_types_clear(struct entities *e);
/* Those that the batch added stay, or go with it. Nothing is read for that. */
void entity_types_end_batch(struct entities *e, bool is_committed);
struct entity_type *entity_types_find(struct entities *e, struct tidings_str name,
                                      struct tidings_str version);                    /* or NULL */
struct entity_type *entity_types_newest(struct entities *e, struct tidings_str name); /* or NULL */

/* Copies of the texts in the arena; false: it is full. */
bool entity_version_keep(struct entity_version *v, struct arena *arena);
/* A value as compact text in the arena. TIDINGS_E_LIMIT, TIDINGS_E_NOMEM. */
int entity_text(const struct json *v, struct arena *arena, struct tidings_str *ret,
                struct tidings_error *err);
/* The merge patch between two JSON texts; *ret empty when none can say it. */
int entity_diff(struct tidings_str from, struct tidings_str to, struct arena *arena,
                struct tidings_str *ret, struct tidings_error *err);

#endif
