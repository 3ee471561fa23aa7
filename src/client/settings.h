/* SPDX-License-Identifier: MIT
 *
 * The options of a client, checked, owned and with their defaults.
 */
#ifndef CLIENT_SETTINGS_H
#define CLIENT_SETTINGS_H

#include <tidings/client.h>

#include "base/str.h"
#include "wire/trace.h"

#define CLIENT_MODERN TIDINGS_PROTOCOL_MODERN
#define CLIENT_LEGACY TIDINGS_PROTOCOL_LEGACY
#define CLIENT_MAX_HEADERS 32u
#define CLIENT_MAX_TOKEN_LINE 16384u /* with the name of the header */

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

/* `options` may be NULL. After a failure (TIDINGS_E_INVALID, TIDINGS_E_NOMEM) too there is
 * something to deinit. */
int settings_init(struct client_settings *s, const struct tidings_client_options *options,
                  struct tidings_error *err);
void settings_deinit(struct client_settings *s);
/* "Authorization: Bearer …", or nothing; NUL-terminated, as every struct buf. */
void settings_put_token(const struct client_settings *s, struct buf *out);
/* The server refused the token in `line`: does the program have another one? It is there then. */
bool settings_renew_token(const struct client_settings *s, struct buf *line);
/* How long to wait before the next attempt, after so many in a row that failed. The first is soon,
 * anywhere within the shortest: an end may be no more than a server that moves its clients. Then
 * doubling up to the longest, the upper half by chance. So many clients do not come back in step.
 */
uint32_t settings_pause(const struct client_settings *s, unsigned failures);
/* A copy of a list with NULL at its end; NULL: out of memory. */
char **settings_copy_list(const char *const *list);
void settings_drop_list(char **list); /* NULL is fine */

#endif
