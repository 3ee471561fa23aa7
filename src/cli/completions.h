/* SPDX-License-Identifier: MIT
 *
 * A cache of names recently received from servers, so that a shell that completes a line letter by
 * letter queries a server only once. The files are
 *
 *     $XDG_CACHE_HOME/tidings/names-KEY (~/.cache/…)
 *
 * one for each server and kind of name: a line with the format, the time and the key, then one name
 * per line. A file is ignored if it is older than NAMES_CACHE_S, belongs to another user, or is
 * malformed. Saving a file removes expired ones. At most NAMES_CACHE_FILES files are kept; beyond
 * that no file is added.
 */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include <tidings/file.h>

#define NAMES_CACHE_S 60u
#define NAMES_CACHE_MAX (256u << 10) /* bytes of a file */
#define NAMES_CACHE_FILES 64u
#define NAME_MAX_BYTES 255u /* of an offered name */

/* Returns true for a name that shells treat literally anywhere in a line: letters, digits and
 * -._~:/%@+,= with only '_', '.' and '/' of these at the start. */
bool name_is_offered(struct tidings_str name);

typedef void (*names_fn)(void *user, struct tidings_str name);
/* Calls `fn` for each name cached under the key; false: none. `now_s` is Unix time. */
bool names_cache_find(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, names_fn fn, void *user);
/* Store these names, one per line. Errors are ignored: the next completion queries the server
 * again. */
void names_cache_save(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, struct tidings_str lines);

/* Parses the content of such a file: all of it, or returns false. For the functions above, and for
 * tests. */
bool names_cache_parse(struct tidings_str text, const char key[TIDINGS_DIGEST_MAX], int64_t now_s,
                       names_fn fn, void *user);

#endif
