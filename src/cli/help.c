/* SPDX-License-Identifier: MIT
 *
 * `tidings help`, and the text of `--help`: generated from the tables of options.
 */
#include "cli/help.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include <tidings/server.h>

#include "cli/command.h"
#include "cli/output.h"

/* -------------------------------------------------------------------------------------------------
 * The table of all commands, in the order of the help.
 */

extern const struct command command_serve, command_config, command_token, command_read,
    command_tail, command_watch, command_sync, command_ls, command_tree, command_stat,
    command_templates, command_complete, command_tools, command_call, command_prompts,
    command_prompt, command_publish, command_notify, command_entity, command_entity_get,
    command_entity_at, command_entity_put, command_entity_patch, command_entity_rm,
    command_entity_undelete, command_entity_log, command_entity_types, command_entity_add_type,
    command_probe, command_bench, command_servers, command_completions, command_help,
    command_version, command_info, command_request, command_store, command_store_copy,
    command_store_check, command_store_backup, command_store_compact, command_status, command_top,
    command_peers, command_subscriptions, command_nodes, command_kick, command_limits,
    command_login, command_logout, command_skills, command_skill;

const struct command *const commands[] = {
    &command_serve,
    &command_config,
    &command_token,
    &command_login,
    &command_logout,
    &command_read,
    &command_tail,
    &command_watch,
    &command_sync,
    &command_info,
    &command_ls,
    &command_tree,
    &command_stat,
    &command_templates,
    &command_complete,
    &command_tools,
    &command_call,
    &command_prompts,
    &command_prompt,
    &command_skills,
    &command_skill,
    &command_request,
    &command_publish,
    &command_notify,
    &command_entity,
    &command_entity_get,
    &command_entity_at,
    &command_entity_put,
    &command_entity_patch,
    &command_entity_rm,
    &command_entity_undelete,
    &command_entity_log,
    &command_entity_types,
    &command_entity_add_type,
    &command_status,
    &command_top,
    &command_peers,
    &command_subscriptions,
    &command_nodes,
    &command_kick,
    &command_limits,
    &command_probe,
    &command_bench,
    &command_store,
    &command_store_copy,
    &command_store_check,
    &command_store_backup,
    &command_store_compact,
    &command_servers,
    &command_completions,
    &command_help,
    &command_version,
    NULL,
};

/* ---------------------------------------------------------------------------------------------- */

#define COLUMN 24u /* the column of the descriptions */

static void help_put_row(const char *left, const char *help)
{
    printf("  %s", left);
    size_t used = 2 + strlen(left);
    if (used + 2 > COLUMN) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", (int)(COLUMN - used), "");
    put_wrapped(stdout, help, COLUMN);
    putchar('\n');
}

static void help_put_option(const struct option *o)
{
    char left[80], help[480], letter[5] = "";
    if (o->letter) {
        snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    }
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->metavar ? " " : "",
             o->metavar ? o->metavar : "");
    int n = snprintf(help, sizeof(help), "%s", o->help);
    for (size_t i = 0; o->choices && o->choices[i] && n > 0; i++) {
        size_t at = (size_t)n < sizeof(help) ? (size_t)n : sizeof(help) - 1;
        n += snprintf(help + at, sizeof(help) - at, "%s%s%s", i == 0 ? " (" : ", ", o->choices[i],
                      o->choices[i + 1] ? "" : ")");
    }
    if (o->value && n > 0 && (size_t)n < sizeof(help)) {
        snprintf(help + n, sizeof(help) - (size_t)n, " (default %s)", o->value);
    }
    help_put_row(left, help);
}

static void help_put_options(const struct command *c)
{
    static const char *const titles[] = {
        [SECTION_OWN] = "options",
        [SECTION_QUESTIONS] = "questions of the server",
        [SECTION_SERVER] = "the server",
        [SECTION_OUTPUT] = "output",
    };
    struct option_walk walk = {.command = c};
    int told = -1;
    for (const struct option *o; (o = option_next(&walk)) != NULL && walk.section < SECTION_HELP;) {
        if (told != (int)walk.section) {
            told = (int)walk.section;
            printf("\n%s\n", titles[told]);
        }
        help_put_option(o);
    }
}

