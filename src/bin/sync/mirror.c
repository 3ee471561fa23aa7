/* SPDX-License-Identifier: MIT
 *
 * Brings the local directory of `tidings sync` up to what the server has.
 */
#include "bin/sync/mirror.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bin/remote/part.h"
#include "bin/sync/control_file.h"
#include "bin/sync/folder.h"
#include "bin/sync/local_name.h"
#include "bin/sync/mirror_fetch.h"

static void mirror_tell(struct mirror *m, enum mirror_result deed, struct tidings_str uri,
                        const char *reason)
{
    m->tell(m->user, deed, uri, reason);
}

static const char *mirror_path_of(struct mirror *m, struct tidings_str uri,
                                  char path[LOCAL_NAME_MAX])
{
    return local_name(tidings_str(m->state.base), uri, path);
}

/* A glob without a slash matches a name at any depth, with one the path from the top; what is below
 * a match is left out with it. */
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
        mirror_tell(m, MIRROR_KEPT, uri, "the server removed it, but it was changed here");
    } else if (errnum == 0 && m->is_dry) {
        mirror_tell(m, MIRROR_REMOVED, uri, NULL);
    } else if (errnum == 0) {
        errnum = folder_remove(m->root, it->path, it->is_directory);
        if (errnum == 0) {
            mirror_tell(m, MIRROR_REMOVED, uri, NULL);
        }
    }
    /* Not there, or not ours any more: somebody's link or file is where it was, or his files are in
     * it. */
    bool is_over = errnum == 0 || errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP ||
                   (it->is_directory && (errnum == ENOTEMPTY || errnum == EEXIST));
    if (is_over && !m->is_dry) {
        mirror_state_remove(&m->state, it);
    } else if (!is_over) {
        mirror_tell(m, MIRROR_FAILED, uri, strerror(errnum));
    }
}

/* What is inside comes before what it is in. */
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

/* Is it at or below one of those that are held? They are in order. */
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
        m->needs_pass = true; /* something else has its name by now */
    } else if (it && !it->is_directory && !mirror_is_excluded(m, path)) {
        remove_one(m, it);
    } else {
        remove_all(m, path);
    }
}

/* ---- going over everything ------------------------------------------------------------------- */

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
        return; /* nothing of it is here */
    }
    char **more = realloc(m->held, (m->held_count + 1) * sizeof(*m->held));
    m->held = more ? more : m->held;
    char *copy = more ? strdup(path) : NULL;
    if (copy) {
        m->held[m->held_count++] = copy;
    } else {
        m->holds_all = true;
    }
    snprintf(reason, sizeof(reason),
             "what is below it stays as it was, since it cannot be listed: %s", why);
    mirror_tell(m, MIRROR_FAILED, uri, reason);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* It, and the directories that it is in. */
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
    CLAIM_LATER, /* a look at everything has to tell */
};

/* May the name that `it` has go to this resource? A file may become a directory and the reverse,
 * but not while both are there. */
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

/* Where nothing is; why it cannot be, or NULL. It is noted first: one that nobody notes would never
 * be removed. */
static const char *make_new(struct mirror *m, const char *path, struct tidings_str uri)
{
    struct mirror_pending making = {.path = path, .uri = uri, .etag = ""};
    if (m->is_dry) {
        mirror_tell(m, MIRROR_CREATED, uri, NULL);
        return NULL;
    }
    int rc = mirror_state_begin(&m->state, &making);
    int errnum = rc == 0 ? folder_make(m->root, path) : 0;
    if (rc == 0 && errnum == 0) {
        mirror_tell(m, MIRROR_CREATED, uri, NULL);
        return NULL;
    }
    struct mirrored *it = mirror_state_find(&m->state, path);
    if (rc == 0 && it) {
        mirror_state_remove(&m->state, it);
    }
    return rc < 0 ? note_failure(rc) : strerror(errnum);
}

/* False: it cannot be, which was told. */
static bool make_directory(struct mirror *m, struct tidings_str uri)
{
    char path[LOCAL_NAME_MAX];
    struct stat st;
    const struct mirror_item item = {.uri = uri, .is_directory = true};
    const char *why = mirror_path_of(m, uri, path);
    struct mirrored *it = why ? NULL : mirror_state_find(&m->state, path);
    enum name_claim c = mirror_check_claim(m, it, &item);
    if (why || c == CLAIM_TAKEN) {
        mirror_tell(m, MIRROR_REFUSED, uri, why ? why : taken);
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
        mirror_tell(m, why ? MIRROR_FAILED : MIRROR_KEPT, uri,
                    why ? why : "something else is there, and no directory");
    }
    return is_there;
}

/* Those a file is in. */
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

/* What has come, and is not in its place yet. */
struct draft {
    int fd;
    const char *path, *etag;
    struct tidings_str uri;
};

/* Take it over as it is: it has the same bytes. */
static void mirror_adopt(struct mirror *m, const struct draft *d, const struct stat *local)
{
    struct mirror_pending making = {d->path, d->uri, d->etag, local, NULL};
    int rc = mirror_state_begin(&m->state, &making);
    if (rc < 0) {
        mirror_tell(m, MIRROR_FAILED, d->uri, note_failure(rc));
    }
    folder_drop(m->root, d->fd);
}

