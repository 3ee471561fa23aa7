/* SPDX-License-Identifier: MIT
 *
 * The schema of merge patches for values of a given schema: every property may be absent, or null
 * (which removes it), and one that the schema does not name is refused.
 *
 * It is deliberately generous about everything else: where a property is described in several
 * places (allOf, anyOf, oneOf, if, then, else, dependentSchemas, references) any of them will do,
 * and nothing is required. It catches what is wrong with a patch by itself; whether the value that
 * comes out is right, the full schema says. Arrays and other values that a patch replaces whole are
 * judged by the full schema at once; and objects in arrays, however deep, may hold no property that
 * the full schema does not name there.
 *
 * A schema, or a part that can hold an object, which names no property at all takes any.
 * `additionalProperties` and `patternProperties` that are given are honoured.
 */
#ifndef FORMATS_SCHEMA_PATCH_H
#define FORMATS_SCHEMA_PATCH_H

#include "formats/schema.h"

/* `full` must compile. *ret_pointers, a new reference, is for schema_patch_explain.
 * TIDINGS_E_UNSUPPORTED for references other than "#" and "#/…", naming the JSON pointer;
 * TIDINGS_E_LIMIT when parts refer to parts too often to be worth it; TIDINGS_E_NOMEM. */
int schema_patch_compile(struct json *full, const struct schema_options *options,
                         struct json_schema **ret, struct json **ret_pointers,
                         struct tidings_error *err);

/* Nobody but us knows the patch schema: turn the JSON pointer in it that a patch was refused by
 * into the one of the full schema that it was made from. */
void schema_patch_explain(struct json *pointers, struct schema_error *why);

#endif
