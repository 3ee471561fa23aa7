/* SPDX-License-Identifier: MIT
 *
 * A SQLite connection, through a table of the functions we use from the shared library.
 *
 * WAL with synchronous=FULL: a commit appends to one file and syncs it. The lock is exclusive: the
 * owner can thus cache what it wrote, and no shared memory is needed.
 */
#include "store/sqlite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/library.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/url.h"
#include "store/sqlite_damage.h"
#include "store/sqlite_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The log lock: two bytes of the log. The owner locks the first as long as it lives. The second is
 * locked by the owner while it copies (exclusive) and by backups while they read (shared).
 */

enum log_lock_byte { OWNED, COPIED };

struct log_lock {
    int fd;
};

static int log_lock_set(int fd, int command, short kind, enum log_lock_byte byte)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, command, &lock);
}

/* Becomes the owner of the existing log at `path`. NULL if the file system has no locks: then
 * backups are impossible while it is in use. */
static struct log_lock *log_lock_create(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct log_lock *lock = NULL;
    if (fd >= 0 && log_lock_set(fd, F_OFD_SETLK, F_WRLCK, OWNED) == 0) {
        lock = mem_zalloc(sizeof(*lock));
    }
    if (!lock) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    lock->fd = fd;
    return lock;
}

/* NULL is fine */
static void log_lock_destroy(struct log_lock *lock)
{
    if (!lock) {
        return;
    }
    close(lock->fd);
    mem_free(lock);
}

/* Returns true if the log may be copied into the database now; then call log_lock_give afterwards.
 * False: a backup reads it. NULL: always true. */
static bool log_lock_take(struct log_lock *lock)
{
    return !lock || log_lock_set(lock->fd, F_OFD_SETLK, F_WRLCK, COPIED) == 0;
}

static void log_lock_give(struct log_lock *lock)
{
    if (lock) {
        (void)log_lock_set(lock->fd, F_OFD_SETLK, F_UNLCK, COPIED);
    }
}

/* Returns true if this process has the file open. */
static bool log_lock_is_open_here(const char *path)
{
    struct stat wanted, st;
    bool is_found = false;
    DIR *all = stat(path, &wanted) == 0 ? opendir("/proc/self/fd") : NULL;
    for (struct dirent *one; all && !is_found && (one = readdir(all));) {
        char *end;
        long fd = strtol(one->d_name, &end, 10);
        is_found = end != one->d_name && fstat((int)fd, &st) == 0 && st.st_dev == wanted.st_dev &&
                   st.st_ino == wanted.st_ino;
    }
    if (all) {
        closedir(all);
    }
    return is_found;
}

