/* SPDX-License-Identifier: MIT
 *
 * Publishing by the program (tidings_server_publish), and the check that no URI is served twice:
 * see publish.h. Before the server runs, the configured prefixes decide what may be published;
 * afterwards the mounts do, which are then fixed. If two publishers use a URI, the store decides
 * which was first.
 */
#include "server/publish.h"

#include <tidings/tool.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/apply.h"
#include "cluster/cluster.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job.h"
#include "engine/catalog/provider.h"
#include "engine/catalog/resource.h"
#include "engine/catalog/resource_io.h"
#include "engine/protocol/call.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "server/server_internal.h"
#include "server/tools_admin.h"
#include "server/tools_entity.h"
#include "sources/entity.h"

/* -------------------------------------------------------------------------------------------------
 * Resources published by a client count toward its share of --published-max and --published-bytes.
 */

static void *published_shares_owner(const struct tidings_write *write, bool *ret_is_operator)
{
    *ret_is_operator = access_is_operator(write->principal);
    return write->account;
}

static void published_shares_hold(void *owner)
{
    (void)client_account_ref(owner);
}

static void published_shares_release(void *owner)
{
    client_account_release(owner);
}

static bool published_shares_take(void *user, void *owner, bool is_operator, size_t bytes,
                                  struct tidings_error *err)
{
    struct server_publishing *s = user;
    struct limit_counters *counters = s->limits;
    const struct share_taker who = {.account = owner, .is_operator = is_operator};
    char sentence[REFUSAL_SENTENCE];
    struct refusal why;
    if (!err) {
        share_add(counters, LIMIT_PUBLISHED, 1, owner);
        share_add(counters, LIMIT_PUBLISHED_BYTES, bytes, owner);
        return true;
    }
    if (!share_take(counters, LIMIT_PUBLISHED, s->config->published_max, 1, &who, &why)) {
        tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, sentence));
        return false;
    }
    if (!share_take(counters, LIMIT_PUBLISHED_BYTES, s->config->published_bytes, bytes, &who,
                    &why)) {
        share_give(counters, LIMIT_PUBLISHED, 1, owner);
        tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, sentence));
        return false;
    }
    return true;
}

static void published_shares_give(void *user, void *owner, size_t bytes)
{
    struct server_publishing *s = user;
    struct limit_counters *counters = s->limits;
    share_give(counters, LIMIT_PUBLISHED_BYTES, bytes, owner);
    share_give(counters, LIMIT_PUBLISHED, 1, owner);
}

void server_share_published(struct server_publishing *s)
{
    s->shares = (struct published_shares){
        .user = s,
        .owner_of = published_shares_owner,
        .hold = published_shares_hold,
        .release = published_shares_release,
        .take = published_shares_take,
        .give = published_shares_give,
    };
    published_set_shares(s->published, &s->shares);
}

/* -------------------------------------------------------------------------------------------------
 * The absolute spelling of the URIs of entities: checks it and builds the aliases.
 */

static int authority_reject(const char *why, struct tidings_str given, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "--entity-authority: '%.*s' %s (accepted: https://host/path, without user, "
                        "query and fragment, at most %u bytes)",
                        STR_ARG_MAX(given, 80), why, ENTITY_AUTHORITY_MAX);
}

static const char *find_flaw(struct tidings_str s)
{
    struct tidings_str path, host = STR_EMPTY;
    ptrdiff_t colon = str_find(s, ':');
    struct tidings_str scheme = tidings_strn(s.ptr, colon < 0 ? 0 : (size_t)colon);
    bool is_http = str_eq_nocase(scheme, STR("https")) || str_eq_nocase(scheme, STR("http"));
    if (is_http && str_starts(str_skip(s, scheme.len), STR("://"))) {
        host = str_cut(str_skip(s, scheme.len + 3), '/', &path, NULL);
    }
    return s.len > ENTITY_AUTHORITY_MAX          ? "is too long"
           : !is_http                            ? "does not begin with https:// or http://"
           : host.len == 0 || host.ptr[0] == ':' ? "names no host"
           : str_find(s, '?') >= 0               ? "has a query"
           : str_find(s, '#') >= 0               ? "has a fragment"
           : str_find(host, '@') >= 0            ? "names a user"
           : str_find(path, '*') >= 0 || str_find(path, '[') >= 0 || str_find(path, '{') >= 0
               ? "has characters of patterns"
               : NULL;
}

