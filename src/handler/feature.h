/* SPDX-License-Identifier: MIT
 *
 * What a program offers by name: tools, prompts, completions of what is named, and the children of
 * registered containers. A feature is
 * immutable and counted; all features of a kind form a list, ordered by name, which is immutable
 * and counted too: the hub owns the master and makes a new one when something is registered or
 * removed, workers hold a reference and swap it.
 */
#ifndef HANDLER_FEATURE_H
#define HANDLER_FEATURE_H

#include <tidings/call.h>
#include <tidings/provider.h>

#include "json/schema.h"

struct header_params;

enum feature_kind {
    FEATURE_TOOL,
    FEATURE_PROMPT,
    FEATURE_COMPLETION, /* handler/completion.h; not listed */
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
    uint64_t timeout_ms;       /* 0: the server's */
    struct tidings_str writes; /* only for who may write this; empty: for everybody */
    bool is_blocking;
    enum tidings_task_support task; /* of a tool: may or must its calls be tasks? … */
    bool begins_task;               /* … when its handler says so */
    uint64_t task_ttl_ms;           /* 0: the server's */
    unsigned refs;
};

/* One reference; `name` and `row` are copied, the rest is filled in by the caller before anybody
 * else sees it. NULL when out of memory. */
struct feature *feature_create(enum feature_kind kind, struct tidings_str name,
                               struct tidings_str row);
/* Of a tool or prompt: who answers calls of it, within what time (0: the server's), and whether
 * that may block. */
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

/* A new list: `old` (NULL: empty) with `add` (may be NULL) and without what is named `remove`.
 * NULL when out of memory. */
struct feature_list *feature_list_derive(const struct feature_list *old, struct feature *add,
                                         struct tidings_str remove);
struct feature_list *feature_list_ref(struct feature_list *list); /* NULL is fine */
void feature_list_unref(struct feature_list *list);               /* NULL is fine */
/* The first whose name comes after `name` (empty: the first of all). `list` may be NULL. */
size_t feature_list_after(const struct feature_list *list, struct tidings_str name);
/* The names nearest to one that is not there: at most FEATURE_SUGGESTIONS, nearest first, by at
 * most three letters and half of it. Of a long list those around where the name would stand,
 * FEATURE_SUGGEST_SCAN in all. Returns how many. `list` may be NULL; the names are its own. */
#define FEATURE_SUGGESTIONS 3u
#define FEATURE_SUGGEST_SCAN 2000u
size_t feature_suggest(const struct feature_list *list, struct tidings_str name,
                       struct tidings_str ret[FEATURE_SUGGESTIONS]);
/* NULL: there is none. `list` may be NULL. */
struct feature *feature_find(const struct feature_list *list, struct tidings_str name);

#endif
