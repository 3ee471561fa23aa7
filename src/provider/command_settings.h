/* SPDX-License-Identifier: MIT
 *
 * What a command provider is told to run, and how. See provider/command.h for the keys.
 */
#ifndef PROVIDER_COMMAND_SETTINGS_H
#define PROVIDER_COMMAND_SETTINGS_H

#include <tidings/types.h>

#define COMMAND_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define COMMAND_WORDS_MAX 64u /* arguments; variables */

struct command_settings {
    char *id; /* the prefix it is mounted at, by which the helper knows it; the reader's to set */
    char *argv[COMMAND_WORDS_MAX + 1];                  /* NULL at the end */
    char *env[COMMAND_WORDS_MAX + 3];                   /* "NAME=value", NULL at the end */
    const char *path;                                   /* the PATH it has */
    char *cwd, *mime_type, *name, *title, *description; /* NULL: not given */
    uint64_t interval_ms, timeout_ms, max_output;
};

/* `s` is all zero before; command_settings_deinit is due also after a failure. */
int command_settings_read(struct command_settings *s, struct tidings_str config,
                          struct tidings_error *err);
void command_settings_deinit(struct command_settings *s);

#endif
