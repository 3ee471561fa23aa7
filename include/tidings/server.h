/* SPDX-License-Identifier: MIT
 *
 * A server: resources, mounts and transports behind one object.
 *
 *     struct tidings_server *s = tidings_server_create(&err);
 *     tidings_server_set(s, "http", "127.0.0.1:0", &err);
 *     tidings_server_add_resource(s, &about, read_it, NULL, &err);
 *     tidings_server_run(s, &err);            // until tidings_server_stop
 *     tidings_server_destroy(s);
 *
 * Model
 *   A server offers *resources*: things with a URI that are listed, read and watched. They are
 *   registered one by one (tidings_server_add_resource), by template, pushed
 *   (tidings_server_publish), or served by a *provider* mounted at a URI prefix. Whoever learns
 *   that one changed says so (tidings_changed); the server tells exactly the clients that
 *   subscribed. Tools and prompts: <tidings/tool.h>, <tidings/prompt.h>.
 *
 * Order
 *   Configure, then run (or step it: docs/how-to/embed-a-server.md). Resources may be
 *   added and removed, and changes announced, before and while it runs; the configuration, mounts,
 *   pages and timers are said before. After it has ended both are refused (TIDINGS_E_CLOSED).
 *
 * Threads
 *   A function may be called from any thread, except where its text names one; callbacks say where
 *   they run, and must not block. Without global state but the allocator (types.h), the log and the
 *   sandbox, a process may have several servers.
 *
 * Manners
 *   The library never aborts, and never prints or installs signal handlers unless asked
 *   (tidings_server_main, tidings_set_log). It leaves signal dispositions, locale, environment,
 *   directory, umask and limits of the process as they are; its descriptors are closed on exec, its
 *   threads block all signals, and no write of its raises SIGPIPE.
 *
 * Texts handed in are copied; errors are as <tidings/types.h> says.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_SERVER_H
#define TIDINGS_SERVER_H

#include <tidings/http.h>
#include <tidings/provider.h>
#include <tidings/subscription.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
/* A function named like the struct it fills in: -Wshadow calls that hiding its constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_server;

/* Create a server with the default configuration. It serves nothing yet. Release it with
 * tidings_server_destroy. NULL on failure: out of memory or descriptors. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_server *
tidings_server_create(struct tidings_error *err);
/* Destroy a server with everything it has: descriptors, threads, memory. Not while
 * tidings_server_run runs, nor from a callback; a stepped server is finished first. NULL is fine. A
 * request that a callback of the program never answered keeps the server in memory: it could be
 * answered still. */
TIDINGS_API void tidings_server_destroy(struct tidings_server *server);

/* ---- configuration: one table of names (`tidings help serve` prints it) ---------------------- */

/* Set one row of the configuration, by the name of its option ("page-size"), as on a command line.
 * A list row ("mount", "exclude") grows by one value. Before it starts. TIDINGS_E_INVALID: no such
 * row, or a value that is not accepted; the sentence says what is. */
TIDINGS_API int tidings_server_set(struct tidings_server *server, const char *name,
                                   const char *value, struct tidings_error *err);
/* Return the value of a setting, as its option spells it. "16m", "15s", "json"; of a list the items
 * with commas between them. Release it with tidings_free. NULL: there is no such setting, or no
 * memory. */
TIDINGS_API char *tidings_server_get(struct tidings_server *server, const char *name);
/* Take a whole command line as configuration. It has `--name value`, `--name=value`, `--flag`,
 * `--no-flag`, directories to mount. Reads the file (`--config FILE`, else ./tidings.json when
 * present) and TIDINGS_* variables first. argv[0] is the first argument proper, not the program.
 * Before it starts. Errors name the option, variable or file:line. */
TIDINGS_API int tidings_server_args(struct tidings_server *server, int argc, char **argv,
                                    struct tidings_error *err);
