/* SPDX-License-Identifier: MIT
 *
 * The shared part of commands that use a server: connect, run, report failures, stop on a signal or
 * a time limit.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <limits.h>
#include <stdbool.h>

#include <tidings/client.h>
#include <tidings/oauth.h>

#include "cli/command.h"

/* The work of a command with its server. Returns 0, or a negative code with `err`, or an exit
 * status above 0 whose reason it has printed. */
typedef int (*remote_fn)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);

/* Run it with the command's target, report failures, flush the output; returns the exit status. */
int remote_run(struct cli *cli, remote_fn fn);

/* Add the URI of the refused resource to the error; returns the code. */
int remote_about(struct tidings_client *client, const char *uri, struct tidings_error *err);

/* Runs for each argument of the command. A failure is reported, and the other arguments are still
 * handled. A single argument fails like the command. Returns the status of the first failure. */
typedef int (*remote_each_fn)(struct cli *cli, struct tidings_client *client, size_t index,
                              struct tidings_error *err);
int remote_each(struct cli *cli, struct tidings_client *client, remote_each_fn fn,
                struct tidings_error *err);

/* From now on SIGINT and SIGTERM stop this client, so that a launched server exits cleanly; a
 * second signal kills. NULL: no client. */
void remote_interruptible(struct tidings_client *client);
/* The signal that came; 0: none. */
extern volatile int remote_caught;
/* Also stop that client after this time, even while it waits. 0: never. */
void remote_end_after(uint64_t ms);
/* The time limit was reached. */
extern volatile int remote_late;

/* Print on standard error which server messages were repaired since the last call. */
void remote_say_mended(const struct cli *cli, struct tidings_client *client);

/* Milliseconds of a monotonic clock. */
uint64_t now_ms(void);

/* The string at `pointer`, "" if there is none; tidings_free it. NULL: no memory. */
char *text_at(struct tidings_str json, const char *pointer);
/* Returns true if the value at `pointer` is true. */
bool is_true_at(struct tidings_str json, const char *pointer);

/* -------------------------------------------------------------------------------------------------
 * Prints the messages on the wire on standard error, for -v: '>' is sent, '<' is received; for
 * --log, prints the server's log. This text is untrusted: control characters are escaped, and long
 * text is truncated. Headers, including tokens, are never printed.
 */

#define VERBOSE_MAX 4096u /* bytes of a message that are printed */

/* For tidings_client_options, without a `wire_user`. */
void verbose_print(void *user, const struct tidings_client_wire *wire);
/* For tidings_client_on_log, without a `user`. */
void verbose_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                 struct tidings_str data);

/* -------------------------------------------------------------------------------------------------
 * The tokens of 'tidings login', which every command that uses a server reads:
 * $XDG_STATE_HOME/tidings/tokens.json (~/.local/state/…).
 */

/* The path of that file. */
int login_tokens_path(char path[PATH_MAX], struct tidings_error *err);

/* The address under which the tokens of a server are stored: http or https, which ws and wss map
 * to; tidings_free it. NULL: another scheme, or out of memory. */
char *login_tokens_address(const char *url);

/* Let the client send the stored token of its server. Does nothing unless a token file exists or
 * --login allows a login, nor if the client sends another token, which is an error with --login.
 * The data behind the options lives until login_tokens_end. */
int login_tokens_use(const struct cli *cli, const char *url, struct tidings_client_options *options,
                     struct tidings_error *err);

/* Call after the last client: waits a few seconds for a token renewal in progress. */
void login_tokens_end(void);

/* A hint about a server that refuses access; valid until the next call. */
const char *login_tokens_hint(const struct cli *cli);

/* -------------------------------------------------------------------------------------------------
 * Shows where the user approves a login: the address on standard error, and in a browser.
 */

/* `url` is http or https, of visible characters, as the library returns it. `opens`: start the
 * program that BROWSER names, or xdg-open if there is a display; never waits for it. */
void browser_show(const char *command, const char *url, bool opens);

#endif
