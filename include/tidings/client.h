/* SPDX-License-Identifier: MIT
 *
 * A client: watch, read and drive the resources of any MCP server.
 *
 *     struct tidings_client *c = tidings_client_create("http://127.0.0.1:7777/mcp", NULL, &err);
 *     struct tidings_subscribe_options on = {.fn = on_update, .user = me};
 *     tidings_client_subscribe(c, "file:///docs/", &on, &err);
 *     tidings_client_run(c, &err);             // until tidings_client_stop
 *     tidings_client_destroy(c);
 *
 * A server is reached over Streamable HTTP, WebSocket, TCP, TLS or a Unix socket, or is launched
 * and spoken to over its standard input and output. Both eras of the protocol are spoken: the
 * client asks `server/discover` first and falls back to `initialize`, and remembers which it was. A
 * connection that is lost is made again, with growing pauses, and everything is subscribed to
 * again, from where it was: with the cursor of a server that has one, or Last-Event-ID. What the
 * server then tells twice, by its version, the program hears once. Where the server has neither,
 * what is watched is read or listed before and after, and what changed is told as `synthetic`.
 *
 * Threads. A client is used by one thread at a time, and may be handed over to another between two
 * calls (but see tidings_client_launch); only tidings_client_stop may be called from anywhere.
 * Different clients have nothing to do with each other; only where libcurl is older than 7.84 they
 * must not be created or destroyed at the same moment. No threads are started here but by libcurl,
 * to look up names.
 *
 * Callbacks come from tidings_client_run and tidings_client_step alone (what a call reports of its
 * progress comes from that call). Everything but tidings_client_run and tidings_client_step, which
 * refuse, and tidings_client_destroy may be called inside them. Functions that ask the server
 * something wait for its answer, connecting first if need be; what else arrives meanwhile is kept
 * and told by the next step, up to 65,536 messages and four times max_bytes, beyond which the
 * connection is broken off and made again.
 *
 * What functions return as `char *` is JSON text, NUL-terminated, to be released with tidings_free;
 * <tidings/json.h> takes it apart. NULL is a failure: `err` has it, and
 * tidings_client_last_error what the server said. Codes of failures:
 *
 *     TIDINGS_E_NOTFOUND     no such resource; no MCP endpoint at that address
 *     TIDINGS_E_GONE         it was deleted
 *     TIDINGS_E_UNSUPPORTED  the server does not know the method, or does not offer it
 *     TIDINGS_E_INVALID      it refuses the parameters
 *     TIDINGS_E_DENIED       it denies access, or its certificate is not to be trusted
 *     TIDINGS_E_BUSY         it cannot answer now; trying again may help
 *     TIDINGS_E_INTERNAL     it failed, and says so (`data.reason` "internal")
 *     TIDINGS_E_TIMEOUT      no answer in time
 *     TIDINGS_E_CLOSED, _IO  the connection ended, or cannot be made
 *     TIDINGS_E_LIMIT        something is larger than accepted
 *     TIDINGS_E_PARSE        the answer is not one of an MCP server, or cannot be read
 *     TIDINGS_E_CANCELLED    tidings_client_stop was called
 *     TIDINGS_E_NOMEM        out of memory
 *
 * libcurl is loaded when the first client for an address is created and not before.
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
/* Functions named like the struct they return: -Wshadow calls that hiding its constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_client;

/* ---- a client -------------------------------------------------------------------------------- */

/* What a launched server writes to its standard error, as it comes. */
typedef void (*tidings_client_stderr_fn)(void *user, struct tidings_str bytes);
/* The token to show, asked for before each request that carries one, and once more when the server
 * refused it (401): another one is shown at once. Memory of tidings_alloc, which the client
 * releases; visible ASCII, anything else (a line feed behind it, say) is not sent. NULL, or empty:
 * none. Called by whatever function speaks to the server; it must not call the client.
 *
 * So a token may expire. When something has been watched and no good one is at hand, that is an
 * interruption like others, DISCONNECTED with pauses in between, until one is accepted; what was
 * missed is then told. What was never watched, a `token` that does not change, and 403 fail at
 * once: TIDINGS_E_DENIED. */
