/* SPDX-License-Identifier: MIT
 *
 * Exit statuses of failures, and the messages that say them on standard error.
 */
#include "bin/cli/exit_status.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bin/cli/output.h"

static bool is_json;

void command_fails_in_json(bool is_wanted)
{
    is_json = is_wanted;
}

static void exit_status_put_member(const char *name, const char *text)
{
    fprintf(stderr, "\"%s\":", name);
    put_quoted(stderr, tidings_str(text));
    fputc(',', stderr);
}

static void exit_status_put_line(FILE *out, const char *blank, const char *name, const char *text)
{
    fprintf(out, "tidings%s%s: ", blank, name);
    put_text(out, tidings_str(text)); /* a server may have said it */
}

/* On one line; a terminal is too narrow for most, so there it is broken at blanks. */
static void exit_status_put_sentence(const char *blank, const char *name, const char *text)
{
    struct json_text shown;
    char *sentence = NULL;
    if (is_terminal(stderr) && json_text_begin(&shown)) {
        exit_status_put_line(shown.out, blank, name, text);
        sentence = json_text_take(&shown);
    }
    if (sentence) {
        put_wrapped(stderr, sentence, 0);
    } else {
        exit_status_put_line(stderr, blank, name, text);
    }
    fputc('\n', stderr);
    free(sentence);
}

/* `command` and `hint` may be NULL. */
static int exit_status_tell(const char *command, int code, const char *message, const char *hint)
{
    const char *blank = command ? " " : "", *name = command ? command : "";
    int status = tidings_code_exit(code);
    if (is_json) {
        fputc('{', stderr);
        if (command) {
            exit_status_put_member("command", command);
        }
        exit_status_put_member("error", tidings_code_text(code));
        exit_status_put_member("message", message);
        if (hint) {
            exit_status_put_member("hint", hint);
        }
        fprintf(stderr, "\"status\":%d}\n", status);
        return status;
    }
    exit_status_put_sentence(blank, name, message);
    if (hint) {
        exit_status_put_sentence(blank, name, hint);
    }
    return status;
}

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    return exit_status_tell(command, err->code, err->text, hint);
}

int command_misuse(const char *command, const char *problem, const char *argument)
{
    char message[512], hint[96];
    snprintf(message, sizeof(message), "%s%s%.60s%s", problem, argument ? " '" : "",
             argument ? argument : "", argument ? "'" : "");
    snprintf(hint, sizeof(hint), "see 'tidings help %s'", command);
    return exit_status_tell(command, TIDINGS_E_INVALID, message, hint);
}

/* Has whoever read a pipe gone? */
static bool is_abandoned(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0;
}

int command_finish(const char *command)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || is_abandoned(STDOUT_FILENO)) {
        return 0;
    }
    struct tidings_error err = {TIDINGS_E_IO, ""};
    snprintf(err.text, sizeof(err.text), "cannot write the output%s%s", errno ? ": " : "",
             errno ? strerror(errno) : "");
    return command_fail(command, &err, NULL);
}
