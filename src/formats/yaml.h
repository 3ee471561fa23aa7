/* SPDX-License-Identifier: MIT
 *
 * The part of YAML that the front matter of a SKILL.md is written in, read as a JSON value.
 *
 * Read are block mappings and sequences, flow collections ([a, b], {a: b}), plain, quoted and block
 * scalars ("|", ">"), comments; plain scalars are null, booleans, numbers or strings by the core
 * schema of YAML 1.2. Everything else of YAML is refused with its line: anchors, aliases and tags
 * (so that no text means more than it is long), directives and document marks, "?" and keys that
 * are no strings, "<<", tabs as indentation, plain scalars over several lines inside [] and {},
 * .inf and .nan. What is read, other parsers of YAML 1.2 read the same.
 *
 * Pure; time in proportion to the text, which has at most YAML_MAX_BYTES, nested at most
 * YAML_MAX_DEPTH and of at most YAML_MAX_VALUES values.
 */
#ifndef FORMATS_YAML_H
#define FORMATS_YAML_H

#include "formats/json.h"

#define YAML_MAX_BYTES (64u * 1024u)
#define YAML_MAX_DEPTH 16u
#define YAML_MAX_VALUES 2048u

/* Parse a document whose root is a block mapping or sequence; a text without any is null.
 * TIDINGS_E_PARSE with "line 3: …"; TIDINGS_E_LIMIT; TIDINGS_E_NOMEM. The root carries one
 * reference. */
int yaml_parse(struct tidings_str text, struct json **ret_root, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Front matter: what a Markdown file says of itself in YAML, between a first line "---" and the
 * next one (SKILL.md of Agent Skills). Pure.
 */

/* So much of the beginning of a file is looked at. */
#define FRONT_MATTER_MAX (65u * 1024u)

/* The front matter of a file of which `file` is the beginning, as a JSON object. TIDINGS_E_PARSE
 * with what is wrong and the line of the file; TIDINGS_E_LIMIT: it is too large (formats/yaml.h).
 * The root carries one reference. */
int front_matter_parse(struct tidings_str file, struct json **ret_root, struct tidings_error *err);

/* Do both say the same? Members in any order, and numbers by their value: 1 is 1.0. */
bool front_matter_equal(const struct json *a, const struct json *b);

#endif
