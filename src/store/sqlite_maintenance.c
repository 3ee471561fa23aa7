/* SPDX-License-Identifier: MIT
 *
 * Maintenance of a SQLite store: checks, backups and compaction.
 */
#include "store/sqlite_maintenance.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/sqlite.h"
#include "store/sqlite_damage.h"
#include "store/sqlite_internal.h"
#include "store/sqlite_store.h"

/* -------------------------------------------------------------------------------------------------
 * Shared helpers of maintenance.
 */

/* ---------------------------------------------------------------------------------------------- */

static int sqlite_maintenance_size(const char *path, uint64_t *ret, struct tidings_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return error_errno(err, errno, "'%.300s'", path);
    }
    *ret = (uint64_t)st.st_size;
    return 0;
}

/* Its size, if it exists and is not another program's database. */
static int sqlite_maintenance_find(const char *path, uint64_t *ret_size, struct tidings_error *err)
{
    int rc = sqlite_maintenance_size(path, ret_size, err);
    rc = rc == 0 ? sqlite_check_ours(path, &sqlite_store_layout, err) : rc;
    rc = rc == 0 ? sqlite_loss_check(path, err) : rc;
    return rc == TIDINGS_E_IO ? error_wrap(err, rc, "database '%.100s'", path) : rc;
}

/* Consistency rules between the tables: each query must return no rows. */
static const struct {
    const char *sql, *wrong;
} rules[] = {
    {"SELECT count(*)<>1 FROM main.state", "its state is not one row"},
    {"SELECT count(*) FROM main.versions v WHERE NOT EXISTS(SELECT 1 FROM main.log l WHERE"
     " l.seq=v.seq AND l.id=v.id AND l.vfrom=v.vfrom)",
     "versions are listed that are not in the log"},
    {"SELECT count(*) FROM main.current c WHERE NOT EXISTS(SELECT 1 FROM main.versions v WHERE"
     " v.id=c.id AND v.seq=c.seq)",
     "the newest version of listed entities is missing"},
    {"SELECT count(*) FROM main.versions v WHERE NOT EXISTS(SELECT 1 FROM main.current c WHERE"
     " c.id=v.id)",
     "versions are listed of entities that are not"},
};

static int sqlite_maintenance_check_rules(struct sqlite_store *s, struct tidings_error *err)
{
    int rc = sqlite_check_shape(s->db, &sqlite_store_layout, err);
    for (size_t i = 0; rc == 0 && i < sizeof rules / sizeof *rules; i++) {
        int64_t n = 0;
        rc = sqlite_store_number(s, rules[i].sql, &n, err);
        if (rc == 0 && n != 0) {
            rc =
                tidings_fail(err, TIDINGS_E_IO, "it is damaged: %s (%lld); put a copy in its place",
                             rules[i].wrong, (long long)n);
        }
    }
    return rc;
}

