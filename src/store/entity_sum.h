/* SPDX-License-Identifier: MIT
 *
 * The checksum of a stored version, by which bytes that changed on the disk are noticed.
 */
#ifndef STORE_ENTITY_SUM_H
#define STORE_ENTITY_SUM_H

#include "store/entity_rows.h"

/* Never 0; and is a version what was written with that sum (0: with none)? */
int64_t entity_version_sum(const struct entity_version *v);
bool entity_version_is_whole(const struct entity_version *v, int64_t sum);

#endif
