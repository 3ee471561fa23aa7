/* SPDX-License-Identifier: MIT
 *
 * The program: find the command, run it, failures in one tone of voice.
 */
#include <signal.h>
#include <stdlib.h>

#include "command.h"
#include "output.h"
#include "remote.h"

int command_unknown(const char *name)
{
    const char *names[128];
    size_t count = 0;
    for (; commands[count] && count + 1 < sizeof(names) / sizeof(names[0]); count++) {
        names[count] = commands[count]->name;
    }
    names[count] = NULL;
    const char *near = suggest(name, names);
    if (near) {
        fprintf(stderr, "tidings: unknown command '%.60s', did you mean '%s'?\n", name, near);
    } else {
        fprintf(stderr, "tidings: unknown command '%.60s'\n", name);
    }
    fputs("tidings: 'tidings help' lists the commands\n", stderr);
    return tidings_code_exit(TIDINGS_E_INVALID);
}

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    fprintf(stderr, "tidings %s: ", command);
    put_text(stderr, tidings_str(err->text)); /* a server may have said it */
    fputc('\n', stderr);
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

/* Is --help or -h among the arguments (before a "--")? */
static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int run_raw(const struct command *c, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        help_print(c);
        return 0;
    }
    return c->run_raw(argc, argv);
}

static int run(const struct command *c, int argc, char **argv)
{
    struct cli *cli = calloc(1, c->size > 0 ? c->size : sizeof(*cli));
    if (!cli) {
        struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
        return command_fail(c->name, &err, NULL);
    }
    int status = cli_parse(cli, c, argc, argv);
    if (status == 0 && cli->help) {
        help_print(c);
    } else if (status == 0) {
        status = c->run ? c->run(cli) : remote_run(cli, c->ask);
    }
    cli_release(cli);
    free(cli);
    return status;
}

/* `tidings entity get …`: the second word is part of the name. */
static int run_group(const struct command *group, int argc, char **argv)
{
    char name[64];
    if (argc == 0 || wants_help(1, argv)) {
        help_print(group);
        return argc == 0 ? tidings_code_exit(TIDINGS_E_INVALID) : 0;
    }
    snprintf(name, sizeof(name), "%s %.40s", group->name, argv[0]);
    const struct command *c = command_find(name);
    return c ? run(c, argc - 1, argv + 1) : command_unknown(name);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help_usage(stderr);
        return tidings_code_exit(TIDINGS_E_INVALID);
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        name = "version";
    }
    const struct command *c = command_find(name);
    if (!c) {
        return command_unknown(name);
    }
    /* Whoever reads our output may stop to: then writing fails, and we end in order. */
    signal(SIGPIPE, SIG_IGN);
    if (command_is_group(c)) {
        return run_group(c, argc - 2, argv + 2);
    }
    return c->run_raw ? run_raw(c, argc - 2, argv + 2) : run(c, argc - 2, argv + 2);
}
