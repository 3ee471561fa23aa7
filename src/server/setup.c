/* SPDX-License-Identifier: MIT
 *
 * Builds a server from its configuration: identity, limits, mounts, workers, listeners; and
 * destroys it. A failed setup leaves nothing behind: the server may be reconfigured and started
 * again.
 */
#include "server/setup.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tidings/server.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net/tls.h"
#include "base/str.h"
#include "cluster/cluster.h"
#include "cluster/owned_mounts.h"
#include "cluster/sessions.h"
#include "engine/catalog/provider.h"
#include "engine/delivery/hub.h"
#include "engine/protocol/enforce.h"
#include "formats/json_write.h"
#include "formats/websocket.h"
#include "server/auth_setup.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/self.h"
#include "server/server.h"
#include "server/server_internal.h"
#include "server/stats.h"
#include "server/tools_admin.h"
#include "server/tools_changes.h"
#include "sources/command.h"
#include "sources/file.h"
#include "sources/file_read.h"
#include "sources/system.h"
#include "store/commit_thread.h"

/* -------------------------------------------------------------------------------------------------
 * From the configuration to the TLS context of a server's listeners.
 */

/* -------------------------------------------------------------------------------------------------
 * From the configuration to the quotas of one client.
 *
 * Default quotas apply only to clients of other machines. Clients over loopback and Unix sockets
 * are the machine's own user, who can slow it down anyway, or a proxy whose many clients share one
 * address, for which a limit for one client would be wrong. Configured quotas apply to all clients.
 */

static struct token_bucket_rule rule(uint64_t count, uint64_t burst, uint32_t period_ms)
{
    return (struct token_bucket_rule){
        .count = (uint32_t)count, .burst = (uint32_t)burst, .period_ms = period_ms};
}

/* All limits with a row in the configuration are set. */
static void fill_limits(const struct config *c, struct limit_counters *counters)
{
    counters->fair_share = (unsigned)c->fair_share;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        (void)config_get_number(c, limit_name((enum limit)i), &counters->values[i]);
    }
}

/* From the configuration to the quotas of one client. */
static void server_set_quotas(struct tidings_server *s)
{
    const struct config *c = &s->config;
    struct quotas_options o = {.max_clients = c->max_clients};
    o.remote = (struct quota_rules){
        .max_connections = c->max_client_connections,
        .max_sessions = c->max_client_sessions,
        .connections = rule(c->connection_rate, c->connection_burst, 1000),
        .requests = rule(c->request_rate, c->request_burst, 1000),
        .subscribes = rule(c->subscribe_rate, c->subscribe_burst, 1000),
        .refusals = rule(c->block_after, c->block_after, 60000),
        .block_ms = c->block_time_ms,
    };
    o.local = o.remote;
    if (!config_is_set(c, "max-client-connections")) {
        o.local.max_connections = 0;
    }
    if (!config_is_set(c, "max-client-sessions")) {
        o.local.max_sessions = 0;
    }
    if (!config_is_set(c, "connection-rate")) {
        o.local.connections.count = 0;
    }
    if (!config_is_set(c, "request-rate")) {
        o.local.requests.count = 0;
    }
    if (!config_is_set(c, "subscribe-rate")) {
        o.local.subscribes.count = 0;
    }
    quotas_set(s->shared->quotas, &o);
    fill_limits(c, &s->shared->limits);
}

/* -------------------------------------------------------------------------------------------------
 * Loads the configured certificates and keys into a TLS context, and names the libraries for TLS
 * and WebSockets.
 */

static void on_warning(void *user, const char *file, const char *what)
{
    (void)user;
    log_warn(LOG_SERVER, "TLS", KV("file", file), KV("reason", what));
}

const char *tidings_tls_library(void)
{
    return tls_library();
}

const char *tidings_websocket_library(void)
{
    return ws_library();
}

/* Reads and checks the files; suspicious findings are logged. `ret` is set to NULL if TLS is not
 * configured. Errors name the option and the file. */
static int tls_setup(struct tls_context **ret, const struct config *c, struct tidings_error *err)
{
    size_t count = c->tls_cert.count;
    *ret = NULL;
    if (count == 0) {
        return 0;
    }
    struct tls_pair *pairs = mem_zalloc(count * sizeof(*pairs));
    if (!pairs) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        pairs[i] = (struct tls_pair){c->tls_cert.items[i], c->tls_key.items[i]};
    }
    struct tls_options o = {
        .pairs = pairs,
        .count = count,
        .client_ca = c->tls_client_ca[0] ? c->tls_client_ca : NULL,
        .client_auth = (enum tls_client_auth)c->tls_client_auth,
        .least = (enum tls_version)c->tls_min,
        .warn = on_warning,
    };
    int rc = tls_context_open(ret, &o, err);
    mem_free(pairs);
    return rc < 0 ? error_wrap(err, rc, "TLS") : 0;
}

/* -------------------------------------------------------------------------------------------------
 * The sockets a server listens on, and stdio: which ones exist, how many connections they may have
 * together, and their URLs.
 */

/* The maximum number of descriptors besides connections, except in very deep directories: rejected
 * connections, the store, key downloads; files that a worker opens for one request; the watcher of
 * a mount and its two threads; and files that clients are downloading. */
#define SPARE_DESCRIPTORS (REJECT_MAX + 32u)
#define WORKER_DESCRIPTORS 4u
#define MOUNT_DESCRIPTORS 16u

/* Only a program that runs just this server raises the limit, which applies to the whole
 * process. */
static size_t descriptor_limit(const struct tidings_server *s)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 1024;
    }
    if (s->is_program && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return (size_t)limit.rlim_cur;
}

/* The number of descriptors already open in the process: loops, mounts, those of an embedding
 * program. */
