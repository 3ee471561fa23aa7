/* SPDX-License-Identifier: MIT
 *
 * What commands that talk to a server share: connect, run, tell failures, end by a signal or a time
 * limit.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <limits.h>
#include <stdbool.h>

#include <tidings/client.h>
#include <tidings/oauth.h>

#include "cli/command.h"

/* What a command does with its server: 0, or a negative code with `err`, or an exit status above 0
 * whose reason it has told. */
typedef int (*remote_fn)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);

/* Do it with the command's target, tell what failed, write out what is left: the exit status. */
int remote_run(struct cli *cli, remote_fn fn);

/* Say of which resource it was that the server refused something; returns the code. */
int remote_about(struct tidings_client *client, const char *uri, struct tidings_error *err);

/* With each argument of the command; the failure of one is told and does not keep the others back,
 * unless it is the only one. The status of the first failure. */
typedef int (*remote_each_fn)(struct cli *cli, struct tidings_client *client, size_t index,
                              struct tidings_error *err);
int remote_each(struct cli *cli, struct tidings_client *client, remote_each_fn fn,
                struct tidings_error *err);

/* SIGINT and SIGTERM stop this client from now on, so that a launched server ends in order; a
 * second one kills. NULL: no client any more. */
void remote_interruptible(struct tidings_client *client);
/* The signal that came; 0: none. */
extern volatile int remote_caught;
/* Stop that client too when this time is over, whatever it waits for then. 0: never. */
void remote_end_after(uint64_t ms);
/* The time was over. */
extern volatile int remote_late;

/* Say on standard error what the server sent that was put right, since it was said last. */
void remote_say_mended(const struct cli *cli, struct tidings_client *client);

/* Milliseconds of a clock that only goes forward. */
uint64_t now_ms(void);

/* The string at `pointer`, "" where there is none; tidings_free it. NULL: no memory. */
char *text_at(struct tidings_str json, const char *pointer);
/* Is there a true at `pointer`? */
bool is_true_at(struct tidings_str json, const char *pointer);

/* -------------------------------------------------------------------------------------------------
 * Prints what goes over the wire on standard error, for -v: '>' is sent, '<' has come; and for
 * --log what the server logs. It is a
 * stranger's text: control characters are escaped, and what is long is cut. Headers, tokens among
 * them, are not told here at all.
 */

#define VERBOSE_MAX 4096u /* bytes of a message that are shown */

/* Of tidings_client_options, without a `wire_user`. */
void verbose_print(void *user, const struct tidings_client_wire *wire);
/* Of tidings_client_on_log, without a `user`. */
void verbose_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                 struct tidings_str data);

/* -------------------------------------------------------------------------------------------------
 * The tokens of 'tidings login', where every command that talks to a server finds them:
 * $XDG_STATE_HOME/tidings/tokens.json (~/.local/state/…).
 */

/* Where they are. */
int login_tokens_path(char path[PATH_MAX], struct tidings_error *err);

/* The address that tokens for a server are kept by: http or https, also for ws and wss;
 * tidings_free it. NULL: it is another one, or out of memory. */
char *login_tokens_address(const char *url);

/* Have the client show the token for its server, if anybody ever logged in or may do so now
 * (--login), and nothing else is to be shown. What it stands on lives until login_tokens_end. */
int login_tokens_use(const struct cli *cli, const char *url, struct tidings_client_options *options,
                     struct tidings_error *err);

/* After the last client: a token that is just being renewed is waited for, a few seconds. */
void login_tokens_end(void);

/* What to do about a server that refuses: good until the next one. */
const char *login_tokens_hint(const struct cli *cli);

/* -------------------------------------------------------------------------------------------------
 * Shows a person where to agree to a login: the address on standard error, and in a browser.
 */

/* `url` is http or https, of visible characters, as the library gives it. `opens`: in the program
 * that BROWSER names, else by xdg-open where there is a screen; nobody waits for that. */
void browser_show(const char *command, const char *url, bool opens);

#endif
