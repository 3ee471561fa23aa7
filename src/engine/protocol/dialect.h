/* SPDX-License-Identifier: MIT
 *
 * Protocol versions and profiles: the era of a message, the checks it must pass, and the words of
 * the answer. No other file decides by a version or the name of a profile: differences are resolved
 * here into named fields (struct dialect_verdict, struct dialect_rules). Only the table of methods
 * (engine/protocol/method.c) knows the eras of each method.
 *
 * Two eras. *Legacy* (2024-11-05 … 2025-11-25): `initialize`, then a session or a message
 * connection that remembers it. *Modern* (2026-07-28): every request contains its version in
 * `_meta`. One endpoint serves both; the body of each message decides the era, and headers are
 * checked against it.
 */
#ifndef ENGINE_PROTOCOL_DIALECT_H
#define ENGINE_PROTOCOL_DIALECT_H

#include <tidings/provider.h>

#include "base/str.h"
#include "engine/protocol/cursor.h"
#include "formats/json_write.h"
#include "formats/rpc.h"

enum era {
    ERA_LEGACY,
    ERA_MODERN,
};

const char *dialect_era_name(enum era era); /* "legacy", "modern" */

struct http_request;
struct profile; /* see below; NULL: none */

struct revision {
    struct tidings_str name; /* "2025-11-25" */
    enum era era;
    bool has_batches; /* JSON-RPC arrays are accepted */
    bool has_priming; /* streams begin with an id, an empty data and `retry` */
    bool is_draft;    /* exists if dialect_rules.has_draft */
};

/* NULL: unknown. */
const struct revision *dialect_find_revision(struct tidings_str name);
/* The legacy revision to answer `initialize` with: the requested one, or else the newest, of those
 * that are not above `ceiling` (a revision's name; empty: all) and that the profile has. */
const struct revision *dialect_negotiate(struct tidings_str asked, struct tidings_str ceiling,
                                         const struct profile *profile);
/* The revision to assume without `initialize`: the one in the header, else 2025-03-26. */
const struct revision *dialect_assume(struct tidings_str protocol_version);

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_SESSION = -32001,          /* legacy bodies about sessions */
    RPC_SESSION_REQUIRED = -32000, /* profile gateway */
    RPC_NO_SUBSCRIPTION = -32006,  /* profile erlmcp */
    RPC_NOT_FOUND_LEGACY = -32002,
    RPC_HEADER_MISMATCH = -32020,
    RPC_MISSING_CAPABILITY = -32021,
    RPC_UNSUPPORTED_VERSION = -32022,
};

/* ---- judging what came in -------------------------------------------------------------------- */

/* Headers of an HTTP request; ptr NULL if absent. */
struct dialect_headers {
    struct tidings_str protocol_version, method, name, session_id, last_event_id;
    const struct http_request *all; /* the others; NULL: none */
};

struct dialect_context {
    const struct dialect_headers *headers; /* NULL on message connections */
    struct tidings_str ceiling;            /* empty: none */
    const struct profile *profile;         /* NULL: none */
    bool handshaken;                       /* message connections: `initialize` was answered here */
};

struct dialect_verdict {
    enum era era;
    const struct revision *revision; /* modern: the current one; legacy: NULL, the session knows */
    struct json *meta;               /* `_meta` of a modern request; else NULL */
    bool is_sessionful;              /* over HTTP it belongs to a session */
    bool may_be_batched;             /* it may be an element of an array */
    bool repeats_params;             /* over HTTP headers repeat some of its parameters */
    /* Refused: */
    int code;                  /* enum rpc_code; 0: accepted */
    int status;                /* HTTP */
    struct tidings_error text; /* error message */
    bool lists_versions;       /* error data: supported and requested */
    bool modern_only;          /* … of these only modern ones */
    struct tidings_str requested;
};

/* The era and the checks of protocol order up to and including the version. Does not look at
 * sessions or methods. */
void dialect_check(const struct dialect_context *ctx, const struct rpc_message *msg,
                   struct dialect_verdict *ret);

/* Checks a legacy GET or DELETE. Returns 0, or the HTTP status to refuse it with. */
int dialect_check_stream(struct tidings_str protocol_version, struct tidings_str ceiling,
                         const struct profile *profile);
/* One of the eight syslog words: 0 (debug) … 7 (emergency); -1: not one. */
int dialect_log_level(struct tidings_str level);
#define LOG_LEVEL_WARNING 3
/* The log level that a modern request asks for in its `_meta`; -1: none. */
int dialect_asked_log_level(const struct json *meta);
/* The capabilities in a modern request: an object, or NULL. */
struct json *dialect_capabilities(const struct json *meta);
/* The client info in a modern request: an object, or NULL. */
struct json *dialect_client_info(const struct json *meta);
/* The tasks extension. Returns true if the client of a modern request declared it. */
#define DIALECT_TASKS "io.modelcontextprotocol/tasks"
bool dialect_declares_tasks(const struct json *meta);
/* The object of capabilities that has it. */
void dialect_put_tasks_required(struct buf *out);
bool dialect_is_modern_version(struct tidings_str protocol_version);
/* Returns true if a header that repeats part of the body equals `value`. The header may be encoded
 * as =?base64?…?=. */
