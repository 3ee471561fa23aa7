/* SPDX-License-Identifier: MIT
 *
 * What `struct tidings_server` is made of, and what the files that implement <tidings/server.h> and
 * its neighbours (server.c and server_*.c) do for one another.
 */
#ifndef SERVER_SERVER_INTERNAL_H
#define SERVER_SERVER_INTERNAL_H

#include <tidings/server.h>
#include <tidings/tool.h>

#include "engine/delivery/hub.h"
#include "engine/protocol/tasks.h"
#include "server/auth_setup.h"
#include "server/config.h"
#include "server/console.h"
#include "server/local_subscription.h"
#include "server/option_rules.h"
#include "server/publish.h"
#include "server/sandbox_rules.h"
#include "server/stats.h"
#include "server/worker_thread.h"
#include "sources/published.h"
#include "store/commit_thread.h"
#include "transport/listener.h"

#define SERVER_LISTENERS_MAX 64u

enum server_state {
    SERVER_NEW,
    SERVER_STARTING,
    SERVER_RUNNING, /* on threads of our own */
    SERVER_STEPPED, /* by the program */
    SERVER_ENDED,
};

/* One of its listeners, and what that refers to. */
struct server_listener {
    struct listener_protocol protocol;
    struct listener *listener; /* NULL: closed */
};

/* A listening socket that the program made. */
struct server_socket {
    enum listener_kind kind;
    int fd;
};

struct metrics_listener;
struct server_history;

/* Where tasks are kept, and served. */
struct server_tasks {
    struct task_store store;
    struct keeper *keeper;
    struct tidings_provider *provider; /* tidings://tasks/; NULL: there is none */
    /* Of a store that nodes share: */
    struct loop_timer *timer; /* looks for those that are over */
    bool is_looking;          /* atomic: it is under way */
    uint64_t judges_at; /* the keeper's, clock_monotonic_ms: nodes are taken for gone from then */
};

struct tidings_server {
    struct config config;
    struct loop *loop;
    struct hub *hub;
    struct worker_thread **workers;
    struct worker_inboxes *inboxes; /* of the workers, by index */
    size_t worker_count;
    size_t running_workers;            /* atomic */
    struct server_listener *listeners; /* open, or closed already while it winds down */
    size_t listener_count;
    struct reject_list *rejects; /* for those who are not let in */
    struct tls_context *tls; /* of those that other machines can reach; NULL: none is configured */
    size_t max_connections;  /* through all of them */
    struct server_socket passed[SERVER_LISTENERS_MAX]; /* until they are listened on */
    size_t passed_count;
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct rules rules;                 /* behind option_limits */
    struct access_rules *access; /* the workers begin with; NULL: everybody may do everything */
    struct map runtime_rules;    /* struct runtime_rule by prefix; whoever is or holds the hub */
    struct oauth_setup oauth;    /* behind http.auth */
    struct sandbox sandbox;
    struct process_probe process;
    struct console console;           /* behind http.console_page */
    struct metrics_listener *metrics; /* NULL: none */
    struct server_history *history;   /* of the last minutes; NULL: none is kept */
    struct http_config http;
    struct socket_config sockets;
    struct server_identity identity;
    struct buf implementation, instructions, ceiling;
    struct tidings_call_hooks call_hooks;
    struct http_route *routes;
    size_t route_count;
    struct inproc_subscriptions inproc; /* of the program itself */
    struct worker **cores;              /* of the workers, by index */
    struct tidings_provider *status;    /* tidings://self/ */
    struct tidings_provider *entities;  /* entity:///, or NULL */
    struct entity_authority authority;  /* their absolute URIs … */
    struct buf absolute;                /* … and how such begin, quoted */
    struct keeper *keeper;              /* of the store; NULL: there is none */
    struct server_files *files;         /* what goes there of files; NULL: nothing */
    struct server_tasks tasks;          /* … and of tasks */
    bool has_file;                      /* it is one that outlives the server */
    bool has_lost_data;                 /* … and had lost committed data when this run began */
    struct cluster *cluster;            /* of the nodes that share the store; NULL: none do */
    struct entity_rows *given_rows; /* of a test: taken instead of the store that is configured */
    bool has_publish_tools, has_change_tools, has_end_peer;
    struct list timers; /* struct server_timer */
    size_t timer_count;
    struct published *published; /* everything pushed */
    struct published_shares published_shares;
    struct catalog *mounted;         /* atomic; the mounts, which stay while it runs; NULL before */
    struct tidings_server_info info; /* slices into info_text */
    struct buf info_text;
    tidings_ready_fn ready;
    void *ready_user;
    tidings_reloaded_fn reloaded;
    void *reloaded_user;
    pthread_t stepper;       /* the thread of the turns */
    enum server_state state; /* atomic */
    bool stopping, hurries;  /* atomic */
    bool reloading;          /* atomic: is to be done */
    bool reopening;          /* likewise: the log's file is to be opened again */
    bool has_hurried;
    bool is_program; /* configured by a command line: must have something to serve */
    bool is_turning, is_winding_down, is_awaiting_jobs;
    struct tidings_error unheard; /* the first failure that the program did not want to hear of … */
    bool has_unheard;             /* … atomic: is there */
    bool is_stuck; /* a worker could not be freed: a request of it was never answered */
};