/* Returns true if another open file owns it. */
static bool log_lock_is_owned(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = OWNED, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool log_lock_is_held(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_held = fd >= 0 && log_lock_is_owned(fd);
    if (fd >= 0) {
        close(fd);
    }
    return is_held;
}

int log_lock_share(const char *path, struct tidings_error *err)
{
    struct stat st, now;
    if (log_lock_is_open_here(path)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "this very program has it open: ask another");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = error_errno(err, errno, "open '%.200s'", path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    int rc = 0;
    if (log_lock_set(fd, F_OFD_SETLKW, F_RDLCK, COPIED) < 0) {
        rc = error_errno(err, errno, "lock '%.200s'", path);
    } else if (stat(path, &now) < 0 || now.st_dev != st.st_dev || now.st_ino != st.st_ino) {
        rc = tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.200s' is another file now", path);
    } else if (!log_lock_is_owned(fd)) {
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "a program other than tidings has it open; close that program first");
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* ---------------------------------------------------------------------------------------------- */

#define LOG_SUFFIX "-wal"

#define FUNCTIONS(X)                                                                               \
    X(open_v2)                                                                                     \
    X(close_v2)                                                                                    \
    X(db_config)                                                                                   \
    X(file_control)                                                                                \
    X(wal_hook)                                                                                    \
    X(wal_checkpoint_v2)                                                                           \
    X(exec)                                                                                        \
    X(errmsg)                                                                                      \
    X(extended_errcode)                                                                            \
    X(get_autocommit)                                                                              \
    X(prepare_v3)                                                                                  \
    X(finalize)                                                                                    \
    X(step)                                                                                        \
    X(reset)                                                                                       \
    X(bind_int64)                                                                                  \
    X(bind_text)                                                                                   \
    X(bind_blob)                                                                                   \
    X(bind_null)                                                                                   \
    X(column_int64)                                                                                \
    X(column_text)                                                                                 \
    X(column_blob)                                                                                 \
    X(column_bytes)

/* Identity of an open file. */
struct opened_file {
    char path[PATH_MAX];
    dev_t device;
    ino_t number;
};

struct sqlite {
    sqlite3 *handle;
    struct opened_file file, log;
    struct log_lock *lock;        /* NULL: in memory, or no locks */
    struct commit_marker *marker; /* NULL: none is kept */
    int log_pages;                /* pages in the log after the last commit */
    int log_padding;              /* the number of those that may not be synced */
    struct sqlite3_stmt *undo;    /* prepared on open, because it must work without memory */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
LIBRARY(library, "store", "entities and published resources in a file", "recommended",
        "libsqlite3-0", "libsqlite3.so.0");
static struct {
#define FIELD(name) __typeof__(&sqlite3_##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} api;

/* ---- opening --------------------------------------------------------------------------------- */

static void sqlite_load(void)
{
    const struct library_function wanted[] = {
#define ROW(name) {"sqlite3_" #name, &api.name},
        FUNCTIONS(ROW)
#undef ROW
    };
    library_open(&library, wanted, sizeof wanted / sizeof *wanted);
}

/* Translates an error of SQLite. */
static int sqlite_failed(struct sqlite *db, struct tidings_error *err)
{
    int code = db->handle ? api.extended_errcode(db->handle) : SQLITE_NOMEM;
    const char *text = db->handle ? api.errmsg(db->handle) : "out of memory";
    static const struct {
        int sqlite, code;
    } map[] = {
        {SQLITE_NOMEM, TIDINGS_E_NOMEM},       {SQLITE_FULL, TIDINGS_E_FULL},
        {SQLITE_BUSY, TIDINGS_E_BUSY},         {SQLITE_LOCKED, TIDINGS_E_BUSY},
        {SQLITE_PERM, TIDINGS_E_DENIED},       {SQLITE_READONLY, TIDINGS_E_DENIED},
        {SQLITE_CONSTRAINT, TIDINGS_E_EXISTS},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if ((code & 0xff) == map[i].sqlite) {
            return tidings_fail(err, map[i].code, "%s", text);
        }
    }
    return tidings_fail(err, TIDINGS_E_IO, "%s", text);
}

static int sqlite_configure(struct sqlite *db, struct tidings_error *err)
{
    int rc = sqlite_exec(db,
                         "PRAGMA locking_mode=EXCLUSIVE;"
                         "PRAGMA journal_mode=WAL;"
                         "PRAGMA synchronous=FULL;"
                         "PRAGMA temp_store=MEMORY;"
                         "PRAGMA cache_size=-8192;" /* KiB, allocated as needed */
                         "PRAGMA foreign_keys=OFF;"
                         "BEGIN IMMEDIATE; COMMIT;", /* takes the lock permanently */
                         err);
    if (rc == TIDINGS_E_BUSY) {
        return tidings_fail(err, rc, "another program has it open");
    }
    return rc;
}

/* The reason why no file can be opened or created there, with advice; `code` if it can. SQLite
 * reports no details. */
static int cannot_open(const char *path, int code, struct tidings_error *err)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 1;
    if (len >= sizeof directory) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path is too long");
    }
    memcpy(directory, slash ? path : ".", len);
    directory[len] = '\0';
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return code;
    }
    if (errno == EISDIR) {
        return tidings_fail(err, TIDINGS_E_INVALID, "it is a directory: name a file in it");
    }
    bool is_missing = errno == ENOENT;
    fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no directory '%s': make it first",
                            directory);
    }
    if (fd >= 0) {
        close(fd);
    }
    return tidings_fail(err, TIDINGS_E_DENIED, "this user may not %s: give it the permission",
                        is_missing ? "make files in its directory" : "read and write it");
}

/* Adds advice for a file that is not a tidings store. */
static int sqlite_advise(struct sqlite *db, const char *path, int code, struct tidings_error *err)
{
    switch (db->handle ? api.extended_errcode(db->handle) & 0xff : SQLITE_OK) {
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        return cannot_open(path, code, err);
    case SQLITE_NOTADB:
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "it is not a database: name another file, or move it away");
    case SQLITE_CORRUPT:
        return tidings_fail(err, TIDINGS_E_IO, "it is damaged: put a copy in its place");
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "this user may not write it, or not make files beside it: give it the "
                            "permission");
    default:
        return code;
    }
}

/* Records paths and identities of the files; none if the database is in memory. SQLite resolves
 * links before it creates the log beside the file. */
