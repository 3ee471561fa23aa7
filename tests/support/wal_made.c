/* SPDX-License-Identifier: MIT
 *
 * Makes logs of SQLite from its file format, independently of the code that reads them.
 */
#include "support/wal_made.h"

#include <stdlib.h>
#include <string.h>

static void wal_made_put(unsigned char *p, uint32_t n)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (unsigned char)(n >> (24 - 8 * i));
    }
}

static uint32_t wal_made_word(const unsigned char *p, bool is_big)
{
    uint32_t n = 0;
    for (int i = 0; i < 4; i++) {
        n = n << 8 | p[is_big ? i : 3 - i];
    }
    return n;
}

static void wal_made_sum(struct wal_made *w, const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        w->sum[0] += wal_made_word(p + i, w->is_big) + w->sum[1];
        w->sum[1] += wal_made_word(p + i + 4, w->is_big) + w->sum[0];
    }
}

void wal_made_begin(struct wal_made *w, const struct wal_identity *id, bool is_big)
{
    const uint32_t numbers[] = {0x377f0682u + is_big, 3007000,     WAL_MADE_PAGE,
                                id->sequence,         id->salt[0], id->salt[1]};
    w->is_big = is_big;
    w->id = *id;
    w->sum[0] = w->sum[1] = 0;
    for (unsigned i = 0; i < 6; i++) {
        wal_made_put(w->bytes + 4 * (size_t)i, numbers[i]);
    }
    wal_made_sum(w, w->bytes, 24);
    wal_made_put(w->bytes + 24, w->sum[0]);
    wal_made_put(w->bytes + 28, w->sum[1]);
    w->at = 0;
    w->size = w->size < WAL_HEADER_SIZE ? WAL_HEADER_SIZE : w->size;
}

static void wal_made_frame(struct wal_made *w, uint32_t page, uint32_t size, unsigned char fill)
{
    unsigned char *p = w->bytes + wal_made_offset(w->at++);
    wal_made_put(p, page);
    wal_made_put(p + 4, size);
    wal_made_put(p + 8, w->id.salt[0]);
    wal_made_put(p + 12, w->id.salt[1]);
    memset(p + WAL_FRAME_SIZE, fill, WAL_MADE_PAGE);
    wal_made_sum(w, p, 8);
    wal_made_sum(w, p + WAL_FRAME_SIZE, WAL_MADE_PAGE);
    wal_made_put(p + 16, w->sum[0]);
    wal_made_put(p + 20, w->sum[1]);
    w->size = w->size < wal_made_offset(w->at) ? wal_made_offset(w->at) : w->size;
}

void wal_made_add(struct wal_made *w, unsigned frames, bool commits, unsigned char fill)
{
    for (unsigned i = 0; i < frames && w->at < WAL_MADE_MAX; i++) {
        wal_made_frame(w, 1 + i, commits && i + 1 == frames ? 9 : 0, (unsigned char)(fill + w->at));
    }
}

void wal_made_pad(struct wal_made *w)
{
    const unsigned char *last = w->bytes + wal_made_offset(w->at - 1);
    wal_made_frame(w, wal_made_word(last, true), wal_made_word(last + 4, true),
                   last[WAL_FRAME_SIZE]);
}

void wal_made_back(struct wal_made *w, unsigned at, const uint32_t sum[2])
{
    w->at = at;
    memcpy(w->sum, sum, sizeof w->sum);
}

static int64_t wal_made_read(void *user, uint64_t at, void *out, size_t size)
{
    const struct wal_made *w = user;
    size_t left = at < w->size ? w->size - (size_t)at : 0;
    size_t n = left < size ? left : size;
    memcpy(out, w->bytes + (n > 0 ? at : 0), n);
    return (int64_t)n;
}

void wal_made_scan(const struct wal_made *w, struct wal_facts *ret)
{
    if (wal_scan(wal_made_read, (void *)(uintptr_t)w, ret, NULL) < 0) {
        abort();
    }
}
