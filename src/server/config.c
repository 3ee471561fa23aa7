/* SPDX-License-Identifier: MIT
 *
 * The values of the configuration: sets defaults, parses a value into its field, and prints it. The
 * source of each field is stored with it, so that sources may be read in any order. config_file.c
 * reads files, the environment and arguments.
 */
#include "server/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cluster/postgres_store.h"
#include "formats/http_fields.h"
#include "formats/json_write.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "formats/url.h"
#include "server/auth_setup.h"
#include "server/config_internal.h"
#include "server/option_rules.h"
#include "sources/file.h"
#include "sources/system.h"

/* -------------------------------------------------------------------------------------------------
 * One value of the configuration as text: parse, check, print. A printed value parses to the same
 * value. These functions store nothing, and allocate only to grow buffers.
 */

#define SOCKET_PATH_MAX 107u /* the kernel's limit */

int config_put_accepted(struct buf *out, const struct config_row *row)
{
    switch (row->type) {
    case CONFIG_BOOL:
        return buf_puts(out, STR("true or false"));
    case CONFIG_NUMBER:
        return buf_putf(out, "%" PRIu64 " to %" PRIu64, row->min, row->max);
    case CONFIG_SIZE:
        units_put_size(out, row->min);
        buf_puts(out, STR(" to "));
        units_put_size(out, row->max);
        return buf_puts(out, STR(", in bytes or with k, m, g"));
    case CONFIG_DURATION:
        units_put_duration(out, row->min);
        buf_puts(out, STR(" to "));
        units_put_duration(out, row->max);
        return buf_puts(out, STR(", in seconds or with ms, s, m, h"));
    case CONFIG_CHOICE:
        for (size_t i = 0; row->choices[i]; i++) {
            buf_putf(out, "%s%s", i > 0 ? ", " : "", row->choices[i]);
        }
        return out->failed;
    case CONFIG_LEVELS:
        return buf_puts(out, STR("off, error, warn, info, debug; also info,store=debug"));
    case CONFIG_TEXT:
        return buf_puts(out, STR("text"));
    case CONFIG_PATH:
    case CONFIG_FILES:
        return buf_puts(out, STR("paths of files"));
    case CONFIG_MODE:
        return buf_puts(out, STR("permissions in octal such as 0660"));
    case CONFIG_ADDRESS:
    case CONFIG_ADDRESSES:
        return buf_puts(out, STR("ADDR:PORT such as 127.0.0.1:7777 or [::1]:7777"));
    case CONFIG_GLOBS:
        return buf_puts(out, STR("globs such as *.tmp"));
    case CONFIG_ORIGINS:
        return buf_puts(out, STR("origins such as https://app.example:8443"));
    case CONFIG_HOSTS:
        return buf_puts(out, STR("host names, with a port or without"));
    case CONFIG_RULES:
        return buf_puts(out, STR("objects with uri, options and limits"));
    case CONFIG_ACCESS:
        return buf_puts(out, STR("objects with principal, by, scope, uri, match and allow"));
    case CONFIG_PREFIXES:
        return buf_puts(out, STR("URI prefixes that end in '/' such as app:///notes/"));
    case CONFIG_PATHS:
        return buf_puts(out, STR("paths such as /run/tidings/mcp.sock"));
    case CONFIG_WORDS:
        return buf_puts(out, STR("words of visible ASCII without quotes"));
    case CONFIG_MOUNTS:
        return buf_puts(out, STR("URI=DIR such as file://data/=./data"));
    }
    return 0;
}

/* Reports an invalid value: the value and what is accepted. */
static int reject(const struct config_row *row, struct tidings_str s, const char *why,
                  struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct buf accepted;
    buf_init(&accepted, 160);
    config_put_accepted(&accepted, row);
    tidings_fail(err, TIDINGS_E_INVALID, "'%s' %s (accepted: %s)", config_quote(s, shown), why,
                 accepted.ptr ? accepted.ptr : "");
    buf_deinit(&accepted);
    return TIDINGS_E_INVALID;
}

static int config_parse_bool(struct tidings_str s, bool *out, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_BOOL};
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_eq_nocase(s, tidings_str(words[i]))) {
            *out = i % 2 == 1;
            return 0;
        }
    }
    return reject(&row, s, "is neither true nor false", err);
}

