/* SPDX-License-Identifier: MIT
 *
 * What clients call themselves (`clientInfo`: name and version), on one worker. Equal ones are
 * kept once and named by a small number, so that a stream costs no more for having one. It is what
 * a stranger wrote: cut to CLIENT_NAME_MAX and CLIENT_VERSION_MAX bytes between characters, and
 * control characters, also those that turn the direction of writing, are replaced. Nobody may be
 * trusted for it.
 */
#ifndef REQUEST_CLIENT_INFO_H
#define REQUEST_CLIENT_INFO_H

#include <tidings/types.h>

#include "base/map.h"

#define CLIENT_NAME_MAX 128u
#define CLIENT_VERSION_MAX 64u
#define CLIENT_INFOS_MAX UINT16_MAX /* different ones; the next has no name */

struct json;

struct client_info {
    struct tidings_str name, version; /* either may be empty */
    /* private */
    struct tidings_str key;
    uint32_t refs;
    uint16_t number;
};

/* All zero but the map: none yet. */
struct client_infos {
    struct map by_key;
    struct client_info **at; /* by number - 1; NULL: free */
    size_t count, cap;       /* places used so far; places */
};
void client_infos_init(struct client_infos *all);
void client_infos_deinit(struct client_infos *all);

/* A reference to what `info` (the object; NULL or anything else: none) says, as a number. 0: it
 * says nothing, or there is no room. */
uint16_t client_info_intern(struct client_infos *all, const struct json *info);
void client_info_release(struct client_infos *all, uint16_t number); /* 0 is fine */
/* NULL: 0. */
const struct client_info *client_info_get(const struct client_infos *all, uint16_t number);

#endif
