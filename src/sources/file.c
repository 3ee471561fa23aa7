/* SPDX-License-Identifier: MIT
 *
 * The operations of the file provider: configuration, open and close, stat, and the hand-over to
 * the parts that read, list and watch. It has no other logic.
 */
#include "sources/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "formats/json.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "formats/yaml.h"
#include "sources/file_internal.h"
#include "sources/file_path.h"
#include "sources/file_watch.h"
#include "sources/mime.h"

/* -------------------------------------------------------------------------------------------------
 * Queries over files: `file:///logs?pattern=*.error.log` covers matching files below the path. A
 * pattern without a slash is compared with names at any depth, a pattern with a slash with the path
 * below. `file:///query?pattern=*.txt` covers every mount, even if a mount could have a directory
 * of that name: for that directory, add a slash (`file:///query/?pattern=*.txt`). To select a mount
 * at or below `file:///query`, use its path.
 */

#define EVERYWHERE "/query"

static int bad_query(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "a query over files is '?pattern=GLOB', for example '?pattern=*.log'");
}

static int provider_file_query(struct tidings_provider *p, struct tidings_str uri, char *glob,
                               size_t *len, struct tidings_error *err)
{
    struct tidings_str query, pattern;
    struct tidings_str base = str_cut(uri, '?', &query, NULL);
    if (!str_starts(query, STR("pattern=")) || str_find(query, '&') >= 0) {
        return bad_query(err);
    }
    struct buf decoded;
    buf_init(&decoded, URI_MAX);
    int rc = uri_decode(&decoded, str_skip(query, 8), err);
    pattern = buf_str(&decoded);
    if (rc == 0 && pattern.len == 0) {
        rc = bad_query(err);
    }
    if (rc == 0) {
        rc = glob_check(pattern, err);
    }
    if (rc == 0) {
        struct uri_parts parts;
        uri_split(base, &parts);
        bool everywhere =
            str_eq(parts.path, STR(EVERYWHERE)) && !uri_is_within(tidings_provider_prefix(p), base);
        bool slash = base.len > 0 && base.ptr[base.len - 1] == '/';
        bool deep = str_find(pattern, '/') < 0;
        int n = everywhere ? snprintf(glob, *len, "%.*s://**/%.*s", STR_ARG(parts.scheme),
                                      STR_ARG(pattern))
                           : snprintf(glob, *len, "%.*s%s%s%.*s", STR_ARG(base), slash ? "" : "/",
                                      deep ? "**/" : "", STR_ARG(pattern));
        if (n < 0 || (size_t)n >= *len) {
            rc = tidings_fail(err, TIDINGS_E_LIMIT, "the query is too long");
        } else {
            *len = (size_t)n;
        }
    }
    buf_deinit(&decoded);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * The row of a SKILL.md in a mount of skills (a prefix of the scheme `skill`): it has the name and
 * description in the file's front matter (SEP-2640). A file that is unreadable, or has no valid
 * front matter, keeps its normal row.
 */

/* Reads the beginning of the file, up to the size limit of front matter. */
static ssize_t file_skill_read(int fd, char *bytes)
{
    size_t got = 0;
    ssize_t n = 1;
    while (n > 0 && got < FRONT_MATTER_MAX) {
        n = read(fd, bytes + got, FRONT_MATTER_MAX - got);
        got += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? -1 : (ssize_t)got;
}

struct json *file_skill_describe(const struct file_provider *f, int dir, const char *path,
                                 struct tidings_resource *row)
{
    struct tidings_str prefix = tidings_strn(f->root.prefix, f->root.prefix_len);
    struct json *front = NULL;
    if (row->listable || !str_starts(prefix, STR(SKILL_SCHEME ":")) ||
        !str_ends(row->uri, STR("/" SKILL_FILE))) {
        return NULL;
    }
    int fd = file_open_beneath(&f->root, dir, path, O_RDONLY | O_NONBLOCK, NULL);
    char *bytes = fd >= 0 ? mem_alloc(FRONT_MATTER_MAX) : NULL;
    ssize_t got = bytes ? file_skill_read(fd, bytes) : -1;
    if (got < 0 || front_matter_parse(tidings_strn(bytes, (size_t)got), &front, NULL) < 0) {
        front = NULL;
    }
    mem_free(bytes);
    if (fd >= 0) {
        close(fd);
    }
    struct tidings_str name = jv_str(jv_get(front, "name"));
    row->name = name.len > 0 ? name : row->name;
    row->description = jv_str(jv_get(front, "description"));
    return front;
}

/* ---------------------------------------------------------------------------------------------- */

#define MAX_EXCLUDES 256u
#define POOL_THREADS 2u
#define POOL_MAX_WAITING 1024u

/* ---- configuration --------------------------------------------------------------------------- */

struct number_key {
    const char *key;
    size_t offset; /* in struct file_settings */
    int64_t fallback, min, max;
};

#define NUMBER(key, field, fallback, min, max)                                                     \
    {                                                                                              \
        key, offsetof(struct file_settings, field), fallback, min, max                             \
    }

static const struct number_key number_keys[] = {
    NUMBER("maxRead", max_read, 16777216, 1, 1073741824),
    NUMBER("maxWatches", max_watches, 100000, 0, 10000000),
    NUMBER("quietMs", quiet_ms, 10, 0, 10000),
    NUMBER("modifyMs", modify_ms, 200, 0, 600000),
    NUMBER("lingerMs", linger_ms, 60000, 0, 86400000),
    NUMBER("pollMs", poll_ms, 2000, 10, 3600000),
    NUMBER("keptNodes", kept_nodes, 1000000, 0, 16000000),
};

#define NUMBER_KEYS (sizeof number_keys / sizeof number_keys[0])

static int64_t *file_setting(struct file_settings *s, const struct number_key *row)
{
    return (int64_t *)(void *)((char *)s + row->offset);
}

static int file_take_number(struct file_settings *s, const struct number_key *row,
                            const struct json *value, struct tidings_error *err)
{
    int64_t n = jv_int(value);
    if (!jv_is(value, JV_INT) || n < row->min || n > row->max) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%s' must be a whole number from %lld to %lld",
                            row->key, (long long)row->min, (long long)row->max);
    }
    *file_setting(s, row) = n;
    return 0;
}

