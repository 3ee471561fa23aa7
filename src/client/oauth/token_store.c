/* SPDX-License-Identifier: MIT
 *
 * Finds, adds and removes tokens, and reads and writes their file.
 */
#include "client/oauth/token_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/oauth/documents.h"
#include "formats/json_write.h"
#include "formats/url.h"

int token_store_init(struct token_store *s, const char *path)
{
    *s = (struct token_store){.lock = -1};
    s->path = path ? str_dup(tidings_str(path)) : NULL;
    return path && !s->path ? TIDINGS_E_NOMEM : 0;
}

static void token_store_clear(struct token_store *s)
{
    for (size_t i = 0; i < s->count; i++) {
        token_deinit(&s->tokens[i]);
    }
    mem_free(s->tokens);
    s->tokens = NULL;
    s->count = 0;
}

void token_store_deinit(struct token_store *s)
{
    token_store_unlock(s);
    token_store_clear(s);
    mem_free(s->path);
    s->path = NULL;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

struct token *token_store_find(struct token_store *s, const char *server, const char *issuer)
{
    struct token *best = NULL;
    struct url asked, resource;
    if (!url_read(tidings_str(server), &asked)) {
        return NULL;
    }
    for (size_t i = 0; i < s->count; i++) {
        struct token *t = &s->tokens[i];
        bool is_fit = url_read(tidings_str(t->resource), &resource) &&
                      url_covers(&resource, &asked) && (!issuer || strcmp(t->issuer, issuer) == 0);
        if (is_fit && (!best || strlen(t->resource) >= strlen(best->resource))) {
            best = t;
        }
    }
    return best;
}

/* Takes `t`. */
static int token_store_take(struct token_store *s, struct token *t, struct tidings_error *err)
{
    if (s->count >= TOKEN_STORE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u tokens: log out somewhere",
                            TOKEN_STORE_MAX);
    }
    struct token *more = mem_alloc((s->count + 1) * sizeof(*more));
    if (!more) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (s->count > 0) {
        memcpy(more, s->tokens, s->count * sizeof(*more));
    }
    more[s->count++] = *t;
    *t = (struct token){0};
    mem_free(s->tokens);
    s->tokens = more;
    return 0;
}

int token_store_put(struct token_store *s, const struct token *t, struct tidings_error *err)
{
    struct token copy = {0};
    if (token_copy(&copy, t) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < s->count; i++) {
        struct token *before = &s->tokens[i];
        if (strcmp(before->issuer, t->issuer) == 0 && strcmp(before->resource, t->resource) == 0) {
            token_store_remove(s, before);
            break;
        }
    }
    int rc = token_store_take(s, &copy, err);
    token_deinit(&copy);
    return rc;
}

void token_store_remove(struct token_store *s, struct token *t)
{
    size_t at = (size_t)(t - s->tokens);
    token_deinit(t);
    memmove(t, t + 1, (s->count - at - 1) * sizeof(*t));
    s->count--;
}

/* ---- text ------------------------------------------------------------------------------------ */

static int token_store_read_one(const struct json *item, struct token *t, struct tidings_error *err)
{
    const struct {
        const char *name;
        char **at;
        size_t max;
        bool is_needed;
    } texts[] = {
        {"resource", &t->resource, URL_MAX, true},
        {"issuer", &t->issuer, URL_MAX, true},
        {"token_endpoint", &t->token_endpoint, URL_MAX, true},
        {"revocation_endpoint", &t->revocation_endpoint, URL_MAX, false},
        {"client_id", &t->client_id, TOKEN_TEXT_MAX, true},
        {"client_secret", &t->client_secret, TOKEN_TEXT_MAX, false},
        {"access_token", &t->access, TOKEN_TEXT_MAX, true},
        {"refresh_token", &t->refresh, TOKEN_TEXT_MAX, false},
        {"scope", &t->scope, SCOPE_MAX, true},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == 0; i++) {
        rc = document_text(item, texts[i].name, texts[i].max, texts[i].at, err);
        if (rc == 0 && texts[i].is_needed && !*texts[i].at) {
            rc = tidings_fail(err, TIDINGS_E_PARSE, "'%s' is missing", texts[i].name);
        }
    }
    struct json *key = jv_get(item, "key"); /* of several lines */
    if (rc == 0 && jv_is(key, JV_STRING) && !(t->key = str_dup(jv_str(key)))) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    t->client_auth = client_auth_find(jv_str(jv_get(item, "client_auth")));
    t->expires_ms = jv_int(jv_get(item, "expires_ms"));
    t->life_ms = jv_int(jv_get(item, "life_ms"));
    t->is_bound = t->key != NULL;
    return rc;
}

int token_store_parse(struct token_store *s, struct tidings_str text, struct tidings_error *err)
{
    struct json *root = NULL;
    int rc = jv_parse(text, 8, &root, err);
    token_store_clear(s);
    struct json *list = jv_get(root, "tokens");
    if (rc == 0 && !jv_is(list, JV_ARRAY)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "no list of tokens in it");
    }
    for (size_t i = 0; rc == 0 && i < jv_count(list); i++) {
        struct token t = {0};
        rc = token_store_read_one(jv_at(list, i), &t, err);
        if (rc == 0) {
            rc = token_store_take(s, &t, err);
        }
        token_deinit(&t);
    }
    jv_unref_secret(root);
    return rc;
}