static int config_parse_number(const struct config_row *row, struct tidings_str s, uint64_t *out,
                               struct tidings_error *err)
{
    uint64_t n;
    bool ok;
    const char *noun;
    if (row->type == CONFIG_SIZE) {
        ok = units_parse_size(s, &n);
        noun = "is not a size";
    } else if (row->type == CONFIG_DURATION) {
        ok = units_parse_duration(s, &n);
        noun = "is not a duration";
    } else {
        ok = str_to_u64(s, &n);
        noun = "is not a number";
    }
    if (!ok) {
        return reject(row, s, noun, err);
    }
    if (n < row->min || n > row->max) {
        return reject(row, s, "is out of range", err);
    }
    *out = n;
    return 0;
}

static int config_parse_choice(const struct config_row *row, struct tidings_str s, unsigned *out,
                               struct tidings_error *err)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (str_eq(s, tidings_str(row->choices[i]))) {
            *out = i;
            return 0;
        }
    }
    return reject(row, s, "is none of the choices", err);
}

/* Split "host:port", "[host]:port" or "port". Returns false for other forms. */
static bool split_address(struct tidings_str s, struct tidings_str *host, struct tidings_str *port)
{
    if (s.len > 0 && s.ptr[0] == '[') {
        ptrdiff_t close = str_find(s, ']');
        if (close < 0 || (size_t)close + 1 >= s.len || s.ptr[close + 1] != ':') {
            return false;
        }
        *host = tidings_strn(s.ptr + 1, (size_t)close - 1);
        *port = str_skip(s, (size_t)close + 2);
        return true;
    }
    bool found;
    struct tidings_str rest;
    struct tidings_str first = str_cut(s, ':', &rest, &found);
    *host = found ? first : STR("127.0.0.1");
    *port = found ? rest : first;
    return host->len > 0;
}

int config_parse_address(struct tidings_str s, struct config_address *out,
                         struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_ADDRESS};
    struct tidings_str host, port;
    struct config_address a = {0};
    uint64_t number;
    if (!split_address(s, &host, &port)) {
        return reject(&row, s, "is not an address", err);
    }
    if (!str_to_u64(port, &number) || number > 65535) {
        return reject(&row, s, "has no port from 0 to 65535", err);
    }
    if (str_eq_nocase(host, STR("localhost"))) {
        host = STR("127.0.0.1");
    }
    if (host.len >= sizeof(a.host)) {
        return reject(&row, s, "has no numeric address", err);
    }
    memcpy(a.host, host.ptr, host.len);
    struct in6_addr bits;
    bool bracketed = s.ptr[0] == '[';
    if (memchr(host.ptr, '\0', host.len) ||
        inet_pton(bracketed ? AF_INET6 : AF_INET, a.host, &bits) != 1) {
        return reject(&row, s, "has no numeric address", err);
    }
    a.port = (uint16_t)number;
    *out = a;
    return 0;
}

static int config_parse_mode(struct tidings_str s, unsigned *out, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_MODE};
    unsigned mode = 0;
    bool ok = s.len > 0 && s.len <= 4;
    for (size_t i = 0; ok && i < s.len; i++) {
        ok = s.ptr[i] >= '0' && s.ptr[i] <= '7';
        mode = mode * 8 + (unsigned)(s.ptr[i] - '0');
    }
    if (!ok || mode > 0777) {
        return reject(&row, s, "is not a mode", err);
    }
    *out = mode;
    return 0;
}

bool config_address_is_loopback(const struct config_address *a)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, a->host, &four) == 1) {
        return (ntohl(four.s_addr) >> 24) == 127;
    }
    return inet_pton(AF_INET6, a->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~') {
            return false;
        }
    }
    return s.len > 0;
}

/* "host" or "host:port" or "[v6]:port", without a path or a user. */
static bool config_value_is_host(struct tidings_str s)
{
    static const char banned[] = "/\\@?#,*";
    for (size_t i = 0; i < s.len; i++) {
        if (strchr(banned, s.ptr[i])) {
            return false;
        }
    }
    return is_visible(s);
}

static bool is_origin(struct tidings_str s)
{
    for (size_t i = 0; i + 3 < s.len; i++) {
        if (memcmp(s.ptr + i, "://", 3) == 0) {
            return i > 0 && is_visible(tidings_strn(s.ptr, i)) &&
                   config_value_is_host(str_skip(s, i + 3));
        }
    }
    return false;
}