static void put_group(const struct command *group)
{
    printf("usage: tidings %s COMMAND [ARGUMENT…]\n\n", group->name);
    put_wrapped(stdout, group->about ? group->about : "", 0);
    fputs(group->about ? "\n" : "", stdout);
    for (size_t i = 0; commands[i]; i++) {
        if (command_is_in(commands[i], group)) {
            help_put_row(commands[i]->name, commands[i]->help);
        }
    }
    printf("\n'tidings help %s COMMAND' explains one.\n", group->name);
}

void help_usage(FILE *out)
{
    fputs("usage: tidings COMMAND [ARGUMENT…]\n\n", out);
    for (size_t i = 0; commands[i]; i++) {
        if (!strchr(commands[i]->name, ' ')) {
            fprintf(out, "  %-12s ", commands[i]->name);
            put_wrapped(out, commands[i]->help, 15);
            fputc('\n', out);
        }
    }
    fputc('\n', out);
    put_wrapped(out,
                "'tidings help COMMAND' explains one, 'tidings help exit' what the exit statuses "
                "mean.\n",
                0);
    fputs("try:  tidings serve .\nthen: tidings watch .\n", out);
}

/* Every code of the library has its row in the public header. */
static const struct {
    int status;
    const char *text;
} exits[] = {
#define EXIT_ROW(name, value, text, http, exit) {exit, text},
    TIDINGS_ERROR_MAP(EXIT_ROW)
#undef EXIT_ROW
};
#define EXIT_COUNT (sizeof(exits) / sizeof(exits[0]))

/* statuses are below */
static bool help_exit(int status, char out[EXIT_TEXT_MAX])
{
    snprintf(
        out, EXIT_TEXT_MAX, "%s",
        status == 0   ? "done"
        : status == 1 ? "the server did as asked, but a tool, check, command or file failed"
        : status == EXIT_INCONCLUSIVE ? "a probe found out nothing: inconclusive"
        : status == 128 + SIGHUP      ? "ended by SIGHUP: the terminal was closed"
        : status == 128 + SIGINT
            ? "stopped by SIGINT (Ctrl-C), as shells report it; watch without --count exits with 0"
        : status == 128 + SIGTERM ? "stopped by SIGTERM; serve exits with 0, even after SIGINT"
                                  : "");
    for (size_t i = 0; i < EXIT_COUNT; i++) {
        size_t at = strlen(out);
        if (exits[i].status == status) {
            snprintf(out + at, EXIT_TEXT_MAX - at, "%s%s", at > 0 ? "; " : "", exits[i].text);
        }
    }
    return out[0] != '\0';
}

static void help_put_exits(void)
{
    fputs("exit statuses\n\n", stdout);
    for (int status = 0; status < HELP_EXITS; status++) {
        char left[8], help[EXIT_TEXT_MAX];
        if (help_exit(status, help)) {
            snprintf(left, sizeof(left), "%d", status);
            help_put_row(left, help);
        }
    }
}

static void help_put_usage(const struct command *c, const char *left, const char *server,
                           const char *launched)
{
    char line[256];
    snprintf(line, sizeof(line), "tidings %s [OPTION…]%s%s%s%s\n", c->name, server,
             c->args ? " " : "", c->args ? c->args : "", launched);
    fputs(left, stdout);
    put_wrapped(stdout, line, strlen(left));
}

