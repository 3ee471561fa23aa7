/* SPDX-License-Identifier: MIT
 *
 * `tidings store`: maintenance of a server's store.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include <tidings/client.h>
#include <tidings/server.h>
#include <tidings/store.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings token NAME`: creates a token. The line for the token file goes to standard output, so
 * that it can be appended to the file; the token itself goes to standard error, for its user. With
 * --json, both are in one object.
 */

#define SCOPES_MAX 4096

struct token {
    struct cli cli;
    struct words scopes;
};

/* Append a scope after a blank; returns false if the result is too long. */
static bool token_add_scope(char *scopes, const char *scope)
{
    size_t len = strlen(scopes);
    int n = snprintf(scopes + len, SCOPES_MAX - len, "%s%s", len > 0 ? " " : "", scope);
    return n > 0 && (size_t)n < SCOPES_MAX - len;
}

/* If writing the line fails, the token must not be printed either. */
static int put_both(const char *token, const char *line)
{
    printf("%s\n", line);
    int status = command_finish("token");
    if (status == 0 && !ferror(stdout)) {
        fprintf(stderr, "%s\n", token);
    }
    return status;
}

static int token_put_object(const char *name, const struct words *scopes, const char *token,
                            const char *line)
{
    fputs("{\"name\":", stdout);
    put_quoted(stdout, tidings_str(name));
    fputs(",\"scopes\":[", stdout);
    for (size_t i = 0; i < scopes->count; i++) {
        fputs(i > 0 ? "," : "", stdout);
        put_quoted(stdout, tidings_str(scopes->items[i]));
    }
    fputs("],\"token\":", stdout);
    put_quoted(stdout, tidings_str(token));
    fputs(",\"line\":", stdout);
    put_quoted(stdout, tidings_str(line));
    fputs("}\n", stdout);
    return command_finish("token");
}

static int token_run(struct cli *cli)
{
    const struct words *given = &((const struct token *)cli)->scopes;
    char scopes[SCOPES_MAX] = "";
    for (size_t i = 0; i < given->count; i++) {
        if (!token_add_scope(scopes, given->items[i])) {
            return command_misuse("token", "the scopes are too long", NULL);
        }
    }
    struct tidings_error err = {0};
    char *token = NULL, *line = NULL;
    process_has_secrets();
    int rc =
        tidings_token_create(tidings_str(cli->args[0]), tidings_str(scopes), &token, &line, &err);
    if (rc < 0) {
        return command_fail("token", &err, NULL);
    }
    int status =
        cli->json ? token_put_object(cli->args[0], given, token, line) : put_both(token, line);
    explicit_bzero(token, strlen(token));
    tidings_free(token);
    tidings_free(line);
    return status;
}

static const struct option token_options[] = {
    {.name = "scope",
     .kind = OPTION_LIST,
     .offset = offsetof(struct token, scopes),
     .metavar = "SCOPE",
     .help = "scope that it grants; may be repeated"},
    {0},
};