static size_t descriptors_in_use(const struct tidings_server *s)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) {
        count++;
    }
    if (!dir) {
        return 16 + 4 * s->workers.count; /* a measured value */
    }
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static size_t connection_limit(const struct tidings_server *s)
{
    size_t descriptors = descriptor_limit(s), used = descriptors_in_use(s);
    size_t left = descriptors > used ? descriptors - used : 1;
    size_t spare = SPARE_DESCRIPTORS + WORKER_DESCRIPTORS * s->workers.count +
                   MOUNT_DESCRIPTORS * s->config.mount_count + descriptors / FILE_PIECES_SHARE;
    size_t most = left > 2 * spare ? left - spare : (left + 1) / 2;
    size_t wanted = s->config.max_connections;
    size_t limit = wanted > 0 && wanted < most ? wanted : most;
    log_debug(LOG_SERVER, "limits", KV("descriptors", descriptors), KV("used", used),
              KV("connections", limit));
    return limit;
}

/* ---- listeners ------------------------------------------------------------------------------- */

bool server_has_listener(const struct tidings_server *s, enum listener_kind kind)
{
    const struct config *c = &s->config;
    bool has = kind == LISTENER_HTTP ? config_is_set(c, "http") || c->http_unix.count > 0 ||
                                           (config_wants_http(c) && s->listeners.passed_count == 0)
                                     : c->tcp.count > 0 || c->unix_sockets.count > 0;
    for (size_t i = 0; i < s->listeners.passed_count; i++) {
        has = has || s->listeners.passed[i].kind == kind;
    }
    return has;
}

int tidings_server_add_socket(struct tidings_server *s, enum tidings_listener kind, int fd,
                              struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (kind != TIDINGS_LISTENER_HTTP && kind != TIDINGS_LISTENER_LINES) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no kind of listener %d", (int)kind);
    }
    if (s->listeners.passed_count >= SERVER_LISTENERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a server has at most %u listeners",
                            SERVER_LISTENERS_MAX);
    }
    int rc = endpoint_check_passed(fd, err);
    if (rc < 0) {
        return rc;
    }
    s->listeners.passed[s->listeners.passed_count++] = (struct server_socket){
        .kind = kind == TIDINGS_LISTENER_HTTP ? LISTENER_HTTP : LISTENER_LINES,
        .fd = fd,
    };
    return 0;
}

void server_sockets_forget(struct tidings_server *s)
{
    while (s->listeners.passed_count > 0) {
        close(s->listeners.passed[--s->listeners.passed_count].fd);
    }
}

const char *tidings_server_address(struct tidings_server *s, size_t index)
{
    if (!s) {
        return NULL;
    }
    if (index < s->listeners.count) {
        return s->listeners.all[index].listener ? listener_url(s->listeners.all[index].listener)
                                                : NULL;
    }
    return index == s->listeners.count && s->config.stdio ? "stdio" : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_reach(struct tidings_server *s, const struct server_listener *d,
                       struct tidings_error *err)
{
    const struct endpoint *e = listener_endpoint(d->listener);
    bool is_http = d->protocol.kind == LISTENER_HTTP, wants = config_wants_tokens(&s->config);
    bool knows = config_knows_clients(&s->config) || (is_http && wants);
    if (wants && !is_http && !e->is_unix && !knows) { /* … a passed socket, likewise */
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "%s: this transport carries no token, so clients would not be authenticated; require "
            "certificates (--tls-client-auth require), or do not pass the socket",
            listener_url(d->listener));
    }
    if (endpoint_is_local(e)) {
        return 0;
    }
    if (wants && is_http && !config_is_encrypted(&s->config)) {
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "%s: tokens would cross the network unencrypted; add --tls-cert and --tls-key, or, if "
            "a proxy terminates TLS, name its address: --auth-resource https://…",
            listener_url(d->listener));
    }
    if (s->is_program && !s->config.allow_remote &&
        !knows) { /* a passed socket: others were checked before */
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the passed socket %s can be reached by other machines and nothing "
                            "asks who they are; add --allow-remote to serve there",
                            listener_url(d->listener));
    }
    if (knows) {
        return 0;
    }
    if (is_http && s->config.console) { /* a passed socket, likewise */
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s is reachable from other machines without authentication, so "
                            "--console is not available; require tokens (--auth-issuer, "
                            "--auth-tokens) or certificates (--tls-client-auth require)",
                            listener_url(d->listener));
    }
    log_warn(LOG_SERVER, "open to the network", KV("address", e->host), KV("port", e->port),
             KV("reason", d->protocol.tls ? "no authentication is configured"
                                          : "no authentication is configured, and everything can "
                                            "be read on the way"));
    return 0;
}

static int open_one(struct tidings_server *s, enum listener_kind kind,
                    const struct endpoint_address *at, struct tidings_error *err)
{
    if (s->listeners.count >= SERVER_LISTENERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a server has at most %u listeners",
                            SERVER_LISTENERS_MAX);
    }
    struct server_listener *d = &s->listeners.all[s->listeners.count];
    d->protocol = (struct listener_protocol){.kind = kind, .tls = s->listeners.tls};
    struct listener_options o = {
        .protocol = &d->protocol,
        .at = *at,
        .max_connections = s->listeners.max_connections,
        .inboxes = s->workers.inboxes,
        .worker_count = s->workers.count,
        .quotas = s->shared->quotas,
        .client_accounts = s->shared->client_accounts,
        .rejects = s->listeners.rejects,
    };
    d->listener = listener_open(s->loop, &o, err);
    if (!d->listener) {
        return err->code < 0 ? err->code : TIDINGS_E_IO;
    }
    s->listeners.count++;
    if (listener_endpoint(d->listener)->is_unix) {
        d->protocol.tls = NULL; /* it does not leave the machine */
    }
    return check_reach(s, d, err);
}

