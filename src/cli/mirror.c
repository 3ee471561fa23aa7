/* SPDX-License-Identifier: MIT
 *
 * Updates the local directory of `tidings sync` to the state of the server.
 */
#include "cli/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>

#include "cli/folder.h"
#include "cli/output.h"
#include "cli/range.h"

/* -------------------------------------------------------------------------------------------------
 * Reads a resource into a file, in ranges if the server supports them.
 */

#define TRIES 8u
#define PAUSE_MS 500 /* a file that changed less than two seconds ago may change unseen */

/* 1: the range belongs to another state than the first one. */
static int fetch_take_range(struct fetch *f, const struct range *p, int64_t at,
                            struct tidings_error *err)
{
    const char *etag = p->etag ? p->etag : "";
    bool is_more = p->to < p->total;
    if (at == 0) {
        f->total = p->total;
        free(f->state);
        f->state = strdup(etag);
        if (!f->state) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    int64_t skip = at - p->from;
    bool is_same = p->total == f->total && strcmp(etag, f->state) == 0 &&
                   (p->is_range || at == 0) && skip >= 0 && skip <= RANGE_OVERLAP_MAX;
    bool is_safe = at == 0 ? !is_more || strncmp(etag, "W/", 2) != 0 : is_same;
    if (!is_safe) {
        return 1;
    }
    if (skip < 0 || skip > (int64_t)p->len || (is_more && p->to <= at)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the parts that the server gave do not fit together");
    }
    f->errnum = folder_add(f->fd, tidings_strn(p->bytes + skip, p->len - (size_t)skip));
    return f->errnum ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(f->errnum)) : 0;
}