static int file_take_excludes(struct file_root *root, const struct json *value,
                              struct tidings_error *err)
{
    size_t count = jv_count(value);
    if (!jv_is(value, JV_ARRAY) || count > MAX_EXCLUDES) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'exclude' must be an array of at most %u patterns such as \"*.tmp\"",
                            MAX_EXCLUDES);
    }
    root->exclude = mem_zalloc((count + 1) * sizeof *root->exclude);
    for (size_t i = 0; root->exclude && i < count; i++) {
        struct tidings_str pattern = jv_str(jv_at(value, i));
        while (pattern.len > 1 && pattern.ptr[pattern.len - 1] == '/') {
            pattern.len--; /* "build/": excludes the directory and its content */
        }
        int rc = jv_is(jv_at(value, i), JV_STRING)
                     ? glob_check(pattern, err)
                     : tidings_fail(err, TIDINGS_E_INVALID, "a pattern must be a string");
        if (rc < 0) {
            return error_wrap(err, rc, "'exclude'");
        }
        char *copy = str_dup(pattern);
        if (!copy) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        root->exclude[root->exclude_count++] = tidings_strn(copy, pattern.len);
    }
    return root->exclude ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static int take_root(struct file_root *root, const struct json *value, struct tidings_error *err)
{
    struct tidings_str text = jv_str(value);
    if (text.len == 0 || memchr(text.ptr, '\0', text.len)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'root' must be the path of a directory, as a string");
    }
    return file_root_start(root, text, err);
}

