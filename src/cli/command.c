/* SPDX-License-Identifier: MIT
 *
 * The options that commands share, and the lookup of commands and options in their tables.
 */
#include "cli/command.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

/* -------------------------------------------------------------------------------------------------
 * Finds the nearest word by edits (Levenshtein). Words longer than any command are skipped.
 */

#define WORD_MAX 32u

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

static unsigned distance(const char *a, const char *b)
{
    unsigned row[WORD_MAX + 1];
    size_t len = strlen(b);
    for (size_t j = 0; j <= len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= len; j++) {
            unsigned above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
            diagonal = above;
        }
    }
    return row[len];
}

const char *suggest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t len = strlen(word);
    unsigned best_distance = len < 3 ? (unsigned)len : 3; /* part of the word must remain */
    if (len > WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; candidates[i]; i++) {
        unsigned d = strlen(candidates[i]) <= WORD_MAX ? distance(word, candidates[i]) : 3;
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

/* ---------------------------------------------------------------------------------------------- */

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

/* Returns true if the command has its own row of that name. */
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

/* -------------------------------------------------------------------------------------------------
 * Reports a command that does not exist.
 */

int command_unknown(const char *name)
{
    const char *names[128];
    char hint[96] = "'tidings help' lists the commands";
    struct tidings_error err = {TIDINGS_E_INVALID, ""};
    size_t count = 0;
    for (; commands[count] && count + 1 < sizeof(names) / sizeof(names[0]); count++) {
        names[count] = commands[count]->name;
    }
    names[count] = NULL;
    const char *near = suggest(name, names);
    snprintf(err.text, sizeof(err.text), "unknown command '%.60s'%s%s%s", name,
             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (command_is_group(commands[i]) && strncmp(name, names[i], len) == 0 &&
            name[len] == ' ') {
            snprintf(hint, sizeof(hint), "'tidings help %s' lists its commands", names[i]);
        }
    }
    return command_fail(NULL, &err, hint);
}

/* -------------------------------------------------------------------------------------------------
 * Parses the arguments of a command. Options may appear anywhere before "--"; the command line of a
 * server to launch follows it.
 */

struct parsing {
    struct cli *cli;
    int argc, next;
    char **argv;
};

static const struct option *find_name(const struct command *c, const char *name, size_t len)
{
    struct option_walk walk = {.command = c};
    const struct option *o = option_next(&walk);
    while (o && (strncmp(o->name, name, len) != 0 || o->name[len] != '\0')) {
        o = option_next(&walk);
    }
    return o;
}

static const struct option *find_letter(const struct command *c, char letter)
{
    struct option_walk walk = {.command = c};
    const struct option *o = option_next(&walk);
    while (o && o->letter != letter) {
        o = option_next(&walk);
    }
    return o;
}

/* Our name for an option of other programs, or NULL. */
static const char *option_elsewhere(const struct command *c, const char *word)
{
    static const struct {
        const char *command, *word, *ours;
    } known[] = {
        {"tail", "F", "-f"},
        {"tail", "lines", "-n N"},
        {"watch", "until", "--until-first"},
    };
    size_t len = strcspn(word, "=");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].command, c->name) == 0 && strlen(known[i].word) == len &&
            strncmp(known[i].word, word, len) == 0) {
            return known[i].ours;
        }
    }
    return strcmp(c->name, "tail") == 0 && len > 0 && strspn(word, "0123456789") == len ? "-n N"
                                                                                        : NULL;
}

static int unknown_option(const struct command *c, const char *given)
{
    const char *names[128];
    size_t count = 0;
    struct option_walk walk = {.command = c};
    char problem[96] = "unknown option";
    const char *word = given + strspn(given, "-");
    for (const struct option *o; count + 1 < sizeof(names) / sizeof(names[0]);) {
        if ((o = option_next(&walk)) == NULL) {
            break;
        }
        names[count++] = o->name;
    }
    names[count] = NULL;
    const char *near = word[0] && word[1] ? suggest(word, names) : NULL;
    const char *ours = option_elsewhere(c, word);
    if (ours) {
        snprintf(problem, sizeof(problem), "'%s' is what you mean, there is no option", ours);
    } else if (near) {
        snprintf(problem, sizeof(problem), "there is '--%s', but no option", near);
    }
    return command_misuse(c->name, problem, given);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool to_number(const char *text, uint64_t *ret, char **ret_end)
{
    errno = 0;
    if (*text < '0' || *text > '9') {
        return false;
    }
    *ret = strtoull(text, ret_end, 10);
    return errno == 0;
}

/* Digits after a decimal point, at least one and at most nine, in billionths; returns false for
 * anything else. */
static bool to_fraction(const char **at, uint64_t *ret)
{
    uint64_t scale = 1000000000;
    *ret = 0;
    if (**at != '.') {
        return true;
    }
    const char *first = ++*at;
    for (; **at >= '0' && **at <= '9' && scale > 1; ++*at) {
        scale /= 10;
        *ret += (uint64_t)(**at - '0') * scale;
    }
    return *at > first;
}

/* Rounded up to milliseconds, so that no positive time becomes 0. */
static bool to_time(const char *text, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"ms", 1}, {"", 1000}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    uint64_t n, billionths;
    if (!to_number(text, &n, &end)) {
        return false;
    }
    const char *unit = end;
    if (!to_fraction(&unit, &billionths)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        uint64_t ms = units[i].ms, range = (billionths * ms + 999999999) / 1000000000;
        if (strcmp(unit, units[i].unit) == 0 && n <= (UINT64_MAX - range) / ms) {
            *ret = n * ms + range;
            return ms > 1 || *end != '.';
        }
    }
    return false;
}

