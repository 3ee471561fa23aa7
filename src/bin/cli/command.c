/* SPDX-License-Identifier: MIT
 *
 * The options that commands share, and finding commands and options in their tables.
 */
#include "bin/cli/command.h"

#include <stddef.h>

static const char *const colors[] = {"auto", "always", "never", NULL};
static const char *const logs[] = {"off",   "debug",    "info",  "notice",    "warning",
                                   "error", "critical", "alert", "emergency", NULL};
static const char *const eras[] = {"auto", "modern", "legacy", TIDINGS_PROTOCOL_VERSIONS, NULL};

#define AT(member) offsetof(struct cli, member)

#define JSON_ROW                                                                                   \
    {                                                                                              \
        .name = "json", .kind = OPTION_FLAG, .offset = AT(json),                                   \
        .help = "print JSON, for programs"                                                         \
    }
const struct option json_options[] = {JSON_ROW, {0}};
static const struct option output_options[] = {
    JSON_ROW,
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .offset = AT(quiet),
     .help = "say nothing but results and failures"},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .offset = AT(color),
     .metavar = "WHEN",
     .help = "colours; auto: on a terminal, unless NO_COLOR is set",
     .choices = colors},
    {0},
};

static const struct option help_options[] = {
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .offset = AT(help),
     .help = "explain the command"},
    {0},
};

static const struct option question_options[] = {
    {.name = "answer",
     .kind = OPTION_TEXT,
     .offset = AT(answer),
     .metavar = "JSON",
     .help = "answer to what the server asks: an object for a form, accept, decline, cancel, or "
             "an array of answers; -, @FILE: from there"},
    {.name = "roots",
     .kind = OPTION_LIST,
     .offset = AT(roots),
     .metavar = "DIR",
     .help = "a directory that the server may know of, as one of the client's roots; may be "
             "repeated"},
    {0},
};

static const struct option target_options[] = {
    {.name = "target",
     .letter = 't',
     .kind = OPTION_TEXT,
     .offset = AT(target),
     .metavar = "SERVER",
     .help = "the server; all arguments are the command's then"},
    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     .offset = AT(verbose),
     .help = "show each message that is sent or comes on standard error"},
    {.name = "log",
     .kind = OPTION_CHOICE,
     .offset = AT(log),
     .metavar = "LEVEL",
     .help = "show what the server logs on standard error, from this level on",
     .choices = logs},
    {.name = "timeout",
     .kind = OPTION_TIME,
     .offset = AT(timeout_ms),
     .metavar = "TIME",
     .help = "how long to wait for an answer",
     .value = "30s",
     .min = 1,
     .max = 86400000},
    {.name = "era",
     .kind = OPTION_CHOICE,
     .offset = AT(era),
     .metavar = "ERA",
     .help = "the revision to speak: as the server does, the newest, or the last with sessions",
     .choices = eras},
    {.name = "token",
     .kind = OPTION_TEXT,
     .offset = AT(token),
     .metavar = "TEXT",
     .help = "bearer token; others on this machine may see it, unlike TIDINGS_TOKEN"},
    {.name = "token-file",
     .kind = OPTION_FILE,
     .offset = AT(token_file),
     .metavar = "FILE",
     .help = "file that holds the token; read for each request, so it may be replaced"},
    {.name = "login",
     .kind = OPTION_FLAG,
     .offset = AT(login),
     .help = "when the server wants a login, or more than the token allows, agree in a browser"},
    {.name = "header",
     .letter = 'H',
     .kind = OPTION_LIST,
     .offset = AT(headers),
     .metavar = "LINE",
     .help = "HTTP: send \"Name: value\" too; may be repeated"},
    {.name = "cacert",
     .kind = OPTION_FILE,
     .offset = AT(ca_file),
     .metavar = "FILE",
     .help = "TLS: accept certificates that come from these (PEM), not from those the system "
             "trusts"},
    {.name = "cert",
     .kind = OPTION_FILE,
     .offset = AT(cert_file),
     .metavar = "FILE",
     .help = "TLS: show this certificate (PEM)"},
    {.name = "key",
     .kind = OPTION_FILE,
     .offset = AT(key_file),
     .metavar = "FILE",
     .help = "TLS: its key, when it is not in the same file"},
    {0},
};

/* Is there a row of the command's own with that name? */
static bool is_hidden(const struct command *c, const char *name)
{
    const struct option *o = c->options;
    while (o && o->name && strcmp(o->name, name) != 0) {
        o++;
    }
    return o && o->name;
}

const struct option *option_next(struct option_walk *w)
{
    const struct command *c = w->command;
    const struct option *tables[] = {
        [SECTION_OWN] = c->options,
        [SECTION_QUESTIONS] = c->may_be_asked ? question_options : NULL,
        [SECTION_SERVER] = c->has_target ? target_options : NULL,
        [SECTION_OUTPUT] = c->run_raw ? NULL : output_options,
        [SECTION_HELP] = help_options,
    };
    while (!command_is_group(c) && w->section <= SECTION_HELP) {
        const struct option *table = tables[w->section];
        if (!table || !table[w->next].name) {
            w->section++;
            w->next = 0;
            continue;
        }
        const struct option *o = &table[w->next++];
        if (w->section == SECTION_OWN || !is_hidden(c, o->name)) {
            return o;
        }
    }
    return NULL;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

bool command_is_group(const struct command *c)
{
    return !c->run && !c->ask && !c->run_raw;
}

bool command_is_in(const struct command *c, const struct command *group)
{
    size_t n = strlen(group->name);
    return strncmp(c->name, group->name, n) == 0 && c->name[n] == ' ';
}
