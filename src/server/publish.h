/* SPDX-License-Identifier: MIT
 *
 * Publishing by programs and clients, entities, and the rule that decides what serves a URI: the
 * first of
 *
 *     1. a resource that the program registered there;
 *     2. the mount with the longest prefix: directories, other providers, and the prefixes for
 *        publishing;
 *     3. templates, sorted by their text.
 *
 * No resource is silently hidden. A registration that would never be reached is rejected with
 * TIDINGS_E_EXISTS and the name of the earlier one: publishing a registered URI, registering a
 * published URI, a template that lies entirely inside a mount. A template that only partly overlaps
 * a mount serves the rest. Publishing prefixes must not be nested; other mounts may lie inside
 * them, and URIs below those mounts are not published.
 *
 * `--entity-authority https://example.org/u1`: the absolute spelling of the URIs of entities.
 * `https://example.org/u1/entity/…`, and its path, are aliases of `entity:///…`.
 */
#ifndef SERVER_PUBLISH_H
#define SERVER_PUBLISH_H

#include <tidings/server.h>
#include <tidings/tool.h>

#include "formats/uri.h"
#include "server/config.h"
#include "sources/published.h"

#define ENTITY_AUTHORITY_MAX 1024u

/* Checks the setting: TIDINGS_E_INVALID; the message says what is wrong and what is accepted. */
int entity_authority_check(const struct config *c, struct tidings_error *err);

/* The aliases of the setting; none without it. */
struct entity_authority {
    struct buf text;
    struct uri_alias aliases[2]; /* absolute, and its path unless it is the default path */
    size_t count;
};
/* For a validated configuration. */
void entity_authority_deinit(struct entity_authority *a);

/* uri_canonical or uri_canonical_pattern of a URI in the configuration, which may have the absolute
 * spelling. `c` NULL: the setting is not known yet. */
int entity_authority_canonical(const struct config *c, struct tidings_str in, bool is_pattern,
                               struct buf *out, struct tidings_error *err);

struct hub;
struct limit_counters;
struct server_identity;
struct server_store;

struct server_publishing {
    /* set first */
    struct tidings_server *server; /* owns the tools */
    const struct config *config;
    struct hub *hub;
    struct limit_counters *limits;
    struct server_store *store;
    struct server_identity *identity; /* gets the absolute spelling */

    struct published *published; /* all published resources */
    struct published_shares shares;
    struct catalog *mounted;           /* atomic; the mounts of a running server; NULL before */
    struct tidings_provider *entities; /* entity:///, or NULL */
    struct entity_authority authority; /* their absolute URIs … */
    struct buf absolute;               /* … and their common start, quoted */
};

/* Mount the configured entities and offer their tools; does nothing if none are configured. */
int server_entities_mount(struct server_publishing *s, struct tidings_error *err);
/* The mount is about to be removed, because the startup failed. */
void server_entities_unmount(struct server_publishing *s);

/* Count resources published by clients against their accounts. Call it before anything is
 * published. */
void server_share_published(struct server_publishing *s);
/* The default if clients may write and no prefix is configured. */
#define PUBLISH_DEFAULT "published:///"

/* Mount the configured prefixes. Before the server runs. */
int server_publish_mount(struct server_publishing *s, struct tidings_error *err);
/* After all mounts: check earlier registrations and published resources, and offer the tools. */
int server_publish_check(struct server_publishing *s, struct tidings_error *err);
/* The server runs from now on: the mounts are fixed, and changes are announced. */
void server_publish_open(struct server_publishing *s);

/* The implementation of tidings_server_publish and tidings_server_unpublish, with conditions and
 * without blocking (sources/published.h). Thread-safe; URIs in any spelling. */
void server_publish_put_then(struct server_publishing *s, const struct publication *p,
                             published_done_fn done, void *user);
void server_publish_remove_then(struct server_publishing *s, const struct publication *p,
                                published_done_fn done, void *user);
/* published_may_fn, before anything is mounted; `user` is the struct server_publishing. */
bool server_publish_may_keep(void *user, const struct tidings_resource *about);
/* The same at any time, thread-safe; URIs that the program registered are reserved in the store. */
bool server_publish_may_follow(void *user, const struct tidings_resource *about);

/* A fixed URI is about to be registered: it can no longer be published. Thread-safe. */
int server_publish_reserve(struct server_publishing *s, struct tidings_str uri,
                           struct tidings_error *err);
/* A template is about to be registered. Thread-safe. */
int server_publish_check_template(struct server_publishing *s, struct tidings_str text,
                                  struct tidings_error *err);

/* Returns true if the URI belongs to a provider that clients may write to. */
bool server_publish_is_writable(struct server_publishing *s, const struct tidings_call *call,
                                struct tidings_str uri);
/* … writes or removes it on behalf of the call; `done` gets the call. */
void server_publish_write_then(struct tidings_call *call, const struct publication *p,
                               bool is_removal, published_done_fn done);

#endif