/* Put it in the place of `local`, NULL: where nothing is. */
static void mirror_replace(struct mirror *m, const struct draft *d, const struct stat *local,
                           bool is_ours)
{
    struct stat st;
    int rc = fstat(d->fd, &st) < 0 ? TIDINGS_E_IO : 0;
    struct mirror_pending making = {d->path, d->uri, d->etag, &st, is_ours ? local : NULL};
    rc = rc == 0 ? mirror_state_begin(&m->state, &making) : rc;
    if (rc < 0) {
        mirror_tell(m, MIRROR_FAILED, d->uri, note_failure(rc));
        folder_drop(m->root, d->fd);
        return;
    }
    int errnum = folder_put(m->root, d->path, d->fd, local);
    if (errnum == 0) {
        mirror_state_done(&m->state, d->path);
        mirror_tell(m, local ? MIRROR_UPDATED : MIRROR_CREATED, d->uri, NULL);
        return;
    }
    struct mirrored *it = mirror_state_find(&m->state, d->path);
    if (it && !making.before) {
        mirror_state_remove(&m->state, it);
    }
    mirror_tell(m, errnum == EEXIST ? MIRROR_KEPT : MIRROR_FAILED, d->uri,
                errnum == EEXIST ? "it was changed here meanwhile" : strerror(errnum));
}

/* Put the content where it belongs. What is there is looked at now: reading took its time. */
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
        mirror_tell(m, MIRROR_KEPT, d->uri, it ? "it was changed here" : "it was there before");
        folder_drop(m->root, d->fd);
    } else if (is_there || make_parents(m, d->uri)) {
        mirror_replace(m, d, is_there ? &local : NULL, is_ours);
    } else {
        folder_drop(m->root, d->fd);
    }
}

/* Would the next one fail as well? Where nobody speaks MCP any more, HTTP's "not found" and
 * "denied" say nothing of the resource. */
static bool is_of_connection(struct tidings_client *client, int code)
{
    bool is_status = (code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED) &&
                     !tidings_client_last_error(client);
    return is_status || code == TIDINGS_E_IO || code == TIDINGS_E_CLOSED ||
           code == TIDINGS_E_CANCELLED || code == TIDINGS_E_NOMEM;
}

/* Is what cannot be read really not there? A server may say "not found" of what it may not read
 * itself, or does not show; one that can still describe it has it. */
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

/* Too large for a message, of a server that gives no parts: asking would break the connection. */
static void tell_too_large(struct mirror *m, const struct mirror_item *item)
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
    mirror_tell(m, MIRROR_FAILED, item->uri, reason);
}

/* It did not come. */
static int mirror_content_failed(struct mirror *m, const struct fetch *f,
                                 const struct mirror_item *item, struct tidings_error *err)
{
    if (f->errnum) {
        mirror_tell(m, MIRROR_FAILED, item->uri, strerror(f->errnum));
    } else if (is_of_connection(m->client, err->code)) {
        return err->code;
    } else if (err->code == TIDINGS_E_LIMIT && !tidings_client_last_error(m->client)) {
        m->is_broken = true;
        tell_too_large(m, item);
    } else {
        struct tidings_error why = *err;
        if (is_gone(m, f->uri, &why)) {
            mirror_remove(m, item->uri);
        } else {
            mirror_tell(m, MIRROR_FAILED, item->uri, why.text);
        }
    }
    return 0;
}

/* Read it and put it there. */
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

/* What reading it would bring, as far as can be told without. */
static void mirror_foretell(struct mirror *m, const struct mirrored *it,
                            const struct mirror_item *item, const struct stat *local)
{
    bool is_certain = !local || (it && item->etag[0] && strncmp(item->etag, "W/", 2) != 0);
    if (local && !(it && mirror_is_untouched(it, local)) &&
        (!m->forces || S_ISDIR(local->st_mode))) {
        mirror_tell(m, MIRROR_KEPT, item->uri, it ? "it was changed here" : "it was there before");
    } else {
        mirror_tell(m, local ? MIRROR_UPDATED : MIRROR_CREATED, item->uri,
                    is_certain ? NULL : "if its content differs, which only reading tells");
    }
}

/* May it be read, as far as can be told before? */
static bool is_readable(struct mirror *m, const struct mirror_item *item)
{
    return item->size < 0 || (uint64_t)item->size <= m->max_message || part_is_offered(m->client);
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
        mirror_mark_present(m, path); /* one that was let in before stays as it is */
    }
    struct mirrored *it = why ? NULL : mirror_state_find(&m->state, path);
    enum name_claim c = mirror_check_claim(m, it, item);
    if (why || c == CLAIM_TAKEN) {
        mirror_tell(m, MIRROR_REFUSED, item->uri, why ? why : taken);
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
    /* A weak etag may be that of two states, one right after the other. */
    bool is_known = it && errnum == 0 && item->etag[0] && strncmp(item->etag, "W/", 2) != 0 &&
                    strcmp(item->etag, it->etag) == 0 && mirror_is_latest(it, &st);
    int rc = 0;
    if (errnum != 0 && errnum != ENOENT && !is_blocked) {
        mirror_tell(m, MIRROR_FAILED, item->uri, strerror(errnum));
    } else if (!is_known && !is_readable(m, item)) {
        tell_too_large(m, item);
    } else if (!is_known && m->is_dry) {
        mirror_foretell(m, it, item, errnum == 0 ? &st : NULL);
    } else if (!is_known) {
        rc = mirror_update_content(m, path, item, err);
    }
    mirror_mark_present(m, path);
    return rc;
}
