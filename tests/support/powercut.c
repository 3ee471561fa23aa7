/* SPDX-License-Identifier: MIT
 *
 * The disk without power: a SQLite VFS over the system's own.
 *
 * A file is its image in memory, which reads and writes use, and the list of writes since the last
 * sync. A sync writes those to the real file. Files that are closed while the power is off wait in
 * `victims` for powercut_restore.
 */
#include "support/powercut.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

struct pending {
    struct pending *next;
    int64_t offset; /* -1: cut to `length` */
    size_t length;
    char bytes[];
};

struct image {
    struct image *next; /* among the victims */
    int fd;
    char *bytes;
    size_t size, room;
    struct pending *first, **last;
};

struct file {
    sqlite3_file base;
    struct image *image;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs own_vfs;
static struct image *victims;
static unsigned until_cut; /* 0: not watched */
static bool is_off;
static uint64_t seed;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

/* Before an operation that changes something. */
static bool is_powerless(void)
{
    if (until_cut > 0 && --until_cut == 0) {
        is_off = true;
    }
    return is_off;
}

/* ---- images ---------------------------------------------------------------------------------- */

static bool make_room(struct image *m, size_t size)
{
    if (size > m->room) {
        size_t room = size * 2;
        char *grown = realloc(m->bytes, room);
        if (!grown) {
            return false;
        }
        memset(grown + m->room, 0, room - m->room);
        m->bytes = grown;
        m->room = room;
    }
    return true;
}

static struct pending *pend(struct image *m, int64_t offset, const void *bytes, size_t length)
{
    struct pending *p = malloc(sizeof(*p) + (bytes ? length : 0));
    if (p) {
        p->next = NULL;
        p->offset = offset;
        p->length = length;
        if (bytes) {
            memcpy(p->bytes, bytes, length);
        }
        *m->last = p;
        m->last = &p->next;
    }
    return p;
}

/* To the real file: all of it, or a part if the power failed during the write. */
static void write_out(const struct image *m, const struct pending *p, bool is_torn)
{
    if (p->offset < 0) {
        if (ftruncate(m->fd, (off_t)p->length) < 0) {
            abort();
        }
        return;
    }
    size_t length = is_torn ? draw((unsigned)p->length + 1) : p->length;
    if (pwrite(m->fd, p->bytes, length, (off_t)p->offset) != (ssize_t)length) {
        abort();
    }
}

static void forget_pending(struct image *m)
{
    while (m->first) {
        struct pending *p = m->first;
        m->first = p->next;
        free(p);
    }
    m->last = &m->first;
}

static void drop_image(struct image *m)
{
    forget_pending(m);
    close(m->fd);
    free(m->bytes);
    free(m);
}

/* ---- one file -------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *f)
{
    struct image *m = ((struct file *)f)->image;
    if (is_off) {
        m->next = victims;
        victims = m;
        return SQLITE_OK;
    }
    for (struct pending *p = m->first; p; p = p->next) {
        write_out(m, p, false);
    }
    drop_image(m);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *out, int length, sqlite3_int64 offset)
{
    struct image *m = ((struct file *)f)->image;
    size_t wanted = (size_t)length, from = (size_t)offset;
    size_t there = from < m->size ? m->size - from : 0;
    size_t n = there < wanted ? there : wanted;
    memcpy(out, m->bytes + (n > 0 ? from : 0), n);
    memset((char *)out + n, 0, wanted - n);
    return n == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *bytes, int length, sqlite3_int64 offset)
{
    struct image *m = ((struct file *)f)->image;
    size_t end = (size_t)offset + (size_t)length;
    if (!make_room(m, end) || !pend(m, offset, bytes, (size_t)length)) {
        return SQLITE_NOMEM;
    }
    memcpy(m->bytes + offset, bytes, (size_t)length);
    m->size = end > m->size ? end : m->size;
    return is_powerless() ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct image *m = ((struct file *)f)->image;
    if (is_powerless()) {
        return SQLITE_IOERR_TRUNCATE;
    }
    if ((size_t)size < m->size) {
        memset(m->bytes + size, 0, m->size - (size_t)size);
        m->size = (size_t)size;
    }
    return pend(m, -1, NULL, (size_t)size) ? SQLITE_OK : SQLITE_NOMEM;
}

static int file_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    struct image *m = ((struct file *)f)->image;
    if (is_powerless()) {
        return SQLITE_IOERR_FSYNC;
    }
    for (struct pending *p = m->first; p; p = p->next) {
        write_out(m, p, false);
    }
    forget_pending(m);
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct file *)f)->image->size;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *f, int level)
{
    (void)f;
    (void)level;
    return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *f, int *ret)
{
    (void)f;
    *ret = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *f)
{
    (void)f;
    return 512;
}

static int file_traits(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
};

/* ---- the file system ------------------------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *out, int flags,
                    int *ret_flags)
{
    (void)vfs;
    struct file *f = (struct file *)(void *)out;
    f->base.pMethods = NULL;
    char unnamed[] = "/tmp/tidings-powercut-XXXXXX";
    struct image *m = calloc(1, sizeof(*m));
    int fd = !m ? -1 : name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : mkstemp(unnamed);
    struct stat st;
    if (is_off || fd < 0 || fstat(fd, &st) < 0 || !make_room(m, (size_t)st.st_size + 4096)) {
        free(m);
        return SQLITE_CANTOPEN;
    }
    if (!name) {
        unlink(unnamed);
    }
    m->fd = fd;
    m->last = &m->first;
    m->size = (size_t)st.st_size;
    if (pread(fd, m->bytes, m->size, 0) != (ssize_t)m->size) {
        drop_image(m);
        return SQLITE_IOERR_READ;
    }
    f->image = m;
    f->base.pMethods = &file_methods;
    if (ret_flags) {
        *ret_flags = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    return is_powerless() ? SQLITE_IOERR_DELETE : real_vfs->xDelete(real_vfs, name, sync);
}

void powercut_install(uint64_t first_seed)
{
    seed = first_seed;
    real_vfs = sqlite3_vfs_find(NULL);
    own_vfs = *real_vfs;
    own_vfs.zName = "powercut";
    own_vfs.szOsFile = sizeof(struct file);
    own_vfs.xOpen = vfs_open;
    own_vfs.xDelete = vfs_delete;
    sqlite3_vfs_register(&own_vfs, 1);
}

void powercut_arm(unsigned operations)
{
    until_cut = operations;
}

bool powercut_is_off(void)
{
    return is_off;
}

void powercut_restore(void)
{
    while (victims) {
        struct image *m = victims;
        victims = m->next;
        for (struct pending *p = m->first; p; p = p->next) {
            if (draw(2)) { /* it was on its way */
                write_out(m, p, draw(4) == 0);
            }
        }
        drop_image(m);
    }
    is_off = false;
    until_cut = 0;
}
