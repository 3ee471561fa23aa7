/* SPDX-License-Identifier: MIT
 *
 * The configuration file: JSON with // and block comments, and commas behind the last member. They
 * are blanked out in a copy, which keeps every line where it was; the strict parser then judges the
 * text, and a small walker over the same text finds the line of whatever turned out wrong. The
 * walker trusts only what the parser has accepted.
 */
#include "server/config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/whole_file.h"
#include "server/builtin_providers.h"
#include "server/config_private.h"
#include "server/option_rules.h"
#include "json/comments.h"
#include "json/json.h"
#include "json/write.h"

#define FILE_MAX_DEPTH 16u
#define MOUNT_SETTINGS_MAX 65536u

/* ---- where things are ------------------------------------------------------------------------ */

struct cursor {
    const char *at, *end;
    unsigned line;
};

static void skip_blank(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) {
        c->line += *c->at++ == '\n' ? 1 : 0;
    }
}

/* At a '"': the raw text between the quotes; afterwards behind the closing one. */
static struct tidings_str skip_string(struct cursor *c)
{
    const char *start = ++c->at;
    while (c->at < c->end && *c->at != '"') {
        c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
    }
    struct tidings_str raw = tidings_strn(start, (size_t)(c->at - start));
    if (c->at < c->end) {
        c->at++;
    }
    return raw;
}

/* Behind one whole value. */
static void skip_value(struct cursor *c)
{
    unsigned depth = 0;
    skip_blank(c);
    while (c->at < c->end) {
        char ch = *c->at;
        if (ch == '"') {
            skip_string(c);
        } else if (depth == 0 && (ch == ',' || ch == ']' || ch == '}')) {
            return;
        } else {
            depth += ch == '[' || ch == '{' ? 1 : 0;
            depth -= ch == ']' || ch == '}' ? 1 : 0;
            c->line += ch == '\n' ? 1 : 0;
            c->at++;
        }
    }
}

/* From the start of an object to the value of `key`; `line` is that of the key. */
static bool enter_key(struct cursor *c, struct tidings_str key)
{
    skip_blank(c);
    while (c->at < c->end && (*c->at == '{' || *c->at == ',')) {
        c->at++;
        skip_blank(c);
        if (c->at >= c->end || *c->at != '"') {
            return false;
        }
        if (str_eq(skip_string(c), key)) {
            while (c->at < c->end && *c->at != ':') {
                c->at++;
            }
            c->at += c->at < c->end ? 1 : 0;
            return true;
        }
        skip_blank(c);
        c->at += c->at < c->end ? 1 : 0; /* ':' */
        skip_value(c);
        skip_blank(c);
    }
    return false;
}

/* From the start of an array to its element. */
static bool enter_index(struct cursor *c, size_t index)
{
    skip_blank(c);
    for (size_t i = 0; c->at < c->end && (*c->at == '[' || *c->at == ','); i++) {
        c->at++;
        skip_blank(c);
        if (i == index) {
            return true;
        }
        skip_value(c);
        skip_blank(c);
    }
    return false;
}

/* ---- taking values --------------------------------------------------------------------------- */

struct reading {
    struct config *config;
    const char *path;        /* as errors call it */
    struct tidings_str base; /* folder relative directories start from */
    struct tidings_str text; /* without comments */
};

static unsigned line_of_key(const struct reading *r, struct tidings_str key)
{
    struct cursor c = {r->text.ptr, r->text.ptr + r->text.len, 1};
    return enter_key(&c, key) ? c.line : 1;
}

/* The line of an element of `list`, or of its member `key`. */
static unsigned line_of_item(const struct reading *r, struct tidings_str list, size_t index,
                             const char *key)
{
    struct cursor c = {r->text.ptr, r->text.ptr + r->text.len, 1};
    if (!enter_key(&c, list) || !enter_index(&c, index)) {
        return 1;
    }
    struct cursor inner = c;
    return key && enter_key(&inner, tidings_str(key)) ? inner.line : c.line;
}

static int wrong_type(const struct config_row *row, struct tidings_error *err)
{
    struct buf accepted;
    buf_init(&accepted, 160);
    config_put_accepted(&accepted, row);
    tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: %s)",
                 accepted.ptr ? accepted.ptr : "");
    buf_deinit(&accepted);
    return TIDINGS_E_INVALID;
}

/* A string of the file, which may not hold NUL: later users are libc's. */
static int clean_string(const struct json *v, struct tidings_str *ret, struct tidings_error *err)
{
    struct tidings_str s = jv_str(v);
    if (!jv_is(v, JV_STRING)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: a string)");
    }
    if (s.len > 0 && memchr(s.ptr, '\0', s.len)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "holds a NUL character");
    }
    *ret = s;
    return 0;
}

