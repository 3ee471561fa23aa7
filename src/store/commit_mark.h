/* SPDX-License-Identifier: MIT
 *
 * A file beside a store ("FILE-mark") that says how much of it was committed. It is written after
 * each commit and not synced, so it costs no second sync. After the end of the process it is exact;
 * after a power cut it may be older than the last commit. The commit is synced before its mark is
 * written.
 *
 * Exactly one server has a store open, so one process writes its mark.
 */
#ifndef STORE_COMMIT_MARK_H
#define STORE_COMMIT_MARK_H

#include "store/wal_scan.h"

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
/* The mark at `path`. False: there is none that can be read. */
bool commit_mark_read(const char *path, struct commit_mark *ret);

struct commit_marker;

/* Make the file, or replace it, and sync it. `log_path` is the log of the store; NULL: none yet. */
int commit_marker_open(const char *path, const char *log_path, const struct commit_mark *mark,
                       struct commit_marker **ret, struct tidings_error *err);
/* A commit is on the disk. Failures leave an older mark, which is true as well. */
void commit_marker_put(struct commit_marker *m, uint64_t position, uint64_t frames);
/* `removes`: the file, too. NULL is fine. */
void commit_marker_close(struct commit_marker *m, bool removes);

#endif
