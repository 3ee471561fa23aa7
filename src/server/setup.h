/* SPDX-License-Identifier: MIT
 *
 * From the configuration to a server that can run: settings, workers and listeners.
 *
 * From the configuration to the log: levels, format, file, access log; at the start, on a reload,
 * and when the file is to be opened again. The log is the process's own, so only a server that was
 * given a command line (tidings_server_args) touches it.
 */
#ifndef SERVER_SETUP_H
#define SERVER_SETUP_H

#include <tidings/provider.h>
#include <tidings/server.h>

#include "engine/worker.h"
#include "security/limits.h"
#include "server/option_rules.h"
#include "server/worker_thread.h"
#include "transport/listener.h"

struct config;
struct log_settings;

/* As soon as the settings are known: what is wanted. */
void log_setup_levels(const struct config *c);

/* -------------------------------------------------------------------------------------------------
 * The built-in providers, by name, and mounting those of the configuration.
 */

struct hub;

#define BUILTIN_NAMES "file, system, command"

/* NULL: no such. */
const struct tidings_provider_ops *builtin_find(struct tidings_str name);

/* hub_mount, for a table that may be a built-in one: what else is known of that one is set. */
int builtin_mount(struct hub *hub, const struct tidings_provider_ops *ops,
                  struct tidings_str prefix, struct tidings_str config, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The server itself.
 */

struct access_rules;
struct tls_context;
struct worker_thread;

/* What the configuration says, as workers use it. */
struct server_settings {
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct rules rules;                 /* behind option_limits */
    struct access_rules *access; /* the workers begin with; NULL: everybody may do everything */
    struct http_config http;
    struct socket_config sockets;
    struct server_identity identity;
    struct buf implementation, instructions, ceiling;
    struct tidings_server_info info; /* slices into info_text */
    struct buf info_text;
};

struct server_workers {
    struct worker_thread **threads;
    struct worker_inboxes *inboxes; /* by index */
    struct worker **cores;          /* likewise */
    size_t count;
    size_t running; /* atomic */
};

#define SERVER_LISTENERS_MAX 64u

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

struct server_listeners {
    struct server_listener *all; /* open, or closed already while it winds down */
    size_t count;
    struct reject_list *rejects; /* for those who are not let in */
    struct tls_context *tls; /* of those that other machines can reach; NULL: none is configured */
    size_t max_connections;  /* through all of them */
    struct server_socket passed[SERVER_LISTENERS_MAX]; /* until they are listened on */
    size_t passed_count;
};

/* Everything up to the first turn. On failure as if nothing had been. */
int server_setup(struct tidings_server *s, bool is_stepped, struct tidings_error *err);
/* Free workers and listeners; nothing runs any more. */
void server_teardown(struct tidings_server *s);
/* Between two turns. */
void server_reload_when_asked(struct tidings_server *s);
/* Will there be a listener of that kind? */
bool server_has_listener(const struct tidings_server *s, enum listener_kind kind);
/* Workers are there already; a failure leaves some open. */
void server_listeners_close(struct tidings_server *s);
/* Close the sockets of the program that nobody listens on. */
void server_sockets_forget(struct tidings_server *s);

#endif