static int open_http(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    if (!config_is_set(c, "http") && (!config_wants_http(c) || s->listeners.passed_count > 0)) {
        return 0;
    }
    struct endpoint_address at = {
        .option = "--http ADDR:PORT", .host = c->http.host, .port = c->http.port};
    return open_one(s, LISTENER_HTTP, &at, err);
}

static int open_tcp(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->tcp.count; i++) {
        struct config_address a;
        rc = config_parse_address(tidings_str(c->tcp.items[i]), &a, err);
        struct endpoint_address at = {.option = "--tcp ADDR:PORT", .host = a.host, .port = a.port};
        rc = rc < 0 ? rc : open_one(s, LISTENER_LINES, &at, err);
    }
    return rc;
}

static int open_paths(struct tidings_server *s, enum listener_kind kind, struct tidings_error *err)
{
    const struct config *c = &s->config;
    bool is_http = kind == LISTENER_HTTP;
    const struct config_list *paths = is_http ? &c->http_unix : &c->unix_sockets;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < paths->count; i++) {
        struct endpoint_address at = {.option = is_http ? "--http-unix PATH" : "--unix PATH",
                                      .path = paths->items[i],
                                      .mode = c->unix_mode};
        rc = open_one(s, kind, &at, err);
    }
    return rc;
}

/* The program's descriptors are released only when all listeners are open, because a failed start
 * may be repeated. */
static int open_passed(struct tidings_server *s, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->listeners.passed_count; i++) {
        struct endpoint_address at = {.fd = s->listeners.passed[i].fd};
        rc = open_one(s, s->listeners.passed[i].kind, &at, err);
    }
    if (rc == 0) {
        server_sockets_forget(s);
    }
    return rc;
}

/* ---- all listeners --------------------------------------------------------------------------- */

static void input_ended(void *user)
{
    struct tidings_server *s = user;
    if (s->listeners.count == 0) {
        tidings_server_stop(s);
    }
}

static int open_stdio(struct tidings_server *s, struct tidings_error *err)
{
    int rc = worker_thread_open_stdio(s->workers.threads[0], STDIN_FILENO, STDOUT_FILENO,
                                      s->config.max_line, err);
    if (rc == 0) {
        s->workers.threads[0]->input_ended = input_ended;
        s->workers.threads[0]->input_user = s;
    }
    return rc;
}

static int server_listeners_open(struct tidings_server *s, struct tidings_error *err)
{
    s->listeners.all = mem_zalloc(SERVER_LISTENERS_MAX * sizeof(*s->listeners.all));
    s->listeners.rejects = reject_list_create(s->loop);
    if (!s->listeners.all || !s->listeners.rejects) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->listeners.max_connections = connection_limit(s);
    s->shared->limits.values[LIMIT_CONNECTIONS] = s->listeners.max_connections;
    int rc = tls_setup(&s->listeners.tls, &s->config, err);
    if (rc < 0) {
        return rc;
    }
    rc = s->config.stdio ? open_stdio(s, err) : 0;
    if (rc == 0) {
        rc = open_http(s, err);
    }
    if (rc == 0) {
        rc = open_paths(s, LISTENER_HTTP, err);
    }
    if (rc == 0) {
        rc = open_tcp(s, err);
    }
    if (rc == 0) {
        rc = open_paths(s, LISTENER_LINES, err);
    }
    return rc < 0 ? rc : open_passed(s, err);
}

/* The URL of the first HTTP listener, if the programs of this machine, and only they, reach the
 * server by it; else NULL. */
static const char *server_listeners_url(const struct tidings_server *s)
{
    for (size_t i = 0; i < s->listeners.count; i++) {
        const struct endpoint *e = listener_endpoint(s->listeners.all[i].listener);
        if (s->listeners.all[i].protocol.kind == LISTENER_HTTP && !e->is_unix) {
            return endpoint_is_local(e) ? listener_url(s->listeners.all[i].listener) : NULL;
        }
    }
    return NULL;
}

void server_listeners_close(struct tidings_server *s)
{
    for (size_t i = 0; i < s->listeners.count; i++) {
        listener_close(s->listeners.all[i].listener);
        s->listeners.all[i].listener = NULL;
    }
    reject_list_destroy(s->listeners.rejects);
    s->listeners.rejects = NULL;
}

/* no new connections arrive */
static void server_listeners_destroy(struct tidings_server *s)
{
    server_listeners_close(s);
    mem_free(s->listeners.all);
    s->listeners.all = NULL;
    tls_context_unref(s->listeners.tls);
    s->listeners.tls = NULL;
    s->listeners.count = 0;
}

/* -------------------------------------------------------------------------------------------------
 * Configures the log.
 */

struct log_settings {
    struct log_levels levels;
    enum log_format format;
    bool has_access_log;
};

/* The text was checked when it was set. */
static void read_levels(const struct config *c, struct log_levels *ret)
{
    (void)log_levels_parse(tidings_str(c->log_level), ret, NULL);
}

void log_setup_levels(const struct config *c)
{
    struct log_levels levels = {.of = {TIDINGS_LOG_OFF}};
    read_levels(c, &levels);
    log_set_levels(&levels);
    log_set_access(c->access_log || c->access_log_file[0]);
}

/* Before the process confines itself: the target and format of the log. */
static int log_setup_open(const struct config *c, struct tidings_error *err)
{
    int rc = log_set_format((enum log_format)c->log_format, NULL, err);
    rc = rc < 0 || !c->log_file[0] ? rc : log_open_file(c->log_file, err);
    return rc < 0 || !c->access_log_file[0] ? rc : log_open_access_file(c->access_log_file, err);
}

