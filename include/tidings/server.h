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
 *   A server offers *resources*: items with a URI that clients list, read and watch. A program
 *   registers them one by one (tidings_server_add_resource) or by template, publishes their content
 *   (tidings_server_publish), or mounts a *provider* at a URI prefix. When a resource changes, the
 *   program calls tidings_changed, and the server notifies the clients that subscribed to it. For
 *   tools and prompts, see <tidings/tool.h> and <tidings/prompt.h>.
 *
 * Order
 *   Configure the server, then run it (or step it: docs/how-to/embed-a-server.md). A program can
 *   add and remove resources and announce changes before and while the server runs. It sets the
 *   configuration, mounts, pages and timers before. After the server has ended, all of these fail
 *   with TIDINGS_E_CLOSED.
 *
 * Threads
 *   Functions are thread-safe, except where their text names a thread. Callbacks say on which
 *   thread they run, and must not block. The allocator (types.h), the log and the sandbox are the
 *   only global state, so a process can have several servers.
 *
 * Side effects on the process
 *   The library never aborts. It prints and installs signal handlers only on request
 *   (tidings_server_main, tidings_set_log). It leaves signal dispositions, locale, environment,
 *   directory, umask and limits of the process unchanged. Its descriptors are close-on-exec, its
 *   threads block all signals, and its writes never raise SIGPIPE.
 *
 * The server copies all strings. For errors, see <tidings/types.h>.
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
/* This function shares the name of a struct; -Wshadow reports a hidden constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_server;

/* Create a server with the default configuration. It serves nothing yet.
 *
 * Returns the server, which the caller releases with tidings_server_destroy, or NULL if memory or
 * descriptors run out. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_server *
tidings_server_create(struct tidings_error *err);
/* Destroy a server and release its descriptors, threads and memory. Do not call this while
 * tidings_server_run runs, or from a callback. Call tidings_server_finish first if the server runs
 * in turns. A request that the program has not finished keeps the server's memory, because the
 * program can still answer it. `server` may be NULL. */
TIDINGS_API void tidings_server_destroy(struct tidings_server *server);

/* ---- configuration: one table of names, which `tidings help serve` prints -------------------- */

/* Set one setting, by the name of its option ("page-size"), as on a command line. A list setting
 * ("mount", "exclude") gains one value. Call this before the server starts.
 *
 * TIDINGS_E_INVALID: there is no such setting, or it does not accept the value; `err` gives the
 * accepted values. */
TIDINGS_API int tidings_server_set(struct tidings_server *server, const char *name,
                                   const char *value, struct tidings_error *err);
/* Return the value of a setting in the notation of its option: "16m", "15s", "json". Items of a
 * list are separated by commas.
 *
 * Returns a string that the caller releases with tidings_free, or NULL if there is no such setting
 * or memory runs out. */
TIDINGS_API char *tidings_server_get(struct tidings_server *server, const char *name);
/* Apply a whole command line as configuration. It consists of `--name value`, `--name=value`,
 * `--flag`, `--no-flag` and directories to mount. `argv[0]` is the first argument, not the program.
 * The function first reads the configuration file (`--config FILE`, else ./tidings.json if present)
 * and TIDINGS_* variables. Call it before the server starts.
 *
 * Errors name the option, the variable, or the file and line. */
TIDINGS_API int tidings_server_args(struct tidings_server *server, int argc, char **argv,
                                    struct tidings_error *err);
/* Return the options as `--help` prints them, grouped by topic. Lines have `width` columns (50 to
 * 100; 0 means 80).
 *
 * Returns a string that the caller releases with tidings_free, or NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_help(size_t width);
/* Return the effective configuration, with the origin of each value.
 *
 * Returns a string that the caller releases with tidings_free, or NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_print(struct tidings_server *server);
/* Return the effective configuration as a JSON object for programs. It has two members: "settings"
 * has the format of tidings.json, and "origins" maps each key to the origin of its value.
 *
 * Returns a string that the caller releases with tidings_free, or NULL if memory runs out. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_config_json(struct tidings_server *server);

/* One command-line option, as `--help` prints it. */
struct tidings_config_option {
    char name[48];       /* without dashes; "no-…" if the option is on by default */
    const char *metavar; /* name of its value; NULL if it takes none */
    const char *help;
    const char *const *choices; /* accepted values, NULL-terminated; NULL: any */
    const char *value;          /* default value; NULL if there is none, or for an empty list */
    bool is_list;               /* may be repeated */
};
/* Describe the option with a given index, starting at 0. Fills in `*ret`.
 *
 * Returns false if `index` is past the last option. */
