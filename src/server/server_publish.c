/* SPDX-License-Identifier: MIT
 *
 * Publishing by the program (tidings_server_publish), and the check that no URI is served by two:
 * see server_private.h. Before the server runs the configured prefixes say what may be published,
 * afterwards the mounts do, which do not change any more. The store itself decides who was first at
 * a URI.
 */
#include "server/server_private.h"

#include "base/error.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/resource.h"
#include "uri/uri.h"

static const struct catalog *server_publish_mounts(struct tidings_server *s)
{
    return __atomic_load_n(&s->mounted, __ATOMIC_ACQUIRE);
}

/* The prefixes below which something may be published. */
static size_t prefix_count(const struct tidings_server *s)
{
    size_t named = s->config.publish.count;
    return named > 0 ? named : s->config.allow_write ? 1 : 0;
}

static struct tidings_str prefix_at(const struct tidings_server *s, size_t i)
{
    return s->config.publish.count > 0 ? tidings_str(s->config.publish.items[i])
                                       : STR(PUBLISH_DEFAULT);
}

static bool is_published(const struct tidings_provider *p)
{
    return p && p->ops == &provider_published_ops;
}

/* May `uri` be published at all? *ret gets the mount, NULL before the server runs. */
static bool may_publish(struct tidings_server *s, struct tidings_str uri,
                        struct tidings_provider **ret)
{
    const struct catalog *c = server_publish_mounts(s);
    *ret = c ? catalog_mount(c, uri) : NULL;
    if (c) {
        return is_published(*ret);
    }
    for (size_t i = 0; i < prefix_count(s); i++) {
        if (uri_is_within(uri, prefix_at(s, i))) {
            return true;
        }
    }
    return false;
}

bool server_publish_has(struct tidings_server *s, struct tidings_str uri)
{
    struct tidings_provider *mount = NULL;
    return may_publish(s, uri, &mount);
}

bool server_publish_may_keep(void *user, const struct tidings_resource *about)
{
    struct tidings_str uri = about->uri;
    struct tidings_server *s = user;
    struct tidings_provider *mount = NULL;
    struct catalog *c = hub_catalog(s->hub);
    bool is_registered = entries_find(&c->resources, uri) != NULL;
    catalog_unref(c);
    return !is_registered && kept_is_resource(about) && may_publish(s, uri, &mount);
}

bool server_publish_may_follow(void *user, const struct tidings_resource *about)
{
    struct tidings_provider *mount = NULL;
    return kept_is_resource(about) && may_publish(user, about->uri, &mount);
}

static int server_publish_refuse(struct tidings_server *s, struct tidings_str uri,
                                 struct tidings_error *err)
{
    size_t n = prefix_count(s);
    return n == 0
               ? tidings_fail(err, TIDINGS_E_DENIED,
                              "'%.*s' may not be published: no prefix is set; see publish",
                              STR_ARG(uri))
               : tidings_fail(err, TIDINGS_E_DENIED,
                              "'%.*s' may not be published: it is not below '%.*s'%s; see publish",
                              STR_ARG(uri), STR_ARG(prefix_at(s, 0)),
                              n > 1 ? " or another prefix" : "");
}

/* ---- publishing ------------------------------------------------------------------------ */

/* What is asked for, with its URI in canonical form in `text`, and the mount it lies in. */
static int prepare_put(struct tidings_server *s, const struct publication *p, struct buf *text,
                       struct publication *ret, struct tidings_provider **ret_mount,
                       struct tidings_error *err)
{
    *ret = *p;
    int rc = resource_check(&p->about, err);
    rc = rc < 0 ? rc : uri_canonical(p->about.uri, text, err);
    ret->about.uri = buf_str(text);
    return rc < 0 ? rc
           : may_publish(s, ret->about.uri, ret_mount)
               ? 0
               : server_publish_refuse(s, ret->about.uri, err);
}

void server_publish_put_then(struct tidings_server *s, const struct publication *p,
                             published_done_fn done, void *user)
{
    struct tidings_error err = {0, ""};
    struct publication copy;
    struct tidings_provider *mount = NULL;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = prepare_put(s, p, &canonical, &copy, &mount, &err);
    if (rc == 0) {
        published_put_then(s->published, mount, &copy, done, user);
    } else {
        done(user, rc, "", &err);
    }
    buf_deinit(&canonical);
}

void server_publish_remove_then(struct tidings_server *s, const struct publication *p,
                                published_done_fn done, void *user)
{
    struct tidings_error err = {0, ""};
    struct tidings_provider *mount = NULL;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    struct publication copy = *p;
    int rc = uri_canonical(p->about.uri, &canonical, &err);
    if (rc == 0) {
        copy.about.uri = buf_str(&canonical);
        (void)may_publish(s, copy.about.uri, &mount);
        published_remove_then(s->published, mount, &copy, done, user);
    } else {
        done(user, rc, "", &err);
    }
    buf_deinit(&canonical);
}

