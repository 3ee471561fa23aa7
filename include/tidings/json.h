/* SPDX-License-Identifier: MIT
 *
 * Parse, build and merge JSON, for programs without a JSON library.
 *
 *     char *name = tidings_json_string(params, "/metadata/name");
 *     …
 *     tidings_free(name);
 *
 * The functions accept everything that RFC 8259 allows, as the client does: numbers keep their
 * notation, the last of duplicate keys counts, half of a surrogate pair becomes U+FFFD, and nesting
 * may be 512 levels deep. tidings_json_compact, which reads text that people write, is stricter, so
 * that nothing is lost: no half surrogate pairs, no duplicate keys, integers of 64 bits, 64 levels.
 *
 * Each call parses the whole text: use them for messages, not for files. The functions are pure and
 * thread-safe. The caller releases their results with tidings_free.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_JSON_H
#define TIDINGS_JSON_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the value at a JSON pointer, as compact JSON text. `pointer` follows RFC 6901: "/a/0/b";
 * in names '~' is "~0" and '/' is "~1"; "" is the whole text.
 *
 * Returns NULL if there is no such value, the text is not JSON, or memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_get(struct tidings_str json, const char *pointer);

/* Return the string at a JSON pointer, without quotes and escapes.
 *
 * Returns NULL as tidings_json_get does, and if the value is not a string or contains a NUL. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_string(struct tidings_str json,
                                                         const char *pointer);

/* Return the string at a JSON pointer, and its length. It works like tidings_json_string, but the
 * string may contain NULs; `*ret_len` does not count the terminating one. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_text(struct tidings_str json, const char *pointer,
                                                       size_t *ret_len);

/* Return the bytes of a base64 string at a JSON pointer, NUL-terminated. `*ret_len` is their number
 * without the NUL.
 *
 * Returns NULL as tidings_json_get does, and if the value is not base64. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_bytes(struct tidings_str json,
                                                        const char *pointer, size_t *ret_len);

/* Call a function for each member of an object, or element of an array. `pointer` selects the
 * object or array. `key` is empty for array elements. `fn` runs in order until it returns a value
 * other than 0. Both slices are NUL-terminated and valid only during the call; `value` is compact
 * JSON text.
 *
 * Returns 0, or the first result of `fn` that is not 0. TIDINGS_E_NOTFOUND: the value is neither an
 * object nor an array. TIDINGS_E_NOMEM: memory runs out. */
typedef int (*tidings_json_each_fn)(void *user, struct tidings_str key, struct tidings_str value);
TIDINGS_API int tidings_json_each(struct tidings_str json, const char *pointer,
                                  tidings_json_each_fn fn, void *user);

/* Make a JSON string of a string, with quotes and escapes. Invalid UTF-8 becomes U+FFFD.
 *
 * Returns NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_quote(struct tidings_str text);

/* Make a JSON string of bytes, in base64.
 *
 * Returns NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_quote_bytes(struct tidings_str bytes);

/* Make compact JSON of JSON text that a person wrote. Comments (// and the form of C) and trailing
 * commas are allowed.
 *
 * Returns NULL on failure; `err` names the line. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_compact(struct tidings_str text,
                                                          struct tidings_error *err);
/* Format JSON text with line breaks and two spaces per level.
 *
 * Returns NULL if the text is not JSON or memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_pretty(struct tidings_str json);

/* Apply a merge patch (RFC 7396) to JSON text. An empty `target` means that there is no value yet.
 *
 * Returns compact JSON text, or NULL on failure. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_json_merge(struct tidings_str target, struct tidings_str patch, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
