/* SPDX-License-Identifier: MIT
 *
 * Front matter: what a Markdown file says of itself in YAML, between a first line "---" and the
 * next one (SKILL.md of Agent Skills). Pure.
 */
#ifndef JSON_FRONT_MATTER_H
#define JSON_FRONT_MATTER_H

#include "json/json.h"

/* So much of the beginning of a file is looked at. */
#define FRONT_MATTER_MAX (65u * 1024u)

/* The front matter of a file of which `file` is the beginning, as a JSON object. TIDINGS_E_PARSE
 * with what is wrong and the line of the file; TIDINGS_E_LIMIT: it is too large (json/yaml.h). The
 * root carries one reference. */
int front_matter_parse(struct tidings_str file, struct json **ret_root, struct tidings_error *err);

/* Do both say the same? Members in any order, and numbers by their value: 1 is 1.0. */
bool front_matter_equal(const struct json *a, const struct json *b);

#endif