static int file_take_member(struct file_provider *f, struct tidings_str key, struct json *value,
                            struct tidings_error *err)
{
    for (size_t i = 0; i < NUMBER_KEYS; i++) {
        if (str_eq(key, tidings_str(number_keys[i].key))) {
            return file_take_number(&f->settings, &number_keys[i], value, err);
        }
    }
    if (str_eq(key, STR("root"))) {
        return take_root(&f->root, value, err);
    }
    if (str_eq(key, STR("exclude"))) {
        return file_take_excludes(&f->root, value, err);
    }
    if (str_eq(key, STR("excludeDefaults"))) {
        if (!jv_is(value, JV_TRUE) && !jv_is(value, JV_FALSE)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "'excludeDefaults' must be true or false");
        }
        f->root.excludes_git = jv_is_true(value);
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "unknown key '%.*s'; accepted: root, exclude, excludeDefaults, maxRead, "
                        "maxWatches, quietMs, modifyMs, lingerMs, pollMs, keptNodes",
                        STR_ARG(key));
}

static int take_config(struct file_provider *f, struct tidings_str config,
                       struct tidings_error *err)
{
    for (size_t i = 0; i < NUMBER_KEYS; i++) {
        *file_setting(&f->settings, &number_keys[i]) = number_keys[i].fallback;
    }
    f->root.excludes_git = true;
    struct json *doc = NULL;
    int rc = jv_parse(config, 4, &doc, err);
    if (rc < 0) {
        return error_wrap(err, rc, "configuration");
    }
    if (!jv_is(doc, JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "the configuration must be an object such as {\"root\": \"/srv/data\"}");
    }
    struct tidings_str key;
    struct json *value;
    void *position = NULL;
    while (rc == 0 && (position = jv_next(doc, position, &key, &value))) {
        rc = file_take_member(f, key, value, err);
    }
    jv_unref(doc);
    if (rc == 0 && f->root.fd < 0) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "'root' is missing: the directory to serve");
    }
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int file_take_prefix(struct file_root *root, struct tidings_str prefix)
{
    struct buf text;
    buf_init(&text, prefix.len + 1);
    buf_puts(&text, prefix);
    if (!str_ends(prefix, STR("/"))) {
        buf_putc(&text, '/');
    }
    if (text.failed) {
        buf_deinit(&text);
        return TIDINGS_E_NOMEM;
    }
    root->prefix = buf_detach(&text, &root->prefix_len);
    return 0;
}

static int provider_file_open(struct tidings_provider *p, struct tidings_str config,
                              struct tidings_error *err)
{
    struct file_provider *f = tidings_provider_state(p);
    f->is_open = true;
    f->root.fd = -1;
    int rc = take_config(f, config, err);
    if (rc < 0) {
        return rc;
    }
    struct file_info info;
    rc = file_stat(&f->root, "", &info, NULL);
    if (rc == -ENOSYS) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "serving files needs the system call openat2 (Linux 5.6 or later)");
    }
    if (rc < 0) {
        return error_errno(err, -rc, "open root");
    }
    f->mime = mime_load(MIME_GLOBS_PATH);
    if (!f->mime || file_take_prefix(&f->root, tidings_provider_prefix(p)) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    f->pool = pool_create(POOL_THREADS, POOL_MAX_WAITING, err);
    f->readers = f->pool ? pool_create(POOL_THREADS, SIZE_MAX, err) : NULL; /* one for each file */
    return f->readers ? 0 : TIDINGS_E_NOMEM;
}

static void provider_file_close(struct tidings_provider *p)
{
    struct file_provider *f = tidings_provider_state(p);
    if (!f->is_open) {
        return;
    }
    file_watch_destroy(f->watch);
    pool_destroy(f->pool);
    pool_destroy(f->readers);
    mime_destroy(f->mime);
    for (size_t i = 0; i < f->root.exclude_count; i++) {
        mem_free((void *)(uintptr_t)f->root.exclude[i].ptr);
    }
    mem_free(f->root.exclude);
    mem_free(f->root.prefix);
    file_root_close(&f->root);
    *f = (struct file_provider){0};
}

/* ---- describing ------------------------------------------------------------------------------ */

bool file_policy_allows(const struct file_provider *f, const struct file_policy *policy,
                        const struct buf *target, bool is_directory)
{
    struct buf uri;
    if (target->len == 0) {
        return true;
    }
    buf_init(&uri, f->root.prefix_len + FILE_MAX_ENCODED);
    file_target_uri(&f->root, target, is_directory, &uri);
    bool may = !uri.failed && policy->may(policy->request, buf_str(&uri));
    buf_deinit(&uri);
    return may;
}

