/* SPDX-License-Identifier: MIT
 *
 * The command provider: one resource whose content is the standard output of a program.
 *
 * Mounted at cmd:///uptime/ it serves the one resource `cmd:///uptime`. Configuration:
 *
 *     {"argv": ["uptime", "-p"],   required; executed verbatim, without a shell: 1 to 64 strings
 *      "interval": "5s",           between two runs while subscribed; 100ms to 24h;
 *                                  0: runs only for reads; subscriptions are rejected then
 *      "timeout": "10s",           after which its process group is killed; 100ms to 1h
 *      "maxOutput": "1m",          maximum bytes of output; 1 to 64m
 *      "cwd": "/",                 working directory; default: the server's
 *      "env": {"TZ": "UTC"},       added to PATH and LANG, the only default variables
 *      "mimeType": "text/plain",
 *      "name": …, "title": …, "description": …}
 *
 * At most one run is active, and concurrent readers share it. While there are subscriptions, a read
 * gets the outcome of the newest run. A run ends with the program: the remaining processes of its
 * group are killed. A run without readers and subscriptions is killed, too, and so is the active
 * run when the server stops.
 *
 * An exit status other than 0, a signal, the timeout and too much output are failures: a read
 * returns the reason with the end of standard error. A change is announced when the outcome (the
 * output, or the failure) differs from the previous one.
 */
#ifndef SOURCES_COMMAND_H
#define SOURCES_COMMAND_H

#include <tidings/provider.h>
#include <tidings/types.h>

extern const struct tidings_provider_ops provider_command_ops;

/* Returns true if the command runs for reads only ("interval" 0): it rejects subscriptions. */
bool provider_command_is_mute(struct tidings_provider *p);

/* -------------------------------------------------------------------------------------------------
 * The settings of a command provider. The top of this file explains the keys.
 */

#define COMMAND_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define COMMAND_WORDS_MAX 64u /* arguments; variables */

struct command_settings {
    char *id; /* the prefix of its mount, by which the helper knows it; the caller sets it */
    char *argv[COMMAND_WORDS_MAX + 1];                  /* NULL at the end */
    char *env[COMMAND_WORDS_MAX + 3];                   /* "NAME=value", NULL at the end */
    const char *path;                                   /* its PATH */
    char *cwd, *mime_type, *name, *title, *description; /* NULL: not set */
    uint64_t interval_ms, timeout_ms, max_output;
};

/* `s` is all zero before. Call command_settings_deinit even after a failure. */
int command_settings_read(struct command_settings *s, struct tidings_str config,
                          struct tidings_error *err);
void command_settings_deinit(struct command_settings *s);

#endif
