/* SPDX-License-Identifier: MIT
 *
 * TLS as it is configured: the context of a server's doors.
 */
#ifndef SERVER_SECURE_H
#define SERVER_SECURE_H

#include "base/tls.h"
#include "server/config.h"

/* Reads and checks the files; what is suspicious is logged. `ret` is set to NULL when no TLS is
 * configured. Errors name the option and the file. */
int secure_open(struct tls_context **ret, const struct config *c, struct tidings_error *err);

#endif
