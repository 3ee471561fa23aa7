/* SPDX-License-Identifier: MIT
 *
 * Arguments of tools that travel as header fields of HTTP too (`x-mcp-header` in a tool's input
 * schema, SEP-2243): which they are, as far as the server's tools were listed, and the lines of a
 * call. A tool that declares them in a way that is not allowed is not to be used.
 */
#ifndef CLIENT_TOOLS_H
#define CLIENT_TOOLS_H

#include "base/str.h"
#include "formats/json.h"
#include "formats/schema.h"

struct tidings_client;

#define TOOL_HEADERS_MAX 1000u  /* tools that have any; of more nothing is known */
#define TOOL_HEADERS_LINES 32u  /* of one tool */
#define TOOL_HEADERS_PATH 1024u /* bytes of a JSON pointer to an argument */

/* Do calls carry them? Only in the modern era over HTTP, once connected. */
bool tool_headers_matter(const struct tidings_client *c);
/* An element of tools/list. TIDINGS_E_PARSE: it must not be used, and why. */
int tool_headers_note(struct tidings_client *c, struct json *tool, struct tidings_error *err);
void tool_headers_forget(struct tidings_client *c);
/* May it be called? TIDINGS_E_PARSE: it was noted as one that must not. */
int tool_headers_check(const struct tidings_client *c, struct tidings_str tool,
                       struct tidings_error *err);
/* The lines "Mcp-Param-Name: value" of a call, each with a line feed. */
void tool_headers_put(const struct tidings_client *c, struct tidings_str tool,
                      struct json *arguments, struct buf *out);
/* A value as it travels: as it is where a header can carry it, else in base64 between markers. */
void tool_headers_put_value(struct buf *out, struct tidings_str value);

/* -------------------------------------------------------------------------------------------------
 * Output schemas of a server's tools (outputSchema), as far as they were listed, and whether a
 * result obeys them.
 *
 * Schemas come from strangers: their number, size and cost are bounded (formats/schema.h). What is
 * beyond, or cannot be compiled or judged within that, promises nothing: the server wrote both.
 */

#define TOOL_SCHEMAS_MAX 1000u        /* tools with an outputSchema */
#define TOOL_SCHEMAS_BYTES (4u << 20) /* of their texts together */

/* An element of tools/list. */
void tool_schemas_note(struct tidings_client *c, struct json *tool);
/* There are no more of them. */
void tool_schemas_complete(struct tidings_client *c);
void tool_schemas_forget(struct tidings_client *c);
bool tool_schemas_is_complete(const struct tidings_client *c);
/* Does the structured content (NULL: none) of a result of this tool keep what it promised? */
enum schema_verdict tool_schemas_check(struct tidings_client *c, struct tidings_str tool,
                                       struct json *content, struct schema_error *e);

#endif
