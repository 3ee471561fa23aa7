/* SPDX-License-Identifier: MIT
 *
 * What the files of store/entities.h share: the registry of types (store/entities_types.c), writing
 * (store/entities_write.c), and the rest (store/entities.c).
 */
#ifndef STORE_ENTITIES_PRIVATE_H
#define STORE_ENTITIES_PRIVATE_H

#include "base/list.h"
#include "base/map.h"
#include "store/entities.h"
#include "store/entity_holds.h"
#include "store/entity_read_cache.h"
#include "store/entity_recent.h"
#include "json/schema.h"

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
    struct entity_rows *rows;
    struct list types; /* by name, then by version */
    struct map by_label;
    struct map newest;    /* name -> its newest version */
    bool has_added_types; /* in this batch */
    int64_t aging_ms;     /* when all entities are looked at next (store/entities_aging.c) */
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
/* Forget what has grown old, of some entities. 1: there are more to look at. */
int entity_aging_step(struct entities *e, struct tidings_error *err);

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
