/* SPDX-License-Identifier: MIT
 *
 * `tidings version`: the version, and which of the libraries are at hand.
 */
#include <stdio.h>

#include <tidings/client.h>
#include <tidings/server.h>

#include "command.h"
#include "output.h"

static const char *const revisions[] = {"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26",
                                        "2024-11-05"};

static void put_revisions(const char *quote, const char *separator)
{
    for (size_t i = 0; i < sizeof(revisions) / sizeof(revisions[0]); i++) {
        printf("%s%s%s%s", i > 0 ? separator : "", quote, revisions[i], quote);
    }
}

/* ,"name":"library", or null where it is not at hand. */
static void put_library(const char *name, const char *library)
{
    printf(",\"%s\":", name);
    if (library) {
        put_quoted(stdout, tidings_str(library));
    } else {
        fputs("null", stdout);
    }
}

static int run(struct cli *cli)
{
    char *client = tidings_client_library();
    const char *tls = tidings_tls_library();
    if (cli->json) {
        printf("{\"version\":\"%s\",\"protocol\":[", tidings_version());
        put_revisions("\"", ",");
        putchar(']');
        put_library("server", "libuv, jansson");
        put_library("websocket", TIDINGS_WEBSOCKET ? "wslay" : NULL);
        put_library("tls", tls);
        put_library("client", client);
        fputs("}\n", stdout);
    } else {
        printf("tidings %s\n  protocol  ", tidings_version());
        put_revisions("", ", ");
        printf("\n  server    libuv, jansson\n");
        printf("  websocket %s\n", TIDINGS_WEBSOCKET
                                       ? "wslay, loaded when used"
                                       : "left out of this build (wslay was not there)");
        printf("  TLS       %s\n", tls ? tls : "not available (OpenSSL 3 cannot be loaded)");
        printf("  client    %s\n", client ? client : "not available (libcurl cannot be loaded)");
    }
    tidings_free(client);
    return output_finish("version");
}

const struct command command_version = {
    .name = "version",
    .help = "print version and features",
    .about = "Print the version and the libraries at hand.\n\n"
             "--json prints an object: version, protocol, server, websocket, tls, client; null "
             "for a library\nthat is not there.\n",
    .run = run,
};
