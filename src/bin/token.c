/* SPDX-License-Identifier: MIT
 *
 * `tidings token NAME`: make a token. The line for the file of tokens goes to standard output, so
 * that it can be appended there; the token itself to standard error, for whoever it is.
 */
#include <stdio.h>

#include <tidings/server.h>

#include "command.h"

#define SCOPES_MAX 4096

/* Behind the others, with a blank. False: too long. */
static bool add_scope(char *scopes, const char *scope)
{
    size_t len = strlen(scopes);
    int n = snprintf(scopes + len, SCOPES_MAX - len, "%s%s", len > 0 ? " " : "", scope);
    return n > 0 && (size_t)n < SCOPES_MAX - len;
}

int command_token(int argc, char **argv)
{
    static const char equals[] = "--scope=";
    const char *name = NULL;
    char scopes[SCOPES_MAX] = "";
    for (int i = 0; i < argc; i++) {
        const char *scope = NULL;
        if (strcmp(argv[i], "--scope") == 0) {
            if (++i == argc) {
                return command_misuse("token", "--scope needs a value", NULL);
            }
            scope = argv[i];
        } else if (strncmp(argv[i], equals, sizeof(equals) - 1) == 0) {
            scope = argv[i] + sizeof(equals) - 1;
        } else if (argv[i][0] == '-') {
            return command_misuse("token", "unknown option", argv[i]);
        } else if (name) {
            return command_misuse("token", "more than one name:", argv[i]);
        } else {
            name = argv[i];
        }
        if (scope && !add_scope(scopes, scope)) {
            return command_misuse("token", "the scopes are too long", NULL);
        }
    }
    if (!name) {
        return command_misuse("token", "whose?", NULL);
    }
    struct tidings_error err = {0};
    char *token = NULL, *line = NULL;
    int rc = tidings_token_create(tidings_str(name), tidings_str(scopes), &token, &line, &err);
    if (rc < 0) {
        return command_fail("token", &err, NULL);
    }
    /* Who cannot have the line must not have the token either. */
    bool ok = printf("%s\n", line) > 0 && fflush(stdout) == 0;
    if (ok) {
        fprintf(stderr, "%s\n", token);
    }
    tidings_free(token);
    tidings_free(line);
    return ok ? 0 : tidings_code_exit(TIDINGS_E_IO);
}

void token_usage(void)
{
    fputs("usage: tidings token NAME [--scope SCOPE]… >>FILE\n\n"
          "Make a bearer token for NAME. Standard output gets the line for the file of\n"
          "'tidings serve --auth-tokens FILE', which holds only a hash; standard error gets the\n"
          "token itself, this once.\n",
          stdout);
}