int file_resolve(const struct file_provider *f, struct tidings_str uri, struct buf *path,
                 struct file_info *ret, const struct file_policy *policy, struct tidings_error *err)
{
    bool has_slash;
    struct buf target;
    int rc = file_path_from_uri(&f->root, uri, path, &has_slash, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&target, FILE_WHERE_SIZE + 1);
    rc = file_stat(&f->root, path->ptr, ret, &target);
    if (rc == 0 && !file_policy_allows(f, policy, &target, file_kind(ret) == FILE_DIRECTORY)) {
        rc = -ENOENT;
    }
    buf_deinit(&target);
    if (rc < 0) {
        return file_refuse(err, rc, uri);
    }
    switch (file_kind(ret)) {
    case FILE_REGULAR:
        return has_slash ? tidings_fail(err, TIDINGS_E_NOTFOUND,
                                        "no such directory: '%.*s' is a file and has no "
                                        "trailing '/'",
                                        STR_ARG(uri))
                         : 0;
    case FILE_DIRECTORY:
        return 0;
    case FILE_OTHER:
    default:
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "'%.*s' is a device, FIFO or socket; only regular files and "
                            "directories are served",
                            STR_ARG(uri));
    }
}

/* Returns the last segment of `uri`, ignoring a trailing '/'. */
static struct tidings_str file_last_segment(struct tidings_str uri)
{
    if (uri.len > 1 && uri.ptr[uri.len - 1] == '/') {
        uri.len--;
    }
    const char *slash = memrchr(uri.ptr, '/', uri.len);
    struct tidings_str segment = slash ? str_skip(uri, (size_t)(slash - uri.ptr) + 1) : uri;
    return segment.len > 0 ? segment : STR("/");
}

bool file_describe(const struct file_provider *f, struct tidings_str uri, struct tidings_str name,
                   const struct file_info *info, char etag[FILE_ETAG_SIZE],
                   struct tidings_resource *row)
{
    *row = (struct tidings_resource){0};
    file_etag(&info->st, etag);
    row->uri = uri;
    row->name = name.len > 0 && str_is_utf8(name) ? name : file_last_segment(uri);
    row->etag = tidings_str(etag);
    row->modified_ms = file_modified_ms(&info->st);
    if (file_kind(info) == FILE_DIRECTORY) {
        row->mime_type = STR("inode/directory");
        row->listable = true;
        return true;
    }
    row->size = info->st.st_size;
    row->has_size = true;
    row->mime_type = mime_find(f->mime, name);
    bool is_known = row->mime_type.len > 0;
    if (!is_known) {
        row->mime_type = STR("application/octet-stream");
    }
    return is_known;
}

static bool file_may_show(const void *stat, struct tidings_str uri)
{
    return tidings_stat_shows(stat, uri);
}

static void provider_file_stat(struct tidings_provider *p, struct tidings_stat *stat,
                               struct tidings_str uri)
{
    const struct file_provider *f = tidings_provider_state(p);
    struct tidings_error err = {0};
    struct tidings_resource row;
    struct file_info info;
    char etag[FILE_ETAG_SIZE];
    struct buf path, spelled;
    struct json *front = NULL;
    buf_init(&path, FILE_MAX_PATH);
    buf_init(&spelled, f->root.prefix_len + FILE_MAX_ENCODED);
    file_root_follow(&f->root);
    const struct file_policy policy = {file_may_show, stat};
    int rc = file_resolve(f, uri, &path, &info, &policy, &err);
    if (rc == 0) {
        struct tidings_str name = buf_str(&path);
        const char *slash = memrchr(name.ptr, '/', name.len);
        name = slash ? str_skip(name, (size_t)(slash - name.ptr) + 1) : name;
        file_path_to_uri(&f->root, buf_str(&path), file_kind(&info) == FILE_DIRECTORY, &spelled);
        file_describe(f, buf_str(&spelled), name, &info, etag, &row);
        front = file_skill_describe(f, f->root.fd, path.ptr, &row);
        if (spelled.failed) {
            rc = tidings_fail(&err, spelled.failed, "the URI is too long");
        }
    }
    tidings_stat_done(stat, rc, rc == 0 ? &row : NULL, &err);
    jv_unref(front);
    buf_deinit(&path);
    buf_deinit(&spelled);
}