/* Files are meant from the folder of this one; where a URL may stand instead, it is left as it is.
 */
static int assign(const struct reading *r, const struct config_row *row, struct tidings_str text,
                  struct config_origin origin, struct tidings_error *err)
{
    bool is_file = row->type == CONFIG_PATH || row->type == CONFIG_FILES;
    bool is_url = str_starts(text, STR("https://")) || str_starts(text, STR("http://"));
    if (!is_file || is_url || text.len == 0 || text.ptr[0] == '/' || r->base.len == 0) {
        return config_assign(r->config, row, text, origin, err);
    }
    char path[2 * CONFIG_VALUE_MAX]; /* what is cut is too long for any value */
    snprintf(path, sizeof(path), "%.*s%.*s", STR_ARG(r->base), STR_ARG(text));
    return config_assign(r->config, row, tidings_str(path), origin, err);
}

static int take_plain(const struct reading *r, const struct config_row *row, struct json *v,
                      struct config_origin origin, struct tidings_error *err)
{
    char number[24];
    struct tidings_str text;
    bool is_bool = jv_is(v, JV_TRUE) || jv_is(v, JV_FALSE);
    bool is_int = jv_is(v, JV_INT);
    if (row->type == CONFIG_BOOL) {
        if (!is_bool) {
            return wrong_type(row, err);
        }
        text = jv_is_true(v) ? STR("true") : STR("false");
    } else if (is_int && (row->type == CONFIG_NUMBER || row->type == CONFIG_SIZE ||
                          row->type == CONFIG_DURATION)) {
        snprintf(number, sizeof(number), "%" PRId64, jv_int(v));
        text = tidings_str(number);
    } else {
        if (row->type == CONFIG_NUMBER || !jv_is(v, JV_STRING)) {
            return wrong_type(row, err);
        }
        int rc = clean_string(v, &text, err);
        if (rc < 0) {
            return rc;
        }
    }
    return assign(r, row, text, origin, err);
}

