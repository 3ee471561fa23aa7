/* SPDX-License-Identifier: MIT
 *
 * What the parts of store/sqlite_care.h share.
 */
#ifndef STORE_SQLITE_CARE_PRIVATE_H
#define STORE_SQLITE_CARE_PRIVATE_H

#include "store/sqlite_care.h"

int sqlite_care_size(const char *path, uint64_t *ret, struct tidings_error *err);
/* Its size, when it is there and no database of another program. */
int sqlite_care_find(const char *path, uint64_t *ret_size, struct tidings_error *err);

#endif
