/* SPDX-License-Identifier: MIT
 *
 * Rules for subscriptions, from the configuration to what the worker works with: options that count
 * below a URI prefix when a client says nothing, and limits of what it may ask for.
 *
 * A rule is a JSON object `{"uri": PREFIX, "options": {…}, "limits": {…}}`; without `uri` it holds
 * everywhere. A mount has the same two members, for its own prefix.
 */
#ifndef SERVER_OPTION_RULES_H
#define SERVER_OPTION_RULES_H

#include "base/map.h"
#include "engine/delivery/options.h"
#include "server/config.h"

struct rules {
    struct option_rule *at; /* shortest prefix first */
    size_t count;
    struct rule_source *sources; /* what the rules borrow from */
};

/* Judge a rule, or the two objects of a mount (JSON text; NULL: none). TIDINGS_E_INVALID. */
int rule_check(struct tidings_str text, struct tidings_error *err);
int rule_check_parts(const char *options, const char *limits, struct tidings_error *err);

/* A rule of the program, set at run time; in a map by prefix. */
struct runtime_rule {
    struct tidings_str prefix;
    char *options, *limits; /* JSON text; NULL: none */
    char memory[];
};

/* All rules of a configuration and of the program (NULL: none; they win at equal length), whose
 * values have been judged. TIDINGS_E_NOMEM; rules_deinit is due either way. */
int rules_init(struct rules *rules, const struct config *config, const struct map *live,
               struct tidings_error *err);
void rules_deinit(struct rules *rules);
/* Of struct runtime_rule, by prefix. */
void runtime_rules_deinit(struct map *rules);

#endif
