/* SPDX-License-Identifier: MIT
 *
 * What the program registers and announces: resources, templates, mounts, HTTP routes, changes, and
 * subscriptions of its own. All of it may come from any thread; the hub puts it in order.
 */
#include <tidings/server.h>

#include "base/error.h"
#include "base/mem.h"
#include "server/builtin_providers.h"
#include "server/inproc_subscription.h"
#include "server/server_private.h"
#include "store/change.h"
#include "uri/uri.h"
#include "wire/http_fields.h"

/* What would be accepted and never be what was meant. */
static int check_entry(const struct tidings_resource *about, bool is_template, tidings_read_fn read,
                       struct tidings_error *err)
{
    if (!about || !read || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a resource needs a URI, a name and a read function");
    }
    bool has_variable = str_find(about->uri, '{') >= 0;
    if (has_variable != is_template) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            is_template
                                ? "'%.*s' has no variable: tidings_server_add_resource adds it"
                                : "'%.*s' is a template: tidings_server_add_template adds it",
                            STR_ARG_MAX(about->uri, 120));
    }
    if (about->mime_type.len > 0 && !http_is_media_type(about->mime_type)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is no media type; one is \"text/plain\"",
                            STR_ARG_MAX(about->mime_type, 60));
    }
    return 0;
}

static int add_entry(struct tidings_server *s, const struct tidings_resource *about,
                     bool is_template, tidings_read_fn read, void *user, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    rc = rc < 0 ? rc : check_entry(about, is_template, read, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    struct tidings_resource copy = *about;
    rc = is_template ? 0 : uri_canonical(about->uri, &canonical, err);
    if (rc < 0) {
        error_wrap(err, rc, "'%.*s'", STR_ARG_MAX(about->uri, 80));
    } else if (!is_template) {
        copy.uri = buf_str(&canonical);
    }
    if (rc == 0) {
        rc = is_template ? server_publish_check_template(s, copy.uri, err)
                         : server_publish_reserve(s, copy.uri, err);
    }
    struct catalog_entry *entry =
        rc < 0 ? NULL : catalog_entry_create(&copy, is_template, read, user, err);
    if (rc == 0) {
        rc = entry ? hub_add_entry(s->hub, entry, err) : TIDINGS_E_INVALID;
        if (rc < 0 && rc != TIDINGS_E_EXISTS && !is_template) {
            published_release(s->published, copy.uri);
        }
    }
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_add_resource(struct tidings_server *s, const struct tidings_resource *about,
                                tidings_read_fn read, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_entry(s, about, false, read, user, err ? err : &own), &own);
}

int tidings_server_add_template(struct tidings_server *s, const struct tidings_resource *about,
                                tidings_read_fn read, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_entry(s, about, true, read, user, err ? err : &own), &own);
}

int tidings_server_remove(struct tidings_server *s, struct tidings_str uri,
                          struct tidings_error *err)
{
    int rc = server_check(s, err);
    rc = rc < 0 ? rc : hub_remove_entry(s->hub, uri, err);
    if (rc == 0) {
        published_release(s->published, uri);
    }
    return rc;
}

static int set_children(struct tidings_server *s, struct tidings_str uri, tidings_children_fn fn,
                        void *user, struct tidings_error *err)
{
    if (!fn) {
        return hub_remove_feature(s->hub, FEATURE_CHILDREN, uri, err);
    }
    struct feature *f = feature_create(FEATURE_CHILDREN, uri, STR_EMPTY);
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    f->children = fn;
    f->user = user;
    return hub_add_feature(s->hub, f, err);
}

