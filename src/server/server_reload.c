/* SPDX-License-Identifier: MIT
 *
 * Reload (SIGHUP, tidings_server_reload): certificates, tokens, access rules and settings of the
 * log are read again while the server runs. Each row loads its new value without touching the one
 * in use; only when all could be loaded are they put in place. So a mistake in one file changes
 * nothing at all.
 *
 * Runs on the thread of the server's own loop, between two turns.
 */
#include "base/log.h"
#include "protocol/access_enforce.h"
#include "server/access_loader.h"
#include "server/log_setup.h"
#include "server/server_private.h"
#include "server/tls_setup.h"

struct reloadable {
    const char *name;
    /* `ret` NULL: nothing of it is configured. */
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

/* Who is connected keeps what it began with. */
static void put_tls(struct tidings_server *s, void *fresh)
{
    struct tls_context *old = s->tls;
    s->tls = fresh;
    for (size_t i = 0; i < s->listener_count; i++) {
        if (s->listeners[i].protocol.tls) {
            s->listeners[i].protocol.tls = s->tls;
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

/* ---- who may do what ------------------------------------------------------------------------- */

static int load_access(struct tidings_server *s, void **ret, struct tidings_error *err)
{
    bool has_file = s->config.access_file && s->config.access_file[0];
    struct access_rules *fresh = NULL;
    int rc = has_file ? access_load(&s->config, &fresh, err) : 0;
    *ret = fresh;
    return rc;
}

static int tell_workers(struct hub *hub, void *rules, struct tidings_error *err)
{
    return access_enforce_everywhere(hub, rules, err);
}

static void put_access(struct tidings_server *s, void *fresh)
{
    struct tidings_error err;
    if (hub_run_on(s->hub, tell_workers, fresh, &err) < 0) {
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

/* ---- all of them ----------------------------------------------------------------------------- */

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
