/* SPDX-License-Identifier: MIT
 *
 * The schema of merge patches for values of a given schema: every property may be absent, or null
 * (which removes it), and one that the schema does not name is refused.
 *
 * It is deliberately generous about everything else: where a property is described in several
 * places (allOf, anyOf, oneOf, if, then, else, dependentSchemas, references) any of them will do,
 * and nothing is required. It catches what is wrong with a patch by itself; whether the value that
 * comes out is right, the full schema says. Arrays and other values that a patch replaces whole are
 * judged by the full schema at once.
 *
 * A schema, or a part that can hold an object, which names no property at all takes any.
 * `additionalProperties` and `patternProperties` that are given are honoured.
 */
#ifndef JSON_SCHEMA_PATCH_H
#define JSON_SCHEMA_PATCH_H

#include "json/schema.h"

/* By this name the patch schema refers to the full one: give it with the documents when compiling.
 */
#define SCHEMA_PATCH_FULL "tidings:full"

/* `full` must compile. A new reference in *ret. TIDINGS_E_UNSUPPORTED for references other than
 * "#" and "#/…", naming the place; TIDINGS_E_LIMIT when parts refer to parts too often to be worth
 * it; TIDINGS_E_NOMEM. */
int schema_patch_make(struct json *full, struct json **ret, struct tidings_error *err);

/* The same, compiled. */
int schema_patch_compile(struct json *full, const struct schema_options *options,
                         struct json_schema **ret, struct tidings_error *err);

#endif