static int remember_files(struct sqlite *db, const char *path, struct tidings_error *err)
{
    char real[PATH_MAX];
    struct stat file, log;
    if (strcmp(path, ":memory:") == 0) {
        return 0;
    }
    bool fits = strlen(path) < sizeof db->file.path && realpath(path, real) &&
                strlen(real) + sizeof LOG_SUFFIX <= sizeof db->log.path;
    if (fits) {
        memcpy(db->file.path, path, strlen(path) + 1);
        memcpy(db->log.path, real, strlen(real));
        memcpy(db->log.path + strlen(real), LOG_SUFFIX, sizeof LOG_SUFFIX);
    }
    if (!fits || stat(db->file.path, &file) < 0 || stat(db->log.path, &log) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "it was moved or removed while it was opened: %s",
                            strerror(errno));
    }
    db->file.device = file.st_dev;
    db->file.number = file.st_ino;
    db->log.device = log.st_dev;
    db->log.number = log.st_ino;
    return 0;
}

static int check_opened(const struct opened_file *p, struct tidings_error *err)
{
    struct stat st;
    bool is_seen = p->path[0] == '\0' || stat(p->path, &st) == 0;
    if (!is_seen && errno != ENOENT && errno != ENOTDIR) {
        return tidings_fail(err, TIDINGS_E_IO, "'%s' cannot be examined: %s", p->path,
                            strerror(errno));
    }
    if (p->path[0] == '\0' || (is_seen && st.st_dev == p->device && st.st_ino == p->number)) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_IO,
                        "the database or its '" LOG_SUFFIX "' file was removed, replaced or moved "
                        "while it was in use: put it back, or start the server again");
}

/* TIDINGS_E_IO if the database or its log is no longer at its path, or is another file. */
static int sqlite_check_file(struct sqlite *db, struct tidings_error *err)
{
    int rc = check_opened(&db->file, err);
    return rc == 0 ? check_opened(&db->log, err) : rc;
}

/* Pages in the log before it is copied into the database; the default of SQLite. */
#define LOG_PAGES 1000

/* Called after each commit. A failed copy is retried after the next. */
static int sqlite_on_commit(void *user, sqlite3 *handle, const char *name, int pages)
{
    struct sqlite *db = user;
    db->log_pages = pages;
    if (pages >= LOG_PAGES && log_lock_take(db->lock)) {
        (void)api.wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        log_lock_give(db->lock);
    }
    return SQLITE_OK;
}

int sqlite_open(const char *path, struct sqlite **ret, struct tidings_error *err)
{
    if (strstr(path, "://")) {
        char shown[URL_REDACTED_MAX];
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.80s' is not a file; a database URL starts with postgres://",
                            url_redact(path, shown));
    }
    struct sqlite *db = mem_zalloc(sizeof(*db));
    if (!db) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    pthread_once(&once, sqlite_load);
    int rc = library_check(&library, err);
    if (rc == 0 && api.open_v2(path, &db->handle,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                               NULL) != SQLITE_OK) {
        rc = sqlite_failed(db, err);
    }
    if (rc == 0) {
        rc = sqlite_configure(db, err);
    }
    if (rc == 0) {
        rc = remember_files(db, path, err);
    }
    if (rc == 0) {
        rc = sqlite_prepare(db, "ROLLBACK", &db->undo, err);
    }
    if (rc < 0) {
        rc = rc == TIDINGS_E_BUSY ? rc : sqlite_advise(db, path, rc, err);
        sqlite_close(db);
        return error_wrap(err, rc, "database '%s'", path);
    }
    db->lock = db->log.path[0] != '\0' ? log_lock_create(db->log.path) : NULL;
    (void)api.wal_hook(db->handle, sqlite_on_commit, db);
    *ret = db;
    return 0;
}

static void sqlite_mark(struct sqlite *db, int64_t position);

int sqlite_keep_mark(struct sqlite *db, uint64_t epoch, int64_t position, struct tidings_error *err)
{
    char path[PATH_MAX + sizeof COMMIT_MARK_SUFFIX];
    int all = -1, copied = -1;
    if (db->log.path[0] == '\0') {
        return 0;
    }
    if (log_lock_take(db->lock)) {
        (void)api.wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &all, &copied);
        log_lock_give(db->lock);
    }
    if (all < 0 || copied != all) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the log cannot be copied into the database");
    }
    /* If a write can damage neighbours in a sector, SQLite repeats the last frame. */
    int is_safe = -1;
    (void)api.file_control(db->handle, NULL, SQLITE_FCNTL_POWERSAFE_OVERWRITE, &is_safe);
    db->log_padding = is_safe != 1;
    (void)snprintf(path, sizeof path, "%.*s" COMMIT_MARK_SUFFIX,
                   (int)(strlen(db->log.path) + 1 - sizeof LOG_SUFFIX), db->log.path);
    const struct commit_mark mark = {.epoch = epoch};
    int rc = commit_marker_open(path, db->log.path, &mark, &db->marker, err);
    sqlite_mark(db, position);
    return rc;
}

