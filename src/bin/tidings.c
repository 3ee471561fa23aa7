/* SPDX-License-Identifier: MIT
 *
 * The program: find the command, run it, failures in one tone of voice.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "command.h"
#include "output.h"
#include "remote.h"

/* Failures are objects then. Known before anything is parsed: a mistake may come first. */
static bool is_json;

static void put_member(const char *name, const char *text)
{
    fprintf(stderr, "\"%s\":", name);
    put_quoted(stderr, tidings_str(text));
    fputc(',', stderr);
}

/* `command` and `hint` may be NULL. */
static int fail(const char *command, int code, const char *message, const char *hint)
{
    const char *blank = command ? " " : "", *name = command ? command : "";
    int status = tidings_code_exit(code);
    if (is_json) {
        fputc('{', stderr);
        if (command) {
            put_member("command", command);
        }
        put_member("error", tidings_code_text(code));
        put_member("message", message);
        if (hint) {
            put_member("hint", hint);
        }
        fprintf(stderr, "\"status\":%d}\n", status);
        return status;
    }
    fprintf(stderr, "tidings%s%s: ", blank, name);
    put_text(stderr, tidings_str(message)); /* a server may have said it */
    fputc('\n', stderr);
    if (hint) {
        fprintf(stderr, "tidings%s%s: %s\n", blank, name, hint);
    }
    return status;
}

int command_unknown(const char *name)
{
    const char *names[128];
    char message[192], hint[96] = "'tidings help' lists the commands";
    size_t count = 0;
    for (; commands[count] && count + 1 < sizeof(names) / sizeof(names[0]); count++) {
        names[count] = commands[count]->name;
    }
    names[count] = NULL;
    const char *near = suggest(name, names);
    snprintf(message, sizeof(message), "unknown command '%.60s'%s%s%s", name,
             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (command_is_group(commands[i]) && strncmp(name, names[i], len) == 0 &&
            name[len] == ' ') {
            snprintf(hint, sizeof(hint), "'tidings help %s' lists its commands", names[i]);
        }
    }
    return fail(NULL, TIDINGS_E_INVALID, message, hint);
}

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    return fail(command, err->code, err->text, hint);
}

int command_misuse(const char *command, const char *problem, const char *argument)
{
    char message[512], hint[96];
    snprintf(message, sizeof(message), "%s%s%.60s%s", problem, argument ? " '" : "",
             argument ? argument : "", argument ? "'" : "");
    snprintf(hint, sizeof(hint), "see 'tidings help %s'", command);
    return fail(command, TIDINGS_E_INVALID, message, hint);
}

bool has_flag(int argc, char **argv, const char *flag)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], flag) == 0) {
            return true;
        }
    }
    return false;
}

bool take_flag(int *argc, char **argv, const char *flag)
{
    int kept = 0;
    bool is_behind = false; /* a "--" */
    for (int i = 0; i < *argc; i++) {
        is_behind = is_behind || strcmp(argv[i], "--") == 0;
        if (is_behind || strcmp(argv[i], flag) != 0) {
            argv[kept++] = argv[i];
        }
    }
    bool is_there = kept < *argc;
    *argc = kept;
    return is_there;
}

static bool wants_help(int argc, char **argv)
{
    return has_flag(argc, argv, "--help") || has_flag(argc, argv, "-h");
}

static int explain(const struct command *c)
{
    if (is_json) {
        help_json(c);
    } else {
        help_print(c);
    }
    return output_finish(c->name);
}

static int run_raw(const struct command *c, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        return explain(c);
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
        status = explain(c);
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
    if (argc == 0) {
        return command_misuse(group->name, "needs one of its commands", NULL);
    }
    if (wants_help(1, argv)) {
        return explain(group);
    }
    snprintf(name, sizeof(name), "%s %.40s", group->name, argv[0]);
    const struct command *c = command_find(name);
    return c ? run(c, argc - 1, argv + 1) : command_unknown(name);
}

/* A standard descriptor that is closed would be given to the next socket, and our output with it.
 * Opened the wrong way round, so that using it fails. */
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
    is_json = has_flag(argc, argv, "--json");
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
