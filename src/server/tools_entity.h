/* SPDX-License-Identifier: MIT
 *
 * The tools that write entities: add-entity-type, upsert-entity, delete-entity, undelete-entity,
 * get-entity-history, transact.
 */
#ifndef SERVER_TOOLS_ENTITY_H
#define SERVER_TOOLS_ENTITY_H

#include <tidings/call.h>
#include <tidings/types.h>

#include "engine/protocol/call.h"
#include "sources/entity.h"

struct tidings_provider;
struct tidings_server;

/* Offer all or none; they write the entities of `entities`. TIDINGS_E_EXISTS: the program has a
 * tool of that name. */
int entity_tools_add(struct tidings_server *s, struct tidings_provider *entities,
                     struct tidings_error *err);
void entity_tools_remove(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * A call of an entity tool, or a write of an entity over HTTP: its arguments are read, the commit
 * thread does the work, and the answer is sent from there.
 *
 * For tools, a refusal by the store is a result that the model reads (`isError`): a JSON object
 * with `error`, the error message; `reason`, a word; and details.
 */

struct entity_call {
    struct store_job job;
    struct tidings_provider *provider;
    struct tidings_call *call;         /* or … */
    struct tidings_write *write;       /* … over HTTP: then the call owns the arguments, and: */
    const struct principal *principal; /* held by the call or write; NULL: may do everything */
    struct client_account *account;    /* likewise: pays for compiling and running schemas */
    struct json *body;                 /* the value or patch; NULL: it is in the arguments */
    struct json *arguments;            /* everything below borrows from it and from the arena */
    struct arena arena;
    struct arena work; /* memory of the work and its results; reset on a retry */
    struct buf origin; /* of the announcement */

    /* writes */
    struct entity_write *writes;
    struct entity_done *done;
    size_t count;
    struct tidings_str key;
    char digest[ENTITY_DIGEST_TEXT]; /* with a key */
    struct buf principal_json;       /* the writer, as JSON */
    bool is_transaction;             /* otherwise the single write is the answer */
    bool is_replayed;
    struct entity_problem problem;
    uint64_t had, steps; /* steps at the start, and left */
    bool is_limited;     /* out of steps; a later attempt may succeed */

    /* types */
    struct entity_type_spec type;
    uint64_t position;

    /* history */
    struct entity_uri uri;
    int64_t first;
    size_t limit, found;
    bool with_values;
    int64_t next; /* start of the first version that did not fit; TIMELINE_NEVER: none */
    struct buf out;
    struct jw w;
};

/* ---- arguments (server/tools_entity.c) ---------------------------------------------- */

/* ---- answers (server/tools_entity.c) --------------------------------------------------- */

#define ENTITY_ANSWER_MAX (64u << 20)

/* ---- over HTTP (server/tools_entity.c) --------------------------------------------------- */

/* The writer of the mount. */
void entity_http_write(struct tidings_provider *provider, struct tidings_write *write,
                       struct tidings_str uri);
/* The query string as arguments of a tool: members of the object under construction. */
int entity_http_query(struct jw *w, struct tidings_str query, struct tidings_error *err);

/* ---- the calls (server/tools_entity.c) --------------------------------------------------------
 */

/* Handlers of tools; `user` is the mount of the entities. */
void entity_call_add_type(void *user, struct tidings_call *call);
void entity_call_upsert(void *user, struct tidings_call *call);
void entity_call_transact(void *user, struct tidings_call *call);
void entity_call_history(void *user, struct tidings_call *call);

#endif
