/* SPDX-License-Identifier: MIT
 *
 * Which server a command means. A target is a URL, or a name from one of these files, the first
 * that has it:
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

/* What to do about a failure of the client, or NULL. */
const char *target_hint(const struct cli *cli, int code);
/* What failed is on this side (a file, an option): the next target_hint is NULL. */
void target_is_innocent(void);

/* Each server that is known by name, and the file it comes from, those first that win; a name that
 * is hidden by an earlier one is told too. What cannot be read is told on standard error. */
struct target_place {
    const char *path;
    bool is_project; /* not the user's own */
};
typedef void (*target_fn)(void *user, const struct target_place *place,
                          const struct servers_entry *entry);
void target_each(const char *command, target_fn fn, void *user);

#endif
