/* SPDX-License-Identifier: MIT
 *
 * The server's own state, shared by server.c (configuration), registry.c (what it serves),
 * prepare.c (getting ready) and run.c (running).
 */
#ifndef SERVER_SERVER_PRIVATE_H
#define SERVER_SERVER_PRIVATE_H

#include <tidings/server.h>

#include "delivery/hub.h"
#include "server/authority.h"
#include "server/config.h"
#include "server/local.h"
#include "server/rules.h"
#include "server/sandbox.h"
#include "server/worker_thread.h"
#include "transport/listener.h"

#define SERVER_DOORS_MAX 64u

enum server_state {
    SERVER_NEW,
    SERVER_STARTING,
    SERVER_RUNNING, /* on threads of our own */
    SERVER_STEPPED, /* by the program */
    SERVER_ENDED,
};

/* One of its doors, which the listener refers to. */
struct server_door {
    struct listener_protocol protocol;
    struct listener *listener; /* NULL: closed */
};

/* A listening socket that the program made. */
struct server_socket {
    enum listener_kind kind;
    int fd;
};

struct tidings_server {
    struct config config;
    struct loop *loop;
    struct hub *hub;
    struct worker_thread **workers;
    struct worker_inboxes *inboxes; /* of the workers, by index */
    size_t worker_count;
    size_t running_workers;    /* atomic */
    struct server_door *doors; /* open, or closed already while it winds down */
    size_t door_count;
    struct reject_list *rejects; /* for those who are not let in */
    struct tls_context *tls; /* of those that other machines can reach; NULL: none is configured */
    size_t max_connections;  /* through all of them */
    struct server_socket passed[SERVER_DOORS_MAX]; /* until doors are made of them */
    size_t passed_count;
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct rules rules;                 /* behind option_limits */
    struct access_rules *access; /* the workers begin with; NULL: everybody may do everything */
    struct map live_rules;       /* struct live_rule by prefix; whoever is or holds the hub */
    struct authority authority;  /* behind http.auth */
    struct sandbox sandbox;
    struct http_config http;
    struct socket_config sockets;
    struct server_identity self;
    struct buf implementation, instructions, ceiling;
    struct http_route *routes;
    size_t route_count;
    struct locals locals;              /* subscriptions of the program */
    struct worker **cores;             /* of the workers, by index */
    struct tidings_provider *own;      /* tidings://self/ */
    struct tidings_provider *entities; /* entity:///, or NULL */
    struct keeper *keeper;             /* of the store; NULL: there is none */
    bool has_file;                     /* it is one that outlives the server */
    bool has_publish_tools, has_change_tools;
    struct list timers; /* struct server_timer */
    size_t timer_count;
    struct published *published;     /* everything pushed */
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
    bool has_hurried;
    bool is_program; /* configured by a command line: must have something to serve */
    bool is_turning, is_winding_down, is_settling;
    bool is_stuck; /* a worker could not be freed: a request of it was never answered */
};

enum server_state server_state(const struct tidings_server *s);
/* For what must be said before the server starts. */
int server_check_new(const struct tidings_server *s, struct tidings_error *err);
/* Everything up to the first turn. On failure as if nothing had been. */
int server_prepare(struct tidings_server *s, bool is_stepped, struct tidings_error *err);
void live_rules_deinit(struct tidings_server *s);
/* Of tidings_server_every: from the first turn to the last but those of winding down. */
void server_timers_start(struct tidings_server *s);
void server_timers_stop(struct tidings_server *s);
void server_timers_close(struct tidings_server *s);
/* doors.c: what clients come in by. Will there be such a door? */
bool doors_have(const struct tidings_server *s, enum listener_kind kind);
/* Workers are there already; a failure leaves some open. */
int doors_open(struct tidings_server *s, struct tidings_error *err);
void doors_close(struct tidings_server *s);   /* nobody comes in any more */
void doors_destroy(struct tidings_server *s); /* … and nobody is on the way */
void doors_forget_passed(struct tidings_server *s);
/* The URL of the first one for HTTP, if other programs of this machine, and only they, know the
 * server by it; else NULL. */
const char *doors_url(const struct tidings_server *s);
/* quotas.c: what one client may. */
void server_set_quotas(struct tidings_server *s);
/* reload.c: between two turns. */
void server_reload_when_asked(struct tidings_server *s);
/* Free workers and doors; nothing runs any more. */
void server_dismantle(struct tidings_server *s);

#endif
