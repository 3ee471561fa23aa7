/* SPDX-License-Identifier: MIT
 *
 * From the configuration to Landlock and seccomp rules: the files that the process may still read,
 * write and run, and the ports it may bind.
 *
 * Configuration files get no rule: the helper always opens them, so that a file that was replaced
 * after the start works too.
 */
#include "server/sandbox_rules.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/server.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "security/helper.h"
#include "security/sandbox.h"
#include "server/config.h"
#include "server/self.h"
#include "sources/command.h"
#include "sources/file_watch.h"
#include "sources/system.h"

#ifndef TIDINGS_SANITIZED
#define TIDINGS_SANITIZED 0
#endif

/* ---- the helper ------------------------------------------------------------------------------ */

struct plan {
    struct helper_plan helper;
    const char **files;
    struct helper_root *roots;
    struct helper_command *commands;
    struct command_settings *settings; /* one for each command, which borrows from it */
};

static void add_file(struct plan *p, const char *path)
{
    if (path && path[0] && !strstr(path, "://")) {
        p->files[p->helper.file_count++] = path;
    }
}

static void add_files(struct plan *p, const struct config *c)
{
    const struct config_list *lists[] = {&c->tls_cert, &c->tls_key, &c->auth_jwks};
    const char *single[] = {c->tls_client_ca, c->auth_credentials, c->auth_ca,
                            c->auth_tokens,   c->access_file,      c->file};
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        for (size_t i = 0; i < lists[k]->count; i++) {
            add_file(p, lists[k]->items[i]);
        }
    }
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        add_file(p, single[i]);
    }
}

static int add_command(struct plan *p, const struct config_mount *m, struct tidings_error *err)
{
    size_t i = p->helper.command_count++;
    struct command_settings *s = &p->settings[i];
    int rc = command_settings_read(s, tidings_str(m->settings), err);
    p->commands[i] = (struct helper_command){
        .name = m->uri, .argv = s->argv, .env = s->env, .path = s->path, .directory = s->cwd};
    return rc < 0 ? error_wrap(err, rc, "'%s'", m->uri) : 0;
}

static int add_mounts(struct plan *p, const struct config *c, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        if (m->path) {
            struct stat st = {.st_uid = geteuid()};
            (void)stat(m->path, &st); /* the server does not start without it */
            p->roots[p->helper.root_count++] = (struct helper_root){m->path, st.st_uid};
            add_file(p, p->helper.root_count == 1 ? FILE_WATCH_MOUNTS : NULL);
        } else if (m->ops == &provider_command_ops) {
            rc = add_command(p, m, err);
        }
    }
    return rc;
}

static void plan_deinit(struct plan *p)
{
    for (size_t i = 0; p->settings && i < p->helper.command_count; i++) {
        command_settings_deinit(&p->settings[i]);
    }
    mem_free(p->settings);
    mem_free(p->commands);
    mem_free(p->files);
    mem_free(p->roots);
}

static int start_helper(struct sandbox *b, const struct config *c, struct tidings_error *err)
{
    struct plan p = {.files = NULL};
    size_t mounts = c->mount_count + 1;
    size_t files = c->tls_cert.count + c->tls_key.count + c->auth_jwks.count + 7;
    p.files = mem_zalloc(files * sizeof(*p.files));
    p.roots = mem_zalloc(mounts * sizeof(*p.roots));
    p.commands = mem_zalloc(mounts * sizeof(*p.commands));
    p.settings = mem_zalloc(mounts * sizeof(*p.settings));
    int rc = p.files && p.roots && p.commands && p.settings
                 ? 0
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        add_files(&p, c);
        rc = add_mounts(&p, c, err);
    }
    p.helper.files = p.files;
    p.helper.roots = p.roots;
    p.helper.commands = p.commands;
    p.helper.rights = rights_of_helper(c);
    p.helper.log_file = c->log_file[0] ? c->log_file : NULL;
    p.helper.access_log_file = c->access_log_file[0] ? c->access_log_file : NULL;
    if (rc == 0 && (p.helper.log_file || p.helper.access_log_file ||
                    p.helper.file_count + p.helper.root_count + p.helper.command_count > 0)) {
        rc = helper_start(&p.helper, err);
        b->has_helper = rc == 0;
    }
    plan_deinit(&p);
    return rc;
}

