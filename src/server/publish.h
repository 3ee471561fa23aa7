/* SPDX-License-Identifier: MIT
 *
 * Publishing, and whose a URI is. In order:
 *
 *   1. a URI that the program registered;
 *   2. the mount with the longest prefix: directories, other providers, and the prefixes below
 * which something may be published;
 *   3. templates, in the order of their texts.
 *
 * Nothing is silently hidden. What would never be reached is refused by whoever comes second, with
 * TIDINGS_E_EXISTS and the name of the first: publishing what is registered, registering what is
 * published, a template all of which lies inside a mount. A template that reaches into a mount only
 * in part is asked for the rest. Prefixes of publishing do not lie inside one another; other mounts
 * may lie inside them, and what is below those is not published.
 */
#ifndef SERVER_PUBLISH_H
#define SERVER_PUBLISH_H

#include "provider/published.h"
#include "server/server_private.h"

/* When clients may write and no prefix is named. */
#define PUBLISH_DEFAULT "published:///"

/* Mount the prefixes that the configuration names. Before the server runs. */
int publish_mount(struct tidings_server *s, struct tidings_error *err);
/* Everything is mounted: check what was registered and published before, and offer the tools. */
int publish_settle(struct tidings_server *s, struct tidings_error *err);
/* The server runs from now on: the mounts stay, and changes are announced. */
void publish_open(struct tidings_server *s);

/* What tidings_server_publish and tidings_server_unpublish do, with conditions and without waiting
 * (provider/published.h). Any thread; URIs in any spelling. */
void publish_put_then(struct tidings_server *s, const struct publication *p, published_done_fn done,
                      void *user);
void publish_remove_then(struct tidings_server *s, struct tidings_str uri,
                         struct tidings_str if_match, published_done_fn done, void *user);
/* published_may_fn, before anything is mounted; `user` is the server. */
bool publish_may_keep(void *user, struct tidings_str uri);

/* The tools `publish` and `unpublish`; TIDINGS_E_EXISTS when the program has one of that name. */
int publish_add_tools(struct tidings_server *s, struct tidings_error *err);
void publish_remove_tools(struct tidings_server *s);

/* A fixed URI is about to be registered: it may not be published from now on. Any thread. */
int publish_reserve(struct tidings_server *s, struct tidings_str uri, struct tidings_error *err);
/* A template is about to be registered. Any thread. */
int publish_check_template(struct tidings_server *s, struct tidings_str text,
                           struct tidings_error *err);

#endif