void help_print(const struct command *c)
{
    if (!c) {
        help_usage(stdout);
        return;
    }
    if (command_is_group(c)) {
        put_group(c);
        return;
    }
    help_put_usage(c, "usage: ", c->has_target ? " [SERVER]" : "", "");
    if (c->has_target) {
        help_put_usage(c, "       ", "", " -- COMMAND [ARGUMENT…]");
    }
    fputc('\n', stdout);
    put_wrapped(stdout, c->about, 0);
    if (c->run_raw) {
        char *options = tidings_config_help(output_width(stdout));
        printf("\n%s", options ? options : "");
        tidings_free(options);
    }
    help_put_options(c);
    if (c->has_target) {
        fputc('\n', stdout);
        put_wrapped(stdout,
                    "SERVER is a URL (http, https, ws, wss, tcp, tls, unix:PATH, http+unix:PATH), "
                    "HOST:PORT or a name that 'tidings servers' lists; 'tidings help servers' says "
                    "where names come from. Any other argument belongs to the command; the server "
                    "is then TIDINGS_SERVER, your entry 'default', or 127.0.0.1:7777.\n",
                    0);
    }
}

static void help_json_exits(void);

static int help_run(struct cli *cli)
{
    char name[64] = "";
    bool is_exit = cli->arg_count == 1 && strcmp(cli->args[0], "exit") == 0;
    for (size_t i = 0; i < cli->arg_count; i++) {
        size_t n = strlen(name);
        snprintf(name + n, sizeof(name) - n, "%s%s", n > 0 ? " " : "", cli->args[i]);
    }
    const struct command *c = cli->arg_count > 0 ? command_find(name) : NULL;
    if (cli->arg_count > 0 && !c && !is_exit) {
        return command_unknown(name);
    }
    if (is_exit) {
        cli->json ? help_json_exits() : help_put_exits();
    } else if (cli->json) {
        help_json(c);
    } else {
        help_print(c);
    }
    return command_finish("help");
}