TIDINGS_API bool tidings_config_option(size_t index, struct tidings_config_option *ret);

/* ---- where clients connect ----------------------------------------------------------------------
 *
 * The settings "http" (the default if none is set), "tcp", "unix" and "stdio" name addresses. A
 * program can also pass listening sockets that it created or inherited. */

enum tidings_listener {
    TIDINGS_LISTENER_HTTP = 0,
    TIDINGS_LISTENER_LINES = 1, /* one message per line, as on standard input and output */
};

/* Serve clients on a listening stream socket (internet or Unix) that the program opened. On success
 * the server owns the descriptor and closes it. Call this before the server starts. A server has at
 * most 64 sockets.
 *
 * TIDINGS_E_INVALID: `fd` is not a listening stream socket. */
TIDINGS_API int tidings_server_add_socket(struct tidings_server *server, enum tidings_listener kind,
                                          int fd, struct tidings_error *err);
/* Return one of the addresses that clients connect to, by index. HTTP comes first:
 * "http://127.0.0.1:7777/mcp", "tcp://127.0.0.1:7778", "unix:/run/app.sock",
 * "http+unix:/run/app.sock", "stdio".
 *
 * Returns NULL if `index` is past the last address. Call this on the thread that runs the server,
 * from the call of tidings_ready_fn until the server stops. */
TIDINGS_API const char *tidings_server_address(struct tidings_server *server, size_t index);

struct tidings_server_info {
    struct tidings_str name, version, title, description, website_url, instructions;
    void *reserved[4]; /* zero */
};
/* Set the name, version and instructions that the server sends to clients. The server leaves out
 * empty fields, with two exceptions. The name defaults to that of the program, and for a program
 * called tidings also the version. By default, `instructions` names the roots of the server and
 * explains how to wait for a change. Strings are copied. Call this before the server starts. */
TIDINGS_API int tidings_server_set_info(struct tidings_server *server,
                                        const struct tidings_server_info *info,
                                        struct tidings_error *err);

/* Advertise "tools" or "prompts" before the program has registered any. The list is then empty.
 * Without a profile the server advertises both anyway, because hosts that list tools first fail
 * without a list. Thread-safe. */
TIDINGS_API int tidings_server_declare(struct tidings_server *server, const char *feature,
                                       struct tidings_error *err);

/* ---- resources ------------------------------------------------------------------------------- */

/* Produce the content of `uri`. Add content elements, then call tidings_read_done, now or later,
 * from any thread. Called on a worker thread; must not block. After `call-timeout` (60 s) the
 * client receives an error and tidings_read_cancelled returns true; the program must still finish
 * the read. */
typedef void (*tidings_read_fn)(void *user, struct tidings_read *read, struct tidings_str uri);

/* Add a resource with a fixed URI. The server notifies clients that the list changed. It calls
 * `read` on worker threads for each client that reads the resource, and passes `user`, which must
 * live until the server is destroyed. A listable resource is a container: its children are the
 * registered resources whose URI is one segment longer. Thread-safe, before and while the server
 * runs.
 *
 * TIDINGS_E_INVALID: `err` names the invalid field of `about`. TIDINGS_E_EXISTS: the URI is taken.
 * TIDINGS_E_BUSY: the store is committing a publication of that URI. TIDINGS_E_CONFLICT: the
 * resource claims a capability that a template which produces its URI denies. */
TIDINGS_API int tidings_server_add_resource(struct tidings_server *server,
                                            const struct tidings_resource *about,
                                            tidings_read_fn read, void *user,
                                            struct tidings_error *err);
/* Add all resources of an RFC 6570 template. `about->uri` is the template, with at least one
 * variable; `read` and `user` are as for tidings_server_add_resource. The capabilities of the
 * template are an upper bound for its resources. Thread-safe, before and while the server runs.
 *
 * TIDINGS_E_CONFLICT: a registered resource that matches has more capabilities. */
