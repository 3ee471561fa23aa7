/* SPDX-License-Identifier: MIT
 *
 * URLs of OAuth, which strangers write: taken apart strictly, compared, and held against what may
 * be asked at all. http and https only; visible ASCII, no user, no fragment, no dot segments.
 */
#ifndef FORMATS_URL_H
#define FORMATS_URL_H

#include "base/str.h"

#define URL_MAX 4096u

/* Slices point into the text. */
struct url {
    struct tidings_str text;
    struct tidings_str origin; /* "https://host:port", as it stands there */
    struct tidings_str host;   /* an IPv6 address in its brackets */
    struct tidings_str path;   /* from its '/' on; empty: none */
    struct tidings_str query;  /* behind its '?'; empty: none */
    uint16_t port;             /* the scheme's own where none is named */
    bool is_https;
};

/* False: it is no such URL. */
bool url_read(struct tidings_str text, struct url *ret);
/* May a secret travel there: https, or this very machine (localhost, 127.0.0.0/8, ::1)? */
bool url_is_safe(const struct url *u);
/* May a server have us go there? One on another machine does not lead to this one. */
bool url_may_lead(const struct url *server, const struct url *next);
bool url_is_same_origin(const struct url *a, const struct url *b);
/* Is `server` the resource, or below it: the same origin, and a path that begins with its
 * segments? */
bool url_covers(const struct url *resource, const struct url *server);

/* "https://host/.well-known/NAME/path" (RFC 8414, RFC 9728), or with `is_behind`
 * "https://host/path/.well-known/NAME" (OpenID Connect Discovery). A query goes along. */
int url_put_well_known(struct buf *out, const struct url *u, const char *name, bool is_behind);

/* -------------------------------------------------------------------------------------------------
 * Forms as OAuth sends them: application/x-www-form-urlencoded bodies and queries of URLs, written
 * and read.
 */

/* Percent-encoded but for letters, digits and - . _ ~ */
void encoded_form_put_value(struct buf *out, struct tidings_str value);
/* "name=value", behind a '&' unless the buffer is empty or ends in '?'. NULL: nothing. */
void encoded_form_put(struct buf *out, const char *name, const char *value);

/* The value of the one parameter of that name, decoded, is appended: 1. 0: there is none.
 * TIDINGS_E_PARSE: there are several, or it is badly encoded or holds a NUL; TIDINGS_E_LIMIT: it is
 * too long for `out`; TIDINGS_E_NOMEM. */
int encoded_form_find(struct tidings_str form, const char *name, struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * Redacting URLs: what people see in logs and messages is without the password that may be in them.
 */

/* `text` with *** for what is, or may be, a password: in "scheme://user:password@host" and after
 * "password=". Rather too much than too little: of a password that was not encoded as it should
 * have been nothing is left either. Anything else as it is. */
int url_put_redacted(struct buf *out, struct tidings_str text);
/* The same, cut where `out` ends. */
#define URL_REDACTED_MAX 256u
const char *url_redact(const char *text, char out[URL_REDACTED_MAX]);

#endif
