/* SPDX-License-Identifier: MIT
 *
 * Output schemas of a server's tools (outputSchema), as far as they were listed, and whether a
 * result obeys them.
 *
 * Schemas come from strangers: their number, size and cost are bounded (json/schema.h). What is
 * beyond, or cannot be compiled or judged within that, promises nothing: the server wrote both.
 */
#ifndef CLIENT_TOOL_SCHEMAS_H
#define CLIENT_TOOL_SCHEMAS_H

#include "json/schema.h"

struct tidings_client;

#define TOOL_SCHEMAS_MAX 1000u        /* tools with an outputSchema */
#define TOOL_SCHEMAS_BYTES (4u << 20) /* of their texts together */

/* An element of tools/list. */
void tool_schemas_note(struct tidings_client *c, struct json *tool);
/* There are no more of them. */
void tool_schemas_complete(struct tidings_client *c);
void tool_schemas_forget(struct tidings_client *c);
bool tool_schemas_is_complete(const struct tidings_client *c);
/* Does the structured content (NULL: none) of a result of this tool keep what it promised? */
enum schema_verdict tool_schemas_judge(struct tidings_client *c, struct tidings_str tool,
                                       struct json *content, struct schema_error *e);

#endif
