/* SPDX-License-Identifier: MIT
 *
 * The sockets a server listens on, and stdio: which there are, how many connections they may have
 * together, and their URLs.
 */
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "provider/file_pieces.h"
#include "server/server_private.h"
#include "server/tls_setup.h"

/* What will be needed besides connections, at most at once but for very deep directories: those who
 * are turned away, the store, keys that are fetched; files that a worker has open for one request;
 * the watcher of a mount and its two threads; and files that clients are downloading. */
#define SPARE_DESCRIPTORS (REJECT_MAX + 32u)
#define WORKER_DESCRIPTORS 4u
#define MOUNT_DESCRIPTORS 16u

/* Only a program of its own raises the limit: it belongs to the whole process. */
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

/* How many the process has open already: loops, mounts, what an embedding program has. */
static size_t descriptors_in_use(const struct tidings_server *s)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) {
        count++;
    }
    if (!dir) {
        return 16 + 4 * s->worker_count; /* as it was measured */
    }
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static size_t connection_limit(const struct tidings_server *s)
{
    size_t descriptors = descriptor_limit(s), used = descriptors_in_use(s);
    size_t left = descriptors > used ? descriptors - used : 1;
    size_t spare = SPARE_DESCRIPTORS + WORKER_DESCRIPTORS * s->worker_count +
                   MOUNT_DESCRIPTORS * s->config.mount_count + descriptors / FILE_PIECES_SHARE;
    size_t most = left > 2 * spare ? left - spare : (left + 1) / 2;
    size_t wanted = s->config.max_connections;
    size_t limit = wanted > 0 && wanted < most ? wanted : most;
    log_debug(LOG_SERVER, "limits", KV("descriptors", descriptors), KV("used", used),
              KV("connections", limit));
    return limit;
}

/* ---- which there are ------------------------------------------------------------------------- */

bool server_has_listener(const struct tidings_server *s, enum listener_kind kind)
{
    const struct config *c = &s->config;
    bool has = kind == LISTENER_HTTP ? config_is_given(c, "http") || c->http_unix.count > 0 ||
                                           (config_wants_http(c) && s->passed_count == 0)
                                     : c->tcp.count > 0 || c->unix_sockets.count > 0;
    for (size_t i = 0; i < s->passed_count; i++) {
        has = has || s->passed[i].kind == kind;
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
    if (s->passed_count >= SERVER_LISTENERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a server has at most %u listeners",
                            SERVER_LISTENERS_MAX);
    }
    int rc = endpoint_check_passed(fd, err);
    if (rc < 0) {
        return rc;
    }
    s->passed[s->passed_count++] = (struct server_socket){
        .kind = kind == TIDINGS_LISTENER_HTTP ? LISTENER_HTTP : LISTENER_LINES,
        .fd = fd,
    };
    return 0;
}

void server_sockets_forget(struct tidings_server *s)
{
    while (s->passed_count > 0) {
        close(s->passed[--s->passed_count].fd);
    }
}

