/* SPDX-License-Identifier: MIT
 *
 * What a service manager hands to a program and wants to hear from it, by the protocols of
 * sd_listen_fds(3) and sd_notify(3): listening sockets, readiness, the watchdog. All of it is in
 * the environment, which only the program looks at. Without a service manager nothing happens.
 */
#ifndef BIN_SYSTEMD_H
#define BIN_SYSTEMD_H

#include <tidings/server.h>

/* Open the sockets that were passed as listeners: `http` among their names (FileDescriptorName=) is
 * one, `lines`, `tcp` or `unix` the other; without such a name a Unix socket speaks lines, one of
 * the internet HTTP. The variables are removed, so that nobody else takes the descriptors for
 * theirs. */
int systemd_take_sockets(struct tidings_server *server, struct tidings_error *err);

/* Where to notify, for the calls below; and sign of life for the watchdog, if it is on. */
int systemd_open(struct tidings_server *server, struct tidings_error *err);
void systemd_ready(void);
/* Reading anew, until systemd_ready. */
void systemd_reloading(void); /* also from a signal handler */
void systemd_stopping(void);  /* likewise */

#endif
