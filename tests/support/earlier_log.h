/* SPDX-License-Identifier: MIT
 *
 * The log beside a store, after a restart, without a file: one in memory that accepts cursors of
 * the epoch before, `ea`, up to the position it begins with. One at a time.
 */
#ifndef SUPPORT_EARLIER_LOG_H
#define SUPPORT_EARLIER_LOG_H

#include "store/change_log.h"

/* Changes up to number `first` may be appended: those of the earlier run. */
struct changelog *earlier_log(const struct changelog_limits *limits, uint64_t first);

#endif