bool dialect_header_equals(struct tidings_str header, struct tidings_str value);

/* ---- asking clients -------------------------------------------------------------------------- */

/* Questions that a client can answer: bits. */
enum dialect_ask {
    ASK_FORM = 1 << 0,           /* elicitation/create, the fields of a form … */
    ASK_URL = 1 << 1,            /* … or a visit to an address */
    ASK_SAMPLING = 1 << 2,       /* sampling/createMessage … */
    ASK_SAMPLING_TOOLS = 1 << 3, /* … with tools */
    ASK_ROOTS = 1 << 4,          /* roots/list */
    ASK_EVERYTHING = (1 << 5) - 1,
};
/* The questions (ASK_…) that a client with these capabilities (NULL: none) can answer. */
unsigned dialect_askable(const struct json *capabilities);
/* All questions that a method can ask in any of its forms; 0: none. */
unsigned dialect_method_asks(struct tidings_str method);
/* All capabilities that a client needs for this question. */
unsigned dialect_question_needs(struct tidings_str method, const struct json *params);
/* The capability of the first of these bits. */
const char *dialect_ask_name(unsigned bits);
/* The object of capabilities that they stand for. */
void dialect_put_required(struct buf *out, unsigned bits);
/* In the legacy era: writes a request to the client, and the notification that cancels it. */
void dialect_put_question(struct buf *out, uint64_t id, struct tidings_str method,
                          const struct json *params);
void dialect_put_withdrawal(struct buf *out, uint64_t id, struct tidings_str reason);
/* Checks a client's result for a method. Returns NULL, or the reason it is invalid. */
const char *dialect_check_answer(struct tidings_str method, const struct json *result);

/* ---- writing answers ------------------------------------------------------------------------- */

/* How the server describes itself; slices live as long as the server. */
struct server_identity {
    struct tidings_str implementation; /* JSON object: name, version, title … */
    struct tidings_str instructions;
    bool has_instructions; /* sent unchanged, perhaps empty; false: the server writes its own */
    struct tidings_str ceiling;
    bool has_tools, has_prompts; /* declared, even without any */
    bool list_changed;
    bool is_private;       /* answers may depend on the principal */
    bool no_subscriptions; /* resources cannot be subscribed to */
    bool allow_write;      /* clients publish and announce changes */
    bool has_rate;         /* the configured rate applies, not the profile's */
    /* Clients that subscribed with an absolute URI receive absolute URIs: their beginning, quoted
     * without its end, and the prefix it is an alias of. Empty: there are none. */
    struct tidings_str absolute_json, absolute_of;
    const struct profile *profile; /* NULL: none */
};

/* ---- profiles -------------------------------------------------------------------------------- */

/* A source document that takes precedence where it differs from the protocol; for legacy traffic
 * only. Each profile is a row of the table in dialect.c that says how it answers and which of these
 * fields hold; without a profile all are false. */
struct dialect_rules {
    bool confirms_subscribe;   /* resources/subscribe says {subscribed, uri} … */
    bool confirms_unsubscribe; /* … and resources/unsubscribe {unsubscribed, uri} */
    bool is_literal;           /* no tidings `_meta`, and no `subscribedUri` */
    bool opens_sessions;       /* any POST opens a session; initialize is not needed */
    bool needs_session;  /* subscriptions need a session: there are none on message connections */
    bool answers_200;    /* as HTTP status, whatever the JSON-RPC error of a request */
    bool is_unprimed;    /* streams begin with a message */
    bool has_regex_uris; /* `[…]+` makes a URI a regular expression */
    bool broadcasts;     /* "anything may have changed" is one update without URI, and a
                          * change is one update for all subscriptions of a session */
    bool knows_subscriptions; /* unsubscribing what is not subscribed is an error */
    bool has_short_method;    /* updates are called resources/updated */
    bool has_metadata;        /* … and have `metadata` */
    bool has_envelopes;       /* WebSocket: {"type":"mcp","payload":…} */
    bool has_draft;           /* the revision DRAFT-2025-v2 exists */
    bool has_events;          /* GET /events, the stream of a session */
    bool has_data;            /* updates have `title` and `data`, the content itself */
    bool rebases;             /* a patch from an older version is applied to the current one */
    bool has_plain_writes;    /* results of writes have `success` and `newValidFrom` themselves */
    bool fails_calls;         /* a call of a tool that fails is an error of JSON-RPC */
    bool lists_paths;         /* templates of mounts in one spelling, and all on one page */
};

