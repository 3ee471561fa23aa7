/* SPDX-License-Identifier: MIT
 *
 * Copying a store of SQLite: operations of store/transfer.h.
 */
#ifndef STORE_SQLITE_TRANSFER_H
#define STORE_SQLITE_TRANSFER_H

#include "store/transfer.h"

extern const struct transfer_ops sqlite_transfer;

struct sqlite_entities;
/* Was a copy into this file begun and not ended? *ret: 1. */
int sqlite_transfer_is_copying(struct sqlite_entities *s, int64_t *ret, struct tidings_error *err);

#endif
