/* SPDX-License-Identifier: MIT
 *
 * `tidings token NAME`: make a token. The line for the file of tokens goes to standard output, so
 * that it can be appended there; the token itself to standard error, for whoever it is. With --json
 * both are in one object.
 */
#include <stddef.h>
#include <stdio.h>

#include <tidings/server.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/process.h"

#define SCOPES_MAX 4096

struct token {
    struct cli cli;
    struct words scopes;
};

/* Behind the others, with a blank. False: too long. */
static bool token_add_scope(char *scopes, const char *scope)
{
    size_t len = strlen(scopes);
    int n = snprintf(scopes + len, SCOPES_MAX - len, "%s%s", len > 0 ? " " : "", scope);
    return n > 0 && (size_t)n < SCOPES_MAX - len;
}

/* Who cannot have the line must not have the token either. */
static int put_both(const char *token, const char *line)
{
    printf("%s\n", line);
    int status = command_finish("token");
    if (status == 0 && !ferror(stdout)) {
        fprintf(stderr, "%s\n", token);
    }
    return status;
}

static int token_put_object(const char *name, const struct words *scopes, const char *token,
                            const char *line)
{
    fputs("{\"name\":", stdout);
    put_quoted(stdout, tidings_str(name));
    fputs(",\"scopes\":[", stdout);
    for (size_t i = 0; i < scopes->count; i++) {
        fputs(i > 0 ? "," : "", stdout);
        put_quoted(stdout, tidings_str(scopes->items[i]));
    }
    fputs("],\"token\":", stdout);
    put_quoted(stdout, tidings_str(token));
    fputs(",\"line\":", stdout);
    put_quoted(stdout, tidings_str(line));
    fputs("}\n", stdout);
    return command_finish("token");
}

static int token_run(struct cli *cli)
{
    const struct words *given = &((const struct token *)cli)->scopes;
    char scopes[SCOPES_MAX] = "";
    for (size_t i = 0; i < given->count; i++) {
        if (!token_add_scope(scopes, given->items[i])) {
            return command_misuse("token", "the scopes are too long", NULL);
        }
    }
    struct tidings_error err = {0};
    char *token = NULL, *line = NULL;
    process_has_secrets();
    int rc =
        tidings_token_create(tidings_str(cli->args[0]), tidings_str(scopes), &token, &line, &err);
    if (rc < 0) {
        return command_fail("token", &err, NULL);
    }
    int status =
        cli->json ? token_put_object(cli->args[0], given, token, line) : put_both(token, line);
    explicit_bzero(token, strlen(token));
    tidings_free(token);
    tidings_free(line);
    return status;
}

static const struct option options[] = {
    {.name = "scope",
     .kind = OPTION_LIST,
     .offset = offsetof(struct token, scopes),
     .metavar = "SCOPE",
     .help = "what it allows; may be repeated"},
    {0},
};

const struct command command_token = {
    .name = "token",
    .args = "NAME >>FILE",
    .help = "make a bearer token and its line for a file",
    .about =
        "Make a bearer token for NAME. Standard output gets the line for the file of\n"
        "'tidings serve --auth-tokens FILE', which holds only a hash; standard error gets "
        "the\ntoken itself, this once.\n\n"
        "--json prints an object: name, scopes, token, line. Careful: the token is on standard "
        "output\nthen, not only on standard error.\n",
    .options = options,
    .size = sizeof(struct token),
    .min_args = 1,
    .max_args = 1,
    .run = token_run,
};
