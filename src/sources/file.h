/* SPDX-License-Identifier: MIT
 *
 * The file provider: a directory tree as live resources.
 *
 * Configuration (the text given to open) is a JSON object:
 *
 *     {"root": "/srv/data",           required; relative to the working directory, or absolute
 *      "exclude": ["*.tmp", "/build"],  hidden names (formats/pattern.h; "/" anchors at the root)
 *      "excludeDefaults": true,       also hide every ".git"
 *      "maxRead": 16777216,           maximum bytes of content in one read
 *      "maxWatches": 100000,          directories watched by the kernel; the rest is polled
 *      "quietMs": 10,                 a path is read once it has been quiet for this time
 *      "modifyMs": 200,               interval of announcements while a file is being written
 *      "lingerMs": 60000,             watches stay active for this time after the last watcher left
 *      "pollMs": 2000,                interval of polls for changes that the kernel does not report
 *      "keptNodes": 1000000}          retained names, including unwatched ones, which are dropped
 *                                     beyond this
 *
 * A resource is a regular file, or a directory (its URI ends in '/'), at prefix + encoded path.
 * Everything stays below the root (see sources/file_path.h); links that lead outside are hidden.
 * The root is the directory that its path means now: the provider follows a directory that is
 * recreated, replaced by a rename, or reached through a switched link (sources/file_path.c).
 *
 * The kernel does not report, so the provider misses: writes through a memory mapping, and writes
 * through a hard link outside the root. Targets of symbolic links are polled every pollMs.
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
 * With a store, the state of the watched files is saved there (store/sqlite_files.h). Before the
 * first watch starts, the saved state is compared with the files. */

/* Before the first watch; `keeping` is borrowed until close. */
void provider_file_keep(struct tidings_provider *provider, struct file_keeping *keeping);
/* Adds everything that decides which files exist: if that changes, the saved state is invalid.
 * Errors stick in `out`. */
void provider_file_identify(struct tidings_provider *provider, struct buf *out);
/* Before close: file_watch_drain and file_watch_unsaved (sources/file_watch.h). */
void provider_file_drain(struct tidings_provider *provider);
struct file_chunk *provider_file_unsaved(struct tidings_provider *provider);

/* -------------------------------------------------------------------------------------------------
 * The effective numbers in the settings of a mount of files (explained at the top of this file).
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