typedef char *(*tidings_client_token_fn)(void *user);

/* What goes over the wire: a message that is sent or has come, or why none will come. Headers of
 * HTTP, tokens among them, are not told, nor are bytes that are no message. */
struct tidings_client_wire {
    bool is_sent;            /* by this client; false: by the server */
    struct tidings_str text; /* the message as it is; empty: there is none */
    /* Why there is none: a request has no answer, the connection ended; or the method of an HTTP
     * request without a body. */
    struct tidings_str reason;
    long status; /* of HTTP; 0: none */
};
/* Borrowed for the call, which must not call the client. */
typedef void (*tidings_client_wire_fn)(void *user, const struct tidings_client_wire *wire);

/* Zeroed fields mean the default in parentheses. Everything is copied; `user` pointers have to last
 * as long as the client. */
struct tidings_client_options {
    const char *name;      /* what the client calls itself ("tidings") */
    uint32_t timeout_ms;   /* for one answer (30000) */
    uint32_t retry_min_ms; /* the first pause before connecting again is 0 … this, evenly (1000) */
    uint32_t retry_max_ms; /* longest pause (30000); a Retry-After of up to 5 minutes counts more */
    size_t max_bytes;      /* largest message that is accepted (16 MiB) */
    /* PEM files for TLS: */
    const char *ca_file;   /* CAs that the server's certificate may come from (the system's) */
    const char *cert_file; /* the client's own certificate (none) */
    const char *key_file;  /* … and its key (in cert_file) */
    /* HTTP and WebSocket: */
    const char *token;                /* shown as `Authorization: Bearer …` (none) */
    const char *const *headers;       /* "Name: value" for each request, NULL at the end (none) */
    tidings_client_token_fn on_token; /* instead of `token` */
    void *token_user;
    /* Instead of both: who knows what to show, and what to do when it is refused
     * (<tidings/oauth.h>). Borrowed, and must last longer than the client. Over HTTP only. */
    const struct tidings_credentials *credentials;
    /* The revision to speak, "2026-07-28" or one of the legacy ones (the newest both know). A
     * server that speaks another is TIDINGS_E_UNSUPPORTED. */
    const char *version;
    uint32_t probe_ms; /* not over HTTP: how long to wait for an answer to server/discover before
                        * the server is taken for one that knows only `initialize` (5000) */
    /* A launched server: */
    const char *directory;              /* to run in (that of this process) */
    const char *const *env;             /* "NAME=value", NULL at the end (that of this process) */
    tidings_client_stderr_fn on_stderr; /* (its standard error is that of this process) */
    void *stderr_user;
    bool list_changes; /* ask to be told when lists change: tidings_client_on_notification */
    /* Do not read or list what is watched in order to find out, after an interruption, what a
     * server without cursors could not tell. */
    bool no_compare;
    /* Without a byte on the stream for so long the connection counts as dead (three times the
     * longest pause between comments or pings of the server, and 5 seconds; never, if it sends
     * none). */
    uint32_t silence_ms;
    uint32_t verify_ms; /* about so often (a quarter more or less) read or list what is watched
                         * anyway, whatever the server, and tell what it did not (never) */
    tidings_client_wire_fn on_wire; /* hear every message (none) */
    void *wire_user;
    /* The trace that all requests belong to, as W3C Trace Context writes them (none); in `_meta`.
     * One that is not valid is left out. */
    const char *traceparent, *tracestate;
    void *reserved[4]; /* zero */
};

/* Create a client of a server by its address:
 *
 *     http://HOST[:PORT]/PATH, https://…   Streamable HTTP, else HTTP+SSE of 2024-11-05
 *     ws://…, wss://…                      WebSocket
 *     tcp://HOST:PORT, tls://HOST:PORT     a message per line
 *     unix:PATH                            the same on a Unix socket
 *     http+unix:PATH                       Streamable HTTP on one, at /mcp
 *
 * `options` may be NULL. Nothing is sent yet. NULL on failure; TIDINGS_E_INVALID: no such address;
 * TIDINGS_E_UNSUPPORTED: libcurl, or for ws: wslay, cannot be loaded. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_create(const char *address, const struct tidings_client_options *options,
                      struct tidings_error *err);
/* Create a client of a server that it launches. `argv` has NULL at its end; the program is looked
 * for in PATH. It is started when it is needed first and again when it ended; its end is asked for
 * by closing its input, then demanded (SIGTERM after 2 seconds, SIGKILL after 2 more). It dies with
 * the thread that started it. A program that is not there is TIDINGS_E_NOTFOUND, when it is needed.
 */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_launch(const char *const *argv, const struct tidings_client_options *options,
                      struct tidings_error *err);
