/* SPDX-License-Identifier: MIT
 *
 * A cache of the newest versions of entities that were written lately: what is written again is
 * compared with them, and need not be looked up and read from the store each time.
 *
 * At most HEADS_COUNT of HEADS_BYTES each; what does not fit, or was overwritten by another, is
 * found in the store. Not thread-safe.
 */
#ifndef STORE_ENTITY_HEADS_H
#define STORE_ENTITY_HEADS_H

#include "store/entity_rows.h"

#define HEADS_COUNT 8192u
#define HEADS_BYTES 2048u /* of texts */

struct heads {
    struct head **slots; /* NULL until something is kept */
    unsigned next_way;   /* whose place is taken next */
};

/* NULL: not here. The slices live until the next heads_put or heads_clear. */
const struct entity_version *heads_find(const struct heads *h, struct tidings_str id);
/* `v` is the newest of its entity; it is copied. Without memory it is forgotten, no more. */
void heads_put(struct heads *h, const struct entity_version *v);
/* Somebody else wrote it: it is forgotten. */
void heads_drop(struct heads *h, struct tidings_str id);
/* Nothing is certain any more. */
void heads_clear(struct heads *h);

#endif
