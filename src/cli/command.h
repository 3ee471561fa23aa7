/* SPDX-License-Identifier: MIT
 *
 * A command of the program: one row with its name, options, arguments and function. Parsing, help,
 * suggestions and shell completions follow from the rows, and the manual pages are checked against
 * them. A new command is a `const struct command` in its own file and a line in cli/help.c:
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
 * The program uses only <tidings/…> and libc.
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

/* Strings of the command line, borrowed from it. */
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
    size_t given;  /* offset of a bool that is set if the option was given; 0: none */
    const char *metavar;
    const char *help;           /* lower case, no full stop */
    const char *const *choices; /* ends with NULL */
    uint64_t min, max;          /* max 0: no limit */
    const char *value;          /* default, parsed and shown as on the command line; NULL: zero */
};

/* ---- commands -------------------------------------------------------------------------------- */

struct tidings_client;

/* Where the target was set. */
enum target_origin {
    TARGET_NAMED,    /* the command line: the first argument, -t, or the arguments after "--" */
    TARGET_VARIABLE, /* TIDINGS_SERVER */
    TARGET_DEFAULT,  /* the name "default" in the user's own file */
    TARGET_NOWHERE,  /* not set: 127.0.0.1:7777 */
};

/* The shared part of all command lines: the start of each command's own struct, zeroed before the
 * options are stored. */
struct cli {
    const struct command *command;
    const char **args; /* the arguments except options and the target */
    size_t arg_count;
    char **launch; /* after "--": a server to launch, ends with NULL; or NULL */
    bool json, quiet, help;
    unsigned color; /* auto, always, never */
    /* of commands that talk to a server: */
    const char *target; /* NULL: `launch` is used */
    enum target_origin origin;
    uint64_t timeout_ms;
    const char *token, *token_file;
    struct words headers;
    const char *ca_file, *cert_file, *key_file;
    unsigned era;         /* auto, modern, legacy, or a revision: target.c */
    uint64_t max_message; /* MiB; 0: the client's default */
    const char *answer;   /* of commands that answer questions: --answer, … */
    struct words roots;   /* … and --roots */
    bool login;           /* the user may be asked to log in */
    bool verbose;         /* print the messages on the wire */
    unsigned log;         /* lowest level of the server's log to print, plus 1; 0: none */
    bool list_changes;    /* set by commands that subscribe to list changes */
    /* The user has not submitted the command yet: no server is launched, no question is asked, and
     * a project's server is contacted only if the user agreed to it before. */
    bool is_careful;
};

/* The kind of completions for an argument. */
enum arg_kind {
    ARG_ANY,
    ARG_FILE,
    ARG_COMMAND, /* name of a command */
    ARG_SHELL,
    /* from the server (completions.h): */
    ARG_RESOURCE,  /* the first is a URI */
    ARG_RESOURCES, /* each is */
    ARG_TOOL,      /* the first is the name of a tool */
    ARG_PROMPT,    /* … of a prompt */
    ARG_SKILL,     /* the first is the URI of a skill */
};

struct command {
    const char *name;  /* of a group "entity", and of its members "entity get" */
    const char *args;  /* as the usage shows them, without the target; NULL: none */
    const char *help;  /* one line, lower case, no full stop */
    const char *about; /* paragraphs for --help, with line breaks; ends with a line break */
    const struct option *options; /* besides the common options; NULL: none */
    size_t size;                  /* of its struct; 0: a struct cli */
    unsigned min_args, max_args;  /* without the target */
    enum arg_kind arg_kind;
    bool takes_empty;            /* arguments may be empty strings */
    bool has_target;             /* needs a server: first argument, -t, or -- COMMAND */
    bool may_be_asked;           /* … that may ask questions: --answer, --roots (answer.h) */
    const char *refused;         /* a hint if the server refuses an argument; NULL: none */
    const char *beyond;          /* a hint if a limit is exceeded; NULL: none */
    int (*run)(struct cli *cli); /* returns the exit status */
    /* Instead of `run`, with a client of its target, see remote.h. A row with none of the three is
     * the name of a group. */
    int (*ask)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);
    /* Instead of `run`, for commands that read the configuration of a server: */
    int (*run_raw)(int argc, char **argv);
};

extern const struct command *const commands[]; /* cli/help.c; ends with NULL */

/* The options of a command, one after the other; NULL after the last. A command's own row hides a
 * common row of the same name. */
enum option_section {
    SECTION_OWN,
    SECTION_QUESTIONS, /* of commands that answer questions */
    SECTION_SERVER,    /* of all commands that need a server */
    SECTION_OUTPUT,    /* of all commands that print output */
    SECTION_HELP,
};
struct option_walk {
    const struct command *command; /* set this first; the rest is zeroed */
    enum option_section section;   /* of the returned row */
    size_t next;
};
const struct option *option_next(struct option_walk *walk);

/* The command of that name ("entity get"), or NULL. */
const struct command *command_find(const char *name);
bool command_is_group(const struct command *c);
/* Returns true if the command is a member of the group. */
bool command_is_in(const struct command *c, const struct command *group);

/* Report an unknown command and suggest the nearest one; returns the exit status. */
int command_unknown(const char *name);

/* The row of commands that read the configuration of a server. */
extern const struct option json_options[];

/* -------------------------------------------------------------------------------------------------
 * "Did you mean": the word of a list that is nearest to a mistyped one.
 */

/* The nearest candidate (NULL-terminated list) at most two edits away from `word`, and fewer edits
 * than `word` has letters; or NULL. */
const char *suggest(const char *word, const char *const *candidates);

/* -------------------------------------------------------------------------------------------------
 * Parses the arguments of a command by its tables of options.
 */

/* Fill the command's struct (which begins with `cli`) from its arguments. Returns 0, or the exit
 * status of a usage error, which it has printed. If `help` is set, the other fields are unset. Call
 * options_release in any case. */
int options_parse(struct cli *cli, const struct command *command, int argc, char **argv);
/* Checks the number of arguments, not counting the server. Returns 0, or the exit status of a usage
 * error, which it has printed. `server` names the server in messages; NULL: none. */
int options_check(const struct cli *cli, const char *server);
void options_release(struct cli *cli);

/* Returns true if the arguments contain that option before a "--". For options that are needed
 * before parsing.
 */
bool options_have(int argc, char **argv, const char *flag);
/* Remove the option; returns true if it was present. */
bool options_take(int *argc, char **argv, const char *flag);

#endif
