/* SPDX-License-Identifier: MIT
 *
 * How many are at work whose allocations must not fail, although a test has others fail
 * (support/fail_alloc.h). One for the whole program, whoever includes it.
 */
#ifndef SUPPORT_FAIL_ALLOC_HOLD_H
#define SUPPORT_FAIL_ALLOC_HOLD_H

extern int fail_alloc_held;
__attribute__((weak)) int fail_alloc_held = 0;

#endif
