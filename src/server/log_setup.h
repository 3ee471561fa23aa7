/* SPDX-License-Identifier: MIT
 *
 * From the configuration to the log: levels, format, file, access log; at the start, on a reload,
 * and when the file is to be opened again. The log is the process's own, so only a server that was
 * given a command line (tidings_server_args) touches it.
 */
#ifndef SERVER_LOG_SETUP_H
#define SERVER_LOG_SETUP_H

#include <tidings/types.h>

struct config;
struct log_settings;

/* As soon as the settings are known: what is wanted. */
void log_setup_levels(const struct config *c);
/* Before the process confines itself: where it goes, and how it is written. */
int log_setup_open(const struct config *c, struct tidings_error *err);

/* What the file of the configuration, read again, says of levels, format and the access log. *ret
 * NULL: there is no file. */
int log_setup_load(const struct config *c, struct log_settings **ret, struct tidings_error *err);
void log_setup_put(struct log_settings *fresh); /* takes it */
void log_setup_drop(struct log_settings *fresh);

#endif