/* The names of all profiles, for lists of what is accepted. */
#define DIALECT_PROFILES "gateway", "erlmcp", "lumenize"
/* One of DIALECT_PROFILES; NULL: unknown name (or "none"). */
const struct profile *dialect_find_profile(struct tidings_str name);
/* The rules of this server for messages of an era and in a profile (NULL: none). */
const struct dialect_rules *dialect_rules(const struct server_identity *self);
const struct dialect_rules *dialect_rules_in(const struct server_identity *self, enum era era);
const struct dialect_rules *profile_rules(const struct profile *profile);

/* The options of a legacy subscription that asks for none, if no rule is set. */
struct dialect_defaults {
    bool metadata;    /* included in updates */
    uint64_t rate_ms; /* at most one update in this period; 0: as configured */
    bool gather;      /* the first change waits for the end of the window */
};
struct dialect_defaults dialect_defaults(const struct server_identity *self);
/* dialect_rules.has_plain_writes: the two members of a result that has them in `structured`, the
 * text of an object. */
void dialect_put_plain_write(struct jw *w, struct tidings_str structured);
/* dialect_rules.has_data: the members `title` and `data`, without braces, from an array of content
 * elements (the document, if the first is JSON text) or from an object. Failures stick in `out`. */
void dialect_put_data(struct buf *out, struct tidings_str value_json);
/* The code of a legacy request before `initialize`, or for an uninitialized session; and of a
 * request for a disabled feature. */
int dialect_code_uninitialized(const struct profile *profile, int otherwise);
int dialect_code_incapable(const struct server_identity *self);
/* Returns true if an answer with that code has status 200 over HTTP, whatever the code means
 * elsewhere. */
bool dialect_answers_200(const struct server_identity *self, enum era era, int rpc_code);

enum dialect_cache {
    CACHE_NONE,   /* not a cacheable result */
    CACHE_NOW,    /* stale at once: live content */
    CACHE_HOUR,   /* content that rarely or never changes */
    CACHE_ASKING, /* not the result: the client must answer questions first */
    CACHE_TASK,   /* … or gets a task that will have the result */
};

/* {"jsonrpc":"2.0","id":…,"result":{ … the caller's members … */
void dialect_begin_result(struct jw *w, struct tidings_str id_json);
/* … decoration of the era … }} */
void dialect_end_result(struct jw *w, enum era era, const struct server_identity *self,
                        enum dialect_cache cache);
/* The same with members of the caller in the result's `_meta`, written between the two. */
void dialect_begin_meta(struct jw *w, enum era era, const struct server_identity *self,
                        enum dialect_cache cache);
void dialect_end_meta(struct jw *w);

/* The members that resources/subscribe and unsubscribe return in their result. */
void dialect_put_confirmation(struct jw *w, const struct server_identity *self, bool subscribed,
                              struct tidings_str uri);

struct dialect_error {
    int code;
    struct tidings_str message;
    struct tidings_str uri;                 /* data.uri; empty: none */
    struct tidings_str reason;              /* data.reason; empty: none */
    struct tidings_str error_type;          /* data.error_type; empty: none */
    struct tidings_str missing;             /* data.detail: this is not configured; empty: none */
    struct tidings_str detail;              /* data.detail; empty: none */
    struct tidings_str required_json;       /* data.requiredCapabilities; empty: none */
    struct tidings_str details;             /* further members of data, an object; empty: none */
    const struct dialect_verdict *versions; /* data.supported/requested; NULL: none */
    struct tidings_str ceiling;
};
/* The versions offered, newest first, as a JSON array. */
void dialect_write_versions(struct jw *w, struct tidings_str ceiling, bool modern_only);
/* id_json empty: the id could not be read and is left out. */
void dialect_write_error(struct jw *w, struct tidings_str id_json, const struct dialect_error *e);
/* The JSON-RPC code of a tidings error, by era. */
int dialect_code(enum era era, int tidings_code);
int dialect_task_code(int tidings_code); /* the error of a failed task */
/* A failure of the server, to be sent as an error. */
struct dialect_failure {
    enum era era;
    int code; /* enum tidings_code */
    struct tidings_str method;
    struct tidings_str uri; /* the requested URI, even if the error does not mention it */
    bool is_malformed;      /* … is neither a URI nor a pattern */
    bool is_unserved;       /* … has a scheme without a source on this server */
};
/* The error's code, and further data by profile. `e` has message, uri and reason. */
void dialect_name_failure(const struct server_identity *self, const struct dialect_failure *f,
                          struct dialect_error *e);
