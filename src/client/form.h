/* SPDX-License-Identifier: MIT
 *
 * The forms that servers ask to have filled in (`requestedSchema` of elicitation/create): a JSON
 * Schema of an object whose members are flat. Both the schema and what is filled in are checked; a
 * schema comes from a stranger, and what it may cost is bounded.
 */
#ifndef CLIENT_FORM_H
#define CLIENT_FORM_H

#include <tidings/question.h>

#include "base/str.h"
#include "json/json.h"

#define FORM_MAX_FIELDS 64u
#define FORM_MAX_CHOICES 256u /* of one field */

/* Is it a form that a person can be shown? TIDINGS_E_PARSE, TIDINGS_E_LIMIT: why not. */
int form_check(struct json *schema, struct tidings_error *err);
/* Each field in order: 0, or what `fn` returned. */
int form_each(struct json *schema, tidings_field_fn fn, void *user);
/* Write what was filled in, a JSON object, with presets where nothing was (SEP-1034), and without
 * what is null. TIDINGS_E_INVALID: it is not what the form asks for. */
int form_complete(struct json *schema, struct tidings_str content, struct buf *out,
                  struct tidings_error *err);

#endif
