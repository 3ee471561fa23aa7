/* SPDX-License-Identifier: MIT
 *
 * Scanning the log of a SQLite database. The format: a header of 32 bytes (magic, version, page
 * size, sequence, two salts, two checksums), then frames: page number, size of the database after a
 * commit or 0, the salts, two checksums, the page. All numbers are big-endian; the magic says in
 * which order the checksums take the bytes.
 */
#include "store/wal_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define MAGIC 0x377f0682u /* the last bit: checksums of big-endian words */
#define VERSION 3007000u
#define PAGE_MIN 512u
#define PAGE_MAX 65536u

struct wal_sum {
    uint32_t a, b;
};

struct wal_frame {
    uint32_t page, size; /* of the database after it, when it is a commit */
    uint32_t salt[2];
    struct wal_sum sum;
    unsigned char head[8]; /* the part of its header that the sum covers */
};

struct wal_reading {
    wal_read_fn read;
    void *user;
    unsigned char *page; /* twice PAGE_MAX bytes */
    uint32_t page_size;
    bool is_big;
};

static uint32_t wal_number(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static struct wal_sum wal_add(struct wal_sum sum, bool is_big, const unsigned char *p, size_t size)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint32_t one = wal_number(p + i), other = wal_number(p + i + 4);
        sum.a += (is_big ? one : __builtin_bswap32(one)) + sum.b;
        sum.b += (is_big ? other : __builtin_bswap32(other)) + sum.a;
    }
    return sum;
}

