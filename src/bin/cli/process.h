/* SPDX-License-Identifier: MIT
 *
 * Keeps the memory of this process from other programs and from core files, and passwords from the
 * list of processes.
 */
#ifndef BIN_PROCESS_H
#define BIN_PROCESS_H

/* Called as soon as it has a secret (keys, tokens): no core dumps, and other programs of the same
 * user can neither trace it nor read its memory. Of the programs it starts nothing is asked. */
void process_has_secrets(void);

/* Called first of all: arguments that hold a password (URL://user:password@…, password=…) are moved
 * to where the list of processes does not show them, and starred out there. */
void process_hide_passwords(int argc, char **argv);

#endif
