/* SPDX-License-Identifier: MIT
 *
 * A client: watch, read and control the resources of any MCP server.
 *
 *     struct tidings_client *c = tidings_client_create("http://127.0.0.1:7777/mcp", NULL, &err);
 *     struct tidings_subscribe_options on = {.fn = on_update, .user = me};
 *     tidings_client_subscribe(c, "file:///docs/", &on, &err);
 *     tidings_client_run(c, &err);             // until tidings_client_stop
 *     tidings_client_destroy(c);
 *
 * A client reaches a server over Streamable HTTP, WebSocket, TCP, TLS or a Unix socket, or launches
 * it and uses its standard input and output. It supports both eras of the protocol: it tries
 * `server/discover` first, falls back to `initialize`, and remembers the result. If the connection
 * is lost, the client reconnects with growing pauses and resumes all subscriptions, with the cursor
 * of the server or Last-Event-ID if there is one. The program receives an update only once, even if
 * the server repeats it with the same version. If the server has neither cursors nor event ids, the
 * client reads or lists the watched resources before and after, and reports differences as
 * `synthetic` updates.
 *
 * Threads. Only one thread at a time may use a client. A program may pass it to another thread
 * between two calls (but see tidings_client_launch). Only tidings_client_stop is thread-safe.
 * Different clients are independent, except that with libcurl older than 7.84 they must not be
 * created or destroyed at the same moment. The client starts no threads; libcurl may start some to
 * resolve names.
 *
 * Callbacks run only inside tidings_client_run and tidings_client_step; progress callbacks run
 * inside the call that they belong to. Callbacks may call every function except tidings_client_run
 * and tidings_client_step, which fail, and tidings_client_destroy. Functions that send a request
 * wait for its answer, and connect first if necessary. Other messages that arrive during the wait
 * are kept for the next step, up to 65,536 messages and four times max_bytes. Beyond that the
 * client closes the connection and reconnects.
 *
 * Functions that return `char *` return NUL-terminated JSON text, which the caller releases with
 * tidings_free; <tidings/json.h> parses it. NULL means failure: `err` has the cause, and
 * tidings_client_last_error the server's error object. Error codes:
 *
 *     TIDINGS_E_NOTFOUND     no such resource, or no MCP endpoint at that address
 *     TIDINGS_E_GONE         the resource was deleted
 *     TIDINGS_E_UNSUPPORTED  the server does not know the method, or does not offer it
 *     TIDINGS_E_INVALID      the server rejects the parameters
 *     TIDINGS_E_DENIED       the server denies access, or its certificate is not trusted
 *     TIDINGS_E_BUSY         the server cannot answer now; a retry may help
 *     TIDINGS_E_INTERNAL     the server reports an internal error (`data.reason` "internal")
 *     TIDINGS_E_TIMEOUT      no answer in time
 *     TIDINGS_E_CLOSED, _IO  the connection ended, or cannot be opened
 *     TIDINGS_E_LIMIT        a message or list is larger than accepted
 *     TIDINGS_E_PARSE        the answer is malformed, or does not come from an MCP server
 *     TIDINGS_E_CANCELLED    tidings_client_stop was called
 *     TIDINGS_E_NOMEM        out of memory
 *
 * The first client for an address loads libcurl. Clients that launch their server do not need it.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_CLIENT_H
#define TIDINGS_CLIENT_H

#include <tidings/credentials.h>
#include <tidings/subscription.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
/* These functions share the name of a struct; -Wshadow reports a hidden constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_client;

/* ---- a client -------------------------------------------------------------------------------- */

/* Receives what a launched server writes to its standard error. */
typedef void (*tidings_client_stderr_fn)(void *user, struct tidings_str bytes);
/* Returns the bearer token for a request. The client calls this before each request that carries a
 * token, and again if the server rejects the token (401); it then sends a different token at once.
 * Returns memory of tidings_alloc, which the client releases, or NULL or an empty string for no
 * token. The client sends only visible ASCII: a token with a trailing line feed, for example, is
 * not sent. Any client function that sends requests may call this; it must not call the client.
 *
 * A token may therefore expire. If the client has watched a resource before and no valid token is
 * available, it treats that as an interruption: it reports DISCONNECTED and retries with pauses
 * until the server accepts a token, then reports the missed changes. Otherwise the client fails at
 * once with TIDINGS_E_DENIED: before the first successful watch, with a fixed `token`, and after
 * 403. */