int tidings_server_publish(struct tidings_server *s, const struct tidings_resource *about,
                           struct tidings_str content, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc == 0 && (!about || about->uri.len == 0)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "what is published needs a URI");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(about, err);
    if (rc < 0) {
        return rc;
    }
    const struct publication p = {.about = *about, .content = content};
    struct publication copy;
    struct tidings_provider *mount = NULL;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = prepare_put(s, &p, &canonical, &copy, &mount, err);
    rc = rc == 0 ? published_put(s->published, mount, &copy, NULL, err) : rc;
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_unpublish(struct tidings_server *s, struct tidings_str uri,
                             struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    struct tidings_provider *mount = NULL;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = uri_canonical(uri, &canonical, err);
    if (rc == 0) {
        const struct publication p = {.about = {.uri = buf_str(&canonical)}};
        (void)may_publish(s, p.about.uri, &mount);
        rc = published_remove(s->published, mount, &p, err);
    }
    buf_deinit(&canonical);
    return rc;
}

/* ---- conflicts ------------------------------------------------------------------------------- */

int server_publish_reserve(struct tidings_server *s, struct tidings_str uri,
                           struct tidings_error *err)
{
    struct tidings_provider *mount = NULL;
    /* The prefixes may still change before it runs. */
    bool matters = !server_publish_mounts(s) || may_publish(s, uri, &mount);
    return matters ? published_reserve(s->published, uri, err) : 0;
}

static int check_template(const struct catalog *c, struct tidings_str text,
                          struct tidings_error *err)
{
    struct tidings_str fixed = str_cut(text, '{', &(struct tidings_str){0}, NULL);
    for (size_t i = 0; i < c->mount_count; i++) {
        if (str_starts(fixed, c->mounts[i]->prefix)) {
            return tidings_fail(err, TIDINGS_E_EXISTS,
                                "template '%.*s' would never be asked: %s at '%.*s' has all of it",
                                STR_ARG(text), c->mounts[i]->ops->name,
                                STR_ARG(c->mounts[i]->prefix));
        }
    }
    return 0;
}

int server_publish_check_template(struct tidings_server *s, struct tidings_str text,
                                  struct tidings_error *err)
{
    const struct catalog *c = server_publish_mounts(s);
    return c ? check_template(c, text, err) : 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static int mount_prefix(struct tidings_server *s, struct tidings_str prefix,
                        struct tidings_error *err)
{
    for (size_t i = 0; i < prefix_count(s); i++) {
        struct tidings_str other = prefix_at(s, i);
        if (str_starts(prefix, other) && !str_eq(prefix, other)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "publish '%.*s' lies inside '%.*s'",
                                STR_ARG(prefix), STR_ARG(other));
        }
    }
    struct tidings_provider *p = NULL;
    int rc = hub_mount(s->hub, &provider_published_ops, prefix, STR_EMPTY, &p, err);
    if (rc == 0) {
        published_bind(p, s->published);
        server_store_bind(s, p);
    }
    return rc;
}

struct checking {
    const struct catalog *catalog;
    struct tidings_error *err;
};

static int check_published_uri(void *user, struct tidings_str uri)
{
    struct checking *c = user;
    const struct tidings_provider *p = catalog_mount(c->catalog, uri);
    if (is_published(p)) {
        return 0;
    }
    return p ? tidings_fail(c->err, TIDINGS_E_EXISTS,
                            "'%.*s' is published, and %s is mounted there", STR_ARG(uri),
                            p->ops->name)
             : tidings_fail(c->err, TIDINGS_E_DENIED, "'%.*s' may not be published any more",
                            STR_ARG(uri));
}

/* What was registered and published before the mounts were known. */
static int check_all(struct tidings_server *s, const struct catalog *c, struct tidings_error *err)
{
    struct checking checking = {.catalog = c, .err = err};
    int rc = published_each(s->published, check_published_uri, &checking);
    struct entries_position at = {0};
    for (struct catalog_entry *e; rc == 0 && (e = entries_next(&c->resources, &at)) != NULL;) {
        struct tidings_str uri = e->about->uri;
        if (is_published(catalog_mount(c, uri))) {
            rc = published_reserve(s->published, uri, err);
        } else {
            published_release(s->published, uri);
        }
    }
    at = (struct entries_position){0};
    for (struct catalog_entry *e; rc == 0 && (e = entries_next(&c->templates, &at)) != NULL;) {
        rc = check_template(c, e->about->uri, err);
    }
    return rc;
}

int server_publish_mount(struct tidings_server *s, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < prefix_count(s); i++) {
        rc = mount_prefix(s, prefix_at(s, i), err);
    }
    return rc;
}

int server_publish_check(struct tidings_server *s, struct tidings_error *err)
{
    struct catalog *c = hub_catalog(s->hub);
    int rc = check_all(s, c, err);
    catalog_unref(c);
    return rc == 0 && s->config.allow_write ? server_publish_add_tools(s, err) : rc;
}

void server_publish_open(struct tidings_server *s)
{
    if (s->keeper) {
        keeper_conceal(s->keeper);
    }
    __atomic_store_n(&s->mounted, hub_catalog(s->hub), __ATOMIC_RELEASE);
}
