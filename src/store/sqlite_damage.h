/* SPDX-License-Identifier: MIT
 *
 * Damage detection: before a SQLite store is opened, finds out whether it has lost committed data.
 * SQLite itself would not notice: it takes damage in its log ("-wal") for the end of the log, an
 * empty file for a new database, and removes the log of a missing one.
 *
 * Nothing is written, so that nothing more is lost: the files can still be copied.
 */
#ifndef STORE_SQLITE_DAMAGE_H
#define STORE_SQLITE_DAMAGE_H

#include <tidings/types.h>

struct commit_marker;

/* TIDINGS_E_IO: it has lost something; the error message names it. 0: no loss is known, another
 * program has it open, or it is in memory. */
int sqlite_loss_check(const char *path, struct tidings_error *err);
/* Call it before a store is created: an empty file is an unfinished one. *ret is NULL if there is
 * already a file, or if none can be created. */
void sqlite_loss_expect(const char *path, struct commit_marker **ret);
/* Call it after that, whether the creation succeeded or not. Frees `making`; NULL is fine. */
void sqlite_loss_expect_no_more(const char *path, struct commit_marker *making);

/* -------------------------------------------------------------------------------------------------
 * Reads the log of a SQLite database ("-wal") as it is on disk, before SQLite does, and finds
 * damage that SQLite takes for the end of the log.
 *
 * SQLite reads frames up to the first wrong checksum, because a crash may leave a torn last
 * transaction. A server syncs each transaction before it writes the next. So a frame that was
 * written after a commit proves that all frames up to that commit were on disk. It was written
 * after that commit if its checksum continues the commit's: leftovers of earlier logs have another
 * salt, and leftovers of a rollback continue other frames.
 *
 * It cannot see damage to the last transaction, nor a log that was cut off or is missing
 * (store/sqlite_damage.h).
 */

#define WAL_HEADER_SIZE 32u
#define WAL_FRAME_SIZE 24u /* of a frame's header; a page follows */

/* Identifies a log. A restarted log has the next number and another salt. */
struct wal_identity {
    uint32_t sequence;
    uint32_t salt[2];
};

struct wal_facts {
    bool has_header;        /* it is valid, and the next three are known */
    struct wal_identity id; /* else 0 */
    uint32_t page_size;
    uint64_t frames;    /* valid from the beginning */
    uint64_t committed; /* of these up to the last commit: SQLite reads these */
    bool is_damaged;    /* later frames were written after a commit that it lacks */
    uint64_t proof;     /* then: the number of such a frame, from 1 */
};

/* Read up to `size` bytes at `at`: how many, fewer only at the end, or a negative errno. */
typedef int64_t (*wal_read_fn)(void *user, uint64_t at, void *out, size_t size);

/* Memory for two pages; time in proportion to the size. TIDINGS_E_NOMEM, TIDINGS_E_IO. */
int wal_scan(wal_read_fn read, void *user, struct wal_facts *ret, struct tidings_error *err);
/* True if `later` is the same log, restarted at least once. */
bool wal_is_successor(const struct wal_identity *earlier, const struct wal_identity *later);

/* -------------------------------------------------------------------------------------------------
 * The commit mark: a file beside a store ("FILE-mark") that records how much of it was committed.
 * It is written after each commit and not synced, so it costs no second sync. After the end of the
 * process it is exact; after a power cut it may be older than the last commit. The commit is synced
 * before its mark is written.
 *
 * Exactly one server has a store open, so one process writes its mark.
 */

#define COMMIT_MARK_SUFFIX "-mark"
#define COMMIT_MARK_SIZE 56u

struct commit_mark {
    uint64_t epoch;          /* of the run that wrote it; 0: the store is being made */
    uint64_t position;       /* of the newest change that was committed */
    uint64_t frames;         /* in the log after the last commit */
    struct wal_identity log; /* which log that was */
};

void commit_mark_encode(const struct commit_mark *mark, unsigned char out[COMMIT_MARK_SIZE]);
/* False: the mark is invalid or torn. */
bool commit_mark_decode(const unsigned char *bytes, size_t size, struct commit_mark *ret);

/* Creates or replaces the file, and syncs it. `log_path` is the log of the store; NULL: none yet.
 */
int commit_marker_open(const char *path, const char *log_path, const struct commit_mark *mark,
                       struct commit_marker **ret, struct tidings_error *err);
/* Records a commit that is on disk. A failure leaves an older mark, which is also valid. */
void commit_marker_put(struct commit_marker *m, uint64_t position, uint64_t frames);
/* `removes`: removes the file, too. NULL is fine. */
void commit_marker_close(struct commit_marker *m, bool removes);

#endif