static int log_setup_load(const struct config *c, struct log_settings **ret,
                          struct tidings_error *err)
{
    struct config fresh;
    *ret = NULL;
    if (!c->file) {
        return 0;
    }
    struct log_settings *s = mem_zalloc(sizeof(*s));
    int rc = s ? config_init(&fresh, err) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        mem_free(s);
        return tidings_fail(err, rc, "out of memory");
    }
    rc = config_load_file(&fresh, c->file, c->file_from, err);
    if (rc == 0) {
        read_levels(config_is_beyond_file(c, "log-level") ? c : &fresh, &s->levels);
        s->format =
            (enum log_format)(config_is_beyond_file(c, "log-format") ? c : &fresh)->log_format;
        s->has_access_log = c->access_log_file[0] || /* opened before the process confined itself */
                            (config_is_beyond_file(c, "access-log") ? c : &fresh)->access_log;
        *ret = s;
    } else {
        mem_free(s);
    }
    config_deinit(&fresh);
    return rc;
}

/* Takes it */
static void log_setup_put(struct log_settings *fresh)
{
    struct tidings_error err = {0, ""};
    log_set_levels(&fresh->levels);
    log_set_access(fresh->has_access_log);
    if (log_set_format(fresh->format, NULL, &err) < 0) {
        log_error(LOG_SERVER, "format of the log stays as it was", KV("reason", err.text));
    }
    mem_free(fresh);
}

/* Rereads the configuration file for levels, format and the access log. *ret NULL: there is no
 * file. */
static void log_setup_drop(struct log_settings *fresh)
{
    mem_free(fresh);
}

/* -------------------------------------------------------------------------------------------------
 * Reload (SIGHUP, tidings_server_reload): rereads certificates, tokens, access rules and log
 * settings while the server runs. Each row loads its new value without changing the current one;
 * only if all of them load are they put in place. So an error in one file changes nothing.
 *
 * Runs on the thread of the server's own loop, between two turns.
 */

struct reloadable {
    const char *name;
    /* `ret` NULL: not configured. */
    int (*load)(struct tidings_server *s, void **ret, struct tidings_error *err);
    void (*put)(struct tidings_server *s, void *fresh); /* takes it */
    void (*drop)(void *fresh);                          /* NULL is fine */
};

/* ---- certificates, keys, CAs ----------------------------------------------------------------- */

static int load_tls(struct tidings_server *s, void **ret, struct tidings_error *err)
{
    struct tls_context *fresh = NULL;
    int rc = tls_setup(&fresh, &s->config, err);
    *ret = fresh;
    return rc;
}

/* Existing connections keep their TLS context. */
static void put_tls(struct tidings_server *s, void *fresh)
{
    struct tls_context *old = s->listeners.tls;
    s->listeners.tls = fresh;
    for (size_t i = 0; i < s->listeners.count; i++) {
        if (s->listeners.all[i].protocol.tls) {
            s->listeners.all[i].protocol.tls = s->listeners.tls;
        }
    }
    tls_context_unref(old);
}

static void drop_tls(void *fresh)
{
    tls_context_unref(fresh);
}

/* ---- tokens, keys, credentials --------------------------------------------------------------- */

static int load_auth(struct tidings_server *s, void **ret, struct tidings_error *err)
{
    struct auth_files *fresh = NULL;
    int rc = s->oauth.http.auth ? auth_load_files(s->oauth.http.auth, &fresh, err) : 0;
    *ret = fresh;
    return rc;
}

static void put_auth(struct tidings_server *s, void *fresh)
{
    auth_put_files(s->oauth.http.auth, fresh);
}

static void drop_auth(void *fresh)
{
    auth_files_destroy(fresh);
}

/* ---- access rules ---------------------------------------------------------------------------- */

static int load_access(struct tidings_server *s, void **ret, struct tidings_error *err)
{
    bool has_file = s->config.access_file && s->config.access_file[0];
    struct access_rules *fresh = NULL;
    int rc = has_file ? access_load(&s->config, &fresh, err) : 0;
    *ret = fresh;
    return rc;
}

static int notify_workers(struct hub *hub, void *rules, struct tidings_error *err)
{
    return access_enforce_everywhere(hub, rules, err);
}

static void put_access(struct tidings_server *s, void *fresh)
{
    struct tidings_error err;
    if (hub_run_on(s->hub, notify_workers, fresh, &err) < 0) {
        log_error(LOG_SERVER, "access rules stay as they were", KV("reason", err.text));
    }
    access_rules_unref(fresh);
}

static void drop_access(void *fresh)
{
    access_rules_unref(fresh);
}

/* ---- the log --------------------------------------------------------------------------------- */

static int load_log(struct tidings_server *s, void **ret, struct tidings_error *err)
{
    struct log_settings *fresh = NULL;
    int rc = s->is_program ? log_setup_load(&s->config, &fresh, err) : 0;
    *ret = fresh;
    return rc;
}

static void put_log(struct tidings_server *s, void *fresh)
{
    (void)s;
    log_setup_put(fresh);
}

static void drop_log(void *fresh)
{
    log_setup_drop(fresh);
}

