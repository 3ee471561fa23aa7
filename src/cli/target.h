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
 * it (<tidings/file.h>), does nothing with what is the person's before they agreed (trust.h), and
 * what is launched because of it is said.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <tidings/types.h>

#include "cli/command.h"

/* -------------------------------------------------------------------------------------------------
 * Files that give servers names: {"mcpServers": {"notes": {…}}} as hosts keep them, or
 * {"servers": {…}} as editors do. A server has `command`, `args`, `env` and `cwd` (it is launched),
 * or `url` and `headers`; `type` may say which. Comments are allowed, keys that are not known are
 * passed over. In all these texts variables are replaced: ${NAME} or ${env:NAME}, ${NAME:-text}
 * with what stands for an unset one, ${workspaceFolder} and ${userHome}.
 *
 * A file is input like any other: sizes and counts are bounded. Nothing here opens one.
 */

#define SERVERS_FILE_MAX (1u << 20) /* bytes */
#define SERVERS_TEXT_MAX 32768u     /* of one text, after the variables were replaced */

/* Texts, NULL at the end, each freed with tidings_free. */
#define TEXTS_MAX 1000u
struct texts {
    char **items;
    size_t count;
};

/* How a server is reached. */
struct target {
    char *url;              /* or NULL: it is launched */
    struct texts command;   /* the program and its arguments */
    struct texts env;       /* "NAME=value", besides what there is */
    struct texts headers;   /* "Name: value" */
    char *directory;        /* to launch it in; NULL: this one */
    struct texts variables; /* names of those that were put in, but for workspaceFolder */
    char *entry;            /* all it says, as it is written: compact JSON */
};
void target_deinit(struct target *target);

/* Where texts of a file get their variables from. */
struct servers_context {
    const char *path;                          /* of the file, for messages */
    const char *folder;                        /* ${workspaceFolder} */
    const char *(*variable)(const char *name); /* NULL: not set */
    struct texts *variables;                   /* names of those put in go here; NULL: nowhere */
};

/* The server of that name. `target` is zeroed; deinit it in any case. TIDINGS_E_NOTFOUND: the file
 * has none of that name; other codes: it cannot be used, and the sentence says why. */
int servers_find(const struct servers_context *context, struct tidings_str file, const char *name,
                 struct target *target, struct tidings_error *err);

/* A server of the file as it is written there. */
struct servers_entry {
    struct tidings_str name;
    const char *kind; /* "url", "command", or "unusable" */
    struct tidings_str what;
    struct tidings_str text; /* all it says: compact JSON */
};
/* Each server of the file. Borrowed for the call. */
typedef void (*servers_fn)(void *user, const struct servers_entry *entry);
int servers_each(const struct servers_context *context, struct tidings_str file, servers_fn fn,
                 void *user, struct tidings_error *err);

/* A name that no shell and no terminal takes for anything else: letters, digits, '.', '_', '-'. */
bool servers_name_is_plain(struct tidings_str name);

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

#endif