/* 1: the resource changed during the read. */
static int fetch_once(struct fetch *f, struct tidings_error *err)
{
    int64_t at = 0;
    bool is_more = true;
    while (is_more) {
        struct range p;
        int rc = range_get(f->client, f->uri, at, &f->piece, &p, err);
        if (rc == TIDINGS_E_INVALID && at > 0) {
            rc = 1; /* the resource is shorter */
        }
        rc = rc == 0 ? fetch_take_range(f, &p, at, err) : rc;
        at = p.to;
        is_more = p.to < p.total;
        range_release(&p);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Returns false on a signal. */
static bool begin_again(struct fetch *f)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
    return ftruncate(f->fd, 0) == 0 && lseek(f->fd, 0, SEEK_SET) == 0;
}

/* TIDINGS_E_BUSY: the resource changes faster than it can be read; TIDINGS_E_LIMIT: it is too large
 * for the client, and the server does not support ranges. */
static int fetch_run(struct fetch *f, struct tidings_error *err)
{
    int rc = 1;
    f->piece = RANGE_BYTES;
    for (unsigned i = 0; i < TRIES && rc == 1; i++) {
        rc = i > 0 && !begin_again(f) ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(errno))
                                      : fetch_once(f, err);
    }
    if (rc == 1) {
        rc = tidings_fail(err, TIDINGS_E_BUSY, "it changes faster than it can be read");
    }
    if (rc == 0 && strlen(f->state) < sizeof(f->etag)) {
        memcpy(f->etag, f->state, strlen(f->state) + 1);
    }
    free(f->state);
    f->state = NULL;
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Reads and writes the file `.tidings-sync`. The file is untrusted input: a user may have
 * truncated, edited or replaced it. The reader ignores every line that the writer would not produce
 * exactly, and no line can name a path outside the directory.
 */

#define STATE_NEW MIRROR_STATE "-new"
#define LINE_MAX_BYTES (128u << 10) /* a URI of the longest path, each byte escaped twice */
#define SPARE_LINES 1000u           /* obsolete lines that justify a rewrite */

/* ---- entries in memory ----------------------------------------------------------------------- */

/* A server that chooses its names cannot make the lists long, because it does not know the seed. */
static struct mirrored **mirror_state_bucket_of(struct mirror_state *s, const char *path)
{
    uint32_t hash = 2166136261u ^ s->seed; /* FNV-1a */
    for (; *path; path++) {
        hash = (hash ^ (unsigned char)*path) * 16777619u;
    }
    return &s->buckets[(hash ^ hash >> 16) % MIRROR_BUCKETS];
}

struct mirrored *mirror_state_find(struct mirror_state *s, const char *path)
{
    struct mirrored *m = *mirror_state_bucket_of(s, path);
    while (m && strcmp(m->path, path) != 0) {
        m = m->next;
    }
    return m;
}

static struct shape mirror_state_shape_of(const struct stat *st)
{
    return st ? (struct shape){(int64_t)st->st_size,
                               (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec}
              : (struct shape){-1, 0};
}

static bool has_shape(struct shape a, const struct stat *st)
{
    struct shape b = mirror_state_shape_of(st);
    return S_ISREG(st->st_mode) && a.size == b.size && a.mtime_ns == b.mtime_ns;
}

/* Returns true if the file also matches the latest recorded state, so that its etag applies. */
static bool mirror_is_latest(const struct mirrored *m, const struct stat *st)
{
    return m->is_directory ? S_ISDIR(st->st_mode) : has_shape(m->now, st);
}

bool mirror_is_untouched(const struct mirrored *m, const struct stat *st)
{
    return mirror_is_latest(m, st) || (!m->is_directory && has_shape(m->before, st));
}

static void mirror_state_release(struct mirrored *m)
{
    free(m->path);
    free(m->uri);
    free(m->etag);
    free(m);
}

static void mirror_state_forget(struct mirror_state *s, struct mirrored *m)
{
    struct mirrored **at = mirror_state_bucket_of(s, m->path);
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
    s->count--;
    mirror_state_release(m);
}

/* Replaces the entry of the path, in memory only. */
static int mirror_state_remember(struct mirror_state *s, const char *path,
                                 const struct mirrored *it)
{
    struct mirrored *old = mirror_state_find(s, path);
    struct mirrored *m = old || s->count < MIRROR_MAX ? calloc(1, sizeof(*m)) : NULL;
    if (!m) {
        return s->count >= MIRROR_MAX ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM;
    }
    *m = *it;
    m->path = strdup(path);
    m->uri = strdup(it->uri ? it->uri : "");
    m->etag = strdup(it->etag ? it->etag : "");
    if (!m->path || !m->uri || !m->etag) {
        mirror_state_release(m);
        return TIDINGS_E_NOMEM;
    }
    if (old) {
        mirror_state_forget(s, old);
    }
    struct mirrored **bucket = mirror_state_bucket_of(s, path);
    m->next = *bucket;
    *bucket = m;
    s->count++;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void mirror_state_put_entry(FILE *out, const struct mirrored *m, bool is_gone)
{
    fputs("{\"uri\":", out);
    put_quoted(out, tidings_str(m->uri));
    if (is_gone) {
        fputs(",\"gone\":true", out);
    } else if (m->is_directory) {
        fputs(",\"directory\":true", out);
    } else {
        fputs(",\"etag\":", out);
        put_quoted(out, tidings_str(m->etag));
        fprintf(out, ",\"size\":%lld,\"mtime\":%lld", (long long)m->now.size,
                (long long)m->now.mtime_ns);
    }
    if (!is_gone && m->before.size >= 0) {
        fprintf(out, ",\"sizeBefore\":%lld,\"mtimeBefore\":%lld", (long long)m->before.size,
                (long long)m->before.mtime_ns);
    }
    fputs("}\n", out);
}

/* Writes the whole line or nothing, so that the next line does not follow a partial one. */
static int mirror_state_append(struct mirror_state *s, const struct mirrored *m, bool is_gone)
{
    struct json_text t;
    char *line = NULL;
    if (json_text_begin(&t)) {
        mirror_state_put_entry(t.out, m, is_gone);
        line = json_text_take(&t);
    }
    if (!line) {
        return TIDINGS_E_NOMEM;
    }
    size_t len = strlen(line);
    int errnum = folder_add(s->journal, tidings_strn(line, len));
    free(line);
    if (errnum) {
        int cut = ftruncate(s->journal, (off_t)s->length);
        (void)cut; /* the reader reports a partial line */
        errno = errnum;
        return TIDINGS_E_IO;
    }
    s->length += (int64_t)len;
    s->lines++;
    return 0;
}

static bool write_all(struct mirror_state *s, FILE *out)
{
    fputs("{\"mirror\":", out);
    put_quoted(out, tidings_str(s->base));
    fputs("}\n", out);
    for (size_t i = 0; i < MIRROR_BUCKETS; i++) {
        for (struct mirrored *m = s->buckets[i]; m; m = m->next) {
            mirror_state_put_entry(out, m, false);
        }
    }
    bool is_good = ferror(out) == 0 && fflush(out) == 0 && fsync(fileno(out)) == 0;
    s->length = is_good ? (int64_t)ftello(out) : s->length;
    return is_good;
}

int mirror_state_compact(struct mirror_state *s, struct tidings_error *err)
{
    int64_t length = s->length;
    unlinkat(s->root, STATE_NEW, 0); /* left by a killed process or created by another program */
    int fd = openat(s->root, STATE_NEW,
                    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    int journal = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    FILE *out = journal >= 0 ? fdopen(fd, "a") : NULL;
    bool is_good =
        out && write_all(s, out) && renameat(s->root, STATE_NEW, s->root, MIRROR_STATE) == 0;
    int errnum = errno;
    if (out) {
        fclose(out);
    } else if (fd >= 0) {
        close(fd);
    }
    if (!is_good) {
        s->length = length;
        unlinkat(s->root, STATE_NEW, 0);
        if (journal >= 0) {
            close(journal);
        }
        return tidings_fail(err, TIDINGS_E_IO, "cannot write %s: %s", MIRROR_STATE,
                            strerror(errnum));
    }
    if (s->journal >= 0) {
        close(s->journal);
    }
    s->journal = journal;
    s->lines = s->count;
    return 0;
}

bool mirror_state_is_long(const struct mirror_state *s)
{
    return s->lines > 2 * s->count + SPARE_LINES;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The content of a line. */
struct parsed_line {
    struct tidings_str base; /* its URI must be below this one */
    char *uri, *etag, *mirror;
    struct shape now, before;
    unsigned numbers; /* the number of numeric members */
    bool is_gone, is_directory, is_bad;
};

static bool mirror_state_to_number(struct tidings_str json, int64_t *ret)
{
    char text[24], *end;
    if (json.len == 0 || json.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, json.ptr, json.len);
    text[json.len] = '\0';
    errno = 0;
    *ret = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static int on_member(void *user, struct tidings_str key, struct tidings_str value)
{
    struct parsed_line *w = user;
    const struct {
        const char *name;
        char **text;
        int64_t *number;
        bool *flag;
    } known[] = {
        {"uri", &w->uri, NULL, NULL},
        {"etag", &w->etag, NULL, NULL},
        {"mirror", &w->mirror, NULL, NULL},
        {"size", NULL, &w->now.size, NULL},
        {"mtime", NULL, &w->now.mtime_ns, NULL},
        {"sizeBefore", NULL, &w->before.size, NULL},
        {"mtimeBefore", NULL, &w->before.mtime_ns, NULL},
        {"gone", NULL, NULL, &w->is_gone},
        {"directory", NULL, NULL, &w->is_directory},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool is_it = tidings_str_eq(key, tidings_str(known[i].name));
        if (is_it && known[i].text) {
            tidings_free(*known[i].text);
            *known[i].text = tidings_json_string(value, "");
            w->is_bad = w->is_bad || !*known[i].text;
        } else if (is_it && known[i].number) {
            w->is_bad = w->is_bad || !mirror_state_to_number(value, known[i].number);
            w->numbers++;
        } else if (is_it) {
            *known[i].flag = true;
            w->is_bad = w->is_bad || !tidings_str_eq(value, TIDINGS_STR("true"));
        }
    }
    return 0;
}

static void said_release(struct parsed_line *w)
{
    tidings_free(w->uri);
    tidings_free(w->etag);
    tidings_free(w->mirror);
}

static void mirror_state_read_line(struct parsed_line *w, struct tidings_str line)
{
    *w = (struct parsed_line){.now = {-1, 0}, .before = {-1, 0}};
    w->is_bad = line.len == 0 || line.ptr[0] != '{' ||
                tidings_json_each(line, "", on_member, w) < 0 || w->is_bad;
}

/* Numbers come in pairs, and a line contains one entry. */
static bool mirror_state_is_whole(const struct parsed_line *w)
{
    if (w->is_bad || !w->uri || w->mirror) {
        return false;
    }
    if (w->is_gone || w->is_directory) {
        return w->numbers == 0 && !w->etag && w->is_gone != w->is_directory;
    }
    return w->etag && w->now.size >= 0 &&
           (w->numbers == 2 || (w->numbers == 4 && w->before.size >= 0));
}

static bool take_line(struct mirror_state *s, struct tidings_str line)
{
    char path[LOCAL_NAME_MAX];
    struct parsed_line w;
    mirror_state_read_line(&w, line);
    bool is_good =
        mirror_state_is_whole(&w) && !local_name(tidings_str(s->base), tidings_str(w.uri), path);
    if (is_good && w.is_gone) {
        struct mirrored *m = mirror_state_find(s, path);
        if (m) {
            mirror_state_forget(s, m);
        }
    } else if (is_good) {
        struct mirrored it = {.uri = w.uri,
                              .etag = w.etag,
                              .now = w.now,
                              .before = w.before,
                              .is_directory = w.is_directory};
        is_good = mirror_state_remember(s, path, &it) == 0;
    }
    said_release(&w);
    return is_good;
}

/* The next line without its line feed; 1: a line, 0: end of file, -1: too long, or no line feed. */
static int mirror_state_next_line(FILE *in, char *line, size_t *ret_len)
{
    size_t len = 0;
    int c;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        line[len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES - 1] = (char)c;
        len++;
    }
    *ret_len = len;
    return c == EOF && len == 0 ? 0 : c == '\n' && len < LINE_MAX_BYTES ? 1 : -1;
}

/* Fails unless the first line belongs to this base URI. */
static int check_base(struct mirror_state *s, struct tidings_str line, struct tidings_error *err)
{
    struct parsed_line w;
    int rc = 0;
    mirror_state_read_line(&w, line);
    if (w.is_bad || !w.mirror) {
        rc = tidings_fail(err, TIDINGS_E_PARSE,
                          "%s is damaged: its first line does not say what the directory is the "
                          "mirror of; without that file, all existing files count as yours",
                          MIRROR_STATE);
    } else if (strcmp(w.mirror, s->base) != 0) {
        rc = tidings_fail(err, TIDINGS_E_EXISTS, "the directory is the mirror of %.200s", w.mirror);
    }
    said_release(&w);
    return rc;
}

static int mirror_state_load(struct mirror_state *s, FILE *in, struct tidings_error *err)
{
    char *line = malloc(LINE_MAX_BYTES);
    size_t len = 0;
    if (!line) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int got = mirror_state_next_line(in, line, &len);
    int rc =
        got == 0 && ferror(in) == 0 ? 0 : check_base(s, tidings_strn(line, got > 0 ? len : 0), err);
    while (rc == 0 && (got = mirror_state_next_line(in, line, &len)) != 0) {
        bool is_good = got > 0 && take_line(s, tidings_strn(line, len));
        s->damaged += is_good ? 0 : 1;
    }
    free(line);
    return rc == 0 && ferror(in) ? tidings_fail(err, TIDINGS_E_IO, "cannot read %s", MIRROR_STATE)
                                 : rc;
}

int mirror_state_read(struct mirror_state *s, int root, const char *base, struct tidings_error *err)
{
    struct stat st;
    *s = (struct mirror_state){.root = root, .base = base, .journal = -1};
    if (getrandom(&s->seed, sizeof(s->seed), GRND_NONBLOCK) < 0) {
        s->seed = (uint32_t)(uintptr_t)s;
    }
    int fd = openat(root, MIRROR_STATE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return tidings_fail(err, TIDINGS_E_IO, "%s is not a file", MIRROR_STATE);
    }
    FILE *in = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!in && errno != ENOENT) {
        return tidings_fail(err, TIDINGS_E_IO, "cannot read %s: %s", MIRROR_STATE, strerror(errno));
    }
    int rc = in ? mirror_state_load(s, in, err) : 0;
    if (in) {
        fclose(in);
    }
    return rc;
}

int mirror_state_open(struct mirror_state *s, int root, const char *base, struct tidings_error *err)
{
    int rc = mirror_state_read(s, root, base, err);
    return rc == 0 ? mirror_state_compact(s, err) : rc;
}

void mirror_state_close(struct mirror_state *s)
{
    for (size_t i = 0; i < MIRROR_BUCKETS; i++) {
        while (s->buckets[i]) {
            mirror_state_forget(s, s->buckets[i]);
        }
    }
    if (s->journal >= 0) {
        close(s->journal);
    }
    s->journal = -1;
}

/* ---- changes --------------------------------------------------------------------------------- */

static int mirror_state_begin(struct mirror_state *s, const struct mirror_pending *making)
{
    char *uri = strndup(making->uri.ptr, making->uri.len);
    char *etag = strdup(making->etag);
    struct mirrored it = {.uri = uri,
                          .etag = etag,
                          .now = mirror_state_shape_of(making->st),
                          .before = mirror_state_shape_of(making->before),
                          .is_directory = making->st == NULL};
    bool is_full = s->count >= MIRROR_MAX && !mirror_state_find(s, making->path);
    int rc = !uri || !etag ? TIDINGS_E_NOMEM
             : is_full     ? TIDINGS_E_LIMIT
                           : mirror_state_append(s, &it, false);
    rc = rc == 0 ? mirror_state_remember(s, making->path, &it) : rc;
    free(uri);
    free(etag);
    return rc;
}

/* The file is in place. */
static void mirror_state_done(struct mirror_state *s, const char *path)
{
    struct mirrored *m = mirror_state_find(s, path);
    if (m) {
        m->before = mirror_state_shape_of(NULL);
    }
}

static void mirror_state_remove(struct mirror_state *s, struct mirrored *m)
{
    mirror_state_append(s, m, true); /* if that fails, the directory has no file of the entry */
    mirror_state_forget(s, m);
}

/* ---------------------------------------------------------------------------------------------- */

static void mirror_report(struct mirror *m, enum mirror_result deed, struct tidings_str uri,
                          const char *reason)
{
    m->report(m->user, deed, uri, reason);
}

static const char *mirror_path_of(struct mirror *m, struct tidings_str uri,
                                  char path[LOCAL_NAME_MAX])
{
    return local_name(tidings_str(m->state.base), uri, path);
}

/* A glob without a slash matches a name at any depth; a glob with a slash matches the path from the
 * top. Everything below a match is excluded with it. */
static bool mirror_is_excluded(const struct mirror *m, const char *path)
{
    for (size_t i = 0; i < m->excluded_count; i++) {
        const char *glob = m->excluded[i];
        bool is_path = strchr(glob, '/') != NULL;
        glob += glob[0] == '/';
        if (fnmatch(glob, path, FNM_PATHNAME | FNM_LEADING_DIR) == 0) {
            return true;
        }
        for (const char *name = path; !is_path && (name = strchr(name, '/')) != NULL;) {
            if (fnmatch(glob, ++name, FNM_PATHNAME | FNM_LEADING_DIR) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* ---- removing -------------------------------------------------------------------------------- */

static void remove_one(struct mirror *m, struct mirrored *it)
{
    struct stat st;
    int errnum = folder_stat(m->root, it->path, &st);
    struct tidings_str uri = tidings_str(it->uri);
    if (errnum == 0 && !it->is_directory && !mirror_is_untouched(it, &st) && !m->forces) {
        mirror_report(m, MIRROR_KEPT, uri, "the server removed it, but it was changed here");
    } else if (errnum == 0 && m->is_dry) {
        mirror_report(m, MIRROR_REMOVED, uri, NULL);
    } else if (errnum == 0) {
        errnum = folder_remove(m->root, it->path, it->is_directory);
        if (errnum == 0) {
            mirror_report(m, MIRROR_REMOVED, uri, NULL);
        }
    }
    /* The file is missing or is not ours: a user's link or file has replaced it, or the directory
     * contains a user's files. */
    bool is_over = errnum == 0 || errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP ||
                   (it->is_directory && (errnum == ENOTEMPTY || errnum == EEXIST));
    if (is_over && !m->is_dry) {
        mirror_state_remove(&m->state, it);
    } else if (!is_over) {
        mirror_report(m, MIRROR_FAILED, uri, strerror(errnum));
    }
}

/* Contents come before their directory. */
static int deeper_first(const void *a, const void *b)
{
    struct mirrored *const *x = a, *const *y = b;
    return strcmp((*y)->path, (*x)->path);
}

static bool is_within(const struct mirrored *it, const char *path)
{
    size_t len = strlen(path);
    return strncmp(it->path, path, len) == 0 && (it->path[len] == '\0' || it->path[len] == '/');
}

static int mirror_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns true if the path is at or below a held one. Held paths are sorted. */
static bool is_held(const struct mirror *m, const char *path)
{
    char name[LOCAL_NAME_MAX];
    char *key = name;
    size_t len = strlen(path);
    memcpy(name, path, len + 1);
    for (char *end = name + len; m->held_count > 0 && end; end = strrchr(name, '/')) {
        *end = '\0';
        if (bsearch(&key, m->held, m->held_count, sizeof(*m->held), mirror_by_text)) {
            return true;
        }
    }
    return m->holds_all;
}

/* All that were neither met nor held in this pass, or all at and below `path`. */
static void remove_all(struct mirror *m, const char *path)
{
    struct mirror_state *s = &m->state;
    struct mirrored **all = calloc(s->count + 1, sizeof(struct mirrored *));
    size_t count = 0;
    for (size_t i = 0; all && i < MIRROR_BUCKETS; i++) {
        for (struct mirrored *it = s->buckets[i]; it; it = it->next) {
            bool is_meant =
                path ? is_within(it, path) : it->pass != m->pass && !is_held(m, it->path);
            if (is_meant && !mirror_is_excluded(m, it->path)) {
                all[count++] = it;
            }
        }
    }
    if (count > 0) {
        qsort(all, count, sizeof(struct mirrored *), deeper_first);
    }
    for (size_t i = 0; i < count; i++) {
        remove_one(m, all[i]);
    }
    free(all);
}

void mirror_remove(struct mirror *m, struct tidings_str uri)
{
    char path[LOCAL_NAME_MAX];
    if (mirror_path_of(m, uri, path)) {
        return;
    }
    struct mirrored *it = mirror_state_find(&m->state, path);
    if (it && !tidings_str_eq(tidings_str(it->uri), uri)) {
        m->needs_pass = true; /* another resource has its name by now */
    } else if (it && !it->is_directory && !mirror_is_excluded(m, path)) {
        remove_one(m, it);
    } else {
        remove_all(m, path);
    }
}

/* ---- full pass ------------------------------------------------------------------------------- */

void mirror_give_up(struct mirror *m)
{
    for (size_t i = 0; i < m->held_count; i++) {
        free(m->held[i]);
    }
    free(m->held);
    m->held = NULL;
    m->held_count = 0;
    m->holds_all = m->is_passing = false;
}

void mirror_begin(struct mirror *m)
{
    m->pass++;
    m->is_passing = true;
    m->needs_pass = m->is_broken = false;
}

void mirror_end(struct mirror *m)
{
    if (m->held_count > 0) {
        qsort(m->held, m->held_count, sizeof(*m->held), mirror_by_text);
    }
    remove_all(m, NULL);
    mirror_give_up(m);
}

void mirror_hold(struct mirror *m, struct tidings_str uri, const char *why)
{
    char path[LOCAL_NAME_MAX];
    char reason[sizeof(((struct tidings_error *)0)->text) + 80];
    if (mirror_path_of(m, uri, path)) {
        return; /* this directory contains none of it */
    }
    char **more = realloc(m->held, (m->held_count + 1) * sizeof(*m->held));
    m->held = more ? more : m->held;
    char *copy = more ? strdup(path) : NULL;
    if (copy) {
        m->held[m->held_count++] = copy;
    } else {
        m->holds_all = true;
    }
    snprintf(reason, sizeof(reason), "its contents are unchanged, because it cannot be listed: %s",
             why);
    mirror_report(m, MIRROR_FAILED, uri, reason);
}

/* ---- taking a resource ----------------------------------------------------------------------- */

/* Marks the path and its parent directories. */
static void mirror_mark_present(struct mirror *m, const char *path)
{
    char name[LOCAL_NAME_MAX];
    size_t len = strlen(path);
    memcpy(name, path, len + 1);
    for (char *end = name + len; end; end = strrchr(name, '/')) {
        *end = '\0';
        struct mirrored *it = mirror_state_find(&m->state, name);
        if (it) {
            it->pass = m->pass;
        }
    }
}

enum name_claim {
    CLAIM_GOOD,
    CLAIM_TAKEN,
    CLAIM_LATER, /* undecided until the next full pass */
};

/* Decides whether the resource may take the name of `it`. A file may become a directory and the
 * reverse, but only after the old one is gone. */
static enum name_claim mirror_check_claim(struct mirror *m, const struct mirrored *it,
                                          const struct mirror_item *item)
{
    if (!it || m->pass == 0 || it->pass != m->pass) {
        return CLAIM_GOOD;
    }
    struct tidings_str a = tidings_str(it->uri), b = item->uri;
    a.len -= a.len > 0 && a.ptr[a.len - 1] == '/' ? 1 : 0;
    b.len -= b.len > 0 && b.ptr[b.len - 1] == '/' ? 1 : 0;
    bool is_same = tidings_str_eq(a, b);
    if (is_same && it->is_directory == item->is_directory) {
        return CLAIM_GOOD;
    }
    m->needs_pass = m->needs_pass || (is_same && !m->is_passing);
    return is_same && !m->is_passing ? CLAIM_LATER : CLAIM_TAKEN;
}

static const char *const taken = "another resource has the same name";

static const char *note_failure(int rc)
{
    return rc == TIDINGS_E_LIMIT ? "there are too many files"
           : rc == TIDINGS_E_IO  ? strerror(errno)
                                 : "out of memory";
}

/* Creates the file at an unused path; returns the error message, or NULL. The entry is recorded
 * first, because an unrecorded file would never be removed. */
static const char *make_new(struct mirror *m, const char *path, struct tidings_str uri)
{
    struct mirror_pending making = {.path = path, .uri = uri, .etag = ""};
    if (m->is_dry) {
        mirror_report(m, MIRROR_CREATED, uri, NULL);
        return NULL;
    }
    int rc = mirror_state_begin(&m->state, &making);
    int errnum = rc == 0 ? folder_make(m->root, path) : 0;
    if (rc == 0 && errnum == 0) {
        mirror_report(m, MIRROR_CREATED, uri, NULL);
        return NULL;
    }
    struct mirrored *it = mirror_state_find(&m->state, path);
    if (rc == 0 && it) {
        mirror_state_remove(&m->state, it);
    }
    return rc < 0 ? note_failure(rc) : strerror(errnum);
}

/* Returns false if the directory cannot be created; the error was reported. */
static bool make_directory(struct mirror *m, struct tidings_str uri)
{
    char path[LOCAL_NAME_MAX];
    struct stat st;
    const struct mirror_item item = {.uri = uri, .is_directory = true};
    const char *why = mirror_path_of(m, uri, path);
    struct mirrored *it = why ? NULL : mirror_state_find(&m->state, path);
    enum name_claim c = mirror_check_claim(m, it, &item);
    if (why || c == CLAIM_TAKEN) {
        mirror_report(m, MIRROR_REFUSED, uri, why ? why : taken);
    }
    if (why || c != CLAIM_GOOD) {
        return false;
    }
    if (it && !it->is_directory) {
        remove_one(m, it); /* it was a file */
    }
    int errnum = folder_stat(m->root, path, &st);
    bool is_there = errnum == 0 && S_ISDIR(st.st_mode);
    if (errnum == ENOENT) {
        why = make_new(m, path, uri);
        is_there = !why;
    } else if (errnum != 0) {
        why = strerror(errnum);
    }
    mirror_mark_present(m, path);
    if (!is_there) {
        mirror_report(m, why ? MIRROR_FAILED : MIRROR_KEPT, uri,
                      why ? why : "a file that is not a directory is in its place");
    }
    return is_there;
}

/* The parent directories of a file. */
static bool make_parents(struct mirror *m, struct tidings_str uri)
{
    size_t from = strlen(m->state.base);
    for (size_t i = from; i + 1 < uri.len; i++) {
        if (uri.ptr[i] == '/' && !make_directory(m, tidings_strn(uri.ptr, i + 1))) {
            return false;
        }
    }
    return true;
}

/* Fetched content that is not in its place yet. */
struct draft {
    int fd;
    const char *path, *etag;
    struct tidings_str uri;
};

/* Adopt the existing file: it has the same bytes. */
static void mirror_adopt(struct mirror *m, const struct draft *d, const struct stat *local)
{
    struct mirror_pending making = {d->path, d->uri, d->etag, local, NULL};
    int rc = mirror_state_begin(&m->state, &making);
    if (rc < 0) {
        mirror_report(m, MIRROR_FAILED, d->uri, note_failure(rc));
    }
    folder_drop(m->root, d->fd);
}

/* Put it in place of `local`; NULL: at an unused path. */
static void mirror_replace(struct mirror *m, const struct draft *d, const struct stat *local,
                           bool is_ours)
{
    struct stat st;
    int rc = fstat(d->fd, &st) < 0 ? TIDINGS_E_IO : 0;
    struct mirror_pending making = {d->path, d->uri, d->etag, &st, is_ours ? local : NULL};
    rc = rc == 0 ? mirror_state_begin(&m->state, &making) : rc;
    if (rc < 0) {
        mirror_report(m, MIRROR_FAILED, d->uri, note_failure(rc));
        folder_drop(m->root, d->fd);
        return;
    }
    int errnum = folder_put(m->root, d->path, d->fd, local);
    if (errnum == 0) {
        mirror_state_done(&m->state, d->path);
        mirror_report(m, local ? MIRROR_UPDATED : MIRROR_CREATED, d->uri, NULL);
        return;
    }
    struct mirrored *it = mirror_state_find(&m->state, d->path);
    if (it && !making.before) {
        mirror_state_remove(&m->state, it);
    }
    mirror_report(m, errnum == EEXIST ? MIRROR_KEPT : MIRROR_FAILED, d->uri,
                  errnum == EEXIST ? "it was changed here" : strerror(errnum));
}

/* Put the content in place. The path is checked again now, because the read took time. */
static void mirror_put_content(struct mirror *m, const struct draft *d)
{
    struct stat local;
    const struct mirrored *it = mirror_state_find(&m->state, d->path);
    int errnum = folder_stat(m->root, d->path, &local);
    bool is_there = errnum == 0;
    bool is_ours = !is_there || (it && mirror_is_untouched(it, &local));
    if (is_there && folder_holds(m->root, d->path, d->fd)) {
        mirror_adopt(m, d, &local);
    } else if (!is_ours && (!m->forces || S_ISDIR(local.st_mode))) {
        mirror_report(m, MIRROR_KEPT, d->uri, it ? "it was changed here" : "it existed before");
        folder_drop(m->root, d->fd);
    } else if (is_there || make_parents(m, d->uri)) {
        mirror_replace(m, d, is_there ? &local : NULL, is_ours);
    } else {
        folder_drop(m->root, d->fd);
    }
}

/* Returns true if the next read would fail as well. If the server no longer speaks MCP, the HTTP
 * statuses "not found" and "denied" say nothing about the resource. */
static bool is_of_connection(struct tidings_client *client, int code)
{
    bool is_status = (code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED) &&
                     !tidings_client_last_error(client);
    return is_status || code == TIDINGS_E_IO || code == TIDINGS_E_CLOSED ||
           code == TIDINGS_E_CANCELLED || code == TIDINGS_E_NOMEM;
}

/* Returns true if an unreadable resource really does not exist. A server may answer "not found" if
 * it cannot read the resource itself, or hides it; if it can still describe the resource, the
 * resource exists. */
static bool is_gone(struct mirror *m, const char *uri, const struct tidings_error *why)
{
    if (why->code != TIDINGS_E_NOTFOUND || !tidings_client_last_error(m->client)) {
        return why->code == TIDINGS_E_GONE;
    }
    struct tidings_error err = {0};
    char *item = tidings_client_metadata(m->client, uri, &err);
    tidings_free(item);
    return !item && (err.code == TIDINGS_E_NOTFOUND || err.code == TIDINGS_E_GONE);
}

/* The resource is too large for a message, and the server does not support ranges: a request would
 * break the connection. */
static void report_too_large(struct mirror *m, const struct mirror_item *item)
{
    char size[48] = "";
    char reason[200];
    if (item->size >= 0) {
        snprintf(size, sizeof(size), "it has %" PRId64 " bytes: ", item->size);
    }
    snprintf(reason, sizeof(reason),
             "%smore than a message may have (%" PRIu64
             " MiB, --max-message), and the server gives "
             "no parts",
             size, m->max_message >> 20);
    mirror_report(m, MIRROR_FAILED, item->uri, reason);
}

/* Handles a failed read. */
static int mirror_content_failed(struct mirror *m, const struct fetch *f,
                                 const struct mirror_item *item, struct tidings_error *err)
{
    if (f->errnum) {
        mirror_report(m, MIRROR_FAILED, item->uri, strerror(f->errnum));
    } else if (is_of_connection(m->client, err->code)) {
        return err->code;
    } else if (err->code == TIDINGS_E_LIMIT && !tidings_client_last_error(m->client)) {
        m->is_broken = true;
        report_too_large(m, item);
    } else {
        struct tidings_error why = *err;
        if (is_gone(m, f->uri, &why)) {
            mirror_remove(m, item->uri);
        } else {
            mirror_report(m, MIRROR_FAILED, item->uri, why.text);
        }
    }
    return 0;
}

/* Read the resource and put its content in place. */
static int mirror_update_content(struct mirror *m, const char *path, const struct mirror_item *item,
                                 struct tidings_error *err)
{
    char *uri = strndup(item->uri.ptr, item->uri.len);
    struct fetch f = {.client = m->client, .uri = uri, .fd = -1};
    if (!uri) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = 0;
    f.errnum = folder_begin(m->root, &f.fd);
    if (f.errnum == 0) {
        rc = fetch_run(&f, err);
    }
    if (f.errnum == 0 && rc == 0) {
        struct draft d = {f.fd, path, f.etag, item->uri};
        mirror_put_content(m, &d);
    } else {
        if (f.fd >= 0) {
            folder_drop(m->root, f.fd);
        }
        rc = mirror_content_failed(m, &f, item, err);
    }
    free(uri);
    return rc;
}

/* Predicts the result of a read, as far as possible without reading. */
static void mirror_foretell(struct mirror *m, const struct mirrored *it,
                            const struct mirror_item *item, const struct stat *local)
{
    bool is_certain = !local || (it && item->etag[0] && strncmp(item->etag, "W/", 2) != 0);
    if (local && !(it && mirror_is_untouched(it, local)) &&
        (!m->forces || S_ISDIR(local->st_mode))) {
        mirror_report(m, MIRROR_KEPT, item->uri, it ? "it was changed here" : "it existed before");
    } else {
        mirror_report(m, local ? MIRROR_UPDATED : MIRROR_CREATED, item->uri,
                      is_certain ? NULL : "if its content differs, which only reading tells");
    }
}

/* Returns false if the resource is certainly not readable. */
static bool is_readable(struct mirror *m, const struct mirror_item *item)
{
    return item->size < 0 || (uint64_t)item->size <= m->max_message || range_is_offered(m->client);
}

int mirror_take(struct mirror *m, const struct mirror_item *item, struct tidings_error *err)
{
    char path[LOCAL_NAME_MAX];
    struct stat st;
    const char *why = mirror_path_of(m, item->uri, path);
    if (!why && mirror_is_excluded(m, path)) {
        mirror_mark_present(m, path);
        return 0;
    }
    if (!why && !m->takes_control_files && (why = control_file(path)) != NULL) {
        mirror_mark_present(m, path); /* an earlier accepted file stays */
    }
    struct mirrored *it = why ? NULL : mirror_state_find(&m->state, path);
    enum name_claim c = mirror_check_claim(m, it, item);
    if (why || c == CLAIM_TAKEN) {
        mirror_report(m, MIRROR_REFUSED, item->uri, why ? why : taken);
    }
    if (why || c != CLAIM_GOOD) {
        return 0;
    }
    if (item->is_directory) {
        make_directory(m, item->uri);
        return 0;
    }
    if (it && it->is_directory) {
        remove_all(m, path); /* it was a directory */
        it = NULL;
    }
    int errnum = folder_stat(m->root, path, &st);
    bool is_blocked = errnum == ENOTDIR || errnum == ELOOP;
    if (is_blocked && !m->is_dry && !make_parents(m, item->uri)) {
        return 0;
    }
    /* Two states in quick succession may have the same weak etag. */
    bool is_known = it && errnum == 0 && item->etag[0] && strncmp(item->etag, "W/", 2) != 0 &&
                    strcmp(item->etag, it->etag) == 0 && mirror_is_latest(it, &st);
    int rc = 0;
    if (errnum != 0 && errnum != ENOENT && !is_blocked) {
        mirror_report(m, MIRROR_FAILED, item->uri, strerror(errnum));
    } else if (!is_known && !is_readable(m, item)) {
        report_too_large(m, item);
    } else if (!is_known && m->is_dry) {
        mirror_foretell(m, it, item, errnum == 0 ? &st : NULL);
    } else if (!is_known) {
        rc = mirror_update_content(m, path, item, err);
    }
    mirror_mark_present(m, path);
    return rc;
}