const struct command command_token = {
    .name = "token",
    .args = "NAME >>FILE",
    .help = "make a bearer token and its line for a file",
    .about =
        "Make a bearer token for NAME. Standard output gets the line for the file of\n"
        "'tidings serve --auth-tokens FILE', which holds only a hash; standard error gets "
        "the\ntoken itself, this once.\n\n"
        "--json prints an object: name, scopes, token, line. Careful: the token is on standard "
        "output\nthen, not only on standard error.\n",
    .options = token_options,
    .size = sizeof(struct token),
    .min_args = 1,
    .max_args = 1,
    .run = token_run,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings config`: the configuration that `tidings serve` would use with the same arguments, as a
 * valid configuration file, with the source of each value.
 */

static int config_run(int argc, char **argv)
{
    struct tidings_error err = {0};
    options_take(&argc, argv, "--print"); /* the default anyway */
    bool is_json = options_take(&argc, argv, "--json");
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("config", &err, NULL);
    }
    int rc = tidings_server_args(server, argc, argv, &err);
    int status = 0;
    if (rc < 0) {
        status = command_fail("config", &err, "see 'tidings help serve' for the options");
    } else {
        char *text = is_json ? tidings_config_json(server) : tidings_config_print(server);
        if (is_json && text) {
            put_json(stdout, tidings_str(text));
        } else {
            fputs(text ? text : "", stdout);
        }
        status = text ? command_finish("config") : tidings_code_exit(TIDINGS_E_NOMEM);
        tidings_free(text);
    }
    tidings_server_destroy(server);
    return status;
}

const struct command command_config = {
    .name = "config",
    .args = "[--print] [DIR…]",
    .help = "print the configuration in effect",
    .about = "Print the configuration 'tidings serve' would use with the same arguments, in the "
             "form\nof tidings.json, with the origin of each value. --json prints an object: "
             "settings, as the "
             "file\nwould hold them, and origins.\n",
    .options = json_options,
    .arg_kind = ARG_FILE,
    .run_raw = config_run,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings version`: the version, and which libraries are available.
 */

static const char *const revisions[] = {TIDINGS_PROTOCOL_VERSIONS};

static void put_revisions(const char *quote, const char *separator)
{
    for (size_t i = 0; i < sizeof(revisions) / sizeof(revisions[0]); i++) {
        printf("%s%s%s%s", i > 0 ? separator : "", quote, revisions[i], quote);
    }
}

/* ,"name":"library", or null if it is not available. */
static void put_library(const char *name, const char *library)
{
    printf(",\"%s\":", name);
    if (library) {
        put_quoted(stdout, tidings_str(library));
    } else {
        fputs("null", stdout);
    }
}

/* The permissions that a server drops at startup, as far as this kernel supports it. */
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
             "--json prints an object: version, protocol, websocket, tls, client; null for "
             "a\nmissing library; sandbox: landlock (its version; 0: none), seccomp, "
             "reason.\n",
    .run = version_run,
};

/* ---------------------------------------------------------------------------------------------- */

struct store_command {
    struct cli cli;
    const char *cluster;
};

static volatile sig_atomic_t is_interrupted;

static void store_on_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

static bool store_put_progress(void *user, const struct tidings_store_figures *done)
{
    const struct cli *cli = user;
    if (!cli->quiet && !cli->json && is_terminal(stderr)) {
        fprintf(stderr, "\r\x1b[K%llu versions, %llu published", (unsigned long long)done->versions,
                (unsigned long long)done->published);
        fflush(stderr);
    }
    return !is_interrupted;
}

