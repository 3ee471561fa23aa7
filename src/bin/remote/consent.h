/* SPDX-License-Identifier: MIT
 *
 * Asks the person whether a server that a project's file names may be used. The file came with a
 * checkout: before it has a program launched, gets what is in the person's variables, or is sent a
 * token or header that the person gave for somebody, they are asked, once (trust.h): on a terminal;
 * elsewhere it is refused with the command that agrees to it. A plain URL that gets none of these
 * needs no question.
 */
#ifndef BIN_CONSENT_H
#define BIN_CONSENT_H

#include "bin/cli/command.h"
#include "bin/remote/servers_file.h"

/* 0: it may. TIDINGS_E_DENIED: nobody agreed, or what was agreed to cannot be read. */
int consent_check(const struct cli *cli, const char *path, const char *name,
                  const struct target *target, struct tidings_error *err);

#endif