typedef char *(*tidings_client_token_fn)(void *user);

/* A message that the client sent or received, or the reason why there is none. HTTP headers,
 * including tokens, and bytes outside messages are not reported. */
struct tidings_client_wire {
    bool is_sent;            /* sent by this client; false: by the server */
    struct tidings_str text; /* the message, verbatim; empty if there is none */
    /* Why there is no message: a request without an answer, the end of the connection, or the
     * method of an HTTP request without a body. */
    struct tidings_str reason;
    long status; /* HTTP status; 0: none */
};
/* `wire` is valid only during the call, which must not call the client. */
typedef void (*tidings_client_wire_fn)(void *user, const struct tidings_client_wire *wire);

/* Options of a client. Zero selects the default in parentheses. Strings are copied; `user` pointers
 * must live as long as the client. */
struct tidings_client_options {
    const char *name;      /* client name that the server receives ("tidings") */
    uint32_t timeout_ms;   /* per answer (30000) */
    uint32_t retry_min_ms; /* first reconnect pause: random, 0 to this (1000) */
    uint32_t retry_max_ms; /* longest pause (30000); Retry-After overrides it, up to 5 minutes */
    size_t max_bytes;      /* largest accepted message (16 MiB) */
    /* PEM files for TLS: */
    const char *ca_file;   /* CAs that verify the server's certificate (the system's) */
    const char *cert_file; /* client certificate (none) */
    const char *key_file;  /* its key (in cert_file) */
    /* HTTP and WebSocket: */
    const char *token;                /* sent as `Authorization: Bearer …` (none) */
    const char *const *headers;       /* "Name: value" for each request, NULL-terminated (none) */
    tidings_client_token_fn on_token; /* replaces `token` */
    void *token_user;
    /* Replaces both: supplies credentials and reacts when the server rejects them
     * (<tidings/oauth.h>). Borrowed; must outlive the client. Used only over HTTP. */
    const struct tidings_credentials *credentials;
    /* Protocol revision: "2026-07-28" or a legacy one (default: the newest that both support). If
     * the server uses another revision, requests fail with TIDINGS_E_UNSUPPORTED. */
    const char *version;
    uint32_t probe_ms; /* not over HTTP: how long to wait for the answer to server/discover before
                          falling back to `initialize` (5000) */
    /* For a launched server: */
    const char *directory;              /* working directory (that of this process) */
    const char *const *env;             /* "NAME=value", NULL-terminated (that of this process) */
    tidings_client_stderr_fn on_stderr; /* (standard error of this process) */
    void *stderr_user;
    bool list_changes; /* request notifications of list changes: tidings_client_on_notification */
    /* After an interruption, do not read or list the watched resources to find changes that a
     * server without cursors cannot report. */
    bool no_compare;
    /* The connection counts as dead if the stream is silent for this long. Default: three times the
     * server's longest pause between comments or pings, plus 5 seconds; never if it sends none. */
    uint32_t silence_ms;
    uint32_t verify_ms; /* interval, varied by a quarter, at which the client reads or lists the
                           watched resources of any server and reports missed changes (never) */
    tidings_client_wire_fn on_wire; /* receives every message (none) */
    void *wire_user;
    /* W3C Trace Context of all requests, sent in `_meta` (none). Invalid values are left out. */
    const char *traceparent, *tracestate;
    void *reserved[4]; /* zero */
};

