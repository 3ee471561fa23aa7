/* SPDX-License-Identifier: MIT
 *
 * The options of a client, checked, owned and with their defaults.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <tidings/client.h>
#include <tidings/credentials.h>
#include <tidings/types.h>

#include "base/str.h"
#include "formats/http_fields.h"
#include "formats/json.h"
#include "formats/json_write.h"

#define CLIENT_MODERN TIDINGS_PROTOCOL_MODERN
#define CLIENT_LEGACY TIDINGS_PROTOCOL_LEGACY
#define CLIENT_MAX_HEADERS 32u
#define CLIENT_MAX_TOKEN_LINE 16384u /* including the header's name */

struct loop;
struct tidings_client;

/* -------------------------------------------------------------------------------------------------
 * Clients on a loop of their program, so that one thread serves many.
 *
 * Such a client puts its descriptors and timers on the loop, connects in its first turn, and calls
 * the program in turns, on the loop's thread. Functions that wait for an answer take nested turns,
 * in which all clients of the loop call the program. tidings_client_step and tidings_client_run are
 * refused, and there is no descriptor.
 *
 * tidings_client_destroy may be called in any callback; nothing is called back after it. The client
 * ends its session in further turns, for at most CLIENT_LEAVE_MS, then removes everything from the
 * loop.
 */

#define CLIENT_LEAVE_MS 10000u

struct client_host {
    struct loop *loop; /* outlives the client, until on_closed */
    /* The client has given up, for the reason that tidings_client_step would return, and is idle
     * until the program makes a request. NULL: not needed. */
    void (*on_failed)(void *user, const struct tidings_error *why);
    /* A destroyed client is freed. Called when no callback is on the stack. NULL: likewise. */
    void (*on_closed)(void *user);
    void *user;
};

/* Like tidings_client_create and tidings_client_launch. `host` NULL: the client has its own
 * loop. */
struct tidings_client *client_create_on(const struct client_host *host, const char *address,
                                        const struct tidings_client_options *options,
                                        struct tidings_error *err);
struct tidings_client *client_launch_on(const struct client_host *host, const char *const *argv,
                                        const struct tidings_client_options *options,
                                        struct tidings_error *err);

/* tidings_client_options, owned and with the defaults in place; see there. */
struct client_settings {
    char *name, *token, *version, *directory;
    char *ca_file, *cert_file, *key_file;
    char **headers, **env; /* NULL at the end; NULL: none */
    tidings_client_token_fn on_token;
    tidings_client_stderr_fn on_stderr;
    tidings_client_wire_fn on_wire;
    void *token_user, *stderr_user, *wire_user;
    const struct tidings_credentials *credentials; /* NULL: none */
    uint32_t timeout_ms, retry_min_ms, retry_max_ms, probe_ms, verify_ms, silence_ms;
    struct trace trace; /* empty: none */
    size_t max_bytes;
    bool list_changes, no_compare;
};

/* The delay before the next attempt, after this number of failures in a row. The first delay is a
 * random time up to the shortest: the server may have ended the connection only to move its
 * clients. Later delays double up to the longest; their upper half is random. So the clients of a
 * server reconnect at different times. */
uint32_t settings_pause(const struct client_settings *s, unsigned failures);
/* A copy of a list with NULL at its end; NULL: out of memory. */
void settings_drop_list(char **list); /* NULL is fine */

/* -------------------------------------------------------------------------------------------------
 * Credentials in an HTTP request of a client: the header lines that the program's credentials
 * (<tidings/credentials.h>), its function or its token put there.
 */

#define CREDENTIALS_LINES 4u

struct client_settings;

struct credentials_lines {
    struct buf lines[CREDENTIALS_LINES]; /* "Name: value" */
    size_t count;
    const char *server; /* as in struct tidings_credentials_request; borrowed */
};

void credentials_lines_init(struct credentials_lines *l);
void credentials_lines_deinit(struct credentials_lines *l);
/* Replaces the lines with the current credentials. */
int credentials_lines_fill(struct credentials_lines *l, const struct client_settings *s,
                           const char *method, const char *url);
/* The same if a function supplies tokens: returns false if it has no other token. */
bool credentials_lines_renew(struct credentials_lines *l, const struct client_settings *s);
/* "Authorization: …"; empty: none. */
struct tidings_str credentials_lines_authorization(const struct credentials_lines *l);

/* -------------------------------------------------------------------------------------------------
 * Failures that a server reports, as TIDINGS_E_* codes: from JSON-RPC errors and HTTP statuses.
 */

/* From an error object; `status` as in struct response. */
int errors_from_response(struct json *error, long status, struct tidings_error *err);
/* The code that `data.reason` of an error names; 0: none. */
int errors_from_reason(struct json *data);
/* From a status without an error object; `url`: the requested URL, or NULL; `challenge`:
 * WWW-Authenticate, or empty. */
int errors_from_status(const char *url, long status, struct tidings_str challenge,
                       struct tidings_error *err);

/* Appends the server's own message: the first line of a plain text, or the message in a JSON
 * object. HTML and other content adds nothing. */
void errors_add_body(struct tidings_str body, struct tidings_error *err);

/* The server does not know a method, and its capabilities (JSON text) lack the feature: sets an
 * error that names it, such as "the server offers no prompts". */
void errors_name_missing(const char *method, const char *capabilities, struct tidings_error *err);
/* Returns true if the text is a TLS port's answer to a client without TLS. */
bool errors_want_tls(struct tidings_str text);

/* -------------------------------------------------------------------------------------------------
 * The server's log (notifications/message): requested from a minimum level, in both eras, and
 * passed to the program as it comes.
 */

/* Legacy: returns true if the log must be requested once the client is ready. With the parameters
 * of logging/setLevel. */
#define SERVER_LOG_PARAMS 48u
bool server_log_is_asked(const struct tidings_client *c, char params[SERVER_LOG_PARAMS]);
/* Modern: writes the level that each request contains in its `_meta`; `meta` has the members of
 * `_meta` itself. */
void server_log_put_level(const struct tidings_client *c, const struct json *meta, struct jw *w);
/* A log message came. */
void server_log_received(struct tidings_client *c, struct json *params);

/* -------------------------------------------------------------------------------------------------
 * Detects dead connections. If a server sends comments or pings while idle, the connection is dead
 * after a silence of three times the longest pause between them, and five seconds more. For a
 * server that never sent any, silence means nothing, unless the program sets a limit (silence_ms).
 */

#define HEARTBEAT_BEATS 2u         /* beats that make a rhythm */
#define HEARTBEAT_SHORTEST_MS 500u /* shorter pauses are not beats */
#define HEARTBEAT_MORE_MS 5000u

void heartbeat_init(struct tidings_client *c);
/* Begins to watch the connection, once there are subscriptions. */
void heartbeat_begin(struct tidings_client *c);
void heartbeat_end(struct tidings_client *c);
/* Bytes came from the server; `is_beat`: only to keep the connection alive. */
void heartbeat_received(struct tidings_client *c, bool is_beat);
/* The silence after which a connection is dead, ms; 0: unlimited. */
uint64_t heartbeat_limit(const struct tidings_client *c);

#endif
