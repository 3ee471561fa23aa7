/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens (OAuth), from the configuration to what HTTP asks for: what verifies them, and what
 * clients are told of where they come from. Opened after the listeners, because the server's own
 * name may be the address of the first of them.
 */
#ifndef SERVER_OAUTH_SETUP_H
#define SERVER_OAUTH_SETUP_H

#include "access/access.h"
#include "server/config.h"
#include "transport/http_auth.h"

struct oauth_setup {
    struct http_auth http; /* what `auth` of struct http_config points to; slices into `text` */
    struct buf text;
    struct tidings_str *scopes;
};

/* `url`: of the endpoint, when the configuration does not name it; NULL: it has none that other
 * programs could know. `rules` (NULL: none) name scopes that clients are told of. Reads the files
 * and begins to fetch keys. Nothing is left after a failure, nor done when no tokens are
 * configured. */
int oauth_setup_open(struct oauth_setup *a, const struct config *c, const char *url,
                     const struct access_rules *rules, struct tidings_error *err);
/* Nobody asks it any more. One that was never opened is fine. */
void oauth_setup_close(struct oauth_setup *a);

#endif