const char *tidings_server_address(struct tidings_server *s, size_t index)
{
    if (!s) {
        return NULL;
    }
    if (index < s->listener_count) {
        return s->listeners[index].listener ? listener_url(s->listeners[index].listener) : NULL;
    }
    return index == s->listener_count && s->config.stdio ? "stdio" : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_reach(struct tidings_server *s, const struct server_listener *d,
                       struct tidings_error *err)
{
    const struct endpoint *e = listener_endpoint(d->listener);
    bool is_http = d->protocol.kind == LISTENER_HTTP, wants = config_wants_tokens(&s->config);
    bool knows = config_knows_clients(&s->config) || (is_http && wants);
    if (wants && !is_http && !e->is_unix && !knows) { /* … passed, likewise */
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s: lines carry no token, so nobody would ask who comes in there; ask "
                            "for certificates (--tls-client-auth require), or do not pass it",
                            listener_url(d->listener));
    }
    if (endpoint_is_local(e)) {
        return 0;
    }
    if (wants && is_http && !config_is_encrypted(&s->config)) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s: tokens would cross the network readable by anybody; add "
                            "--tls-cert and --tls-key, or name the proxy that speaks TLS in front "
                            "of it: --auth-resource https://…",
                            listener_url(d->listener));
    }
    if (s->is_program && !s->config.allow_remote &&
        !knows) { /* a passed one: others were judged before */
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the passed socket %s can be reached by other machines and nothing "
                            "asks who they are; add --allow-remote to serve there",
                            listener_url(d->listener));
    }
    if (knows) {
        return 0;
    }
    if (is_http && s->config.console) { /* a passed one, likewise */
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s can be reached by other machines and nothing asks who they are: "
                            "there can be no --console; ask for tokens (--auth-issuer, "
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
    if (s->listener_count >= SERVER_LISTENERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a server has at most %u listeners",
                            SERVER_LISTENERS_MAX);
    }
    struct server_listener *d = &s->listeners[s->listener_count];
    d->protocol = (struct listener_protocol){.kind = kind, .tls = s->tls};
    struct listener_options o = {
        .protocol = &d->protocol,
        .at = *at,
        .max_connections = s->max_connections,
        .inboxes = s->inboxes,
        .worker_count = s->worker_count,
        .quotas = hub_quotas(s->hub),
        .allowances = hub_allowances(s->hub),
        .rejects = s->rejects,
    };
    d->listener = listener_open(s->loop, &o, err);
    if (!d->listener) {
        return err->code < 0 ? err->code : TIDINGS_E_IO;
    }
    s->listener_count++;
    if (listener_endpoint(d->listener)->is_unix) {
        d->protocol.tls = NULL; /* it does not leave the machine */
    }
    return check_reach(s, d, err);
}

static int open_http(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    if (!config_is_given(c, "http") && (!config_wants_http(c) || s->passed_count > 0)) {
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

/* Only when all are open the descriptors are let go: a start that fails may be tried again. */
static int open_passed(struct tidings_server *s, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->passed_count; i++) {
        struct endpoint_address at = {.fd = s->passed[i].fd};
        rc = open_one(s, s->passed[i].kind, &at, err);
    }
    if (rc == 0) {
        server_sockets_forget(s);
    }
    return rc;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void input_ended(void *user)
{
    struct tidings_server *s = user;
    if (s->listener_count == 0) {
        tidings_server_stop(s);
    }
}

static int open_stdio(struct tidings_server *s, struct tidings_error *err)
{
    int rc = worker_thread_open_stdio(s->workers[0], STDIN_FILENO, STDOUT_FILENO,
                                      s->config.max_line, err);
    if (rc == 0) {
        s->workers[0]->input_ended = input_ended;
        s->workers[0]->input_user = s;
    }
    return rc;
}

int server_listeners_open(struct tidings_server *s, struct tidings_error *err)
{
    s->listeners = mem_zalloc(SERVER_LISTENERS_MAX * sizeof(*s->listeners));
    s->rejects = reject_list_create(s->loop);
    if (!s->listeners || !s->rejects) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->max_connections = connection_limit(s);
    hub_limit_counters(s->hub)->values[LIMIT_CONNECTIONS] = s->max_connections;
    int rc = tls_setup(&s->tls, &s->config, err);
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

const char *server_listeners_url(const struct tidings_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        const struct endpoint *e = listener_endpoint(s->listeners[i].listener);
        if (s->listeners[i].protocol.kind == LISTENER_HTTP && !e->is_unix) {
            return endpoint_is_local(e) ? listener_url(s->listeners[i].listener) : NULL;
        }
    }
    return NULL;
}

void server_listeners_close(struct tidings_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        listener_close(s->listeners[i].listener);
        s->listeners[i].listener = NULL;
    }
    reject_list_destroy(s->rejects);
    s->rejects = NULL;
}

void server_listeners_destroy(struct tidings_server *s)
{
    server_listeners_close(s);
    mem_free(s->listeners);
    s->listeners = NULL;
    tls_context_unref(s->tls);
    s->tls = NULL;
    s->listener_count = 0;
}
