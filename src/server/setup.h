/* SPDX-License-Identifier: MIT
 *
 * From the configuration to the log: levels, format, file, access log; at the start, on a reload,
 * and when the file is to be opened again. The log is the process's own, so only a server that was
 * given a command line (tidings_server_args) touches it.
 */
#ifndef SERVER_SETUP_H
#define SERVER_SETUP_H

#include <tidings/provider.h>
#include <tidings/types.h>

struct config;
struct log_settings;

/* As soon as the settings are known: what is wanted. */
void log_setup_levels(const struct config *c);

/* -------------------------------------------------------------------------------------------------
 * The built-in providers, by name, and mounting those of the configuration.
 */

struct hub;

#define BUILTIN_NAMES "file, system, command"

/* NULL: no such. */
const struct tidings_provider_ops *builtin_find(struct tidings_str name);

/* hub_mount, for a table that may be a built-in one: what else is known of that one is set. */
int builtin_mount(struct hub *hub, const struct tidings_provider_ops *ops,
                  struct tidings_str prefix, struct tidings_str config, struct tidings_error *err);

#endif
