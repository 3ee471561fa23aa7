/* SPDX-License-Identifier: MIT
 *
 * A disk whose power can be cut, as SQLite sees it: what was written and not synced may be lost,
 * each write by itself, whole or in part.
 *
 * powercut_install makes it SQLite's default in this process. powercut_arm(n): the power goes with
 * the n-th operation that writes or syncs, counted from there; everything fails from then on until
 * powercut_restore, which writes to the real files what happened to reach the disk (drawn from the
 * seed). For databases of a few megabytes: every open file is held in memory.
 */
#ifndef SUPPORT_POWERCUT_H
#define SUPPORT_POWERCUT_H

#include <stdbool.h>
#include <stdint.h>

void powercut_install(uint64_t seed);
void powercut_arm(unsigned operations);
bool powercut_is_off(void); /* has the power gone? */
/* Close the database first. Power is back, nothing is watched. */
void powercut_restore(void);

#endif
