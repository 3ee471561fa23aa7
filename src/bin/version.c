/* SPDX-License-Identifier: MIT
 *
 * `tidings version`: the version, and which of the libraries are at hand.
 */
#include <stdio.h>

#include <tidings/client.h>
#include <tidings/server.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"

static const char *const revisions[] = {TIDINGS_PROTOCOL_VERSIONS};

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

/* What a server gives up when it starts, as far as this kernel can. */
static void put_sandbox(bool is_json)
{
    struct tidings_sandbox s;
    tidings_sandbox_probe(&s);
    if (is_json) {
        printf(",\"sandbox\":{\"landlock\":%d,\"seccomp\":%s,\"reason\":", s.landlock,
               s.seccomp ? "true" : "false");
        put_quoted(stdout, tidings_str(s.reason));
        putchar('}');
        return;
    }
    fputs("  sandbox   ", stdout);
    if (s.landlock > 0) {
        printf("Landlock %d%s", s.landlock, s.seccomp ? ", " : "");
    }
    printf("%s%s%s%s\n",
           s.seccomp        ? "seccomp"
           : s.landlock > 0 ? ""
                            : "none",
           s.reason[0] ? " (" : "", s.reason, s.reason[0] ? ")" : "");
}

static int version_run(struct cli *cli)
{
    char *client = tidings_client_library();
    const char *tls = tidings_tls_library(), *websocket = tidings_websocket_library();
    if (cli->json) {
        printf("{\"version\":\"%s\",\"protocol\":[", tidings_version());
        put_revisions("\"", ",");
        putchar(']');
        put_library("websocket", websocket);
        put_library("tls", tls);
        put_library("client", client);
        put_sandbox(true);
        fputs("}\n", stdout);
    } else {
        printf("tidings %s\n  protocol  ", tidings_version());
        put_revisions("", ", ");
        printf("\n  websocket %s\n",
               websocket ? websocket : "not available (wslay cannot be loaded)");
        printf("  TLS       %s\n", tls ? tls : "not available (OpenSSL 3 cannot be loaded)");
        printf("  client    %s\n", client ? client : "not available (libcurl cannot be loaded)");
        put_sandbox(false);
    }
    tidings_free(client);
    return command_finish("version");
}

const struct command command_version = {
    .name = "version",
    .help = "print version and features",
    .about = "Print the version, the libraries at hand, and what servers can be confined by.\n\n"
             "--json prints an object: version, protocol, websocket, tls, client; null "
             "for a library\nthat is not there; sandbox: landlock (its version; 0: none), seccomp, "
             "reason.\n",
    .run = version_run,
};
