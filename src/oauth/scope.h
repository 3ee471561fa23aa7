/* SPDX-License-Identifier: MIT
 *
 * Scopes: words separated by blanks (RFC 6749 §3.3), as sets.
 */
#ifndef OAUTH_SCOPE_H
#define OAUTH_SCOPE_H

#include "base/str.h"

#define SCOPE_MAX 4096u
#define SCOPES_MAX (4 * SCOPE_MAX) /* bytes of a list, with what is said twice */

/* Is every word of `part` in `all`? */
bool scope_has(struct tidings_str all, struct tidings_str part);
/* Append the words of `more` that are not there yet and may be scopes. */
void scope_add(struct buf *all, struct tidings_str more);

#endif
