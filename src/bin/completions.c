/* SPDX-License-Identifier: MIT
 *
 * `tidings completions`: scripts for shells, made of the tables. They complete commands, options,
 * their values, names of servers, files, and what a server has (completion_names.h).
 *
 * Names of servers come from files of strangers too (target.h), and what a server has from the
 * server: `tidings servers --quiet` and `tidings completions --names` print plain names only, and
 * the scripts look again, since a shell runs what it expands.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/server.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/completion_names.h"

static FILE *out; /* where the script goes */

static void completions_put_line(const char *text)
{
    fputs(text, out);
    fputc('\n', out);
}

/* An option, whichever table it comes from. */
struct flag {
    const char *name; /* without dashes */
    char letter;
    bool has_value, is_file;
    const char *help;
    const char *const *choices;
};
typedef void (*flag_fn)(const struct command *command, const struct flag *flag);

static bool is_path(const char *metavar)
{
    return metavar && (strcmp(metavar, "FILE") == 0 || strcmp(metavar, "PATH") == 0);
}

static void each_flag(const struct command *c, flag_fn fn)
{
    struct tidings_config_option row;
    struct option_walk walk = {.command = c};
    for (size_t i = 0; c->run_raw && tidings_config_option(i, &row); i++) {
        struct flag flag = {row.name, 0,          row.metavar != NULL, is_path(row.metavar),
                            row.help, row.choices};
        fn(c, &flag);
    }
    for (const struct option *o; (o = option_next(&walk)) != NULL;) {
        struct flag flag = {o->name, o->letter, o->kind != OPTION_FLAG, o->kind == OPTION_FILE,
                            o->help, o->choices};
        fn(c, &flag);
    }
}

/* Names of commands: all of a group, or those that stand alone. */
static void put_names(const struct command *group, const char *separator)
{
    for (size_t i = 0; commands[i]; i++) {
        const char *blank = strchr(commands[i]->name, ' ');
        if (group ? command_is_in(commands[i], group) : !blank) {
            fprintf(out, "%s%s", separator, group ? blank + 1 : commands[i]->name);
        }
    }
}

static void put_words(const char *const *words)
{
    for (size_t i = 0; words[i]; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", words[i]);
    }
}

