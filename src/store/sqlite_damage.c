/* SPDX-License-Identifier: MIT
 *
 * Judges a store in a SQLite file by three files: the database, its log, and the mark of commits.
 *
 *     database   log                      mark            verdict
 *     missing    with bytes               any             lost
 *     missing    none                     of a run        lost
 *     missing    none                     none, making    new
 *     empty      none                     making          new: creation was interrupted
 *     empty      else                     else            lost
 *     exists     damaged, see wal_scan.h  any             lost (without a header: no mark)
 *     exists     that of the mark         more frames     lost
 *     exists     that of the mark, restarted              whole: the old one was copied
 *     exists     another, or none         of this run, and of a higher position   lost
 *
 * The last row detects a log that was removed, cut off, or has a damaged header. A restored backup
 * has no unfinished run (sqlite_maintenance.c), so it ignores the mark of the store that it
 * replaced. If the positions agree, another program has copied the log into the database, as SQLite
 * does when it closes one.
 */
#include "store/sqlite_damage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/sqlite.h"
#include "store/sqlite_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Scanning the log of a SQLite database. The format: a header of 32 bytes (magic, version, page
 * size, sequence, two salts, two checksums), then frames: page number, size of the database after a
 * commit or 0, the salts, two checksums, the page. All numbers are big-endian; the magic says in
 * which order the checksums take the bytes.
 */

#define MAGIC 0x377f0682u /* the last bit: checksums of big-endian words */
#define VERSION 3007000u
#define PAGE_MIN 512u
#define PAGE_MAX 65536u

struct wal_checksum {
    uint32_t a, b;
};

struct wal_frame {
    uint32_t page, size; /* of the database after it, when it is a commit */
    uint32_t salt[2];
    struct wal_checksum checksum;
    unsigned char head[8]; /* the part of its header that the sum covers */
};

struct wal_reading {
    wal_read_fn read;
    void *user;
    unsigned char *page; /* two times PAGE_MAX bytes */
    uint32_t page_size;
    bool is_big;
};

static uint32_t wal_number(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static struct wal_checksum wal_add(struct wal_checksum checksum, bool is_big,
                                   const unsigned char *p, size_t size)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint32_t one = wal_number(p + i), other = wal_number(p + i + 4);
        checksum.a += (is_big ? one : __builtin_bswap32(one)) + checksum.b;
        checksum.b += (is_big ? other : __builtin_bswap32(other)) + checksum.a;
    }
    return checksum;
}

static bool wal_same(struct wal_checksum one, struct wal_checksum other)
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

/* Reads the identity of a log from its header. False: the header is invalid. */
static bool wal_identify(const unsigned char header[WAL_HEADER_SIZE], struct wal_identity *ret)
{
    const struct wal_checksum stored = {wal_number(header + 24), wal_number(header + 28)};
    struct wal_checksum checksum =
        wal_add((struct wal_checksum){0, 0}, wal_is_big(header), header, 24);
    if ((wal_number(header) & ~1u) != MAGIC || wal_number(header + 4) != VERSION ||
        !wal_is_page_size(wal_number(header + 8)) || !wal_same(checksum, stored)) {
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

/* 1, 0 if the log ends before the frame does, or a failure. `with_page`: read the page, too. */
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
                              .checksum = {wal_number(head + 16), wal_number(head + 20)}};
    memcpy(ret->head, head, sizeof ret->head);
    if (!with_page) {
        return 1;
    }
    n = r->read(r->user, at + sizeof head, r->page, r->page_size);
    return n == (int64_t)r->page_size ? 1 : n < 0 ? (int)n : 0;
}

/* True if the frame, whose page was read, continues `before`. */
static bool wal_goes_on(const struct wal_reading *r, const struct wal_frame *f,
                        struct wal_checksum before)
{
    struct wal_checksum checksum = wal_add(before, r->is_big, f->head, sizeof f->head);
    return wal_same(wal_add(checksum, r->is_big, r->page, r->page_size), f->checksum);
}

static bool wal_same_salt(const uint32_t one[2], const uint32_t other[2])
{
    return one[0] == other[0] && one[1] == other[1];
}

/* Reads the frames that SQLite reads. `last` becomes the last of them. */
static int wal_read_valid(struct wal_reading *r, struct wal_checksum checksum,
                          struct wal_frame *last, struct wal_facts *ret)
{
    struct wal_frame f;
    int rc;
    while ((rc = wal_read_frame(r, ret->frames, true, &f)) == 1 && f.page != 0 &&
           wal_same_salt(f.salt, ret->id.salt) && wal_goes_on(r, &f, checksum)) {
        checksum = f.checksum;
        *last = f;
        ret->frames++;
        ret->committed = f.size != 0 ? ret->frames : ret->committed;
    }
    return rc < 0 ? rc : 0;
}

