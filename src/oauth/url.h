/* SPDX-License-Identifier: MIT
 *
 * URLs of OAuth, which strangers write: taken apart strictly, compared, and held against what may
 * be asked at all. http and https only; visible ASCII, no user, no fragment, no dot segments.
 */
#ifndef OAUTH_URL_H
#define OAUTH_URL_H

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

#endif
