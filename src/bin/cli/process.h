/* SPDX-License-Identifier: MIT
 *
 * Keeps the memory of this process from other programs and from core files.
 */
#ifndef BIN_PROCESS_H
#define BIN_PROCESS_H

/* Called as soon as it has a secret (keys, tokens): no core dumps, and other programs of the same
 * user can neither trace it nor read its memory. Of the programs it starts nothing is asked. */
void process_has_secrets(void);

#endif