/* The groups as a pattern of a case. */
static void put_groups(void)
{
    bool is_first = true;
    for (size_t i = 0; commands[i]; i++) {
        if (command_is_group(commands[i])) {
            fprintf(out, "%s%s", is_first ? "" : " | ", commands[i]->name);
            is_first = false;
        }
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_value(const struct command *c, const struct flag *f)
{
    if (!f->has_value) {
        return;
    }
    fprintf(out, "    '%s:--%s'", c->name, f->name);
    if (f->letter) {
        fprintf(out, " | '%s:-%c'", c->name, f->letter);
    }
    if (f->choices) {
        fputs(") _tidings_words '", out);
        put_words(f->choices);
        completions_put_line("'; return ;;");
    } else if (strcmp(f->name, "target") == 0) {
        completions_put_line(") _tidings_servers; return ;;");
    } else {
        fprintf(out, ") %s ;;\n", f->is_file ? "_tidings_files; return" : "return");
    }
}

static void bash_flag(const struct command *c, const struct flag *f)
{
    (void)c;
    fprintf(out, " --%s", f->name);
}

static void bash_arguments(const struct command *c)
{
    fprintf(out, "    '%s')\n        flags='", c->name);
    each_flag(c, bash_flag);
    fputs("'\n", out);
    if (command_is_group(c)) {
        fputs("        words='", out);
        put_names(c, " ");
        fputs("'\n", out);
    } else if (c->arg_kind == ARG_COMMAND) {
        fputs("        words='exit", out);
        put_names(NULL, " ");
        fputs("'\n", out);
    } else if (c->arg_kind == ARG_SHELL) {
        completions_put_line("        words='bash zsh fish'");
    } else if (c->has_target) {
        completions_put_line(completion_asks(c) ? "        target=yes ask=yes"
                                                : "        target=yes");
    }
    completions_put_line("        ;;");
}

static void put_bash(void)
{
    fputs("# bash completion of tidings, made by 'tidings completions bash'\n"
          "_tidings_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
          "_tidings_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "}\n"
          "# compgen -W would expand what a file of strangers calls its servers\n"
          "_tidings_servers() {\n"
          "    local name\n"
          "    while IFS= read -r name; do\n"
          "        case $name in\n"
          "        '' | -* | *[!A-Za-z0-9._-]*) ;;\n"
          "        \"$cur\"*) COMPREPLY+=(\"$name\") ;;\n"
          "        esac\n"
          "    done < <(tidings servers --quiet 2>/dev/null)\n"
          "}\n"
          "# What a server has. COMP_WORDS are cut at ':', and only what is behind it is replaced\n"
          "_tidings_names() {\n"
          "    local line=${COMP_LINE:0:COMP_POINT} name head='' IFS=$' \\t\\n'\n"
          "    local breaks=${COMP_WORDBREAKS//[!:=@]/}\n"
          "    local -a typed\n"
          "    [[ $line == *$'\\n'* ]] && return\n"
          "    read -ra typed <<<\"$line\"\n"
          "    [[ $line == *[[:blank:]] ]] && typed+=('')\n"
          "    [[ ${typed[0]} == \"${COMP_WORDS[0]}\" ]] || return\n"
          "    local begun=${typed[-1]}\n"
          "    [[ -n $breaks ]] && head=${begun%\"${begun##*[$breaks]}\"}\n"
          "    while IFS= read -r name; do\n"
          "        case $name in\n"
          "        '' | [!A-Za-z0-9_./]* | *[!A-Za-z0-9._~:/%@+,=-]*) ;;\n"
          "        \"$begun\"*) COMPREPLY+=(\"${name#\"$head\"}\") ;;\n"
          "        esac\n"
          "    done < <(tidings completions --names -- \"${typed[@]:1}\" 2>/dev/null)\n"
          "}\n\n"
          "_tidings() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command='' flags='' words='' target='' ask='' i word given=0\n"
          "    COMPREPLY=()\n"
          "    # \"--era=auto\" are three words\n"
          "    if [[ $cur == '=' ]]; then\n"
          "        cur=''\n"
          "    elif [[ $prev == '=' ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        word=${COMP_WORDS[i]}\n"
          "        if [[ $word == -- ]]; then\n"
          "            _tidings_files\n"
          "            return\n"
          "        elif [[ -z $command ]]; then\n"
          "            command=$word\n"
          "        elif [[ $word != -* ]]; then\n"
          "            case $command in\n            ",
          out);
    put_groups();
    fputs(") command+=\" $word\" ;;\n"
          "            *) given=1 ;;\n"
          "            esac\n"
          "        fi\n"
          "    done\n"
          "    case $command:$prev in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        each_flag(commands[i], bash_value);
    }
    fputs("    esac\n    case $command in\n    '')\n        flags='--help --version'\n"
          "        words='",
          out);
    put_names(NULL, " ");
    fputs("'\n        ;;\n", out);
    for (size_t i = 0; commands[i]; i++) {
        bash_arguments(commands[i]);
    }
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        _tidings_words \"$flags\"\n"
          "    elif [[ -n $words ]]; then\n"
          "        _tidings_words \"$words\"\n"
          "    elif [[ -n $target && $given == 0 && -z ${TIDINGS_SERVER:-} ]]; then\n"
          "        _tidings_servers\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "    else\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "        [[ ${#COMPREPLY[@]} == 0 ]] && _tidings_files\n"
          "    fi\n"
          "}\n"
          "complete -F _tidings tidings\n",
          out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Inside single quotes, with colons escaped for _describe. */
static void put_described(const char *name, const char *help)
{
    fprintf(out, " '%s:", name);
    for (; *help; help++) {
        if (*help == '\'') {
            fputs("'\\''", out);
        } else {
            fprintf(out, *help == ':' || *help == '\\' ? "\\%c" : "%c", *help);
        }
    }
    fputc('\'', out);
}

static void zsh_value(const struct command *c, const struct flag *f)
{
    if (!f->has_value) {
        return;
    }
    fprintf(out, "    '%s:--%s'", c->name, f->name);
    if (f->letter) {
        fprintf(out, "|'%s:-%c'", c->name, f->letter);
    }
    if (f->choices) {
        fputs(") compadd -- ", out);
        put_words(f->choices);
        completions_put_line("; return ;;");
    } else if (strcmp(f->name, "target") == 0) {
        completions_put_line(") _tidings_servers; return ;;");
    } else {
        fprintf(out, ") %s ;;\n", f->is_file ? "_files; return" : "return");
    }
}

static void zsh_flag(const struct command *c, const struct flag *f)
{
    char name[64];
    (void)c;
    snprintf(name, sizeof(name), "--%s", f->name);
    put_described(name, f->help);
}

static void zsh_commands(const struct command *group)
{
    for (size_t i = 0; commands[i]; i++) {
        const char *blank = strchr(commands[i]->name, ' ');
        if (group ? command_is_in(commands[i], group) : !blank) {
            put_described(group ? blank + 1 : commands[i]->name, commands[i]->help);
        }
    }
}

static void zsh_arguments(const struct command *c)
{
    fprintf(out, "    '%s')\n        flags=(", c->name);
    each_flag(c, zsh_flag);
    fputs(")\n", out);
    if (command_is_group(c) || c->arg_kind == ARG_COMMAND) {
        fputs("        names=(", out);
        zsh_commands(command_is_group(c) ? c : NULL);
        fputs(")\n", out);
    } else if (c->arg_kind == ARG_SHELL) {
        completions_put_line("        names=(bash zsh fish)");
    } else if (c->has_target) {
        completions_put_line(completion_asks(c) ? "        target=yes ask=yes"
                                                : "        target=yes");
    }
    completions_put_line("        ;;");
}

static void put_zsh(void)
{
    fputs("#compdef tidings\n"
          "# zsh completion of tidings, made by 'tidings completions zsh'\n"
          "# compadd would take what a file of strangers calls its servers for its options\n"
          "_tidings_servers() {\n"
          "    local -a found\n"
          "    found=(${(f)\"$(tidings servers --quiet 2>/dev/null)\"})\n"
          "    found=(${${found:#*[^A-Za-z0-9._-]*}:#-*})\n"
          "    compadd -- $found\n"
          "}\n"
          "_tidings_names() {\n"
          "    local strange='*[^A-Za-z0-9._~:/%@+,=-]*' begins='[^A-Za-z0-9_./]*'\n"
          "    local -a found\n"
          "    found=(${(f)\"$(tidings completions --names -- \"${(@)words[2,CURRENT-1]}\" "
          "\"$PREFIX\" 2>/dev/null)\"})\n"
          "    found=(${${found:#$~strange}:#$~begins})\n"
          "    (( $#found )) && compadd -- $found\n"
          "}\n"
          "_tidings() {\n"
          "    local command='' target='' ask='' word i given=0\n"
          "    local -a flags names\n"
          "    for ((i = 2; i < CURRENT; i++)); do\n"
          "        word=$words[i]\n"
          "        if [[ $word == -- ]]; then\n"
          "            _files\n"
          "            return\n"
          "        elif [[ -z $command ]]; then\n"
          "            command=$word\n"
          "        elif [[ $word != -* ]]; then\n"
          "            case $command in\n            (",
          out);
    put_groups();
    fputs(") command+=\" $word\" ;;\n"
          "            (*) given=1 ;;\n"
          "            esac\n"
          "        fi\n"
          "    done\n"
          "    case $command:$words[CURRENT-1] in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        each_flag(commands[i], zsh_value);
    }
    fputs("    esac\n    case $command in\n    '')\n        names=(", out);
    zsh_commands(NULL);
    fputs(")\n        ;;\n", out);
    for (size_t i = 0; commands[i]; i++) {
        zsh_arguments(commands[i]);
    }
    fputs("    esac\n"
          "    if [[ $PREFIX == -* ]]; then\n"
          "        _describe option flags\n"
          "    elif (( $#names )); then\n"
          "        _describe command names\n"
          "    elif [[ -n $target && $given == 0 && -z $TIDINGS_SERVER ]]; then\n"
          "        _tidings_servers\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "    else\n"
          "        [[ -n $ask ]] && _tidings_names || _files\n"
          "    fi\n"
          "}\n"
          "_tidings \"$@\"\n",
          out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void put_single_quoted(const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    fputc('\'', out);
}

/* complete … -n 'the command line is of that command' */
static void fish_begin(const char *name)
{
    const char *blank = strchr(name, ' ');
    int first = blank ? (int)(blank - name) : (int)strlen(name);
    fprintf(out, "complete -c tidings -n '__fish_seen_subcommand_from %.*s%s%s'", first, name,
            blank ? "; and __fish_seen_subcommand_from " : "", blank ? blank + 1 : "");
}

static void fish_flag(const struct command *c, const struct flag *f)
{
    fish_begin(c->name);
    fprintf(out, " -l %s", f->name);
    if (f->letter) {
        fprintf(out, " -s %c", f->letter);
    }
    if (f->choices) {
        fputs(" -x -a '", out);
        put_words(f->choices);
        fputc('\'', out);
    } else if (strcmp(f->name, "target") == 0) {
        fputs(" -x -a '(__tidings_servers)'", out);
    } else if (f->has_value) {
        fputs(f->is_file ? " -r -F" : " -x", out);
    }
    fputs(" -d ", out);
    put_single_quoted(f->help);
    fputc('\n', out);
}

static void fish_command(const struct command *c)
{
    const char *blank = strchr(c->name, ' ');
    if (blank) {
        fprintf(out, "complete -c tidings -f -n '__fish_seen_subcommand_from %.*s' -a '%s' -d ",
                (int)(blank - c->name), c->name, blank + 1);
    } else {
        fprintf(out, "complete -c tidings -f -n __fish_use_subcommand -a '%s' -d ", c->name);
    }
    put_single_quoted(c->help);
    fputc('\n', out);
    if (c->arg_kind == ARG_COMMAND || c->arg_kind == ARG_SHELL) {
        fish_begin(c->name);
        fputs(" -f -a '", out);
        fputs(c->arg_kind == ARG_SHELL ? "bash zsh fish" : "exit", out);
        if (c->arg_kind == ARG_COMMAND) {
            put_names(NULL, " ");
        }
        completions_put_line("'");
    } else if (c->has_target) {
        fish_begin(c->name);
        completions_put_line(completion_asks(c) ? " -a '(__tidings_servers; __tidings_names)'"
                                                : " -a '(__tidings_servers)'");
    }
    each_flag(c, fish_flag);
}

static void put_fish(void)
{
    completions_put_line("# fish completion of tidings, made by 'tidings completions fish'\n"
                         "function __tidings_servers\n"
                         "    tidings servers --quiet 2>/dev/null | "
                         "string match -r '^[A-Za-z0-9._][A-Za-z0-9._-]*$'\n"
                         "end\n"
                         "function __tidings_names\n"
                         "    set -l typed (commandline -opc)\n"
                         "    set -l begun (commandline -ct)\n"
                         "    tidings completions --names -- $typed[2..-1] \"$begun\" "
                         "2>/dev/null | "
                         "string match -r '^[A-Za-z0-9_./][A-Za-z0-9._~:/%@+,=-]*$'\n"
                         "end");
    for (size_t i = 0; commands[i]; i++) {
        fish_command(commands[i]);
    }
}

static int completions_put_object(const char *shell, void (*put)(void))
{
    struct tidings_error err = {0};
    struct json_text t;
    char *script = NULL;
    if (json_text_begin(&t)) {
        out = t.out;
        put();
        script = json_text_take(&t);
    }
    if (!script) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        return command_fail("completions", &err, NULL);
    }
    printf("{\"shell\":\"%s\",\"script\":", shell);
    put_quoted(stdout, tidings_str(script));
    puts("}");
    free(script);
    return command_finish("completions");
}

struct completions {
    struct cli cli;
    bool is_names;
};

static int completions_run(struct cli *cli)
{
    static const struct {
        const char *shell;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    if (((struct completions *)cli)->is_names) {
        return completion_names(cli->args, cli->arg_count);
    }
    if (cli->arg_count > 1) {
        return command_misuse("completions", "do not know what to do with", cli->args[1]);
    }
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(cli->args[0], shells[i].shell) != 0) {
            continue;
        }
        if (cli->json) {
            return completions_put_object(shells[i].shell, shells[i].put);
        }
        out = stdout;
        shells[i].put();
        return command_finish("completions");
    }
    return command_misuse("completions", "there are some for bash, zsh and fish, not for",
                          cli->args[0]);
}

static const struct option options[] = {
    {.name = "names",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct completions, is_names),
     .help = "print what a server has that fits a line: for the scripts"},
    {0},
};

const struct command command_completions = {
    .name = "completions",
    .args = "bash|zsh|fish",
    .help = "print the completions of a shell",
    .about =
        "Print a script that completes commands, options, names of servers, and what a server "
        "has.\n"
        "Installing tidings puts it where the shell finds it; otherwise, for the present shell:\n\n"
        "  eval \"$(tidings completions bash)\"\n"
        "  tidings completions zsh >\"${fpath[1]}/_tidings\"\n"
        "  tidings completions fish | source\n\n"
        "What a server has is asked by --names -- COMMAND WORD… PREFIX, the line up to the "
        "cursor: it\n"
        "prints up to 200 URIs, tools or prompts that begin with PREFIX, and ends after 200 ms at "
        "most,\nwith status 0 and without a word. Only servers with a URL are asked, of a "
        "project's file only\nthose you agreed to ('tidings help servers'); nothing is launched. "
        "Names are kept for a minute\n"
        "in ~/.cache/tidings (or in $XDG_CACHE_HOME). TIDINGS_COMPLETE=off asks no server,\n"
        "TIDINGS_COMPLETE=1000 lets it take 1000 ms.\n\n"
        "--json prints an object: shell, script. Names are lines always.\n",
    .options = options,
    .size = sizeof(struct completions),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_SHELL,
    .takes_empty = true,
    .run = completions_run,
};