enum server_state server_state(const struct tidings_server *s);
/* Any thread: was it asked to stop? */
bool server_is_stopping(const struct tidings_server *s);
/* TIDINGS_E_INVALID: it is NULL. */
int server_check(const struct tidings_server *s, struct tidings_error *err);
/* `rc` of the function of that name, which failed with `own` because the program gave no `err`: the
 * first one is kept for tidings_server_main to tell. Returns `rc`. */
int server_note(struct tidings_server *s, const char *function, int rc,
                const struct tidings_error *own);
/* For what makes no sense any more when it has ended: TIDINGS_E_CLOSED. */
int server_check_open(const struct tidings_server *s, struct tidings_error *err);
/* For what must be said before the server starts. */
int server_check_new(const struct tidings_server *s, struct tidings_error *err);

/* setup.c: everything up to the first turn. On failure as if nothing had been. */
int server_setup(struct tidings_server *s, bool is_stepped, struct tidings_error *err);
/* Free workers and listeners; nothing runs any more. */
void server_teardown(struct tidings_server *s);

/* setup.c: between two turns. */
void server_reload_when_asked(struct tidings_server *s);

/* setup.c: where clients connect. Will there be one of that kind? */
bool server_has_listener(const struct tidings_server *s, enum listener_kind kind);
/* Workers are there already; a failure leaves some open. */
void server_listeners_close(
    struct tidings_server *s); /* Close the sockets of the program that nobody listens on. */
void server_sockets_forget(struct tidings_server *s);

/* option_rules.c */
void server_runtime_rules_deinit(struct tidings_server *s);

/* ---- store_setup.c: the store (`--store`, `--entities`) -------------------------------------
 *
 * One file, and the thread that keeps it, for entities and for what is published. It is opened
 * before anything is mounted, and with it the change log of which cursors outlive the server. */

/* Nothing when the configuration names no store. *ret gets the log that belongs to it, NULL: none.
 */
int server_store_open(struct tidings_server *s, const struct changelog_limits *limits,
                      struct changelog **ret, struct tidings_error *err);
/* What `p` serves is kept there, if anything is. */
void server_store_bind(struct tidings_server *s, struct tidings_provider *p);
/* Everything submitted is done first. `is_undone`: the server does not start after all. */
void server_store_close(struct tidings_server *s, bool is_undone);

/* ---- tasks.c: tasks as resources ------------------------------------------------------ */

/* Take over those that the store has; then mount tidings://tasks/, if there are any or a tool makes
 * some. */
int server_tasks_mount(struct tidings_server *s, struct tidings_error *err);
/* The store is closed, and no worker runs. */
void server_tasks_close(struct tidings_server *s);

