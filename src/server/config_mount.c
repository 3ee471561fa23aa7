/* SPDX-License-Identifier: MIT
 *
 * Mounts of the configuration: a URI prefix and what serves it, for files a directory. Both are
 * made absolute here so that nothing later depends on the working directory. Nothing is opened, and
 * a provider's own settings are not judged: that is the provider's, which says more when it fails.
 */
#include "server/config_private.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "provider/file.h"
#include "provider/system.h"
#include "server/option_rules.h"
#include "uri/skill.h"
#include "uri/uri.h"
#include "json/write.h"

static const struct config_row *mount_row(void)
{
    return config_find(STR("mount"), CONFIG_AS_NAME);
}

static void mount_deinit(struct config_mount *m)
{
    mem_free(m->uri);
    mem_free(m->path);
    mem_free(m->options);
    mem_free(m->limits);
    mem_free(m->settings);
    config_list_deinit(&m->exclude);
}

void config_mounts_clear(struct config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        mount_deinit(&c->mounts[i]);
    }
    mem_free(c->mounts);
    c->mounts = NULL;
    c->mount_count = 0;
}

static int put_working_directory(struct buf *out, struct tidings_error *err)
{
    char cwd[PATH_MAX];
    if (!getcwd(cwd, sizeof(cwd))) {
        return error_errno(err, errno, "find the working directory");
    }
    return buf_puts(out, tidings_str(cwd));
}

/* Append the segments of `path` one by one, without empty ones and ".". *ret_up: one was "..". */
static int put_segments(struct buf *out, struct tidings_str path, bool *ret_up)
{
    struct tidings_str rest = path;
    while (rest.len > 0) {
        struct tidings_str segment = str_cut(rest, '/', &rest, NULL);
        if (segment.len == 0 || str_eq(segment, STR("."))) {
            continue;
        }
        *ret_up = *ret_up || str_eq(segment, STR(".."));
        buf_putc(out, '/');
        buf_puts(out, segment);
    }
    return out->failed;
}

/* Symbolic links keep their name (a client asks for what the user typed), except where ".." makes
 * their target matter: then the system resolves the path, which must exist. */
static int config_mount_resolve(struct buf *path, struct tidings_error *err)
{
    char *real = realpath(path->ptr, NULL);
    if (!real) {
        return error_errno(err, errno, "'%s'", path->ptr);
    }
    buf_clear(path);
    int rc = buf_puts(path, tidings_str(real));
    free(real);
    return rc;
}

static int absolute_path(const struct config_mount_spec *spec, struct buf *out,
                         struct tidings_error *err)
{
    bool up = false;
    int rc = 0;
    bool is_absolute = spec->path.len > 0 && spec->path.ptr[0] == '/';
    bool base_is_absolute = spec->base.len > 0 && spec->base.ptr[0] == '/';
    if (!is_absolute && !base_is_absolute) {
        struct buf cwd;
        buf_init(&cwd, PATH_MAX);
        rc = put_working_directory(&cwd, err);
        if (rc == 0) {
            put_segments(out, buf_str(&cwd), &up);
        }
        buf_deinit(&cwd);
    }
    if (rc < 0) {
        return rc;
    }
    if (!is_absolute) {
        put_segments(out, spec->base, &up);
    }
    put_segments(out, spec->path, &up);
    if (out->len == 0 && !out->failed) {
        buf_putc(out, '/');
    }
    if (out->failed) {
        return tidings_fail(err, out->failed, "a path longer than %u bytes", CONFIG_VALUE_MAX);
    }
    return up ? config_mount_resolve(out, err) : 0;
}

static int config_mount_prefix_of(const struct config_mount_spec *spec, struct tidings_str path,
                                  struct buf *out, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct buf raw;
    buf_init(&raw, (size_t)4 * CONFIG_VALUE_MAX);
    if (spec->uri.len > 0) {
        buf_puts(&raw, spec->uri);
    } else if (spec->ops == &provider_system_ops) {
        buf_puts(&raw, STR(PROVIDER_SYSTEM_PREFIX));
    } else if (spec->ops) {
        return tidings_fail(err, TIDINGS_E_INVALID, "uri: a mount of this type needs one");
    } else {
        buf_puts(&raw, STR("file://"));
        uri_encode_path(&raw, path);
    }
    if (raw.len > 0 && raw.ptr[raw.len - 1] != '/') {
        buf_putc(&raw, '/');
    }
    int rc = raw.failed ? tidings_fail(err, raw.failed, "too long") : 0;
    if (rc == 0) {
        rc = uri_canonical(buf_str(&raw), out, err);
    }
    if (rc == 0 && str_find(buf_str(out), '?') >= 0) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a URI prefix has no query");
    }
    buf_deinit(&raw);
    if (rc < 0) {
        struct tidings_str what = spec->uri.len > 0 ? spec->uri : path;
        return error_wrap(err, rc, "'%s'", config_quote(what, shown));
    }
    return 0;
}