static int store_copy_run(struct cli *cli)
{
    const struct store_command *s = (struct store_command *)cli;
    struct tidings_error err = {0};
    struct tidings_store_figures f;
    const struct sigaction action = {.sa_handler = store_on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = tidings_store_copy(&(struct tidings_store_copying){.from = cli->args[0],
                                                                .to = cli->args[1],
                                                                .cluster = s->cluster,
                                                                .progress = store_put_progress,
                                                                .user = cli},
                                &f, &err);
    if (!cli->quiet && !cli->json && is_terminal(stderr)) {
        fputs("\r\x1b[K", stderr);
    }
    if (rc < 0) {
        return command_fail("store copy", &err, NULL);
    }
    if (cli->json) {
        printf(
            "{\"types\":%llu,\"versions\":%llu,\"published\":%llu,\"tasks\":%llu,\"position\":%llu,"
            "\"wasResumed\":%s}\n",
            (unsigned long long)f.types, (unsigned long long)f.versions,
            (unsigned long long)f.published, (unsigned long long)f.tasks,
            (unsigned long long)f.position, f.was_resumed ? "true" : "false");
    } else if (!cli->quiet) {
        printf("copied and compared: %llu types, %llu versions, %llu published, %llu tasks, "
               "position %llu\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    }
    return 0;
}

static int store_check_run(struct cli *cli)
{
    struct tidings_error err = {0};
    struct tidings_store_figures f;
    if (tidings_store_check(cli->args[0], &f, &err) < 0) {
        return command_fail("store check", &err, NULL);
    }
    if (cli->json) {
        printf("{\"types\":%llu,\"versions\":%llu,\"published\":%llu,\"tasks\":%llu,\"position\":%"
               "llu}\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    } else if (!cli->quiet) {
        printf("sound: %llu types, %llu versions, %llu published, %llu tasks, position %llu\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    }
    return 0;
}

static int store_backup_run(struct cli *cli)
{
    struct tidings_error err = {0};
    uint64_t bytes;
    if (tidings_store_backup(cli->args[0], cli->args[1], &bytes, &err) < 0) {
        return command_fail("store backup", &err, NULL);
    }
    if (cli->json) {
        printf("{\"bytes\":%llu}\n", (unsigned long long)bytes);
    } else if (!cli->quiet) {
        printf("backed up and checked: %llu bytes\n", (unsigned long long)bytes);
    }
    return 0;
}

static int store_compact_run(struct cli *cli)
{
    struct tidings_error err = {0};
    uint64_t before, after;
    if (tidings_store_compact(cli->args[0], &before, &after, &err) < 0) {
        return command_fail("store compact", &err, NULL);
    }
    if (cli->json) {
        printf("{\"bytesBefore\":%llu,\"bytesAfter\":%llu}\n", (unsigned long long)before,
               (unsigned long long)after);
    } else if (!cli->quiet) {
        printf("compacted: %llu bytes, before %llu\n", (unsigned long long)after,
               (unsigned long long)before);
    }
    return 0;
}

static const struct option store_options[] = {
    {.name = "cluster",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct store_command, cluster),
     .metavar = "NAME",
     .help = "the cluster in a database (tidings)"},
    {0},
};

const struct command command_store = {
    .name = "store",
    .help = "move, check and back up what a server keeps",
    .about = "The store of a server (tidings serve --store, --entities): a SQLite file, or the URL "
             "of a PostgreSQL database.\n",
};

const struct command command_store_copy = {
    .name = "store copy",
    .args = "FROM TO",
    .help = "copy a store into a new one",
    .about = "Copy a store of a server (a SQLite file, or the URL of a PostgreSQL database) into a "
             "new one, of either kind: entities with their history, published resources, and the "
             "positions of changes, so that cursors stay valid. At the end, the command compares "
             "both. Stop "
             "the servers on both first. If it is interrupted, rerun it to resume.\n\n"
             "--json prints an object: types, versions, published, position, wasResumed.\n",
    .options = store_options,
    .size = sizeof(struct store_command),
    .min_args = 2,
    .max_args = 2,
    .run = store_copy_run,
};

const struct command command_store_check = {
    .name = "store check",
    .args = "FILE",
    .help = "check a store that is a file",
    .about = "Read everything in the store of a server that does not run, and compare it: pages "
             "and indexes, tables with each other, contents with their sums.\n\n"
             "--json prints an object: types, versions, published, position.\n",
    .size = sizeof(struct cli),
    .min_args = 1,
    .max_args = 1,
    .run = store_check_run,
};

const struct command command_store_backup = {
    .name = "store backup",
    .args = "FILE TO",
    .help = "back up a store file, even while a server uses it",
    .about = "Copy the store of a server into a new file, even while the server runs and writes. "
             "The copy has all writes that were acknowledged before. The command checks the copy "
             "and then gives it its name.\n\n"
             "--json prints an object: bytes.\n",
    .size = sizeof(struct cli),
    .min_args = 2,
    .max_args = 2,
    .run = store_backup_run,
};

const struct command command_store_compact = {
    .name = "store compact",
    .args = "FILE",
    .help = "shrink a store file",
    .about =
        "Rewrite the store of a stopped server without the space that removed content occupied.\n\n"
        "--json prints an object: bytesBefore, bytesAfter.\n",
    .size = sizeof(struct cli),
    .min_args = 1,
    .max_args = 1,
    .run = store_compact_run,
};