static const struct reloadable rows[] = {
    {"tls", load_tls, put_tls, drop_tls},
    {"tokens", load_auth, put_auth, drop_auth},
    {"access", load_access, put_access, drop_access},
    {"log", load_log, put_log, drop_log},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- all rows -------------------------------------------------------------------------------- */

static void server_reload_now(struct tidings_server *s)
{
    void *fresh[ROWS] = {NULL};
    struct tidings_error err = {0, ""};
    size_t loaded = 0, put = 0;
    int rc = 0;
    while (rc == 0 && loaded < ROWS) {
        rc = rows[loaded].load(s, &fresh[loaded], &err);
        loaded++;
    }
    for (size_t i = 0; i < loaded; i++) {
        if (rc < 0) {
            rows[i].drop(fresh[i]);
        } else if (fresh[i]) {
            rows[i].put(s, fresh[i]);
            put++;
            log_info(LOG_SERVER, "reloaded", KV("what", rows[i].name));
        }
    }
    if (rc < 0) {
        log_error(LOG_SERVER, "reload failed, all stays as it was", KV("reason", err.text));
    } else if (put == 0) {
        log_info(LOG_SERVER, "reload: nothing is configured that can be reloaded", NO_FIELDS);
    }
    if (s->reloaded) {
        s->reloaded(s->reloaded_user, rc, &err);
    }
}

static void reopen_log(void)
{
    struct tidings_error err = {0, ""};
    if (log_reopen_file(&err) < 0) {
        log_error(LOG_SERVER, "log file stays as it was", KV("reason", err.text));
    } else {
        log_info(LOG_SERVER, "log file opened again", NO_FIELDS);
    }
}

void server_reload_when_asked(struct tidings_server *s)
{
    if (__atomic_exchange_n(&s->reopening, false, __ATOMIC_ACQ_REL)) {
        reopen_log();
    }
    if (__atomic_exchange_n(&s->reloading, false, __ATOMIC_ACQ_REL)) {
        server_reload_now(s);
    }
}

void tidings_server_on_reloaded(struct tidings_server *s, tidings_reloaded_fn fn, void *user)
{
    if (s) {
        s->reloaded = fn;
        s->reloaded_user = user;
    }
}

void tidings_server_reload(struct tidings_server *s)
{
    if (s) {
        __atomic_store_n(&s->reloading, true, __ATOMIC_RELEASE);
        loop_stop(s->loop);
    }
}

void tidings_server_reopen_log(struct tidings_server *s)
{
    if (s) {
        __atomic_store_n(&s->reopening, true, __ATOMIC_RELEASE);
        loop_stop(s->loop);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The table of built-in providers; opens the provider of a configured mount.
 */

static const struct tidings_provider_ops *const providers[] = {
    &provider_file_ops,
    &provider_system_ops,
    &provider_command_ops,
};

const struct tidings_provider_ops *builtin_find(struct tidings_str name)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        if (str_eq(name, tidings_str(providers[i]->name))) {
            return providers[i];
        }
    }
    return NULL;
}

const struct tidings_provider_ops *tidings_provider_find(const char *name)
{
    return builtin_find(tidings_str(name));
}

int builtin_mount(struct hub *hub, const struct tidings_provider_ops *ops,
                  struct tidings_str prefix, struct tidings_str config, struct tidings_error *err)
{
    struct tidings_provider *p = NULL;
    int rc = hub_mount(hub, ops, prefix, config, &p, err);
    if (rc == 0 && ops == &provider_system_ops) {
        p->row = provider_system_row;
    } else if (rc == 0 && ops == &provider_command_ops) {
        p->refuses_watches = provider_command_is_mute(p);
    }
    return rc;
}

/* The file provider's own configuration for one mount. */
static void write_files(struct jw *w, const struct config *c, const struct config_mount *m)
{
    jw_begin_object(w);
    jw_put_string(w, STR("root"), tidings_str(m->path));
    jw_key(w, STR("exclude"));
    jw_begin_array(w);
    const struct config_list *lists[] = {&c->exclude, &m->exclude};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < lists[k]->count; i++) {
            jw_string(w, tidings_str(lists[k]->items[i]));
        }
    }
    jw_end_array(w);
    jw_put_bool(w, STR("excludeDefaults"), false); /* the table's own default names .git */
    jw_put_integer(w, STR("maxRead"), (int64_t)c->max_read);
    jw_put_integer(w, STR("maxWatches"), (int64_t)c->max_watches);
    jw_put_integer(w, STR("quietMs"), (int64_t)c->watch_quiet_ms);
    jw_put_integer(w, STR("lingerMs"), (int64_t)c->watch_linger_ms);
    jw_end_object(w);
}

static int mount_one(struct hub *hub, const struct config *c, const struct config_mount *m,
                     struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, 4u << 20);
    struct jw w;
    jw_init(&w, &text);
    if (m->path) {
        write_files(&w, c, m);
    } else {
        jw_raw(&w, tidings_str(m->settings));
    }
    int rc = text.failed ? tidings_fail(err, text.failed, "out of memory")
                         : builtin_mount(hub, m->ops, tidings_str(m->uri), buf_str(&text), err);
    buf_deinit(&text);
    return rc;
}

/* `--system` is a mount with its own option for the interval. */
static int mount_system(struct hub *hub, const struct config *c, struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, 64);
    buf_putf(&text, "{\"interval\":\"%llums\"}", (unsigned long long)c->system_interval_ms);
    int rc =
        builtin_mount(hub, &provider_system_ops, STR(PROVIDER_SYSTEM_PREFIX), buf_str(&text), err);
    buf_deinit(&text);
    return rc;
}

/* Open all configured mounts, in order. */
static int builtin_mount_all(struct hub *hub, const struct config *c, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        rc = mount_one(hub, c, &c->mounts[i], err);
    }
    return rc == 0 && c->system ? mount_system(hub, c, err) : rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define LIST_CHANGED_MS 100u
#define RETRY_MS 1000
#define LIST_LINGER_MS 10000u /* longer than a client needs to reopen its stream */

static void put_info(struct jw *w, struct tidings_str key, struct tidings_str value)
{
    if (value.len > 0) {
        jw_put_string(w, key, value);
    }
}

/* The name of the program; NULL: unknown. */
static const char *program_name(void)
{
    struct tidings_str name = tidings_str(program_invocation_short_name);
    return name.len > 0 && name.len <= 128 && str_is_utf8(name) ? name.ptr : NULL;
}

/* A server without its own info has the name of its program and no version; only the program
 * `tidings` has the library's version. */