/* Create a client of a server as the files of hosts name it. `entry` is a JSON object, as below
 * `mcpServers` in .mcp.json: `url` with perhaps `headers`, or `command` with perhaps `args`, `env`
 * (besides the variables of this process) and `cwd`; other members are passed over, and ${NAME}
 * stays as it is. `options` as for the two above; the header fields of both are sent, variables and
 * directory of the entry come first. An entry can launch anything, so whoever wrote the file is
 * trusted with that (tidings_file_read tells who could). At most 256 arguments, variables and
 * header fields. TIDINGS_E_PARSE: no JSON; TIDINGS_E_INVALID, TIDINGS_E_LIMIT: `err` says which
 * member. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_client *
tidings_client_create_entry(struct tidings_str entry, const struct tidings_client_options *options,
                            struct tidings_error *err);
/* Destroy a client: end its session and the launched server, at most 5 seconds. Ends all
 * subscriptions and copies; answers that are awaited do not come any more, and nothing is called
 * back. Not from a callback. Nobody may be about to call tidings_client_stop. NULL is fine. */
TIDINGS_API void tidings_client_destroy(struct tidings_client *client);

/* Connect to the server and find out how it speaks, unless that is known. Waits for the answer.
 * Every other function does so by itself. */
TIDINGS_API int tidings_client_connect(struct tidings_client *client, struct tidings_error *err);

enum tidings_era {
    TIDINGS_ERA_LEGACY = 1, /* initialize, resources/subscribe: up to 2025-11-25 */
    TIDINGS_ERA_MODERN = 2, /* server/discover, subscriptions/listen: 2026-07-28 */
};
struct tidings_client_info {
    const char *transport; /* "http", "websocket", "lines", "stdio", "http+sse" */
    enum tidings_era era;
    const char *version;        /* of the protocol: "2026-07-28" */
    const char *server_name;    /* "": not said */
    const char *server_version; /* "": not said */
    const char *capabilities;   /* JSON object */
    const char *instructions;   /* "": none */
    const char *answer;         /* JSON: the whole result of server/discover or initialize */
    bool can_subscribe;
    const char *session; /* legacy HTTP: the session's id; "": none */
    uint64_t found;      /* updates so far that the client found by comparing */
    uint64_t beats;      /* comments and pings so far, after half a second of silence or more */
    uint64_t beat_ms;    /* the longest silence before one of them; 0: none came */
    uint64_t reopened; /* legacy HTTP: streams so far that ended in order and were taken up again */
    /* What the server sent that is not quite right, so far. A message that cannot be read fails the
     * request it answers (TIDINGS_E_PARSE or TIDINGS_E_LIMIT, with the place); what was watched has
     * a GAP. */
    uint64_t unread;   /* messages that cannot be read: no JSON, or nested over 512 levels */
    uint64_t replaced; /* \u escapes that are half of a surrogate pair: U+FFFD stands there */
    uint64_t repeated; /* keys that their object had already: the last value counts */
};
/* Return who answered: the server, its revision and capabilities. NULL: nobody yet. Valid until the
 * next call that may speak to the server, a step too; inside a callback until it returns. */
TIDINGS_API const struct tidings_client_info *
tidings_client_info(const struct tidings_client *client);

/* ---- running --------------------------------------------------------------------------------- */

/* Run a client: connect, watch and tell, until it is stopped. 0: it was stopped. A connection that
 * is lost, or cannot be made yet, is no failure: tidings_client_on_state tells of it. Fails when
 * trying again would not help: not an MCP server, access denied (but see tidings_client_token_fn),
 * no subscriptions offered, every URI refused at the first attempt. */