/* Create a client of a server by its address:
 *
 *     http://HOST[:PORT]/PATH, https://…   Streamable HTTP, else HTTP+SSE of 2024-11-05
 *     ws://…, wss://…                      WebSocket
 *     tcp://HOST:PORT, tls://HOST:PORT     a message per line
 *     unix:PATH                            the same on a Unix socket
 *     http+unix:PATH                       Streamable HTTP on a Unix socket, at /mcp
 *
 * `options` may be NULL. The function sends nothing yet.
 *
 * Returns the client, which the caller releases with tidings_client_destroy, or NULL on failure.
 * TIDINGS_E_INVALID: the address is invalid. TIDINGS_E_UNSUPPORTED: libcurl, or wslay for ws:,
 * cannot be loaded. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_create(const char *address, const struct tidings_client_options *options,
                      struct tidings_error *err);
/* Create a client of a server that it launches as a child process. `argv` is NULL-terminated; the
 * program is searched in PATH. The client starts it on first use, and again after it has ended. To
 * end it, the client closes its input, then sends SIGTERM after 2 seconds and SIGKILL after 2 more.
 * The process dies with the thread that started it. If the program does not exist, the first
 * function that uses it fails with TIDINGS_E_NOTFOUND.
 *
 * Returns the client, which the caller releases with tidings_client_destroy, or NULL on failure. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_launch(const char *const *argv, const struct tidings_client_options *options,
                      struct tidings_error *err);
/* Create a client of a server from an entry in a host's configuration file. `entry` is a JSON
 * object as below `mcpServers` in .mcp.json: `url` and optionally `headers`, or `command` and
 * optionally `args`, `env` (added to the variables of this process) and `cwd`. Other members are
 * ignored, and ${NAME} is not expanded. `options` may be NULL. The client sends the header fields
 * of both; variables and directory of the entry take precedence. An entry can launch any program,
 * so the author of the file must be trusted (tidings_file_read checks who can write it). An entry
 * has at most 256 arguments, variables and header fields.
 *
 * Returns the client, which the caller releases with tidings_client_destroy, or NULL on failure.
 * TIDINGS_E_PARSE: the entry is not JSON. TIDINGS_E_INVALID, TIDINGS_E_LIMIT: `err` names the
 * member. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_create_entry(struct tidings_str entry, const struct tidings_client_options *options,
                            struct tidings_error *err);
/* Destroy a client, and end its session and the launched server, within 5 seconds. All
 * subscriptions and copies end, and no callback runs, even for pending requests. Do not call this
 * from a callback, or while another thread may call tidings_client_stop. `client` may be NULL. */
TIDINGS_API void tidings_client_destroy(struct tidings_client *client);

/* Connect to the server and negotiate the protocol, unless that is done. The function waits for the
 * answer. All other functions connect when necessary. */
TIDINGS_API int tidings_client_connect(struct tidings_client *client, struct tidings_error *err);

enum tidings_era {
    TIDINGS_ERA_LEGACY = 1, /* initialize, resources/subscribe: up to 2025-11-25 */
    TIDINGS_ERA_MODERN = 2, /* server/discover, subscriptions/listen: 2026-07-28 */
};
struct tidings_client_info {
    const char *transport; /* "http", "websocket", "lines", "stdio", "http+sse" */
    enum tidings_era era;
    const char *version;        /* of the protocol: "2026-07-28" */
    const char *server_name;    /* "": unknown */
    const char *server_version; /* "": unknown */
    const char *capabilities;   /* JSON object */
    const char *instructions;   /* "": none */
    const char *answer;         /* JSON: the complete result of server/discover or initialize */
    bool can_subscribe;
    const char *session; /* legacy HTTP: session id; "": none */
    uint64_t found;      /* updates that the client found by comparison */
    uint64_t beats;      /* comments and pings received after at least half a second of silence */
    uint64_t beat_ms;    /* longest silence before one of them; 0: none received */
    uint64_t reopened;   /* legacy HTTP: streams that ended cleanly and were reopened */
    /* Defects in the server's messages. An unreadable message fails the request it answers
     * (TIDINGS_E_PARSE or TIDINGS_E_LIMIT, with the position); subscriptions report a GAP. */
    uint64_t unread;   /* unreadable messages: not JSON, or nested over 512 levels */
    uint64_t replaced; /* \u escapes that are half of a surrogate pair: replaced by U+FFFD */
    uint64_t repeated; /* duplicate keys in an object: the last value counts */
};
/* Return the server's name, protocol revision and capabilities. The result is valid until the next
 * call that may communicate with the server, including a step; in a callback, until the callback
 * returns.
 *
 * Returns NULL if no server has answered yet. */
TIDINGS_API const struct tidings_client_info *
tidings_client_info(const struct tidings_client *client);

/* ---- running --------------------------------------------------------------------------------- */

/* Run a client until it is stopped: connect, watch, and report updates. A lost connection, or a
 * first connection that fails, is not an error: the client reports it to tidings_client_on_state
 * and retries. The function fails only if a retry cannot help: the server is not an MCP server,
 * denies access (but see tidings_client_token_fn), offers no subscriptions, or rejects all URIs at
 * the first attempt.
 *
 * Returns 0 if it was stopped. */
TIDINGS_API int tidings_client_run(struct tidings_client *client, struct tidings_error *err);
/* Stop a client: make tidings_client_run and all waiting functions return soon. This is final: the
 * client does nothing more and calls no callbacks. Thread-safe and async-signal-safe. */
