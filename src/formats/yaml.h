/* SPDX-License-Identifier: MIT
 *
 * The YAML subset for the front matter of a SKILL.md, parsed to a JSON value.
 *
 * Supported are block mappings and sequences, flow collections ([a, b], {a: b}), plain, quoted and
 * block scalars ("|", ">"), comments; plain scalars are null, booleans, numbers or strings by the
 * core schema of YAML 1.2. Everything else is rejected with its line: anchors, aliases and tags (so
 * that a value is never larger than its text), directives and document marks, "?" and keys that are
 * not strings, "<<", tabs as indentation, plain scalars over several lines inside [] and {}, .inf
 * and .nan. Other YAML 1.2 parsers give the same result.
 *
 * Pure; time proportional to the text, which has at most YAML_MAX_BYTES, nested at most
 * YAML_MAX_DEPTH and of at most YAML_MAX_VALUES values.
 */
#ifndef FORMATS_YAML_H
#define FORMATS_YAML_H

#include "formats/json.h"

#define YAML_MAX_BYTES (64u * 1024u)
#define YAML_MAX_DEPTH 16u
#define YAML_MAX_VALUES 2048u

/* Parses a document whose root is a block mapping or sequence; text without a value is null.
 * TIDINGS_E_PARSE with "line 3: …"; TIDINGS_E_LIMIT; TIDINGS_E_NOMEM. The root has one reference.
 */
int yaml_parse(struct tidings_str text, struct json **ret_root, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Front matter: the YAML metadata of a Markdown file, between a first line "---" and the next one
 * (SKILL.md of Agent Skills). Pure.
 */

/* The maximum that is read from the start of a file. */
#define FRONT_MATTER_MAX (65u * 1024u)

/* Parses the front matter of a file, whose first part is `file`, to a JSON object. TIDINGS_E_PARSE
 * with the reason and the line of the file; TIDINGS_E_LIMIT: too large (formats/yaml.h). The root
 * has one reference. */
int front_matter_parse(struct tidings_str file, struct json **ret_root, struct tidings_error *err);

/* Returns true if both are equal. Members in any order, and numbers by their value: 1 equals 1.0.
 */
bool front_matter_equal(const struct json *a, const struct json *b);

#endif