/* Return the options as `--help` prints them. By topic, in lines of `width` columns (50 to 100; 0:
 * 80). Free it with tidings_free. NULL when out of memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_help(size_t width);
/* Return the effective configuration, with where each value came from. Free it with tidings_free.
 * NULL when out of memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_print(struct tidings_server *server);
/* Return the effective configuration as JSON, for programs. It is {"settings": what tidings.json
 * would hold, "origins": {key: where its value came from}}. Free it with tidings_free. NULL when
 * out of memory. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_json(struct tidings_server *server);

/* One option of a command line as `--help` has it, for programs that make something of it. */
struct tidings_config_option {
    char name[48];       /* without dashes; of what is on by default "no-…" */
    const char *metavar; /* what its value is called; NULL: it takes none */
    const char *help;
    const char *const *choices; /* all values it accepts, NULL at the end; NULL: others */
    const char *value;          /* without it; NULL: none, or a list that is empty */
    bool is_list;               /* may be repeated */
};
/* Describe the option of a number, from 0 on. False: there are not so many. */
TIDINGS_API bool tidings_config_option(size_t index, struct tidings_config_option *ret);

/* ---- where clients connect --------------------------------------------------------------------
 *
 * The rows "http" (the default, when no other is named), "tcp", "unix" and "stdio"; and listening
 * sockets that the program, or whoever started it, has made already.
 */

enum tidings_listener {
    TIDINGS_LISTENER_HTTP = 0,
    TIDINGS_LISTENER_LINES = 1, /* one message per line, as on standard input and output */
};

/* Serve on a listening stream socket of the program (internet or Unix). The server takes the
 * descriptor and closes it; not on failure. Before it starts; at most 64 in all. TIDINGS_E_INVALID:
 * it is no such socket. */
TIDINGS_API int tidings_server_add_socket(struct tidings_server *server, enum tidings_listener kind,
                                          int fd, struct tidings_error *err);
/* Return the addresses that clients connect to, one after the other. HTTP first:
 * "http://127.0.0.1:7777/mcp", "tcp://127.0.0.1:7778", "unix:/run/app.sock",
 * "http+unix:/run/app.sock", "stdio"; NULL: there are no more. From the call of tidings_ready_fn
 * until the server stops, on the thread that runs it. */
TIDINGS_API const char *tidings_server_address(struct tidings_server *server, size_t index);

struct tidings_server_info {
    struct tidings_str name, version, title, description, website_url, instructions;
    void *reserved[4]; /* zero */
};
/* Set how the server names itself to clients. What is empty is not said, except for the name (that
 * of the program, and for a program called tidings its version) and `instructions`: the server then
 * names its roots and explains how to wait for a change. Texts are copied. Before it starts. */
TIDINGS_API int tidings_server_set_info(struct tidings_server *server,
                                        const struct tidings_server_info *info,
                                        struct tidings_error *err);

/* Advertise a feature although nothing of it is registered: "tools", "prompts". Its list is empty.
 * Without a profile both are advertised anyway, because hosts that begin with tools fail where
 * there is no list. Any thread. */
TIDINGS_API int tidings_server_declare(struct tidings_server *server, const char *feature,
                                       struct tidings_error *err);

/* ---- resources ------------------------------------------------------------------------------- */

/* Produce the content of `uri`: add elements, then tidings_read_done, now or later, from any
 * thread. Called on a worker thread; must not block. After `call-timeout` (60 s) the client gets an
 * error; tidings_read_cancelled says so, and the read is finished all the same. */
typedef void (*tidings_read_fn)(void *user, struct tidings_read *read, struct tidings_str uri);

/* Add a resource with a fixed URI. Clients are told that the list changed. `read` is called on
 * worker threads for each client that reads it; `user` is handed to it and must live until the
 * server is destroyed. Any thread, before or while the server runs. TIDINGS_E_INVALID with what is
 * wrong with `about`, TIDINGS_E_EXISTS when the URI is taken, TIDINGS_E_BUSY while the
 * store commits a publication of that URI, TIDINGS_E_CONFLICT when it claims a capability that
 * a template which produces its URI denies. A listable one is a container: its children are the
 * registered resources whose URI is one segment longer. */