const struct command command_help = {
    .name = "help",
    .args = "[COMMAND]",
    .help = "explain a command",
    .about = "Explain a command; 'tidings help exit' explains the exit statuses.\n\n"
             "--json prints the command as an object: name, help, about, server (does it talk to "
             "one?),\narguments, minArguments, maxArguments, and options with name, letter, kind "
             "(flag, text, file,\nnumber, time, size, choice), metavar, default, choices, min and "
             "max (of times in ms),\nrepeatable, help. Without a COMMAND: version, commands, "
             "exitStatuses.\n",
    .max_args = 2,
    .arg_kind = ARG_COMMAND,
    .run = help_run,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings help --json`: the tables of all commands for programs that wrap them.
 */

/* ,"name":"text"; nothing if the text is NULL. */
static void help_json_put_member(const char *name, const char *text)
{
    if (text) {
        printf(",\"%s\":", name);
        put_quoted(stdout, tidings_str(text));
    }
}

static void put_choices(const char *const *choices)
{
    if (!choices) {
        return;
    }
    fputs(",\"choices\":[", stdout);
    for (size_t i = 0; choices[i]; i++) {
        fputs(i > 0 ? "," : "", stdout);
        put_quoted(stdout, tidings_str(choices[i]));
    }
    putchar(']');
}

static void help_json_put_name(const char *name, bool is_first)
{
    printf("%s{\"name\":\"--%s\"", is_first ? "" : ",", name);
}

static void help_json_put_option(const struct option *o, bool is_first)
{
    static const char *const kinds[] = {
        [OPTION_FLAG] = "flag",     [OPTION_TEXT] = "text", [OPTION_FILE] = "file",
        [OPTION_NUMBER] = "number", [OPTION_TIME] = "time", [OPTION_CHOICE] = "choice",
        [OPTION_LIST] = "text",
    };
    help_json_put_name(o->name, is_first);
    if (o->letter) {
        printf(",\"letter\":\"-%c\"", o->letter);
    }
    help_json_put_member("kind", kinds[o->kind]);
    help_json_put_member("metavar", o->metavar);
    help_json_put_member("default", o->value ? o->value : o->choices ? o->choices[0] : NULL);
    put_choices(o->choices);
    if (o->kind == OPTION_NUMBER || o->kind == OPTION_TIME) {
        printf(",\"min\":%llu", (unsigned long long)o->min);
        if (o->max > 0) {
            printf(",\"max\":%llu", (unsigned long long)o->max);
        }
    }
    fputs(o->kind == OPTION_LIST ? ",\"repeatable\":true" : "", stdout);
    help_json_put_member("help", o->help);
    putchar('}');
}

/* An option of the server's configuration. Its metavar names its value. */
static void put_setting(const struct tidings_config_option *o, bool is_first)
{
    static const struct {
        const char *metavar, *kind;
    } kinds[] = {
        {"N", "number"}, {"TIME", "time"}, {"BYTES", "size"}, {"FILE", "file"}, {"PATH", "file"}};
    const char *kind = !o->metavar ? "flag" : o->choices ? "choice" : "text";
    for (size_t i = 0; o->metavar && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        kind = strcmp(kinds[i].metavar, o->metavar) == 0 ? kinds[i].kind : kind;
    }
    help_json_put_name(o->name, is_first);
    help_json_put_member("kind", kind);
    help_json_put_member("metavar", o->metavar);
    help_json_put_member("default", o->value);
    put_choices(o->choices);
    fputs(o->is_list ? ",\"repeatable\":true" : "", stdout);
    help_json_put_member("help", o->help);
    putchar('}');
}

static void help_json_put_options(const struct command *c)
{
    struct option_walk walk = {.command = c};
    struct tidings_config_option setting;
    bool is_first = true;
    fputs(",\"options\":[", stdout);
    for (size_t i = 0; c->run_raw && tidings_config_option(i, &setting); i++) {
        put_setting(&setting, is_first);
        is_first = false;
    }
    for (const struct option *o; (o = option_next(&walk)) != NULL;) {
        help_json_put_option(o, is_first);
        is_first = false;
    }
    putchar(']');
}

static void put_command(const struct command *c)
{
    fputs("{\"name\":", stdout);
    put_quoted(stdout, tidings_str(c->name));
    help_json_put_member("help", c->help);
    help_json_put_member("about", c->about);
    if (command_is_group(c)) {
        bool is_first = true;
        fputs(",\"commands\":[", stdout);
        for (size_t i = 0; commands[i]; i++) {
            if (command_is_in(commands[i], c)) {
                fputs(is_first ? "" : ",", stdout);
                put_quoted(stdout, tidings_str(commands[i]->name));
                is_first = false;
            }
        }
        fputs("]}", stdout);
        return;
    }
    printf(",\"server\":%s", c->has_target ? "true" : "false");
    help_json_put_member("arguments", c->args);
    if (!c->run_raw) {
        printf(",\"minArguments\":%u,\"maxArguments\":%u", c->min_args, c->max_args);
    }
    help_json_put_options(c);
    putchar('}');
}

static void help_json_put_exits(void)
{
    char text[EXIT_TEXT_MAX];
    bool is_first = true;
    fputs("\"exitStatuses\":[", stdout);
    for (int status = 0; status < HELP_EXITS; status++) {
        if (help_exit(status, text)) {
            printf("%s{\"status\":%d", is_first ? "" : ",", status);
            help_json_put_member("help", text);
            putchar('}');
            is_first = false;
        }
    }
    putchar(']');
}

static void help_json_exits(void)
{
    putchar('{');
    help_json_put_exits();
    fputs("}\n", stdout);
}

void help_json(const struct command *c)
{
    if (c) {
        put_command(c);
    } else {
        fputs("{\"version\":", stdout);
        put_quoted(stdout, tidings_str(tidings_version()));
        fputs(",\"commands\":[", stdout);
        for (size_t i = 0; commands[i]; i++) {
            fputs(i > 0 ? "," : "", stdout);
            put_command(commands[i]);
        }
        fputs("],", stdout);
        help_json_put_exits();
        putchar('}');
    }
    putchar('\n');
}
