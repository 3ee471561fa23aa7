/* SPDX-License-Identifier: MIT
 *
 * `tidings version`: the version, and which of the libraries are at hand.
 */
#include <stdio.h>

#include <tidings/client.h>
#include <tidings/server.h>

#include "command.h"

static int run(struct cli *cli)
{
    (void)cli;
    char *client = tidings_client_library();
    printf("tidings %s\n", tidings_version());
    printf("  protocol  2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05\n");
    printf("  server    libuv, jansson\n");
    printf("  websocket %s\n", TIDINGS_WEBSOCKET ? "wslay, loaded when used"
                                                 : "left out of this build (wslay was not there)");
    const char *tls = tidings_tls_library();
    printf("  TLS       %s\n", tls ? tls : "not available (OpenSSL 3 cannot be loaded)");
    printf("  client    %s\n", client ? client : "not available (libcurl cannot be loaded)");
    tidings_free(client);
    return fflush(stdout) == 0 ? 0 : tidings_code_exit(TIDINGS_E_IO);
}

const struct command command_version = {
    .name = "version",
    .help = "print version and features",
    .about = "Print the version and the libraries at hand.\n",
    .is_plain = true,
    .run = run,
};
