/* SPDX-License-Identifier: MIT
 *
 * Two worlds side by side: the same steps, except the hidden ones, which happen in one of them. The
 * output to the restricted principal must be the same to the byte, step by step; times, random
 * strings (session ids, cursor seals) and inode-based etags are masked, but not their lengths.
 *
 * The bytes choose the events: first those of the plan, then those of each step in turn.
 */
#ifndef SUPPORT_TWINS_H
#define SUPPORT_TWINS_H

#include <stdint.h>

#include "base/str.h"

#define TWINS_PLAN_BYTES 32u
#define TWINS_STEP_BYTES 32u
#define TWINS_STEPS_MAX 100u

/* true: no difference. Else `report` says what was done, and where the first difference is. */
bool twins_run(const uint8_t *bytes, size_t len, struct buf *report);
/* Bytes of a scenario with so many steps, by number. */
void twins_make(uint64_t seed, unsigned steps, uint8_t *out);
/* For its own test: from now on something that differs may be seen. */
void twins_plant(bool is_planted);
/* Leave out steps while it still differs. Gives the length that is left. */
size_t twins_shrink(uint8_t *bytes, size_t len, struct buf *report);

#endif