/* If a write can damage its neighbours in a sector, SQLite repeats the frame of a commit up to the
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
        if (may_prove && rc == 1 && wal_goes_on(r, &f, before.checksum) &&
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

/* The header gives neither the page size nor the byte order: try each. */
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
        return n < 0 ? (int)n : 0; /* it was never started */
    }
    ret->has_header = wal_identify(header, &ret->id);
    if (!ret->has_header) {
        return wal_scan_headless(r, ret);
    }
    ret->page_size = r->page_size = wal_number(header + 8);
    r->is_big = wal_is_big(header);
    const struct wal_checksum checksum = {wal_number(header + 24), wal_number(header + 28)};
    struct wal_frame last = {0};
    int rc = wal_read_valid(r, checksum, &last, ret);
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

/* -------------------------------------------------------------------------------------------------
 * The mark of commits: fixed size, little-endian, with a sum at its end. One pwrite(2) of less than
 * a sector replaces it, so neither a kill nor a power cut leaves half of one.
 */

#define MARK_MAGIC "tidimrk1"
#define SEED UINT64_C(0x74696469)
#define SUMMED (COMMIT_MARK_SIZE - 8)

struct commit_marker {
    int fd, log; /* -1: not open */
    struct commit_mark mark;
    char path[PATH_MAX];
};

/* ---- the bytes ------------------------------------------------------------------------------- */

static void commit_mark_put(unsigned char *out, uint64_t n, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (unsigned char)(n >> 8 * i);
    }
}

static uint64_t commit_mark_get(const unsigned char *p, size_t size)
{
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        n |= (uint64_t)p[i] << 8 * i;
    }
    return n;
}

static uint64_t commit_mark_checksum(const unsigned char *bytes)
{
    return str_hash(tidings_strn((const char *)bytes, SUMMED), SEED);
}

void commit_mark_encode(const struct commit_mark *mark, unsigned char out[COMMIT_MARK_SIZE])
{
    memcpy(out, MARK_MAGIC, 8);
    commit_mark_put(out + 8, mark->epoch, 8);
    commit_mark_put(out + 16, mark->position, 8);
    commit_mark_put(out + 24, mark->frames, 8);
    commit_mark_put(out + 32, mark->log.sequence, 4);
    commit_mark_put(out + 36, mark->log.salt[0], 4);
    commit_mark_put(out + 40, mark->log.salt[1], 4);
    commit_mark_put(out + 44, 0, 4);
    commit_mark_put(out + SUMMED, commit_mark_checksum(out), 8);
}

bool commit_mark_decode(const unsigned char *bytes, size_t size, struct commit_mark *ret)
{
    if (size != COMMIT_MARK_SIZE || memcmp(bytes, MARK_MAGIC, 8) != 0 ||
        commit_mark_get(bytes + SUMMED, 8) != commit_mark_checksum(bytes)) {
        return false;
    }
    *ret = (struct commit_mark){.epoch = commit_mark_get(bytes + 8, 8),
                                .position = commit_mark_get(bytes + 16, 8),
                                .frames = commit_mark_get(bytes + 24, 8)};
    ret->log.sequence = (uint32_t)commit_mark_get(bytes + 32, 4);
    ret->log.salt[0] = (uint32_t)commit_mark_get(bytes + 36, 4);
    ret->log.salt[1] = (uint32_t)commit_mark_get(bytes + 40, 4);
    return true;
}

