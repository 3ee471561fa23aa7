/* SPDX-License-Identifier: MIT
 *
 * Tool arguments that HTTP requests repeat in header fields (`x-mcp-header` in a tool's input
 * schema, SEP-2243): which arguments these are, if the server's tools were listed, and the header
 * lines of a call. A tool with an invalid declaration must not be used.
 */
#ifndef CLIENT_TOOLS_H
#define CLIENT_TOOLS_H

#include "base/str.h"
#include "formats/json.h"
#include "formats/schema.h"

struct tidings_client;

#define TOOL_HEADERS_MAX 1000u  /* tools with such arguments; others are not recorded */
#define TOOL_HEADERS_LINES 32u  /* of one tool */
#define TOOL_HEADERS_PATH 1024u /* bytes of a JSON pointer to an argument */

/* Returns true if calls carry them: only in the modern era over HTTP, once connected. */
bool tool_headers_matter(const struct tidings_client *c);
/* An element of tools/list. TIDINGS_E_PARSE: the tool must not be used; the message has the
 * reason. */
int tool_headers_note(struct tidings_client *c, struct json *tool, struct tidings_error *err);
void tool_headers_forget(struct tidings_client *c);
/* Checks that the tool may be called. TIDINGS_E_PARSE: its declaration is invalid. */
int tool_headers_check(const struct tidings_client *c, struct tidings_str tool,
                       struct tidings_error *err);
/* The lines "Mcp-Param-Name: value" of a call, each with a line feed. */
void tool_headers_put(const struct tidings_client *c, struct tidings_str tool,
                      struct json *arguments, struct buf *out);
/* A value in its header form: unchanged if a header can carry it, else in base64 between
 * markers. */
void tool_headers_put_value(struct buf *out, struct tidings_str value);

/* -------------------------------------------------------------------------------------------------
 * Output schemas of a server's tools (outputSchema), if they were listed, and whether a result
 * satisfies them.
 *
 * Schemas are untrusted: their number, size and cost are bounded (formats/schema.h). A schema
 * beyond these limits, or one that cannot be compiled, is not enforced: the server wrote both
 * schema and result.
 */

#define TOOL_SCHEMAS_MAX 1000u        /* tools with an outputSchema */
#define TOOL_SCHEMAS_BYTES (4u << 20) /* of all schemas together */

/* An element of tools/list. */
void tool_schemas_note(struct tidings_client *c, struct json *tool);
/* The list of tools is complete. */
void tool_schemas_complete(struct tidings_client *c);
void tool_schemas_forget(struct tidings_client *c);
bool tool_schemas_is_complete(const struct tidings_client *c);
/* Checks the structured content (NULL: none) of a result of this tool against its schema. */
enum schema_verdict tool_schemas_check(struct tidings_client *c, struct tidings_str tool,
                                       struct json *content, struct schema_error *e);

#endif
