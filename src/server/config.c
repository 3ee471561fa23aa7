/* SPDX-License-Identifier: MIT
 *
 * The value of the configuration: defaults, taking a value into its field, giving it back. Who won
 * a field is kept beside it, so that sources may speak in any order. Reading files, the environment
 * and arguments is in config_file.c and config_args.c; text to value in config_value.c.
 */
#include "server/config.h"

#include <stdio.h>

#include <inttypes.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/url_redact.h"
#include "server/config_private.h"
#include "store/postgres_rows.h"
#include "json/write.h"

static void *config_field(struct config *c, const struct config_row *row)
{
    return (char *)c + row->offset;
}

static const void *field_const(const struct config *c, const struct config_row *row)
{
    return (const char *)c + row->offset;
}

static size_t row_index(const struct config_row *row)
{
    return (size_t)(row - config_rows);
}

void config_list_deinit(struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->items[i]);
    }
    mem_free(list->items);
    *list = (struct config_list){0};
}

int config_list_add(struct config_list *list, struct tidings_str item, struct tidings_error *err)
{
    if (item.len == 0) {
        config_list_deinit(list);
        return 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (str_eq(tidings_str(list->items[i]), item)) {
            return 0;
        }
    }
    if (list->count >= CONFIG_ITEMS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u items", CONFIG_ITEMS_MAX);
    }
    char **items = mem_realloc(list->items, (list->count + 1) * sizeof(*items));
    if (!items) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list->items = items;
    char *copy = str_dup(item);
    if (!copy) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list->items[list->count++] = copy;
    return 0;
}

static int assign_text(char **at, struct tidings_str value, bool wins, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    bool clean = str_is_utf8(value);
    for (size_t i = 0; i < value.len; i++) {
        clean = clean && (unsigned char)value.ptr[i] >= 0x20;
    }
    if (!clean) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' holds control characters or invalid bytes (accepted: UTF-8 text)",
                            config_quote(value, shown));
    }
    if (!wins) {
        return 0;
    }
    char *copy = str_dup(value);
    if (!copy) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mem_free(*at);
    *at = copy;
    return 0;
}

/* A source that speaks for the first time starts again from the default items. */
static int assign_item(struct config *c, const struct config_row *row, struct tidings_str value,
                       enum config_source source, struct tidings_error *err)
{
    struct config_list *list = config_field(c, row);
    enum config_source current = c->origins[row_index(row)].source;
    int rc = value.len > 0 ? config_check_item(row->type, value, err) : 0;
    if (rc < 0 || source < current) {
        return rc;
    }
    if (source > current) {
        config_list_deinit(list);
        if (row->value[0] && (rc = config_list_add(list, tidings_str(row->value), err)) < 0) {
            return rc;
        }
    }
    return config_list_add(list, value, err);
}

/* "URI=DIR". */
static int assign_mount(struct config *c, struct tidings_str value, struct config_origin origin,
                        struct tidings_error *err)
{
    bool found;
    char shown[CONFIG_QUOTE_MAX];
    struct config_mount_spec spec = {0};
    spec.uri = str_cut(value, '=', &spec.path, &found);
    if (!found || spec.path.len == 0 || str_find(spec.uri, ':') < 1) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' is not a mount (accepted: URI=DIR such as file://data/=./data)",
                            config_quote(value, shown));
    }
    return config_mount_add(c, &spec, origin, err);
}

/* Numbers, choices, addresses: parsed aside, stored when they win. */
static int assign_plain(struct config *c, const struct config_row *row, struct tidings_str value,
                        bool wins, struct tidings_error *err)
{
    union {
        bool flag;
        uint64_t number;
        unsigned choice;
        struct config_address address;
    } v;
    int rc;
    size_t size;
    if (row->type == CONFIG_BOOL) {
        rc = config_parse_bool(value, &v.flag, err);
        size = sizeof(v.flag);
    } else if (row->type == CONFIG_CHOICE) {
        rc = config_parse_choice(row, value, &v.choice, err);
        size = sizeof(v.choice);
    } else if (row->type == CONFIG_MODE) {
        rc = config_parse_mode(value, &v.choice, err);
        size = sizeof(v.choice);
    } else if (row->type == CONFIG_ADDRESS) {
        rc = config_parse_address(value, &v.address, err);
        size = sizeof(v.address);
    } else {
        rc = config_parse_number(row, value, &v.number, err);
        size = sizeof(v.number);
    }
    if (rc == 0 && wins) {
        memcpy(config_field(c, row), &v, size);
    }
    return rc;
}