TIDINGS_API int tidings_server_add_template(struct tidings_server *server,
                                            const struct tidings_resource *about,
                                            tidings_read_fn read, void *user,
                                            struct tidings_error *err);
/* Remove a registered resource or template, by its URI or template string. The server notifies
 * clients that the list changed. Running calls of the read function finish normally; `user` must
 * live until the server is destroyed.
 *
 * TIDINGS_E_NOTFOUND: there is no such resource or template. */
TIDINGS_API int tidings_server_remove(struct tidings_server *server, struct tidings_str uri,
                                      struct tidings_error *err);

/* List the children of a registered container with a function of the program. The server then calls
 * `fn` instead of listing the registered resources one segment below `uri`. Use it for children
 * that a template produces. `fn` adds rows with tidings_list_add and finishes with
 * tidings_list_done (<tidings/provider.h>). If `fn` is NULL, the server removes the function.
 * Thread-safe, before and while the server runs, before and after the container is registered.
 *
 * TIDINGS_E_EXISTS: the container already has a function. TIDINGS_E_NOTFOUND: there is no function
 * to remove. */
TIDINGS_API int tidings_server_on_children(struct tidings_server *server, struct tidings_str uri,
                                           tidings_children_fn fn, void *user,
                                           struct tidings_error *err);

/* Start observing `uri`. Call tidings_watch_done (<tidings/provider.h>) exactly once, now or later,
 * from any thread. Called on the hub thread, one call at a time; must not block. */
typedef void (*tidings_watch_fn)(void *user, struct tidings_watch *watch, struct tidings_str uri);
/* Stop observing `uri`. Called on the hub thread, one call at a time; must not block. */
typedef void (*tidings_unwatch_fn)(void *user, struct tidings_str uri);
/* Callbacks of tidings_server_on_watch. */
struct tidings_watch_hook {
    tidings_watch_fn watch; /* required */
    tidings_unwatch_fn unwatch;
    void *user;
    void *reserved[4]; /* zero */
};
/* Set callbacks that run when subscriptions to a resource start and end. The program then observes
 * costly resources only while clients need their changes. `uri` names a registered resource, or a
 * template by its string. The callbacks can be set before or after the registration. Setting them
 * again replaces them, and removing the resource removes them.
 *
 * The server calls `watch` with the URI when the first subscriber names it or subscribes to a
 * pattern that matches it. For a template it also calls `watch` with the template string when the
 * first pattern arrives that may match its URIs. The program answers with tidings_watch_done
 * (<tidings/provider.h>) exactly once, now or later, from any thread. Until then the subscription
 * is not confirmed, and later subscribers wait too. A failure rejects the subscription with the
 * error message. If a pattern needs several answers, one failure rejects it, and the server
 * releases the accepted ones. After `watch-timeout` (10 s) the server rejects the waiting
 * subscriptions. A late answer still applies to newer subscribers, and is released if there are
 * none.
 *
 * The server calls `unwatch` (may be NULL) once for each accepted `watch`, as soon as the last
 * subscriber leaves. There is no delay; a program with a costly start can delay the stop itself.
 *
 * Both callbacks run on the hub thread, one call at a time, and must not block. `hook` is copied;
 * `user` must live until the server is destroyed. The callbacks do not cover existing
 * subscriptions, or patterns that were subscribed to before the resource was registered. If `hook`
 * is NULL, the server removes the callbacks, but still calls `unwatch` for what is watched now.
 * Thread-safe. */
TIDINGS_API int tidings_server_on_watch(struct tidings_server *server, struct tidings_str uri,
                                        const struct tidings_watch_hook *hook,
                                        struct tidings_error *err);

/* Mount a provider at a URI prefix, which ends in '/'. The server opens it at once. `ops` must live
 * as long as the server. Call this before the server runs.
 *
 * If several nodes share a database (docs/how-to/run-a-cluster.md) and mount the same content, set
 * "shared" or "owned" to the prefix with tidings_server_set before the server starts. For an owned
 * mount, all nodes deliver only the changes that the owner's instance announces. The server calls
 * `watch` with the prefix, and only at the owner.
 *
 * TIDINGS_E_BUSY: the server runs. */
