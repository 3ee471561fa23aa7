/* SPDX-License-Identifier: MIT
 *
 * The process as a whole.
 */
#ifndef BIN_PROCESS_H
#define BIN_PROCESS_H

/* Called as soon as it has a secret (keys, tokens): no core dumps, and other programs of the same
 * user can neither trace it nor read its memory. Of the programs it starts nothing is asked. */
void process_has_secrets(void);

#endif
