/* SPDX-License-Identifier: MIT
 *
 * Finds out, before a store that is a SQLite file is opened, whether it has lost what it had
 * committed. SQLite itself would not notice: it takes damage in its log ("-wal") for the end of
 * the log, an empty file for a new database, and removes the log of a missing one.
 *
 * Nothing is written, so that nothing more is lost: the files can still be copied away.
 */
#ifndef STORE_SQLITE_LOSS_H
#define STORE_SQLITE_LOSS_H

#include <tidings/types.h>

struct commit_marker;

/* TIDINGS_E_IO: it has lost something; the error message names it. 0: no loss is known, another
 * program has it open, or it is in memory. */
int sqlite_loss_check(const char *path, struct tidings_error *err);
/* Before a store is made: an empty file is the beginning of one. *ret is NULL when there is a file
 * already, or nothing can be made there. */
void sqlite_loss_expect(const char *path, struct commit_marker **ret);
/* After that: it is made, or that failed. `making` is freed; NULL is fine. */
void sqlite_loss_expect_no_more(const char *path, struct commit_marker *making);

#endif
