/* SPDX-License-Identifier: MIT
 *
 * The file provider: a directory tree as live resources.
 *
 * Configuration (the text given to open) is a JSON object:
 *
 *     {"root": "/srv/data",           required; relative to the working directory, or absolute
 *      "exclude": ["*.tmp", "/build"],  names never shown (formats/pattern.h; "/" anchors at the
 * root) "excludeDefaults": true,       also hide every ".git" "maxRead": 16777216,           most
 * bytes of content one read gives "maxWatches": 100000,          directories watched by the kernel;
 * the rest is polled "quietMs": 10,                 a path is looked at once it has been quiet this
 * long "modifyMs": 200,               a file held open and written to is announced this often
 *      "lingerMs": 60000,             watches stay active this long after the last watcher left
 *      "pollMs": 2000,                how often to look at what the kernel does not report
 *      "keptNodes": 1000000}          names known, with those that nobody watches any more; beyond
 *                                     it the latter are forgotten
 *
 * A resource is a regular file, or a directory (its URI ends in '/'), at prefix + encoded path.
 * Everything stays below the root (see sources/file_path.h); links that lead out do not exist.
 * The root is the directory that its path means now: one that is made again, renamed over or
 * reached through a link that is switched is followed (sources/file_path.c).
 *
 * Not seen, because the kernel does not tell: writes through a memory mapping, and writes through a
 * hard link outside the root. What lies behind a symbolic link is looked at every pollMs.
 */
#ifndef SOURCES_FILE_H
#define SOURCES_FILE_H

#include <stdint.h>

#include <tidings/provider.h>

#include "base/str.h"

struct file_keeping;
struct file_chunk;
struct mailbox;

extern const struct tidings_provider_ops provider_file_ops;

/* For tests that must hold the watcher's thread: its mailbox, borrowed; NULL before the first
 * watch. Call on the hub thread. */
struct mailbox *provider_file_mailbox(struct tidings_provider *provider);

/* ---- what outlives the program ---------------------------------------------------------------
 *
 * With a store, what is known of the watched files goes there (store/sqlite_files.h), and what was
 * saved is compared with what there is before the first watch starts. */

/* Before the first watch; `keeping` is borrowed until close. */
void provider_file_keep(struct tidings_provider *provider, struct file_keeping *keeping);
/* What decides which files there are: when it is another one, nothing that was saved counts. Errors
 * stick in `out`. */
void provider_file_identify(struct tidings_provider *provider, struct buf *out);
/* Before close: file_watch_drain and file_watch_unsaved (sources/file_watch.h). */
void provider_file_drain(struct tidings_provider *provider);
struct file_chunk *provider_file_unsaved(struct tidings_provider *provider);

/* -------------------------------------------------------------------------------------------------
 * The numbers in the settings of a mount of files (sources/file.h says what they mean), as they
 * are in effect.
 */

struct file_settings {
    int64_t max_read;
    int64_t max_watches;
    int64_t quiet_ms;
    int64_t modify_ms;
    int64_t linger_ms;
    int64_t poll_ms;
    int64_t kept_nodes;
};

#endif