TIDINGS_API int tidings_server_add_resource(struct tidings_server *server,
                                            const struct tidings_resource *about,
                                            tidings_read_fn read, void *user,
                                            struct tidings_error *err);
/* Add all resources of an RFC 6570 template. `about->uri` is the template, with a variable at
 * least; `read` and `user` are as for tidings_server_add_resource. Any thread, before or while the
 * server runs. Its capabilities are an upper bound for them: TIDINGS_E_CONFLICT when a registered
 * one has more. */
TIDINGS_API int tidings_server_add_template(struct tidings_server *server,
                                            const struct tidings_resource *about,
                                            tidings_read_fn read, void *user,
                                            struct tidings_error *err);
/* Remove a registered resource or template, by its URI or text. Clients are told that the list
 * changed. TIDINGS_E_NOTFOUND when there is none. A call of its read function that is under way
 * finishes normally; `user` must live until the server is destroyed. */
TIDINGS_API int tidings_server_remove(struct tidings_server *server, struct tidings_str uri,
                                      struct tidings_error *err);

/* List the children of a registered container. `fn` is asked for what is below `uri`, instead of
 * the registered resources one segment below it. For children that a template makes. It adds rows
 * with tidings_list_add and ends with tidings_list_done (<tidings/provider.h>). NULL for `fn`: no
 * more. Any thread, before or while the server runs, before or after the container is registered.
 * TIDINGS_E_EXISTS when it has one; TIDINGS_E_NOTFOUND when there is none to remove. */
TIDINGS_API int tidings_server_on_children(struct tidings_server *server, struct tidings_str uri,
                                           tidings_children_fn fn, void *user,
                                           struct tidings_error *err);

/* Begin to observe `uri`, and answer with tidings_watch_done (<tidings/provider.h>): exactly once,
 * at once or later, from any thread. Called on the hub's thread, one call at a time; must not
 * block. */
typedef void (*tidings_watch_fn)(void *user, struct tidings_watch *watch, struct tidings_str uri);
/* Observe `uri` no more. Called on the hub's thread, one call at a time; must not block. */
typedef void (*tidings_unwatch_fn)(void *user, struct tidings_str uri);
/* What tidings_server_on_watch calls. */
struct tidings_watch_hook {
    tidings_watch_fn watch; /* required */
    tidings_unwatch_fn unwatch;
    void *user;
    void *reserved[4]; /* zero */
};
/* Be told when somebody begins to need changes of a resource, and when nobody does. So what is
 * costly to observe is observed only then. For a registered resource, or a template by its text;
 * may be set before or after that is registered, is forgotten when it is removed, and replaced when
 * it is set again.
 *
 * `watch` is called with the URI when the first subscriber comes who names it, or subscribes to a
 * pattern that matches it; for a template also with the template's own text when the first pattern
 * comes that may match URIs of it. Nobody is told that he has a subscription before it is answered
 * with tidings_watch_done (<tidings/provider.h>): exactly once, at once or later, from any thread.
 * A failure refuses the subscription with its sentence; of a subscription that needs several
 * answers (a pattern) one refusal refuses all, and what was accepted for it is released. Who comes
 * while the answer is awaited waits with the first. After `watch-timeout` (10 s) those who wait are
 * refused; a late answer still counts for those who came since, and is released if there are none.
 *
 * `unwatch` (may be NULL) is called once for each `watch` that was accepted, as soon as the last
 * one has left: nothing lingers, so keep what is costly to begin for a while yourself.
 *
 * Both are called on the hub's thread, one call at a time, and must not block. `hook` is copied;
 * `user` must live until the server is destroyed. Subscriptions that exist already are not told of;
 * neither are patterns that were subscribed to before a resource was registered.
 *
 * Any thread. `hook` NULL: no more of it, but for the `unwatch` of what is watched now. */
TIDINGS_API int tidings_server_on_watch(struct tidings_server *server, struct tidings_str uri,
                                        const struct tidings_watch_hook *hook,
                                        struct tidings_error *err);