/* ---- Landlock -------------------------------------------------------------------------------- */

/* Libraries are loaded at their first use; these are the files that they read themselves. */
static const char *const always[] = {
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/usr/share/mime/globs2",
    "/dev/urandom",
    "/dev/zero",
    "/sys/devices/system/cpu",
};
/* For name resolution and certificate checks. */
static const char *const for_fetching[] = {
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/pki",
    "/etc/crypto-policies",
};

static void allow_all(struct landlock *l, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)landlock_allow(l, paths[i], LANDLOCK_READ);
    }
}

/* The directory that contains `path`, with symbolic links resolved. */
static void allow_folder(struct landlock *l, const char *path, unsigned access)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (len < sizeof(folder)) {
        memcpy(folder, slash ? path : ".", len);
        folder[len] = '\0';
        (void)landlock_allow(l, folder, access);
    }
}

/* The directories of our loaded libraries, which also contain the libraries loaded later, on any
 * system. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    struct tidings_str name = tidings_str(info->dlpi_name ? info->dlpi_name : "");
    if (str_starts(name, STR("/")) && !str_starts(name, STR("/lib/")) &&
        !str_starts(name, STR("/lib64/")) && !str_starts(name, STR("/usr/lib/"))) {
        allow_folder(user, info->dlpi_name, LANDLOCK_READ);
    }
    return 0;
}

static void allow_library_path(struct landlock *l)
{
    const char *variable = getenv("LD_LIBRARY_PATH");
    struct tidings_str rest = tidings_str(variable ? variable : "");
    char folder[PATH_MAX];
    while (rest.len > 0) {
        struct tidings_str one = str_cut(rest, ':', &rest, NULL);
        if (one.len > 0 && one.len < sizeof(folder)) {
            memcpy(folder, one.ptr, one.len);
            folder[one.len] = '\0';
            (void)landlock_allow(l, folder, LANDLOCK_READ);
        }
    }
}

static bool has_remote(const struct config *c)
{
    bool has =
        c->auth_introspection[0] != '\0' || (c->auth_issuer.count > 0 && c->auth_jwks.count == 0);
    for (size_t i = 0; i < c->auth_jwks.count && !has; i++) {
        has = strstr(c->auth_jwks.items[i], "://") != NULL;
    }
    return has;
}

/* It connects while it runs: to an authorization server, to the database. */
static bool connects(const struct config *c)
{
    return has_remote(c) || config_store_is_shared(c);
}

/* The files that libpq reads: passwords, certificates, services. */
static void allow_libpq(struct landlock *l)
{
    static const char *const below_home[] = {".pgpass", ".postgresql", ".pg_service.conf"};
    static const char *const variables[] = {"PGPASSFILE",    "PGSERVICEFILE", "PGSYSCONFDIR",
                                            "PGSSLROOTCERT", "PGSSLCERT",     "PGSSLKEY"};
    const char *home = getenv("HOME");
    for (size_t i = 0; home && i < sizeof(below_home) / sizeof(below_home[0]); i++) {
        char path[PATH_MAX];
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", home, below_home[i]) < sizeof(path)) {
            (void)landlock_allow(l, path, LANDLOCK_READ);
        }
    }
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *path = getenv(variables[i]);
        if (path && path[0]) {
            (void)landlock_allow(l, path, LANDLOCK_READ);
        }
    }
}

