/* SPDX-License-Identifier: MIT
 *
 * The program: find the subcommand, help, failures in one tone of voice.
 */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    void (*usage)(void); /* NULL: none of its own */
    const char *help;
};

static int command_help(int argc, char **argv);

static const struct command commands[] = {
    {"serve", command_serve, serve_usage, "serve directories as live MCP resources"},
    {"watch", command_watch, watch_usage, "print changes of resources as they happen"},
    {"config", command_config, config_usage, "print the configuration in effect"},
    {"token", command_token, token_usage, "make a bearer token and its line for a file"},
    {"help", command_help, NULL, "explain a command"},
    {"version", command_version, NULL, "print version and features"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
    fputs("usage: tidings COMMAND [ARGUMENT…]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\ntry: tidings serve .      then: tidings watch http://127.0.0.1:7777/mcp .\n", out);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COMMAND_COUNT + 1] = {0};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
    }
    const char *near = suggest(name, names);
    if (near) {
        fprintf(stderr, "tidings: unknown command '%.60s', did you mean '%s'?\n", name, near);
    } else {
        fprintf(stderr, "tidings: unknown command '%.60s'\n", name);
    }
    fputs("tidings: 'tidings help' lists the commands\n", stderr);
    return tidings_code_exit(TIDINGS_E_INVALID);
}

static int command_help(int argc, char **argv)
{
    const struct command *c = argc > 0 ? find(argv[0]) : NULL;
    if (argc > 0 && !c) {
        return unknown(argv[0]);
    }
    if (c && c->usage) {
        c->usage();
    } else {
        usage(stdout);
    }
    return 0;
}

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    fprintf(stderr, "tidings %s: %s\n", command, err->text);
    if (hint) {
        fprintf(stderr, "tidings %s: %s\n", command, hint);
    }
    return tidings_code_exit(err->code);
}

int command_misuse(const char *command, const char *problem, const char *argument)
{
    fprintf(stderr, "tidings %s: %s", command, problem);
    if (argument) {
        fprintf(stderr, " '%.60s'", argument);
    }
    fprintf(stderr, "\ntidings %s: see 'tidings help %s'\n", command, command);
    return tidings_code_exit(TIDINGS_E_INVALID);
}

bool command_wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return tidings_code_exit(TIDINGS_E_INVALID);
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        name = "version";
    }
    const struct command *c = find(name);
    if (!c) {
        return unknown(name);
    }
    if (c->usage && command_wants_help(argc - 2, argv + 2)) {
        c->usage();
        return 0;
    }
    return c->run(argc - 2, argv + 2);
}
