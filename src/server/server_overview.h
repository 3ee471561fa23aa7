/* SPDX-License-Identifier: MIT
 *
 * tidings://self/status: the whole server at a glance, in one object.
 */
#ifndef SERVER_SERVER_OVERVIEW_H
#define SERVER_SERVER_OVERVIEW_H

struct tidings_read;
struct tidings_server;

/* Finishes the read later. */
void server_overview_read(struct tidings_server *s, struct tidings_read *read);

#endif