/* Makes the prefix canonical, so that it can be compared with URIs below it. */
static int check_prefix(struct tidings_str s, struct tidings_error *err)
{
    static const struct config_row row = {.type = CONFIG_PREFIXES};
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri_canonical(s, &canonical, err);
    if (rc == 0 && !str_ends(buf_str(&canonical), STR("/"))) {
        rc = reject(&row, s, "is not a prefix", err);
    } else if (rc == 0 && !str_eq(s, buf_str(&canonical))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' must be written '%.*s'", STR_ARG(s),
                          STR_ARG(buf_str(&canonical)));
    }
    buf_deinit(&canonical);
    return rc;
}

int config_check_item(enum config_type type, struct tidings_str s, struct tidings_error *err)
{
    const struct config_row row = {.type = type};
    if (type == CONFIG_HOSTS && !config_value_is_host(s)) {
        return reject(&row, s, "is not a host", err);
    }
    if (type == CONFIG_ORIGINS && !is_origin(s)) {
        return reject(&row, s, "is not an origin", err);
    }
    if (type == CONFIG_RULES) {
        return rule_check(s, err);
    }
    if (type == CONFIG_WORDS && !bearer_is_scope(s)) {
        return reject(&row, s, "is not a word", err);
    }
    if (type == CONFIG_ACCESS) {
        return access_rule_check(s, err);
    }
    if (type == CONFIG_ADDRESSES) {
        struct config_address address;
        return config_parse_address(s, &address, err);
    }
    if (type == CONFIG_PATHS && (memchr(s.ptr, '\0', s.len) || s.len > SOCKET_PATH_MAX)) {
        return reject(&row, s, "is longer than the path of a socket may be", err);
    }
    if (type == CONFIG_FILES && memchr(s.ptr, '\0', s.len)) {
        return reject(&row, s, "is not a path", err);
    }
    if (type == CONFIG_PREFIXES) {
        return check_prefix(s, err);
    }
    if (type == CONFIG_GLOBS) {
        char shown[CONFIG_QUOTE_MAX];
        int rc = glob_check(s, err);
        return rc < 0 ? error_wrap(err, rc, "'%s'", config_quote(s, shown)) : 0;
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------- */

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

/* The first item of a source replaces the list by the default items. */
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

/* Numbers, choices, addresses: parsed first, stored if their source wins. */
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
        return assign_mount(c, value, origin, err); /* stores the origin itself */
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

static void config_mounts_clear(struct config *c);

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

bool config_is_set(const struct config *c, const char *name)
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
    return store && postgres_store_is_url(tidings_str(store));
}

bool config_wants_http(const struct config *c)
{
    bool has_other =
        c->stdio || c->tcp.count > 0 || c->unix_sockets.count > 0 || c->http_unix.count > 0;
    return !has_other || config_is_set(c, "http");
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

/* Reading a list restores its default items, so a list without them begins with the empty item that
 * removes them. */
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

/* The members of the provider's own object, printed among the common members of a mount. */
static void print_settings(struct jw *w, const struct config_mount *m)
{
    struct json *settings = NULL;
    jw_put_string(w, STR("type"), tidings_str(m->ops->name));
    if (jv_parse(tidings_str(m->settings), JSON_MAX_DEPTH, &settings, NULL) < 0) {
        w->out->failed = TIDINGS_E_NOMEM; /* our own text: no other error is possible */
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

/* -------------------------------------------------------------------------------------------------
 * Mounts of the configuration: a URI prefix and its provider, with a directory for files. Both are
 * made absolute here, so that nothing later depends on the working directory. These functions open
 * nothing. They do not check a provider's own settings, because the provider reports errors in more
 * detail.
 */

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

static void config_mounts_clear(struct config *c)
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

/* Append the segments of `path` one by one, without empty ones and ".". *ret_up: there was a
 * "..". */
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

/* Symbolic links keep their name (a client uses the name that the user typed). Only if ".." makes
 * their target matter, the system resolves the path, which must exist. */
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
    if (rc == 0 && !is_there) { /* in addition to the mounts of other sources */
        rc = config_mount_add(c, &spec, c->origins[mount_row() - config_rows], err);
    }
    return rc < 0 ? error_wrap(err, rc, "--skills") : 0;
}

/* The longest prefix wins; at equal length, an option outside the mount wins. */
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
