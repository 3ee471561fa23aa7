/* SPDX-License-Identifier: MIT
 *
 * Forms as OAuth sends them: application/x-www-form-urlencoded bodies and queries of URLs, written
 * and read.
 */
#ifndef OAUTH_ENCODED_FORM_H
#define OAUTH_ENCODED_FORM_H

#include "base/str.h"

/* Percent-encoded but for letters, digits and - . _ ~ */
void encoded_form_put_value(struct buf *out, struct tidings_str value);
/* "name=value", behind a '&' unless the buffer is empty or ends in '?'. NULL: nothing. */
void encoded_form_put(struct buf *out, const char *name, const char *value);

/* The value of the one parameter of that name, decoded, is appended: 1. 0: there is none.
 * TIDINGS_E_PARSE: there are several, or it is badly encoded or holds a NUL; TIDINGS_E_LIMIT: it is
 * too long for `out`; TIDINGS_E_NOMEM. */
int encoded_form_find(struct tidings_str form, const char *name, struct buf *out);

#endif
