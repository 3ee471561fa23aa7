/* SPDX-License-Identifier: MIT
 *
 * Rules for subscriptions, from the configuration to the form that workers use: default options
 * below a URI prefix, and limits on the options that clients request.
 *
 * A rule is a JSON object `{"uri": PREFIX, "options": {…}, "limits": {…}}`; without `uri` it
 * applies everywhere. A mount has the same two members, for its own prefix.
 */
#ifndef SERVER_OPTION_RULES_H
#define SERVER_OPTION_RULES_H

#include "base/map.h"
#include "engine/delivery/options.h"
#include "server/config.h"

struct rules {
    struct option_rule *at; /* shortest prefix first */
    size_t count;
    struct rule_source *sources; /* the rules borrow from these */
};

/* Validates a rule, or the two objects of a mount (JSON text; NULL: none). TIDINGS_E_INVALID. */
int rule_check(struct tidings_str text, struct tidings_error *err);
int rule_check_parts(const char *options, const char *limits, struct tidings_error *err);

/* A rule of the program, set at run time; in a map by prefix. */
struct runtime_rule {
    struct tidings_str prefix;
    char *options, *limits; /* JSON text; NULL: none */
    char memory[];
};

/* All rules of a configuration and of the program (NULL: none; they win at equal length), which are
 * already validated. TIDINGS_E_NOMEM; call rules_deinit in any case. */
int rules_init(struct rules *rules, const struct config *config, const struct map *live,
               struct tidings_error *err);
void rules_deinit(struct rules *rules);
/* For a map of struct runtime_rule by prefix. */
void runtime_rules_deinit(struct map *rules);

#endif