/* ---- watching -------------------------------------------------------------------------------- */

static void provider_file_watch(struct tidings_provider *p, struct tidings_watch *watch,
                                struct tidings_str uri)
{
    struct file_provider *f = tidings_provider_state(p);
    struct tidings_error err = {0};
    struct buf path;
    bool is_tree;
    buf_init(&path, FILE_MAX_PATH);
    int rc = file_path_from_uri(&f->root, uri, &path, &is_tree, &err);
    if (rc == 0 && !f->watch) {
        rc = file_watch_create(p, &f->root, &f->settings, f->keeping, &f->watch, &err);
    }
    if (rc == 0) {
        rc = file_watch_add(f->watch, buf_str(&path), is_tree, watch, &err);
    }
    buf_deinit(&path);
    if (rc < 0) {
        tidings_watch_done(watch, rc, &err);
    }
}

static void provider_file_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct file_provider *f = tidings_provider_state(p);
    struct buf path;
    bool is_tree;
    buf_init(&path, FILE_MAX_PATH);
    if (f->watch && file_path_from_uri(&f->root, uri, &path, &is_tree, NULL) == 0) {
        file_watch_remove(f->watch, buf_str(&path), is_tree);
    }
    buf_deinit(&path);
}

/* ---- what outlives the program --------------------------------------------------------------- */

void provider_file_keep(struct tidings_provider *provider, struct file_keeping *keeping)
{
    struct file_provider *f = tidings_provider_state(provider);
    f->keeping = keeping;
}

void provider_file_identify(struct tidings_provider *provider, struct buf *out)
{
    const struct file_provider *f = tidings_provider_state(provider);
    buf_puts(out, tidings_str(f->root.where));
    buf_puts(out, f->root.excludes_git ? STR("\n.git") : STR_EMPTY);
    for (size_t i = 0; i < f->root.exclude_count; i++) {
        buf_putf(out, "\n%zu:", f->root.exclude[i].len);
        buf_puts(out, f->root.exclude[i]);
    }
}

void provider_file_drain(struct tidings_provider *provider)
{
    struct file_provider *f = tidings_provider_state(provider);
    if (f->watch) {
        file_watch_drain(f->watch);
    }
}

struct file_chunk *provider_file_unsaved(struct tidings_provider *provider)
{
    struct file_provider *f = tidings_provider_state(provider);
    return f->watch ? file_watch_unsaved(f->watch) : NULL;
}

struct mailbox *provider_file_mailbox(struct tidings_provider *provider)
{
    struct file_provider *f = tidings_provider_state(provider);
    return f->watch ? file_watch_mailbox(f->watch) : NULL;
}

static const struct tidings_semantics file_semantics[] = {
    {TIDINGS_FORM_RESOURCE, "file:///{+path}",
     "that file; of a directory, every file and directory below it"},
    {TIDINGS_FORM_QUERY, "file:///{+directory}?pattern={glob}",
     "matching files below the directory; a glob without '/' is compared with names at any depth"},
    {TIDINGS_FORM_QUERY, "file:///query?pattern={glob}",
     "matching files below any mounted directory"},
    {TIDINGS_FORM_CONTAINER, "file:///{+directory}/",
     "every file and directory below it, whether it exists yet or not"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

const struct tidings_provider_ops provider_file_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "file",
    .size = sizeof(struct file_provider),
    .open = provider_file_open,
    .read = provider_file_read,
    .list = provider_file_list,
    .stat = provider_file_stat,
    .children = provider_file_children,
    .complete = provider_file_complete,
    .watch = provider_file_watch,
    .unwatch = provider_file_unwatch,
    .close = provider_file_close,
    .query = provider_file_query,
    .semantics = file_semantics,
};
