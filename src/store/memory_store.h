/* SPDX-License-Identifier: MIT
 *
 * The store in memory: everything is lost when the process ends.
 */
#ifndef STORE_MEMORY_STORE_H
#define STORE_MEMORY_STORE_H

#include "store/store.h"

struct store *memory_store_create(struct tidings_error *err);

#endif
