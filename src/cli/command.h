/* SPDX-License-Identifier: MIT
 *
 * What a command of the program is: one row with its name, its options, its arguments and what it
 * does. Parsing, help, suggestions and shell completions follow from the rows, and the manual pages
 * are checked against them. A new command is a `const struct command` in a file of its own and a
 * line in cli/help.c:
 *
 *     struct wait {
 *         struct cli cli; // first
 *         uint64_t count;
 *     };
 *     static int wait_run(struct cli *cli) { struct wait *w = (struct wait *)cli; … }
 *     static const struct option options[] = {
 *         {"count", 'n', OPTION_NUMBER, offsetof(struct wait, count), "N", "end after N", …},
 *         {0},
 *     };
 *     const struct command command_wait = {.name = "wait", .args = "URI…", …, .run = wait_run};
 *
 * The program stands on <tidings/…> and libc alone.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <tidings/types.h>

/* ---- options --------------------------------------------------------------------------------- */

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_FILE,   /* const char *, the name of a file */
    OPTION_NUMBER, /* uint64_t, from min to max */
    OPTION_TIME,   /* uint64_t, ms, from min to max; written as 5, 1.5s, 500ms, 2m or 1h */
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
    size_t given;  /* of a bool there that says that it was given; 0: none */
    const char *metavar;
    const char *help;           /* lower case, no full stop */
    const char *const *choices; /* ends with NULL */
    uint64_t min, max;          /* max 0: any */
    const char *value;          /* the default, as on the command line: the parser stores it and
                                 * --help shows it. NULL: zero */
};

/* ---- commands -------------------------------------------------------------------------------- */

struct tidings_client;

/* Who says which server it is. */
enum target_origin {
    TARGET_NAMED,    /* the line: the first argument, -t, or what is behind "--" */
    TARGET_VARIABLE, /* TIDINGS_SERVER */
    TARGET_DEFAULT,  /* the name "default" in the person's own file */
    TARGET_NOWHERE,  /* nobody: 127.0.0.1:7777 */
};

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
    enum target_origin origin;
    uint64_t timeout_ms;
    const char *token, *token_file;
    struct words headers;
    const char *ca_file, *cert_file, *key_file;
    unsigned era;         /* auto, modern, legacy, or a revision: target.c */
    uint64_t max_message; /* MiB; 0: that of the client */
    const char *answer;   /* of commands that may be asked: --answer, … */
    struct words roots;   /* … and --roots */
    bool login;           /* a person may be asked to log in */
    bool verbose;         /* tell what goes over the wire */
    unsigned log;         /* 0: nothing of the server's log, else from this level on, plus 1 */
    bool list_changes;    /* set by commands that want to be told when lists change */
    bool is_careful; /* set where nobody gave the command: nothing is launched, nobody is asked,
                      * and of servers of projects only those are reached that were agreed to */
};

/* What shells complete an argument with. */
enum arg_kind {
    ARG_ANY,
    ARG_FILE,
    ARG_COMMAND, /* name of a command */
    ARG_SHELL,
    /* what the server has (completions.h): */
    ARG_RESOURCE,  /* the first is a URI */
    ARG_RESOURCES, /* each is */
    ARG_TOOL,      /* the first is the name of a tool */
    ARG_PROMPT,    /* … of a prompt */
    ARG_SKILL,     /* the first is the URI of a skill */
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
    bool takes_empty;            /* its arguments may be empty */
    bool has_target;             /* it talks to a server: first argument, -t, or -- COMMAND */
    bool may_be_asked;           /* … which may ask meanwhile: --answer, --roots (answer.h) */
    const char *refused;         /* a hint when the server refuses what it is given; NULL: none */
    const char *beyond;          /* a hint when something is larger than a limit; NULL: none */
    int (*run)(struct cli *cli); /* the exit status */
    /* Instead of `run`, with a client of its target, see remote.h. A row with none of the three is
     * the name of a group. */
    int (*ask)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);
    /* Instead of `run`, for those that read the configuration of a server: */
    int (*run_raw)(int argc, char **argv);
};

extern const struct command *const commands[]; /* cli/help.c; ends with NULL */

/* The options of a command, one after the other, NULL behind the last. A row of its own hides a
 * common one of the same name. */
enum option_section {
    SECTION_OWN,
    SECTION_QUESTIONS, /* of those that may be asked */
    SECTION_SERVER,    /* of all that talk to one */
    SECTION_OUTPUT,    /* of all that print something */
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

/* Nothing of that name: says so, with the nearest; the exit status. */
int command_unknown(const char *name);

/* The row of those that read the configuration of a server. */
extern const struct option json_options[];

/* -------------------------------------------------------------------------------------------------
 * "Did you mean": the word of a list that is nearest to one that was mistyped.
 */

/* The candidate (NULL-terminated list) at most two edits away from `word`, fewer than it has
 * letters, the nearest; or NULL. */
const char *suggest(const char *word, const char *const *candidates);

/* -------------------------------------------------------------------------------------------------
 * Parses the arguments of a command by its tables of options.
 */

/* Fill the command's struct (which begins with `cli`) from its arguments: 0, or the exit status of
 * a misuse, which it has told. With `help` set nothing else is filled in. options_release in any
 * case. */
int options_parse(struct cli *cli, const struct command *command, int argc, char **argv);
/* Are there as many arguments as it takes, without the server? The same. `server` says which it is
 * for messages; NULL: there is none. */
int options_check(const struct cli *cli, const char *server);
void options_release(struct cli *cli);

/* Is that option among the arguments, before a "--"? For what must be known before they are parsed.
 */
bool options_have(int argc, char **argv, const char *flag);
/* Take it out: was it there? */
bool options_take(int *argc, char **argv, const char *flag);

#endif