TIDINGS_API void tidings_client_stop(struct tidings_client *client);

/* Return a descriptor that is readable when a step has work to do. Use it in another event loop. It
 * is an epoll instance; do not read or modify it. From the first step on it is readable whenever
 * tidings_client_step has work to do, including timers, and sometimes without work. It stays the
 * same for the life of the client. */
TIDINGS_API int tidings_client_fd(const struct tidings_client *client);
/* Run a step of a client: wait for an event, and process it. The wait lasts at most `timeout_ms`
 * milliseconds (negative: no limit, 0: no wait). Callbacks run during the step. Connecting does not
 * extend the wait.
 *
 * Returns 1, or 0 after the client was stopped. On failure, returns what tidings_client_run would
 * return; the next step retries. TIDINGS_E_INVALID: the caller is a callback. */
TIDINGS_API int tidings_client_step(struct tidings_client *client, int timeout_ms,
                                    struct tidings_error *err);

/* ---- states ---------------------------------------------------------------------------------- */

/* Set a callback for states of the connection and of each subscription. tidings_client_run and
 * tidings_client_step call `fn`. NULL removes the callback. */
TIDINGS_API void tidings_client_on_state(struct tidings_client *client, tidings_state_fn fn,
                                         void *user);

/* ---- subscriptions --------------------------------------------------------------------------- */

/* Subscribe to a URI, or to a pattern that the server understands (<tidings/subscription.h>). The
 * function returns at once. The state callbacks report the server's answer, tidings_client_on_state
 * first. It may be called before or after the client connects; the client subscribes as soon as
 * there is a connection, for whatever reason. Several subscriptions to the same URI share one
 * subscription at the server, and all receive its updates. A client has at most 1000 URIs.
 *
 * If a URI does not exist, its state is REFUSED, and the client does not try again. To wait for a
 * resource to be created, subscribe to its container ("app:///jobs/") or to a pattern
 * ("app:///jobs/7*").
 *
 * An update goes to the subscriptions that it names (`subscribedUri`). If it names none, it goes to
 * the subscriptions of exactly that URI, else to the patterns and containers that cover it.
 *
 * Returns the subscription, or NULL on failure. TIDINGS_E_INVALID: an argument is invalid.
 * TIDINGS_E_LIMIT: there are 1000 URIs. TIDINGS_E_UNSUPPORTED: the options contain a filter
 * function. */
TIDINGS_API struct tidings_subscription *
tidings_client_subscribe(struct tidings_client *client, const char *uri,
                         const struct tidings_subscribe_options *options,
                         struct tidings_error *err);
/* A subscription in the list of tidings_client_subscriptions. All fields are valid only during the
 * call. */
struct tidings_client_subscription {
    struct tidings_subscription *subscription;
    struct tidings_str uri;     /* subscribed URI or pattern */
    struct tidings_str options; /* JSON object; empty: none */
    /* WATCHING: the server accepted it. REFUSED: the server rejected it. LOST: accepted before, but
     * no longer. DISCONNECTED: not sent yet on this connection, or not answered. */
    enum tidings_state state;
};
typedef bool (*tidings_client_subscription_fn)(void *user,
                                               const struct tidings_client_subscription *s);
/* List the subscriptions of a client that have not ended, oldest URI first. `fn` returns false to
 * stop, and may end the subscription that it receives. `fn` may be NULL. The function does not
 * contact the server; for the server's view, send dev.tidings/subscriptions/list with
 * tidings_client_request (docs/reference/extensions.md).
 *
 * Returns the number of subscriptions. */
TIDINGS_API size_t tidings_client_subscriptions(struct tidings_client *client,
                                                tidings_client_subscription_fn fn, void *user);

/* Set a callback for every notification of the server, unmodified. Updates reach it before their
 * subscriptions. NULL removes the callback. */
typedef void (*tidings_client_notification_fn)(void *user, struct tidings_str method,
                                               struct tidings_str params);
TIDINGS_API void tidings_client_on_notification(struct tidings_client *client,
                                                tidings_client_notification_fn fn, void *user);

