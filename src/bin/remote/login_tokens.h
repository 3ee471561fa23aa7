/* SPDX-License-Identifier: MIT
 *
 * The tokens of 'tidings login', where every command that talks to a server finds them:
 * $XDG_STATE_HOME/tidings/tokens.json (~/.local/state/…).
 */
#ifndef BIN_LOGIN_TOKENS_H
#define BIN_LOGIN_TOKENS_H

#include <limits.h>

#include <tidings/client.h>
#include <tidings/oauth.h>

#include "bin/cli/command.h"

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

#endif
