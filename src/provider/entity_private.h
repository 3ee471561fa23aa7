/* SPDX-License-Identifier: MIT
 *
 * What the files of provider/entity.h share: a job on its way to the keeper and back.
 */
#ifndef PROVIDER_ENTITY_PRIVATE_H
#define PROVIDER_ENTITY_PRIVATE_H

#include "provider/entity.h"

#define ENTITY_ARENA_MAX (16u << 20)

struct entity_mount {
    struct keeper *keeper;
    entity_writer_fn writer;
};

/* One of the requests is there. */
struct entity_job {
    struct keeper_job job;
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

/* On the keeper's thread: the answer but for its end. 0, or a failure with its sentence. */
int entity_read(struct entity_job *r, struct entities *entities, struct tidings_error *err);
/* On any thread: the same of what is current and known without asking. false: it is not. */
bool entity_read_recent(struct entity_job *r, const struct keeper *keeper, int *ret_code,
                        struct tidings_error *err);
int entity_patch(struct entity_job *r, struct entities *entities, struct tidings_error *err);
int entity_list(struct entity_job *r, struct entities *entities, struct tidings_error *err);
int entity_stat(struct entity_job *r, struct entities *entities, struct tidings_error *err);
int entity_complete(struct entity_job *r, struct entities *entities, struct tidings_error *err);

/* Of the table (provider/entity_hold.c). */
void *entity_hold(struct tidings_provider *p, struct tidings_str text, struct tidings_str etag);
void entity_release(struct tidings_provider *provider, void *held);

/* The version a URI means, which exists, is of that type and not deleted. */
int entity_look_up(struct entity_job *r, struct entities *entities, int64_t at,
                   struct entity_version *ret, struct tidings_error *err);

#endif
