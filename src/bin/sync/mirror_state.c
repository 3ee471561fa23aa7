/* SPDX-License-Identifier: MIT
 *
 * Reads and writes the file `.tidings-sync` (mirror_state.h). The file is a stranger's when it is
 * read: somebody may have cut or edited it, or put another in its place. A line that is not exactly
 * what is written here counts for nothing, and no line can name a path outside the directory.
 */
#include "bin/sync/mirror_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/sync/folder.h"
#include "bin/sync/local_name.h"

#define STATE_NEW MIRROR_STATE "-new"
#define LINE_MAX_BYTES (128u << 10) /* a URI of the longest path, each byte escaped twice */
#define SPARE_LINES 1000u           /* that are over, before it is worth while to write it anew */

/* ---- in memory ------------------------------------------------------------------------------- */

/* A server that chooses its names cannot make the lists long: it does not know the seed. */
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

bool mirror_is_latest(const struct mirrored *m, const struct stat *st)
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

/* In memory alone, in place of what is known of the path. */
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

/* Whole or not at all, so that the next line does not end up behind half of one. */
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
        (void)cut; /* half a line is told when it is read */
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
    unlinkat(s->root, STATE_NEW, 0); /* of one that was killed, or whatever somebody put there */
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

/* What a line says. */
struct parsed_line {
    struct tidings_str base; /* that its URI has to be below */
    char *uri, *etag, *mirror;
    struct shape now, before;
    unsigned numbers; /* how many of them there are */
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

/* Numbers come in pairs, and a line says one thing. */
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

/* The next line without its end; 1: there is one, 0: none, -1: it is too long or has no end. */
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

/* Does the first line say that it is of this URI? */
static int check_base(struct mirror_state *s, struct tidings_str line, struct tidings_error *err)
{
    struct parsed_line w;
    int rc = 0;
    mirror_state_read_line(&w, line);
    if (w.is_bad || !w.mirror) {
        rc = tidings_fail(err, TIDINGS_E_PARSE,
                          "%s is damaged: its first line does not say what the directory is the "
                          "mirror of; without that file all that is there counts as yours",
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

int mirror_state_begin(struct mirror_state *s, const struct mirror_pending *making)
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

void mirror_state_done(struct mirror_state *s, const char *path)
{
    struct mirrored *m = mirror_state_find(s, path);
    if (m) {
        m->before = mirror_state_shape_of(NULL);
    }
}

void mirror_state_remove(struct mirror_state *s, struct mirrored *m)
{
    mirror_state_append(s, m, true); /* if it cannot be: nothing is there that it could tell of */
    mirror_state_forget(s, m);
}
