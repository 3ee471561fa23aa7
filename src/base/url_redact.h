/* SPDX-License-Identifier: MIT
 *
 * Redacting URLs: what people see in logs and messages is without the password that may be in them.
 */
#ifndef BASE_URL_REDACT_H
#define BASE_URL_REDACT_H

#include "base/str.h"

/* `text` with *** for what is, or may be, a password: in "scheme://user:password@host" and after
 * "password=". Rather too much than too little: of a password that was not encoded as it should
 * have been nothing is left either. Anything else as it is. */
int url_put_redacted(struct buf *out, struct tidings_str text);
/* The same, cut where `out` ends. */
#define URL_REDACTED_MAX 256u
const char *url_redact(const char *text, char out[URL_REDACTED_MAX]);

#endif