static void put_name(const struct tidings_server *s, struct jw *w)
{
    const struct tidings_server_info *info = &s->settings.info;
    const char *program = config_is_set(&s->config, "name") ? NULL : program_name();
    struct tidings_str name = tidings_str(program ? program : s->config.name);
    bool is_ours = str_eq(name, STR("tidings")) || !program;
    jw_put_string(w, STR("name"), info->name.len > 0 ? info->name : name);
    jw_put_string(w, STR("version"),
                  info->version.len > 0            ? info->version
                  : is_ours && info->name.len == 0 ? tidings_str(tidings_version())
                                                   : STR("0"));
}

static void build_identity(struct tidings_server *s)
{
    const struct tidings_server_info *info = &s->settings.info;
    const struct config *c = &s->config;
    struct jw w;
    buf_clear(&s->settings.implementation);
    jw_init(&w, &s->settings.implementation);
    jw_begin_object(&w);
    put_name(s, &w);
    put_info(&w, STR("title"), info->title.len > 0 ? info->title : tidings_str(c->title));
    put_info(&w, STR("description"), info->description);
    put_info(&w, STR("websiteUrl"), info->website_url);
    jw_end_object(&w);
    s->settings.identity.implementation = buf_str(&s->settings.implementation);
    s->settings.identity.has_instructions =
        info->instructions.len > 0 || config_is_set(c, "instructions");
    s->settings.identity.instructions =
        info->instructions.len > 0 ? info->instructions : tidings_str(c->instructions);
    buf_clear(&s->settings.ceiling);
    config_get(c, "protocol-max", &s->settings.ceiling);
    s->settings.identity.ceiling = buf_str(&s->settings.ceiling);
    s->settings.identity.list_changed = c->list_changed;
    s->settings.identity.no_subscriptions = !c->subscribe;
    s->settings.identity.allow_write = c->allow_write;
    s->settings.identity.is_private = config_wants_tokens(c) ||
                                      c->tls_client_auth != TLS_CLIENT_OFF || c->access.count > 0 ||
                                      c->access_file[0] != '\0';
    s->settings.identity.has_rate = config_is_set(c, "rate");
    struct buf profile;
    buf_init(&profile, 64);
    config_get(c, "profile", &profile);
    s->settings.identity.profile = dialect_find_profile(buf_str(&profile));
    buf_deinit(&profile);
    /* Hosts that start with tools/list fail if a server does not support it
     * (tests/integration/hosts.test.mjs), so the server returns an empty list. A profile follows
     * its source document. */
    bool has_lists = s->settings.identity.profile == NULL;
    s->settings.identity.has_tools = s->settings.identity.has_tools || has_lists;
    s->settings.identity.has_prompts = s->settings.identity.has_prompts || has_lists;
}

static int setup_health(void *user, bool is_live, bool is_detailed, char *out, size_t size)
{
    char text[HEALTH_TEXT];
    int status = server_health_text(user, is_live, is_detailed, text);
    snprintf(out, size, "%s", text);
    return status;
}

static void freeze_limits(struct tidings_server *s)
{
    const struct config *c = &s->config;
    s->settings.option_limits = (struct option_limits){
        .window_ms = c->window_ms,
        .rate_ms = c->rate_ms,
        .is_slim = c->detail != 0,
        .max_window_ms = c->max_window_ms,
        .max_rate_ms = c->max_rate_ms,
        .rules = s->settings.rules.at,
        .rule_count = s->settings.rules.count,
    };
    s->settings.limits = (struct worker_limits){
        .page_size = c->page_size,
        .max_page_size = 1000,
        .max_read_bytes = c->max_read,
        .max_depth = (unsigned)c->max_depth,
        .max_sessions = c->max_sessions,
        .max_listens = c->max_listens,
        .max_uris_per_listen = c->max_uris_per_listen,
        .max_subscriptions = c->max_subscriptions,
        .max_all_subscriptions = c->max_all_subscriptions,
        .outbox_max = c->outbox,
        .max_broad = c->max_breadth,
        .max_value_bytes = c->max_value,
        .max_calls = c->max_calls,
        .call_timeout_ms = c->call_timeout_ms,
        .ask_timeout_ms = c->ask_timeout_ms,
        .max_tasks = c->max_tasks,
        .max_client_tasks = c->max_client_tasks,
        .task_ttl_ms = c->task_ttl_ms,
        .options = &s->settings.option_limits,
        .session_timeout_ms = c->session_timeout_ms,
        .io_uring = c->io_uring == 0,
        .retry_ms = RETRY_MS,
        .bookmark_ms = c->keepalive_ms,
        .list_linger_ms = LIST_LINGER_MS,
        .refuses_stale = c->stale_reads == 1,
    };
    s->settings.http = (struct http_config){
        .origin_check =
            {
                .hosts = (const char *const *)c->allow_host.items,
                .host_count = c->allow_host.count,
                .origins = (const char *const *)c->allow_origin.items,
                .origin_count = c->allow_origin.count,
            },
        .auth = config_wants_tokens(c) ? &s->oauth.http : NULL,
        .routes = s->registry.routes,
        .route_count = s->registry.route_count,
        .max_body = c->max_body,
        .allow_write = c->allow_write,
        .legacy_sse = c->legacy_sse,
        .metrics = c->metrics && strcmp(c->metrics, "path") == 0,
        .health = setup_health,
        .health_user = s,
        .events = dialect_rules(&s->settings.identity)->has_events,
        .keepalive_ms = c->keepalive_ms,
        .header_timeout_ms = c->header_timeout_ms,
        .body_timeout_ms = c->body_timeout_ms,
        .idle_timeout_ms = c->idle_timeout_ms,
        .stall_timeout_ms = c->stall_timeout_ms,
    };
    s->settings.sockets = (struct socket_config){
        .max_line = c->max_line,
        .keepalive_ms = c->keepalive_ms,
        .header_timeout_ms = c->header_timeout_ms,
        .body_timeout_ms = c->body_timeout_ms,
        .idle_timeout_ms = c->idle_timeout_ms,
        .stall_timeout_ms = c->stall_timeout_ms,
        .session_timeout_ms = c->session_timeout_ms,
    };
}

