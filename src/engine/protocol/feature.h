/* SPDX-License-Identifier: MIT
 *
 * Features: tools, prompts, completions, and the children of registered containers. The program
 * registers each under a name. A feature is immutable and reference-counted. All features of a kind
 * form a list, ordered by name, which is immutable and counted too: the hub owns the current list
 * and creates a new one when a feature is registered or removed; workers hold a reference and swap
 * it.
 */
#ifndef ENGINE_PROTOCOL_FEATURE_H
#define ENGINE_PROTOCOL_FEATURE_H

#include <tidings/call.h>
#include <tidings/provider.h>

#include "base/list.h"
#include "base/time.h"
#include "engine/worker.h"
#include "formats/http.h"
#include "formats/json.h"
#include "formats/schema.h"
#include "formats/uri.h"

struct header_params;

enum feature_kind {
    FEATURE_TOOL,
    FEATURE_PROMPT,
    FEATURE_COMPLETION, /* engine/protocol/feature.h; not listed */
    FEATURE_CHILDREN,   /* by the URI of a container; not listed */
    FEATURE_KINDS,
};

struct feature {
    enum feature_kind kind;
    struct tidings_str name;
    struct tidings_str row;              /* the JSON object that lists show */
    struct tidings_str description_json; /* of a prompt, inside `row`; empty: none */
    struct json_schema *input;           /* of the arguments; NULL: any object */
    struct json_schema *output;          /* of structured results; NULL: anything */
    struct header_params *header_params; /* arguments that headers repeat; NULL: none */
    tidings_call_fn handler;
    tidings_complete_fn complete; /* of a completion */
    tidings_children_fn children; /* … of a container */
    void *user;
    uint64_t timeout_ms;       /* 0: the server's default */
    struct tidings_str writes; /* only for principals that may write this; empty: for all */
    bool is_blocking;
    enum tidings_task_support task; /* of a tool: may or must its calls be tasks? … */
    bool begins_task;               /* … if its handler asks for it */
    uint64_t task_ttl_ms;           /* 0: the server's default */
    unsigned refs;
};

/* Returns one reference; copies `name` and `row`. The caller fills in the rest before it shares the
 * feature. NULL when out of memory. */
struct feature *feature_create(enum feature_kind kind, struct tidings_str name,
                               struct tidings_str row);
/* Sets the handler of a tool or prompt, its time limit (0: the server's), and whether the handler
 * may block. */
void feature_set_handler(struct feature *f, tidings_call_fn handler, void *user,
                         uint64_t timeout_ms, bool is_blocking);
struct feature *feature_ref(struct feature *f);
void feature_unref(struct feature *f); /* NULL is fine */
/* 1 to 128 of A-Z a-z 0-9 _ - . */
int feature_check_name(struct tidings_str name, struct tidings_error *err);

struct feature_list {
    unsigned refs;
    bool has_tasks; /* a call of one of them may be a task */
    size_t count;
    struct feature *at[]; /* by name, ascending */
};

/* A new list: `old` (NULL: empty) with `add` (may be NULL) and without the feature named `remove`.
 * NULL when out of memory. */
struct feature_list *feature_list_derive(const struct feature_list *old, struct feature *add,
                                         struct tidings_str remove);
struct feature_list *feature_list_ref(struct feature_list *list); /* NULL is fine */
void feature_list_unref(struct feature_list *list);               /* NULL is fine */
/* The first whose name comes after `name` (empty: the first of all). `list` may be NULL. */
size_t feature_list_after(const struct feature_list *list, struct tidings_str name);
/* The names most similar to an unknown name: at most FEATURE_SUGGESTIONS, nearest first, that
 * differ by at most three letters and half of the name. In a long list it compares only the
 * FEATURE_SUGGEST_SCAN names around the place of the unknown one. Returns their number. `list` may
 * be NULL; the list owns the names. */
#define FEATURE_SUGGESTIONS 3u
#define FEATURE_SUGGEST_SCAN 2000u
size_t feature_suggest(const struct feature_list *list, struct tidings_str name,
                       struct tidings_str ret[FEATURE_SUGGESTIONS]);
/* NULL: there is none. `list` may be NULL. */
struct feature *feature_find(const struct feature_list *list, struct tidings_str name);

/* -------------------------------------------------------------------------------------------------
 * A worker's view of the registered tools, prompts and completions, and the calls of their handlers
 * that are under way.
 */

struct client_request;
struct client_requests;
struct buf;
struct pool;
struct request;
struct tasks;
struct tidings_call_hooks;
struct tool_counts;

