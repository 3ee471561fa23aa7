/* SPDX-License-Identifier: MIT */
#include "mirror_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/json.h>

#include "local_name.h"
#include "output.h"

#define STATE LOCAL_RESERVED "sync"
#define STATE_NEW LOCAL_RESERVED "sync-new"

static struct mirrored **bucket_of(struct mirror_state *s, const char *path)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *path; path++) {
        hash = (hash ^ (unsigned char)*path) * 16777619u;
    }
    return &s->buckets[hash % (MIRROR_BUCKETS)];
}

struct mirrored *mirror_find(struct mirror_state *s, const char *path)
{
    struct mirrored *m = *bucket_of(s, path);
    while (m && strcmp(m->path, path) != 0) {
        m = m->next;
    }
    return m;
}

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

bool mirror_is_untouched(const struct mirrored *m, const struct stat *st)
{
    return m->is_directory
               ? S_ISDIR(st->st_mode)
               : S_ISREG(st->st_mode) && st->st_size == m->size && mtime_of(st) == m->mtime_ns;
}

static void release(struct mirrored *m)
{
    free(m->path);
    free(m->uri);
    free(m->etag);
    free(m);
}

static void forget(struct mirror_state *s, struct mirrored *m)
{
    struct mirrored **at = bucket_of(s, m->path);
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
    s->count--;
    release(m);
}

/* In memory alone. */
static struct mirrored *remember(struct mirror_state *s, const char *path, struct tidings_str uri,
                                 const char *etag)
{
    struct mirrored *old = mirror_find(s, path);
    if (old) {
        forget(s, old);
    }
    struct mirrored *m = s->count < MIRROR_MAX ? calloc(1, sizeof(*m)) : NULL;
    if (!m) {
        return NULL;
    }
    m->path = strdup(path);
    m->uri = strndup(uri.ptr, uri.len);
    m->etag = strdup(etag);
    if (!m->path || !m->uri || !m->etag) {
        release(m);
        return NULL;
    }
    struct mirrored **bucket = bucket_of(s, path);
    m->next = *bucket;
    *bucket = m;
    s->count++;
    return m;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void put_entry(FILE *out, const struct mirrored *m, bool is_gone)
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
        fprintf(out, ",\"size\":%lld,\"mtime\":%lld", (long long)m->size, (long long)m->mtime_ns);
    }
    fputs("}\n", out);
}

static int64_t number_at(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    int64_t n = text ? strtoll(text, NULL, 10) : 0;
    tidings_free(text);
    return n;
}

static bool has(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    bool is_there = text != NULL;
    tidings_free(text);
    return is_there;
}

/* A line that is damaged, as the last one of a machine that stopped, is passed over: what it told
 * of counts as not made by us. */
static void take_line(struct mirror_state *s, struct tidings_str line)
{
    char path[LOCAL_NAME_MAX];
    char *uri = tidings_json_string(line, "/uri");
    char *etag = tidings_json_string(line, "/etag");
    if (uri && !local_name(tidings_str(s->base), tidings_str(uri), path)) {
        struct mirrored *m = mirror_find(s, path);
        if (has(line, "/gone")) {
            if (m) {
                forget(s, m);
            }
        } else if ((m = remember(s, path, tidings_str(uri), etag ? etag : "")) != NULL) {
            m->size = number_at(line, "/size");
            m->mtime_ns = number_at(line, "/mtime");
            m->is_directory = has(line, "/directory");
        }
    }
    tidings_free(uri);
    tidings_free(etag);
}

static int load(struct mirror_state *s, FILE *in, struct tidings_error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, in);
    char *base = n > 0 ? tidings_json_string(tidings_strn(line, (size_t)n), "/mirror") : NULL;
    int rc = 0;
    if (n > 0 && (!base || strcmp(base, s->base) != 0)) {
        rc = tidings_fail(err, TIDINGS_E_EXISTS, "the directory is the mirror of %.200s",
                          base ? base : "something else");
    }
    while (rc == 0 && (n = getline(&line, &room, in)) > 0) {
        take_line(s, tidings_strn(line, (size_t)n));
    }
    tidings_free(base);
    free(line);
    return rc;
}

int mirror_state_compact(struct mirror_state *s, struct tidings_error *err)
{
    int fd =
        openat(s->root, STATE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        return tidings_fail(err, TIDINGS_E_IO, "cannot write %s: %s", STATE_NEW, strerror(errno));
    }
    fputs("{\"mirror\":", out);
    put_quoted(out, tidings_str(s->base));
    fputs("}\n", out);
    for (size_t i = 0; i < MIRROR_BUCKETS; i++) {
        for (struct mirrored *m = s->buckets[i]; m; m = m->next) {
            put_entry(out, m, false);
        }
    }
    if (fflush(out) != 0 || renameat(s->root, STATE_NEW, s->root, STATE) < 0) {
        fclose(out);
        return tidings_fail(err, TIDINGS_E_IO, "cannot write %s: %s", STATE, strerror(errno));
    }
    if (s->journal) {
        fclose(s->journal);
    }
    s->journal = out; /* goes on where it is */
    return 0;
}

int mirror_state_open(struct mirror_state *s, int root, const char *base, struct tidings_error *err)
{
    *s = (struct mirror_state){.root = root, .base = base};
    int fd = openat(root, STATE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *in = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!in && errno != ENOENT) {
        return tidings_fail(err, TIDINGS_E_IO, "cannot read %s: %s", STATE, strerror(errno));
    }
    int rc = in ? load(s, in, err) : 0;
    if (in) {
        fclose(in);
    }
    return rc == 0 ? mirror_state_compact(s, err) : rc;
}

void mirror_state_close(struct mirror_state *s)
{
    for (size_t i = 0; i < MIRROR_BUCKETS; i++) {
        while (s->buckets[i]) {
            forget(s, s->buckets[i]);
        }
    }
    if (s->journal) {
        fclose(s->journal);
    }
    s->journal = NULL;
}

/* ---- changes --------------------------------------------------------------------------------- */

int mirror_put(struct mirror_state *s, const char *path, struct tidings_str uri, const char *etag,
               const struct stat *st)
{
    struct mirrored *m = remember(s, path, uri, etag);
    if (!m) {
        return s->count >= MIRROR_MAX ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM;
    }
    m->is_directory = st == NULL;
    m->size = st ? (int64_t)st->st_size : 0;
    m->mtime_ns = st ? mtime_of(st) : 0;
    put_entry(s->journal, m, false);
    return fflush(s->journal) == 0 ? 0 : TIDINGS_E_IO;
}

void mirror_drop(struct mirror_state *s, struct mirrored *m)
{
    put_entry(s->journal, m, true);
    fflush(s->journal);
    forget(s, m);
}