/* Mount a provider at a URI prefix, which ends in '/'. `ops` must live as long as the server.
 * Opened at once. Before the server runs (TIDINGS_E_BUSY).
 *
 * Where several nodes share a database (docs/cluster.md) and have the same there, say so before the
 * server starts: tidings_server_set with "shared" or "owned" and the prefix. Of an owned one only
 * what the instance at the owner announces is told, at every node; its `watch` is called with the
 * prefix, at the owner alone. */
TIDINGS_API int tidings_server_mount(struct tidings_server *server,
                                     const struct tidings_provider_ops *ops,
                                     struct tidings_str prefix, struct tidings_str config,
                                     struct tidings_error *err);

/* Find a built-in provider to mount: "file", "system", "command". NULL: no such. `config` is then
 * the JSON object of docs/reference/providers.md, such as {"root": "/srv/data"} for files. */
TIDINGS_API const struct tidings_provider_ops *tidings_provider_find(const char *name);

/* ---- published resources --------------------------------------------------------------------- */

/* Publish content: push it instead of being asked for it. The server keeps the newest, serves and
 * lists it, and announces what came of it (created, updated; nothing when content and description
 * are the same).
 *
 * The URI must lie below a prefix that the setting "publish" names ("app:///notes/", or "app://"
 * for the whole scheme), must not end in '/', and must be nobody else's: what is registered there
 * is TIDINGS_E_EXISTS, as is registering what is published. `about` needs only `uri`; the name is
 * its last segment otherwise, the media type that of its name or content, and etag and size are the
 * server's own. Content that is valid UTF-8 is served as text.
 *
 * Any thread, before and while the server runs; copies. Does not block, but while a server with the
 * setting "store" runs: then it returns when the content is on the disk. 1: created, 0: it was
 * there before. TIDINGS_E_LIMIT: "published-max" or "published-bytes" is reached; TIDINGS_E_FULL:
 * the disk is; TIDINGS_E_IO. Then nothing changed. TIDINGS_E_UNKNOWN: nothing is seen of it, but
 * the disk failed so that it may be there when the server is started again. */
TIDINGS_API int tidings_server_publish(struct tidings_server *server,
                                       const struct tidings_resource *about,
                                       struct tidings_str content, struct tidings_error *err);
/* Take a published resource back. It is announced as deleted. Any thread. Errors as for
 * tidings_server_publish; TIDINGS_E_NOTFOUND: nothing is published there. */
TIDINGS_API int tidings_server_unpublish(struct tidings_server *server, struct tidings_str uri,
                                         struct tidings_error *err);

/* ---- changes --------------------------------------------------------------------------------- */

/* Announce that a resource changed: its content, or whether it exists. `metadata_json` is the text
 * of a JSON object with free keys that subscribers get along (at most 64 KiB, nested at most 32
 * deep), or empty.
 *
 * From any thread, before and while the server runs; changes of one thread keep their order. Copies
 * what it is given. Takes no lock, never waits and never calls back: what it costs is checking the
 * texts, one allocation, a few atomic operations, and a system call when the server sleeps
 * (figures: bench/README.md). Nothing is looked up: a URI that nobody watches costs the same.
 *
 * When more than a 512th of `max-announced` waits to be numbered, an update that says the same as
 * one that waits (the same URI and fields, nothing else of that URI announced since) is that one:
 * it is told at the place of the first, after the second was announced. So a program may announce
 * the same as often as it likes. What differs in anything, and what was created, deleted or moved,
 * is told by itself.
 *
 * Overload: changes that the server has not come round to number take at most `max-announced` bytes
 * (32 MiB). Beyond that the change is refused with TIDINGS_E_BUSY, as it is with TIDINGS_E_NOMEM
 * when memory is gone, and every subscription is told once, when the server has caught up, to look
 * again (`truncated`): nothing is lost in silence and the caller need not try again.
 * TIDINGS_E_INVALID, TIDINGS_E_PARSE, TIDINGS_E_LIMIT: the URI or the metadata is not acceptable;
 * nobody is told anything. */
TIDINGS_API int tidings_changed(struct tidings_server *server, struct tidings_str uri,
                                struct tidings_str metadata_json, struct tidings_error *err);