struct handlers {
    struct feature_list *features[FEATURE_KINDS]; /* references; NULL: none */
    struct pool *pool;                            /* for handlers that block; belongs to the hub */
    struct tasks *tasks;                          /* of the whole server; belongs to the hub */
    struct list calls;                            /* struct tidings_call under way */
    struct tool_counts *counts;                   /* of tools; NULL: no calls yet */
    const struct tidings_call_hooks *hooks;       /* belongs to the program; NULL: none */
    struct loop_timer *timer;                     /* of their deadlines */
    uint64_t due_ms;                              /* when it will run; 0: never */
    /* The level below which the client of a legacy request wants no log messages. */
    int (*log_level)(const struct request *request);
    /* The questions that the client of a legacy request can answer, and open ones; NULL: none. */
    struct client_requests *(*client_requests)(const struct request *request);
    /* Sends on a stream of its session, because the request's own stream is not suitable;
     * `client_request` NULL: not a question. Returns false if there is no stream. */
    bool (*send_on_session)(const struct request *request, const struct buf *message,
                            struct client_request *client_request);
};

/* Sets all features of that kind. Takes the reference. */
void handlers_set_features(struct worker *worker, enum feature_kind kind,
                           struct feature_list *list);
/* LIST_TOOLS and LIST_PROMPTS if there are any, or if they were declared; OFFER_COMPLETIONS,
 * OFFER_SUBSCRIPTIONS, OFFER_TASKS and OFFER_SKILLS (the scheme `skill` has a source). */
unsigned handlers_offers(const struct worker *worker);
void handlers_deinit(struct worker *worker); /* no call may be under way */

/* -------------------------------------------------------------------------------------------------
 * Arguments that HTTP requests repeat in headers (SEP-2243): a property of a tool's input schema
 * with "x-mcp-header": "Region" is mirrored in the header Mcp-Param-Region, so that gateways can
 * route on it. The server refuses a request whose header and argument differ, because the gateway
 * that routed it saw another value than the tool would.
 */

/* Reads the headers from a schema; *ret is NULL without any. TIDINGS_E_INVALID: a non-string, a
 * string that cannot be part of a header name, a duplicate, a property that is not a string, an
 * integer or a boolean, or one that no chain of `properties` leads to. */
int header_params_create(struct json *schema, struct header_params **ret,
                         struct tidings_error *err);
void header_params_destroy(struct header_params *m); /* NULL is fine */

/* Returns true if the headers agree with the arguments (may be NULL). `m` may be NULL. */
bool header_params_holds(const struct header_params *m, struct json *arguments,
                         const struct http_request *req, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Calls, outcomes and durations of each tool on one worker. Only existing tools are counted, and a
 * limited number of them by name: names in client requests create no rows.
 */

#define TOOL_COUNTS_ROWS 64u
#define TOOL_COUNTS_NAME 128u /* the longest name of a tool */
#define TOOL_OUTCOMES ((unsigned)TIDINGS_CALL_CANCELLED + 1)

struct tool_count {
    char name[TOOL_COUNTS_NAME + 1]; /* "": all tools without a row */
    uint64_t outcomes[TOOL_OUTCOMES];
    uint64_t min_us, max_us;
    struct durations took;
};

/* All zero: no calls yet. */
struct tool_counts {
    size_t count;
    struct tool_count rows[TOOL_COUNTS_ROWS + 1]; /* the last: all others */
};

void tool_counts_add(struct tool_counts *t, struct tidings_str tool,
                     enum tidings_call_outcome outcome, uint64_t us);
void tool_counts_merge(struct tool_counts *to, const struct tool_counts *from);
/* Call `fn` for each row that has calls. */
void tool_counts_each(const struct tool_counts *t,
                      void (*fn)(void *user, const struct tool_count *row), void *user);
/* "ok", "error", "refused", "timeout", "cancelled". */
const char *tool_outcome_name(enum tidings_call_outcome outcome);

/* -------------------------------------------------------------------------------------------------
 * The names under which completions are registered: a completion is a feature
 * (engine/protocol/feature.h) whose name says what it completes, a prompt or a template.
 */

#define COMPLETE_PROMPT "prompt"
#define COMPLETE_TEMPLATE "template"
#define COMPLETE_KEY_MAX (URI_MAX + 16u)

/* "prompt review", "template x:///{id}". */
static inline void complete_put_key(struct buf *out, const char *what, struct tidings_str name)
{
    buf_puts(out, tidings_str(what));
    buf_putc(out, ' ');
    buf_puts(out, name);
}

#endif
