/* SPDX-License-Identifier: MIT
 *
 * A live copy: the current value of a server's entity, which survives lost connections and restarts
 * of the server or the program.
 *
 *     struct tidings_copying how = {.fn = on_copy, .user = me};
 *     struct tidings_copy *copy = tidings_copy_begin(client, "entity:///User@1.0/ann", &how, &err);
 *     tidings_client_run(client, &err);
 *
 * The server sends changes as merge patches (RFC 7396), each with its baseline, the version that it
 * starts from. The client applies a patch if its baseline is the version of the copy. Any other
 * baseline means that a patch was missed: the client ignores the patch and reads what changed since
 * the version of the copy. It does the same after a reconnect. If the server no longer has that
 * version, the client reads the whole entity. If an entity is upgraded to a new version of its
 * type, the copy follows it to its new URI.
 *
 * A copy belongs to its client: it uses the same thread, runs its callbacks in the same functions,
 * and ends with the client. A client has at most 1000 copies, like watched URIs. Events for
 * tidings_client_on_state name `…/patch`, which is the watched URI.
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

/* State of a copy. All members are valid only during the call. */
struct tidings_copy_state {
    struct tidings_copy *copy;
    const char *uri;               /* current URI of the entity */
    struct tidings_str value;      /* JSON text; empty: no value yet */
    struct tidings_str valid_from; /* its version: the instant it began; empty: none */
    bool is_deleted;               /* the entity was deleted; `value` is its last value */
    /* Why the copy may be stale. The entity is missing (TIDINGS_E_NOTFOUND), may not be read or
     * watched (_DENIED, _INVALID), is not an entity (_PARSE), or is too large (_LIMIT). The client
     * retries with the pauses of its options. NULL: the copy is up to date with the server's last
     * update. tidings_client_on_state reports connection problems. */
    const struct tidings_error *problem;
};
/* Runs for each version, for a deletion, and for a new problem. May call tidings_copy_end. */
typedef void (*tidings_copy_fn)(void *user, const struct tidings_copy_state *state);

/* Options of a copy. The strings are copied. */
struct tidings_copying {
    tidings_copy_fn fn;
    void *user;
    /* State of an earlier copy that the program stored. NULL: none. */
    const char *value, *valid_from;
    bool is_deleted;
    void *reserved[4]; /* zero */
};

/* Start a live copy of an entity of a server. `uri` is the URI of the entity
 * (`entity:///Type@1.0/id`, not `…/patch`). The function returns at once.
 *
 * Returns the copy, which the caller releases with tidings_copy_end, or NULL on failure.
 * TIDINGS_E_INVALID: the URI is too long, or the stored value or its version is invalid.
 * TIDINGS_E_LIMIT: the client has too many copies. */
TIDINGS_API struct tidings_copy *tidings_copy_begin(struct tidings_client *client, const char *uri,
                                                    const struct tidings_copying *copying,
                                                    struct tidings_error *err);
/* End a live copy and release it. No callback runs afterwards. `copy` may be NULL. */
TIDINGS_API void tidings_copy_end(struct tidings_copy *copy);

#ifdef __cplusplus
}
#endif

#endif