TIDINGS_API int tidings_client_run(struct tidings_client *client, struct tidings_error *err);
/* Stop a client: end tidings_client_run, and whatever waits for an answer, soon. From any thread
 * and from signal handlers. Stays so: a client that was stopped does nothing more, and calls
 * nothing back. */
TIDINGS_API void tidings_client_stop(struct tidings_client *client);

/* Return a descriptor that is readable when a step has something to do. For another loop (an epoll
 * instance, not to be touched). It is readable whenever tidings_client_step has something to do,
 * from the first step on, timers included; now and then for nothing. It stays the same for the life
 * of the client. */
TIDINGS_API int tidings_client_fd(const struct tidings_client *client);
/* Take a step of a client: wait until something happens, and do it. At most so long (negative: no
 * limit, 0: not at all); callbacks are called. 1, or 0 once stopped, or what tidings_client_run
 * would fail with; the next step would try again. Connecting does not make it wait either.
 * TIDINGS_E_INVALID: inside a callback. */
TIDINGS_API int tidings_client_step(struct tidings_client *client, int timeout_ms,
                                    struct tidings_error *err);

/* ---- how it stands --------------------------------------------------------------------------- */

/* Be told how the connection and each subscription of a client stand. `fn` is called by
 * tidings_client_run and tidings_client_step. NULL: no more. */
TIDINGS_API void tidings_client_on_state(struct tidings_client *client, tidings_state_fn fn,
                                         void *user);

/* ---- subscriptions --------------------------------------------------------------------------- */

/* Subscribe to a URI, or a pattern the server understands (<tidings/subscription.h>). Returns at
 * once; the state callbacks, that of tidings_client_on_state first, tell what the server says to
 * it. Before or after connecting: it is asked for as soon as there is a connection, be it for a
 * question. The same URI may be subscribed to several times: the server is asked once, everybody is
 * told. At most 1000 URIs.
 *
 * A URI that is not there is REFUSED, and not asked for again. Who waits for something to come into
 * being subscribes to what it will be in ("app:///jobs/") or to a pattern ("app:///jobs/7*").
 *
 * An update goes to the subscriptions that it names (`subscribedUri`). Where the server names none,
 * it goes to those of that very URI, else to the patterns and containers that cover it. NULL on
 * failure: TIDINGS_E_INVALID, TIDINGS_E_LIMIT, TIDINGS_E_UNSUPPORTED: a filter function. */
TIDINGS_API struct tidings_subscription *
tidings_client_subscribe(struct tidings_client *client, const char *uri,
                         const struct tidings_subscribe_options *options,
                         struct tidings_error *err);
/* A subscription as tidings_client_subscriptions shows it. Everything is borrowed for the call. */
struct tidings_client_subscription {
    struct tidings_subscription *subscription;
    struct tidings_str uri;     /* what was subscribed to */
    struct tidings_str options; /* JSON object; empty: none */
    /* WATCHING: the server has accepted it; REFUSED; LOST: accepted before, and not any more;
     * DISCONNECTED: it has not been asked, or has not answered, in the present connection. */
    enum tidings_state state;
};
typedef bool (*tidings_client_subscription_fn)(void *user,
                                               const struct tidings_client_subscription *s);
/* List the subscriptions of a client that have not ended, oldest URI first. `fn` returns false for
 * no more, and may end the one it is shown. Returns how many there are; `fn` may be NULL. Asks
 * nobody: what the server says of the same is the method dev.tidings/subscriptions/list
 * (docs/reference/extensions.md), by tidings_client_request. */
TIDINGS_API size_t tidings_client_subscriptions(struct tidings_client *client,
                                                tidings_client_subscription_fn fn, void *user);

/* Be told every notification of the server as it came. Updates too, before their subscriptions are.
 * NULL: no more. */
typedef void (*tidings_client_notification_fn)(void *user, struct tidings_str method,
                                               struct tidings_str params);
TIDINGS_API void tidings_client_on_notification(struct tidings_client *client,
                                                tidings_client_notification_fn fn, void *user);

