/* SPDX-License-Identifier: MIT
 *
 * Watching below one root: a thread that knows what the watched directories held when it last
 * looked, is told by inotify where to look again, and announces what differs.
 *
 * A scope is a path: one file, or (is_tree) a directory with everything below it; neither need
 * exist yet. After the last watcher of a scope left it stays active for lingerMs; then its kernel
 * watches go, but what is known of it stays, so that watching it again first announces what changed
 * meanwhile.
 *
 * All functions are called on the hub thread.
 */
#ifndef SOURCES_FILE_WATCH_H
#define SOURCES_FILE_WATCH_H

#include <tidings/provider.h>

#include "sources/file_path.h"

/* Tells of mounts. A confined process needs it from its helper (base/file.h). */
#define FILE_WATCH_MOUNTS "/proc/self/mountinfo"

struct file_keeping;
struct file_chunk;
struct file_settings;
struct file_watch;
struct mailbox;

/* Start the thread. `root`, `settings` and `keeping` (NULL: nothing outlives the program) are
 * borrowed until destroy. Without inotify everything is polled; that is no failure. */
int file_watch_create(struct tidings_provider *provider, const struct file_root *root,
                      const struct file_settings *settings, struct file_keeping *keeping,
                      struct file_watch **ret, struct tidings_error *err);
/* The program ends: look at what is waiting to be looked at, announce it, and watch no more. */
void file_watch_drain(struct file_watch *w);
/* After that: the next part of what is known and not saved, NULL when there is none. When it was
 * written or not, its `done` is called. */
struct file_chunk *file_watch_unsaved(struct file_watch *w);
/* Stops and joins the thread. NULL is fine. */
void file_watch_destroy(struct file_watch *w);

/* Watch a scope, then finish `watch` on the watcher's thread. On failure here `watch` is not
 * touched.
 */
int file_watch_add(struct file_watch *w, struct tidings_str path, bool is_tree,
                   struct tidings_watch *watch, struct tidings_error *err);
void file_watch_remove(struct file_watch *w, struct tidings_str path, bool is_tree);

struct mailbox *file_watch_mailbox(struct file_watch *w);

#endif