static bool wal_same(struct wal_sum one, struct wal_sum other)
{
    return one.a == other.a && one.b == other.b;
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool wal_is_big(const unsigned char *header)
{
    return (wal_number(header) & 1) != 0;
}

static bool wal_is_page_size(uint32_t size)
{
    return size >= PAGE_MIN && size <= PAGE_MAX && (size & (size - 1)) == 0;
}

bool wal_identify(const unsigned char header[WAL_HEADER_SIZE], struct wal_identity *ret)
{
    const struct wal_sum stored = {wal_number(header + 24), wal_number(header + 28)};
    struct wal_sum sum = wal_add((struct wal_sum){0, 0}, wal_is_big(header), header, 24);
    if ((wal_number(header) & ~1u) != MAGIC || wal_number(header + 4) != VERSION ||
        !wal_is_page_size(wal_number(header + 8)) || !wal_same(sum, stored)) {
        return false;
    }
    *ret = (struct wal_identity){.sequence = wal_number(header + 12),
                                 .salt = {wal_number(header + 16), wal_number(header + 20)}};
    return true;
}

bool wal_is_successor(const struct wal_identity *earlier, const struct wal_identity *later)
{
    uint32_t times = later->sequence - earlier->sequence;
    return times != 0 && times < UINT32_MAX / 2 && later->salt[0] - earlier->salt[0] == times;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* 1, 0 when the log ends before its end, or a failure. `with_page`: read the page, too. */
static int wal_read_frame(struct wal_reading *r, uint64_t index, bool with_page,
                          struct wal_frame *ret)
{
    unsigned char head[WAL_FRAME_SIZE];
    uint64_t at = WAL_HEADER_SIZE + index * (WAL_FRAME_SIZE + (uint64_t)r->page_size);
    int64_t n = r->read(r->user, at, head, sizeof head);
    if (n != (int64_t)sizeof head) {
        return n < 0 ? (int)n : 0;
    }
    *ret = (struct wal_frame){.page = wal_number(head),
                              .size = wal_number(head + 4),
                              .salt = {wal_number(head + 8), wal_number(head + 12)},
                              .sum = {wal_number(head + 16), wal_number(head + 20)}};
    memcpy(ret->head, head, sizeof ret->head);
    if (!with_page) {
        return 1;
    }
    n = r->read(r->user, at + sizeof head, r->page, r->page_size);
    return n == (int64_t)r->page_size ? 1 : n < 0 ? (int)n : 0;
}

/* True if the frame, whose page was read, continues `before`. */
static bool wal_goes_on(const struct wal_reading *r, const struct wal_frame *f,
                        struct wal_sum before)
{
    struct wal_sum sum = wal_add(before, r->is_big, f->head, sizeof f->head);
    return wal_same(wal_add(sum, r->is_big, r->page, r->page_size), f->sum);
}

static bool wal_same_salt(const uint32_t one[2], const uint32_t other[2])
{
    return one[0] == other[0] && one[1] == other[1];
}

/* Reads the frames that SQLite reads. `last` becomes the last of them. */
static int wal_read_valid(struct wal_reading *r, struct wal_sum sum, struct wal_frame *last,
                          struct wal_facts *ret)
{
    struct wal_frame f;
    int rc;
    while ((rc = wal_read_frame(r, ret->frames, true, &f)) == 1 && f.page != 0 &&
           wal_same_salt(f.salt, ret->id.salt) && wal_goes_on(r, &f, sum)) {
        sum = f.sum;
        *last = f;
        ret->frames++;
        ret->committed = f.size != 0 ? ret->frames : ret->committed;
    }
    return rc < 0 ? rc : 0;
}

/* If a write may harm its neighbours in a sector, SQLite repeats the frame of a commit up to the
 * next sector. It does not sync the end of that, and if it cannot write it the commit fails. True
 * if this may be such a frame. */
static bool wal_may_pad(const struct wal_frame *f, const struct wal_frame *before)
{
    return before->size != 0 && f->page == before->page && f->size == before->size;
}

/* The same of a frame whose page was read. */
static bool wal_is_padding(struct wal_reading *r, uint64_t index, const struct wal_frame *f,
                           const struct wal_frame *before)
{
    uint64_t at = WAL_HEADER_SIZE + index * (WAL_FRAME_SIZE + (uint64_t)r->page_size);
    unsigned char *other = r->page + PAGE_MAX;
    return wal_may_pad(f, before) &&
           r->read(r->user, at - r->page_size, other, r->page_size) == (int64_t)r->page_size &&
           memcmp(other, r->page, r->page_size) == 0;
}

/* Finds a frame that continues a commit, from the first invalid one on. `last`: the valid frame
 * before that, or all 0. `salt` NULL: any log. */
static int wal_find_proof(struct wal_reading *r, const struct wal_frame *last, const uint32_t *salt,
                          struct wal_facts *ret)
{
    const uint64_t from = ret->frames;
    struct wal_frame f, before = {0};
    int rc;
    for (uint64_t i = from; (rc = wal_read_frame(r, i, false, &f)) == 1; i++) {
        bool is_ours = f.page != 0 && (!salt || wal_same_salt(f.salt, salt));
        bool may_prove =
            is_ours && before.page != 0 && before.size != 0 && wal_same_salt(f.salt, before.salt);
        rc = may_prove ? wal_read_frame(r, i, true, &f) : rc;
        if (may_prove && rc == 1 && wal_goes_on(r, &f, before.sum) &&
            !wal_is_padding(r, i, &f, &before)) {
            ret->is_damaged = true;
            ret->proof = i + 1;
            return 0;
        }
        if (rc != 1) {
            break;
        }
        bool may_be_torn = i == from && wal_may_pad(&f, last);
        before = is_ours && !may_be_torn ? f : (struct wal_frame){0};
    }
    return rc < 0 ? rc : 0;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* The header says neither the size of pages nor the order of bytes: each is tried. */
static int wal_scan_headless(struct wal_reading *r, struct wal_facts *ret)
{
    const struct wal_frame none = {0};
    int rc = 0;
    for (uint32_t size = PAGE_MIN; rc == 0 && size <= PAGE_MAX && !ret->is_damaged; size *= 2) {
        for (int big = 0; rc == 0 && big < 2 && !ret->is_damaged; big++) {
            r->page_size = size;
            r->is_big = big != 0;
            rc = wal_find_proof(r, &none, NULL, ret);
        }
    }
    return rc;
}

static int wal_scan_all(struct wal_reading *r, struct wal_facts *ret)
{
    unsigned char header[WAL_HEADER_SIZE];
    int64_t n = r->read(r->user, 0, header, sizeof header);
    if (n != (int64_t)sizeof header) {
        return n < 0 ? (int)n : 0; /* it was never begun */
    }
    ret->has_header = wal_identify(header, &ret->id);
    if (!ret->has_header) {
        return wal_scan_headless(r, ret);
    }
    ret->page_size = r->page_size = wal_number(header + 8);
    r->is_big = wal_is_big(header);
    const struct wal_sum sum = {wal_number(header + 24), wal_number(header + 28)};
    struct wal_frame last = {0};
    int rc = wal_read_valid(r, sum, &last, ret);
    return rc == 0 ? wal_find_proof(r, &last, ret->id.salt, ret) : rc;
}

int wal_scan(wal_read_fn read, void *user, struct wal_facts *ret, struct tidings_error *err)
{
    struct wal_reading r = {.read = read, .user = user, .page = mem_alloc((size_t)2 * PAGE_MAX)};
    *ret = (struct wal_facts){0};
    if (!r.page) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = wal_scan_all(&r, ret);
    mem_free(r.page);
    return rc < 0 ? error_errno(err, -rc, "read") : 0;
}
