/* SPDX-License-Identifier: MIT
 *
 * The media type that a file name suggests.
 *
 * A short built-in table answers first, so that common names mean the same on every machine (and
 * that `.ts` is TypeScript, not a video). What it does not know is looked up in the system's
 * shared-mime-info table (globs2): literal names, then the suffix or pattern of the greatest
 * weight, then of the greatest length; as written first, then in lower case. Content is never
 * looked at here.
 *
 * A table is immutable once loaded: any number of threads may ask it.
 */
#ifndef SOURCES_MIME_H
#define SOURCES_MIME_H

#include <tidings/types.h>

#define MIME_GLOBS_PATH "/usr/share/mime/globs2"

struct mime_table;

/* Load `path` (see MIME_GLOBS_PATH). A missing or unreadable file leaves the built-in types alone;
 * malformed lines are skipped. NULL only when out of memory. */
struct mime_table *mime_load(const char *path);
void mime_destroy(struct mime_table *m);

/* The type for a file name (one segment), or the empty slice. Lives as long as the table. */
struct tidings_str mime_find(const struct mime_table *m, struct tidings_str name);

#endif
