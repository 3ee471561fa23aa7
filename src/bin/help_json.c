/* SPDX-License-Identifier: MIT
 *
 * `tidings help --json`: the tables of all commands for programs that wrap them.
 */
#include <tidings/server.h>

#include "bin/cli/output.h"
#include "bin/help.h"

/* ,"name":"text"; nothing without a text. */
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

/* An option of the server's configuration. What it takes is said by its metavar. */
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

void help_json_exits(void)
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
