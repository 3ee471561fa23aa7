/* SPDX-License-Identifier: MIT
 *
 * The server of a command. A target is an address, a host and a port (short for
 * http://HOST:PORT/mcp), or a name. The first of these files that has the name wins:
 *
 *     $XDG_CONFIG_HOME/tidings/servers.json (~/.config/…)          the user's own
 *     .mcp.json, .vscode/mcp.json here and in the folders above    the project's, up to the folder
 *                                                                  of its repository or the home
 *
 * A project's file can run any command. Therefore it is read only to resolve a given name, and
 * never overrides a name of the user's own file. It is ignored if another user can write it
 * (<tidings/file.h>). Until the user agrees (trust.h), it gets no access to the user's data. A
 * command that it launches is printed.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <tidings/types.h>

#include "cli/command.h"

/* -------------------------------------------------------------------------------------------------
 * Files that name servers: {"mcpServers": {"notes": {…}}} as hosts keep them, or {"servers": {…}}
 * as editors do. A server has `command`, `args`, `env` and `cwd` (it is launched), or `url` and
 * `headers`; `type` may name the kind. Comments are allowed, unknown keys are ignored. Variables
 * are replaced in all these strings: ${NAME} or ${env:NAME}, ${NAME:-text} with a default for an
 * unset variable, ${workspaceFolder} and ${userHome}.
 *
 * The file is untrusted input: sizes and counts are bounded. These functions do not open files.
 */

#define SERVERS_FILE_MAX (1u << 20) /* bytes */
#define SERVERS_TEXT_MAX 32768u     /* of one string, after variable replacement */

/* Strings, NULL at the end, each freed with tidings_free. */
#define TEXTS_MAX 1000u
struct texts {
    char **items;
    size_t count;
};

/* How a server is reached. */
struct target {
    char *url;              /* or NULL: it is launched */
    struct texts command;   /* the program and its arguments */
    struct texts env;       /* "NAME=value", added to the inherited environment */
    struct texts headers;   /* "Name: value" */
    char *directory;        /* working directory of a launched server; NULL: the current one */
    struct texts variables; /* names of the replaced variables, except workspaceFolder */
    char *entry;            /* the whole entry, as compact JSON */
};
void target_deinit(struct target *target);

/* The source of variables for the strings of a file. */
struct servers_context {
    const char *path;                          /* of the file, for messages */
    const char *folder;                        /* ${workspaceFolder} */
    const char *(*variable)(const char *name); /* NULL: not set */
    struct texts *variables; /* collects the names of replaced variables; NULL: not needed */
};

/* Finds the server of that name. `target` is zeroed; deinit it in any case. TIDINGS_E_NOTFOUND: the
 * file has no server of that name; other codes: the entry is unusable, and the error message gives
 * the reason. */
int servers_find(const struct servers_context *context, struct tidings_str file, const char *name,
                 struct target *target, struct tidings_error *err);

/* A server of the file as it is written there. */
struct servers_entry {
    struct tidings_str name;
    const char *kind; /* "url", "command", or "unusable" */
    struct tidings_str what;
    struct tidings_str text; /* the whole entry: compact JSON */
};
/* Each server of the file. Borrowed for the call. */
typedef void (*servers_fn)(void *user, const struct servers_entry *entry);
int servers_each(const struct servers_context *context, struct tidings_str file, servers_fn fn,
                 void *user, struct tidings_error *err);

/* Returns true for a name that shells and terminals treat literally: letters, digits, '.', '_',
 * '-'. */
bool servers_name_is_plain(struct tidings_str name);

/* The client of a command's target, not connected yet. NULL with `err`. Names and the token are
 * read from their files here, and the token again for each request: `cli` must outlive the
 * client. */
struct tidings_client *target_open(const struct cli *cli, struct tidings_error *err);

/* A stable identity of that server: its URL, or the JSON array of the launched command;
 * tidings_free it. Call it after target_open, which asks for consent. NULL with `err`. */
char *target_address(const struct cli *cli, struct tidings_error *err);

/* A hint about a failure of the client, or NULL. `wants_login`: as tidings_client_wants_credentials
 * returns it. */
const char *target_hint(const struct cli *cli, const struct tidings_error *err, bool wants_login);
/* The failure is local (a file, an option): the next target_hint returns NULL. */
void target_is_innocent(void);

/* Each server with a name, and the file that defines it, in order of precedence; names hidden by an
 * earlier entry are included. Unreadable files are reported on standard error. */
struct target_source {
    const char *path;
    bool is_project; /* not the user's own */
};
typedef void (*target_fn)(void *user, const struct target_source *source,
                          const struct servers_entry *entry);
void target_each(const char *command, target_fn fn, void *user);

/* The default for commands that name no server: TIDINGS_SERVER, or the name `default` of the user's
 * own file, or 127.0.0.1:7777. Fills in `target` and `origin`, and removes the server from the
 * arguments if the first one is a server. */
void target_choose(struct cli *cli);
/* The server and the reason for the choice, for messages: "the server is 'x'"; suggests a similar
 * name. */
#define TARGET_TEXT_MAX 256u
const char *target_choice_text(const struct cli *cli, char out[TARGET_TEXT_MAX]);
/* A hint (NULL: none), and the server unless the user named it. Valid until the next call. */
const char *target_hint_with(const struct cli *cli, const char *hint);

#endif
