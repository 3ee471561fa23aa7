/* SPDX-License-Identifier: MIT
 *
 * Reads and writes the file of `tidings watch --state` (watch_state.h). The file is a stranger's
 * when it is read: somebody may have cut or edited it. What is not exactly what is written here is
 * refused as a whole.
 */
#include "bin/watch/watch_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/file.h>
#include <tidings/json.h>

#include "bin/cli/output.h"

#define ANEW "name another file, or remove this one to begin anew"

void watch_state_deinit(struct watch_state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        tidings_free(s->marks[i].uri);
    }
    free(s->marks);
    tidings_free(s->server);
    *s = (struct watch_state){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

struct parsing_state {
    struct watch_state *state;
    bool is_bad;
};

static bool watch_state_has(const struct watch_state *s, const char *uri)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->marks[i].uri, uri) == 0) {
            return true;
        }
    }
    return false;
}

static int watch_state_on_mark(void *user, struct tidings_str key, struct tidings_str item)
{
    struct parsing_state *p = user;
    struct watch_state *s = p->state;
    char *uri = tidings_json_string(item, "/uri");
    char *cursor = tidings_json_string(item, "/cursor");
    (void)key;
    p->is_bad = p->is_bad || !uri || !uri[0] || !cursor || strlen(cursor) >= WATCH_STATE_CURSOR ||
                s->count == WATCH_STATE_MAX || watch_state_has(s, uri);
    if (!p->is_bad) {
        s->marks[s->count].uri = uri;
        memcpy(s->marks[s->count++].cursor, cursor, strlen(cursor) + 1);
        uri = NULL;
    }
    tidings_free(uri);
    tidings_free(cursor);
    return p->is_bad;
}

int watch_state_parse(struct tidings_str text, struct watch_state *ret, struct tidings_error *err)
{
    struct parsing_state p = {.state = ret};
    *ret = (struct watch_state){.marks = calloc(WATCH_STATE_MAX, sizeof(*ret->marks))};
    if (!ret->marks) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *version = tidings_json_get(text, "/watch");
    ret->server = tidings_json_string(text, "/server");
    p.is_bad = !version || strcmp(version, "1") != 0 || !ret->server ||
               tidings_json_each(text, "/subscriptions", watch_state_on_mark, &p) != 0 || p.is_bad;
    tidings_free(version);
    if (p.is_bad) {
        watch_state_deinit(ret);
        return tidings_fail(err, TIDINGS_E_PARSE, "it is not the state of a watch; " ANEW);
    }
    return 0;
}

void watch_state_write(FILE *out, const struct watch_state *s)
{
    fputs("{\"watch\":1,\"server\":", out);
    put_quoted(out, tidings_str(s->server ? s->server : ""));
    fputs(",\"subscriptions\":[", out);
    for (size_t i = 0; i < s->count; i++) {
        fputs(i > 0 ? ",{\"uri\":" : "{\"uri\":", out);
        put_quoted(out, tidings_str(s->marks[i].uri));
        fputs(",\"cursor\":", out);
        put_quoted(out, tidings_str(s->marks[i].cursor));
        fputc('}', out);
    }
    fputs("]}\n", out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int watch_state_fail(const char *path, int code, const char *why, struct tidings_error *err)
{
    return tidings_fail(err, code, "'%.160s': %.300s", path, why);
}

/* Is what the descriptor has still what is at the path? */
static bool watch_state_is_current(const char *path, int fd)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* Whoever replaces the file locks the new one first: the lock of one that is not there any more is
 * worth nothing. */
static int watch_state_lock(struct watch_state_file *f, struct tidings_error *err)
{
    for (;;) {
        struct stat st;
        f->lock = open(f->path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (f->lock < 0 || fstat(f->lock, &st) < 0) {
            return watch_state_fail(
                f->path, errno == ELOOP || errno == EACCES ? TIDINGS_E_DENIED : TIDINGS_E_IO,
                errno == ELOOP ? "it is a symbolic link; name the file itself" : strerror(errno),
                err);
        }
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
            return watch_state_fail(f->path, TIDINGS_E_DENIED,
                                    "it is not a file that you alone can write; name another one",
                                    err);
        }
        if (flock(f->lock, LOCK_EX | LOCK_NB) < 0) {
            return watch_state_fail(f->path, TIDINGS_E_BUSY,
                                    "another watch uses it; name another file", err);
        }
        if (watch_state_is_current(f->path, f->lock)) {
            return 0;
        }
        watch_state_close(f);
    }
}

int watch_state_open(struct watch_state_file *f, const char *path, struct watch_state *ret,
                     struct tidings_error *err)
{
    struct tidings_error why = {0};
    size_t len = 0;
    *f = (struct watch_state_file){.path = path, .lock = -1};
    *ret = (struct watch_state){0};
    if (watch_state_lock(f, err) < 0) {
        return err->code;
    }
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, WATCH_STATE_BYTES, &len, err);
    if (!text) {
        return err->code;
    }
    int rc = len > 0 ? watch_state_parse(tidings_strn(text, len), ret, &why) : 0;
    tidings_free(text);
    return rc < 0 ? watch_state_fail(path, rc, why.text, err) : 0;
}

void watch_state_close(struct watch_state_file *f)
{
    if (f->lock >= 0) {
        close(f->lock);
    }
    f->lock = -1;
}

/* Written to the end, and on the disk. */
static bool watch_state_put(int fd, const struct watch_state *s)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (!out) {
        return false;
    }
    watch_state_write(out, s);
    bool is_good = ferror(out) == 0 && fflush(out) == 0 && fsync(fd) == 0;
    int errnum = errno;
    fclose(out);
    errno = errnum;
    return is_good;
}

int watch_state_save(struct watch_state_file *f, const struct watch_state *s,
                     struct tidings_error *err)
{
    char beside[PATH_MAX];
    int n = snprintf(beside, sizeof(beside), "%s-new", f->path);
    if (n < 0 || (size_t)n >= sizeof(beside)) {
        return watch_state_fail(f->path, TIDINGS_E_IO, strerror(ENAMETOOLONG), err);
    }
    unlink(beside); /* of one that was killed, or whatever somebody put there */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_good = fd >= 0 && watch_state_put(fd, s) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                   rename(beside, f->path) == 0;
    if (!is_good) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
            unlink(beside);
        }
        return watch_state_fail(f->path, TIDINGS_E_IO, strerror(errnum), err);
    }
    watch_state_close(f);
    f->lock = fd;
    return 0;
}