static int open_console(struct tidings_server *s, struct tidings_error *err)
{
    int rc = console_init(&s->admin.console, err);
    s->settings.http.console_page = rc == 0 ? buf_str(&s->admin.console.page) : STR_EMPTY;
    s->settings.http.console_policy = rc == 0 ? buf_str(&s->admin.console.policy) : STR_EMPTY;
    return rc;
}

static struct http_worker *find_worker(void *user, unsigned index)
{
    struct tidings_server *s = user;
    return index < s->workers.count ? s->workers.threads[index]->http : NULL;
}

static int build_workers(struct tidings_server *s, struct tidings_error *err)
{
    size_t count = s->workers.count;
    s->workers.threads = mem_zalloc(count * sizeof(struct worker_thread *));
    s->workers.inboxes = mem_zalloc(count * sizeof(struct worker_inboxes));
    s->workers.cores = mem_zalloc(count * sizeof(struct worker *));
    if (!s->workers.threads || !s->workers.inboxes || !s->workers.cores) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct worker_thread_options o = {
            .loop = count == 1 ? s->loop : NULL,
            .hub = s->hub,
            .shared = s->shared,
            .limits = &s->settings.limits,
            .self = &s->settings.identity,
            .http = server_has_listener(s, LISTENER_HTTP) ? &s->settings.http : NULL,
            .sockets = server_has_listener(s, LISTENER_LINES) ? &s->settings.sockets : NULL,
            .find = find_worker,
            .find_user = s,
            .index = (unsigned)i,
            .count = (unsigned)count,
            .sessions = cluster_sessions_store(s->store.cluster),
        };
        s->workers.threads[i] = worker_thread_create(&o, err);
        if (!s->workers.threads[i]) {
            return TIDINGS_E_NOMEM;
        }
        worker_thread_get_inboxes(s->workers.threads[i], &s->workers.inboxes[i]);
        s->workers.cores[i] = &s->workers.threads[i]->core.worker;
        access_enforce_rules(s->workers.cores[i], access_rules_ref(s->settings.access));
        if (s->sandbox.is_entered && (o.http || o.sockets)) {
            sendq_batch_open_ring(&s->workers.cores[i]->batch); /* later, the sandbox forbids it */
        }
    }
    if (s->admin.status) {
        status_set_cores(s->admin.status, s->workers.cores, count);
    }
    if (s->store.cluster) {
        cluster_sessions_bind(s->store.cluster, s->workers.cores, count);
    }
    return 0;
}

static int check_has_something(struct tidings_server *s, struct tidings_error *err)
{
    struct catalog *c = hub_catalog(s->hub);
    struct feature_list *tools = hub_features(s->hub, FEATURE_TOOL);
    struct feature_list *prompts = hub_features(s->hub, FEATURE_PROMPT);
    bool empty = c->mount_count == 0 && c->resources.count == 0 && c->templates.count == 0 &&
                 !tools && !prompts;
    feature_list_unref(tools);
    feature_list_unref(prompts);
    catalog_unref(c);
    return empty ? tidings_fail(err, TIDINGS_E_INVALID, "nothing to serve; name a directory") : 0;
}

/* The sources of the served resources. */
static int mount_all(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = builtin_mount_all(s->hub, c, err);
    if (rc == 0) {
        rc = server_publish_mount(&s->publishing, err);
    }
    if (rc == 0) {
        rc = server_entities_mount(&s->publishing, err);
    }
    if (rc == 0 && s->is_program && !config_shows_self(c)) {
        rc = check_has_something(s, err);
    }
    if (rc == 0) {
        rc =
            hub_mount(s->hub, config_shows_self(c) ? &provider_status_ops : &provider_semantics_ops,
                      STR(STATUS_PREFIX), STR_EMPTY, &s->admin.status, err);
    }
    if (rc == 0) {
        rc = server_tasks_mount(&s->store.tasks, s->store.has_file ? s->store.commit_thread : NULL,
                                err);
    }
    if (rc == 0) {
        status_set_sandbox(s->admin.status, &s->sandbox);
        status_set_server(s->admin.status, s);
        status_set_cluster(s->admin.status, s->store.cluster);
    }
    if (rc == 0) {
        rc = server_publish_check(&s->publishing, err);
    }
    return rc;
}

enum { CHANGE_TOOLS_AUTO, CHANGE_TOOLS_ON, CHANGE_TOOLS_OFF }; /* values of change-tools */

/* Returns true if any resource can change, besides the server's own state. */
static bool has_resources(struct tidings_server *s)
{
    struct catalog *c = hub_catalog(s->hub);
    bool has = c->mount_count > (s->store.tasks.provider ? 2u : 1u) || c->resources.count > 0 ||
               c->templates.count > 0;
    catalog_unref(c);
    return has;
}

/* Returns true if only hosts on this machine use the server, by stdio or HTTP. Many hosts request
 * tools first, and fail if a server has none. A program that embeds the library registers its own
 * tools, or requests these. */
static bool serves_hosts(const struct tidings_server *s)
{
    const struct config *c = &s->config;
    bool has_http =
        s->is_program && server_has_listener(s, LISTENER_HTTP) && s->listeners.passed_count == 0;
    return c->stdio || (has_http && config_address_is_loopback(&c->http));
}

