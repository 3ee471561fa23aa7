/* SPDX-License-Identifier: MIT
 *
 * Which server a command talks to, when neither -t nor "--" says so. The first argument is the
 * server when it is an address, a host and a port, or a name that is known; else it belongs to the
 * command, which asks the default.
 *
 * A project's file comes with a checkout. So its `default` is nobody's default; and where the
 * person has set one, a project's name takes its place only after they agreed to it (trust.h): the
 * first argument may be meant for the other.
 */
#include "bin/remote/target.h"

#include <stdio.h>
#include <stdlib.h>

static bool target_is_server(const char *command, const char *word, bool is_cautious)
{
    return word[0] == '\0' || target_is_address(word) ||
           (target_is_name(word) && target_knows(command, word, is_cautious));
}

void target_choose(struct cli *cli)
{
    const char *variable = getenv("TIDINGS_SERVER");
    bool has_variable = variable && *variable, has_own = false;
    if (cli->launch || cli->target) {
        return;
    }
    if (!has_variable) {
        has_own = target_has_default(cli->command->name);
    }
    if (cli->arg_count > 0 &&
        target_is_server(cli->command->name, cli->args[0], has_variable || has_own)) {
        cli->target = cli->args[0];
        cli->arg_count--;
        memmove(cli->args, cli->args + 1, cli->arg_count * sizeof(*cli->args));
        return;
    }
    cli->origin = has_variable ? TARGET_VARIABLE : has_own ? TARGET_DEFAULT : TARGET_NOWHERE;
    cli->target = has_variable ? variable : has_own ? "default" : "127.0.0.1:7777";
}

const char *target_choice_text(const struct cli *cli, char out[TARGET_TEXT_MAX])
{
    char near[64], why[160] = "";
    const char *first = cli->arg_count > 0 ? cli->args[0] : NULL;
    bool is_name = first && target_is_name(first);
    bool has_near = is_name && target_suggest(first, near, sizeof(near));
    if (has_near && strcmp(near, first) == 0) {
        snprintf(why, sizeof(why),
                 "; '%.40s' is one of a project's file: 'tidings servers --trust'", first);
    } else if (is_name) {
        snprintf(why, sizeof(why), "; no server is called '%.40s'%s%s%s", first,
                 has_near ? ", but one is '" : "", has_near ? near : "", has_near ? "'" : "");
    }
    switch (cli->origin) {
    case TARGET_NAMED:
        snprintf(out, TARGET_TEXT_MAX, "the server is '%.80s'",
                 cli->launch ? cli->launch[0] : cli->target);
        break;
    case TARGET_VARIABLE:
        snprintf(out, TARGET_TEXT_MAX, "the server is '%.60s' (TIDINGS_SERVER)%s", cli->target,
                 why);
        break;
    case TARGET_DEFAULT:
        snprintf(out, TARGET_TEXT_MAX, "the server is your 'default'%s", why);
        break;
    case TARGET_NOWHERE:
        snprintf(out, TARGET_TEXT_MAX, "the server is %.40s, since none was named%s", cli->target,
                 why);
        break;
    }
    return out;
}

const char *target_hint_with(const struct cli *cli, const char *hint)
{
    static char text[2 * TARGET_TEXT_MAX];
    char choice[TARGET_TEXT_MAX];
    if (cli->origin == TARGET_NAMED) {
        return hint;
    }
    snprintf(text, sizeof(text), "%s%s%s", hint ? hint : "", hint ? "; " : "",
             target_choice_text(cli, choice));
    return text;
}
