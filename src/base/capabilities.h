/* SPDX-License-Identifier: MIT
 *
 * The capabilities of a process that was started as root: keeping those it needs, and giving up all
 * others for good.
 */
#ifndef BASE_CAPABILITIES_H
#define BASE_CAPABILITIES_H

#include <tidings/types.h>

#define CAPABILITY(number) (UINT64_C(1) << (number)) /* CAP_… of the kernel */

/* What this thread has in effect. */
uint64_t capabilities_get(void);
/* Keep of `wanted` what is there, in effect and permitted; give up the rest, also what could be had
 * back by executing a program. Before there are other threads, which would keep theirs. */
int capabilities_keep(uint64_t wanted, struct tidings_error *err);

#endif