/* In the usual form: 24h, 500ms. */
static const char *time_text(uint64_t ms, char out[32])
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;
    while (ms % units[i].ms != 0) {
        i++;
    }
    snprintf(out, 32, "%llu%s", (unsigned long long)(ms / units[i].ms), units[i].unit);
    return out;
}

/* "--count takes a number from 1 on, not 'x'" */
static int options_refuse(const struct command *c, const struct option *o, const char *value)
{
    char problem[320];
    int n = snprintf(problem, sizeof(problem), "--%s takes ", o->name);
    size_t at = n > 0 ? (size_t)n : 0;
    if (o->kind == OPTION_CHOICE) {
        snprintf(problem + at, sizeof(problem) - at, "%s", "");
        for (size_t i = 0; o->choices[i] && at < sizeof(problem); i++) {
            n = snprintf(problem + at, sizeof(problem) - at, "%s%s",
                         i == 0              ? ""
                         : o->choices[i + 1] ? ", "
                                             : " or ",
                         o->choices[i]);
            at += n > 0 ? (size_t)n : 0;
        }
        at = at < sizeof(problem) ? at : sizeof(problem) - 1;
        snprintf(problem + at, sizeof(problem) - at, ", not");
    } else if (o->kind == OPTION_TIME) {
        char least[32], most[32];
        snprintf(problem + at, sizeof(problem) - at,
                 "a time from %s to %s, such as 5s, 1.5s, 500ms or 2m, not",
                 time_text(o->min, least), time_text(o->max, most));
    } else if (o->kind != OPTION_NUMBER) {
        snprintf(problem + at, sizeof(problem) - at, "%s, and must not be empty:", o->metavar);
    } else if (o->max > 0) {
        snprintf(problem + at, sizeof(problem) - at, "a number from %llu to %llu, not",
                 (unsigned long long)o->min, (unsigned long long)o->max);
    } else {
        snprintf(problem + at, sizeof(problem) - at, "a number from %llu on, not",
                 (unsigned long long)o->min);
    }
    return command_misuse(c->name, problem, value);
}

static int words_add(const struct command *c, struct words *w, const char *text)
{
    if (w->count == WORDS_MAX) {
        return command_misuse(c->name, "too many arguments, from here on:", text);
    }
    if (!w->items) {
        w->items = calloc(WORDS_MAX, sizeof(*w->items));
    }
    if (!w->items) {
        struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
        return command_fail(c->name, &err, NULL);
    }
    w->items[w->count++] = text;
    return 0;
}

static int take_choice(const struct command *c, const struct option *o, unsigned *ret,
                       const char *value)
{
    for (unsigned i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], value) == 0) {
            *ret = i;
            return 0;
        }
    }
    return options_refuse(c, o, value);
}

/* Parse the value into the command's struct: 0, or the exit status of a usage error. */
static int options_store(struct cli *cli, const struct option *o, const char *value)
{
    const struct command *c = cli->command;
    void *place = (char *)cli + o->offset;
    uint64_t n = 0;
    char *end = NULL;
    bool is_good = true;
    bool is_text = o->kind == OPTION_TEXT || o->kind == OPTION_FILE || o->kind == OPTION_LIST;
    if (is_text && value[0] == '\0') {
        return options_refuse(c, o, value); /* most likely an unset variable */
    }
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)place = true;
        return 0;
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)place = value;
        return 0;
    case OPTION_CHOICE:
        return take_choice(c, o, place, value);
    case OPTION_LIST:
        return words_add(c, place, value);
    case OPTION_NUMBER:
        is_good = to_number(value, &n, &end) && *end == '\0';
        break;
    case OPTION_TIME:
        is_good = to_time(value, &n);
        break;
    }
    if (!is_good || n < o->min || (o->max > 0 && n > o->max)) {
        return options_refuse(c, o, value);
    }
    *(uint64_t *)place = n;
    return 0;
}

static int take_value(struct parsing *p, const struct option *o, const char *value)
{
    if (o->given > 0) {
        *((bool *)((char *)p->cli + o->given)) = true;
    }
    return options_store(p->cli, o, value);
}

/* ---- the line -------------------------------------------------------------------------------- */

