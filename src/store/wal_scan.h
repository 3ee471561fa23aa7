/* SPDX-License-Identifier: MIT
 *
 * Reads the log of a SQLite database ("-wal") as it lies on the disk, before SQLite does, and finds
 * damage that SQLite takes for the end of the log.
 *
 * SQLite reads frames up to the first wrong checksum, because a crash may leave a torn
 * last transaction. A server syncs each transaction before it writes the next. So a frame that was
 * written after a commit proves that all frames up to that commit were on the disk. It was written
 * after that commit if its checksum continues the commit's: leftovers of earlier logs have another
 * salt, and leftovers of a rollback continue other frames.
 *
 * It cannot see damage to the last transaction, nor a log that was cut off or is missing
 * (store/commit_mark.h).
 */
#ifndef STORE_WAL_SCAN_H
#define STORE_WAL_SCAN_H

#include <tidings/types.h>

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
/* Reads the identity of a log from its header. False: the header is invalid. */
bool wal_identify(const unsigned char header[WAL_HEADER_SIZE], struct wal_identity *ret);
/* True if `later` is the same log, restarted at least once. */
bool wal_is_successor(const struct wal_identity *earlier, const struct wal_identity *later);

#endif
