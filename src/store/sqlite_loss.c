/* SPDX-License-Identifier: MIT
 *
 * Judges a store in a SQLite file by three files: the database, its log, and the mark of commits.
 *
 *     database   log                      mark            verdict
 *     missing    with bytes               any             lost
 *     missing    none                     of a run        lost
 *     missing    none                     none, making    new
 *     empty      none                     making          new: it was being made
 *     empty      else                     else            lost
 *     there      damaged, see wal_scan.h  any             lost (without a header: no mark)
 *     there      that of the mark         more frames     lost
 *     there      that of the mark begun anew              whole: the old one was copied
 *     there      another, or none         of this run, and of a higher position   lost
 *
 * The last row notices a log that was removed, cut off, or has a damaged header. A
 * backup that was put back has no run that is not over (sqlite_care_backup.c), so it
 * ignores the mark of the store that it replaced. If the positions agree, another program has
 * copied the log into the database, as SQLite does when it closes one.
 */
#include "store/sqlite_loss.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/commit_mark.h"
#include "store/sqlite.h"
#include "store/sqlite_log_lock.h"
#include "store/sqlite_private.h"
#include "store/wal_scan.h"

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

/* SQLite follows links before it puts the log beside the file. False: not to be told apart. */
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
        return 0; /* SQLite says what is wrong */
    }
    int rc = wal_scan(sqlite_loss_read, &fd, &l->facts, err);
    close(fd);
    return rc < 0 ? error_wrap(err, rc, "'%.150s'", l->log) : 0;
}

/* ---- what is left ---------------------------------------------------------------------------- */

/* The run that is not over in the database itself, without its log, and its newest position. */
static bool sqlite_loss_peek(const struct sqlite_loss *l, uint64_t *ret_epoch, int64_t *ret_at)
{
    struct sqlite_entities s = {.db = NULL};
    int64_t epoch = 0;
    int rc = sqlite_peek(l->file, &s.db, NULL);
    rc = rc == 0 ? sqlite_entities_number(&s,
                                          "SELECT epoch FROM main.epochs WHERE last IS NULL"
                                          " ORDER BY number DESC LIMIT 1",
                                          &epoch, NULL)
                 : rc;
    rc = rc == 0 ? sqlite_entities_newest(&s, ret_at, NULL) : rc;
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

static int sqlite_loss_judge_log(const struct sqlite_loss *l, struct tidings_error *err)
{
    const struct wal_facts *f = &l->facts;
    const struct wal_identity *id = &l->mark.log;
    /* A header that a power cut tore comes after a log whose frames were all copied: the mark tells
     * that from damage. */
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

static int sqlite_loss_judge(const struct sqlite_loss *l, struct tidings_error *err)
{
    bool is_making = l->has_mark && l->mark.epoch == 0;
    if (l->file_size > 0) {
        return sqlite_loss_judge_log(l, err);
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
    rc = rc == 0 ? sqlite_loss_judge(&l, err) : rc;
    if (rc < 0 && log_lock_is_held(l.log)) {
        return 0; /* a server began to write during the scan */
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