/* Announce a change with everything that can be said about it. What is said of tidings_changed
 * counts here too. Any thread. Errors as for tidings_changed. */
TIDINGS_API int tidings_announce(struct tidings_server *server, const struct tidings_change *change,
                                 struct tidings_error *err);

/* Announce that anything may have changed. Every subscription is told once to look again
 * (`truncated`). Any thread. */
TIDINGS_API int tidings_changed_all(struct tidings_server *server, struct tidings_error *err);

/* Limit how often subscriptions that match `uri` are told of changes. From now on each gets at most
 * one notification per `ms`, whatever its client asked for; 0: as they asked. Any thread. */
TIDINGS_API int tidings_server_set_rate(struct tidings_server *server, struct tidings_str uri,
                                        uint64_t ms, struct tidings_error *err);

/* Set defaults and limits for the options of subscriptions below a prefix. `options_json` is what
 * subscriptions to anything at or below it (empty: to anything) get when they ask for nothing,
 * `limits_json` the most they may ask for: two JSON objects as `options` and `limits` have them in
 * the configuration, either may be empty. Counts for subscriptions made from now on, also of the
 * program itself; instead of what was set for the same prefix before, and over what is configured
 * for it; both empty: no more of it. Any thread, before and while the server runs.
 * TIDINGS_E_INVALID: with the field and what is accepted; TIDINGS_E_LIMIT: for more than 1,000
 * prefixes. */
TIDINGS_API int tidings_server_set_options(struct tidings_server *server, struct tidings_str prefix,
                                           struct tidings_str options_json,
                                           struct tidings_str limits_json,
                                           struct tidings_error *err);

/* ---- subscriptions of the program itself ----------------------------------------------------- */

/* Subscribe to changes inside the program (<tidings/subscription.h>). It has the same matching,
 * windows, rates and options that clients have. Any thread; before or while the server runs. It
 * lives until it is ended or tidings_server_run returns. NULL on failure: TIDINGS_E_INVALID: no
 * URI, no function, or options that are no JSON. What else is wrong with it is told to `on_state`:
 * REFUSED. */
TIDINGS_API struct tidings_subscription *
tidings_server_subscribe(struct tidings_server *server, struct tidings_str uri,
                         const struct tidings_subscribe_options *options,
                         struct tidings_error *err);

/* ---- pages of the program itself ------------------------------------------------------------- */

/* Add a page of the program next to the endpoint. Requests for `path` ("/publish") are answered by
 * `fn`, after the same checks of Host, Origin, tokens and sizes (<tidings/http.h>). Before the
 * server runs. `user` must live until it is destroyed. TIDINGS_E_INVALID: not a path. */
TIDINGS_API int tidings_server_add_route(struct tidings_server *server, const char *path,
                                         tidings_route_fn fn, void *user,
                                         struct tidings_error *err);

/* ---- running ---------------------------------------------------------------------------------
 *
 * Two ways. A server is run once, in one of them; a start that fails does not count and leaves
 * nothing behind, so that another address may be set and tried.
 *
 *     tidings_server_run(s, &err);        // here and on threads of our own, until stopped
 *
 *     tidings_server_start(s, &err);      // or: inside a loop of the program's
 *     while (tidings_server_turn(s, &err) > 0) {
 *         struct pollfd p = {tidings_server_fd(s), POLLIN, 0};
 *         poll(&p, 1, tidings_server_timeout_ms(s));
 *     }
 *
 * Stepped, everything happens on the one thread that started the server, inside
 * tidings_server_turn: connections, the callbacks of resources and subscriptions, delivery. No
 * thread is started but for what needs one: the library's own providers (directories, commands, the
 * machine's state) have a thread each, and directories a small pool for large files; providers with
 * TIDINGS_PROVIDER_BLOCKING, and tools and prompts that say they block, are called on pools. Each
 * pool starts when it is first needed.
 */

/* Call a function every `ms` milliseconds while the server runs. On the thread of
 * tidings_server_run (or of the turns): for programs that have to look at something now and again
 * and have no thread for it. `fn` must not block. Before it starts; at most 64. TIDINGS_E_INVALID,
 * TIDINGS_E_LIMIT. */
