/* SPDX-License-Identifier: MIT
 *
 * A disk whose power can fail, as SQLite sees it: unsynced writes may be lost, each on its own,
 * entirely or in part.
 *
 * powercut_install makes it SQLite's default in this process. powercut_arm(n): the power fails with
 * the n-th operation that writes or syncs from there; everything fails from then on until
 * powercut_restore, which writes to the real files the data that reached the disk (drawn from the
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