/* A warning for a person about something that the client ignores. */
typedef void (*tidings_client_warning_fn)(void *user, struct tidings_str text);
/* Set a callback for warnings about what a client ignores. The client warns about two defects. A
 * tool that declares arguments as header fields (`x-mcp-header`) in a forbidden way is left out of
 * lists, and cannot be called. An invalid skill entry is left out of lists. `fn` runs in the
 * function that sends the request, and must not call the client. The warning contains names that
 * the server chose. NULL removes the callback. */
TIDINGS_API void tidings_client_on_warning(struct tidings_client *client,
                                           tidings_client_warning_fn fn, void *user);

/* A log line of the server. `logger` is the part of the server, or empty; `data` is JSON, usually a
 * string. The server chose the contents. All are valid only during the call, which must not call
 * the client. */
typedef void (*tidings_client_log_fn)(void *user, enum tidings_log_level level,
                                      struct tidings_str logger, struct tidings_str data);
/* Subscribe to the server's log from a minimum level on. `fn` receives the lines as they arrive, in
 * any client function that waits or steps. Up to 2025-11-25 the server logs for the whole session
 * (logging/setLevel); later, only lines about each request (`_meta`). A server without a log sends
 * nothing. NULL or TIDINGS_LOG_OFF stops the log, which is the default. Call this before the client
 * connects.
 *
 * TIDINGS_E_INVALID: the client has connected, or the level does not exist. */
TIDINGS_API int tidings_client_on_log(struct tidings_client *client, enum tidings_log_level least,
                                      tidings_client_log_fn fn, void *user,
                                      struct tidings_error *err);

/* ---- requests -------------------------------------------------------------------------------- */

/* Send any request to the server, and wait for the answer. `params` is a JSON object (NULL: none),
 * which may contain `_meta`.
 *
 * Returns the JSON text of the result, which the caller releases with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_request(struct tidings_client *client,
                                                            const char *method, const char *params,
                                                            struct tidings_error *err);
/* Return the error object of the server's last answer, as JSON text. It is valid until the next
 * function that waits for an answer.
 *
 * Returns NULL unless the last such function failed because of an error answer. */
TIDINGS_API const char *tidings_client_last_error(const struct tidings_client *client);
/* Return true if other credentials may help after TIDINGS_E_DENIED. This is the case if the
 * server's last refusal was HTTP 401, or HTTP 403 with a `WWW-Authenticate` challenge. */
TIDINGS_API bool tidings_client_wants_credentials(const struct tidings_client *client);

/* Receives the progress of a request. `total` is negative if unknown. */
typedef void (*tidings_client_progress_fn)(void *user, double progress, double total,
                                           struct tidings_str message);
/* Receives an answer. On success `result` is JSON text and `err` is NULL. On failure `result` is
 * empty, `err` explains the error, and `error` is the server's error object, or empty. */
typedef void (*tidings_client_answer_fn)(void *user, struct tidings_str result,
                                         const struct tidings_error *err, struct tidings_str error);

/* A request that runs in the background. The strings are copied. */
struct tidings_client_asking {
    const char *method;
    const char *params;                     /* JSON object; NULL: none */
    tidings_client_answer_fn on_answer;     /* runs exactly once, in a step, unless the request is
                                               cancelled, or the client stopped or destroyed */
    tidings_client_progress_fn on_progress; /* NULL: no progress requested */
    void *user;
    uint32_t timeout_ms; /* 0: the client's timeout */
    void *reserved[4];   /* zero */
};
/* Send any request to the server, without waiting for the answer. At most 65,536 requests may be
 * pending.
 *
 * Returns the number of the request, above 0. TIDINGS_E_LIMIT: too many requests are pending.
 * TIDINGS_E_INVALID: the method or on_answer is missing, or `params` is not a JSON object. */
TIDINGS_API int64_t tidings_client_ask(struct tidings_client *client,
                                       const struct tidings_client_asking *asking,
                                       struct tidings_error *err);
/* Cancel a request of tidings_client_ask. The client notifies the server, and no longer calls
 * on_answer. Unknown numbers are ignored. */
TIDINGS_API void tidings_client_cancel(struct tidings_client *client, int64_t number);

