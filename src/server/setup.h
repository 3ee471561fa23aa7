/* SPDX-License-Identifier: MIT
 *
 * The setup of a server from its configuration: settings, workers and listeners.
 *
 * The setup of the log: levels, format, file, access log; at the start, on a reload, and when the
 * file is reopened. The log belongs to the process, so only a server with a command line
 * (tidings_server_args) changes it.
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

/* Set the log levels as soon as the settings are known. */
void log_setup_levels(const struct config *c);

/* -------------------------------------------------------------------------------------------------
 * The built-in providers, by name, and mounting those of the configuration.
 */

struct hub;

#define BUILTIN_NAMES "file, system, command"

/* NULL: unknown name. */
const struct tidings_provider_ops *builtin_find(struct tidings_str name);

/* hub_mount, for a table that may be a built-in one: sets the additional properties of built-in
 * providers. */
int builtin_mount(struct hub *hub, const struct tidings_provider_ops *ops,
                  struct tidings_str prefix, struct tidings_str config, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The server itself.
 */

struct access_rules;
struct tls_context;
struct worker_thread;

/* The configuration in the form that workers use. */
struct server_settings {
    struct worker_limits limits;
    struct option_limits option_limits; /* target of limits.options */
    struct rules rules;                 /* target of option_limits */
    struct access_rules *access;        /* of the workers; NULL: no restrictions */
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

/* A listener, and the data it refers to. */
struct server_listener {
    struct listener_protocol protocol;
    struct listener *listener; /* NULL: closed */
};

/* A listening socket that the program created. */
struct server_socket {
    enum listener_kind kind;
    int fd;
};

struct server_listeners {
    struct server_listener *all; /* open, or already closed while the server drains */
    size_t count;
    struct reject_list *rejects; /* for rejected connections */
    struct tls_context *tls; /* for listeners that other machines can reach; NULL: not configured */
    size_t max_connections;  /* on all listeners together */
    struct server_socket passed[SERVER_LISTENERS_MAX]; /* until the server listens on them */
    size_t passed_count;
};

/* Everything up to the first turn. Leaves nothing behind on failure. */
int server_setup(struct tidings_server *s, bool is_stepped, struct tidings_error *err);
/* Free workers and listeners; nothing runs any longer. */
void server_teardown(struct tidings_server *s);
/* Between two turns. */
void server_reload_when_asked(struct tidings_server *s);
/* Returns true if there will be a listener of that kind. */
bool server_has_listener(const struct tidings_server *s, enum listener_kind kind);
/* Call it after creating the workers; after a failure, some listeners stay open. */
void server_listeners_close(struct tidings_server *s);
/* Close the program's sockets that no listener uses. */
void server_sockets_forget(struct tidings_server *s);

#endif
