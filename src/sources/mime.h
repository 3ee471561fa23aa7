/* SPDX-License-Identifier: MIT
 *
 * The media type that a file name suggests.
 *
 * A short built-in table has priority, so that common names mean the same on every machine (and
 * that `.ts` is TypeScript, not a video). Other names are looked up in the system's
 * shared-mime-info table (globs2): literal names, then the suffix or pattern of the greatest
 * weight, then of the greatest length; case-sensitively first, then in lower case. Content is never
 * read here.
 *
 * A table is immutable after loading, and therefore thread-safe.
 */
#ifndef SOURCES_MIME_H
#define SOURCES_MIME_H

#include <tidings/types.h>

#define MIME_GLOBS_PATH "/usr/share/mime/globs2"

struct mime_table;

/* Loads `path` (see MIME_GLOBS_PATH). If the file is missing or unreadable, only the built-in types
 * exist; malformed lines are skipped. NULL only if out of memory. */
struct mime_table *mime_load(const char *path);
void mime_destroy(struct mime_table *m);

/* Returns the type for a file name (one segment), or an empty slice. Lives as long as the table. */
struct tidings_str mime_find(const struct mime_table *m, struct tidings_str name);

#endif
