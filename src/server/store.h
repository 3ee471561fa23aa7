/* SPDX-License-Identifier: MIT
 *
 * The store of a server (`--store`, `--entities`): one file, and the thread that keeps it, for
 * entities and for what is published. It is opened before anything is mounted, and with it the
 * change log of which cursors outlive the server.
 */
#ifndef SERVER_STORE_H
#define SERVER_STORE_H

#include "server/server_private.h"

/* Nothing when the configuration names no store. *ret gets the log that belongs to it, NULL: none.
 */
int store_open(struct tidings_server *s, const struct changelog_limits *limits,
               struct changelog **ret, struct tidings_error *err);
/* What `p` serves is kept there, if anything is. */
void store_bind(struct tidings_server *s, struct tidings_provider *p);
/* Everything submitted is done first. `is_undone`: the server does not start after all. */
void store_close(struct tidings_server *s, bool is_undone);

#endif