/* Something that the client passes over, for a person to know: a sentence. */
typedef void (*tidings_client_warning_fn)(void *user, struct tidings_str text);
/* Be told what a client passes over. That is a tool whose arguments are declared as header
 * fields (`x-mcp-header`) in a way that is not allowed: it is left out of lists, and not called.
 * And the entry of a skill that is not as it must be: it is left out of lists. `fn` is called by
 * the function that asks the server, and must not call the client; what it is told holds names of
 * the server. NULL: no more. */
TIDINGS_API void tidings_client_on_warning(struct tidings_client *client,
                                           tidings_client_warning_fn fn, void *user);

/* A line of the server's log. `logger`: which part of it, empty: it does not say; `data`: JSON,
 * most often a string. Written by the server, and borrowed for the call, which must not call the
 * client.
 */
typedef void (*tidings_client_log_fn)(void *user, enum tidings_log_level level,
                                      struct tidings_str logger, struct tidings_str data);
/* Ask the server for its log, from a level on. `fn` is called as lines come, by whichever function
 * of the client waits or steps. Up to 2025-11-25 the server logs for the whole session
 * (logging/setLevel), later what concerns each request (`_meta`); one without a log sends nothing.
 * NULL, or TIDINGS_LOG_OFF: no log, as before the first call. To be called before the client
 * connects. TIDINGS_E_INVALID: it has connected, or there is no such level. */
TIDINGS_API int tidings_client_on_log(struct tidings_client *client, enum tidings_log_level least,
                                      tidings_client_log_fn fn, void *user,
                                      struct tidings_error *err);

/* ---- asking ---------------------------------------------------------------------------------- */

/* Ask the server anything, and wait for the answer. `params` is a JSON object (NULL: none), which
 * may have a `_meta` of its own. Returns the JSON text of the result, to be released with
 * tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_request(struct tidings_client *client,
                                                            const char *method, const char *params,
                                                            struct tidings_error *err);
/* Return the error object that the server answered with. JSON text, when the last function that
 * waited for an answer failed because of that; else NULL. Valid until the next one. */
TIDINGS_API const char *tidings_client_last_error(const struct tidings_client *client);
/* Return whether other credentials may help after TIDINGS_E_DENIED. They may if the server's last
 * refusal was HTTP 401, or HTTP 403 with a `WWW-Authenticate` challenge. */
TIDINGS_API bool tidings_client_wants_credentials(const struct tidings_client *client);

/* How far a request is. `total` is negative when it is not known. */
typedef void (*tidings_client_progress_fn)(void *user, double progress, double total,
                                           struct tidings_str message);
/* An answer: `result` is JSON text, empty when `err` (else NULL) says why there is none; `error` is
 * then the server's error object, or empty. */
typedef void (*tidings_client_answer_fn)(void *user, struct tidings_str result,
                                         const struct tidings_error *err, struct tidings_str error);

/* A request whose answer is not waited for. May be gone after the call, the strings are copied. */
struct tidings_client_asking {
    const char *method;
    const char *params;                     /* JSON object; NULL: none */
    tidings_client_answer_fn on_answer;     /* by a step, exactly once, unless it is cancelled or
                                             * the client stopped or destroyed before */
    tidings_client_progress_fn on_progress; /* NULL: not asked for */
    void *user;
    uint32_t timeout_ms; /* 0: that of the client */
    void *reserved[4];   /* zero */
};
/* Ask the server anything, without waiting. Returns the number of the request, above 0. Up to
 * 65,536 may be under way (TIDINGS_E_LIMIT). TIDINGS_E_INVALID: no method, no on_answer, or
 * `params` is no JSON object. */
TIDINGS_API int64_t tidings_client_ask(struct tidings_client *client,
                                       const struct tidings_client_asking *asking,
                                       struct tidings_error *err);
/* Give up a request of tidings_client_ask. The server is told, on_answer is not called any more. A
 * number that is not under way is passed over. */
TIDINGS_API void tidings_client_cancel(struct tidings_client *client, int64_t number);