TIDINGS_API int tidings_server_mount(struct tidings_server *server,
                                     const struct tidings_provider_ops *ops,
                                     struct tidings_str prefix, struct tidings_str config,
                                     struct tidings_error *err);

/* Find a built-in provider to mount: "file", "system" or "command". Its `config` is the JSON object
 * of docs/reference/providers.md, such as {"root": "/srv/data"} for files.
 *
 * Returns NULL if there is no such provider. */
TIDINGS_API const struct tidings_provider_ops *tidings_provider_find(const char *name);

/* ---- published resources --------------------------------------------------------------------- */

/* Publish content, which the server keeps and serves itself. The server keeps the newest version,
 * lists it, and announces the change (created or updated; nothing if content and description are
 * the same).
 *
 * The URI must be below a prefix of the setting "publish" ("app:///notes/", or "app://" for the
 * whole scheme), and must not end in '/'. A URI cannot be both registered and published: the second
 * attempt fails with TIDINGS_E_EXISTS. `about` needs only `uri`. The name defaults to the last
 * segment, and the media type to that of the name or content. The server sets etag and size.
 * Content that is valid UTF-8 is served as text.
 *
 * The function copies its arguments and does not block, except while a server with the setting
 * "store" runs: then it returns when the content is on the disk. Thread-safe, before and while the
 * server runs.
 *
 * Returns 1 if it created the resource, 0 if the resource existed.
 *
 * TIDINGS_E_LIMIT: "published-max" or "published-bytes" is reached. TIDINGS_E_FULL: the disk is
 * full. TIDINGS_E_IO: the disk failed. After these errors nothing has changed. TIDINGS_E_UNKNOWN:
 * the change is not visible, but after this disk failure it may appear when the server restarts. */
TIDINGS_API int tidings_server_publish(struct tidings_server *server,
                                       const struct tidings_resource *about,
                                       struct tidings_str content, struct tidings_error *err);
/* Delete a published resource. The server announces it as deleted. Thread-safe.
 *
 * Errors are those of tidings_server_publish. TIDINGS_E_NOTFOUND: nothing is published at `uri`. */
TIDINGS_API int tidings_server_unpublish(struct tidings_server *server, struct tidings_str uri,
                                         struct tidings_error *err);

/* ---- changes --------------------------------------------------------------------------------- */

/* Announce that a resource changed: its content, or whether it exists. `metadata_json` is empty or
 * a JSON object with free keys that the server sends to subscribers (at most 64 KiB and 32 levels).
 *
 * Thread-safe, before and while the server runs; changes of one thread keep their order. The
 * function copies its arguments, takes no lock, and never waits or calls back. It costs a check of
 * the strings, one allocation, a few atomic operations, and a system call if the server sleeps
 * (figures: bench/README.md). It looks nothing up: a URI without subscribers costs the same.
 *
 * Equal updates merge while more than a 512th of `max-announced` waits for its number. Two updates
 * are equal if the URI and all fields are the same and no other change of the URI was announced
 * between them. The server delivers the merged update at the place of the first, after the second
 * was announced. A program can therefore announce the same update as often as it likes. Updates
 * that differ, creations, deletions and moves never merge here.
 *
 * Changes that wait for their number take at most `max-announced` bytes (32 MiB). Beyond that the
 * function returns TIDINGS_E_BUSY. When the server has caught up, it sends every subscription one
 * `truncated` update, so that clients read again. The same happens with TIDINGS_E_NOMEM. No change
 * is lost silently, and the caller need not retry.
 *
 * TIDINGS_E_INVALID, TIDINGS_E_PARSE, TIDINGS_E_LIMIT: the server rejects the URI or the metadata,
 * and notifies no client. */
TIDINGS_API int tidings_changed(struct tidings_server *server, struct tidings_str uri,
                                struct tidings_str metadata_json, struct tidings_error *err);
/* Announce a change with all its fields. Otherwise the function works like tidings_changed.
 * Thread-safe.
 *
 * Errors are those of tidings_changed. */
