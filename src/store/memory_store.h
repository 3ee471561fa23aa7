/* SPDX-License-Identifier: MIT
 *
 * The store in memory: everything is lost when the process ends.
 */
#ifndef STORE_MEMORY_STORE_H
#define STORE_MEMORY_STORE_H

#include "store/store.h"

struct entity_rows *entity_memory_create(struct tidings_error *err);

#endif
