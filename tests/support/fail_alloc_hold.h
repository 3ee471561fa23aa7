/* SPDX-License-Identifier: MIT
 *
 * The number of threads whose allocations must not fail, although a test makes others fail
 * (support/fail_alloc.h). One for the whole program, for all its files.
 */
#ifndef SUPPORT_FAIL_ALLOC_HOLD_H
#define SUPPORT_FAIL_ALLOC_HOLD_H

extern int fail_alloc_held;
__attribute__((weak)) int fail_alloc_held = 0;

#endif
