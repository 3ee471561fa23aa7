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
#ifndef PROVIDER_COMMAND_H
#define PROVIDER_COMMAND_H

#include <tidings/provider.h>

extern const struct tidings_provider_ops provider_command_ops;

#endif