/* Read a resource of the server, and wait for it. The function connects first if necessary, and
 * waits at most `timeout_ms` for the answer.
 *
 * Returns `{"contents":[…]}`, which the caller releases with tidings_free. TIDINGS_E_NOTFOUND:
 * there is no such resource. TIDINGS_E_DENIED: the caller may not read it. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_read(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Return the server's description of one resource, and wait for it. The client sends
 * `resources/metadata`; if the server does not know that, it searches the list.
 *
 * Returns the Resource object, which the caller releases with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_metadata(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Call a tool of the server, and wait for its result. `arguments` is a JSON object (NULL: none).
 * `on_progress` may be NULL.
 *
 * The client validates structured content against the outputSchema in the server's latest tool
 * list, and requests the list once if necessary. Over HTTP in the modern era it requests the list
 * before the first call, because arguments may have to be sent as header fields (`x-mcp-header`). A
 * schema that cannot be compiled, or costs too much, is ignored. tidings_client_request and
 * tidings_client_ask do not validate results.
 *
 * Returns `{"content":[…]}`, which the caller releases with tidings_free. Its member `isError` is
 * true if the tool failed. TIDINGS_E_PARSE: the result violates the schema (`err` says where), or
 * the tool declares its header fields incorrectly and is not called. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_call(struct tidings_client *client,
                                                         const char *tool, const char *arguments,
                                                         tidings_client_progress_fn on_progress,
                                                         void *user, struct tidings_error *err);
/* Get a prompt of the server, and wait for it. `arguments` is a JSON object of strings (NULL:
 * none).
 *
 * Returns `{"messages":[…]}`, which the caller releases with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_prompt(struct tidings_client *client,
                                                           const char *name, const char *arguments,
                                                           struct tidings_error *err);
/* Complete an argument of a prompt, or a variable of a template. `ref` is
 * `{"type":"ref/resource","uri":"…{…}"}` or `{"type":"ref/prompt","name":"…"}`. `known` is a JSON
 * object with the arguments that have values already (NULL: none).
 *
 * Returns `{"values":[…],…}`, which the caller releases with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_complete(struct tidings_client *client,
                                                             const char *ref, const char *argument,
                                                             const char *value, const char *known,
                                                             struct tidings_error *err);

/* Get the entry of an Agent Skill (SEP-2640) by the URI of its SKILL.md, and wait for it. The
 * function reads no file of the skill. It validates the entry: name, digests and sizes are
 * well-formed, all files are inside the skill, and there are at most 512 files of 16 MiB in total.
 * tidings_client_list lists the skills of a server (TIDINGS_LISTING_SKILLS); unlisted skills may
 * exist. The contents, including `allowed-tools`, are untrusted.
 *
 * Returns `{"uri":…,"frontmatter":{…},"resources":[…]}`, which the caller releases with
 * tidings_free. TIDINGS_E_UNSUPPORTED: the server does not offer skills. TIDINGS_E_NOTFOUND,
 * TIDINGS_E_INVALID: there is no skill at `uri`. TIDINGS_E_PARSE, TIDINGS_E_LIMIT: the entry is
 * invalid. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_skill(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Read a file of an Agent Skill, and verify it against the entry of the skill. `entry` comes from
 * tidings_client_skill or tidings_client_list; `uri` is the SKILL.md or another file that the entry
 * lists. The function compares size and digest, and for SKILL.md the front matter. If the
 * `resources` of a skill are "dynamic", it has no digests, and only the front matter is compared. A
 * file of 16 MiB needs more than 22 MiB in the client's `max_bytes`, because it travels in base64.
 *
 * Returns the bytes, NUL-terminated, which the caller releases with tidings_free, and their number
 * in `*ret_len`. TIDINGS_E_CONFLICT: the file does not match the entry; get the entry again.
 * TIDINGS_E_NOTFOUND: the entry does not list the file. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_skill_read(struct tidings_client *client,
                                                               const char *entry, const char *uri,
                                                               size_t *ret_len,
                                                               struct tidings_error *err);

/* ---- lists ----------------------------------------------------------------------------------- */

enum tidings_listing {
    TIDINGS_LISTING_RESOURCES = 0,
    TIDINGS_LISTING_TEMPLATES = 1,
    TIDINGS_LISTING_TOOLS = 2,
    TIDINGS_LISTING_PROMPTS = 3,
    TIDINGS_LISTING_SKILLS = 4, /* entries of Agent Skills: tidings_client_skill */
};
/* Receives an element as JSON text, which is valid only during the call. Returns 0 to continue. */
typedef int (*tidings_client_item_fn)(void *user, struct tidings_str item);

