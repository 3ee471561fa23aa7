/* SPDX-License-Identifier: MIT
 *
 * A SQLite database: opened so that a commit is on disk when it returns, and that no other program
 * can write it. The library is loaded when the first database is opened, so servers without one do
 * not need it.
 *
 * One thread. Statements are prepared once and reused; their strings are bound by reference and
 * must live until the statement is reset.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include <tidings/types.h>

struct sqlite;
struct sqlite3_stmt;

/* `path`, or ":memory:". TIDINGS_E_UNSUPPORTED if the library is missing, TIDINGS_E_BUSY if another
 * program has the file open. */
int sqlite_open(const char *path, struct sqlite **ret, struct tidings_error *err);
/* Keeps a mark beside the file of how much is committed (store/sqlite_damage.h), until it is
 * closed. `epoch` is committed already, and is in the database itself when this returns. Call it
 * outside of transactions. */
int sqlite_keep_mark(struct sqlite *db, uint64_t epoch, int64_t position,
                     struct tidings_error *err);
/* Sets the newest position after each commit. */
void sqlite_close(struct sqlite *db); /* NULL is fine; all statements must be finalized */

/* Opens a file read-only for inspection: writes, creates and locks nothing, and ignores the
 * contents of its log ("-wal"). */
int sqlite_peek(const char *path, struct sqlite **ret, struct tidings_error *err);
/* Checks the file as far as SQLite can. TIDINGS_E_IO with the first finding. */
int sqlite_check_sound(struct sqlite *db, struct tidings_error *err);
/* Makes close keep the log as it is, instead of copying it into the database. */
void sqlite_leave_log(struct sqlite *db);

/* The steps that create a database, and migrate an older one to the current layout: step i takes it
 * from version i to i + 1. */
struct sqlite_layout {
    const char *const *steps;
    int count;
};
/* The application id that marks a database as a tidings store ("tidi"; file(1) shows it). */
#define SQLITE_APPLICATION_ID 0x74696469

/* Checks the owner of a file before it is opened (store/sqlite_schema.c). TIDINGS_E_INVALID, with a
 * description, for a database of another program; TIDINGS_E_UNSUPPORTED if a newer tidings created
 * it. The file is not changed. Opening reports all other errors. */
int sqlite_check_ours(const char *path, const struct sqlite_layout *layout,
                      struct tidings_error *err);
/* Runs the missing steps in one transaction. After a failure the file is unchanged. */
int sqlite_lay_out(struct sqlite *db, const struct sqlite_layout *layout,
                   struct tidings_error *err);
/* Checks that the database contains exactly the tables and indexes of its layout.
 * TIDINGS_E_INVALID. */
int sqlite_check_shape(struct sqlite *db, const struct sqlite_layout *layout,
                       struct tidings_error *err);

/* Runs several statements without results. */
int sqlite_exec(struct sqlite *db, const char *sql, struct tidings_error *err);
/* Ends the open transaction, if there is one: a failed commit may have ended it. Allocates no
 * memory: otherwise a failed rollback would leave the transaction open, and reads would return what
 * it wrote. */
void sqlite_roll_back(struct sqlite *db);

/* Copies committed data into the database, syncs it, and truncates the log. Call it outside of
 * transactions. TIDINGS_E_BUSY during a backup. */
int sqlite_cut_log(struct sqlite *db, struct tidings_error *err);

int sqlite_prepare(struct sqlite *db, const char *sql, struct sqlite3_stmt **ret,
                   struct tidings_error *err);
void sqlite_finalize(struct sqlite3_stmt *st); /* NULL is fine */

/* Parameters count from 1, columns from 0. */
void sqlite_bind_int(struct sqlite3_stmt *st, int parameter, int64_t n);
void sqlite_bind_str(struct sqlite3_stmt *st, int parameter, struct tidings_str s);
/* NULL: no value. */
void sqlite_bind_bytes(struct sqlite3_stmt *st, int parameter, const struct tidings_str *bytes);
int64_t sqlite_int(struct sqlite3_stmt *st, int column);
struct tidings_str sqlite_str(struct sqlite3_stmt *st, int column);
struct tidings_str sqlite_bytes(struct sqlite3_stmt *st, int column);
/* 1: a row, valid until the next step or reset. 0: no more rows. On failure the error message is
 * SQLite's. */
int sqlite_step(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err);
void sqlite_reset(struct sqlite3_stmt *st);
/* Steps and resets a statement without results. */
int sqlite_run(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The log lock, an agreement between a server and a backup over the log of a SQLite database
 * (FILE-wal): while a backup reads the two files, the server still appends to the log but copies
 * nothing from it into the database. So the unchanged database and its log together are the store
 * at one instant.
 *
 * These are advisory locks on two bytes of the log, of open files (fcntl(2), F_OFD_SETLK): SQLite
 * locks only the database itself. The kernel releases the locks of a process that dies.
 */

struct log_lock;

/* Returns true if a server owns the log at `path` now. */
bool log_lock_is_held(const char *path);

/* Prevents the owner of the log at `path`, another process, from copying it, until the returned
 * descriptor is closed; waits while it does. TIDINGS_E_NOTFOUND: the log is gone because the owner
 * ended. TIDINGS_E_BUSY: its user does not take this lock, or is this process. */
int log_lock_share(const char *path, struct tidings_error *err);

#endif
