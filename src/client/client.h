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
#define CLIENT_MAX_TOKEN_LINE 16384u /* with the name of the header */

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
    /* The client has given up, for the reason that tidings_client_step would return, and does
     * nothing until the program asks for something. NULL: not needed. */
    void (*on_failed)(void *user, const struct tidings_error *why);
    /* A destroyed client is gone. It is called when no callback is on the stack. NULL: likewise. */
    void (*on_closed)(void *user);
    void *user;
};

/* As tidings_client_create and tidings_client_launch. `host` NULL: the client has its own loop. */
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

/* How long to wait before the next attempt, after so many in a row that failed. The first is soon,
 * anywhere within the shortest: an end may be no more than a server that moves its clients. Then
 * doubling up to the longest, the upper half by chance. So many clients do not come back in step.
 */
uint32_t settings_pause(const struct client_settings *s, unsigned failures);
/* A copy of a list with NULL at its end; NULL: out of memory. */
void settings_drop_list(char **list); /* NULL is fine */

/* -------------------------------------------------------------------------------------------------
 * What an HTTP request of a client shows so that it is let in: the lines that the program's
 * credentials (<tidings/credentials.h>), its function or its token put there.
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
/* What a request shall show now, instead of what was there. */
int credentials_lines_fill(struct credentials_lines *l, const struct client_settings *s,
                           const char *method, const char *url);
/* Likewise where a function gives tokens, if it gives another one; false: it does not. */
bool credentials_lines_renew(struct credentials_lines *l, const struct client_settings *s);
/* "Authorization: …"; empty: none. */
struct tidings_str credentials_lines_authorization(const struct credentials_lines *l);

/* -------------------------------------------------------------------------------------------------
 * Failures that a server reports, as TIDINGS_E_* codes: from JSON-RPC errors and HTTP statuses.
 */

/* Of an error object; `status` as in struct response. */
int errors_from_response(struct json *error, long status, struct tidings_error *err);
/* The code that `data.reason` of an error names; 0: none. */
int errors_from_reason(struct json *data);
/* … and of a status without one; `url`: what was asked, or NULL; `challenge`: WWW-Authenticate, or
 * empty. */
int errors_from_status(const char *url, long status, struct tidings_str challenge,
                       struct tidings_error *err);

/* Append what the server says besides: the first line of a text, or the sentence in a JSON object.
 * A page of HTML, or anything else that is no text, adds nothing. */
void errors_add_body(struct tidings_str body, struct tidings_error *err);

/* A method that the server does not know, where its capabilities (JSON text) say that it has
 * nothing of the kind, is told so: "the server offers no prompts". */
void errors_name_missing(const char *method, const char *capabilities, struct tidings_error *err);
/* Is that what a port for TLS says to whoever speaks none? */
bool errors_want_tls(struct tidings_str text);

/* -------------------------------------------------------------------------------------------------
 * What a server logs (notifications/message): asked for from a level on, in both eras, and told to
 * the program as it comes.
 */

/* Legacy: is it to be asked for, once the client is ready? With the parameters of
 * logging/setLevel. */
#define SERVER_LOG_PARAMS 48u
bool server_log_is_asked(const struct tidings_client *c, char params[SERVER_LOG_PARAMS]);
/* Modern: each request says in its `_meta`, whose own members are `meta`, what it wants to hear. */
void server_log_put_level(const struct tidings_client *c, const struct json *meta, struct jw *w);
/* It came. */
void server_log_received(struct tidings_client *c, struct json *params);

/* -------------------------------------------------------------------------------------------------
 * Noticing a connection that is dead without anybody having said so. Servers that send comments or
 * pings when they have nothing to say are held to that: silence of three times the longest pause
 * between them, and five seconds more, is an end. Of a server that never sent any, silence says
 * nothing, unless the program says how long is too long (silence_ms).
 */

#define HEARTBEAT_BEATS 2u         /* so many make a rhythm */
#define HEARTBEAT_SHORTEST_MS 500u /* what comes sooner is no sign of one */
#define HEARTBEAT_MORE_MS 5000u

void heartbeat_init(struct tidings_client *c);
/* Something is watched from now on. */
void heartbeat_begin(struct tidings_client *c);
void heartbeat_end(struct tidings_client *c);
/* The server was heard; `is_beat`: only to show that it is there. */
void heartbeat_received(struct tidings_client *c, bool is_beat);
/* How long is too long, ms; 0: nothing is. */
uint64_t heartbeat_limit(const struct tidings_client *c);

#endif