static int next_value(struct parsing *p, const struct option *o)
{
    if (p->next == p->argc || strcmp(p->argv[p->next], "--") == 0) {
        char name[64];
        snprintf(name, sizeof(name), "--%s", o->name);
        return command_misuse(p->cli->command->name, "a value is missing behind", name);
    }
    return take_value(p, o, p->argv[p->next++]);
}

static int take_long(struct parsing *p, const char *given)
{
    const struct command *c = p->cli->command;
    size_t len = strcspn(given + 2, "=");
    const char *value = given[2 + len] == '=' ? given + 2 + len + 1 : NULL;
    const struct option *o = len > 0 ? find_name(c, given + 2, len) : NULL;
    if (!o) {
        return unknown_option(c, given);
    }
    if (o->kind == OPTION_FLAG && value) {
        return command_misuse(c->name, "takes no value:", given);
    }
    return value || o->kind == OPTION_FLAG ? take_value(p, o, value) : next_value(p, o);
}

/* -R, -Rl, -n5, -n 5 */
static int take_letters(struct parsing *p, const char *given)
{
    int status = 0;
    for (const char *at = given + 1; *at && status == 0; at++) {
        const struct option *o = find_letter(p->cli->command, *at);
        if (!o) {
            return unknown_option(p->cli->command, given);
        }
        if (o->kind != OPTION_FLAG) {
            return at[1] ? take_value(p, o, at + 1) : next_value(p, o);
        }
        status = take_value(p, o, NULL);
    }
    return status;
}

int options_check(const struct cli *cli, const char *server)
{
    const struct command *c = cli->command;
    char problem[320];
    if (cli->arg_count > c->max_args) {
        bool is_named = !server || cli->origin == TARGET_NAMED;
        if (!is_named && c->max_args == 0 && strstr(cli->args[0], "://")) {
            return command_misuse(c->name,
                                  "a server is a name, or at https://…, http://…, wss://…, ws://…, "
                                  "tls://…, tcp://…, unix:…, http+unix:…, not",
                                  cli->args[0]);
        }
        snprintf(problem, sizeof(problem), "%s%sdo not know what to do with",
                 is_named ? "" : server, is_named ? "" : "; ");
        return command_misuse(c->name, problem, cli->args[c->max_args]);
    }
    if (cli->arg_count < c->min_args) {
        snprintf(problem, sizeof(problem), "needs %s%s%s", c->args, server ? "; " : "",
                 server ? server : "");
        return command_misuse(c->name, problem, NULL);
    }
    for (size_t i = 0; i < cli->arg_count && !c->takes_empty; i++) {
        if (cli->args[i][0] == '\0') {
            snprintf(problem, sizeof(problem), "takes %s, and argument %zu is empty:", c->args,
                     i + 1);
            return command_misuse(c->name, problem, cli->args[i]);
        }
    }
    return 0;
}

/* The default that --help shows is the effective one: it is parsed like a value on the command
 * line. */
static int put_defaults(struct cli *cli)
{
    struct option_walk walk = {.command = cli->command};
    int status = 0;
    for (const struct option *o; status == 0 && (o = option_next(&walk)) != NULL;) {
        status = o->value ? options_store(cli, o, o->value) : 0;
    }
    return status;
}

int options_parse(struct cli *cli, const struct command *command, int argc, char **argv)
{
    struct parsing p = {.cli = cli, .argc = argc, .argv = argv};
    struct words args = {0};
    cli->command = command;
    int status = put_defaults(cli);
    while (p.next < argc && status == 0 && !cli->help) {
        const char *a = argv[p.next++];
        if (strcmp(a, "--") == 0 && command->has_target) {
            cli->launch = argv + p.next;
            break;
        }
        if (strcmp(a, "--") == 0) {
            while (p.next < argc && status == 0) {
                status = words_add(command, &args, argv[p.next++]);
            }
        } else if (strncmp(a, "--", 2) == 0) {
            status = take_long(&p, a);
        } else if (a[0] == '-' && a[1] != '\0') {
            status = take_letters(&p, a);
        } else {
            status = words_add(command, &args, a);
        }
    }
    cli->args = args.items;
    cli->arg_count = args.count;
    if (status != 0 || cli->help) {
        return status;
    }
    if (cli->launch && !cli->launch[0]) {
        return command_misuse(command->name, "a command is missing behind", "--");
    }
    if (cli->launch && cli->target) {
        return command_misuse(command->name,
                              "give a target or a command after '--', not both:", cli->target);
    }
    return 0;
}

void options_release(struct cli *cli)
{
    struct option_walk walk = {.command = cli->command};
    for (const struct option *o; (o = option_next(&walk)) != NULL;) {
        if (o->kind == OPTION_LIST) {
            free(((struct words *)((char *)cli + o->offset))->items);
        }
    }
    free(cli->args);
}

/* ---- before parsing -------------------------------------------------------------------------- */

bool options_have(int argc, char **argv, const char *flag)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], flag) == 0) {
            return true;
        }
    }
    return false;
}

bool options_take(int *argc, char **argv, const char *flag)
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
