/* SPDX-License-Identifier: MIT */
#include "mirror.h"

#include <errno.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "folder.h"
#include "local_name.h"

static void tell(struct mirror *m, enum mirror_deed deed, struct tidings_str uri,
                 const char *reason)
{
    m->tell(m->user, deed, uri, reason);
}

/* ---- removing -------------------------------------------------------------------------------- */

static void remove_one(struct mirror *m, struct mirrored *it)
{
    struct stat st;
    int errnum = folder_stat(m->root, it->path, &st);
    struct tidings_str uri = tidings_str(it->uri);
    if (errnum == 0 && !it->is_directory && !mirror_is_untouched(it, &st) && !m->forces) {
        tell(m, MIRROR_KEPT, uri, "the server removed it, but it was changed here");
    } else if (errnum == 0) {
        errnum = folder_remove(m->root, it->path, it->is_directory);
        bool is_used = it->is_directory && (errnum == ENOTEMPTY || errnum == EEXIST);
        if (errnum == 0) {
            tell(m, MIRROR_REMOVED, uri, NULL);
        } else if (!is_used) {
            tell(m, MIRROR_FAILED, uri, strerror(errnum));
        }
    }
    mirror_drop(&m->state, it);
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

/* All that were not met in this pass, or all at and below `path`. */
static void remove_all(struct mirror *m, const char *path)
{
    struct mirror_state *s = &m->state;
    struct mirrored **all = calloc(s->count + 1, sizeof(struct mirrored *));
    size_t count = 0;
    for (size_t i = 0; all && i < MIRROR_BUCKETS; i++) {
        for (struct mirrored *it = s->buckets[i]; it; it = it->next) {
            if (path ? is_within(it, path) : it->pass != m->pass) {
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

void mirror_sweep(struct mirror *m)
{
    remove_all(m, NULL);
}

void mirror_hold(struct mirror *m, struct tidings_str uri, const char *why)
{
    char path[LOCAL_NAME_MAX];
    char reason[sizeof(((struct tidings_error *)0)->text) + 64];
    if (local_name(tidings_str(m->state.base), uri, path)) {
        return; /* nothing of it is here */
    }
    for (size_t i = 0; i < MIRROR_BUCKETS; i++) {
        for (struct mirrored *it = m->state.buckets[i]; it; it = it->next) {
            it->pass = is_within(it, path) ? m->pass : it->pass;
        }
    }
    snprintf(reason, sizeof(reason),
             "what is below it stays as it was, since it cannot be listed: %s", why);
    tell(m, MIRROR_FAILED, uri, reason);
}

void mirror_remove(struct mirror *m, struct tidings_str uri)
{
    char path[LOCAL_NAME_MAX];
    if (!local_name(tidings_str(m->state.base), uri, path)) {
        remove_all(m, path);
    }
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void met(struct mirror *m, const char *path)
{
    struct mirrored *it = mirror_find(&m->state, path);
    if (it) {
        it->pass = m->pass;
    }
}

/* False: it cannot be, which was told. */
static bool make_directory(struct mirror *m, struct tidings_str uri)
{
    char path[LOCAL_NAME_MAX];
    struct stat st;
    const char *why = local_name(tidings_str(m->state.base), uri, path);
    if (why) {
        tell(m, MIRROR_REFUSED, uri, why);
        return false;
    }
    struct mirrored *it = mirror_find(&m->state, path);
    if (it && !it->is_directory) {
        remove_one(m, it); /* it was a file */
    }
    int errnum = folder_make(m->root, path);
    if (errnum == 0) {
        mirror_put(&m->state, path, uri, "", NULL);
        tell(m, MIRROR_CREATED, uri, NULL);
    } else if (errnum == EEXIST && folder_stat(m->root, path, &st) == 0 && S_ISDIR(st.st_mode)) {
        errnum = 0;
    }
    met(m, path);
    if (errnum) {
        tell(m, errnum == EEXIST ? MIRROR_KEPT : MIRROR_FAILED, uri,
             errnum == EEXIST ? "something else is there, and no directory" : strerror(errnum));
    }
    return errnum == 0;
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

/* Put the content where it belongs; `local` is what is there, or NULL. */
static void put(struct mirror *m, const char *path, struct tidings_str uri,
                struct tidings_str bytes, const char *etag, const struct stat *local)
{
    const struct mirrored *it = mirror_find(&m->state, path);
    bool is_ours = !local || (it && mirror_is_untouched(it, local));
    bool is_same = local && folder_holds(m->root, path, bytes);
    struct stat st = {0};
    if (is_same) {
        st = *local;
    } else if (!is_ours && (!m->forces || S_ISDIR(local->st_mode))) {
        tell(m, MIRROR_KEPT, uri, it ? "it was changed here" : "it was there before");
        return;
    } else {
        int errnum = make_parents(m, uri) ? folder_write(m->root, path, bytes, &st) : -1;
        if (errnum != 0) {
            if (errnum > 0) {
                tell(m, MIRROR_FAILED, uri, strerror(errnum));
            }
            return;
        }
        tell(m, local ? MIRROR_UPDATED : MIRROR_CREATED, uri, NULL);
    }
    int rc = mirror_put(&m->state, path, uri, etag, &st);
    if (rc < 0) {
        tell(m, MIRROR_FAILED, uri,
             rc == TIDINGS_E_LIMIT ? "there are too many files" : "its state cannot be written");
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

/* Read it and put it there. */
static int fetch(struct mirror *m, const char *path, struct tidings_str uri,
                 const struct stat *local, struct tidings_error *err)
{
    struct tidings_error why = {0};
    char *name = strndup(uri.ptr, uri.len);
    char *result = name ? tidings_client_read(m->client, name, &why) : NULL;
    if (!result && (!name || is_of_connection(m->client, why.code))) {
        *err = why;
        free(name);
        return name ? why.code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    bool is_over = !result && is_gone(m, name, &why);
    free(name);
    if (is_over) {
        mirror_remove(m, uri);
        return 0;
    }
    if (!result) {
        tell(m, MIRROR_FAILED, uri, why.text);
        return 0;
    }
    struct tidings_str all = tidings_str(result);
    size_t len = 0;
    char *etag = tidings_json_string(all, "/contents/0/_meta/dev.tidings~1etag");
    char *bytes = tidings_json_text(all, "/contents/0/text", &len);
    if (!bytes) {
        bytes = tidings_json_bytes(all, "/contents/0/blob", &len);
    }
    if (bytes) {
        put(m, path, uri, tidings_strn(bytes, len), etag ? etag : "", local);
    } else {
        tell(m, MIRROR_FAILED, uri, "it has no content that can be kept");
    }
    tidings_free(bytes);
    tidings_free(etag);
    tidings_free(result);
    return 0;
}

int mirror_take(struct mirror *m, struct tidings_str uri, const char *etag, bool is_directory,
                struct tidings_error *err)
{
    char path[LOCAL_NAME_MAX];
    struct stat st;
    const char *why = local_name(tidings_str(m->state.base), uri, path);
    struct mirrored *it = why ? NULL : mirror_find(&m->state, path);
    if (it && it->pass == m->pass && m->pass > 0 && !tidings_str_eq(tidings_str(it->uri), uri) &&
        it->is_directory == is_directory) {
        why = "another resource has the same name";
    }
    if (why) {
        tell(m, MIRROR_REFUSED, uri, why);
        return 0;
    }
    if (is_directory) {
        make_directory(m, uri);
        return 0;
    }
    if (it && it->is_directory) {
        remove_all(m, path); /* it was a directory */
        it = NULL;
    }
    int errnum = folder_stat(m->root, path, &st);
    if (errnum != 0 && errnum != ENOENT) {
        tell(m, MIRROR_KEPT, uri,
             errnum == ENOTDIR || errnum == ELOOP ? "what should be its directory is none"
                                                  : strerror(errnum));
        return 0;
    }
    /* A weak etag may be that of two states, one right after the other. */
    bool is_known = it && errnum == 0 && etag[0] && strncmp(etag, "W/", 2) != 0 &&
                    strcmp(etag, it->etag) == 0 && mirror_is_untouched(it, &st);
    int rc = is_known ? 0 : fetch(m, path, uri, errnum == 0 ? &st : NULL, err);
    met(m, path);
    return rc;
}