static int copy_list(struct config_list *to, const struct config_list *from,
                     struct tidings_error *err)
{
    for (size_t i = 0; from && i < from->count; i++) {
        int rc = config_list_add(to, tidings_str(from->items[i]), err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int put_object(struct json *v, char **ret, struct tidings_error *err)
{
    struct buf text;
    struct jw w;
    if (!v) {
        return 0;
    }
    buf_init(&text, CONFIG_VALUE_MAX);
    jw_init(&w, &text);
    jw_value(&w, v);
    int failed = text.failed;
    *ret = buf_detach(&text, NULL);
    buf_deinit(&text);
    return failed ? tidings_fail(err, failed, "longer than %u bytes", CONFIG_VALUE_MAX) : 0;
}

static int copy_rule(struct config_mount *to, const struct config_mount_spec *spec,
                     struct tidings_error *err)
{
    int rc = put_object(spec->options, &to->options, err);
    if (rc == 0) {
        rc = put_object(spec->limits, &to->limits, err);
    }
    return rc == 0 ? rule_check_parts(to->options, to->limits, err) : rc;
}

static int config_mount_append(struct config *c, struct config_mount *m, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    for (size_t i = 0; i < c->mount_count; i++) {
        if (str_eq(tidings_str(c->mounts[i].uri), tidings_str(m->uri))) {
            return tidings_fail(err, TIDINGS_E_INVALID, "'%s' is mounted twice",
                                config_quote(tidings_str(m->uri), shown));
        }
    }
    if (c->mount_count >= CONFIG_ITEMS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u mounts", CONFIG_ITEMS_MAX);
    }
    struct config_mount *mounts = mem_realloc(c->mounts, (c->mount_count + 1) * sizeof(*mounts));
    if (!mounts) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    c->mounts = mounts;
    c->mounts[c->mount_count++] = *m;
    return 0;
}

int config_mount_add(struct config *c, const struct config_mount_spec *spec,
                     struct config_origin origin, struct tidings_error *err)
{
    struct config_origin *current = &c->origins[mount_row() - config_rows];
    struct config_mount m = {0};
    struct buf path, uri;
    buf_init(&path, CONFIG_VALUE_MAX);
    buf_init(&uri, CONFIG_VALUE_MAX);
    int rc = spec->ops ? 0 : absolute_path(spec, &path, err);
    if (rc == 0) {
        rc = config_mount_prefix_of(spec, buf_str(&path), &uri, err);
    }
    if (rc < 0 || origin.source < current->source) {
        goto done;
    }
    rc = copy_list(&m.exclude, spec->exclude, err);
    if (rc == 0) {
        rc = copy_rule(&m, spec, err);
    }
    m.nodes = spec->nodes;
    m.ops = spec->ops ? spec->ops : &provider_file_ops;
    m.path = buf_detach(&path, NULL);
    m.uri = buf_detach(&uri, NULL);
    m.settings = spec->ops ? str_dup(spec->settings) : NULL;
    if (rc == 0 && spec->ops && !m.settings) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        if (origin.source > current->source) {
            config_mounts_clear(c);
            *current = origin;
        }
        rc = config_mount_append(c, &m, err);
    }
    if (rc < 0) {
        mount_deinit(&m);
    }
done:
    buf_deinit(&path);
    buf_deinit(&uri);
    return rc;
}

int config_mount_skills(struct config *c, struct tidings_error *err)
{
    struct config_mount_spec spec = {.uri = STR(SKILL_SCHEME "://"),
                                     .path = tidings_str(c->skills)};
    struct buf path;
    if (spec.path.len == 0) {
        return 0;
    }
    buf_init(&path, CONFIG_VALUE_MAX);
    int rc = absolute_path(&spec, &path, err);
    bool is_there = false;
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        is_there = is_there || (str_eq(tidings_str(c->mounts[i].uri), spec.uri) &&
                                str_eq(tidings_str(c->mounts[i].path), buf_str(&path)));
    }
    buf_deinit(&path);
    if (rc == 0 && !is_there) { /* beside the other mounts, wherever those are from */
        rc = config_mount_add(c, &spec, c->origins[mount_row() - config_rows], err);
    }
    return rc < 0 ? error_wrap(err, rc, "--skills") : 0;
}

/* The longest prefix counts; of the same one, what was said apart from the mount. */
enum mount_nodes config_nodes_of(const struct config *c, struct tidings_str uri)
{
    const struct {
        const struct config_list *list;
        enum mount_nodes nodes;
    } lists[] = {{&c->shared, MOUNT_SHARED}, {&c->owned, MOUNT_OWNED}};
    enum mount_nodes found = MOUNT_LOCAL;
    size_t longest = 0;
    for (size_t i = 0; i < c->mount_count; i++) {
        struct tidings_str prefix = tidings_str(c->mounts[i].uri);
        if (prefix.len > longest && str_starts(uri, prefix)) {
            longest = prefix.len;
            found = c->mounts[i].nodes;
        }
    }
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        for (size_t i = 0; i < lists[k].list->count; i++) {
            struct tidings_str prefix = tidings_str(lists[k].list->items[i]);
            if (prefix.len >= longest && str_starts(uri, prefix)) {
                longest = prefix.len;
                found = lists[k].nodes;
            }
        }
    }
    return found;
}

int config_add_dir(struct config *c, const char *dir, enum config_source source,
                   struct tidings_error *err)
{
    struct config_mount_spec spec = {.path = tidings_str(dir)};
    if (spec.path.len == 0 || spec.path.len > CONFIG_VALUE_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a directory needs a name of 1 to %u bytes",
                            CONFIG_VALUE_MAX);
    }
    int rc = config_mount_add(c, &spec, (struct config_origin){source, 0}, err);
    char shown[CONFIG_QUOTE_MAX];
    return rc < 0 ? error_wrap(err, rc, "directory '%s'", config_quote(spec.path, shown)) : 0;
}