/* Canonical, without final slashes, followed by "/entity/". */
static int authority_put(struct tidings_str given, struct buf *out, struct tidings_error *err)
{
    int rc = uri_canonical(given, out, err);
    while (rc == 0 && out->len > 0 && out->ptr[out->len - 1] == '/') {
        out->len--;
    }
    buf_puts(out, STR(ENTITY_ALIAS));
    return rc < 0 ? rc : out->failed;
}

int entity_authority_check(const struct config *c, struct tidings_error *err)
{
    struct tidings_str given = tidings_str(c->entity_authority);
    struct tidings_error why = {0};
    if (given.len == 0) {
        return 0;
    }
    if (!c->entities[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--entity-authority: there are no entities; add --entities FILE");
    }
    const char *flaw = find_flaw(given);
    struct buf text;
    buf_init(&text, URI_MAX);
    if (!flaw && authority_put(given, &text, &why) < 0) {
        flaw = why.text;
    }
    buf_deinit(&text);
    return flaw ? authority_reject(flaw, given, err) : 0;
}

static int entity_authority_init(struct entity_authority *a, const struct config *c,
                                 struct tidings_error *err)
{
    a->count = 0;
    buf_init(&a->text, URI_MAX);
    if (!c || !c->entity_authority || c->entity_authority[0] == '\0') {
        return 0;
    }
    if (authority_put(tidings_str(c->entity_authority), &a->text, err) < 0) {
        entity_authority_deinit(a);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct uri_parts parts;
    uri_split(buf_str(&a->text), &parts);
    a->aliases[a->count++] = (struct uri_alias){buf_str(&a->text), STR(ENTITY_URI_PREFIX)};
    if (!str_eq(parts.path, STR(ENTITY_ALIAS))) {
        a->aliases[a->count++] = (struct uri_alias){parts.path, STR(ENTITY_URI_PREFIX)};
    }
    return 0;
}

void entity_authority_deinit(struct entity_authority *a)
{
    buf_deinit(&a->text);
    a->count = 0;
}

static const struct uri_alias *authority_find(const void *user, struct tidings_str in)
{
    const struct entity_authority *a = user;
    return uri_alias_find(a->aliases, a->count, in);
}

int entity_authority_canonical(const struct config *c, struct tidings_str in, bool is_pattern,
                               struct buf *out, struct tidings_error *err)
{
    struct entity_authority a;
    int rc = entity_authority_init(&a, c, err);
    rc = rc == 0 ? uri_alias_canonical(in, is_pattern, authority_find, &a, out, NULL, err) : rc;
    entity_authority_deinit(&a);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Entities in a server (`--entities`): the mount that serves them, and the tools that write them.
 */

/* Set their absolute URIs in the mount, and in the server's identity for clients. */
static int set_authority(struct server_publishing *s, struct tidings_error *err)
{
    entity_authority_deinit(&s->authority);
    buf_deinit(&s->absolute);
    buf_init(&s->absolute, 6 * URI_MAX);
    s->identity->absolute_json = s->identity->absolute_of = STR_EMPTY;
    int rc = entity_authority_init(&s->authority, s->config, err);
    if (rc < 0 || s->authority.count == 0) {
        return rc;
    }
    jw_quote(&s->absolute, s->authority.aliases[0].from);
    if (s->absolute.failed) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->identity->absolute_json = tidings_strn(s->absolute.ptr, s->absolute.len - 1);
    s->identity->absolute_of = s->authority.aliases[0].to;
    return 0;
}

int server_entities_mount(struct server_publishing *s, struct tidings_error *err)
{
    if (s->config->entities[0] == '\0') {
        return 0;
    }
    int rc = set_authority(s, err);
    rc = rc == 0 ? hub_mount(s->hub, &provider_entity_ops, STR(ENTITY_URI_PREFIX), STR_EMPTY,
                             &s->entities, err)
                 : rc;
    if (rc == 0) {
        entity_bind(s->entities, s->store->commit_thread);
        server_store_bind(s->store, s->entities);
        entity_set_writer(s->entities, entity_http_write);
        s->entities->is_short = entity_uri_is_short;
        for (size_t i = 0; i < s->authority.count; i++) {
            s->entities->aliases[s->entities->alias_count++] = s->authority.aliases[i];
        }
        rc = entity_tools_add(s->server, s->entities, err);
    }
    if (rc < 0) {
        s->entities = NULL; /* these tools belong to the program: nothing to withdraw */
    }
    return rc;
}

void server_entities_unmount(struct server_publishing *s)
{
    if (s->entities) {
        entity_tools_remove(s->server);
    }
    s->entities = NULL;
}

/* ---------------------------------------------------------------------------------------------- */

static const struct catalog *server_publish_mounts(struct server_publishing *s)
{
    return __atomic_load_n(&s->mounted, __ATOMIC_ACQUIRE);
}

/* The prefixes below which publishing is allowed. */
static size_t prefix_count(const struct server_publishing *s)
{
    size_t named = s->config->publish.count;
    return named > 0 ? named : s->config->allow_write ? 1 : 0;
}

static struct tidings_str prefix_at(const struct server_publishing *s, size_t i)
{
    return s->config->publish.count > 0 ? tidings_str(s->config->publish.items[i])
                                        : STR(PUBLISH_DEFAULT);
}

static bool is_published(const struct tidings_provider *p)
{
    return p && p->ops == &provider_published_ops;
}

/* Returns true if `uri` may be published. *ret gets the mount, NULL before the server runs. */
static bool may_publish(struct server_publishing *s, struct tidings_str uri,
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

/* Returns true if the canonical `uri` is below a prefix of --publish. */
static bool server_publish_has(struct server_publishing *s, struct tidings_str uri)
{
    struct tidings_provider *mount = NULL;
    return may_publish(s, uri, &mount);
}

bool server_publish_may_keep(void *user, const struct tidings_resource *about)
{
    struct tidings_str uri = about->uri;
    struct server_publishing *s = user;
    struct tidings_provider *mount = NULL;
    struct catalog *c = hub_catalog(s->hub);
    bool is_registered = entries_find(&c->resources, uri) != NULL;
    catalog_unref(c);
    return !is_registered && log_entry_is_resource(about) && may_publish(s, uri, &mount);
}

bool server_publish_may_follow(void *user, const struct tidings_resource *about)
{
    struct tidings_provider *mount = NULL;
    return log_entry_is_resource(about) && may_publish(user, about->uri, &mount);
}

static int server_publish_refuse(struct server_publishing *s, struct tidings_str uri,
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

/* The request, with its canonical URI in `text`, and the mount of the URI. */
static int prepare_put(struct server_publishing *s, const struct publication *p, struct buf *text,
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

void server_publish_put_then(struct server_publishing *s, const struct publication *p,
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

void server_publish_remove_then(struct server_publishing *s, const struct publication *p,
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

int tidings_server_publish(struct tidings_server *server, const struct tidings_resource *about,
                           struct tidings_str content, struct tidings_error *err)
{
    int rc = server_check_open(server, err);
    if (rc == 0 && (!about || about->uri.len == 0)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "publish requires a URI");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(about, err);
    if (rc < 0) {
        return rc;
    }
    struct server_publishing *s = &server->publishing;
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

int tidings_server_unpublish(struct tidings_server *server, struct tidings_str uri,
                             struct tidings_error *err)
{
    int rc = server_check_open(server, err);
    if (rc < 0) {
        return rc;
    }
    struct server_publishing *s = &server->publishing;
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

int server_publish_reserve(struct server_publishing *s, struct tidings_str uri,
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

int server_publish_check_template(struct server_publishing *s, struct tidings_str text,
                                  struct tidings_error *err)
{
    const struct catalog *c = server_publish_mounts(s);
    return c ? check_template(c, text, err) : 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static int mount_prefix(struct server_publishing *s, struct tidings_str prefix,
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
        server_store_bind(s->store, p);
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
             : tidings_fail(c->err, TIDINGS_E_DENIED, "'%.*s' can no longer be published",
                            STR_ARG(uri));
}

/* Checks the resources that were registered and published before the mounts were known. */
static int check_all(struct server_publishing *s, const struct catalog *c,
                     struct tidings_error *err)
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

int server_publish_mount(struct server_publishing *s, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < prefix_count(s); i++) {
        rc = mount_prefix(s, prefix_at(s, i), err);
    }
    return rc;
}

int server_publish_check(struct server_publishing *s, struct tidings_error *err)
{
    struct catalog *c = hub_catalog(s->hub);
    int rc = check_all(s, c, err);
    catalog_unref(c);
    return rc == 0 && s->config->allow_write ? server_publish_add_tools(s->server, err) : rc;
}

void server_publish_open(struct server_publishing *s)
{
    if (s->store->commit_thread) {
        commit_thread_conceal(s->store->commit_thread);
    }
    __atomic_store_n(&s->mounted, hub_catalog(s->hub), __ATOMIC_RELEASE);
    if (server_store_is_shared(s->store)) {
        cluster_serve(s->store->cluster, s->mounted);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The tools `publish` and `unpublish` for a resource of a provider that clients may write to:
 * entities, a provider of the program. They write like PUT and DELETE over HTTP.
 */

struct publish_write {
    struct tidings_call *call;
    struct resource_io io;
    struct buf uri, content, metadata; /* copies: the caller frees its data */
    published_done_fn done;
};

bool server_publish_is_writable(struct server_publishing *s, const struct tidings_call *call,
                                struct tidings_str uri)
{
    struct arena arena;
    struct catalog_hit hit = {0};
    struct buf canonical;
    struct catalog *catalog = call->base.worker->catalog;
    buf_init(&canonical, URI_MAX * 3);
    arena_init(&arena, URI_MAX * 4);
    bool is_it = catalog_canonical(catalog, uri, false, &canonical, NULL) == 0 &&
                 !server_publish_has(s, buf_str(&canonical)) &&
                 catalog_find(catalog, buf_str(&canonical), &arena, &hit) && hit.provider &&
                 hit.provider->ops->write;
    arena_deinit(&arena);
    buf_deinit(&canonical);
    return is_it;
}

static void publish_write_on_done(struct resource_io *io)
{
    struct publish_write *w = io->user;
    struct tidings_call *call = w->call;
    published_done_fn done = w->done;
    struct tidings_error err = io->err;
    char etag[256] = "";
    int rc = io->code < 0 ? io->code : io->code == 1;
    if (io->etag.len < sizeof(etag)) {
        memcpy(etag, io->etag.ptr ? io->etag.ptr : "", io->etag.len);
        etag[io->etag.len] = '\0';
    }
    resource_io_deinit(io);
    buf_deinit(&w->uri);
    buf_deinit(&w->content);
    buf_deinit(&w->metadata);
    mem_free(w);
    done(call, rc, etag, &err);
}

static void publish_write_on_cancel(void *user, struct tidings_call *call)
{
    struct publish_write *w = user;
    (void)call;
    resource_io_cancel(&w->io);
}

void server_publish_write_then(struct tidings_call *call, const struct publication *p,
                               bool is_removal, published_done_fn done)
{
    struct tidings_error err;
    struct publish_write *w = mem_zalloc(sizeof(*w));
    if (!w) {
        done(call, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), "", &err);
        return;
    }
    w->call = call;
    w->done = done;
    buf_init(&w->uri, p->about.uri.len + 1);
    buf_init(&w->content, p->content.len + 1);
    buf_init(&w->metadata, p->metadata.len + 1);
    buf_puts(&w->uri, p->about.uri);
    buf_puts(&w->content, p->content);
    buf_puts(&w->metadata, p->metadata);
    resource_io_init(&w->io, call->base.worker, publish_write_on_done, w);
    w->io.principal = call->principal;
    w->io.as_requested = buf_str(&w->uri);
    w->io.bytes = buf_str(&w->content);
    w->io.mime_type = p->about.mime_type;
    w->io.metadata = buf_str(&w->metadata);
    w->io.traceparent = p->traceparent;
    w->io.if_match = p->if_match;
    w->io.if_absent = p->if_absent;
    w->io.account = call->account ? client_account_ref(call->account) : NULL;
    tidings_call_on_cancel(call, publish_write_on_cancel, w);
    resource_io_start(&w->io, is_removal ? RESOURCE_IO_REMOVE : RESOURCE_IO_WRITE);
}
