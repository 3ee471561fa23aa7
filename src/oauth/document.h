/* SPDX-License-Identifier: MIT
 *
 * JSON documents of authorization servers: members taken out with their limits, and what strangers
 * wrote made fit for a terminal.
 */
#ifndef OAUTH_DOCUMENT_H
#define OAUTH_DOCUMENT_H

#include "base/str.h"
#include "json/json.h"

#define DOCUMENT_MAX (256u << 10) /* bytes of one answer */

/* A JSON object, to be unref'ed. `what` names it in the error. */
int document_read(struct tidings_str text, const char *what, struct json **ret,
                  struct tidings_error *err);
/* A copy of a member that is a string of visible ASCII, of at most `max` bytes, to be mem_free'd:
 * *ret NULL when it is absent or null. TIDINGS_E_PARSE, TIDINGS_E_NOMEM. */
int document_text(const struct json *document, const char *name, size_t max, char **ret,
                  struct tidings_error *err);
/* The same for a URL a secret may be sent to (oauth/url.h). */
int document_url(const struct json *document, const char *name, char **ret,
                 struct tidings_error *err);
/* Is `text` an element of the array that member is? */
bool document_lists(const struct json *document, const char *name, const char *text);
/* The strings of that array that may be scopes, with blanks between; NULL: it is absent. */
int document_scopes(const struct json *document, const char *name, char **ret);

/* Up to `size` - 1 bytes of what a stranger wrote; what is no visible ASCII becomes '?'. */
const char *document_shown(struct tidings_str text, char *out, size_t size);

#endif
