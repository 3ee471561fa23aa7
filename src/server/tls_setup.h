/* SPDX-License-Identifier: MIT
 *
 * From the configuration to the TLS context of a server's listeners.
 */
#ifndef SERVER_TLS_SETUP_H
#define SERVER_TLS_SETUP_H

#include "base/tls.h"
#include "server/config.h"

/* Reads and checks the files; what is suspicious is logged. `ret` is set to NULL when no TLS is
 * configured. Errors name the option and the file. */
int tls_setup(struct tls_context **ret, const struct config *c, struct tidings_error *err);

#endif