/* The directory that the mount reads metrics from. */
static void allow_proc(struct landlock *l, const char *settings)
{
    struct json *doc = NULL;
    if (jv_parse(tidings_str(settings), 4, &doc, NULL) == 0) {
        const struct json *proc = jv_get(doc, "proc");
        struct tidings_str path = jv_is(proc, JV_STRING) ? jv_str(proc) : STR("/proc");
        char *copy = str_dup(path);
        (void)landlock_allow(l, copy ? copy : "/proc", LANDLOCK_READ);
        mem_free(copy);
    }
    jv_unref(doc);
}

static void allow_mounts(struct landlock *l, const struct config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        if (m->path) {
            (void)landlock_allow(l, m->path, LANDLOCK_READ);
        } else if (m->ops == &provider_system_ops) {
            allow_proc(l, m->settings);
        }
    }
    if (c->system) {
        (void)landlock_allow(l, "/proc", LANDLOCK_READ);
    }
}

static void allow_listeners(struct landlock *l, const struct config *c, bool serves_http)
{
    const struct config_list *paths[] = {&c->unix_sockets, &c->http_unix};
    struct config_address a;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < paths[k]->count; i++) {
            allow_folder(l, paths[k]->items[i], LANDLOCK_SOCKETS);
        }
    }
    if (serves_http) {
        (void)landlock_allow_bind(l, c->http.port);
    }
    for (size_t i = 0; i < c->tcp.count; i++) {
        if (config_parse_address(tidings_str(c->tcp.items[i]), &a, NULL) == 0) {
            (void)landlock_allow_bind(l, a.port);
        }
    }
    if (c->metrics && config_parse_address(tidings_str(c->metrics), &a, NULL) == 0) {
        (void)landlock_allow_bind(l, a.port);
    }
}

static int enter_landlock(struct sandbox *b, const struct config *c, bool serves_http,
                          struct tidings_error *err)
{
    const char *store = config_store(c);
    bool fetches = connects(c), uses_openssl = fetches || c->tls_cert.count > 0;
    struct landlock *l = landlock_create(fetches ? 0 : LANDLOCK_NO_CONNECT, err);
    if (!l) {
        return err->code;
    }
    allow_all(l, always, sizeof(always) / sizeof(always[0]));
    (void)landlock_allow(l, "/dev/null", LANDLOCK_READ | LANDLOCK_OVERWRITE);
    (void)dl_iterate_phdr(allow_library, l);
    allow_library_path(l);
    if (fetches) {
        allow_all(l, for_fetching, sizeof(for_fetching) / sizeof(for_fetching[0]));
    }
    if (uses_openssl) {
        (void)landlock_allow(l, "/etc/ssl", LANDLOCK_READ);
    }
    if (config_store_is_shared(c)) {
        allow_libpq(l);
    } else if (store) {
        allow_folder(l, store, LANDLOCK_WRITE);
    }
    allow_mounts(l, c);
    allow_listeners(l, c, serves_http);
    int rc = landlock_enforce(l, err);
    landlock_destroy(l);
    if (rc == 0) {
        b->landlock = landlock_abi(NULL);
    }
    return rc;
}

/* ---- the sandbox ----------------------------------------------------------------------------- */

/* In a process with several threads, only this thread would be confined. If the count is
 * unavailable, the result is 1. */
static size_t count_threads(void)
{
    DIR *threads = opendir("/proc/self/task");
    size_t count = 0;
    while (threads && readdir(threads)) {
        count++;
    }
    if (threads) {
        closedir(threads);
    }
    return count > 3 ? count - 2 : 1; /* "." and ".." */
}

#define LOST                                                                                       \
    "an attacker who takes over the server can read and write all files of its user, run "         \
    "programs and connect anywhere"

static void sandbox_warn(const char *what, const struct tidings_error *why, const char *lost)
{
    log_warn(LOG_SERVER, "sandbox incomplete", KV("without", what), KV("reason", why->text),
             KV("lost", lost));
}

