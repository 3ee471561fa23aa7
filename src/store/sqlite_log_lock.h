/* SPDX-License-Identifier: MIT
 *
 * What a server and a backup agree on over the log of a SQLite database (FILE-wal): while a backup
 * reads the two files, the server goes on to append to the log and copies nothing from it into the
 * database. So the database as it stood, with the log behind it, is the store at one instant.
 *
 * These are advisory locks on two bytes of the log, of open files (fcntl(2), F_OFD_SETLK): SQLite
 * locks only the database itself. Whoever dies holds them no more.
 */
#ifndef STORE_SQLITE_LOG_LOCK_H
#define STORE_SQLITE_LOG_LOCK_H

#include <tidings/types.h>

struct log_lock;

/* Be the owner of the log at `path`, which exists. NULL where the file system has no locks: then
 * there are no backups while it is in use. */
struct log_lock *log_lock_create(const char *path);
void log_lock_destroy(struct log_lock *lock); /* NULL is fine */
/* May the log be copied into the database now? Then `give` afterwards. False: a backup reads. NULL:
 * always. */
bool log_lock_take(struct log_lock *lock);
void log_lock_give(struct log_lock *lock);

/* Does a server own the log at `path` now? */
bool log_lock_is_held(const char *path);

/* Keep the owner of the log at `path`, another process, from copying it, until the descriptor
 * returned is closed; waits while it does. TIDINGS_E_NOTFOUND: the log is gone, since the owner
 * ended. TIDINGS_E_BUSY: who uses it does not know of this, or is this very process. */
int log_lock_share(const char *path, struct tidings_error *err);

#endif
