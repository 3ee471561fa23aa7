/* SPDX-License-Identifier: MIT
 *
 * tidings://self/status: the whole server at a glance, in one object.
 */
#ifndef SERVER_SERVER_OVERVIEW_H
#define SERVER_SERVER_OVERVIEW_H

#include <stdint.h>

struct jw;
struct tidings_read;
struct tidings_server;

/* Finishes the read later. */
void server_overview_read(struct tidings_server *s, struct tidings_read *read);
/* Milliseconds with three decimals. */
void server_overview_put_ms(struct jw *w, const char *key, uint64_t us);

#endif
