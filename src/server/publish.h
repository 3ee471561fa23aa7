/* SPDX-License-Identifier: MIT
 *
 * What programs and clients publish, entities, and who serves a URI: the first of
 *
 *   1. a resource that the program registered there;
 *   2. the mount with the longest prefix: directories, other providers, and the prefixes below
 *      which something may be published;
 *   3. templates, in the order of their texts.
 *
 * Nothing is silently hidden. What would never be reached is refused when it comes second, with
 * TIDINGS_E_EXISTS and the name of the first: publishing what is registered, registering what is
 * published, a template all of which lies inside a mount. A template that reaches into a mount only
 * in part is asked for the rest. Prefixes of publishing do not lie inside one another; other mounts
 * may lie inside them, and what is below those is not published.
 *
 * `--entity-authority https://example.org/u1`: the absolute spelling of the URIs of entities.
 * `https://example.org/u1/entity/…`, and the path of it, are aliases of `entity:///…`.
 */
#ifndef SERVER_PUBLISH_H
#define SERVER_PUBLISH_H

#include <tidings/server.h>
#include <tidings/tool.h>

#include "formats/uri.h"
#include "server/config.h"
#include "sources/published.h"

#define ENTITY_AUTHORITY_MAX 1024u

/* Check the setting: TIDINGS_E_INVALID with what is wrong and what is accepted. */
int entity_authority_check(const struct config *c, struct tidings_error *err);

/* The aliases that it makes, none without the setting. */
struct entity_authority {
    struct buf text;
    struct uri_alias aliases[2]; /* absolute, and its path unless that is what all servers have */
    size_t count;
};
/* Of a configuration that was checked. */
void entity_authority_deinit(struct entity_authority *a);

/* uri_canonical or uri_canonical_pattern of a URI in the configuration, which may be spelled so.
 * `c` NULL: it is not known yet. */
int entity_authority_canonical(const struct config *c, struct tidings_str in, bool is_pattern,
                               struct buf *out, struct tidings_error *err);

struct hub;
struct limit_counters;
struct server_identity;
struct server_store;

struct server_publishing {
    /* set first */
    struct tidings_server *server; /* has the tools */
    const struct config *config;
    struct hub *hub;
    struct limit_counters *limits;
    struct server_store *store;
    struct server_identity *identity; /* gets the absolute spelling */

    struct published *published; /* everything pushed */
    struct published_shares shares;
    struct catalog *mounted; /* atomic; the mounts, which stay while it runs; NULL before */
    struct tidings_provider *entities; /* entity:///, or NULL */
    struct entity_authority authority; /* their absolute URIs … */
    struct buf absolute;               /* … and how such begin, quoted */
};

/* Mount the entities that the configuration names and offer their tools; nothing when it names
 * none. */
int server_entities_mount(struct server_publishing *s, struct tidings_error *err);
/* The mount is about to go, because the server does not start after all. */
void server_entities_unmount(struct server_publishing *s);

/* What clients publish counts for them. Before anything is published. */
void server_share_published(struct server_publishing *s);
/* When clients may write and no prefix is named. */
#define PUBLISH_DEFAULT "published:///"

/* Mount the prefixes that the configuration names. Before the server runs. */
int server_publish_mount(struct server_publishing *s, struct tidings_error *err);
/* Everything is mounted: check what was registered and published before, and offer the tools. */
int server_publish_check(struct server_publishing *s, struct tidings_error *err);
/* The server runs from now on: the mounts stay, and changes are announced. */
void server_publish_open(struct server_publishing *s);

/* What tidings_server_publish and tidings_server_unpublish do, with conditions and without waiting
 * (sources/published.h). Any thread; URIs in any spelling. */
void server_publish_put_then(struct server_publishing *s, const struct publication *p,
                             published_done_fn done, void *user);
void server_publish_remove_then(struct server_publishing *s, const struct publication *p,
                                published_done_fn done, void *user);
/* published_may_fn, before anything is mounted; `user` is the struct server_publishing. */
bool server_publish_may_keep(void *user, const struct tidings_resource *about);
/* The same at any time, on any thread; what the program registered is reserved in the store. */
bool server_publish_may_follow(void *user, const struct tidings_resource *about);

/* A fixed URI is about to be registered: it may not be published from now on. Any thread. */
int server_publish_reserve(struct server_publishing *s, struct tidings_str uri,
                           struct tidings_error *err);
/* A template is about to be registered. Any thread. */
int server_publish_check_template(struct server_publishing *s, struct tidings_str text,
                                  struct tidings_error *err);

/* Does the URI belong to a provider that clients may write? */
bool server_publish_is_writable(struct server_publishing *s, const struct tidings_call *call,
                                struct tidings_str uri);
/* … it is written, or removed, on behalf of the call; `done` gets the call. */
void server_publish_write_then(struct tidings_call *call, const struct publication *p,
                               bool is_removal, published_done_fn done);

#endif