typedef void (*tidings_timer_fn)(void *user);
TIDINGS_API int tidings_server_every(struct tidings_server *server, uint64_t ms,
                                     tidings_timer_fn fn, void *user, struct tidings_error *err);

/* Read the certificates of a server again, since they have a date. They are the files of
 * "tls-cert", "tls-key" and "tls-client-ca". They are checked first; when all is well, whoever
 * connects from then on gets the new ones, and who is connected keeps what it has. On any mistake
 * all stays as it was. Either is logged. Happens soon, on the thread of the server. Any thread,
 * also from a signal handler; the programs of ours do it on SIGHUP. The settings themselves stay as
 * they are. */
TIDINGS_API void tidings_server_reload(struct tidings_server *server);
/* Be told what came of each tidings_server_reload. `code` is 0, or an error that `err` explains,
 * and then nothing has changed. On the thread that runs the server. Set before it starts. */
typedef void (*tidings_reloaded_fn)(void *user, int code, const struct tidings_error *err);
TIDINGS_API void tidings_server_on_reloaded(struct tidings_server *server, tidings_reloaded_fn fn,
                                            void *user);
/* Reopen the log file of a server, because it was renamed. It is that of the setting "log-file".
 * Where it cannot be opened the old one is written on, and that is logged. Happens soon, on the
 * thread of the server. Any thread, also from a signal handler; the programs of ours do it on
 * SIGUSR1, as logrotate(8) has them do. */
TIDINGS_API void tidings_server_reopen_log(struct tidings_server *server);
/* ---- giving up what is not needed ------------------------------------------------------------ */

/* Confine this whole process when the server starts. Unless the setting "sandbox" is false it can
 * then open the directories of "mount", that of the store, those of Unix sockets, libraries, and
 * nothing else; it can execute nothing, make no processes, and, unless tokens are looked up on the
 * network, connect to nobody. Files and commands of the configuration are opened and run by a
 * helper process, which is forked for that. What is open already stays open, and what is opened by
 * callbacks of the program is refused like the rest. There is no way back, and other servers of the
 * process are confined with it. A process of root keeps only the capabilities that the
 * configuration needs.
 *
 * Before it starts, and before the process has other threads (mounted providers may have): else the
 * start fails. Where the kernel cannot do a part of it the rest is done, and the log says so.
 * `tidings serve` does this; no other program is confined that does not ask for it. */
TIDINGS_API int tidings_server_sandbox(struct tidings_server *server, struct tidings_error *err);

struct tidings_sandbox {
    int landlock;     /* the version of Landlock: files, ports; 0: none */
    bool seccomp;     /* lists of system calls */
    char reason[252]; /* why something of it cannot be had, or empty */
};
/* Find out what this kernel, and this build, have for a sandbox. See tidings_server_sandbox. */
TIDINGS_API void tidings_sandbox_probe(struct tidings_sandbox *ret);

/* Load the library behind TLS, or WebSocket, and return its name. "OpenSSL 3.0.11 19 Sep 2023",
 * "wslay". NULL: it cannot be loaded. */
TIDINGS_API const char *tidings_tls_library(void);
TIDINGS_API const char *tidings_websocket_library(void);

/* Make a bearer token of 256 random bits for `name`. With `scopes` (blanks between them): the token
 * itself, which is kept nowhere, and the line for the file of the row "auth-tokens", which holds
 * only its hash. Release both texts with tidings_free. TIDINGS_E_INVALID for a name or scope that
 * cannot stand in a line. */
TIDINGS_API int tidings_token_create(struct tidings_str name, struct tidings_str scopes,
                                     char **ret_token, char **ret_line, struct tidings_error *err);

/* Be told when clients can connect. `fn` is called once, on the thread of tidings_server_run or
 * tidings_server_start. `url` is the first of tidings_server_address. Set before it starts. */
typedef void (*tidings_ready_fn)(void *user, const char *url);
TIDINGS_API void tidings_server_on_ready(struct tidings_server *server, tidings_ready_fn fn,
                                         void *user);