static int take_list(const struct reading *r, const struct config_row *row, struct json *v,
                     struct config_origin origin, struct tidings_error *err)
{
    if (!json_is_list(v)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "wrong type of value (accepted: an array of strings, or one)");
    }
    if (json_list_count(v) == 0) {
        return config_assign(r->config, row, STR_EMPTY, origin, err);
    }
    for (size_t i = 0; i < json_list_count(v); i++) {
        struct tidings_str item;
        int rc = clean_string(json_list_at(v, i), &item, err);
        if (rc == 0) {
            rc = assign(r, row, item, origin, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int config_file_take_excludes(struct json *v, struct config_list *list,
                                     struct tidings_error *err)
{
    if (!json_is_list(v)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "wrong type of value (accepted: an array of globs, or one)");
    }
    for (size_t i = 0; i < json_list_count(v); i++) {
        struct tidings_str item;
        int rc = clean_string(json_list_at(v, i), &item, err);
        if (rc == 0 && item.len > 0) {
            rc = config_check_item(CONFIG_GLOBS, item, err);
        }
        if (rc == 0) {
            rc = config_list_add(list, item, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Check what a mount says of the subscriptions below it; one of the two is NULL. */
static int take_rule(struct json *options, struct json *limits, struct tidings_error *err)
{
    struct option_rule rule;
    return jv_is(options ? options : limits, JV_OBJECT)
               ? option_rule_read(&rule, options, limits, err)
               : tidings_fail(err, TIDINGS_E_INVALID, "must be an object");
}

/* A mount as far as it has been read. */
struct mount_reading {
    struct config_mount_spec spec;
    struct config_list exclude;
    struct buf settings; /* of providers other than files: a JSON object */
    struct jw w;
};

/* Members only files have; what other providers have is theirs to judge. */
static int take_own_member(struct mount_reading *m, struct tidings_str key, struct json *v,
                           struct tidings_error *err)
{
    if (m->spec.ops) {
        jw_key(&m->w, key);
        jw_value(&m->w, v);
        return m->settings.failed
                   ? tidings_fail(err, m->settings.failed, "the settings are too large")
                   : 0;
    }
    if (str_eq(key, STR("path"))) {
        return clean_string(v, &m->spec.path, err);
    }
    if (str_eq(key, STR("exclude"))) {
        return config_file_take_excludes(v, &m->exclude, err);
    }
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "unknown key (accepted: type, uri, path, exclude, nodes, options, limits)");
}

static int take_nodes(struct json *v, enum mount_nodes *ret, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str name = STR_EMPTY;
    int rc = clean_string(v, &name, err);
    for (int i = MOUNT_LOCAL; rc == 0 && i <= MOUNT_OWNED; i++) {
        if (str_eq(name, tidings_str(mount_nodes_name((enum mount_nodes)i)))) {
            *ret = (enum mount_nodes)i;
            return 0;
        }
    }
    return rc < 0 ? rc
                  : tidings_fail(err, TIDINGS_E_INVALID, "'%s' (accepted: " MOUNT_NODES_NAMES ")",
                                 config_quote(name, shown));
}

static int take_mount_member(struct mount_reading *m, struct tidings_str key, struct json *v,
                             struct tidings_error *err)
{
    struct config_mount_spec *spec = &m->spec;
    if (str_eq(key, STR("type"))) {
        return 0; /* was read first */
    }
    if (str_eq(key, STR("uri"))) {
        return clean_string(v, &spec->uri, err);
    }
    if (str_eq(key, STR("nodes"))) {
        return take_nodes(v, &spec->nodes, err);
    }
    if (str_eq(key, STR("options"))) {
        spec->options = v;
        return take_rule(v, NULL, err);
    }
    if (str_eq(key, STR("limits"))) {
        spec->limits = v;
        return take_rule(NULL, v, err);
    }
    return take_own_member(m, key, v, err);
}

static int config_file_take_type(struct json *v, struct config_mount_spec *spec,
                                 struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str name = STR_EMPTY;
    struct json *type = jv_get(v, "type");
    int rc = type ? clean_string(type, &name, err) : 0;
    if (rc < 0 || !type || str_eq(name, STR("file"))) {
        return rc;
    }
    spec->ops = builtin_find(name);
    return spec->ops ? 0
                     : tidings_fail(err, TIDINGS_E_INVALID, "'%s' is no provider (accepted: %s)",
                                    config_quote(name, shown), BUILTIN_NAMES);
}

static int take_members(struct mount_reading *m, struct json *v, char failed[CONFIG_NAME_MAX],
                        struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str key = STR("type");
    struct json *member;
    int rc = config_file_take_type(v, &m->spec, err);
    for (void *it = NULL; rc == 0 && (it = jv_next(v, it, &key, &member)) != NULL;) {
        rc = take_mount_member(m, key, member, err);
    }
    if (rc < 0) {
        snprintf(failed, CONFIG_NAME_MAX, "%.*s", STR_ARG(key));
        return error_wrap(err, rc, "%s", config_quote(key, shown));
    }
    if (!m->spec.ops && (m->spec.path.len == 0 || m->spec.path.len > CONFIG_VALUE_MAX)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "path: a mount needs a directory");
    }
    return 0;
}

static int take_mount(const struct reading *r, struct json *v, size_t index,
                      struct tidings_error *err)
{
    struct mount_reading m = {.spec = {.base = r->base, .exclude = &m.exclude}};
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, STR("mounts"))};
    char failed[CONFIG_NAME_MAX] = "";
    buf_init(&m.settings, MOUNT_SETTINGS_MAX);
    jw_init(&m.w, &m.settings);
    jw_begin_object(&m.w);
    int rc = jv_is(v, JV_OBJECT)
                 ? take_members(&m, v, failed, err)
                 : tidings_fail(err, TIDINGS_E_INVALID,
                                "a mount is an object with uri, path and exclude, or type");
    jw_end_object(&m.w);
    if (rc == 0 && m.settings.failed) {
        rc = tidings_fail(err, m.settings.failed, "the settings are too large");
    }
    if (rc == 0) {
        m.spec.settings = buf_str(&m.settings);
        rc = config_mount_add(r->config, &m.spec, origin, err);
    }
    config_list_deinit(&m.exclude);
    buf_deinit(&m.settings);
    if (rc < 0) {
        return error_wrap(err, rc, "%s:%u: mounts", r->path,
                          line_of_item(r, STR("mounts"), index, failed[0] ? failed : NULL));
    }
    return 0;
}

static int take_rules(const struct reading *r, const struct config_row *row, struct json *v,
                      struct tidings_error *err)
{
    struct tidings_str list = tidings_str(row->key);
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, list)};
    if (!jv_is(v, JV_ARRAY)) {
        return error_wrap(err, wrong_type(row, err), "%s:%u: %s", r->path, origin.line, row->key);
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        struct buf text;
        struct jw w;
        buf_init(&text, CONFIG_FILE_MAX);
        jw_init(&w, &text);
        jw_value(&w, jv_at(v, i));
        int rc = text.failed ? tidings_fail(err, text.failed, "out of memory")
                             : config_assign(r->config, row, buf_str(&text), origin, err);
        buf_deinit(&text);
        if (rc < 0) {
            return error_wrap(err, rc, "%s:%u: %s", r->path, line_of_item(r, list, i, NULL),
                              row->key);
        }
    }
    return 0;
}

