/* SPDX-License-Identifier: MIT
 *
 * JSON texts taken apart, put together and merged, for programs that bring no JSON library of their
 * own:
 *
 *     char *name = tidings_json_string(params, "/metadata/name");
 *     …
 *     tidings_free(name);
 *
 * Whatever RFC 8259 allows is read, as from the client's servers: numbers stay as they are written,
 * of a key that an object has twice the last value counts, half of a surrogate pair becomes U+FFFD,
 * nesting may be 512 levels deep. tidings_json_compact, which is for what people write, takes only
 * what can be kept as it is: no such halves, no key twice, integers of 64 bits, 64 levels.
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

/* Return what is at a JSON pointer, as compact JSON text. `pointer` is as in RFC 6901: "/a/0/b",
 * '~' is "~0" and '/' in a name "~1"; "": all of it. NULL: nothing is there, the text is no JSON,
 * or there is no memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_get(struct tidings_str json, const char *pointer);

/* Return the string at a JSON pointer, without quotes and escapes. NULL as for tidings_json_get,
 * also when what is there is no string, or holds a NUL. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_string(struct tidings_str json,
                                                         const char *pointer);

/* Return the string at a JSON pointer, and its length. As tidings_json_string, but it may hold
 * NULs: `*ret_len` does not count the one behind it. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_text(struct tidings_str json, const char *pointer,
                                                       size_t *ret_len);

/* Return the bytes of a base64 string at a JSON pointer. There are `*ret_len` of them, and a NUL
 * behind. NULL as for tidings_json_get, also when what is there is no base64. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_bytes(struct tidings_str json,
                                                        const char *pointer, size_t *ret_len);

/* Call a function for each member of an object, or element of an array. The one at `pointer`, in
 * their order, until `fn` returns something other than 0; `key` is empty for elements. Both slices
 * are borrowed for the call and end with a NUL; `value` is compact JSON text. 0, or what `fn`
 * returned when that was not 0; TIDINGS_E_NOTFOUND: there is no object and no array;
 * TIDINGS_E_NOMEM. */
typedef int (*tidings_json_each_fn)(void *user, struct tidings_str key, struct tidings_str value);
TIDINGS_API int tidings_json_each(struct tidings_str json, const char *pointer,
                                  tidings_json_each_fn fn, void *user);

/* Make a JSON string of a text, with quotes and escapes. Bytes that are no UTF-8 become U+FFFD.
 * NULL: no memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_quote(struct tidings_str text);

/* Make a JSON string of bytes, in base64. NULL: no memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_quote_bytes(struct tidings_str bytes);

/* Make compact JSON of a JSON text as people write it. Comments (// and the form of C), and commas
 * behind the last member, are allowed. NULL with the line in `err`. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_compact(struct tidings_str text,
                                                          struct tidings_error *err);
/* Lay out a JSON text over several lines, two blanks for each level. NULL: no JSON, or no memory.
 */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_json_pretty(struct tidings_str json);

/* Apply a merge patch (RFC 7396) to a JSON text. The result is compact JSON text; an empty
 * `target`: there is nothing yet. NULL on failure. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_json_merge(struct tidings_str target, struct tidings_str patch, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