/* Read a resource of the server, and wait for it. Returns `{"contents":[…]}`, to be released with
 * tidings_free. Connects first if need be, and waits for the answer at most as long as `timeout_ms`
 * says. TIDINGS_E_NOTFOUND: there is no such resource; TIDINGS_E_DENIED: it may not be read. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_read(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Return what the server says of one resource, and wait for it. Returns the Resource object, to be
 * released with tidings_free. Asks `resources/metadata`, and where that is unknown looks for it in
 * the list. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_metadata(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Call a tool of the server, and wait for its result. `arguments` is a JSON object (NULL: none).
 * Returns `{"content":[…]}`, which also says whether the tool failed (`isError`), to be released
 * with tidings_free. `on_progress` may be NULL. Structured content is held against the outputSchema
 * of the tool, as the server last listed it; its tools are listed for that once, if they have not
 * been. Over HTTP in the modern era they are listed before the first call, because arguments may
 * have to travel as header fields (`x-mcp-header`). TIDINGS_E_PARSE: it breaks the schema, `err`
 * says where; or the tool declares its header fields wrongly and is not called. A schema that
 * cannot be compiled, or costs too much, counts as none. tidings_client_request and
 * tidings_client_ask give results as they came. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_call(struct tidings_client *client,
                                                         const char *tool, const char *arguments,
                                                         tidings_client_progress_fn on_progress,
                                                         void *user, struct tidings_error *err);
/* Get a prompt of the server, and wait for it. `arguments` is a JSON object of strings (NULL:
 * none). Returns `{"messages":[…]}`, to be released with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_prompt(struct tidings_client *client,
                                                           const char *name, const char *arguments,
                                                           struct tidings_error *err);
/* Complete an argument of a prompt, or a variable of a template. `ref` is
 * `{"type":"ref/resource","uri":"…{…}"}` or `{"type":"ref/prompt","name":"…"}`; `known` a JSON
 * object with the arguments given so far (NULL: none). Returns `{"values":[…],…}`, to be
 * released with tidings_free. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_complete(struct tidings_client *client,
                                                             const char *ref, const char *argument,
                                                             const char *value, const char *known,
                                                             struct tidings_error *err);

/* Get the entry of an Agent Skill of the server (SEP-2640), by the URI of its SKILL.md, and wait
 * for it. Returns the entry, `{"uri":…,"frontmatter":{…},"resources":[…]}`, to be released with
 * tidings_free; nothing of the skill is read. It was checked: the name, digests and sizes are as
 * they must be, all files lie in the skill, and they are no more than 512 of 16 MiB together.
 * TIDINGS_E_UNSUPPORTED: the server does not offer skills; TIDINGS_E_NOTFOUND, TIDINGS_E_INVALID:
 * none is there;
 * TIDINGS_E_PARSE, TIDINGS_E_LIMIT: the entry is not to be used. tidings_client_list lists what a
 * server has (TIDINGS_LISTING_SKILLS); one that is not listed may still be there. What it says of
 * itself, `allowed-tools` too, is the word of a stranger. */
TIDINGS_API TIDINGS_MUST_CHECK char *
tidings_client_skill(struct tidings_client *client, const char *uri, struct tidings_error *err);
/* Read a file of an Agent Skill, and hold it against the entry of the skill. `entry` is one of
 * tidings_client_skill or tidings_client_list, `uri` the file: the SKILL.md or another that the
 * entry lists. Returns its bytes, with a NUL behind them, to be released with tidings_free, and
 * their number in `ret_len`. They have the size and the digest that the entry says, and those of
 * SKILL.md its front matter; a skill whose `resources` are "dynamic" has no digests, its front
 * matter is compared. TIDINGS_E_CONFLICT: they do not, the content is not given; get the entry
 * again. TIDINGS_E_NOTFOUND: the entry does not list the file. A file of 16 MiB needs `max_bytes`
 * of the client's options above 22 MiB, as it travels in base64. */
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
/* One element, JSON text, borrowed for the call. 0: the next one, please. */
typedef int (*tidings_client_item_fn)(void *user, struct tidings_str item);

/* List everything of a kind that the server has, page by page. 0, or what `fn` returned when that
 * was not 0. TIDINGS_E_LIMIT after 10,000 pages, 100 in a row that hold nothing, 1,000,000
 * elements, or a cursor above 64 KiB; TIDINGS_E_PARSE when the pages go in a circle;
 * TIDINGS_E_TIMEOUT when all together were waited for ten times as long as one may be (timeout_ms);
 * `fn` has had what came before. */