TIDINGS_API int tidings_announce(struct tidings_server *server, const struct tidings_change *change,
                                 struct tidings_error *err);

/* Announce that any resource may have changed. The server sends every subscription one `truncated`
 * update, so that clients read again. Thread-safe. */
TIDINGS_API int tidings_changed_all(struct tidings_server *server, struct tidings_error *err);

/* Limit the notification rate of subscriptions that match `uri`. Each then receives at most one
 * notification per `ms` milliseconds, whatever its client requested; 0 restores the client's
 * choice. Thread-safe. */
TIDINGS_API int tidings_server_set_rate(struct tidings_server *server, struct tidings_str uri,
                                        uint64_t ms, struct tidings_error *err);

/* Set defaults and limits for the options of subscriptions below a prefix. They apply to
 * subscriptions at or below `prefix`, or to all if it is empty. `options_json` contains the
 * defaults, `limits_json` the maximum values: JSON objects in the format of `options` and `limits`
 * in the configuration. Either may be empty; if both are, the server removes the entry. An entry
 * replaces an earlier one for the same prefix, overrides the configuration, and applies to later
 * subscriptions, including those of the program. Thread-safe, before and while the server runs.
 *
 * TIDINGS_E_INVALID: `err` names the field and the accepted values. TIDINGS_E_LIMIT: there are
 * 1,000 prefixes already. */
TIDINGS_API int tidings_server_set_options(struct tidings_server *server, struct tidings_str prefix,
                                           struct tidings_str options_json,
                                           struct tidings_str limits_json,
                                           struct tidings_error *err);

/* ---- subscriptions of the program itself ----------------------------------------------------- */

/* Subscribe the program itself to changes (<tidings/subscription.h>). The subscription has the same
 * matching, windows, rates and options as those of clients. It lives until the program ends it or
 * tidings_server_run returns. Thread-safe, before and while the server runs.
 *
 * Returns the subscription, or NULL on failure. TIDINGS_E_INVALID: the URI or the function is
 * missing, or the options are not JSON. `on_state` reports all other problems as REFUSED. */
TIDINGS_API struct tidings_subscription *
tidings_server_subscribe(struct tidings_server *server, struct tidings_str uri,
                         const struct tidings_subscribe_options *options,
                         struct tidings_error *err);

/* ---- pages of the program itself ------------------------------------------------------------- */

/* Add an HTTP page of the program next to the endpoint. `fn` answers requests for `path`
 * ("/publish"), after the same checks of Host, Origin, tokens and sizes (<tidings/http.h>). `user`
 * must live until the server is destroyed. Call this before the server runs.
 *
 * TIDINGS_E_INVALID: `path` is not a path. */
TIDINGS_API int tidings_server_add_route(struct tidings_server *server, const char *path,
                                         tidings_route_fn fn, void *user,
                                         struct tidings_error *err);

/* ---- running ------------------------------------------------------------------------------------
 *
 * A server runs once, in one of two ways. If the start fails, it leaves nothing behind, and the
 * program can set another address and try again.
 *
 *     tidings_server_run(s, &err);        // here and on the library's threads, until stopped
 *
 *     tidings_server_start(s, &err);      // or: inside the program's event loop
 *     while (tidings_server_turn(s, &err) > 0) {
 *         struct pollfd p = {tidings_server_fd(s), POLLIN, 0};
 *         poll(&p, 1, tidings_server_timeout_ms(s));
 *     }
 *
 * In the second way, connections, callbacks of resources and subscriptions, and delivery all run
 * inside tidings_server_turn, on the thread that started the server. Only blocking work gets
 * threads. The built-in providers (directories, commands, the machine's state) have one thread
 * each, and directories also a small pool for large files. Providers with
 * TIDINGS_PROVIDER_BLOCKING, and blocking tools and prompts, run on pools. Each pool starts on
 * first use. */

/* Call a function every `ms` milliseconds while the server runs. `fn` runs on the thread of
 * tidings_server_run or of the turns, and must not block. It serves programs that poll and have no
 * thread for it. Call this before the server starts. A server has at most 64 timers.
 *
 * TIDINGS_E_INVALID: an argument is invalid. TIDINGS_E_LIMIT: there are 64 timers already. */