static void token_store_put_text(struct jw *w, struct tidings_str name, const char *text)
{
    if (text) {
        jw_put_string(w, name, tidings_str(text));
    }
}

static void token_store_write(const struct token_store *s, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_key(&w, STR("tokens"));
    jw_begin_array(&w);
    for (size_t i = 0; i < s->count; i++) {
        const struct token *t = &s->tokens[i];
        jw_begin_object(&w);
        token_store_put_text(&w, STR("resource"), t->resource);
        token_store_put_text(&w, STR("issuer"), t->issuer);
        token_store_put_text(&w, STR("token_endpoint"), t->token_endpoint);
        token_store_put_text(&w, STR("revocation_endpoint"), t->revocation_endpoint);
        token_store_put_text(&w, STR("client_id"), t->client_id);
        token_store_put_text(&w, STR("client_secret"), t->client_secret);
        token_store_put_text(&w, STR("client_auth"), client_auth_name(t->client_auth));
        token_store_put_text(&w, STR("access_token"), t->access);
        token_store_put_text(&w, STR("refresh_token"), t->refresh);
        token_store_put_text(&w, STR("scope"), t->scope);
        token_store_put_text(&w, STR("key"), t->is_bound ? t->key : NULL);
        jw_put_integer(&w, STR("expires_ms"), t->expires_ms);
        jw_put_integer(&w, STR("life_ms"), t->life_ms);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    buf_putc(out, '\n');
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Checks the open file, because its name can be exchanged. */
static int token_store_check(int fd, struct tidings_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return error_errno(err, errno, "stat");
    }
    if (!S_ISREG(st.st_mode)) {
        return tidings_fail(err, TIDINGS_E_DENIED, "not a regular file");
    }
    if (st.st_uid != geteuid()) {
        return tidings_fail(err, TIDINGS_E_DENIED, "it belongs to another user (number %u)",
                            (unsigned)st.st_uid);
    }
    if (st.st_mode & 077) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "others can read or write it (mode %04o): its tokens are not used; run "
                            "'chmod 600' and log in again, because other users may have read them",
                            (unsigned)st.st_mode & 07777);
    }
    return 0;
}

static int token_store_read_fd(int fd, struct buf *out, struct tidings_error *err)
{
    char piece[4096];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_errno(err, errno, "read");
        }
        if (n == 0) {
            explicit_bzero(piece, sizeof(piece));
            return 0;
        }
        if (buf_put(out, piece, (size_t)n) < 0) {
            return tidings_fail(err, out->failed, "larger than %u bytes", TOKEN_STORE_BYTES);
        }
    }
}

int token_store_load(struct token_store *s, struct tidings_error *err)
{
    struct buf text;
    if (!s->path) {
        return 0;
    }
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        int errnum = errno;
        token_store_clear(s);
        return errnum == ENOENT ? 0 : error_errno(err, errnum, "open '%s'", s->path);
    }
    buf_init_secret(&text, TOKEN_STORE_BYTES);
    int rc = token_store_check(fd, err);
    if (rc == 0) {
        rc = token_store_read_fd(fd, &text, err);
    }
    close(fd);
    if (rc == 0) {
        rc = token_store_parse(s, buf_str(&text), err);
    }
    buf_deinit(&text);
    return rc < 0 ? error_wrap(err, rc, "'%s'", s->path) : 0;
}

int token_store_lock(struct token_store *s, struct tidings_error *err)
{
    char name[4096];
    if (!s->path || s->lock >= 0) {
        return 1;
    }
    int n = snprintf(name, sizeof(name), "%s.lock", s->path);
    if (n < 0 || (size_t)n >= sizeof(name)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path of the token file is too long");
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return error_errno(err, errno, "open '%s'", name);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;
        close(fd);
        return errnum == EWOULDBLOCK ? 0 : error_errno(err, errnum, "lock '%s'", name);
    }
    s->lock = fd;
    return 1;
}

void token_store_unlock(struct token_store *s)
{
    if (s->lock >= 0) {
        close(s->lock);
        s->lock = -1;
    }
}

static int token_store_write_fd(int fd, struct tidings_str text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        text = str_skip(text, n > 0 ? (size_t)n : 0);
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int token_store_save(struct token_store *s, struct tidings_error *err)
{
    char beside[4096];
    struct buf text;
    if (!s->path) {
        return 0;
    }
    int n = snprintf(beside, sizeof(beside), "%s.new", s->path);
    if (n < 0 || (size_t)n >= sizeof(beside)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the path of the token file is too long");
    }
    buf_init_secret(&text, TOKEN_STORE_BYTES);
    token_store_write(s, &text);
    int rc =
        text.failed ? tidings_fail(err, text.failed, "the tokens are too large for a file") : 0;
    (void)unlink(beside); /* left by a process that died; this one holds the lock */
    int fd =
        rc == 0 ? open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (rc == 0 && fd < 0) {
        rc = error_errno(err, errno, "create '%s'", beside);
    }
    if (rc == 0) {
        int failed = token_store_write_fd(fd, buf_str(&text));
        failed = failed == 0 && rename(beside, s->path) < 0 ? -errno : failed;
        rc = failed < 0 ? error_errno(err, -failed, "write '%s'", s->path) : 0;
        if (rc < 0) {
            (void)unlink(beside); /* no second place with tokens in it */
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    buf_deinit(&text);
    return rc;
}
