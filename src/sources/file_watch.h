/* SPDX-License-Identifier: MIT
 *
 * Watching below one root: a thread that knows the watched directories as of the last scan, gets
 * events from inotify, and announces differences.
 *
 * A scope is a path: one file, or (is_tree) a directory with everything below it; it need not exist
 * yet. After the last watcher of a scope has left, the scope stays active for lingerMs. Then its
 * kernel watches are removed, but its recorded state stays, so that a later watch first announces
 * the changes since then.
 *
 * All functions are called on the hub thread.
 */
#ifndef SOURCES_FILE_WATCH_H
#define SOURCES_FILE_WATCH_H

#include <tidings/provider.h>

#include "sources/file_path.h"

/* Lists mounts. A confined process needs it from its helper (base/file.h). */
#define FILE_WATCH_MOUNTS "/proc/self/mountinfo"

struct file_keeping;
struct file_chunk;
struct file_settings;
struct file_watch;
struct mailbox;

/* Starts the thread. `root`, `settings` and `keeping` (NULL: nothing outlives the program) are
 * borrowed until destroy. Without inotify everything is polled; that is not a failure. */
int file_watch_create(struct tidings_provider *provider, const struct file_root *root,
                      const struct file_settings *settings, struct file_keeping *keeping,
                      struct file_watch **ret, struct tidings_error *err);
/* The program ends: checks pending paths, announces changes, and stops watching. */
void file_watch_drain(struct file_watch *w);
/* After that: returns the next part of the unsaved state, or NULL if there is none. Its `done` is
 * called when it was written, or failed. */
struct file_chunk *file_watch_unsaved(struct file_watch *w);
/* Stops and joins the thread. NULL is fine. */
void file_watch_destroy(struct file_watch *w);

/* Watches a scope, then finishes `watch` on the watcher's thread. On failure here `watch` is
 * unchanged.
 */
int file_watch_add(struct file_watch *w, struct tidings_str path, bool is_tree,
                   struct tidings_watch *watch, struct tidings_error *err);
void file_watch_remove(struct file_watch *w, struct tidings_str path, bool is_tree);

struct mailbox *file_watch_mailbox(struct file_watch *w);

#endif
