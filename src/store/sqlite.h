/* SPDX-License-Identifier: MIT
 *
 * A SQLite database of ours: opened so that a commit is on the disk when it returns, and that no
 * other program writes to it meanwhile. The library is loaded when the first one is opened: who
 * keeps nothing does not pay for it.
 *
 * One thread. Statements are made once and used again; their texts are bound by reference and must
 * live until the statement is reset.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include <tidings/types.h>

struct sqlite;
struct sqlite3_stmt;

/* `path`, or ":memory:". TIDINGS_E_UNSUPPORTED when the library is missing, TIDINGS_E_BUSY when
 * another program has it open. */
int sqlite_open(const char *path, struct sqlite **ret, struct tidings_error *err);
/* Keep a mark beside the file of how much of it is committed (store/sqlite_damage.h), until it is
 * closed. `epoch` is committed already, and is in the database itself afterwards. Outside of
 * transactions. */
int sqlite_keep_mark(struct sqlite *db, uint64_t epoch, int64_t position,
                     struct tidings_error *err);
/* After each commit: that is the newest position. */
void sqlite_close(struct sqlite *db); /* NULL is fine; statements must be gone */

/* Open a file only to look at it: nothing is written, made or locked, and what is in its log
 * ("-wal") is not seen. */
int sqlite_peek(const char *path, struct sqlite **ret, struct tidings_error *err);
/* Is the file sound, as far as SQLite can tell? TIDINGS_E_IO with what it found first. */
int sqlite_check_sound(struct sqlite *db, struct tidings_error *err);
/* Closing leaves the log as it is, where it would copy it into the database otherwise. */
void sqlite_leave_log(struct sqlite *db);

/* The steps that make a new database, and lead an older one to what is expected today: step i takes
 * it from version i to i + 1. */
struct sqlite_layout {
    const char *const *steps;
    int count;
};
/* The application id that marks a database as ours ("tidi"; file(1) shows it). */
#define SQLITE_APPLICATION_ID 0x74696469

/* store/sqlite_schema.c: before the file is opened. TIDINGS_E_INVALID, with what it is, when it is
 * a database of another program, TIDINGS_E_UNSUPPORTED when a newer tidings made it; it has not
 * been touched then. Whatever else is wrong with it, opening says. */
int sqlite_check_ours(const char *path, const struct sqlite_layout *layout,
                      struct tidings_error *err);
/* Takes the steps that are missing, in one transaction. A failure leaves the file as it was. */
int sqlite_lay_out(struct sqlite *db, const struct sqlite_layout *layout,
                   struct tidings_error *err);
/* Is everything in it that its layout has, and nothing else? TIDINGS_E_INVALID. */
int sqlite_check_shape(struct sqlite *db, const struct sqlite_layout *layout,
                       struct tidings_error *err);

/* Several statements without results. */
int sqlite_exec(struct sqlite *db, const char *sql, struct tidings_error *err);
/* End the open transaction, if there is one: a failed commit may have ended it. Takes no memory:
 * without it, a failed rollback would leave the transaction open, and reads would return what it
 * wrote. */
void sqlite_roll_back(struct sqlite *db);

/* Copy what is committed into the database, sync that, and cut the log of writes off. Outside of
 * transactions. TIDINGS_E_BUSY while a backup is made. */
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
/* 1: a row, valid until the next step or reset. 0: no more. A failure: the sentence is SQLite's. */
int sqlite_step(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err);
void sqlite_reset(struct sqlite3_stmt *st);
/* Step and reset a statement without results. */
int sqlite_run(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * What a server and a backup agree on over the log of a SQLite database (FILE-wal): while a backup
 * reads the two files, the server goes on to append to the log and copies nothing from it into the
 * database. So the database as it stood, with the log behind it, is the store at one instant.
 *
 * These are advisory locks on two bytes of the log, of open files (fcntl(2), F_OFD_SETLK): SQLite
 * locks only the database itself. Whoever dies holds them no more.
 */

struct log_lock;

/* Does a server own the log at `path` now? */
bool log_lock_is_held(const char *path);

/* Keep the owner of the log at `path`, another process, from copying it, until the descriptor
 * returned is closed; waits while it does. TIDINGS_E_NOTFOUND: the log is gone, since the owner
 * ended. TIDINGS_E_BUSY: who uses it does not know of this, or is this very process. */
int log_lock_share(const char *path, struct tidings_error *err);

#endif
