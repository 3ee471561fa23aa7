/* SPDX-License-Identifier: MIT
 *
 * A call of one of the entity tools, or a write of an entity over HTTP: its arguments are read, the
 * thread that keeps the store does what is asked, and the answer is given from there.
 *
 * What the store refuses is for tools a result that the model reads (`isError`): a JSON object with
 * `error`, a sentence; `reason`, a word; and what belongs to it.
 */
#ifndef SERVER_ENTITY_CALL_H
#define SERVER_ENTITY_CALL_H

#include <tidings/call.h>

#include "handler/call.h"
#include "provider/entity.h"

struct tidings_server;

struct entity_call {
    struct keeper_job job;
    struct tidings_provider *provider;
    struct tidings_call *call;         /* or … */
    struct tidings_write *write;       /* … over HTTP: then the arguments are its own, and: */
    const struct principal *principal; /* held by whichever it is; NULL: may do everything */
    struct allowance *allowance; /* likewise: at whose expense schemas judge and are compiled */
    struct json *body;           /* the value or patch; NULL: among the arguments */
    struct json *arguments;      /* everything below borrows from it and from the arena */
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

/* ---- arguments (server/entity_call_arguments.c) ---------------------------------------------- */

/* Which entity, from `uri` or `entityId`, `entityTypeName` and `entityTypeVersion`. */
int entity_call_target(struct entity_call *c, struct json *arguments, struct entity_uri *ret,
                       struct tidings_error *err);
/* An instant; TIMELINE_NEVER when it is absent. */
int entity_call_time(struct json *arguments, const char *name, int64_t *ret,
                     struct tidings_error *err);
/* The version of a type, a text or a number. */
int entity_call_version(struct entity_call *c, struct json *value, struct tidings_str *ret,
                        struct tidings_error *err);
/* May whoever calls a tool do that with it? Over HTTP it was asked before. Of an entity that is
 * named without its type it is asked later, for the one it is stored as. */
int entity_call_check(const struct entity_call *c, enum access_op op, const struct entity_uri *uri,
                      struct tidings_error *err);
int entity_call_write(struct entity_call *c, struct json *arguments, enum entity_op op,
                      struct entity_write *ret, struct tidings_error *err);

/* ---- answers (server/entity_call_answer.c) --------------------------------------------------- */

#define ENTITY_ANSWER_MAX (64u << 20)

/* What the writes left, as JSON: one of them, or a transaction. */
void entity_put_written(const struct entity_call *c, struct buf *out);
/* Why they were refused, as the text of an object. `ret_text` is initialised; the caller releases
 * it. */
void entity_problem_text(const struct entity_call *c, int code, struct buf *ret_text);
/* What the writes left, as structured content. */
int entity_answer_writes(struct entity_call *c, struct tidings_error *err);
/* Why they were refused, in place of a result. */
int entity_answer_problem(struct entity_call *c, int code, struct tidings_error *err);
/* The same as an error of the protocol (dialect_rules.fails_calls); finishes the call. */
void entity_answer_refusal(struct entity_call *c, int code);

/* ---- over HTTP (server/entity_call_http.c) --------------------------------------------------- */

/* The writer of the mount. */
void entity_http_write(struct tidings_provider *provider, struct tidings_write *write,
                       struct tidings_str uri);
/* What stands in the query, as arguments of a tool: members of the object being written. */
int entity_http_query(struct jw *w, struct tidings_str query, struct tidings_error *err);
/* Finish. */
void entity_http_done(struct entity_call *c);
void entity_http_refuse(struct entity_call *c, int code);

/* ---- the calls (server/entity_call.c) -------------------------------------------------------- */

/* NULL: out of memory. It frees itself when it is answered. */
struct entity_call *entity_call_create(struct tidings_provider *provider);
/* The client has no steps for schemas, which this needs: true, and it is to be refused. */
bool entity_call_lacks_steps(struct entity_call *c);
/* For so many writes. */
int entity_call_room(struct entity_call *c, size_t count, struct tidings_error *err);
/* Do the writes, or (rc < 0, its sentence in job.err) refuse; then answer. */
void entity_call_submit(struct entity_call *c, int rc);

/* Handlers of tools; `user` is the mount of the entities. */
void entity_call_add_type(void *user, struct tidings_call *call);
void entity_call_upsert(void *user, struct tidings_call *call);
void entity_call_delete(void *user, struct tidings_call *call);
void entity_call_undelete(void *user, struct tidings_call *call);
void entity_call_transact(void *user, struct tidings_call *call);
void entity_call_history(void *user, struct tidings_call *call);

#endif
