/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens (OAuth), from the configuration to the HTTP layer: verification of tokens, and the
 * metadata that tells clients where to get them. Opened after the listeners, because the default
 * server name is the address of the first listener.
 */
#ifndef SERVER_AUTH_SETUP_H
#define SERVER_AUTH_SETUP_H

#include "security/access.h"
#include "server/config.h"
#include "transport/http_check.h"

struct oauth_setup {
    struct http_auth http; /* target of `auth` in struct http_config; slices into `text` */
    struct buf text;
    struct tidings_str *scopes;
};

/* `url`: of the endpoint, if the configuration does not name it; NULL: it has no URL that other
 * programs could know. `rules` (NULL: none) name scopes that the metadata lists. Reads the files
 * and starts to fetch keys. Does nothing if no tokens are configured, and leaves nothing behind on
 * failure. */
int oauth_setup_open(struct oauth_setup *a, const struct config *c, const char *url,
                     const struct access_rules *rules, struct tidings_error *err);
/* Call it when nothing uses the setup any longer. Also safe on a zeroed one. */
void oauth_setup_close(struct oauth_setup *a);

/* -------------------------------------------------------------------------------------------------
 * Access rules, loaded from the configuration and a separate file into the form that workers use
 * (security/access.h).
 *
 * A rule is a JSON object:
 *
 *     {"principal": NAME, "by": KIND, "scope": SCOPE, "uri": PATTERN, "match": HOW,
 *      "allow": [OPERATION, …]}
 *
 * It allows the operations (`list`, `read`, `subscribe`, `write`) on the matching resources to the
 * matching clients. NAME is the name of a principal, `authenticated`, `anonymous` or `*` (all
 * clients); KIND (`token`, `certificate`, `user`) restricts the method of authentication. If SCOPE
 * is present, the client must have it. PATTERN is a URI, with a final slash everything below it
 * too, a glob or a template, or the kind that HOW names; without PATTERN the rule matches all
 * resources.
 *
 * The file contains an array of rules, or an object with `access`. Comments and trailing commas are
 * allowed, and so is a single operation instead of an array.
 */

#define ACCESS_MAX_RULES 10000u

/* Validates one rule, JSON text. TIDINGS_E_INVALID: the message says what is wrong and what is
 * accepted. */
int access_rule_check(struct tidings_str text, struct tidings_error *err);
/* All configured rules: one reference. NULL with 0: no rules are configured, so every client may do
 * everything. The file is reread; an error names the file and the line or rule. */
int access_load(const struct config *config, struct access_rules **ret, struct tidings_error *err);

#endif