TIDINGS_API int tidings_client_list(struct tidings_client *client, enum tidings_listing list,
                                    tidings_client_item_fn fn, void *user,
                                    struct tidings_error *err);
/* List what is directly below a resource, page by page. As tidings_client_list.
 * TIDINGS_E_UNSUPPORTED: the server does not offer that. */
TIDINGS_API int tidings_client_children(struct tidings_client *client, const char *uri,
                                        tidings_client_item_fn fn, void *user,
                                        struct tidings_error *err);

struct tidings_walk_limits {
    uint32_t depth;    /* 0: 32 */
    uint32_t entries;  /* 0: 100,000 */
    void *reserved[4]; /* zero */
};
/* One resource met on the way, before what is below it. Borrowed for the call. */
struct tidings_walk_entry {
    struct tidings_str uri;
    struct tidings_str item;   /* the Resource object, JSON text */
    struct tidings_str parent; /* its URI */
    uint32_t depth;            /* 1: directly below where the walk began */
    bool has_children;         /* it can be listed itself */
    bool is_repeated;          /* it was met before: nothing below it is told again */
    bool is_cut;               /* it is at the depth limit: nothing below it is told */
    /* NULL, or why its children could not be listed to the end: what is told below it, if anything,
     * need not be all. */
    const struct tidings_error *failure;
};
/* 0: go on. */
typedef int (*tidings_walk_fn)(void *user, const struct tidings_walk_entry *entry);
/* Walk through everything below a resource. No resource is entered twice, so that cycles end. What
 * the server refuses to list on the way is told with its `failure`, and the walk goes on; it fails
 * where the first resource cannot be listed, or the server cannot be asked any more. 0, or what
 * `fn` returned when that was not 0; TIDINGS_E_LIMIT: there are more entries than allowed;
 * TIDINGS_E_TIMEOUT: its lists took longer than ten answers may, and a tenth of one for each. */
TIDINGS_API int tidings_client_walk(struct tidings_client *client, const char *uri,
                                    const struct tidings_walk_limits *limits, tidings_walk_fn fn,
                                    void *user, struct tidings_error *err);

/* ---- HTTP as it is --------------------------------------------------------------------------- */

/* One HTTP request to the server's address with just these headers and this body, whatever they
 * are, for programs that find out how a server behaves. The client's token and `headers` of its
 * options go along; its session and revision do not, and its own connection does not hear of it. */
struct tidings_client_http {
    const char *method;         /* "GET" (NULL means it), "POST", "DELETE" */
    const char *const *headers; /* "Name: value", NULL at the end; NULL: none; at most 8 */
    const char *body;           /* POST; NULL: an empty one */
    uint32_t timeout_ms;        /* for all of it; 0: that of the client */
    /* Called with `status` when the head of the answer has come, then with what comes of its body,
     * and with nothing (an empty `bytes`) when 100 ms went by without. Not 0: enough. NULL: not
     * needed. It may do whatever callbacks may. */
    int (*on_bytes)(void *user, long status, struct tidings_str bytes);
    void *user;
    void *reserved[4]; /* zero */
};
struct tidings_client_http_answer {
    long status;           /* 0: none came */
    char content_type[64]; /* lower case, without parameters; "": not said */
    char session[512];     /* Mcp-Session-Id; "": none */
    bool is_complete;      /* it came to its end; false: on_bytes had enough */
};
/* Make one HTTP request to the server's address and wait for the answer. Where it fails after the
 * head came, as by TIDINGS_E_TIMEOUT, `ret` has that. TIDINGS_E_UNSUPPORTED: the server is not
 * reached over HTTP. */
TIDINGS_API int tidings_client_http(struct tidings_client *client,
                                    const struct tidings_client_http *request,
                                    struct tidings_client_http_answer *ret,
                                    struct tidings_error *err);

/* ---- about ----------------------------------------------------------------------------------- */

/* Load what the client is built on, and return its name: "libcurl/7.88.1 OpenSSL/3.0.11". Free the
 * text with tidings_free. NULL when it cannot be loaded. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_client_library(void);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
