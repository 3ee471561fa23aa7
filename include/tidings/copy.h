/* SPDX-License-Identifier: MIT
 *
 * A live copy: the value of an entity of a server, kept right whatever happens to the connection,
 * to the server or to this program.
 *
 *     struct tidings_copying how = {.fn = on_copy, .user = me};
 *     struct tidings_copy *copy = tidings_copy_begin(client, "entity:///User@1.0/ann", &how, &err);
 *     tidings_client_run(client, &err);
 *
 * The server tells what changed as merge patches (RFC 7396), each with the version it begins at,
 * its baseline. A patch whose baseline is the version of the copy is applied. Any other shows that
 * something was missed: it is left alone, and what became of the version that the copy has is read.
 * Whenever the connection is made again it goes on from there; where the server has forgotten that
 * version, the entity is read whole. An entity that is brought to a new version of its type is
 * followed to the URI it has then.
 *
 * A copy belongs to its client: it is used by the same thread, calls back like it, and ends with
 * it. There may be as many as a client may watch URIs, 1000. What tidings_client_on_state hears of
 * it names `…/patch`, which is what is watched.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_COPY_H
#define TIDINGS_COPY_H

#include <tidings/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_copy;

/* How the copy is. Everything is borrowed for the call. */
struct tidings_copy_state {
    struct tidings_copy *copy;
    const char *uri;               /* of the entity, as it is now */
    struct tidings_str value;      /* JSON text; empty: there is none yet */
    struct tidings_str valid_from; /* its version, the instant it began; empty: none */
    bool is_deleted;               /* the entity is; `value` is what it was */
    /* Why the copy may be out of date: the entity is not there (TIDINGS_E_NOTFOUND), may not be
     * read or watched (_DENIED, _INVALID), is no entity (_PARSE), is too large (_LIMIT). It is
     * asked for again, after the pauses of the client's options. NULL: the copy is as the server
     * told last. What happens to the connection is told by the client: tidings_client_on_state. */
    const struct tidings_error *problem;
};
/* Called for each version, for a deletion, and when a problem comes up; tidings_copy_end may be
 * called in it. */
typedef void (*tidings_copy_fn)(void *user, const struct tidings_copy_state *state);

/* May be gone after the call; the strings are copied. */
struct tidings_copying {
    tidings_copy_fn fn;
    void *user;
    /* What the program has kept of an earlier copy, as it was told. NULL: nothing. */
    const char *value, *valid_from;
    bool is_deleted;
    void *reserved[4]; /* zero */
};

/* Keep a live copy of an entity of a server. `uri` is that of the entity (`entity:///Type@1.0/id`,
 * not `…/patch`). Returns at once. NULL on failure: TIDINGS_E_INVALID: the URI is too long, or what
 * was kept is no value with its version; TIDINGS_E_LIMIT. */
TIDINGS_API struct tidings_copy *tidings_copy_begin(struct tidings_client *client, const char *uri,
                                                    const struct tidings_copying *copying,
                                                    struct tidings_error *err);
/* End a live copy and release it. Nothing more is called back. NULL is fine. */
TIDINGS_API void tidings_copy_end(struct tidings_copy *copy);

#ifdef __cplusplus
}
#endif

#endif
