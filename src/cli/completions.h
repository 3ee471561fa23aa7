/* SPDX-License-Identifier: MIT
 *
 * Names that a server gave lately, so that a shell which completes a line letter by letter asks it
 * once. They lie in
 *
 *     $XDG_CACHE_HOME/tidings/names-KEY (~/.cache/…)
 *
 * one file for each server and kind of name: a line with its format, the time and the key, then a
 * name a line. A file that is older than NAMES_CACHE_S, of somebody else, or not as it is written
 * here counts as none. Files that are too old go when another is written; NAMES_CACHE_FILES is the
 * most there may be, beyond which nothing is kept.
 */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include <tidings/file.h>

#define NAMES_CACHE_S 60u
#define NAMES_CACHE_MAX (256u << 10) /* bytes of a file */
#define NAMES_CACHE_FILES 64u
#define NAME_MAX_BYTES 255u /* of a name that is offered */

/* One that no shell takes for anything else, wherever in a line it stands: letters, digits and
 * -._~:/%@+,= and of these '_', '.' and '/' alone at its beginning. */
bool name_is_offered(struct tidings_str name);

typedef void (*names_fn)(void *user, struct tidings_str name);
/* Each name that is remembered under the key; false: none are. `now_s` is Unix time. */
bool names_cache_find(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, names_fn fn, void *user);
/* Remember these, a line each. What fails is asked again next time. */
void names_cache_save(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, struct tidings_str lines);

/* The content of such a file: all of it, or false. For the above, and for tests. */
bool names_cache_parse(struct tidings_str text, const char key[TIDINGS_DIGEST_MAX], int64_t now_s,
                       names_fn fn, void *user);

#endif