int config_assign(struct config *c, const struct config_row *row, struct tidings_str value,
                  struct config_origin origin, struct tidings_error *err)
{
    struct config_origin *current = &c->origins[row_index(row)];
    bool wins = origin.source >= current->source;
    int rc;
    if (value.len > CONFIG_VALUE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "longer than %u bytes", CONFIG_VALUE_MAX);
    }
    if (row->type == CONFIG_MOUNTS) {
        return assign_mount(c, value, origin, err); /* keeps the origin itself */
    }
    struct log_levels levels;
    if (row->type == CONFIG_LEVELS && log_levels_parse(value, &levels, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (row->type == CONFIG_TEXT || row->type == CONFIG_PATH || row->type == CONFIG_LEVELS) {
        rc = assign_text(config_field(c, row), value, wins, err);
    } else if (config_is_list(row->type)) {
        rc = assign_item(c, row, value, origin.source, err);
    } else {
        rc = assign_plain(c, row, value, wins, err);
    }
    if (rc == 0 && wins) {
        *current = origin;
    }
    return rc;
}

int config_init(struct config *c, struct tidings_error *err)
{
    memset(c, 0, sizeof(*c));
    struct config_origin origin = {CONFIG_DEFAULT, 0};
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        if (config_is_list(row->type) && !row->value[0]) {
            continue;
        }
        int rc = config_assign(c, row, tidings_str(row->value), origin, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

void config_deinit(struct config *c)
{
    config_mounts_clear(c);
    config_list_deinit(&c->exclude);
    config_list_deinit(&c->allow_origin);
    config_list_deinit(&c->allow_host);
    config_list_deinit(&c->subscriptions);
    config_list_deinit(&c->access);
    config_list_deinit(&c->publish);
    config_list_deinit(&c->shared);
    config_list_deinit(&c->owned);
    config_list_deinit(&c->tcp);
    config_list_deinit(&c->tls_cert);
    config_list_deinit(&c->tls_key);
    config_list_deinit(&c->auth_issuer);
    config_list_deinit(&c->auth_jwks);
    config_list_deinit(&c->auth_audience);
    config_list_deinit(&c->auth_scope);
    mem_free(c->auth_resource);
    mem_free(c->auth_introspection);
    mem_free(c->auth_credentials);
    mem_free(c->auth_ca);
    mem_free(c->auth_tokens);
    mem_free(c->tls_client_ca);
    mem_free(c->access_file);
    mem_free(c->skills);
    config_list_deinit(&c->unix_sockets);
    config_list_deinit(&c->http_unix);
    mem_free(c->metrics);
    mem_free(c->name);
    mem_free(c->title);
    mem_free(c->instructions);
    mem_free(c->log_level);
    mem_free(c->log_file);
    mem_free(c->access_log_file);
    mem_free(c->entities);
    mem_free(c->entity_authority);
    mem_free(c->store);
    mem_free(c->cluster);
    mem_free(c->node);
    mem_free(c->file);
    memset(c, 0, sizeof(*c));
}

int config_set(struct config *c, const char *name, const char *value, enum config_source source,
               struct tidings_error *err)
{
    const struct config_row *row = config_find(tidings_str(name), CONFIG_AS_NAME);
    if (!row) {
        return config_unknown(tidings_str(name), CONFIG_AS_NAME, "option", err);
    }
    bool is_program = source == CONFIG_PROGRAM;
    struct config_origin origin = {is_program ? CONFIG_FLAG : source, 0};
    int rc = config_assign(c, row, tidings_str(value), origin, err);
    if (rc < 0 && is_program) {
        return error_wrap(err, rc, "\"%s\"", row->name);
    }
    if (rc < 0) {
        char where[CONFIG_NAME_MAX];
        config_spell(row, source == CONFIG_ENVIRONMENT ? CONFIG_AS_VARIABLE : CONFIG_AS_FLAG,
                     where);
        return error_wrap(err, rc, "%s", where);
    }
    return 0;
}

bool config_is_given(const struct config *c, const char *name)
{
    const struct config_row *row = config_find(tidings_str(name), CONFIG_AS_NAME);
    return row && c->origins[row_index(row)].source != CONFIG_DEFAULT;
}

bool config_is_beyond_file(const struct config *c, const char *name)
{
    const struct config_row *row = config_find(tidings_str(name), CONFIG_AS_NAME);
    return row && c->origins[row_index(row)].source > CONFIG_FILE;
}

const char *config_store(const struct config *c)
{
    return c->entities[0] ? c->entities : c->store[0] ? c->store : NULL;
}

bool config_store_is_shared(const struct config *c)
{
    const char *store = config_store(c);
    return store && entity_postgres_is_url(tidings_str(store));
}

bool config_wants_http(const struct config *c)
{
    bool has_other =
        c->stdio || c->tcp.count > 0 || c->unix_sockets.count > 0 || c->http_unix.count > 0;
    return !has_other || config_is_given(c, "http");
}

static int put_address(struct buf *out, const struct config_address *a)
{
    bool six = strchr(a->host, ':') != NULL;
    return buf_putf(out, six ? "[%s]:%u" : "%s:%u", a->host, (unsigned)a->port);
}

static int put_mounts(struct buf *out, const struct config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        buf_putf(out, "%s%s=%s", i > 0 ? "," : "", m->uri, m->path ? m->path : m->ops->name);
    }
    return out->failed;
}

static int config_put_value(struct buf *out, const struct config *c, const struct config_row *row)
{
    const void *at = field_const(c, row);
    const struct config_list *list = at;
    switch (row->type) {
    case CONFIG_BOOL:
        return buf_puts(out, *(const bool *)at ? STR("true") : STR("false"));
    case CONFIG_NUMBER:
        return buf_putu(out, *(const uint64_t *)at);
    case CONFIG_SIZE:
        return units_put_size(out, *(const uint64_t *)at);
    case CONFIG_DURATION:
        return units_put_duration(out, *(const uint64_t *)at);
    case CONFIG_CHOICE:
        return buf_puts(out, tidings_str(row->choices[*(const unsigned *)at]));
    case CONFIG_TEXT:
    case CONFIG_LEVELS:
    case CONFIG_PATH:
        return url_put_redacted(out, tidings_str(*(char *const *)at));
    case CONFIG_MODE:
        return buf_putf(out, "%04o", *(const unsigned *)at);
    case CONFIG_ADDRESS:
        return put_address(out, at);
    case CONFIG_MOUNTS:
        return put_mounts(out, c);
    case CONFIG_GLOBS:
    case CONFIG_ORIGINS:
    case CONFIG_HOSTS:
    case CONFIG_RULES:
    case CONFIG_ACCESS:
    case CONFIG_PREFIXES:
    case CONFIG_ADDRESSES:
    case CONFIG_PATHS:
    case CONFIG_FILES:
    case CONFIG_WORDS:
        for (size_t i = 0; i < list->count; i++) {
            buf_putf(out, "%s%s", i > 0 ? "," : "", list->items[i]);
        }
        return out->failed;
    }
    return 0;
}

int config_get(const struct config *c, const char *name, struct buf *out)
{
    const struct config_row *row = config_find(tidings_str(name), CONFIG_AS_NAME);
    return row ? config_put_value(out, c, row) : TIDINGS_E_NOTFOUND;
}

int config_get_number(const struct config *c, const char *name, uint64_t *ret)
{
    const struct config_row *row = config_find(tidings_str(name), CONFIG_AS_NAME);
    bool is_number = row && row->type >= CONFIG_NUMBER && row->type <= CONFIG_DURATION;
    if (is_number) {
        *ret = *(const uint64_t *)((const char *)c + row->offset);
    }
    return is_number ? 0 : TIDINGS_E_NOTFOUND;
}

/* Default items come back by themselves when the list is read, so a list without them begins with
 * the empty item that takes them away. */
static void print_list(struct jw *w, const struct config_list *list, const char *preset)
{
    jw_begin_array(w);
    if (preset[0] && (list->count == 0 || strcmp(list->items[0], preset) != 0)) {
        jw_string(w, STR_EMPTY);
    }
    for (size_t i = 0; i < list->count; i++) {
        jw_string(w, tidings_str(list->items[i]));
    }
    jw_end_array(w);
}

static void print_rules(struct jw *w, const struct config_list *list)
{
    jw_begin_array(w);
    for (size_t i = 0; i < list->count; i++) {
        jw_raw(w, tidings_str(list->items[i]));
    }
    jw_end_array(w);
}

static void print_object(struct jw *w, const char *name, const char *text)
{
    if (text) {
        jw_put_raw(w, tidings_str(name), tidings_str(text));
    }
}

/* The members of the provider's own object, among those every mount has. */
static void print_settings(struct jw *w, const struct config_mount *m)
{
    struct json *settings = NULL;
    jw_put_string(w, STR("type"), tidings_str(m->ops->name));
    if (jv_parse(tidings_str(m->settings), JSON_MAX_DEPTH, &settings, NULL) < 0) {
        w->out->failed = TIDINGS_E_NOMEM; /* our own text: nothing else can be wrong with it */
        return;
    }
    struct tidings_str key;
    struct json *value;
    for (void *it = NULL; (it = jv_next(settings, it, &key, &value)) != NULL;) {
        jw_key(w, key);
        jw_value(w, value);
    }
    jv_unref(settings);
}

static void print_mounts(struct jw *w, const struct config *c)
{
    jw_begin_array(w);
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), tidings_str(m->uri));
        if (m->path) {
            jw_put_string(w, STR("path"), tidings_str(m->path));
            jw_key(w, STR("exclude"));
            print_list(w, &m->exclude, "");
        } else {
            print_settings(w, m);
        }
        if (m->nodes != MOUNT_LOCAL) {
            jw_put_string(w, STR("nodes"), tidings_str(mount_nodes_name(m->nodes)));
        }
        print_object(w, "options", m->options);
        print_object(w, "limits", m->limits);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static int print_value(const struct config *c, const struct config_row *row, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    if (row->type == CONFIG_MOUNTS) {
        print_mounts(&w, c);
    } else if (row->type == CONFIG_RULES || row->type == CONFIG_ACCESS) {
        print_rules(&w, field_const(c, row));
    } else if (config_is_list(row->type)) {
        print_list(&w, field_const(c, row), row->value);
    } else if (row->type == CONFIG_BOOL || row->type == CONFIG_NUMBER) {
        config_put_value(out, c, row);
    } else {
        struct buf text;
        buf_init(&text, 2 * CONFIG_VALUE_MAX);
        int rc = config_put_value(&text, c, row);
        jw_string(&w, buf_str(&text));
        buf_deinit(&text);
        if (rc < 0) {
            return rc;
        }
    }
    return out->failed;
}

static void print_origin(const struct config *c, const struct config_row *row, struct buf *out)
{
    const struct config_origin *origin = &c->origins[row_index(row)];
    char name[CONFIG_NAME_MAX];
    char shown[CONFIG_QUOTE_MAX];
    switch (origin->source) {
    case CONFIG_DEFAULT:
        buf_puts(out, STR("default"));
        return;
    case CONFIG_FILE:
        buf_putf(out, "%s:%u", config_quote(tidings_str(c->file), shown), origin->line);
        return;
    case CONFIG_ENVIRONMENT:
        config_spell(row, CONFIG_AS_VARIABLE, name);
        buf_putf(out, "environment %s", name);
        return;
    case CONFIG_FLAG:
    case CONFIG_PROGRAM:
        buf_puts(out, STR("flag"));
        return;
    }
}

int config_print(const struct config *c, struct buf *out)
{
    buf_puts(out, STR("{\n"));
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        char key[CONFIG_NAME_MAX];
        config_spell(row, CONFIG_AS_KEY, key);
        size_t start = out->len;
        buf_putf(out, "  \"%s\": ", key);
        int rc = print_value(c, row, out);
        if (rc < 0) {
            return rc;
        }
        buf_puts(out, i + 1 < config_row_count ? STR(",") : STR(""));
        size_t used = out->len - start;
        buf_putf(out, "%*s // ", used < 40 ? (int)(40 - used) : 0, "");
        print_origin(c, row, out);
        buf_putc(out, '\n');
    }
    return buf_puts(out, STR("}\n"));
}

static int config_put_key(struct buf *out, size_t row)
{
    char key[CONFIG_NAME_MAX];
    config_spell(&config_rows[row], CONFIG_AS_KEY, key);
    return buf_putf(out, "%s\"%s\":", row > 0 ? "," : "", key);
}

int config_json(const struct config *c, struct buf *out)
{
    buf_puts(out, STR("{\"settings\":{"));
    for (size_t i = 0; i < config_row_count; i++) {
        config_put_key(out, i);
        int rc = print_value(c, &config_rows[i], out);
        if (rc < 0) {
            return rc;
        }
    }
    buf_puts(out, STR("},\"origins\":{"));
    for (size_t i = 0; i < config_row_count; i++) {
        struct buf origin;
        struct jw w;
        config_put_key(out, i);
        buf_init(&origin, CONFIG_NAME_MAX + CONFIG_QUOTE_MAX);
        print_origin(c, &config_rows[i], &origin);
        jw_init(&w, out);
        jw_string(&w, buf_str(&origin));
        buf_deinit(&origin);
    }
    return buf_puts(out, STR("}}"));
}
