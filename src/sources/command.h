/* SPDX-License-Identifier: MIT
 *
 * The command provider: one resource whose content is what a program writes to standard output.
 *
 * Mounted at cmd:///uptime/ it serves the one resource `cmd:///uptime`. Configuration:
 *
 *     {"argv": ["uptime", "-p"],   required; executed as it stands, no shell: 1 to 64 strings
 *      "interval": "5s",           how often it is run while somebody watches; 100ms to 24h;
 *                                  0: only when it is read; it cannot be subscribed to then
 *      "timeout": "10s",           after which it and all it started are killed; 100ms to 1h
 *      "maxOutput": "1m",          most bytes it may write; 1 to 64m
 *      "cwd": "/",                 where it runs; the server's own directory without
 *      "env": {"TZ": "UTC"},       added to PATH and LANG, which is all it has
 *      "mimeType": "text/plain",
 *      "name": …, "title": …, "description": …}
 *
 * At most one run is under way; whoever reads meanwhile shares it, and while somebody watches a
 * read gets the outcome of the newest run. A run ends when the program does: what it left running
 * in its process group is killed. A run that nobody waits for any more is killed too, and so is the
 * one under way when the server stops.
 *
 * An exit status other than 0, a signal, the timeout and too much output are failures: reading says
 * which, with the end of what was written to standard error. A change is announced when the outcome
 * (the output, or the failure) differs from the one before.
 */
#ifndef SOURCES_COMMAND_H
#define SOURCES_COMMAND_H

#include <tidings/provider.h>
#include <tidings/types.h>

extern const struct tidings_provider_ops provider_command_ops;

/* Returns true if the command runs for reads only ("interval" 0): it cannot be subscribed to. */
bool provider_command_is_mute(struct tidings_provider *p);

/* -------------------------------------------------------------------------------------------------
 * What a command provider is told to run, and how. See sources/command.h for the keys.
 */

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
