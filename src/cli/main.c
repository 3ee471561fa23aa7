/* SPDX-License-Identifier: MIT
 *
 * main() of the program `tidings`: finds the command that the first words name, parses the rest by
 * its tables, and runs it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"

/* --json: known before parsing starts, because an error may come first. */
static bool is_json;

static bool wants_help(int argc, char **argv)
{
    return options_have(argc, argv, "--help") || options_have(argc, argv, "-h");
}

static int main_explain(const struct command *c)
{
    if (is_json) {
        help_json(c);
    } else {
        help_print(c);
    }
    return command_finish(c->name);
}

static int run_raw(const struct command *c, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        return main_explain(c);
    }
    return c->run_raw(argc, argv);
}

static int main_run(const struct command *c, int argc, char **argv)
{
    struct cli *cli = calloc(1, c->size > 0 ? c->size : sizeof(*cli));
    if (!cli) {
        struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
        return command_fail(c->name, &err, NULL);
    }
    int status = options_parse(cli, c, argc, argv);
    if (status == 0 && !cli->help) {
        char server[TARGET_TEXT_MAX];
        if (c->has_target) {
            target_choose(cli);
        }
        status = options_check(cli, c->has_target ? target_choice_text(cli, server) : NULL);
    }
    if (status == 0 && cli->help) {
        status = main_explain(c);
    } else if (status == 0) {
        status = c->run ? c->run(cli) : remote_run(cli, c->ask);
    }
    options_release(cli);
    free(cli);
    return status;
}

/* Options come after the command: reports an error if one follows; 0: none. */
static int main_misplaced(const char *group, int argc, char **argv)
{
    char name[64], problem[256];
    for (int i = 1; i < argc; i++) {
        snprintf(name, sizeof(name), "%s%s%.40s", group, *group ? " " : "", argv[i]);
        if (command_find(name)) {
            snprintf(problem, sizeof(problem),
                     "options come behind the command, as in 'tidings %s %.40s …', not before it:",
                     name, argv[0]);
            return command_misuse(name, problem, argv[0]);
        }
    }
    return 0;
}

/* `tidings entity get …`: the second word is part of the name. */
static int run_group(const struct command *group, int argc, char **argv)
{
    char name[64];
    if (argc == 0) {
        return command_misuse(group->name, "needs one of its commands", NULL);
    }
    if (wants_help(1, argv)) {
        return main_explain(group);
    }
    int misplaced = argv[0][0] == '-' ? main_misplaced(group->name, argc, argv) : 0;
    if (misplaced) {
        return misplaced;
    }
    snprintf(name, sizeof(name), "%s %.40s", group->name, argv[0]);
    const struct command *c = command_find(name);
    return c ? main_run(c, argc - 1, argv + 1) : command_unknown(name);
}

/* If a standard descriptor is closed, the next socket would get its number, and our output. Fill it
 * with a descriptor opened in the wrong direction, so that using it fails. */
static void fill_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    fill_descriptors();
    process_hide_passwords(argc, argv);
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
    is_json = options_have(argc, argv, "--json");
    command_fails_in_json(is_json);
    const struct command *c = command_find(name);
    if (!c) {
        int misplaced = name[0] == '-' ? main_misplaced("", argc - 1, argv + 1) : 0;
        return misplaced ? misplaced : command_unknown(name);
    }
    /* The reader of our output may exit: then writes fail, and we exit cleanly. */
    signal(SIGPIPE, SIG_IGN);
    if (command_is_group(c)) {
        return run_group(c, argc - 2, argv + 2);
    }
    return c->run_raw ? run_raw(c, argc - 2, argv + 2) : main_run(c, argc - 2, argv + 2);
}
