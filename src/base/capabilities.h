/* SPDX-License-Identifier: MIT
 *
 * The capabilities of a process that was started as root: keeping those it needs, and giving up all
 * others for good.
 */
#ifndef BASE_CAPABILITIES_H
#define BASE_CAPABILITIES_H

#include <tidings/types.h>

#define CAPABILITY(number) (UINT64_C(1) << (number)) /* CAP_… of the kernel */

/* The effective capabilities of this thread. */
uint64_t capabilities_get(void);
/* Keep the permitted ones of `wanted`; give up the rest, and the bounding set, so that executing a
 * program restores none. Call it before other threads start: they would keep theirs. */
int capabilities_keep(uint64_t wanted, struct tidings_error *err);

#endif
