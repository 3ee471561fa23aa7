/* SPDX-License-Identifier: MIT
 *
 * A few members of a JSON text, and merge patches, for programs that bring no JSON library of their
 * own:
 *
 *     char *name = tidings_json_string(params, "/metadata/name");
 *     …
 *     tidings_free(name);
 *
 * Each call reads the whole text: meant for messages, not for files. Pure functions, any thread.
 * What they return belongs to the caller (tidings_free).
 *
 * Since 0.1.
 */
#ifndef TIDINGS_JSON_H
#define TIDINGS_JSON_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is at `pointer` (RFC 6901: "/a/0/b", '~' is "~0" and '/' in a name "~1"; "": all of it), as
 * compact JSON text. NULL: nothing is there, the text is no JSON, or there is no memory. */
TIDINGS_API char *tidings_json_get(struct tidings_str json, const char *pointer);

/* The same for a string, as it reads: without quotes and escapes. NULL also when what is there is
 * no string, or holds a NUL. */
TIDINGS_API char *tidings_json_string(struct tidings_str json, const char *pointer);

/* `target` after the merge patch (RFC 7396), as compact JSON text; an empty target: there is
 * nothing yet. NULL on failure. */
TIDINGS_API char *tidings_json_merge(struct tidings_str target, struct tidings_str patch,
                                     struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