/* List all elements of a kind that the server has, page by page. If the function fails, `fn` has
 * received the elements before the failure.
 *
 * Returns 0, or the first result of `fn` that is not 0. TIDINGS_E_LIMIT: more than 10,000 pages,
 * 100 consecutive empty pages, 1,000,000 elements, or a cursor over 64 KiB. TIDINGS_E_PARSE: a page
 * repeats an earlier cursor. TIDINGS_E_TIMEOUT: all pages together took ten times `timeout_ms`. */
TIDINGS_API int tidings_client_list(struct tidings_client *client, enum tidings_listing list,
                                    tidings_client_item_fn fn, void *user,
                                    struct tidings_error *err);
/* List the direct children of a resource, page by page. Limits, result and errors are those of
 * tidings_client_list.
 *
 * TIDINGS_E_UNSUPPORTED: the server does not offer the method. */
TIDINGS_API int tidings_client_children(struct tidings_client *client, const char *uri,
                                        tidings_client_item_fn fn, void *user,
                                        struct tidings_error *err);

struct tidings_walk_limits {
    uint32_t depth;    /* 0: 32 */
    uint32_t entries;  /* 0: 100,000 */
    void *reserved[4]; /* zero */
};
/* A resource that the walk visits, before its children. All fields are valid during the call. */
struct tidings_walk_entry {
    struct tidings_str uri;
    struct tidings_str item;   /* the Resource object, JSON text */
    struct tidings_str parent; /* URI of the parent */
    uint32_t depth;            /* 1: direct child of the start */
    bool has_children;         /* can be listed */
    bool is_repeated;          /* visited before: its children are not repeated */
    bool is_cut;               /* at the depth limit: its children are left out */
    /* NULL, or why the list of its children failed or ended early; some children may be missing. */
    const struct tidings_error *failure;
};
/* Returns 0 to continue. */
typedef int (*tidings_walk_fn)(void *user, const struct tidings_walk_entry *entry);
/* Walk through all resources below a resource. The walk enters no resource twice, so cycles end. If
 * the server refuses to list a resource, the walk reports that in `failure` and continues. The
 * function fails only if the first resource cannot be listed, or the connection fails.
 *
 * Returns 0, or the first result of `fn` that is not 0. TIDINGS_E_LIMIT: there are more entries
 * than allowed. TIDINGS_E_TIMEOUT: the lists took longer than ten timeouts plus a tenth of a
 * timeout per list. */
TIDINGS_API int tidings_client_walk(struct tidings_client *client, const char *uri,
                                    const struct tidings_walk_limits *limits, tidings_walk_fn fn,
                                    void *user, struct tidings_error *err);

/* ---- raw HTTP -------------------------------------------------------------------------------- */

/* A raw HTTP request to the server's address, for programs that test how a server behaves. It has
 * these headers and this body, the client's token and the `headers` of its options. It does not use
 * the client's session, revision or connection. */
struct tidings_client_http {
    const char *method;         /* "GET" (the default), "POST", "DELETE" */
    const char *const *headers; /* "Name: value", NULL-terminated; NULL: none; at most 8 */
    const char *body;           /* for POST; NULL: empty */
    uint32_t timeout_ms;        /* for the whole exchange; 0: the client's timeout */
    /* Receives the answer: once `status` with the header, then parts of the body, and an empty
     * `bytes` after each 100 ms without data. Returns 0 to continue. May do what callbacks of the
     * client may do. NULL: not needed. */
    int (*on_bytes)(void *user, long status, struct tidings_str bytes);
    void *user;
    void *reserved[4]; /* zero */
};
struct tidings_client_http_answer {
    long status;           /* 0: none received */
    char content_type[64]; /* lower case, without parameters; "": none */
    char session[512];     /* Mcp-Session-Id; "": none */
    bool is_complete;      /* the body is complete; false: on_bytes ended it */
};
/* Make one HTTP request to the server's address and wait for the answer. If it fails after the
 * header arrived, for example with TIDINGS_E_TIMEOUT, `*ret` contains the header.
 *
 * TIDINGS_E_UNSUPPORTED: the client does not use HTTP. */
TIDINGS_API int tidings_client_http(struct tidings_client *client,
                                    const struct tidings_client_http *request,
                                    struct tidings_client_http_answer *ret,
                                    struct tidings_error *err);

/* ---- about ----------------------------------------------------------------------------------- */

/* Load the library that the client uses, and return its name: "libcurl/7.88.1 OpenSSL/3.0.11".
 *
 * Returns a string that the caller releases with tidings_free, or NULL if the library cannot be
 * loaded. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_library(void);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
