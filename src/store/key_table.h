/* SPDX-License-Identifier: MIT
 *
 * Idempotency keys, in memory (store/entity_rows.h says what they are for). A put may be undone
 * (key_table_remove); keys beyond the limits go only with key_table_trim.
 */
#ifndef STORE_KEY_TABLE_H
#define STORE_KEY_TABLE_H

#include "base/list.h"
#include "base/map.h"
#include "store/entity_rows.h"

struct key_row;

struct key_table {
    struct map by_owner;  /* struct key_owner */
    struct list enlarged; /* those that were added to since the last trim */
    struct list all;      /* of rows, oldest first */
    size_t count;         /* of them */
};

void key_table_init(struct key_table *t);
void key_table_deinit(struct key_table *t);
/* In place of one of that owner and key, if any. NULL: out of memory. */
struct key_row *key_table_put(struct key_table *t, const struct entity_key *key);
void key_table_remove(struct key_table *t, struct key_row *row);
const struct entity_key *key_table_find(const struct key_table *t, struct tidings_str owner,
                                        struct tidings_str key); /* or NULL */
void key_table_trim(struct key_table *t);

#endif
