/* SPDX-License-Identifier: MIT
 *
 * The built-in providers, by name, and mounting those of the configuration.
 */
#ifndef SERVER_BUILTIN_PROVIDERS_H
#define SERVER_BUILTIN_PROVIDERS_H

#include <tidings/provider.h>

struct config;
struct hub;

#define BUILTIN_NAMES "file, system, command"

/* NULL: no such. */
const struct tidings_provider_ops *builtin_find(struct tidings_str name);

/* hub_mount, for a table that may be a built-in one: what else is known of that one is set. */
int builtin_mount(struct hub *hub, const struct tidings_provider_ops *ops,
                  struct tidings_str prefix, struct tidings_str config, struct tidings_error *err);
/* Open everything the configuration mounts, in its order. */
int builtin_mount_all(struct hub *hub, const struct config *c, struct tidings_error *err);

#endif