static int take_mounts(const struct reading *r, struct json *v, struct tidings_error *err)
{
    if (!jv_is(v, JV_ARRAY)) {
        tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: an array of mounts)");
        return error_wrap(err, TIDINGS_E_INVALID, "%s:%u: mounts", r->path,
                          line_of_key(r, STR("mounts")));
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        int rc = take_mount(r, jv_at(v, i), i, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int config_file_take_member(const struct reading *r, struct tidings_str key, struct json *v,
                                   struct tidings_error *err)
{
    const struct config_row *row = config_find(key, CONFIG_AS_KEY);
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, key)};
    if (!row) {
        int rc = config_unknown(key, CONFIG_AS_KEY, "key", err);
        return error_wrap(err, rc, "%s:%u", r->path, origin.line);
    }
    if (row->type == CONFIG_MOUNTS) {
        return take_mounts(r, v, err);
    }
    if (row->type == CONFIG_RULES || row->type == CONFIG_ACCESS) {
        return take_rules(r, row, v, err);
    }
    int rc = config_is_list(row->type) ? take_list(r, row, v, origin, err)
                                       : take_plain(r, row, v, origin, err);
    if (rc < 0) {
        char name[CONFIG_NAME_MAX];
        config_spell(row, CONFIG_AS_KEY, name);
        return error_wrap(err, rc, "%s:%u: %s", r->path, origin.line, name);
    }
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* "line 3 column 8: …" of the parser becomes "file:3: …". */
static int locate_parse_error(const struct reading *r, int rc, struct tidings_error *err)
{
    unsigned line = 0, column = 0;
    int used = 0;
    if (!err) {
        return rc;
    }
    if (sscanf(err->text, "line %u column %u: %n", &line, &column, &used) < 2 || used == 0) {
        return error_wrap(err, rc, "%s", r->path);
    }
    memmove(err->text, err->text + used, strlen(err->text + used) + 1);
    return error_wrap(err, rc, "%s:%u", r->path, line);
}

static int config_file_read_text(struct reading *r, struct tidings_error *err)
{
    struct json *root = NULL;
    int rc = jv_parse(r->text, FILE_MAX_DEPTH, &root, err);
    if (rc < 0) {
        return locate_parse_error(r, rc, err);
    }
    if (!jv_is(root, JV_OBJECT)) {
        rc =
            tidings_fail(err, TIDINGS_E_PARSE, "%s:1: the file must hold one JSON object", r->path);
    }
    struct tidings_str key;
    struct json *v;
    for (void *it = NULL; rc == 0 && (it = jv_next(root, it, &key, &v)) != NULL;) {
        rc = config_file_take_member(r, key, v, err);
    }
    jv_unref(root);
    return rc;
}

int config_load_text(struct config *c, const char *path, struct tidings_str text,
                     struct tidings_error *err)
{
    struct reading r = {.config = c, .path = path};
    struct tidings_str name = tidings_str(path);
    while (name.len > 0 && name.ptr[name.len - 1] != '/') {
        name.len--;
    }
    r.base = name;
    if (text.len > CONFIG_FILE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s: larger than %u bytes", path,
                            CONFIG_FILE_MAX);
    }
    char *file = str_dup(tidings_str(path));
    char *copy = str_dup(text);
    int rc = 0;
    if (!copy || !file) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "%s: out of memory", path);
        goto fail_copy;
    }
    mem_free(c->file);
    c->file = file;
    file = NULL;
    unsigned unclosed = json_blank_comments(copy, text.len);
    if (unclosed > 0) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "%s:%u: the comment is never closed", path,
                          unclosed);
        goto fail_copy;
    }
    json_blank_commas(copy, text.len);
    r.text = tidings_strn(copy, text.len);
    rc = config_file_read_text(&r, err);
fail_copy:
    mem_free(copy);
    mem_free(file);
    return rc;
}

int config_load_file(struct config *c, const char *path, enum tidings_file_from from,
                     struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, CONFIG_FILE_MAX + 8192);
    int rc = from == TIDINGS_FILE_NAMED ? whole_file_read(path, CONFIG_FILE_MAX, &text, err)
                                        : whole_file_read_found(path, CONFIG_FILE_MAX, &text, err);
    if (rc == 0) {
        rc = config_load_text(c, path, buf_str(&text), err);
    }
    c->file_from = from;
    buf_deinit(&text);
    return rc;
}