int sandbox_enter(struct sandbox *b, const struct config *c, bool serves_http,
                  struct tidings_error *err)
{
    if (!b->is_wanted || b->is_entered) {
        return 0;
    }
    if (!c->sandbox) {
        log_warn(LOG_SERVER, "no sandbox", KV("lost", LOST));
        return 0;
    }
    size_t threads = count_threads();
    if (threads > 1 && !TIDINGS_SANITIZED) { /* the sanitizer runtime may have its own thread */
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the sandbox needs a process without other threads, and it has %zu "
                            "(an emulator such as qemu-user adds some): use --no-sandbox, or in a "
                            "program mount by the setting \"mount\" and start threads later",
                            threads - 1);
    }
    int rc = start_helper(b, c, err);
    if (rc < 0) {
        return error_wrap(err, rc, "sandbox");
    }
    b->is_entered = true;
    b->no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if (TIDINGS_SANITIZED) { /* it reads /proc, runs a symbolizer, and traces itself */
        (void)tidings_fail(&b->landlock_why, TIDINGS_E_UNSUPPORTED, "built with a sanitizer");
        b->seccomp_why = b->landlock_why;
    } else if (enter_landlock(b, c, serves_http, &b->landlock_why) < 0) {
        sandbox_warn("landlock", &b->landlock_why, "it may read and write all files of its user");
    }
    struct tidings_error why;
    if (!TIDINGS_SANITIZED && capabilities_keep(rights_of_server(c, serves_http), &why) < 0) {
        sandbox_warn("capabilities", &why, "it keeps all rights of root");
    }
    (void)snprintf(b->capabilities, sizeof b->capabilities, "%016llx",
                   (unsigned long long)capabilities_get());
    return 0;
}

void sandbox_seal(struct sandbox *b, const struct config *c)
{
    if (!b->is_entered || TIDINGS_SANITIZED || b->has_seccomp) {
        return;
    }
    unsigned flags = connects(c) ? SECCOMP_CONNECTS : 0;
    int rc = seccomp_probe(&b->seccomp_why);
    rc = rc < 0 ? rc : seccomp_enforce(flags, &b->seccomp_why);
    b->has_seccomp = rc == 0;
    if (rc < 0) {
        sandbox_warn("seccomp", &b->seccomp_why, "it may make every system call");
    }
    log_debug(LOG_SERVER, "sandbox", KV("landlock", b->landlock),
              KV("capabilities", b->capabilities), KV("seccomp", b->has_seccomp ? "yes" : "no"),
              KV("helper", b->has_helper ? "yes" : "no"));
}

/* ---- reporting ------------------------------------------------------------------------------- */

void tidings_sandbox_probe(struct tidings_sandbox *ret)
{
    struct tidings_error why = {0, ""}, other = {0, ""};
    *ret = (struct tidings_sandbox){0};
    ret->landlock = landlock_abi(&why);
    ret->seccomp = seccomp_probe(&other) == 0;
    if (TIDINGS_SANITIZED) {
        *ret = (struct tidings_sandbox){0};
        (void)tidings_fail(&why, TIDINGS_E_UNSUPPORTED, "built with a sanitizer");
    }
    snprintf(ret->reason, sizeof(ret->reason), "%s", why.code < 0 ? why.text : other.text);
}

static void put_why(struct jw *w, struct tidings_str key, const struct tidings_error *why)
{
    if (why->code < 0) {
        jw_put_string(w, key, tidings_str(why->text));
    }
}

void sandbox_write(const struct sandbox *b, struct jw *w)
{
    jw_begin_object(w);
    jw_put_bool(w, STR("noNewPrivs"), b->no_new_privs);
    jw_put_integer(w, STR("landlock"), b->landlock);
    put_why(w, STR("withoutLandlock"), &b->landlock_why);
    jw_put_bool(w, STR("seccomp"), b->has_seccomp);
    put_why(w, STR("withoutSeccomp"), &b->seccomp_why);
    jw_put_bool(w, STR("helper"), b->has_helper);
    jw_end_object(w);
}
