/* SPDX-License-Identifier: MIT
 *
 * Logs of SQLite as it would write them, made in memory: transactions of so many frames, with the
 * checksums that belong to them.
 */
#ifndef SUPPORT_WAL_MADE_H
#define SUPPORT_WAL_MADE_H

#include "store/sqlite_damage.h"

#define WAL_MADE_PAGE 512u
#define WAL_MADE_FRAME (WAL_FRAME_SIZE + WAL_MADE_PAGE)
#define WAL_MADE_MAX 64u /* frames */

struct wal_made {
    unsigned char bytes[WAL_HEADER_SIZE + WAL_MADE_MAX * WAL_MADE_FRAME];
    size_t size;     /* of the file */
    unsigned at;     /* frame that is written next */
    uint32_t sum[2]; /* of what is written so far */
    bool is_big;
    struct wal_identity id;
};

/* Begin a log over the existing bytes. */
void wal_made_begin(struct wal_made *w, const struct wal_identity *id, bool is_big);
/* Write frames at the end. `commits`: the last of them is a commit. */
void wal_made_add(struct wal_made *w, unsigned frames, bool commits, unsigned char fill);
/* Repeat the last frame. */
void wal_made_pad(struct wal_made *w);
/* Continue at an earlier frame, as after a rollback or a crash. */
void wal_made_back(struct wal_made *w, unsigned at, const uint32_t sum[2]);
void wal_made_scan(const struct wal_made *w, struct wal_facts *ret);

static inline size_t wal_made_offset(unsigned frame)
{
    return WAL_HEADER_SIZE + (size_t)frame * WAL_MADE_FRAME;
}

#endif