int sqlite_maintenance_check(const char *path, published_row_fn published,
                             struct transfer_stats *ret, struct tidings_error *err)
{
    struct sqlite *db = NULL;
    struct store *store = NULL;
    uint64_t size;
    int rc = sqlite_maintenance_find(path, &size, err);
    rc = rc == 0 ? sqlite_open(path, &db, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_check_sound(db, err);
    sqlite_close(db);
    rc = rc < 0 ? error_wrap(err, rc, "database '%s'", path) : sqlite_store_open(path, &store, err);
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_maintenance_check_rules(sqlite_store_of(store), err);
    rc = rc == 0 ? store->ops->each_published(store, published, NULL, err) : rc;
    rc = rc == 0 ? transfer_count(store, ret, err) : rc;
    store->ops->destroy(store);
    return rc < 0 ? error_wrap(err, rc, "database '%s'", path) : 0;
}

int sqlite_maintenance_compact(const char *path, uint64_t *ret_before, uint64_t *ret_after,
                               struct tidings_error *err)
{
    struct sqlite *db = NULL;
    int rc = sqlite_maintenance_find(path, ret_before, err);
    rc = rc == 0 ? sqlite_open(path, &db, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_exec(db, "VACUUM", err);
    rc = rc == 0 ? sqlite_cut_log(db, err) : rc;
    sqlite_close(db);
    rc = rc < 0 ? error_wrap(err, rc, "database '%s'", path) : rc;
    return rc == 0 ? sqlite_maintenance_size(path, ret_after, err) : rc;
}

/* -------------------------------------------------------------------------------------------------
 * Backs up a SQLite store.
 *
 * If no server uses the file, SQLite writes the copy. A running server locks out other programs, so
 * first the database and then its log are copied as they are, while the server is prevented from
 * changing the database (store/sqlite.h). The log can restart once during the copy: its earlier
 * contents are then in the database. In the copy, SQLite merges the two and ignores an incomplete
 * end of the log. The copy has a temporary name until it is complete and checked.
 */

#define TRIES 10u /* each time, a server starts or ends */
#define PIECE (1u << 20)

struct backup {
    char from[PATH_MAX + 8], from_log[PATH_MAX + 8];
    char part[PATH_MAX + 8], part_log[PATH_MAX + 16];
};

/* ---- while a server runs --------------------------------------------------------------------- */

/* Copies as many bytes as the file has now; it can grow. */
static int sqlite_backup_pour(int in, int out, char *piece, struct tidings_error *err)
{
    struct stat st;
    if (fstat(in, &st) < 0) {
        return error_errno(err, errno, "read");
    }
    for (off_t at = 0; at < st.st_size;) {
        size_t left = (size_t)(st.st_size - at);
        ssize_t n = pread(in, piece, left < PIECE ? left : PIECE, at);
        if (n == 0) {
            break; /* it was truncated: the database has its contents */
        }
        for (ssize_t done = 0, w; n > 0 && done < n; done += w) {
            w = pwrite(out, piece + done, (size_t)(n - done), at + done);
            if (w <= 0) {
                return error_errno(err, w < 0 ? errno : ENOSPC, "write");
            }
        }
        if (n < 0) {
            return error_errno(err, errno, "read");
        }
        at += n;
    }
    return 0;
}

static int sqlite_backup_file(int in, const char *to, int flags, char *piece,
                              struct tidings_error *err)
{
    int out = open(to, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (out < 0) {
        return error_errno(err, errno, "'%.300s'", to);
    }
    int rc = sqlite_backup_pour(in, out, piece, err);
    close(out);
    return rc;
}

/* The log can restart during the copy: the beginning of the old one with the end of the new one
 * would be invalid. It happens at most once, because the server copies nothing into the database
 * now. */
static int sqlite_backup_log(const struct backup *b, int log, char *piece,
                             struct tidings_error *err)
{
    unsigned char before[WAL_HEADER_SIZE], after[WAL_HEADER_SIZE];
    int flags = O_CREAT | O_EXCL, rc = 0;
    bool is_same = false;
    for (unsigned i = 0; rc == 0 && !is_same && i < TRIES; i++) {
        ssize_t had = pread(log, before, sizeof before, 0);
        rc = sqlite_backup_file(log, b->part_log, flags, piece, err);
        ssize_t has = pread(log, after, sizeof after, 0);
        is_same = had == has && (has <= 0 || memcmp(before, after, (size_t)has) == 0);
        flags = O_TRUNC;
    }
    return rc < 0 || is_same
               ? rc
               : tidings_fail(err, TIDINGS_E_BUSY, "'%.200s' changes all the time", b->from_log);
}

static int sqlite_backup_live(const struct backup *b, struct tidings_error *err)
{
    int log = log_lock_share(b->from_log, err);
    if (log < 0) {
        return log;
    }
    int rc = 0, in = open(b->from, O_RDONLY | O_CLOEXEC);
    char *piece = mem_alloc(PIECE);
    if (in < 0) {
        rc = error_errno(err, errno, "'%.300s'", b->from);
    } else if (!piece) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    rc = rc == 0 ? sqlite_backup_file(in, b->part, O_TRUNC, piece, err) : rc;
    rc = rc == 0 ? sqlite_backup_log(b, log, piece, err) : rc;
    mem_free(piece);
    if (in >= 0) {
        close(in);
    }
    close(log);
    return rc;
}

/* ---- without a server ------------------------------------------------------------------------ */

static int sqlite_backup_quiet(struct sqlite *db, const struct backup *b, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(db, "VACUUM main INTO ?1", &st, err);
    if (rc == 0) {
        sqlite_bind_str(st, 1, tidings_str(b->part));
        rc = sqlite_run(db, st, err);
    }
    sqlite_finalize(st);
    return rc;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int sqlite_backup_write(const struct backup *b, struct tidings_error *err)
{
    int rc = TIDINGS_E_BUSY;
    for (unsigned i = 0; i < TRIES; i++) {
        struct sqlite *db = NULL;
        rc = sqlite_open(b->from, &db, err);
        if (rc == 0) {
            rc = sqlite_backup_quiet(db, b, err);
            sqlite_close(db);
            return rc;
        }
        rc = rc == TIDINGS_E_BUSY ? sqlite_backup_live(b, err) : rc;
        if (rc != TIDINGS_E_NOTFOUND) {
            return rc;
        }
    }
    return rc;
}

/* Merges database and log, and checks the result. */
static int sqlite_backup_settle(const struct backup *b, struct tidings_error *err)
{
    struct sqlite *db = NULL;
    int rc = sqlite_open(b->part, &db, err);
    rc = rc == 0 ? sqlite_check_sound(db, err) : rc;
    if (rc == 0) { /* the run continues in the original; an old layout has none */
        (void)sqlite_exec(db, "INSERT INTO main.epochs(epoch) VALUES(random())", NULL);
    }
    rc = rc == 0 ? sqlite_cut_log(db, err) : rc;
    sqlite_close(db);
    int fd = rc == 0 ? open(b->part, O_RDONLY | O_CLOEXEC) : -1;
    if (rc == 0 && (fd < 0 || fsync(fd) < 0)) {
        rc = error_errno(err, errno, "sync '%.300s'", b->part);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* Gives the complete file its name, which must not exist yet. */
static int sqlite_backup_name(const struct backup *b, const char *to, struct tidings_error *err)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(to, '/');
    (void)snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - to) + 1 : 1,
                   slash ? to : ".");
    if (syscall(SYS_renameat2, AT_FDCWD, b->part, AT_FDCWD, to, RENAME_NOREPLACE) < 0) {
        return error_errno(err, errno, "name it '%.300s'", to);
    }
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    return 0;
}

static int sqlite_backup_begin(struct backup *b, const char *from, const char *to,
                               struct tidings_error *err)
{
    struct stat st;
    char real[PATH_MAX];
    if (strlen(to) + 16 > PATH_MAX || !realpath(from, real)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path is too long");
    }
    (void)snprintf(b->from, sizeof b->from, "%s", real);
    (void)snprintf(b->from_log, sizeof b->from_log, "%s-wal", real);
    (void)snprintf(b->part, sizeof b->part, "%s.part", to);
    (void)snprintf(b->part_log, sizeof b->part_log, "%s.part-wal", to);
    if (lstat(to, &st) == 0) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "'%.300s' exists; name a new file", to);
    }
    int fd = open(b->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        return tidings_fail(err, TIDINGS_E_EXISTS,
                            "'%.300s' exists: another backup is running, or was interrupted; in "
                            "the latter case, remove the file",
                            b->part);
    }
    if (fd < 0) {
        return error_errno(err, errno, "make '%.300s'", b->part);
    }
    close(fd);
    return 0;
}

int sqlite_maintenance_backup(const char *from, const char *to, uint64_t *ret_bytes,
                              struct tidings_error *err)
{
    struct backup b;
    int rc = sqlite_maintenance_find(from, ret_bytes, err);
    rc = rc == 0 ? sqlite_backup_begin(&b, from, to, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_backup_write(&b, err);
    rc = rc == 0 ? sqlite_backup_settle(&b, err) : rc;
    rc = rc == 0 ? sqlite_maintenance_size(b.part, ret_bytes, err) : rc;
    rc = rc == 0 ? sqlite_backup_name(&b, to, err) : rc;
    if (rc < 0) {
        (void)unlink(b.part);
        (void)unlink(b.part_log);
    }
    return rc;
}