int tidings_server_on_children(struct tidings_server *s, struct tidings_str uri,
                               tidings_children_fn fn, void *user, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = rc < 0 ? rc : uri_canonical(uri, &canonical, err);
    rc = rc < 0 ? rc : set_children(s, buf_str(&canonical), fn, user, err);
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_on_watch(struct tidings_server *s, struct tidings_str uri,
                            const struct tidings_watch_hook *hook, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    if (uri.len == 0 || uri.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a watch hook needs a URI or a template");
    }
    if (hook && RESERVED_CHECK(hook, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (hook && !hook->watch) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a watch hook needs its function 'watch'");
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    bool is_template = str_find(uri, '{') >= 0;
    rc = is_template ? 0 : uri_canonical(uri, &canonical, err);
    struct tidings_str text = is_template ? uri : buf_str(&canonical);
    struct watch_hook *h = NULL;
    if (rc == 0 && hook) {
        h = watch_hook_create(text, hook->watch, hook->unwatch, hook->user);
        rc = h ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = hub_set_hook(s->hub, text, h, err);
    }
    buf_deinit(&canonical);
    return rc;
}

static int add_mount(struct tidings_server *s, const struct tidings_provider_ops *ops,
                     struct tidings_str prefix, struct tidings_str config,
                     struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    if (server_state(s) != SERVER_NEW) {
        return tidings_fail(err, TIDINGS_E_BUSY, "mount '%.*s' before the server runs",
                            STR_ARG(prefix));
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = uri_canonical(prefix, &canonical, err);
    if (rc == 0 && canonical.ptr[canonical.len - 1] != '/') {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the prefix '%.*s' must end in '/'",
                          STR_ARG(prefix));
    }
    if (rc == 0) {
        hub_hold(s->hub);
        rc = builtin_mount(s->hub, ops, buf_str(&canonical), config, err);
        hub_release(s->hub);
    }
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_mount(struct tidings_server *s, const struct tidings_provider_ops *ops,
                         struct tidings_str prefix, struct tidings_str config,
                         struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_mount(s, ops, prefix, config, err ? err : &own), &own);
}

int tidings_announce(struct tidings_server *s, const struct tidings_change *change,
                     struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc == 0 && !change) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a change needs a URI");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(change, err);
    /* Here, because only here is somebody to tell: 0.1 to 0.5 us for small ones. */
    rc = rc < 0 ? rc : change_check_metadata(change->metadata, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical, from;
    buf_init(&canonical, URI_MAX * 3);
    buf_init(&from, URI_MAX * 3);
    rc = uri_canonical(change->uri, &canonical, err);
    if (rc == 0 && change->from.len > 0) {
        rc = uri_canonical(change->from, &from, err);
    }
    if (rc == 0) {
        struct tidings_change copy = *change;
        copy.uri = buf_str(&canonical);
        copy.from = buf_str(&from);
        rc = hub_announce_shared(s->hub, &copy, err);
    }
    buf_deinit(&canonical);
    buf_deinit(&from);
    return rc;
}

int tidings_changed(struct tidings_server *s, struct tidings_str uri,
                    struct tidings_str metadata_json, struct tidings_error *err)
{
    struct tidings_change change;
    memset(&change, 0, sizeof(change));
    change.uri = uri;
    change.metadata = metadata_json;
    return tidings_announce(s, &change, err);
}

int tidings_changed_all(struct tidings_server *s, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    return rc < 0 ? rc : hub_announce_everything(s->hub, err);
}

int tidings_server_set_rate(struct tidings_server *s, struct tidings_str uri, uint64_t ms,
                            struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = uri_canonical(uri, &canonical, err);
    if (rc == 0) {
        rc = hub_set_rate(s->hub, buf_str(&canonical), ms, err);
    }
    buf_deinit(&canonical);
    return rc;
}

struct tidings_subscription *
tidings_server_subscribe(struct tidings_server *s, struct tidings_str uri,
                         const struct tidings_subscribe_options *options, struct tidings_error *err)
{
    if (server_check_open(s, err) < 0) {
        return NULL;
    }
    struct tidings_error why;
    struct tidings_subscription *sub = inproc_subscription_create(&s->inproc, uri, options, &why);
    if (!sub) {
        tidings_fail(err, why.code, "%s", why.text);
    }
    return sub;
}

int tidings_server_add_route(struct tidings_server *s, const char *path, tidings_route_fn fn,
                             void *user, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!path || path[0] != '/' || !fn) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a page needs a path that begins with '/' and "
                            "a function to call");
    }
    struct http_route *routes =
        mem_realloc(s->routes, (s->route_count + 1) * sizeof(struct http_route));
    if (!routes) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->routes = routes;
    char *copy = str_dup(tidings_str(path));
    if (!copy) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->routes[s->route_count++] = (struct http_route){.path = copy, .fn = fn, .user = user};
    return 0;
}