typedef void (*tidings_timer_fn)(void *user);
TIDINGS_API int tidings_server_every(struct tidings_server *server, uint64_t ms,
                                     tidings_timer_fn fn, void *user, struct tidings_error *err);

/* Reload the certificates of a server without a restart. The settings "tls-cert", "tls-key" and
 * "tls-client-ca" name the files; the settings themselves do not change. The server first validates
 * the files. New connections then use the new certificates, and open connections keep the old ones.
 * If a file is invalid, the server changes nothing. It logs the result. The reload happens soon, on
 * the thread of the server; `tidings serve` triggers it on SIGHUP. Thread-safe and
 * async-signal-safe. */
TIDINGS_API void tidings_server_reload(struct tidings_server *server);
/* Set a callback for the result of each tidings_server_reload. `code` is 0 on success. Otherwise
 * `err` explains the error, and nothing has changed. The callback runs on the thread that runs the
 * server. Set it before the server starts. */
typedef void (*tidings_reloaded_fn)(void *user, int code, const struct tidings_error *err);
TIDINGS_API void tidings_server_on_reloaded(struct tidings_server *server, tidings_reloaded_fn fn,
                                            void *user);
/* Reopen the log file of a server after it was renamed. The setting "log-file" names the file. If
 * it cannot be opened, the server logs that and keeps the old file. This happens soon, on the
 * thread of the server; `tidings serve` does it on SIGUSR1, for logrotate(8). Thread-safe and
 * async-signal-safe. */
TIDINGS_API void tidings_server_reopen_log(struct tidings_server *server);
/* ---- giving up privileges -------------------------------------------------------------------- */

/* Confine the whole process when the server starts, unless the setting "sandbox" is false. The
 * process can then open only the directories of "mount", the store, Unix sockets and libraries. It
 * cannot execute programs, create processes, or connect to the network, except to look up tokens. A
 * helper process, forked for this purpose, opens the files and runs the commands of the
 * configuration. Open descriptors stay open; callbacks of the program are confined too. The sandbox
 * cannot be undone, and it also confines other servers of the process. A process of root keeps only
 * the capabilities that the configuration needs.
 *
 * Call this before the server starts, and before the process has other threads (mounted providers
 * may have some); otherwise the start fails. If the kernel lacks a feature, the server applies the
 * rest and logs it. `tidings serve` calls this function; other programs are confined only if they
 * call it. */
TIDINGS_API int tidings_server_sandbox(struct tidings_server *server, struct tidings_error *err);

struct tidings_sandbox {
    int landlock;     /* Landlock version (files, ports); 0 if missing */
    bool seccomp;     /* system call filters */
    char reason[252]; /* why a feature is missing, or empty */
};
/* Report which sandbox features this kernel and this build have. See tidings_server_sandbox. */
TIDINGS_API void tidings_sandbox_probe(struct tidings_sandbox *ret);

/* Load the library for TLS or WebSocket, and return its name: "OpenSSL 3.0.11 19 Sep 2023",
 * "wslay".
 *
 * Returns NULL if the library cannot be loaded. */
TIDINGS_API const char *tidings_tls_library(void);
TIDINGS_API const char *tidings_websocket_library(void);

/* Create a bearer token of 256 random bits for a name. `scopes` are separated by spaces.
 * `*ret_token` is the token, which is stored nowhere. `*ret_line` is the line for the file of the
 * setting "auth-tokens", which contains only a hash. The caller releases both with tidings_free.
 *
 * TIDINGS_E_INVALID: the name or a scope cannot be part of a line. */
TIDINGS_API int tidings_token_create(struct tidings_str name, struct tidings_str scopes,
                                     char **ret_token, char **ret_line, struct tidings_error *err);

/* Set a callback that runs when clients can connect. The server calls `fn` once, on the thread of
 * tidings_server_run or tidings_server_start. `url` is the first of tidings_server_address. Set it
 * before the server starts. */
typedef void (*tidings_ready_fn)(void *user, const char *url);
TIDINGS_API void tidings_server_on_ready(struct tidings_server *server, tidings_ready_fn fn,
                                         void *user);

