/* SPDX-License-Identifier: MIT
 *
 * An allocator that counts the bytes the library holds; any thread. Before anything else is called:
 *
 *     counted_start();
 *     … size_t before = counted_bytes(); …
 */
#ifndef SUPPORT_COUNTED_H
#define SUPPORT_COUNTED_H

#include <stddef.h>

void counted_start(void);
size_t counted_bytes(void);

#endif