/* Run a server on this thread and the workers it starts, until it is stopped. With stdio alone:
 * until the end of input. 0 after an orderly end. TIDINGS_E_EXISTS: the address is in use. */
TIDINGS_API int tidings_server_run(struct tidings_server *server, struct tidings_error *err);

/* Run a server for the whole life of a small program. For its main to return: takes the command
 * line as tidings_server_args does, and `--help` (the options) and `--version` (of the program, as
 * tidings_server_set_info has it, and of the library); runs, ends on SIGINT and SIGTERM (at once on
 * a second one), reads certificates again on SIGHUP, opens its log again on SIGUSR1 (the handlers
 * are put back afterwards), and writes to standard error where it serves or why it could not;
 * before that, the first failure that nobody heard of, because tidings_server_set, _mount or
 * _add_resource, _template, _tool or _prompt was given no `err`. Returns the exit status. Nothing
 * else of the library prints or handles signals. One at a time in a process; `server` NULL, for one
 * that could not be created, is fine. */
TIDINGS_API int tidings_server_main(struct tidings_server *server, int argc, char **argv);

/* Start a server that is run in turns, on this thread. The row `workers` counts as 1. Errors as for
 * tidings_server_run. */
TIDINGS_API int tidings_server_start(struct tidings_server *server, struct tidings_error *err);
/* Return a descriptor that polls readable when a turn has something to do. It is the server's: wait
 * for it (poll, select, epoll, another loop; level-triggered) and nothing else. The same from
 * create to destroy. */
TIDINGS_API int tidings_server_fd(struct tidings_server *server);
/* Return after how many milliseconds a turn is due. That is, even when the descriptor is not ready;
 * 0: at once, -1: never. Changes with every turn: ask before each wait. */
TIDINGS_API int tidings_server_timeout_ms(struct tidings_server *server);
/* Take a turn of a server: do what there is to do, without waiting. A turn more than necessary does
 * no harm. 1 while it serves; 0 once it has ended after tidings_server_stop (or the end of standard
 * input); TIDINGS_E_INVALID on another thread than that of tidings_server_start, or from a
 * callback. */
TIDINGS_API int tidings_server_turn(struct tidings_server *server, struct tidings_error *err);
/* Stop a server that is run in turns, and take those that are left. Waits in between: `drain` (2 s)
 * for answers under way, some seconds more for callbacks that have not answered. 0. Also when it
 * has ended or never started. On the thread of the turns; only for stepped servers. */
TIDINGS_API int tidings_server_finish(struct tidings_server *server, struct tidings_error *err);

/* Stop a server in good order: ask it to end. Nobody comes in any more; listens get their result
 * and end, one after the other, evenly over three quarters of `drain` (a few at once), so that
 * their clients do not all come back in the same moment; requests on open connections are answered
 * meanwhile. When the last is gone, or `drain` is over, run returns, or a turn returns 0. From any
 * thread, any number of times, and from signal handlers. Before it starts: it ends as soon as it
 * does. */
TIDINGS_API void tidings_server_stop(struct tidings_server *server);
/* Stop a server at once. As tidings_server_stop without the time of `drain`, also when that was
 * given already: listens get their result at once, and answers that are not ready are not waited
 * for. From any thread, and from signal handlers. */
TIDINGS_API void tidings_server_stop_now(struct tidings_server *server);

/* Set where log lines of at least a level go. TIDINGS_LOG_OFF, the default: none are written (a
 * command line sets its own). The library uses ERROR, WARNING, INFO and DEBUG. Process-wide. `fn`
 * NULL: standard error. `fn` is called on any thread, one call at a time; what it logs itself is
 * dropped. `line` has no line break. It is of the format that a command line sets: by "log-format"
 * json it is a JSON object with all fields of the record, typed. */
typedef void (*tidings_log_fn)(void *user, enum tidings_log_level level, struct tidings_str line);
TIDINGS_API void tidings_set_log(enum tidings_log_level least, tidings_log_fn fn, void *user);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
