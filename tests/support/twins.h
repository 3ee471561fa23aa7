/* SPDX-License-Identifier: MIT
 *
 * Two worlds side by side: the same steps, but for what is hidden, which happens in one of them.
 * What the restricted principal hears must be the same to the byte, step by step; masked are times,
 * random texts (ids of sessions, seals of cursors) and etags made of inodes, not their lengths.
 *
 * Bytes say what happens: those of the plan, then those of one step after the other.
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