/* Run a server on this thread and its own workers, until it is stopped. If stdio is the only
 * transport, it also ends at the end of input.
 *
 * Returns 0 after a clean end. TIDINGS_E_EXISTS: the address is in use. */
TIDINGS_API int tidings_server_run(struct tidings_server *server, struct tidings_error *err);

/* Run a server for the whole life of a small program, and return its exit status. `main` can return
 * the result. The function does the following:
 *
 *   - It accepts the command line of tidings_server_args, `--help` (the options) and `--version`
 *     (of the program, from tidings_server_set_info, and of the library).
 *   - It ends on SIGINT and SIGTERM (at once on the second one), reloads certificates on SIGHUP,
 *     and reopens the log on SIGUSR1. It restores the signal handlers afterwards.
 *   - It prints its addresses, or why it cannot serve, to standard error. Before that it reports
 *     the first failed call of tidings_server_set, _mount or _add_resource, _template, _tool or
 *     _prompt whose `err` was NULL.
 *
 * No other function of the library prints or handles signals. Call it only once at a time in a
 * process. `server` may be NULL if it could not be created. */
TIDINGS_API int tidings_server_main(struct tidings_server *server, int argc, char **argv);

/* Start a server that runs in turns, on this thread. The setting `workers` counts as 1.
 *
 * Errors are those of tidings_server_run. */
TIDINGS_API int tidings_server_start(struct tidings_server *server, struct tidings_error *err);
/* Return a descriptor that is readable when a turn has work to do. The server owns it: only wait
 * for it (poll, select, epoll, another loop; level-triggered). It stays the same from create to
 * destroy. */
TIDINGS_API int tidings_server_fd(struct tidings_server *server);
/* Return the number of milliseconds until the next turn is due, even if the descriptor is not
 * readable. 0 means at once, -1 never. It changes with every turn; query it before each wait. */
TIDINGS_API int tidings_server_timeout_ms(struct tidings_server *server);
/* Run a turn of a server: do the pending work, without waiting. Extra turns are harmless.
 *
 * Returns 1 while the server runs, 0 after it ended because of tidings_server_stop or the end of
 * standard input. TIDINGS_E_INVALID: the caller is a callback, or another thread than that of
 * tidings_server_start. */
TIDINGS_API int tidings_server_turn(struct tidings_server *server, struct tidings_error *err);
/* Stop a server that runs in turns, and run its last turns. The function waits up to `drain` (2 s)
 * for pending answers, and a few more seconds for callbacks that have not finished. Call it on the
 * thread of the turns, only for a server that runs in turns.
 *
 * Returns 0, even if the server has ended or never started. */
TIDINGS_API int tidings_server_finish(struct tidings_server *server, struct tidings_error *err);

/* Stop a server gracefully. It accepts no more clients, but still answers requests on open
 * connections. It ends listens with their result, spread evenly over three quarters of `drain` (a
 * few at once), so that clients reconnect at different times. When the last one has ended, or
 * `drain` is over, tidings_server_run returns and tidings_server_turn returns 0. If the server has
 * not started, it ends as soon as it starts. Thread-safe and async-signal-safe; repeated calls are
 * harmless. */
TIDINGS_API void tidings_server_stop(struct tidings_server *server);
/* Stop a server at once, without the time of `drain`. It ends listens with their result and drops
 * pending answers, even if tidings_server_stop is already waiting. Thread-safe and
 * async-signal-safe. */
TIDINGS_API void tidings_server_stop_now(struct tidings_server *server);

/* Set the minimum level and the target of log lines, for the whole process. The default is
 * TIDINGS_LOG_OFF: no lines (a command line sets its own level). The library uses ERROR, WARNING,
 * INFO and DEBUG. If `fn` is NULL, lines go to standard error. `fn` runs on any thread, one call at
 * a time, and the lines it logs itself are dropped. `line` has no line break. It has the format
 * that the command line sets; with "log-format" json, it is a JSON object with all fields of the
 * record, typed. */
typedef void (*tidings_log_fn)(void *user, enum tidings_log_level level, struct tidings_str line);
TIDINGS_API void tidings_set_log(enum tidings_log_level least, tidings_log_fn fn, void *user);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
