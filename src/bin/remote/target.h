/* SPDX-License-Identifier: MIT
 *
 * Which server a command means. A target is an address, a host and a port, which stand for
 * http://HOST:PORT/mcp, or a name from one of these files, the first that has it:
 *
 *     $XDG_CONFIG_HOME/tidings/servers.json (~/.config/…)          the user's own
 *     .mcp.json, .vscode/mcp.json here and in the folders above    the project's, up to the folder
 *                                                                  of its repository or the home
 *
 * A project's file can have any command run: it is looked at only for a name that was given, never
 * takes the place of a name of the user's own, is passed over when somebody else may have written
 * it (<tidings/file.h>), does nothing with what is the person's before they agreed (consent.h), and
 * what is launched because of it is said.
 */
#ifndef BIN_TARGET_H
#define BIN_TARGET_H

#include "bin/cli/command.h"
#include "bin/remote/servers_file.h"

/* The client of a command's target, not connected yet. NULL with `err`. What of it lies in files
 * (names, tokens) is read here, and the token again for each request: `cli` must outlive it. */
struct tidings_client *target_open(const struct cli *cli, struct tidings_error *err);

/* Which server that is, as a text that stays the same: its URL, or the JSON array of the command
 * that is launched; tidings_free it. Behind target_open, which asks whoever has to agree. NULL with
 * `err`. */
char *target_address(const struct cli *cli, struct tidings_error *err);

/* What to do about a failure of the client, or NULL. `wants_login`: as its
 * tidings_client_wants_credentials says. */
const char *target_hint(const struct cli *cli, const struct tidings_error *err, bool wants_login);
/* What failed is on this side (a file, an option): the next target_hint is NULL. */
void target_is_innocent(void);

/* Each server that is known by name, and the file it comes from, those first that win; a name that
 * is hidden by an earlier one is told too. What cannot be read is told on standard error. */
struct target_source {
    const char *path;
    bool is_project; /* not the user's own */
};
typedef void (*target_fn)(void *user, const struct target_source *source,
                          const struct servers_entry *entry);
void target_each(const char *command, target_fn fn, void *user);

/* The default of commands that name no server: TIDINGS_SERVER, or the name `default` of the
 * person's own file, or 127.0.0.1:7777. Fills in `target` and `origin`, and takes the server out of
 * the arguments when the first is one. */
void target_choose(struct cli *cli);
/* Which it is and why, for messages: "the server is 'x'"; what is nearly a name is named. */
#define TARGET_TEXT_MAX 256u
const char *target_choice_text(const struct cli *cli, char out[TARGET_TEXT_MAX]);
/* A hint (NULL: none), and which server it is unless it was named. Good until the next one. */
const char *target_hint_with(const struct cli *cli, const char *hint);

/* Could it be a name? */
bool target_is_name(const char *text);
/* Is it an address, or a host and a port? */
bool target_is_address(const char *text);
/* Is there a server of that name? With `is_cautious` one of a project counts only when it was
 * agreed to. Also true when nobody can know, since the person's own file cannot be used: whoever
 * opens it then hears why. */
bool target_knows(const char *command, const char *name, bool is_cautious);
/* Has the person's own file a server by the name `default`? The same. */
bool target_has_default(const char *command);
/* The name that is known and nearest to one that is not. */
bool target_suggest(const char *name, char *out, size_t size);

#endif
