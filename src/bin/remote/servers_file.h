/* SPDX-License-Identifier: MIT
 *
 * Files that give servers names: {"mcpServers": {"notes": {…}}} as hosts keep them, or
 * {"servers": {…}} as editors do. A server has `command`, `args`, `env` and `cwd` (it is launched),
 * or `url` and `headers`; `type` may say which. Comments are allowed, keys that are not known are
 * passed over. In all these texts variables are replaced: ${NAME} or ${env:NAME}, ${NAME:-text}
 * with what stands for an unset one, ${workspaceFolder} and ${userHome}.
 *
 * A file is input like any other: sizes and counts are bounded. Nothing here opens one.
 */
#ifndef BIN_SERVERS_FILE_H
#define BIN_SERVERS_FILE_H

#include <tidings/types.h>

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

#endif