/* ---- tasks.c: in the store ------------------------------------------------------ */

/* Of struct cluster_ops; `user` is the server. */
void server_tasks_followed(void *user, struct tidings_str uri);
void server_tasks_broken(void *user);
void server_tasks_reach(void *user, bool is_unreachable);

/* ---- store_setup.c: what is known of files goes to the store -------------------------------- */

/* After everything was mounted: mounts of files save what they know, and who comes back with a
 * cursor of an earlier run is told what changed. Nothing without a file. */
int server_files_open(struct tidings_server *s, size_t max_changes, struct tidings_error *err);
/* Save what is known now, unless the server does not start after all. Files are not watched any
 * more. */
void server_files_close(struct tidings_server *s, bool is_undone);

/* ---- publish.c ----------------------------------------------------------------------- */

/* Mount the entities that the configuration names and offer their tools; nothing when it names
 * none. */
int server_entities_mount(struct tidings_server *s, struct tidings_error *err);
/* The mount is about to go, because the server does not start after all. */
void server_entities_unmount(struct tidings_server *s);

/* ---- publish.c: what programs and clients publish, and who serves a URI ------------------
 *
 * A URI is served by the first of
 *
 *   1. a resource that the program registered there;
 *   2. the mount with the longest prefix: directories, other providers, and the prefixes below
 *      which something may be published;
 *   3. templates, in the order of their texts.
 *
 * Nothing is silently hidden. What would never be reached is refused when it comes second, with
 * TIDINGS_E_EXISTS and the name of the first: publishing what is registered, registering what is
 * published, a template all of which lies inside a mount. A template that reaches into a mount only
 * in part is asked for the rest. Prefixes of publishing do not lie inside one another; other mounts
 * may lie inside them, and what is below those is not published. */

/* What clients publish counts for them. Before anything is published. */
void server_share_published(struct tidings_server *s);
/* When clients may write and no prefix is named. */
#define PUBLISH_DEFAULT "published:///"

/* Mount the prefixes that the configuration names. Before the server runs. */
int server_publish_mount(struct tidings_server *s, struct tidings_error *err);
/* Everything is mounted: check what was registered and published before, and offer the tools. */
int server_publish_check(struct tidings_server *s, struct tidings_error *err);
/* The server runs from now on: the mounts stay, and changes are announced. */
void server_publish_open(struct tidings_server *s);

/* What tidings_server_publish and tidings_server_unpublish do, with conditions and without waiting
 * (sources/published.h). Any thread; URIs in any spelling. */
void server_publish_put_then(struct tidings_server *s, const struct publication *p,
                             published_done_fn done, void *user);
void server_publish_remove_then(struct tidings_server *s, const struct publication *p,
                                published_done_fn done, void *user);
/* published_may_fn, before anything is mounted; `user` is the server. */
bool server_publish_may_keep(void *user, const struct tidings_resource *about);
/* The same at any time, on any thread; what the program registered is reserved in the store. */
bool server_publish_may_follow(void *user, const struct tidings_resource *about);

/* A fixed URI is about to be registered: it may not be published from now on. Any thread. */
int server_publish_reserve(struct tidings_server *s, struct tidings_str uri,
                           struct tidings_error *err);
/* A template is about to be registered. Any thread. */
int server_publish_check_template(struct tidings_server *s, struct tidings_str text,
                                  struct tidings_error *err);

/* tools_admin.c: the tools `publish` and `unpublish`; TIDINGS_E_EXISTS when the program
 * has one of that name. */
int server_publish_add_tools(struct tidings_server *s, struct tidings_error *err);
void server_publish_remove_tools(struct tidings_server *s);
/* publish.c: does the URI belong to a provider that clients may write? */
bool server_publish_is_writable(struct tidings_server *s, const struct tidings_call *call,
                                struct tidings_str uri);
/* … it is written, or removed, on behalf of the call; `done` gets the call. */
void server_publish_write_then(struct tidings_call *call, const struct publication *p,
                               bool is_removal, published_done_fn done);

#endif
