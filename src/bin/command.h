/* SPDX-License-Identifier: MIT
 *
 * The command line. Every command is one row: its name, its options, its arguments, what it does.
 * Parsing, help, suggestions and shell completions follow from the rows, and the manual pages are
 * checked against them. A new command is a `const struct command` in a file of its own and a line
 * in commands.c:
 *
 *     struct wait {
 *         struct cli cli; // first
 *         uint64_t count;
 *     };
 *     static int run(struct cli *cli) { struct wait *w = (struct wait *)cli; … }
 *     static const struct option options[] = {
 *         {"count", 'n', OPTION_NUMBER, offsetof(struct wait, count), "N", "end after N", …},
 *         {0},
 *     };
 *     const struct command command_wait = {.name = "wait", .args = "URI…", …, .run = run};
 *
 * The program stands on <tidings/…> and libc alone.
 */
#ifndef BIN_COMMAND_H
#define BIN_COMMAND_H

#include <stdio.h>

#include <tidings/types.h>

/* ---- options --------------------------------------------------------------------------------- */

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_FILE,   /* const char *, the name of a file */
    OPTION_NUMBER, /* uint64_t, from min to max */
    OPTION_TIME,   /* uint64_t, ms, from min to max; written as 5, 5s, 500ms, 2m or 1h */
    OPTION_CHOICE, /* unsigned, an index into choices */
    OPTION_LIST,   /* struct words: the option may be repeated */
};

/* Texts of the command line, borrowed from it. */
#define WORDS_MAX 1000u
struct words {
    const char **items; /* grown by the parser */
    size_t count;
};

struct option {
    const char *name; /* without dashes; NULL ends a table */
    char letter;      /* 'n' for -n; 0: none */
    enum option_kind kind;
    size_t offset; /* in the command's struct */
    const char *metavar;
    const char *help;           /* lower case, no full stop */
    const char *const *choices; /* ends with NULL */
    uint64_t min, max;          /* max 0: any */
    const char *value;          /* what holds without it, for people; NULL: nothing */
};

struct tidings_client;

/* ---- commands -------------------------------------------------------------------------------- */

/* What the command line said, as far as all commands share it: the beginning of each command's own
 * struct, zeroed before the options are put in. */
struct cli {
    const struct command *command;
    const char **args; /* what is neither option nor target */
    size_t arg_count;
    char **launch; /* behind "--": a server to launch, ends with NULL; or NULL */
    bool json, quiet, help;
    unsigned color; /* auto, always, never */
    /* of commands that talk to a server: */
    const char *target; /* NULL: there is `launch` */
    uint64_t timeout_ms;
    const char *token, *token_file;
    struct words headers;
    const char *ca_file, *cert_file, *key_file;
    unsigned era;         /* auto, modern, legacy, or a revision: target.c */
    uint64_t max_message; /* MiB; 0: that of the client */
    bool list_changes;    /* set by commands that want to be told when lists change */
};

/* What shells complete an argument with. */
enum arg_kind {
    ARG_ANY,
    ARG_FILE,
    ARG_COMMAND, /* name of a command */
    ARG_SHELL,
};

struct command {
    const char *name;             /* of a group "entity", and of its members "entity get" */
    const char *args;             /* as the usage shows them, without the target; NULL: none */
    const char *help;             /* one line, lower case, no full stop */
    const char *about;            /* paragraphs for --help, with line breaks, ending with one */
    const struct option *options; /* besides the common ones; NULL: none */
    size_t size;                  /* of its struct; 0: a struct cli */
    unsigned min_args, max_args;  /* without the target */
    enum arg_kind arg_kind;
    bool has_target;             /* it talks to a server: first argument, -t, or -- COMMAND */
    const char *refused;         /* a hint when the server refuses what it is given; NULL: none */
    int (*run)(struct cli *cli); /* the exit status */
    /* Instead of `run`, with a client of its target, see remote.h. A row with none of the three is
     * the name of a group. */
    int (*ask)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);
    /* Instead of `run`, for those that read the configuration of a server: */
    int (*run_raw)(int argc, char **argv);
};

extern const struct command *const commands[]; /* ends with NULL */

/* The options of a command, one after the other, NULL behind the last. A row of its own hides a
 * common one of the same name. */
enum option_section {
    SECTION_OWN,
    SECTION_SERVER, /* of all that talk to one */
    SECTION_OUTPUT, /* of all that print something */
    SECTION_HELP,
};
struct option_walk {
    const struct command *command; /* begin with this; the rest zeroed */
    enum option_section section;   /* of the row that was given */
    size_t next;
};
const struct option *option_next(struct option_walk *walk);

/* The command of that name ("entity get"), or NULL. */
const struct command *command_find(const char *name);
bool command_is_group(const struct command *c);
/* Is it the group's member? */
bool command_is_in(const struct command *c, const struct command *group);

/* ---- their steps ----------------------------------------------------------------------------- */

/* Fill the command's struct (which begins with `cli`) from its arguments: 0, or the exit status of
 * a misuse, which it has told. With `help` set nothing else is settled. cli_release in any case. */
int cli_parse(struct cli *cli, const struct command *command, int argc, char **argv);
void cli_release(struct cli *cli);

/* To standard output. NULL: the program's. */
void help_print(const struct command *command);
/* All names, on `out`. */
void help_usage(FILE *out);
/* The same for programs, as an object. */
void help_json(const struct command *command);
void help_json_exits(void);
/* What an exit status means. False: it is none. */
#define EXIT_TEXT_MAX 256u
bool help_exit(int status, char out[EXIT_TEXT_MAX]);

/* Say what failed and what to do next on standard error, with --json as an object; returns the exit
 * status. `hint` may be NULL. */
int command_fail(const char *command, const struct tidings_error *err, const char *hint);
/* The same for misuse of the command line (exit 64). `argument` may be NULL. */
int command_misuse(const char *command, const char *problem, const char *argument);
/* Nothing of that name: says so, with the nearest. */
int command_unknown(const char *name);
/* Is that option among the arguments, before a "--"? For what must be known before they are parsed.
 */
bool has_flag(int argc, char **argv, const char *flag);
/* Take it out. */
bool take_flag(int *argc, char **argv, const char *flag);
/* The row of those that read the configuration of a server. */
extern const struct option json_options[];

/* ---- helpers --------------------------------------------------------------------------------- */

/* The candidate (NULL-terminated list) at most two edits away from `word`, fewer than it has
 * letters, the nearest; or NULL. */
const char *suggest(const char *word, const char *const *candidates);

/* A URI as it is; a path as file:///absolute/path, with a slash at the end for an existing
 * directory. Free the text. NULL with `err` on failure. */
char *uri_of_argument(const char *argument, struct tidings_error *err);

#endif