/* Subscriptions need a session, and there is none (dialect_rules.needs_session). */
extern const struct dialect_error dialect_session_required;
/* HTTP status that carries it. */
int dialect_status(const struct server_identity *self, enum era era, int rpc_code);

/* `offers`: the server's features, as handlers_offers returns them: LIST_TOOLS, LIST_PROMPTS,
 * OFFER_…. */
#define OFFER_COMPLETIONS 0x100u /* beside the lists (enum change_list) */
#define OFFER_SUBSCRIPTIONS 0x200u
#define OFFER_TASKS 0x400u
#define OFFER_SKILLS 0x800u
/* `instructions` for this client; empty: none. */
void dialect_write_initialize(struct jw *w, const struct revision *rev,
                              const struct server_identity *self, unsigned offers,
                              struct tidings_str instructions);
void dialect_write_discover(struct jw *w, const struct server_identity *self, unsigned offers,
                            struct tidings_str instructions);

/* ---- notifications --------------------------------------------------------------------------- */

struct change;

/* The parts of `notifications/resources/updated` that differ per subscriber. */
struct dialect_updated {
    const struct change *change;   /* NULL with `truncated` */
    enum tidings_change_kind kind; /* after merging */
    struct tidings_str uri_json;   /* quoted: the changed URI, or a literal's own spelling */
    struct tidings_str uri_begin;  /* server_identity.absolute_json: uri_json is appended to it */
    struct tidings_str subscribed_json; /* quoted */
    struct tidings_str listen_id_json;  /* empty: legacy */
    struct tidings_str value_json; /* contents; with dialect_rules.has_data members; empty: none */
    struct log_cursor cursor;
    struct tidings_str sealed; /* instead of the cursor; empty: none */
    bool hides_version;        /* for restricted principals: see store/change.h */
    bool hides_from;           /* likewise: hides the previous URI */
    unsigned merged;           /* number of changes that this update replaces */
    bool caught_up;            /* sent from the log: the number of further changes is unknown */
    bool truncated;
    bool suspended;    /* this subscription is no longer evaluated */
    bool initial;      /* nothing changed: the state when it was subscribed */
    bool top_metadata; /* metadata also as a member of params */
    bool is_slim;      /* only the change, the cursor, requested members and exceptions */
    bool is_task;      /* notifications/tasks instead: `value_json` is the task, an object */
    const struct profile *profile;
};
/* Writes the message into room of exactly its size; returns false without room. */
bool dialect_updated_write(const struct dialect_updated *u, char *(*room)(void *user, size_t size),
                           void *user);

/* `_meta` of a subscribe result: the cursor, and `warning`: why `uri` may never fire, or empty. */
void dialect_put_subscribed(struct jw *w, struct tidings_str cursor, struct tidings_str uri,
                            struct tidings_str warning);

/* One URI of a listen, honoured or not. */
struct dialect_acknowledged_uri {
    struct tidings_str uri;
    struct tidings_str task_id; /* of `taskIds`, instead of a URI; or empty */
    bool is_refused;
    struct tidings_str reason, details_json; /* the reason; empty: unknown */
    struct tidings_str warning; /* honoured, but may never be notified: the reason; or empty */
};
struct dialect_acknowledged {
    struct tidings_str listen_id_json, cursor;
    unsigned lists; /* lists whose changes it receives; bits: enum change_list */
    size_t count;
    struct dialect_acknowledged_uri (*uri)(void *user, size_t index);
    void *user;
};

/* Whole messages, appended to `out`. */
/* notifications/subscriptions/acknowledged. */
void dialect_put_acknowledged(struct buf *out, const struct dialect_acknowledged *a);
/* Beside the lists: an update without URI (dialect_rules.broadcasts). */
#define LIST_EVERYTHING 8u
/* `list`: one bit of enum change_list, or LIST_EVERYTHING. */
void dialect_put_list_changed(struct buf *out, unsigned list, struct tidings_str listen_id_json);
/* notifications/dev.tidings/bookmark. */
void dialect_put_bookmark(struct buf *out, struct tidings_str cursor,
                          struct tidings_str listen_id_json);
void dialect_put_listen_result(struct buf *out, struct tidings_str listen_id_json,
                               const struct server_identity *self);
/* `logger` empty: the server itself. */
void dialect_put_log_message(struct buf *out, struct tidings_str level, struct tidings_str logger,
                             struct tidings_str text);
/* `total` <= 0: not known. */
void dialect_put_progress(struct buf *out, struct tidings_str token_json, double progress,
                          double total, struct tidings_str message);

/* -------------------------------------------------------------------------------------------------
 * Names in `_meta` that more than one file of this module writes.
 */

#define META_SERVER_INFO "io.modelcontextprotocol/serverInfo"
#define META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

#endif
