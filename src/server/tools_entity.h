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

/* Offer all or none; they write what `entities` serves. TIDINGS_E_EXISTS: the program has a tool of
 * that name. */
int entity_tools_add(struct tidings_server *s, struct tidings_provider *entities,
                     struct tidings_error *err);
void entity_tools_remove(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * A call of one of the entity tools, or a write of an entity over HTTP: its arguments are read, the
 * thread that keeps the store does what is asked, and the answer is given from there.
 *
 * What the store refuses is for tools a result that the model reads (`isError`): a JSON object with
 * `error`, a sentence; `reason`, a word; and what belongs to it.
 */

struct entity_call {
    struct store_job job;
    struct tidings_provider *provider;
    struct tidings_call *call;         /* or … */
    struct tidings_write *write;       /* … over HTTP: then the arguments are its own, and: */
    const struct principal *principal; /* held by whichever it is; NULL: may do everything */
    struct client_account *account; /* likewise: at whose expense schemas judge and are compiled */
    struct json *body;              /* the value or patch; NULL: among the arguments */
    struct json *arguments;         /* everything below borrows from it and from the arena */
    struct arena arena;
    struct arena work; /* of what is done and handed out; begun anew when it is done again */
    struct buf origin; /* of what is announced */

    /* writes */
    struct entity_write *writes;
    struct entity_done *done;
    size_t count;
    struct tidings_str key;
    char digest[ENTITY_DIGEST_TEXT]; /* with a key */
    struct buf principal_json;       /* who writes, as JSON */
    bool is_transaction;             /* else the one write is the answer */
    bool is_replayed;
    struct entity_problem problem;
    uint64_t had, steps; /* those there were, and are left */
    bool is_limited;     /* they were too few; at another time they might be enough */

    /* types */
    struct entity_type_spec type;
    uint64_t position;

    /* history */
    struct entity_uri uri;
    int64_t first;
    size_t limit, found;
    bool with_values;
    int64_t next; /* where the first version begins that did not fit; TIMELINE_NEVER: none */
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
/* What stands in the query, as arguments of a tool: members of the object being written. */
int entity_http_query(struct jw *w, struct tidings_str query, struct tidings_error *err);

/* ---- the calls (server/tools_entity.c) --------------------------------------------------------
 */

/* Handlers of tools; `user` is the mount of the entities. */
void entity_call_add_type(void *user, struct tidings_call *call);
void entity_call_upsert(void *user, struct tidings_call *call);
void entity_call_transact(void *user, struct tidings_call *call);
void entity_call_history(void *user, struct tidings_call *call);

#endif
