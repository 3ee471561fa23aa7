/* SPDX-License-Identifier: MIT
 *
 * The table of built-in providers; from a mount of the configuration to an open provider.
 */
#include "server/builtin_providers.h"

#include <tidings/server.h>

#include "catalog/provider.h"
#include "delivery/hub.h"
#include "provider/command.h"
#include "provider/file.h"
#include "provider/system.h"
#include "server/config.h"
#include "json/write.h"

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

/* `--system` is a mount with the interval of its own row. */
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

int builtin_mount_all(struct hub *hub, const struct config *c, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        rc = mount_one(hub, c, &c->mounts[i], err);
    }
    return rc == 0 && c->system ? mount_system(hub, c, err) : rc;
}