/* A program's tools of these names take precedence, unless ours are requested explicitly. */
static int offer_change_tools(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    bool is_wanted = c->change_tools == CHANGE_TOOLS_ON;
    bool is_fit = serves_hosts(s) && c->subscribe && (config_shows_self(c) || has_resources(s));
    if (c->change_tools == CHANGE_TOOLS_OFF || (!is_wanted && !is_fit)) {
        return 0;
    }
    int rc = change_tools_add(s, err);
    s->admin.has_change_tools = rc == 0;
    if (rc == TIDINGS_E_EXISTS && !is_wanted) {
        return 0;
    }
    return rc < 0 ? error_wrap(err, rc, "change-tools") : 0;
}

static int server_setup_steps(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = config_mount_skills(&s->config, err);
    rc = rc < 0 ? rc : config_check(c, err);
    if (rc < 0) {
        return rc;
    }
    if (s->is_program) {
        mem_bound_retained();
    }
    bool listens = server_has_listener(s, LISTENER_HTTP) || server_has_listener(s, LISTENER_LINES);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = c->workers > 0 ? c->workers : cores > 0 ? (size_t)cores : 1;
    s->workers.count = is_stepped || !listens ? 1 : wanted;
    build_identity(s);
    rules_deinit(&s->settings.rules);
    rc = rules_init(&s->settings.rules, c, &s->registry.runtime_rules, err);
    access_rules_unref(s->settings.access);
    s->settings.access = NULL;
    if (rc == 0) {
        rc = access_load(c, &s->settings.access, err);
    }
    if (rc < 0) {
        return rc;
    }
    freeze_limits(s);
    server_set_quotas(s);
    struct hub_options o = {
        .log =
            {
                .max_entries = c->log_entries,
                .max_bytes = c->log_bytes,
                .max_age_ms = c->log_age_ms,
            },
        .max_announced = c->max_announced,
        .list_changed_ms = LIST_CHANGED_MS,
        .watch_timeout_ms = c->watch_timeout_ms,
        .list_changed = c->list_changed,
    };
    rc = server_store_open(&s->store, &o.log, &o.durable, err);
    o.is_shared = rc == 0 && server_store_is_shared(&s->store);
    if (rc == 0) {
        rc = hub_start(s->hub, &o, err);
    }
    if (o.is_shared && rc == 0) {
        rc = cluster_sessions_open(s->store.cluster, err);
    }
    if (rc == 0) {
        rc = mount_all(s, err);
    }
    if (o.is_shared && rc == 0) {
        rc = cluster_owned_open(s->store.cluster, err);
    }
    if (rc == 0) {
        rc = server_files_open(&s->store, c->log_entries, err);
    }
    if (rc == 0) {
        rc = offer_change_tools(s, err);
    }
    if (rc == 0 && config_shows_self(c)) {
        rc = server_end_peer_add(s, err);
        s->admin.has_end_peer = rc == 0;
        rc = rc == TIDINGS_E_EXISTS ? 0 : rc; /* the program's tools are kept */
    }
    if (rc == 0 && c->console) {
        rc = open_console(s, err);
    }
    if (rc == 0) {
        rc = build_workers(s, err);
    }
    if (rc == 0 && c->console) {
        rc = server_history_open(s, err);
    }
    if (rc == 0) {
        rc = server_listeners_open(s, err);
    }
    if (rc == 0) {
        rc = server_metrics_listen(s, err);
    }
    if (rc == 0) {
        rc = oauth_setup_open(&s->oauth, c, server_listeners_url(s), s->settings.access, err);
    }
    if (rc == 0) {
        status_set_auth(s->admin.status, s->oauth.http.auth);
    }
    return rc;
}

/* Operators who debug a setting need to know which file was read. */
static void log_settings(const struct config *c)
{
    char path[PATH_MAX];
    if (c->file) {
        log_info(LOG_SERVER, "settings", KV("file", realpath(c->file, path) ? path : c->file));
    }
}

int server_setup(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    struct tidings_error why = {0, ""};
    struct catalog *before = hub_catalog(s->hub);
    int rc = s->is_program ? log_setup_open(&s->config, &why) : 0;
    if (rc == 0) {
        log_settings(&s->config);
        rc = server_setup_steps(s, is_stepped, &why);
    }
    if (rc < 0) {
        if (err) {
            *err = why;
        }
        hub_detach_all(s->hub);
        server_teardown(s);
        server_publish_remove_tools(s);
        if (s->admin.has_change_tools) {
            change_tools_remove(s);
            s->admin.has_change_tools = false;
        }
        if (s->admin.has_end_peer) {
            server_end_peer_remove(s);
            s->admin.has_end_peer = false;
        }
        server_entities_unmount(&s->publishing);
        s->admin.status = NULL;
        cluster_leave(s->store.cluster);
        hub_unmount_new(s->hub, before);
        server_store_close(&s->store, true);
        hub_undo_start(s->hub);
        loop_free_discarded(s->loop); /* no turn: messages and timers need a hub that runs */
    } else {
        server_publish_open(&s->publishing);
    }
    catalog_unref(before);
    return rc;
}

void server_teardown(struct tidings_server *s)
{
    server_listeners_close(s);
    server_history_stop(s);
    for (size_t i = 0; s->workers.threads && i < s->workers.count; i++) {
        s->is_stuck = !worker_thread_destroy(s->workers.threads[i]) || s->is_stuck;
    }
    if (s->admin.status) {
        status_set_cores(s->admin.status, NULL, 0);
        status_set_auth(s->admin.status, NULL);
    }
    mem_free(s->workers.threads);
    if (!s->is_stuck) { /* else the leaked worker may still answer */
        server_history_destroy(s->admin.history);
        s->admin.history = NULL;
    }
    server_metrics_close(s);
    oauth_setup_close(&s->oauth);
    console_deinit(&s->admin.console);
    server_listeners_destroy(s);
    mem_free(s->workers.inboxes);
    mem_free(s->workers.cores);
    s->workers.cores = NULL;
    s->workers.threads = NULL;
    s->workers.inboxes = NULL;
    s->workers.count = 0;
}