static void sqlite_mark(struct sqlite *db, int64_t position)
{
    if (db->log_pages > db->log_padding) {
        commit_marker_put(db->marker, (uint64_t)position,
                          (uint64_t)(db->log_pages - db->log_padding));
    }
}

/* The URI with which SQLite neither locks nor writes the file, and looks for no log. */
#define URI_MAX (3 * PATH_MAX + 32)
static int sqlite_immutable_uri(const char *path, char out[URI_MAX], struct tidings_error *err)
{
    static const char end[] = "?immutable=1";
    size_t n = (size_t)snprintf(out, URI_MAX, "file:%s", path[0] == '/' ? "//" : "");
    if (strlen(path) >= PATH_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path is too long");
    }
    for (const char *c = path; *c; c++) {
        n += (size_t)snprintf(out + n, URI_MAX - n, strchr("?#%", *c) ? "%%%02x" : "%c", *c);
    }
    memcpy(out + n, end, sizeof end);
    return 0;
}

int sqlite_peek(const char *path, struct sqlite **ret, struct tidings_error *err)
{
    char uri[URI_MAX];
    pthread_once(&once, sqlite_load);
    int rc = library_check(&library, err);
    rc = rc == 0 ? sqlite_immutable_uri(path, uri, err) : rc;
    struct sqlite *db = rc == 0 ? mem_zalloc(sizeof(*db)) : NULL;
    if (rc == 0 && !db) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0 &&
        api.open_v2(uri, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                    NULL) != SQLITE_OK) {
        rc = sqlite_failed(db, err);
    }
    if (rc < 0) {
        sqlite_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void sqlite_leave_log(struct sqlite *db)
{
    (void)api.db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
}

void sqlite_close(struct sqlite *db)
{
    if (!db) {
        return;
    }
    if (!log_lock_take(db->lock)) { /* the next open recovers it from the log */
        sqlite_leave_log(db);
    }
    if (db->handle) {
        sqlite_finalize(db->undo);
        api.close_v2(db->handle);
    }
    log_lock_destroy(db->lock);
    /* Keep the mark as long as there is a log, because it states the expected contents. */
    commit_marker_close(db->marker, access(db->log.path, F_OK) < 0 && errno == ENOENT);
    mem_free(db);
}

/* ---- statements ------------------------------------------------------------------------------ */

int sqlite_exec(struct sqlite *db, const char *sql, struct tidings_error *err)
{
    return api.exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sqlite_failed(db, err);
}

void sqlite_roll_back(struct sqlite *db)
{
    if (!api.get_autocommit(db->handle)) {
        (void)sqlite_run(db, db->undo, NULL);
    }
}

/* Returns true if a failed commit is certainly not in the file: the write itself failed, not a
 * later step. */
static bool sqlite_has_not_written(struct sqlite *db)
{
    int code = api.extended_errcode(db->handle);
    return code == SQLITE_FULL || code == SQLITE_IOERR_WRITE;
}

int sqlite_cut_log(struct sqlite *db, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    if (!log_lock_take(db->lock)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "a backup is being made: try again after it");
    }
    int rc = sqlite_prepare(db, "PRAGMA wal_checkpoint(TRUNCATE)", &st, err);
    rc = rc == 0 ? sqlite_step(db, st, err) : rc;
    bool is_busy = rc == 1 && sqlite_int(st, 0) != 0;
    sqlite_finalize(st);
    log_lock_give(db->lock);
    return rc < 0 ? rc : is_busy ? tidings_fail(err, TIDINGS_E_BUSY, "the database is busy") : 0;
}

int sqlite_prepare(struct sqlite *db, const char *sql, struct sqlite3_stmt **ret,
                   struct tidings_error *err)
{
    int rc = api.prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_failed(db, err);
}

