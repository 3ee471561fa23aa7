/* SPDX-License-Identifier: MIT
 *
 * URIs that belong to one principal: those of tasks, tidings://tasks/ID. An id says by itself whose
 * it is, so that nothing has to be looked up where access is asked: 32 random hex digits, and 16 of
 * a digest over them and the principal. Nobody can make one for somebody else, and to others it is
 * as if there were nothing, whatever the access rules say; its owner needs no rule.
 *
 * Clients that nobody asked who they are, are one principal: among them whoever knows the id may.
 * Therefore no pattern covers such a URI, only a subscription that names it.
 */
#ifndef ACCESS_OWNED_URI_H
#define ACCESS_OWNED_URI_H

#include <tidings/types.h>

#define OWNED_URI_PREFIX "tidings://tasks/"
#define OWNED_ID_LEN 48u

struct principal;

/* An id for something of `p` (NULL: of the program itself), with a NUL. TIDINGS_E_IO: there is no
 * randomness. */
int owned_id_create(const struct principal *p, char ret[OWNED_ID_LEN + 1]);
/* Is it of `p`? NULL may use them all. */
bool owned_id_is_of(struct tidings_str id, const struct principal *p);

/* The same of a canonical URI. */
bool owned_uri_is(struct tidings_str uri);
bool owned_uri_is_of(struct tidings_str uri, const struct principal *p);

#endif
