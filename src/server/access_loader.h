/* SPDX-License-Identifier: MIT
 *
 * Access rules, loaded from the configuration and a file of their own into what workers ask
 * (access/access.h).
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
#ifndef SERVER_ACCESS_LOADER_H
#define SERVER_ACCESS_LOADER_H

#include "access/access.h"
#include "server/config.h"

#define ACCESS_MAX_RULES 10000u

/* Judge one rule, JSON text. TIDINGS_E_INVALID with what is wrong and what is accepted. */
int access_rule_check(struct tidings_str text, struct tidings_error *err);
/* All that are configured: one reference. NULL with 0: nothing is said about access, everybody may
 * do everything. The file is read anew; a mistake in it is named with file and line or rule. */
int access_load(const struct config *config, struct access_rules **ret, struct tidings_error *err);

#endif