int sqlite_check_sound(struct sqlite *db, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(db, "PRAGMA integrity_check(1)", &st, err);
    rc = rc == 0 ? sqlite_step(db, st, err) : rc;
    if (rc == 1 && !str_eq(sqlite_str(st, 0), STR("ok"))) {
        struct tidings_str said = sqlite_str(st, 0);
        rc = tidings_fail(err, TIDINGS_E_IO, "it is damaged: %.*s; put a copy in its place",
                          STR_ARG_MAX(said, 160));
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

void sqlite_finalize(struct sqlite3_stmt *st)
{
    api.finalize(st);
}

void sqlite_bind_int(struct sqlite3_stmt *st, int parameter, int64_t n)
{
    api.bind_int64(st, parameter, n);
}

void sqlite_bind_str(struct sqlite3_stmt *st, int parameter, struct tidings_str s)
{
    api.bind_text(st, parameter, s.len > 0 ? s.ptr : "", (int)s.len, SQLITE_STATIC);
}

void sqlite_bind_bytes(struct sqlite3_stmt *st, int parameter, const struct tidings_str *bytes)
{
    if (!bytes) {
        api.bind_null(st, parameter);
        return;
    }
    api.bind_blob(st, parameter, bytes->len > 0 ? bytes->ptr : "", (int)bytes->len, SQLITE_STATIC);
}

int64_t sqlite_int(struct sqlite3_stmt *st, int column)
{
    return api.column_int64(st, column);
}

struct tidings_str sqlite_str(struct sqlite3_stmt *st, int column)
{
    const unsigned char *text = api.column_text(st, column);
    if (!text) {
        return STR_EMPTY;
    }
    return tidings_strn((const char *)text, (size_t)api.column_bytes(st, column));
}

struct tidings_str sqlite_bytes(struct sqlite3_stmt *st, int column)
{
    const void *bytes = api.column_blob(st, column);
    return bytes ? tidings_strn(bytes, (size_t)api.column_bytes(st, column)) : STR_EMPTY;
}

int sqlite_step(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err)
{
    int rc = api.step(st);
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : sqlite_failed(db, err);
}

void sqlite_reset(struct sqlite3_stmt *st)
{
    api.reset(st);
}

int sqlite_run(struct sqlite *db, struct sqlite3_stmt *st, struct tidings_error *err)
{
    int rc = sqlite_step(db, st, err);
    sqlite_reset(st);
    return rc < 0 ? rc : 0;
}

/* -------------------------------------------------------------------------------------------------
 * Commits batches of entities to SQLite, and determines the outcome of a failed commit.
 *
 * A commit appends to FILE-wal and syncs it. If appending fails, the end of the batch is not in the
 * file, so it was not committed. If only the sync fails, this connection treats it as not
 * committed, but it is in the file and would be found after a crash. So before the batch is
 * refused, the valid data is copied into the database, the log is truncated, and an empty commit
 * writes (and syncs) a new log header, which invalidates everything that followed the old one. If
 * that fails too, the outcome is unknown: the batch ends with TIDINGS_E_UNKNOWN, and nothing is
 * written until it is resolved.
 *
 * A removed or replaced file is never written: before each commit, the path is compared with the
 * open file.
 */

/* Removes possible remains of a failed commit; 0: they are gone. */
static int make_certain(struct sqlite_store *s, struct tidings_error *err)
{
    int rc = s->is_uncertain ? sqlite_cut_log(s->db, err) : 0;
    rc = rc == 0 && s->is_uncertain ? sqlite_exec(s->db, "UPDATE main.state SET keys=keys", err)
                                    : rc;
    s->is_uncertain = s->is_uncertain && rc < 0;
    return rc;
}

int sqlite_store_begin(struct store *store, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    s->now_ms = clock_wall_ms();
    s->seq_before = s->last_seq;
    s->fresh_before = s->n_fresh;
    int rc = make_certain(s, err);
    return rc == 0 ? sqlite_statement_run(s, BEGIN, err) : rc;
}

void sqlite_store_rollback(struct store *store)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    sqlite_roll_back(s->db);
    latest_clear(&s->latest);
    s->max_keys = 0;
    s->last_seq = s->seq_before;
    s->n_fresh = s->fresh_before;
}

int sqlite_store_commit(struct store *store, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    int rc = sqlite_check_file(s->db, err);
    if (rc == 0) {
        rc = sqlite_statement_run(s, COMMIT, err);
        s->is_uncertain = rc < 0 && !sqlite_has_not_written(s->db);
    }
    if (rc < 0) {
        sqlite_store_rollback(store);
        return make_certain(s, NULL) == 0
                   ? rc
                   : error_wrap(err, TIDINGS_E_UNKNOWN,
                                "whether it was kept is not known; read before you try again");
    }
    sqlite_mark(s->db, s->last_seq);
    /* Too far behind: apply now, so that memory stays bounded. A failure is retried later. */
    if (s->n_fresh >= SQLITE_MAX_FRESH) {
        (void)sqlite_apply(s, NULL);
    }
    return 0;
}
