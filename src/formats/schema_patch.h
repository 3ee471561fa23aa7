/* SPDX-License-Identifier: MIT
 *
 * Patch schemas: the schema of merge patches for values of a given schema. Every property can be
 * absent, or null (which removes it), and a property that the schema does not name is rejected.
 *
 * Everything else is deliberately permissive: if a property is described in several places (allOf,
 * anyOf, oneOf, if, then, else, dependentSchemas, references), any of them suffices, and nothing is
 * required. It detects errors in the patch itself; the full schema validates the resulting value.
 * The full schema validates arrays and other values that a patch replaces as a whole immediately;
 * and objects in arrays, at any depth, must not have properties that the full schema does not name
 * there.
 *
 * A schema, or a part of it that allows objects, accepts any property if it names none.
 * `additionalProperties` and `patternProperties` are respected.
 */
#ifndef FORMATS_SCHEMA_PATCH_H
#define FORMATS_SCHEMA_PATCH_H

#include "formats/schema.h"

/* `full` must compile. *ret_pointers, a new reference, is for schema_patch_explain.
 * TIDINGS_E_UNSUPPORTED for references other than "#" and "#/…", naming the JSON pointer;
 * TIDINGS_E_LIMIT if nested references are too numerous; TIDINGS_E_NOMEM. */
int schema_patch_compile(struct json *full, const struct schema_options *options,
                         struct json_schema **ret, struct json **ret_pointers,
                         struct tidings_error *err);

/* Clients do not know the patch schema: replaces the JSON pointer of a rejection by that of the
 * full schema it was generated from. */
void schema_patch_explain(struct json *pointers, struct schema_error *why);

#endif
