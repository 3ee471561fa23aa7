/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens (OAuth), from the configuration to what HTTP asks for: what verifies them, and what
 * clients are told of where they come from. Opened after the listeners, because the server's own
 * name may be the address of the first of them.
 */
#ifndef SERVER_AUTH_SETUP_H
#define SERVER_AUTH_SETUP_H

#include "security/access.h"
#include "server/config.h"
#include "transport/http_check.h"

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

/* -------------------------------------------------------------------------------------------------
 * Access rules, loaded from the configuration and a file of their own into what workers ask
 * (security/access.h).
 *
 * A rule is a JSON object:
 *
 *     {"principal": NAME, "by": KIND, "scope": SCOPE, "uri": PATTERN, "match": HOW,
 *      "allow": [OPERATION, …]}
 *
 * It allows the operations (`list`, `read`, `subscribe`, `write`) on what the pattern covers to
 * those it speaks of. NAME is that of one principal, `authenticated` (whoever proved who it is),
 * `anonymous` (whoever did not) or `*` (everybody); KIND (`token`, `certificate`, `user`) says by
 * what it must have been proved. Whoever was not given SCOPE is not meant. PATTERN is a URI, with a
 * slash at its end everything below it too, a glob or a template, or what HOW says it is; without
 * it everything is meant.
 *
 * The file holds an array of rules, or an object with `access`; comments, and commas
 * behind the last member, are allowed, and a single operation instead of an array of them.
 */

#define ACCESS_MAX_RULES 10000u

/* Judge one rule, JSON text. TIDINGS_E_INVALID with what is wrong and what is accepted. */
int access_rule_check(struct tidings_str text, struct tidings_error *err);
/* All that are configured: one reference. NULL with 0: nothing is said about access, everybody may
 * do everything. The file is read anew; a mistake in it is named with file and line or rule. */
int access_load(const struct config *config, struct access_rules **ret, struct tidings_error *err);

#endif
