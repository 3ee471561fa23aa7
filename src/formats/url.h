/* SPDX-License-Identifier: MIT
 *
 * OAuth URLs, which can be untrusted: strict parsing, comparison, and checks before requests. http
 * and https only; visible ASCII, no user, no fragment, no dot segments.
 */
#ifndef FORMATS_URL_H
#define FORMATS_URL_H

#include "base/str.h"

#define URL_MAX 4096u

/* Slices point into the text. */
struct url {
    struct tidings_str text;
    struct tidings_str origin; /* "https://host:port", as written */
    struct tidings_str host;   /* an IPv6 address in its brackets */
    struct tidings_str path;   /* from its '/' on; empty: none */
    struct tidings_str query;  /* after '?'; empty: none */
    uint16_t port;             /* the scheme's default if none is given */
    bool is_https;
};

/* False: invalid. */
bool url_read(struct tidings_str text, struct url *ret);
/* Returns true if a secret may be sent there: https, or this machine (localhost, 127.0.0.0/8, ::1).
 */
bool url_is_safe(const struct url *u);
/* Returns true if a server may direct us there: a server on another machine must not lead to this
 * one. */
bool url_may_lead(const struct url *server, const struct url *next);
bool url_is_same_origin(const struct url *a, const struct url *b);
/* Returns true if `server` is the resource or below it: the same origin, and a path that starts
 * with its segments. */
bool url_covers(const struct url *resource, const struct url *server);

/* "https://host/.well-known/NAME/path" (RFC 8414, RFC 9728), or with `is_behind`
 * "https://host/path/.well-known/NAME" (OpenID Connect Discovery). Keeps a query. */
int url_put_well_known(struct buf *out, const struct url *u, const char *name, bool is_behind);

/* -------------------------------------------------------------------------------------------------
 * Forms as in OAuth: application/x-www-form-urlencoded bodies and URL queries, written and read.
 */

/* Percent-encodes everything except letters, digits and - . _ ~. */
void encoded_form_put_value(struct buf *out, struct tidings_str value);
/* "name=value", after a '&' unless the buffer is empty or ends in '?'. NULL: nothing. */
void encoded_form_put(struct buf *out, const char *name, const char *value);

/* Appends the decoded value of the only parameter with that name: 1. 0: none. TIDINGS_E_PARSE:
 * repeated, badly encoded, or contains a NUL; TIDINGS_E_LIMIT: too long for `out`; TIDINGS_E_NOMEM.
 */
int encoded_form_find(struct tidings_str form, const char *name, struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * Redacted URLs: logs and messages must not show passwords.
 */

/* Appends `text` with *** in place of known and possible passwords: in
 * "scheme://user:password@host" and after "password=". In doubt it hides more: an incorrectly
 * encoded password is hidden completely, too. Everything else is unchanged. */
int url_put_redacted(struct buf *out, struct tidings_str text);
/* The same, truncated at the size of `out`. */
#define URL_REDACTED_MAX 256u
const char *url_redact(const char *text, char out[URL_REDACTED_MAX]);

#endif
