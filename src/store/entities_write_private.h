/* SPDX-License-Identifier: MIT
 *
 * A transaction of writes to entities while it is worked out: shared by the files of
 * entities_write.
 */
#ifndef STORE_ENTITIES_WRITE_PRIVATE_H
#define STORE_ENTITIES_WRITE_PRIVATE_H

#include "base/error.h"
#include "store/entities_private.h"

/* One write as it is worked out. */
struct step {
    const struct entity_write *w;
    struct entity_version now; /* the current version, in the arena */
    bool exists;
    bool is_taken;              /* by something that is not for whoever writes */
    struct entity_type *type;   /* of what is written */
    struct entity_version next; /* in the arena */
    bool changed;
    bool replaces_current; /* it takes the place of the current one */
    uint64_t position;     /* once it was put */
};

/* One transaction while it is checked and put. */
struct write_context {
    struct entities *e;
    const struct entity_transaction *t;
    struct arena *arena;
    struct step *steps;
    struct entity_problem *problem;
    struct tidings_error *err;
    uint64_t *judging; /* steps left for judging by schemas: all writes together */
};

/* Why write `index` is refused; returns `code`. */
int entities_write_refuse(struct write_context *k, size_t index, enum entity_reason reason,
                          int code);
#define REFUSE(k, index, reason, code, ...)                                                        \
    entities_write_refuse(k, index, reason, tidings_fail((k)->err, code, __VA_ARGS__))
int entities_write_unknown(struct write_context *k, size_t index, struct tidings_str id);
int entities_write_medium(struct write_context *k, size_t index, int code);
/* Before anything was put: of what is stored damaged only this transaction fails, not its batch. */
int entities_write_unreadable(struct write_context *k, size_t index, int code);

/* ---- entities_write_check.c: what is asked for, against what is there ------------------------ */

/* By itself; then, with `now` of the step known: by whoever writes it, and as it is. */
int entities_write_check(struct write_context *k, size_t index);
int entities_write_check_now(struct write_context *k, size_t index);
/* May whoever writes do that with a version as it is stored? */
bool entities_write_may_as_stored(const struct write_context *k, enum entity_right right,
                                  const struct entity_version *v);

#endif