/* Reads the mark at `path`. False: missing or unreadable. */
static bool commit_mark_read(const char *path, struct commit_mark *ret)
{
    unsigned char bytes[COMMIT_MARK_SIZE + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return n > 0 && commit_mark_decode(bytes, (size_t)n, ret);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int commit_marker_write(struct commit_marker *m)
{
    unsigned char bytes[COMMIT_MARK_SIZE];
    commit_mark_encode(&m->mark, bytes);
    ssize_t n = pwrite(m->fd, bytes, sizeof bytes, 0);
    return n == (ssize_t)sizeof bytes ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* Makes the name survive a power cut. */
static int commit_marker_sync_name(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                   slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int commit_marker_make(struct commit_marker *m, const char *log_path)
{
    m->fd = open(m->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    m->log = m->fd >= 0 && log_path ? open(log_path, O_RDONLY | O_CLOEXEC) : -1;
    if (m->fd < 0 || (log_path && m->log < 0)) {
        return -errno;
    }
    struct stat st; /* root gives it to the owner of the store, as SQLite does with the log */
    if (m->log >= 0 && geteuid() == 0 && fstat(m->log, &st) == 0) {
        (void)!fchown(m->fd, st.st_uid, st.st_gid);
    }
    int rc = commit_marker_write(m);
    if (rc == 0 && (ftruncate(m->fd, COMMIT_MARK_SIZE) < 0 || fsync(m->fd) < 0)) {
        rc = -errno;
    }
    return rc == 0 ? commit_marker_sync_name(m->path) : rc;
}

int commit_marker_open(const char *path, const char *log_path, const struct commit_mark *mark,
                       struct commit_marker **ret, struct tidings_error *err)
{
    struct commit_marker *m = mem_zalloc(sizeof(*m));
    if (!m) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m->fd = m->log = -1;
    m->mark = *mark;
    bool fits = strlen(path) < sizeof m->path;
    if (fits) {
        memcpy(m->path, path, strlen(path) + 1);
    }
    int rc = fits ? commit_marker_make(m, log_path) : -ENAMETOOLONG;
    if (rc < 0) {
        commit_marker_close(m, m->fd >= 0);
        return error_errno(err, -rc, "write '%.200s'", path);
    }
    *ret = m;
    return 0;
}

void commit_marker_put(struct commit_marker *m, uint64_t position, uint64_t frames)
{
    unsigned char header[WAL_HEADER_SIZE];
    struct wal_identity log;
    if (!m || pread(m->log, header, sizeof header, 0) != (ssize_t)sizeof header ||
        !wal_identify(header, &log)) {
        return;
    }
    m->mark.position = position;
    m->mark.frames = frames;
    m->mark.log = log;
    (void)commit_marker_write(m);
}

void commit_marker_close(struct commit_marker *m, bool removes)
{
    if (!m) {
        return;
    }
    if (removes) {
        (void)unlink(m->path);
    }
    if (m->fd >= 0) {
        close(m->fd);
    }
    if (m->log >= 0) {
        close(m->log);
    }
    mem_free(m);
}

/* ---------------------------------------------------------------------------------------------- */

#define LOG_SUFFIX "-wal"

struct sqlite_loss {
    char file[PATH_MAX], log[PATH_MAX + 8], mark_path[PATH_MAX + 8];
    int64_t file_size, log_size; /* -1: missing */
    bool has_mark;
    struct commit_mark mark;
    struct wal_facts facts;
};

static int64_t sqlite_loss_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

/* SQLite resolves links before it creates the log beside the file. False: the path cannot be
 * resolved. */
static bool sqlite_loss_name(struct sqlite_loss *l, const char *path)
{
    *l = (struct sqlite_loss){.file_size = -1};
    if (strcmp(path, ":memory:") == 0 || strlen(path) >= sizeof l->file) {
        return false;
    }
    if (!realpath(path, l->file)) {
        memcpy(l->file, path, strlen(path) + 1);
    }
    (void)snprintf(l->log, sizeof l->log, "%s" LOG_SUFFIX, l->file);
    (void)snprintf(l->mark_path, sizeof l->mark_path, "%s" COMMIT_MARK_SUFFIX, l->file);
    l->file_size = sqlite_loss_size(l->file);
    l->log_size = sqlite_loss_size(l->log);
    l->has_mark = commit_mark_read(l->mark_path, &l->mark);
    return true;
}

static bool sqlite_loss_has_run(const struct sqlite_loss *l)
{
    return l->has_mark && l->mark.epoch != 0;
}

/* ---- the log --------------------------------------------------------------------------------- */

static int64_t sqlite_loss_read(void *user, uint64_t at, void *out, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(*(const int *)user, (char *)out + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : (int64_t)done;
        }
        done += (size_t)n;
    }
    return (int64_t)done;
}

static int sqlite_loss_scan(struct sqlite_loss *l, struct tidings_error *err)
{
    int fd = l->log_size > 0 ? open(l->log, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return 0; /* SQLite reports the error */
    }
    int rc = wal_scan(sqlite_loss_read, &fd, &l->facts, err);
    close(fd);
    return rc < 0 ? error_wrap(err, rc, "'%.150s'", l->log) : 0;
}

/* ---- remains --------------------------------------------------------------------------------- */

/* The unfinished run in the database itself, without its log, and its newest position. */
static bool sqlite_loss_peek(const struct sqlite_loss *l, uint64_t *ret_epoch, int64_t *ret_at)
{
    struct sqlite_store s = {.db = NULL};
    int64_t epoch = 0;
    int rc = sqlite_peek(l->file, &s.db, NULL);
    rc = rc == 0 ? sqlite_store_number(&s,
                                       "SELECT epoch FROM main.epochs WHERE last IS NULL"
                                       " ORDER BY number DESC LIMIT 1",
                                       &epoch, NULL)
                 : rc;
    rc = rc == 0 ? sqlite_store_newest(&s, ret_at, NULL) : rc;
    sqlite_close(s.db);
    *ret_epoch = (uint64_t)epoch;
    return rc == 0;
}

/* The log and the mark differ. */
static int sqlite_loss_without_log(const struct sqlite_loss *l, struct tidings_error *err)
{
    uint64_t epoch = 0;
    int64_t position = 0;
    if (!sqlite_loss_peek(l, &epoch, &position) || epoch != l->mark.epoch ||
        (uint64_t)position >= l->mark.position) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_IO,
                        "the '" LOG_SUFFIX "' file %s: committed up to position %llu, found %lld",
                        l->log_size < 0       ? "is missing"
                        : l->log_size == 0    ? "was cut off"
                        : l->facts.has_header ? "is another one"
                                              : "is damaged",
                        (unsigned long long)l->mark.position, (long long)position);
}

static int sqlite_loss_decide_log(const struct sqlite_loss *l, struct tidings_error *err)
{
    const struct wal_facts *f = &l->facts;
    const struct wal_identity *id = &l->mark.log;
    /* A header torn by a power cut follows a log whose frames were all copied: the mark
     * distinguishes this from damage. */
    if (f->is_damaged && (f->has_header || !sqlite_loss_has_run(l))) {
        return tidings_fail(err, TIDINGS_E_IO,
                            "the '" LOG_SUFFIX "' file is damaged at frame %llu: frame %llu was "
                            "written after a later commit",
                            (unsigned long long)f->frames + 1, (unsigned long long)f->proof);
    }
    if (!sqlite_loss_has_run(l) || (f->has_header && wal_is_successor(id, &f->id))) {
        return 0;
    }
    bool is_same = f->has_header && f->id.sequence == id->sequence &&
                   f->id.salt[0] == id->salt[0] && f->id.salt[1] == id->salt[1];
    if (!is_same) {
        return sqlite_loss_without_log(l, err);
    }
    return f->committed >= l->mark.frames
               ? 0
               : tidings_fail(err, TIDINGS_E_IO,
                              "the '" LOG_SUFFIX "' file is damaged: %llu frames were committed, "
                              "%llu are valid",
                              (unsigned long long)l->mark.frames, (unsigned long long)f->committed);
}

/* ---- the database ---------------------------------------------------------------------------- */

static int sqlite_loss_decide(const struct sqlite_loss *l, struct tidings_error *err)
{
    bool is_making = l->has_mark && l->mark.epoch == 0;
    if (l->file_size > 0) {
        return sqlite_loss_decide_log(l, err);
    }
    if (l->file_size == 0 && !is_making) {
        return tidings_fail(err, TIDINGS_E_IO, "the file is empty; remove it to start a new store");
    }
    if (l->file_size < 0 && !is_making && (l->log_size > 0 || sqlite_loss_has_run(l))) {
        return tidings_fail(err, TIDINGS_E_IO,
                            "the file is missing, but '%s' exists; remove that to begin a new "
                            "store",
                            l->log_size > 0 ? LOG_SUFFIX : COMMIT_MARK_SUFFIX);
    }
    return 0;
}

int sqlite_loss_check(const char *path, struct tidings_error *err)
{
    struct sqlite_loss l;
    if (!sqlite_loss_name(&l, path) || log_lock_is_held(l.log)) {
        return 0;
    }
    int rc = sqlite_loss_scan(&l, err);
    rc = rc == 0 ? sqlite_loss_decide(&l, err) : rc;
    if (rc < 0 && log_lock_is_held(l.log)) {
        return 0; /* a server started to write during the scan */
    }
    return rc < 0 ? error_wrap(err, rc, "acknowledged writes are lost") : 0;
}

void sqlite_loss_expect(const char *path, struct commit_marker **ret)
{
    const struct commit_mark making = {.epoch = 0};
    struct sqlite_loss l;
    *ret = NULL;
    if (sqlite_loss_name(&l, path) && l.file_size <= 0) {
        (void)commit_marker_open(l.mark_path, NULL, &making, ret, NULL);
    }
}

void sqlite_loss_expect_no_more(const char *path, struct commit_marker *making)
{
    commit_marker_close(making, making && sqlite_loss_size(path) != 0);
}
