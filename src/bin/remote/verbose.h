/* SPDX-License-Identifier: MIT
 *
 * Prints what goes over the wire on standard error, for -v: '>' is sent, '<' has come; and for
 * --log what the server logs. It is a
 * stranger's text: control characters are escaped, and what is long is cut. Headers, tokens among
 * them, are not told here at all.
 */
#ifndef BIN_VERBOSE_H
#define BIN_VERBOSE_H

#include <tidings/client.h>

#define VERBOSE_MAX 4096u /* bytes of a message that are shown */

/* Of tidings_client_options, without a `wire_user`. */
void verbose_tell(void *user, const struct tidings_client_wire *wire);
/* Of tidings_client_on_log, without a `user`. */
void verbose_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                 struct tidings_str data);

#endif
