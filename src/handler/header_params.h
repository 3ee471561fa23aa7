/* SPDX-License-Identifier: MIT
 *
 * Arguments that HTTP requests repeat in headers (SEP-2243): a property of a tool's input schema
 * with "x-mcp-header": "Region" is mirrored in the header Mcp-Param-Region, so that gateways can
 * route on it. A request where the two differ is refused: whoever routed it saw something else than
 * the tool would.
 */
#ifndef HANDLER_HEADER_PARAMS_H
#define HANDLER_HEADER_PARAMS_H

#include "wire/http.h"
#include "json/json.h"

struct header_params;

/* What a schema says about it; *ret is NULL when it says nothing. TIDINGS_E_INVALID: not a string
 * that can be part of a header's name, twice the same, on something else than a string, an integer
 * or a boolean, or where no chain of `properties` leads. */
int header_params_create(struct json *schema, struct header_params **ret,
                         struct tidings_error *err);
void header_params_destroy(struct header_params *m); /* NULL is fine */

/* Do the headers say what the arguments (may be NULL) say? `m` may be NULL. */
bool header_params_holds(const struct header_params *m, struct json *arguments,
                         const struct http_request *req, struct tidings_error *err);

#endif
