/* SPDX-License-Identifier: MIT
 *
 * `struct tidings_server`: created, configured and destroyed. What it serves is registered in
 * server_registry.c; it is made ready in server_setup.c and runs in server_run.c.
 */
#include <tidings/server.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/log_setup.h"
#include "server/server_private.h"

extern char **environ;

/* ---- configuration --------------------------------------------------------------------------- */

static bool server_is_mute(void *user, struct tidings_str uri)
{
    const struct tidings_server *s = user;
    return published_is_mute(s->published, uri);
}

struct tidings_server *tidings_server_create(struct tidings_error *err)
{
    struct tidings_server *s = mem_zalloc(sizeof(*s));
    if (!s) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    inproc_subscriptions_init(&s->inproc);
    map_init(&s->runtime_rules);
    list_init(&s->timers);
    s->process.statm = s->process.fds = -1;
    buf_init(&s->implementation, 1u << 20);
    buf_init(&s->instructions, 1u << 20);
    buf_init(&s->ceiling, 64);
    buf_init(&s->authority.text, 0);
    buf_init(&s->absolute, 0);
    buf_init(&s->info_text, 1u << 20);
    if (config_init(&s->config, err) < 0) {
        goto fail;
    }
    s->loop = loop_create(err);
    s->hub = s->loop ? hub_create(s->loop, err) : NULL;
    s->inproc.hub = s->hub;
    s->published =
        s->hub ? published_create(&s->config.published_max, &s->config.published_bytes, err) : NULL;
    if (!s->published) {
        goto fail;
    }
    hub_on_mute(s->hub, server_is_mute, s);
    server_share_published(s);
    return s;
fail:
    tidings_server_destroy(s);
    return NULL;
}

void tidings_server_destroy(struct tidings_server *s)
{
    if (!s) {
        return;
    }
    enum server_state state = server_state(s);
    if (state == SERVER_STEPPED) {
        s->stepper = pthread_self(); /* whoever destroys it has it alone */
        (void)tidings_server_finish(s, NULL);
    }
    if (s->is_stuck || state == SERVER_STARTING || state == SERVER_RUNNING) {
        return; /* a callback still has a request of ours and may answer it; or it is in use */
    }
    server_timers_close(s);
    server_sockets_forget(s);
    if (s->hub) {
        server_store_close(s, false); /* it announces what it did last */
    }
    server_sessions_close(s);
    if (s->published) {
        published_set_shares(s->published, NULL); /* accounts are the hub's */
    }
    hub_destroy(s->hub);
    server_owned_destroy(s);
    catalog_unref(s->mounted);
    published_destroy(s->published);
    inproc_subscriptions_deinit(&s->inproc);
    for (size_t i = 0; i < s->route_count; i++) {
        mem_free((char *)(uintptr_t)s->routes[i].path);
    }
    mem_free(s->routes);
    if (s->loop) {
        loop_destroy(s->loop);
    }
    config_deinit(&s->config);
    rules_deinit(&s->rules);
    access_rules_unref(s->access);
    server_runtime_rules_deinit(s);
    buf_deinit(&s->implementation);
    buf_deinit(&s->instructions);
    buf_deinit(&s->ceiling);
    entity_authority_deinit(&s->authority);
    buf_deinit(&s->absolute);
    buf_deinit(&s->info_text);
    process_probe_close(&s->process);
    mem_free(s);
}

int server_note(struct tidings_server *s, const char *function, int rc,
                const struct tidings_error *own)
{
    if (rc < 0 && s && own->code < 0 &&
        !__atomic_exchange_n(&s->has_unheard, true, __ATOMIC_ACQ_REL)) {
        tidings_fail(&s->unheard, rc, "%s: %s", function, own->text);
    }
    return rc;
}

int tidings_server_set(struct tidings_server *s, const char *name, const char *value,
                       struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    err = err ? err : &own;
    int rc = server_check_new(s, err);
    rc = rc < 0 ? rc : config_set(&s->config, name, value, CONFIG_PROGRAM, err);
    return server_note(s, __func__, rc, &own);
}

char *tidings_server_get(struct tidings_server *s, const char *name)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    if (!s || !name || config_get(&s->config, name, &out) < 0 || buf_put(&out, "", 0) < 0) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

int tidings_server_args(struct tidings_server *s, int argc, char **argv, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    int rc = config_args(&s->config, argc, argv, environ, err);
    if (rc == 0) {
        log_setup_levels(&s->config);
        s->is_program = true;
    }
    return rc;
}

static char *printed(const struct config *c, int (*print)(const struct config *c, struct buf *out))
{
    struct buf out;
    buf_init(&out, 1u << 20);
    print(c, &out);
    return buf_detach(&out, NULL);
}

char *tidings_config_help(size_t width)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    config_help(&out, width);
    return buf_detach(&out, NULL);
}

char *tidings_config_print(struct tidings_server *s)
{
    return s ? printed(&s->config, config_print) : NULL;
}

char *tidings_config_json(struct tidings_server *s)
{
    return s ? printed(&s->config, config_json) : NULL;
}

/* Two passes over the same slices: measure, then copy. */
int tidings_server_set_info(struct tidings_server *s, const struct tidings_server_info *info,
                            struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!info) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a description of the server is missing");
    }
    if (RESERVED_CHECK(info, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct tidings_server_info copy = *info;
    struct tidings_str *slices[] = {&copy.name,        &copy.version,     &copy.title,
                                    &copy.description, &copy.website_url, &copy.instructions};
    size_t n = sizeof(slices) / sizeof(slices[0]);
    buf_clear(&s->info_text);
    for (size_t i = 0; i < n; i++) {
        if (buf_puts(&s->info_text, *slices[i]) < 0) {
            return buf_check(&s->info_text, "the server's description", "shorten it", err);
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        slices[i]->ptr = slices[i]->len > 0 ? s->info_text.ptr + at : "";
        at += slices[i]->len;
    }
    s->info = copy;
    return 0;
}

int tidings_server_declare(struct tidings_server *s, const char *feature, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct tidings_str f = tidings_str(feature);
    if (str_eq(f, STR("tools"))) {
        s->identity.has_tools = true;
    } else if (str_eq(f, STR("prompts"))) {
        s->identity.has_prompts = true;
    } else {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.60s' cannot be declared; use tools or prompts", f.ptr);
    }
    return 0;
}

int tidings_server_sandbox(struct tidings_server *s, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    s->sandbox.is_wanted = true;
    return 0;
}

void tidings_set_log(enum tidings_log_level least, tidings_log_fn fn, void *user)
{
    log_set_level(least);
    log_set_sink(fn, user);
}
